//! One file per command; small ones of a kind share one. Each exports `COMMANDS`, joined in
//! `crate::registry`. Must not know: the dispatcher, which other commands there are.

pub(crate) mod admin;
pub(crate) mod aggregate;
pub(crate) mod build_info;
pub(crate) mod bulk_write;
pub(crate) mod capped;
pub(crate) mod check;
pub(crate) mod cluster_parameter;
pub(crate) mod coll_mod;
pub(crate) mod count;
pub(crate) mod create;
pub(crate) mod distinct;
pub(crate) mod drop;
pub(crate) mod encryption;
pub(crate) mod explain;
pub(crate) mod fail_point;
pub(crate) mod fcv;
pub(crate) mod file_md5;
pub(crate) mod find;
pub(crate) mod get_more;
pub(crate) mod hello;
pub(crate) mod indexes;
pub(crate) mod insert;
pub(crate) mod list;
pub(crate) mod map_reduce;
pub(crate) mod modify;
pub(crate) mod operations;
pub(crate) mod parameter;
pub(crate) mod ping;
pub(crate) mod plan_cache;
pub(crate) mod replication;
pub(crate) mod server_status;
pub(crate) mod session;
pub(crate) mod stats;
pub(crate) mod status;
pub(crate) mod transaction;
