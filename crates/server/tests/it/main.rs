//! The network layer on live sockets, with a toy handler in place of the commands.
mod backup;
mod basic;
mod client;
mod convert;
mod deploy;
mod driver;
mod encryption;
mod engines;
#[cfg(feature = "follow")]
mod follow;
mod hostile;
mod journal_wait;
mod lifecycle;
mod logging;
mod memory;
mod monitoring;
mod otlp;
mod process;
mod retry;
mod schedules;
mod scripting;
mod strangers;
mod tailing;
mod tls;
mod toy;
mod vault;
mod waiting;
