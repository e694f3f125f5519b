//! `quarry repair`: repairs the data of an engine that nobody else uses (ADR 0091). Promises:
//! readable data is never lost: a row that cannot stay is handed to the caller before it is
//! removed, complete if it is readable in full; each change is one commit, so an interrupted repair
//! can be continued by another one. Must not know: where the caller stores the removed data, which
//! engine is below.
//!
//! First the catalog (`meta`), then each collection: its rows (`documents`, `buckets`) and the
//! references to them (`entries`), then the log (`history`), which refers to records.

mod apart;
mod buckets;
mod documents;
mod entries;
mod history;
mod mender;
mod meta;
mod salvage;
mod work;

pub use mender::{DamagedRow, RepairReport, SalvageSink};

use crate::catalog::{Collection, Kind, Shared};
use crate::error;
use crate::hooks::Hooks;
use mender::RepairContext;
use model::Result;
use std::sync::Arc;
use storage::Engine;

/// Repairs everything.
///
/// # Errors
/// 12 UnsupportedFormat for a newer layout, changing nothing; those of `aside`; engine failures.
/// Repairs done before an error are kept.
pub fn repair(
    engine: &Arc<dyn Engine>,
    hooks: Arc<dyn Hooks>,
    aside: &mut dyn SalvageSink,
) -> Result<RepairReport> {
    let mut mender = RepairContext::new(engine.as_ref(), aside, true);
    meta::mend(&mut mender, hooks.as_ref())?;
    let shared = Arc::new(Shared::open_without_log(Arc::clone(engine), hooks)?);
    for (ns, row) in meta::rows(engine.as_ref())? {
        if row.kind == Kind::Collection {
            let coll = Collection::open(Arc::clone(&shared), ns, &row, engine.as_ref())?;
            documents::mend(&mut mender, &coll)?;
        }
    }
    // After the collections, because its entries refer to their records.
    history::mend(&mut mender)?;
    let done = mender.done;
    engine.flush().map_err(error::storage)?;
    Ok(done)
}

/// Reports what [`repair`] would repair in the catalog, changing nothing; [`Collection::validate`]
/// checks the collections, [`check_log`] the log.
///
/// # Errors
/// As [`repair`].
pub fn check_catalog(
    engine: &dyn Engine,
    hooks: &dyn Hooks,
    aside: &mut dyn SalvageSink,
) -> Result<RepairReport> {
    let mut mender = RepairContext::new(engine, aside, false);
    meta::mend(&mut mender, hooks)?;
    Ok(mender.done)
}

/// Reports what [`repair`] would repair in the log, changing nothing. Of a row that refers to a
/// damaged document the collection has the cause.
///
/// # Errors
/// As [`repair`].
pub fn check_log(engine: &dyn Engine, aside: &mut dyn SalvageSink) -> Result<RepairReport> {
    let mut mender = RepairContext::new(engine, aside, false);
    history::mend(&mut mender)?;
    Ok(mender.done)
}
