//! `quarry repair`: puts right what is wrong in the data of an engine that nobody else uses (ADR
//! 0091). Promises: what can be read is never given up: a row that cannot stay is handed to the
//! caller before it is removed, whole where it can be read whole; each change is one commit, so an
//! end at any moment can be gone on from by another repair. Must not know: where what is set apart
//! goes, which engine is below.
//!
//! First the catalog (`meta`), then the log (`history`), then each collection: its rows
//! (`documents`, `buckets`) and what leads to them (`entries`).

mod apart;
mod buckets;
mod documents;
mod entries;
mod history;
mod mender;
mod meta;
mod salvage;
mod work;

pub use mender::{Aside, DamagedRow, Repaired};

use crate::catalog::{Collection, Kind, Shared};
use crate::error;
use crate::hooks::Hooks;
use mender::Mender;
use model::Result;
use std::sync::Arc;
use storage::Engine;

/// Puts right what is wrong.
///
/// # Errors
/// 12 for a newer layout, changing nothing; those of `aside`; engine failures. What was done until
/// then stays done.
pub fn repair(
    engine: &Arc<dyn Engine>,
    hooks: Arc<dyn Hooks>,
    aside: &mut dyn Aside,
) -> Result<Repaired> {
    let mut mender = Mender::new(engine.as_ref(), aside, true);
    meta::mend(&mut mender, hooks.as_ref())?;
    history::mend(&mut mender)?;
    let shared = Arc::new(Shared::beside_log(Arc::clone(engine), hooks)?);
    for (ns, row) in meta::rows(engine.as_ref())? {
        if row.kind == Kind::Collection {
            let coll = Collection::open(Arc::clone(&shared), ns, &row, engine.as_ref())?;
            documents::mend(&mut mender, &coll)?;
        }
    }
    let done = mender.done;
    engine.flush().map_err(error::storage)?;
    Ok(done)
}

/// Tells what [`repair`] would put right outside of collections, changing nothing; of these
/// [`Collection::validate`] tells.
///
/// # Errors
/// As [`repair`].
pub fn check_catalog(
    engine: &dyn Engine,
    hooks: &dyn Hooks,
    aside: &mut dyn Aside,
) -> Result<Repaired> {
    let mut mender = Mender::new(engine, aside, false);
    meta::mend(&mut mender, hooks)?;
    history::mend(&mut mender)?;
    Ok(mender.done)
}
