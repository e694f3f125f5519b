//! The store's hooks (partial filters, collations, terms of text indexes), implemented with
//! `operators`.

use model::path::PathPart;
use model::{Doc, FieldPath, MongoError, Namespace, Result, Value, code};
use operation::{Clock, Operation};
use operators::Profile;
use operators::filter::{
    Surface, check_measured_on_sphere, check_on_plane, check_on_sphere, failure_on_sphere,
    is_point_cell, stored_cells,
};
use operators::text::TextSpec;
use query::collation::collator;
use state::matcher::{CheckedCollation, Matcher};
use std::sync::Arc;
use store::{Audience, CellExtractor, Hooks, LogSettings, Predicate, Terms};

/// Implements with `operators` what the store needs of the query language.
pub struct StoreHooks {
    clock: Arc<dyn Clock>,
    /// The maximum size in bytes and the audience of a new log.
    log: Option<(u64, Audience)>,
    profile: Profile,
}

impl StoreHooks {
    /// Creates the hooks; `$$NOW` is read from the clock.
    pub fn new(clock: Arc<dyn Clock>) -> StoreHooks {
        StoreHooks {
            clock,
            log: None,
            profile: Profile::default(),
        }
    }

    /// The same hooks, following another release of MongoDB.
    #[must_use]
    pub fn with_profile(self, profile: Profile) -> StoreHooks {
        StoreHooks { profile, ..self }
    }

    /// The same hooks for a store that logs all changes. `bytes_max` takes effect when the log is
    /// created.
    #[must_use]
    pub fn with_log(self, bytes_max: u64) -> StoreHooks {
        StoreHooks {
            log: Some((bytes_max, Audience::Everybody)),
            ..self
        }
    }

    /// The same hooks for a store that logs changes only for search indexes. At most this many
    /// bytes are kept for indexes that have not read them yet.
    #[must_use]
    pub fn log_for_search(self, bytes_max: u64) -> StoreHooks {
        StoreHooks {
            log: Some((bytes_max, Audience::Consumers)),
            ..self
        }
    }
}

impl Hooks for StoreHooks {
    fn predicate(&self, filter: Doc<'_>, collation: Option<Doc<'_>>) -> Result<Predicate> {
        let clock = self.clock.clone();
        let collate = collation.map_or(Ok(None), collator)?;
        let filter = Matcher::new(filter, collate, self.profile, clock.now_ms())?;
        Ok(Arc::new(move |d: Doc<'_>| {
            filter.matches(d, clock.now_ms()).unwrap_or(false)
        }))
    }

    fn log(&self) -> Option<LogSettings> {
        let clock = Arc::clone(&self.clock);
        let (bytes_max, audience) = self.log?;
        Some(LogSettings {
            bytes_max,
            audience,
            uuid: access::uuid::new_uuid(),
            now_ms: Arc::new(move || clock.now_ms()),
        })
    }

    fn check_write(&self, operation: &Operation, ns: &Namespace) -> Result<()> {
        let internal = matches!(ns.db(), "admin" | "config" | "local");
        if internal || ns.coll() == "system.profile" {
            return Ok(());
        }
        operation.check_write()
    }

    fn collator(&self, spec: Doc<'_>) -> Result<CheckedCollation> {
        collator(spec)
    }

    fn places(&self, index: Doc<'_>) -> Option<Arc<dyn CellExtractor>> {
        let key = index.field("key").as_doc()?;
        let fields = key
            .iter()
            .filter_map(|(path, v)| Some((FieldPath::new(path), Surface::of(index, v.as_str()?)?)));
        Some(Arc::new(IndexPlaces {
            fields: fields.collect(),
            profile: self.profile,
        }))
    }

    fn terms(&self, index: Doc<'_>) -> Result<Arc<dyn Terms>> {
        Ok(Arc::new(IndexTerms(TextSpec::of_index(index))))
    }
}

/// The extractor of the terms of a text index.
struct IndexTerms(TextSpec);

