//! A MongoDB server as target, through the official driver.

mod changes;
mod check;
mod facts;
mod records;
mod reply;
mod search;
mod session;
mod settings;
mod statements;
mod target;
mod transaction;
mod tree;

pub(crate) use reply::{integer, one_line};
pub(crate) use settings::MongoSettings;
pub(crate) use target::MongoTarget;
