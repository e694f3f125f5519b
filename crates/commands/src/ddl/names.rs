//! Names of collections: which may be created, and what exists under a name.

use crate::context::ctx::Ctx;
use crate::state::service::Service;
use model::{MongoError, Namespace, Result, bail, code};
use std::sync::Arc;
use store::{Collection, ReadView};

/// System collections users may create.
const SYSTEM: &[&str] = &[
    "system.js",
    "system.profile",
    "system.users",
    "system.views",
    "system.version",
    "system.roles",
    "system.healthlog",
];

/// What stands before the name of a time-series collection in that of its buckets.
const BUCKETS: &str = "system.buckets.";

/// The namespace a command names in its own field. For commands that do not look into buckets.
///
/// # Errors
/// 73 InvalidNamespace; 20 for a time series with `rawData`.
pub(crate) fn own(cx: &Ctx<'_, '_>) -> Result<Namespace> {
    let ns = named(cx)?;
    not_raw(cx, &ns)?;
    Ok(ns)
}

/// The same for commands that do: with `rawData` the buckets of a time series.
///
/// # Errors
/// 73 InvalidNamespace.
pub(crate) fn own_or_buckets(cx: &Ctx<'_, '_>) -> Result<Namespace> {
    raw(cx, named(cx)?)
}

fn named(cx: &Ctx<'_, '_>) -> Result<Namespace> {
    Namespace::new(cx.db, cx.value().as_str().unwrap_or(""))
}

/// Refuses `rawData` where it would do nothing.
///
/// # Errors
/// 20 for a time series.
pub(crate) fn not_raw(cx: &Ctx<'_, '_>, ns: &Namespace) -> Result<()> {
    if cx.generic.raw_data && raw(cx, ns.clone())? != *ns {
        bail!(
            code::ILLEGAL_OPERATION,
            "{} does not take rawData on the time-series collection {ns}",
            cx.command.name
        );
    }
    Ok(())
}

/// What a command works on that names `ns`: with `rawData` the buckets of a time series.
///
/// # Errors
/// Those of the catalog.
pub(crate) fn raw(cx: &Ctx<'_, '_>, ns: Namespace) -> Result<Namespace> {
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
pub(crate) fn may_create(ns: &Namespace) -> Result<()> {
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
pub(crate) fn not_found(ns: &Namespace) -> MongoError {
    MongoError::new(code::NAMESPACE_NOT_FOUND, format!("ns not found {ns}"))
}

/// The collection or view.
///
/// # Errors
/// 26 NamespaceNotFound.
pub(crate) fn existing(cx: &Ctx<'_, '_>, ns: &Namespace) -> Result<Arc<Collection>> {
    cx.service
        .store
        .collection(ns)?
        .ok_or_else(|| not_found(ns))
}

/// The collection, which must not be a view.
///
/// # Errors
/// 26 NamespaceNotFound, 166 CommandNotSupportedOnView.
pub(crate) fn not_view(cx: &Ctx<'_, '_>, ns: &Namespace) -> Result<Arc<Collection>> {
    let c = existing(cx, ns)?;
    if c.is_view() {
        bail!(
            code::COMMAND_NOT_SUPPORTED_ON_VIEW,
            "Namespace {ns} is a view, not a collection"
        );
    }
    Ok(c)
}

/// True for what MongoDB keeps as a view: views, and time-series collections over their buckets.
pub(crate) fn is_view_row(row: &store::catalog::CatalogRow) -> bool {
    row.kind == store::catalog::Kind::View || row.options.doc().contains("timeseries")
}

/// What a name stands for that may be one of the buckets of a time-series collection: the
/// collection itself.
///
/// # Errors
/// Those of the catalog.
pub(crate) fn of_buckets(service: &Service, ns: Namespace) -> Result<Namespace> {
    let series = series_of_buckets(service, &ReadView::LATEST, &ns)?;
    Ok(series.map_or(ns, |c| c.ns().clone()))
}

/// The time-series collection whose buckets a name stands for, as a reader of `view` finds it.
///
/// # Errors
/// Those of the catalog.
pub(crate) fn series_of_buckets(
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
pub(crate) fn is_timeseries(c: &Collection) -> bool {
    c.options().doc().contains("timeseries")
}

/// True for a capped collection.
pub(crate) fn is_capped(c: &Collection) -> bool {
    c.options().doc().field("capped").truthy()
}
