//! The requests that a standby accepts from clients: reads that allow a secondary. It accepts
//! writes only from the program that follows the primary. Must not know: what commands do.

use auth::{Action, Target};
use context::connection::Connection;
use model::{Result, bail, code};
use request::generic::Generic;
use request::spec::{Spec, flag};
use state::service::Service;

/// The application name of the program that follows the primary.
const FOLLOWER: &str = "quarry follow";
/// Commands that read data. A standby answers them only when the client allows a secondary.
const OF_PRIMARY: &[&str] = &[
    "aggregate",
    "collStats",
    "count",
    "dbHash",
    "dbStats",
    "distinct",
    "explain",
    "find",
    "listCollections",
    "listDatabases",
    "listIndexes",
    "mapReduce",
];

/// Whether the connection is that of the program that follows the primary: by its application name
/// and, with access control, by its rights.
pub(super) fn is_follower(service: &Service, conn: &Connection) -> bool {
    let access = &service.access;
    let may = || {
        let rights = conn.identity.rights(access);
        rights.allows(Target::Cluster, &[Action::BypassWriteBlockingMode])
    };
    conn.info.application().as_deref() == Some(FOLLOWER) && (!access.is_enabled() || may())
}

/// Refuses the requests that a standby does not accept from clients.
///
/// # Errors
/// 10107 NotWritablePrimary, 13435 NotPrimaryNoSecondaryOk.
pub(super) fn refuse(command: &Spec, writes: bool, generic: &Generic<'_>) -> Result<()> {
    if writes || command.is(flag::WRITE) || generic.start_transaction {
        bail!(code::NOT_WRITABLE_PRIMARY, "not primary");
    }
    if OF_PRIMARY.contains(&command.name) && !generic.secondary_ok {
        bail!(
            code::NOT_PRIMARY_NO_SECONDARY_OK,
            "not primary and secondaryOk=false"
        );
    }
    Ok(())
}
