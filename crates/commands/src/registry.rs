//! Every command on one line each. Names are case-sensitive.

use crate::args::{Arg, Kind};
use crate::cmd;
use crate::ctx::Ctx;
use crate::request::Outcome;
use model::Result;
use rustc_hash::FxHashMap;
use std::sync::LazyLock;

/// Properties of commands, to be joined with `|`.
pub mod flag {
    /// Only against the database `admin` (13 otherwise).
    pub const ADMIN: u32 = 1;
    /// Takes a write concern (72 otherwise).
    pub const WRITE_CONCERN: u32 = 1 << 1;
    /// Takes read concern levels other than local (72 otherwise).
    pub const READ_CONCERN: u32 = 1 << 2;
    /// Part of API version 1.
    pub const API_V1: u32 = 1 << 3;
    /// May run before authentication.
    pub const NO_AUTH: u32 = 1 << 4;
    /// Unknown fields are ignored: the command is parsed by hand in MongoDB too.
    pub const LENIENT: u32 = 1 << 5;
    /// May take long; worth listing in currentOp and the slow log.
    pub const LONG: u32 = 1 << 6;
    /// Writes.
    pub const WRITE: u32 = 1 << 7;
    /// Does not appear in currentOp and does not count as an operation.
    pub const QUIET: u32 = 1 << 8;
    /// Only reads, so that it may end when its client has gone.
    pub const ENDS_WITH_CLIENT: u32 = 1 << 9;
}

/// Which of the operation counters a command moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum OpClass {
    Insert,
    Query,
    Update,
    Delete,
    GetMore,
    Command,
}

/// One command.
pub struct Command {
    /// Name.
    pub name: &'static str,
    /// Other names.
    pub aliases: &'static [&'static str],
    /// One line for `listCommands`.
    pub help: &'static str,
    /// Accepted types of the command's own field.
    pub value: Kind,
    /// The table of arguments.
    pub args: &'static [Arg],
    /// See [`flag`].
    pub flags: u32,
    /// Operation counter.
    pub class: OpClass,
    /// Does it. Writes the fields of the reply except `ok`.
    pub run: fn(&mut Ctx<'_, '_>) -> Result<Outcome>,
}

impl Command {
    /// True when the flag is set.
    pub fn is(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }
}

/// All commands, family by family.
pub static FAMILIES: &[&[Command]] = &[
    cmd::admin::COMMANDS,
    cmd::aggregate::COMMANDS,
    cmd::build_info::COMMANDS,
    cmd::bulk_write::COMMANDS,
    cmd::capped::COMMANDS,
    cmd::check::COMMANDS,
    cmd::cluster_parameter::COMMANDS,
    cmd::coll_mod::COMMANDS,
    cmd::count::COMMANDS,
    cmd::create::COMMANDS,
    cmd::distinct::COMMANDS,
    cmd::drop::COMMANDS,
    cmd::encryption::COMMANDS,
    cmd::explain::COMMANDS,
    cmd::fail_point::COMMANDS,
    cmd::fcv::COMMANDS,
    cmd::file_md5::COMMANDS,
    cmd::find::COMMANDS,
    cmd::get_more::COMMANDS,
    cmd::hello::COMMANDS,
    cmd::indexes::COMMANDS,
    cmd::insert::COMMANDS,
    cmd::list::COMMANDS,
    cmd::map_reduce::COMMANDS,
    cmd::modify::COMMANDS,
    cmd::operations::COMMANDS,
    cmd::parameter::COMMANDS,
    cmd::ping::COMMANDS,
    cmd::plan_cache::COMMANDS,
    cmd::replication::COMMANDS,
    cmd::server_status::COMMANDS,
    cmd::session::COMMANDS,
    cmd::stats::COMMANDS,
    cmd::status::COMMANDS,
];

/// What MongoDB has and we have not: names only, answered by 238 NotImplemented.
pub static NOT_BUILT: &[&str] = &[
    "abortReshardCollection", "abortTransaction", "abortUnshardCollection", "analyze", "analyzeShardKey", "appendOplogNote", "applyOps",
    "authenticate", "cleanupStructuredEncryptionData", "clearJumboFlag",
    "commitTransaction", "configureCollectionBalancing", "configureQueryAnalyzer",
    "coordinateCommitTransaction", "createRole", "createSearchIndexes", "createUser", "dropAllRolesFromDatabase",
    "dropAllUsersFromDatabase", "dropConnections", "dropRole", "dropSearchIndex", "dropUser", "getAuditConfig", "getShardMap",
    "getShardVersion", "grantPrivilegesToRole", "grantRolesToRole", "grantRolesToUser", "internalRenameIfOptionsAndIndexesMatch",
    "listSearchIndexes", "oidcListKeys", "oidcRefreshKeys", "pinHistoryReplicated", "prepareTransaction",
    "reapLogicalSessionCacheNow", "refreshLogicalSessionCacheNow", "removeQuerySettings", "replSetAbortPrimaryCatchUp",
    "replSetFreeze", "replSetHeartbeat", "replSetMaintenance", "replSetReconfig", "replSetResizeOplog", "replSetStepDown",
    "replSetStepDownWithForce", "replSetStepUp", "replSetSyncFrom", "replSetUpdatePosition", "revokePrivilegesFromRole",
    "revokeRolesFromRole", "revokeRolesFromUser", "saslContinue", "saslStart", "setAllowMigrations", "setAuditConfig",
    "setCommittedSnapshot", "setIndexCommitQuorum", "setQuerySettings", "setUserWriteBlockMode", "shutdown", "splitVector",
    "updateRole", "updateSearchIndex", "updateUser", "waitForFailPoint", "whatsmysni",
];

static BY_NAME: LazyLock<FxHashMap<&'static str, (usize, &'static Command)>> = LazyLock::new(|| {
    let mut map = FxHashMap::default();
    for (i, command) in all().enumerate() {
        for name in std::iter::once(command.name).chain(command.aliases.iter().copied()) {
            map.insert(name, (i, command));
        }
    }
    map
});

/// Every command in registry order.
pub fn all() -> impl Iterator<Item = &'static Command> {
    FAMILIES.iter().flat_map(|f| f.iter())
}

/// The command of this name or alias, with its number in registry order.
pub fn find(name: &str) -> Option<(usize, &'static Command)> {
    BY_NAME.get(name).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_disjoint_from_what_is_not_built() {
        let mut seen = std::collections::BTreeSet::new();
        let built = all().flat_map(|c| std::iter::once(c.name).chain(c.aliases.iter().copied()));
        for name in built.chain(NOT_BUILT.iter().copied()) {
            assert!(seen.insert(name), "{name} stands twice");
        }
    }

    #[test]
    fn tables_are_sound() {
        for c in all() {
            let mut names = std::collections::BTreeSet::new();
            for a in c.args {
                assert!(names.insert(a.name) && a.name != c.name, "{}.{} twice", c.name, a.name);
            }
            assert!(!c.help.is_empty() && !c.help.ends_with('.'), "{}", c.name);
        }
    }
}
