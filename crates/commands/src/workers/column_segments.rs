//! Builds the segments of column indexes of open collections, and rebuilds segments with many
//! changed documents. No operation waits for it: where segments are missing, documents are read.

use super::worker::{Class, NextRound, Scope, Worker, never};
use model::Result;
use query::segments::build_next;
use state::service::Service;
use state::workers::RoundContext;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use store::{Collection, Index};

pub(super) static WORKER: Worker = Worker {
    name: "columnSegments",
    class: Class::Own,
    scope: Scope::Server,
    period: Duration::from_secs(1),
    is_due_early: never,
    work: || {
        let mut done = HashMap::new();
        Box::new(move |service, turn| {
            build_all(service, turn, &mut done).map(|()| NextRound::Again)
        })
    },
    error: ("INDEX", "a segment of a column index could not be made"),
};

/// Builds missing segments. `done` has, for each index with nothing left to build, the change count
/// of its collection at that time.
fn build_all(
    service: &Service,
    turn: &RoundContext<'_>,
    done: &mut HashMap<u32, u64>,
) -> Result<()> {
    let has_columns = |coll: &Collection| coll.indexes().iter().any(|i| i.is_columns());
    let collections = service.store.open_collections(&has_columns);
    let mut kept = HashMap::new();
    let mut ended = Ok(());
    for coll in &collections {
        for index in coll.indexes().iter().filter(|i| i.is_columns()) {
            let changed = coll.change_count();
            if done.get(&index.ident()) != Some(&changed) {
                match build(service, coll, index, turn) {
                    Ok(true) => {}
                    Ok(false) => continue,
                    // The collection may have been dropped; continue with the others.
                    Err(e) => {
                        ended = if Collection::is_gone(&e) {
                            ended
                        } else {
                            Err(e)
                        };
                        continue;
                    }
                }
            }
            kept.insert(index.ident(), changed);
        }
    }
    *done = kept;
    ended
}

/// True when nothing is left to build.
fn build(
    service: &Service,
    coll: &Arc<Collection>,
    index: &Arc<Index>,
    turn: &RoundContext<'_>,
) -> Result<bool> {
    let operation = service.own_operation();
    while turn.may_continue() {
        if !build_next(coll, index, &service.config.column_segments, &operation)? {
            return Ok(true);
        }
    }
    Ok(false)
}
