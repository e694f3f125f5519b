//! A MongoDB server as target, through the official driver.

mod facts;
mod reply;
mod session;
mod statements;
mod target;

pub(crate) use reply::{integer, one_line};
pub(crate) use target::MongoTarget;
