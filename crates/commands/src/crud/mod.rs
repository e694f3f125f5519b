//! Reading and writing documents: the checked arguments of commands (`args`) and the execution of
//! writes. Must not know: replies, the table of commands.

pub mod args;
pub(crate) mod capped;
pub(crate) mod change;
pub(crate) mod collection;
pub(crate) mod document_id;
pub(crate) mod done;
pub(crate) mod measurements;
pub(crate) mod selector;
pub(crate) mod statement;
mod touched;
pub(crate) mod validator;
pub(crate) mod write_batch;
