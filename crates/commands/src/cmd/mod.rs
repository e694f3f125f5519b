//! One file per command; tiny siblings share one. Each exports `COMMANDS`, joined in
//! `registry::FAMILIES`.

use crate::dispatch::args::{Arg, Kind};
use crate::dispatch::command::{Command, Durability, OpClass, Privilege, flag};
use crate::dispatch::ctx::Ctx;
use crate::dispatch::request::Outcome;
use crate::release::{
    FCV, MESSAGE_BYTES_MAX, SESSION_TIMEOUT_MINUTES, VERSION, VERSION_PARTS, WIRE_VERSION_MAX,
    WRITE_BATCH_MAX,
};
use model::Result;

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

/// A command of class `Command` whose own value may be anything. What its reply waits for follows
/// from the concerns it takes, unless its row says otherwise.
const fn command(
    name: &'static str,
    help: &'static str,
    privilege: Privilege,
    flags: u32,
    args: &'static [Arg],
    run: fn(&mut Ctx<'_, '_>) -> Result<Outcome>,
) -> Command {
    let durability = if flags & flag::WRITE_CONCERN != 0 {
        Durability::Everything
    } else if flags & flag::READ_CONCERN != 0 {
        Durability::Reads
    } else {
        Durability::Nothing
    };
    Command {
        name,
        aliases: &[],
        help,
        privilege,
        value: Kind::Any,
        args,
        flags,
        class: OpClass::Command,
        durability,
        no_collection: "$cmd",
        run,
    }
}
