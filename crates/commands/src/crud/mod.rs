//! Reading and writing documents: the checked arguments of commands (`args`) and the execution of
//! writes. Must not know: replies, the table of commands.

pub mod args;
pub(crate) mod change;
pub(crate) mod done;
pub(crate) mod measurements;
pub(crate) mod selector;
mod series_update;
pub(crate) mod statement;
mod touched;
pub(crate) mod write_batch;
