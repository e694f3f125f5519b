//! The table of all commands, composed from the files of `cmd`. Names are case-sensitive.

use crate::cmd;
use context::command::Command;
use context::ddl::temporary;
use dispatch::Dispatcher;
use model::Doc;
use query::stages::TABLE;
use request::spec::flag;
use state::replica_set;
use state::service::Service;
use std::sync::Arc;

/// Commands that MongoDB has and this server does not. Only their names are known; they are
/// answered with 238 NotImplemented. Commands of the router, of the Enterprise edition and of test
/// builds are not listed: a member of a replica set does not know them either (59).
pub static NOT_BUILT: &[&str] = &[
    "analyze",
    "analyzeShardKey",
    "configureQueryAnalyzer",
    "coordinateCommitTransaction",
    "getShardMap",
    "getShardVersion",
    "internalRenameIfOptionsAndIndexesMatch",
    "prepareTransaction",
    "replSetHeartbeat",
    "replSetStepDownWithForce",
    "replSetUpdatePosition",
    "splitVector",
    "whatsmysni",
];

/// Every command, family by family.
pub fn all() -> impl Iterator<Item = &'static Command> + Clone {
    cmd::FAMILIES.iter().flat_map(|f| f.iter())
}

/// Whether a client may send a command again, to this server or to its successor, when it does not
/// know whether the command was executed: the command changes nothing, or its transaction number
/// identifies the retry.
pub fn may_be_sent_again(name: &str, body: Doc<'_>) -> bool {
    let named = |c: &&Command| c.spec.name == name || c.spec.aliases.contains(&name);
    let Some(spec) = all().find(named).map(|c| &c.spec) else {
        return false;
    };
    if body.contains("txnNumber") {
        return match body.contains("autocommit") {
            true => spec.is(flag::ENDS_TRANSACTION),
            false => spec.is(flag::RETRYABLE),
        };
    }
    let reads = spec.is(flag::ENDS_WITH_CLIENT | flag::NO_AUTH);
    let pipeline = body.field("pipeline").as_array();
    let stores = body.contains("out") || pipeline.is_some_and(|p| TABLE.stores(p));
    reads && !spec.is(flag::WRITE | flag::OF_CURSOR) && !stores
}

/// A dispatcher of all commands over a service. Drops the temporary collections that an earlier
/// process has left behind.
pub fn dispatcher(service: Arc<Service>) -> Dispatcher {
    if let Err(e) = temporary::sweep(&service) {
        let reason = e.message();
        service.log(
            'W',
            "STORAGE",
            &format!("temporary collections of an earlier run could not be dropped: {reason}"),
        );
    }
    if let Err(e) = replica_set::show(&service) {
        let reason = e.message();
        let message = format!("local.system.replset could not be written: {reason}");
        service.log('W', "REPL", &message);
    }
    Dispatcher::new(service, all(), NOT_BUILT)
}

/// A dispatcher of all commands over a service whose data another server writes. It changes nothing
/// at the start.
pub fn reading_dispatcher(service: Arc<Service>) -> Dispatcher {
    Dispatcher::new(service, all(), NOT_BUILT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use request::spec::{Durability, Privilege};

    #[test]
    fn names_are_unique_and_disjoint_from_what_is_not_built() {
        let mut seen = std::collections::BTreeSet::new();
        let built = all()
            .map(|c| &c.spec)
            .flat_map(|c| std::iter::once(c.name).chain(c.aliases.iter().copied()));
        for name in built.chain(NOT_BUILT.iter().copied()) {
            assert!(seen.insert(name), "{name} stands twice");
        }
    }

    #[test]
    fn commands_sent_again_write_nothing_or_have_a_transaction_number() {
        for (again, body) in [
            (true, model::doc! { "find": "c" }),
            (true, model::doc! { "hello": 1i32 }),
            (
                true,
                model::doc! { "aggregate": "c", "pipeline": [{ "$match": {} }] },
            ),
            (true, model::doc! { "insert": "c", "txnNumber": 1i64 }),
            (
                true,
                model::doc! { "commitTransaction": 1i32, "txnNumber": 1i64, "autocommit": false },
            ),
            (false, model::doc! { "insert": "c" }),
            (
                false,
                model::doc! { "find": "c", "txnNumber": 1i64, "autocommit": false },
            ),
            (
                false,
                model::doc! { "insert": "c", "txnNumber": 1i64, "autocommit": false },
            ),
            (
                false,
                model::doc! { "aggregate": "c", "pipeline": [{ "$out": "d" }] },
            ),
            (
                false,
                model::doc! { "aggregate": "c", "pipeline": [{ "$merge": "d" }] },
            ),
            (false, model::doc! { "mapReduce": "c", "out": "d" }),
            (false, model::doc! { "getMore": 1i64, "collection": "c" }),
            (false, model::doc! { "drop": "c" }),
            (false, model::doc! { "nothing": 1i32 }),
        ] {
            let (name, _) = body.doc().first().unwrap();
            assert_eq!(may_be_sent_again(name, body.doc()), again, "{body:?}");
        }
    }

    #[test]
    fn tables_are_sound() {
        for c in all().map(|c| &c.spec) {
            let mut names = std::collections::BTreeSet::new();
            for a in c.args {
                assert!(
                    names.insert(a.name) && a.name != c.name,
                    "{}.{} twice",
                    c.name,
                    a.name
                );
            }
            assert!(!c.help.is_empty() && !c.help.ends_with('.'), "{}", c.name);
            let harmless = matches!(c.privilege, Privilege::Any);
            // The statements of a transaction were authorized when they ran.
            let writes = c.is(flag::WRITE) && !c.is(flag::ENDS_TRANSACTION);
            assert!(!(writes && harmless), "{} writes", c.name);
            assert!(
                !c.is(flag::NO_AUTH) || matches!(c.privilege, Privilege::Any),
                "{} is open to all",
                c.name
            );
            assert!(
                !c.is(flag::RETRYABLE) || c.durability == Durability::OwnWrites,
                "{} is written twice",
                c.name
            );
        }
    }
}
