//! Load on other machines: what the lab and agents that were started with `--load` say to each
//! other, on both sides.
//!
//! Promises: nothing is read or obeyed that was not sealed by who knows the token; messages are
//! bounded in size and time; an agent reads no file that the network names. Must not know: how a
//! step is run (that is `run`'s).

mod channel;
mod clock;
mod fleet;
mod message;
mod server;

pub(crate) use fleet::{Event, Fleet, SILENT_MAX};
pub(crate) use message::{
    Buckets, ClientReport, Ended, FromAgent, Job, RoleEnd, RoleTick, StepOrder, TICK,
    TICKS_PER_INTERVAL, Tick, ToAgent,
};
pub(crate) use server::{Link, LoadService, MakeLoad, ToLab};

/// What must be equal on both sides: the version, and that of these messages.
pub(crate) const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "/1");
