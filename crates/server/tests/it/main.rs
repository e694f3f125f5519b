//! The network layer on live sockets, with a toy handler in place of the commands.
mod basic;
mod client;
mod convert;
mod driver;
mod encryption;
mod hostile;
mod lifecycle;
mod logging;
mod memory;
mod process;
mod retry;
mod schedules;
mod scripting;
mod tailing;
mod tls;
mod toy;
mod waiting;
