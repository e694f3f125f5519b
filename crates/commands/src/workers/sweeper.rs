//! Frees the space of dropped collections and indexes if the engine has not done so; after the
//! start also that of documents and index entries that belong to nothing in the catalog. Ends what
//! other servers have begun that are not alive any more.

use super::worker::{Class, NextRound, Scope, Worker, never};
use model::Result;
use operation::interrupted_error;
use state::service::Service;
use state::workers::RoundContext;
use std::time::Duration;

/// Interval between searches for keys of dropped collections and indexes.
const PERIOD: Duration = Duration::from_secs(60);

pub(super) static WORKER: Worker = Worker {
    name: "sweeper",
    class: Class::Own,
    scope: Scope::Database,
    period: PERIOD,
    is_due_early: never,
    work: || {
        let mut is_first = true;
        Box::new(move |service, turn| {
            let unowned = std::mem::take(&mut is_first);
            sweep(service, unowned, turn).map(|()| NextRound::Again)
        })
    },
    error: ("STORAGE", "dropped data could not be looked through"),
};

fn sweep(service: &Service, unowned: bool, turn: &RoundContext<'_>) -> Result<()> {
    let stop = || match turn.may_continue() {
        true => Ok(()),
        false => Err(interrupted_error()),
    };
    let found = match unowned {
        true => service.store.sweep_unowned(&stop)?,
        false => 0,
    };
    service.store.sweep_dropped()?;
    let operation = service.own_operation();
    let writer = service.store.writer(&operation);
    let indexes = writer.sweep_unfinished_indexes(&stop)?;
    let buckets = writer.sweep_left_buckets(&stop)?;
    if indexes + buckets > 0 {
        let message = format!(
            "other servers have ended: the unfinished indexes of {indexes} collections are \
                removed, and {buckets} buckets are closed"
        );
        service.log('I', "STORAGE", &message);
    }
    if found > 0 {
        let message = format!("space of {found} identifiers without an owner is given back");
        service.log('W', "STORAGE", &message);
    }
    Ok(())
}