impl Terms for IndexTerms {
    fn visit_terms(&self, doc: Doc<'_>, show: &mut dyn FnMut(&str, f64)) -> Result<()> {
        self.0
            .scores(doc)?
            .iter()
            .for_each(|(term, score)| show(term, *score));
        Ok(())
    }

    fn same(&self, old: Doc<'_>, new: Doc<'_>) -> bool {
        self.0.sees_same(old, new)
    }
}

/// The extractor of the fields of a geospatial index.
struct IndexPlaces {
    fields: Vec<(FieldPath, Surface)>,
    profile: Profile,
}

/// Longest reason in bytes; longer ones are cut.
const REASON_BYTES_MAX: usize = 256;

impl IndexPlaces {
    /// The error in the wording of the followed release: since 9.0 it shows the value that failed.
    fn with_value(&self, e: MongoError, path: &str, v: &Value<'_>) -> MongoError {
        let number = self.profile.geo_key_error(e.code());
        if number == e.code() {
            return e;
        }
        // If `failure_on_sphere` finds no reason, the message of the error is the reason.
        let mut reason = failure_on_sphere(v).unwrap_or_else(|| e.message().to_owned());
        let end = reason.char_indices().map(|(at, _)| at);
        if let Some(end) = end.take_while(|at| *at <= REASON_BYTES_MAX).last()
            && reason.len() > REASON_BYTES_MAX
        {
            reason.truncate(end);
            reason.push_str("...");
        }
        let text = format!("Could not extract geo keys of '{path}': {reason}");
        let element = v.as_doc().unwrap_or(Doc::EMPTY);
        let info = model::doc! { "errInfo": {
            "failingPath": path,
            "underlyingCode": code::BAD_VALUE,
            "underlyingReason": reason.as_str(),
            "failingElement": element
        } };
        MongoError::new(number, text).extra(info)
    }
}

impl CellExtractor for IndexPlaces {
    fn check(&self, doc: Doc<'_>) -> Result<()> {
        self.fields.iter().try_for_each(|(path, on)| {
            each_value(Value::Document(doc), path.parts(), &mut |v| match on {
                Surface::Sphere => {
                    check_on_sphere(v, doc).map_err(|e| self.with_value(e, path.as_str(), v))
                }
                Surface::Plane(min, max) => check_on_plane(v, *min, *max),
            })
        })
    }

    fn check_measurement(&self, doc: Doc<'_>) -> Result<()> {
        let mut on_sphere = self.fields.iter().filter(|(_, on)| *on == Surface::Sphere);
        on_sphere.try_for_each(|(path, _)| {
            each_value(Value::Document(doc), path.parts(), &mut |v| {
                // Measurements are stored in the field `data` of their bucket.
                let of_bucket = || format!("data.{}", path.as_str());
                check_measured_on_sphere(v).map_err(|e| self.with_value(e, &of_bucket(), v))
            })
        })
    }

    fn cells(&self, path: &str, doc: Doc<'_>, out: &mut Vec<u64>) {
        for (path, on) in self.fields.iter().filter(|(p, _)| p.as_str() == path) {
            // The callback never fails.
            let _ = each_value(Value::Document(doc), path.parts(), &mut |v| {
                stored_cells(v, *on, out);
                Ok(())
            });
        }
    }

    fn is_point(&self, cell: u64) -> bool {
        is_point_cell(cell)
    }
}

/// Calls `show` with each value at a path; an array at the end of the path is one value.
fn each_value(
    v: Value<'_>,
    path: &[PathPart],
    show: &mut dyn FnMut(&Value<'_>) -> Result<()>,
) -> Result<()> {
    let Some((head, rest)) = path.split_first() else {
        return show(&v);
    };
    match v {
        Value::Document(d) => each_value(d.field(&head.name), rest, show),
        Value::Array(a) => {
            if let Some(v) = head.index.and_then(|i| a.get(i)) {
                return each_value(v, rest, show);
            }
            a.iter()
                .filter(|v| matches!(v, Value::Document(_)))
                .try_for_each(|v| each_value(v, path, show))
        }
        _ => Ok(()),
    }
}
