//! What commands need that their row alone cannot say, because it depends on their arguments. Every
//! occurrence of an argument counts, so that a field given twice cannot hide one.

pub(crate) mod asked;
mod data;
mod pipeline;
mod server;
mod users;

pub(crate) use data::*;
pub(crate) use pipeline::aggregate;
pub(crate) use server::*;
pub(crate) use users::*;
