//! Load on other machines: what the lab and agents that were started with `--load` say to each
//! other, on both sides.
//!
//! Promises: it reads and obeys only messages that were encrypted by a lab that knows the token;
//! messages are bounded in size and time; an agent reads no file that the network names. Must not
//! know: how a step is run (`run` does).

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

/// The version that must be equal on both sides: the lab's, and that of these messages.
pub(crate) const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "/1");
