//! The section of `serverStatus` about a migration into this server, or about the primary of this
//! standby. `quarry follow` stores the values here. Promises: one document is read; the values are
//! zero if nothing is followed. Must not know: how the follower works.

use model::{Doc, DocBuf, DocWriter, Namespace, Value};
use request::args::to_i64;
use state::service::Service;
use store::ReadView;

/// The database in which a follower stores its progress.
const DB: &str = "quarry_follow";
/// Milliseconds after which a follower counts as stopped; it reports at least twice a second.
const SILENT_MS: i64 = 5_000;

/// Writes the section.
pub(crate) fn add(service: &Service, w: &mut DocWriter<'_>) {
    let migration = read_migration(service).unwrap_or_default();
    let migration = migration.doc();
    let progress = migration.field("progress").as_doc().unwrap_or(Doc::EMPTY);
    let number = |name: &str| to_i64(&progress.field(name)).unwrap_or(0);
    let now_ms = service.clock.now_ms();
    let silent_ms = match migration.field("heartbeat") {
        Value::Date(at) => (now_ms - at).max(0),
        _ => 0,
    };
    let is_running = migration.field("running").truthy() && silent_ms < SILENT_MS;
    // While no follower runs, the lag grows.
    let silence_ms = if is_running { 0 } else { silent_ms };
    let is_over = migration.field("phase").as_str() == Some("done");
    let lag_ms = if is_over {
        0
    } else {
        number("lagMillis") + silence_ms
    };
    let mut section = w.doc("follow");
    section
        .put("phase", migration.field("phase").as_str().unwrap_or("none"))
        .put("running", is_running)
        .put("standby", migration.field("standby").truthy())
        .put("lagSeconds", lag_ms as f64 / 1000.0)
        .put("lagOperations", number("waiting"))
        .put("applied", number("applied"))
        .put("appliedPerSecond", number("appliedPerSecond"))
        .put("bytesPerSecond", number("bytesPerSecond"))
        .put("documents", number("documents"))
        .put("findings", findings(service))
        .put("silentSeconds", silent_ms as f64 / 1000.0);
}

/// The document with the follower's progress.
fn read_migration(service: &Service) -> Option<DocBuf> {
    let ns = Namespace::new(DB, "state").ok()?;
    let coll = service.store.collection(&ns).ok().flatten()?;
    let mut found = None;
    let mut scan = coll.scan(&ReadView::LATEST, false);
    let visited = scan.visit(1, &mut |row| {
        found = Some(row.doc.to_buf());
        false
    });
    // An error of the store is not reported here; reads of users report it.
    visited.ok().and(found)
}

fn findings(service: &Service) -> i64 {
    let ns = Namespace::new(DB, "findings");
    let coll = ns
        .ok()
        .and_then(|ns| service.store.collection(&ns).ok().flatten());
    coll.map_or(0, |coll| i64::try_from(coll.count()).unwrap_or(i64::MAX))
}
