//! The command `replay`: sends the operations of a recording to a target again and reports how long
//! they took and which answers differ.
//!
//! Promises: constant memory however long the recording; a folder like that of any run; what ended
//! early is still reported. Files: `source` reads ahead, `scheduler` keeps the time, `sender`
//! sends,
//! `counts` counts.

mod arguments;
mod command;
mod counts;
mod execute;
mod outcome;
mod scheduler;
mod sender;
mod source;
mod summary;

pub(crate) use arguments::ReplayArguments;
pub(crate) use execute::run;
