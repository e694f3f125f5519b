//! Load on other machines: both sides of the protocol between the lab and agents that were started
//! with `--load`.
//!
//! Promises: an agent accepts only messages that a lab with the token has encrypted; messages are
//! bounded in size and time; an agent reads no file that a message names. Must not know: how a step
//! is run (`run` does).

mod channel;
mod clock;
mod fleet;
mod message;
mod server;

pub(crate) use fleet::{Event, Fleet, SILENT_MAX};
pub(crate) use message::{
    AgentMessage, Buckets, ClientReport, Job, LabMessage, RoleEnd, RoleTick, StepOrder, StepTotals,
    TICK, TICKS_PER_INTERVAL, Tick,
};
pub(crate) use server::{Link, LoadService, MakeLoad, ToLab};

/// The version of the lab and of these messages, which must be equal on both sides.
pub(crate) const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "/1");
