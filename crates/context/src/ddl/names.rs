//! Names of collections: which names may be created, and which object a name refers to.

use crate::ctx::Ctx;
use model::{MongoError, Namespace, Result, bail, code};
use state::service::Service;
use std::sync::Arc;
use store::{Collection, ReadView};

/// System collections that users may create.
const SYSTEM: &[&str] = &[
    "system.js",
    "system.profile",
    "system.users",
    "system.views",
    "system.version",
    "system.roles",
    "system.healthlog",
];

/// The prefix of the name of a time series' buckets.
const BUCKETS: &str = "system.buckets.";

/// The namespace in the command's first field, for commands that do not read buckets.
///
/// # Errors
/// 73 InvalidNamespace; 20 IllegalOperation for a time series with `rawData`.
pub fn read_collection(cx: &Ctx<'_, '_>) -> Result<Namespace> {
    let ns = read_namespace(cx)?;
    refuse_raw(cx, &ns)?;
    Ok(ns)
}

/// The same for commands that read buckets: with `rawData` the name of a time series gives its
/// buckets.
///
/// # Errors
/// 73 InvalidNamespace.
pub fn own_or_buckets(cx: &Ctx<'_, '_>) -> Result<Namespace> {
    raw(cx, read_namespace(cx)?)
}

fn read_namespace(cx: &Ctx<'_, '_>) -> Result<Namespace> {
    Namespace::new(cx.db, cx.value().as_str().unwrap_or(""))
}

/// Refuses `rawData` on a time series for a command that does not support it.
///
/// # Errors
/// 20 IllegalOperation for a time series.
pub fn refuse_raw(cx: &Ctx<'_, '_>, ns: &Namespace) -> Result<()> {
    if cx.generic.raw_data && raw(cx, ns.clone())? != *ns {
        bail!(
            code::ILLEGAL_OPERATION,
            "{} does not take rawData on the time-series collection {ns}",
            cx.command.name
        );
    }
    Ok(())
}

/// The namespace that a command works on when it names `ns`: with `rawData` the buckets of a time
/// series.
///
/// # Errors
/// Those of the catalog.
pub fn raw(cx: &Ctx<'_, '_>, ns: Namespace) -> Result<Namespace> {
    if !cx.generic.raw_data {
        return Ok(ns);
    }
    match cx.collection(&ns)? {
        Some(c) if is_timeseries(&c) => Namespace::new(ns.db(), &format!("{BUCKETS}{}", ns.coll())),
        _ => Ok(ns),
    }
}

/// Checks that a collection of this name may be created.
///
/// # Errors
/// 73 InvalidNamespace.
pub fn check_may_create(ns: &Namespace) -> Result<()> {
    let coll = ns.coll();
    if coll.contains('$') {
        bail!(
            code::INVALID_NAMESPACE,
            "Invalid collection name: {coll}, it holds a '$'"
        );
    }
    if coll.starts_with("system.") && !SYSTEM.contains(&coll) && !coll.starts_with(BUCKETS) {
        bail!(code::INVALID_NAMESPACE, "Invalid system namespace: {ns}");
    }
    Ok(())
}

/// 26 NamespaceNotFound.
pub fn not_found(ns: &Namespace) -> MongoError {
    MongoError::new(code::NAMESPACE_NOT_FOUND, format!("ns not found {ns}"))
}

/// The collection or view of this name.
///
/// # Errors
/// 26 NamespaceNotFound.
pub fn find_collection(cx: &Ctx<'_, '_>, ns: &Namespace) -> Result<Arc<Collection>> {
    cx.service
        .store
        .collection(ns)?
        .ok_or_else(|| not_found(ns))
}

/// The collection of this name, which must not be a view.
///
/// # Errors
/// 26 NamespaceNotFound, 166 CommandNotSupportedOnView.
pub fn find_non_view(cx: &Ctx<'_, '_>, ns: &Namespace) -> Result<Arc<Collection>> {
    let c = find_collection(cx, ns)?;
    if c.is_view() {
        bail!(
            code::COMMAND_NOT_SUPPORTED_ON_VIEW,
            "Namespace {ns} is a view, not a collection"
        );
    }
    Ok(c)
}

/// True for objects that MongoDB stores as views: views and time-series collections.
pub fn is_view_row(row: &store::catalog::CatalogRow) -> bool {
    row.kind == store::catalog::Kind::View || row.options.doc().contains("timeseries")
}

/// Replaces the name of a time series' buckets by that of its collection; other names stay.
///
/// # Errors
/// Those of the catalog.
pub fn of_buckets(service: &Service, ns: Namespace) -> Result<Namespace> {
    let series = series_of_buckets(service, &ReadView::LATEST, &ns)?;
    Ok(series.map_or(ns, |c| c.ns().clone()))
}

/// The time-series collection whose buckets have this name in the state `view`.
///
/// # Errors
/// Those of the catalog.
pub fn series_of_buckets(
    service: &Service,
    view: &ReadView,
    ns: &Namespace,
) -> Result<Option<Arc<Collection>>> {
    let Some(coll) = ns.coll().strip_prefix(BUCKETS) else {
        return Ok(None);
    };
    let ns = Namespace::new(ns.db(), coll)?;
    let series = service.store.collection_in(view, &ns)?;
    Ok(series.filter(|c| is_timeseries(c)))
}

/// True for a time-series collection.
pub fn is_timeseries(c: &Collection) -> bool {
    c.options().doc().contains("timeseries")
}

/// True for a capped collection.
pub fn is_capped(c: &Collection) -> bool {
    c.options().doc().field("capped").truthy()
}
