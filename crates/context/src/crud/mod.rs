//! Reading and writing documents: the checked arguments of commands (`args`) and the execution of
//! writes. Must not know: replies, the table of commands.

pub mod args;
pub mod change;
pub mod done;
pub mod measurements;
pub mod selector;
mod series_update;
pub mod statement;
mod touched;
pub mod write_batch;
