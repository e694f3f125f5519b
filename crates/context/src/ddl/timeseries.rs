//! Time-series collections: the `timeseries` options of `create` and `collMod`, and the checks of
//! writes. The store knows how buckets hold measurements.

use model::{Doc, DocBuf, Result, Value, bail, code};
use request::args::{Arg, Args, Kind, arg, check_doc};
use std::sync::Arc;
use store::{CatalogWriter, Collection};

const SPAN_SECONDS_MAX: i64 = 31_536_000;

static CREATE: &[Arg] = &[
    arg("timeField", Kind::Str).required(),
    arg("metaField", Kind::Str),
    arg("granularity", Kind::Str),
    arg("bucketMaxSpanSeconds", Kind::AtLeast(1, code::BAD_VALUE)),
    arg("bucketRoundingSeconds", Kind::AtLeast(1, code::BAD_VALUE)),
];

static MODIFY: &[Arg] = &[
    arg("granularity", Kind::Str),
    arg("bucketMaxSpanSeconds", Kind::AtLeast(1, code::BAD_VALUE)),
    arg("bucketRoundingSeconds", Kind::AtLeast(1, code::BAD_VALUE)),
];

/// The default span of a bucket in seconds for a granularity.
fn default_span(granularity: &str) -> Option<i64> {
    Some(match granularity {
        "seconds" => 3600,
        "minutes" => 86_400,
        "hours" => 2_592_000,
        _ => return None,
    })
}

fn check_field(name: &str, value: &str) -> Result<()> {
    if value.contains('\0') {
        bail!(code::BAD_VALUE, "The {name} must not hold a null byte");
    }
    if value.contains('.') {
        bail!(
            code::INVALID_OPTIONS,
            "The {name} must be a top-level field, given '{value}'"
        );
    }
    Ok(())
}

/// Parses the granularity or the custom span: `(granularity, span)`.
fn parse_bucketing<'a>(args: &Args<'a>) -> Result<(Option<&'a str>, Option<i64>)> {
    let granularity = args.str("granularity");
    if let Some(g) = granularity
        && default_span(g).is_none()
    {
        bail!(
            code::BAD_VALUE,
            "Enumeration value '{g}' for field 'timeseries.granularity' is not a valid value, \
                allowed are seconds, minutes, hours"
        );
    }
    let (span, rounding) = (
        args.int("bucketMaxSpanSeconds"),
        args.int("bucketRoundingSeconds"),
    );
    if let Some(n) = [span, rounding]
        .into_iter()
        .flatten()
        .find(|n| *n > SPAN_SECONDS_MAX)
    {
        bail!(
            code::BAD_VALUE,
            "bucketMaxSpanSeconds and bucketRoundingSeconds must be <= {SPAN_SECONDS_MAX}, given \
                {n}"
        );
    }
    // listCollections shows a granularity together with its default span, so both are accepted.
    if let (Some(g), Some(_), None) = (granularity, span, rounding)
        && default_span(g) == span
    {
        return Ok((granularity, None));
    }
    if span != rounding {
        bail!(
            code::INVALID_OPTIONS,
            "bucketMaxSpanSeconds and bucketRoundingSeconds must be set to the same value"
        );
    }
    Ok((granularity, span))
}

/// Checks and completes the options of `create`.
///
/// # Errors
/// 40414 IDLMissingField, 40415 IDLFailedToParse, 14 TypeMismatch, 2 BadValue, 72 InvalidOptions.
pub fn create(doc: Doc<'_>) -> Result<DocBuf> {
    let args = check_doc("create.timeseries", CREATE, doc)?;
    let time = args.str("timeField").unwrap_or("");
    check_field("timeField", time)?;
    let meta = args.str("metaField");
    if let Some(meta) = meta {
        check_field("metaField", meta)?;
        if meta == time || meta == "_id" {
            bail!(
                code::INVALID_OPTIONS,
                "The metaField cannot be '_id' or the timeField, given '{meta}'"
            );
        }
    }
    let (granularity, span) = parse_bucketing(&args)?;
    if span.is_some() && granularity.is_some() {
        bail!(
            code::INVALID_OPTIONS,
            "Timeseries 'granularity' cannot be set together with bucketMaxSpanSeconds and \
                bucketRoundingSeconds"
        );
    }
    Ok(DocBuf::build(|w| {
        w.put("timeField", time);
        if let Some(meta) = meta {
            w.put("metaField", meta);
        }
        match span {
            Some(span) => {
                w.put("bucketRoundingSeconds", span as i32)
                    .put("bucketMaxSpanSeconds", span as i32);
            }
            None => {
                let granularity = granularity.unwrap_or("seconds");
                w.put("granularity", granularity);
                w.put(
                    "bucketMaxSpanSeconds",
                    default_span(granularity).unwrap_or(3600) as i32,
                );
            }
        }
    }))
}

/// Checks the options of a `collMod` against the current ones and returns the new ones. Buckets may
/// only become wider.
///
/// # Errors
/// 40415 IDLFailedToParse, 14 TypeMismatch, 2 BadValue, 72 InvalidOptions.
pub fn modify(current: Doc<'_>, change: Doc<'_>) -> Result<DocBuf> {
    let args = check_doc("collMod.timeseries", MODIFY, change)?;
    let (granularity, span) = parse_bucketing(&args)?;
    if granularity.is_some()
        && span.is_some_and(|s| default_span(granularity.unwrap_or("")) != Some(s))
    {
        bail!(
            code::INVALID_OPTIONS,
            "Timeseries 'granularity' cannot be set together with another bucketMaxSpanSeconds"
        );
    }
    let now = current
        .field("bucketMaxSpanSeconds")
        .as_i64_exact()
        .unwrap_or(3600);
    let new = span.or(granularity.and_then(default_span)).unwrap_or(now);
    if new < now {
        bail!(
            code::INVALID_OPTIONS,
            "Invalid transition for timeseries bucketing: the span of {now} seconds can only be \
                increased, given {new}"
        );
    }
    Ok(DocBuf::build(|w| {
        for (name, v) in current
            .iter()
            .filter(|(n, _)| matches!(*n, "timeField" | "metaField"))
        {
            w.put(name, v);
        }
        match granularity.or_else(|| {
            if span.is_none() {
                current.field("granularity").as_str()
            } else {
                None
            }
        }) {
            Some(g) => {
                w.put("granularity", g)
                    .put("bucketMaxSpanSeconds", new as i32);
            }
            None => {
                w.put("bucketRoundingSeconds", new as i32)
                    .put("bucketMaxSpanSeconds", new as i32);
            }
        }
    }))
}

/// The index that is created together with a time-series collection that has metadata.
pub fn own_index(options: Doc<'_>) -> Option<DocBuf> {
    let series = options.field("timeseries").as_doc()?;
    let time = series.field("timeField").as_str()?;
    let meta = series.field("metaField").as_str()?;
    let name = format!("{meta}_1_{time}_1");
    Some(DocBuf::build(|w| {
        w.put("v", 2i32);
        w.doc("key").put(meta, 1i32).put(time, 1i32);
        w.put("name", &name);
    }))
}

/// Creates that index for a new collection.
///
/// # Errors
/// Those of the store.
pub fn add_own_index(catalog: &CatalogWriter<'_>, c: &Arc<Collection>) -> Result<()> {
    let spec = own_index(c.options().doc());
    spec.map_or(Ok(()), |spec| catalog.create_first_index(c, &spec))
}

/// The index for listings of an old collection, in which it is not stored as an index.
pub fn listed_index(c: &Collection) -> Option<DocBuf> {
    let own = own_index(c.options().doc())?;
    let name = own.doc().field("name").as_str().map(str::to_owned);
    let there = c
        .indexes()
        .iter()
        .any(|i| Some(i.name()) == name.as_deref());
    let old = !there && c.is_unpacked();
    old.then_some(own)
}

/// The properties of a time-series collection that writes need.
pub struct Series {
    time: String,
    meta: Option<String>,
}

impl Series {
    /// The properties of a collection; `None` if it is not a time series.
    pub fn of(c: &Collection) -> Option<Series> {
        Series::from_options(c.options().doc().field("timeseries").as_doc()?)
    }

    /// The properties from the stored options.
    pub(crate) fn from_options(d: Doc<'_>) -> Option<Series> {
        Some(Series {
            time: d.field("timeField").as_str()?.to_owned(),
            meta: d.field("metaField").as_str().map(str::to_owned),
        })
    }

    /// True for the time field.
    pub(crate) fn is_time(&self, path: &str) -> bool {
        path == self.time
    }

    /// True for the metadata field or a path inside it.
    pub(crate) fn is_meta(&self, path: &str) -> bool {
        self.meta.as_deref().is_some_and(|m| {
            path.strip_prefix(m)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    }

    /// Checks a measurement.
    ///
    /// # Errors
    /// 2 BadValue if the time is missing.
    fn check_document(&self, d: Doc<'_>) -> Result<()> {
        match d.field(&self.time) {
            Value::Date(_) => Ok(()),
            v => bail!(
                code::BAD_VALUE,
                "'{}' must be present and contain a valid BSON UTC datetime value, given {}",
                self.time,
                v.type_name()
            ),
        }
    }

    /// Checks a measurement and orders its fields as they are read: time, metadata, others.
    ///
    /// # Errors
    /// 2 BadValue if the time is missing.
    pub fn arrange(&self, d: Doc<'_>) -> Result<DocBuf> {
        self.check_document(d)?;
        let first = [Some(self.time.as_str()), self.meta.as_deref()];
        Ok(DocBuf::build(|w| {
            for name in first.into_iter().flatten() {
                w.put(name, d.field(name));
            }
            for e in d
                .elements()
                .filter(|e| !first.contains(&Some(e.name_str())))
            {
                w.put_element(&e);
            }
        }))
    }

    /// True if the collection has a `metaField`.
    pub(crate) fn has_meta(&self) -> bool {
        self.meta.is_some()
    }

    /// True if a filter uses only the metadata.
    pub(crate) fn uses_only_meta(&self, filter: Doc<'_>) -> bool {
        filter.iter().all(|(name, v)| match (name, v) {
            ("$and" | "$or" | "$nor", Value::Array(parts)) => parts
                .iter()
                .all(|p| p.as_doc().is_none_or(|d| self.uses_only_meta(d))),
            ("$comment", _) => true,
            ("$expr", v) => self.reads_only_meta(v),
            (path, _) => self.is_meta(path),
        })
    }

    fn reads_only_meta(&self, e: Value<'_>) -> bool {
        match e {
            Value::String(s) => match s.strip_prefix('$') {
                Some(path) => self.is_meta(path),
                None => true,
            },
            Value::Document(d) => d.iter().all(|(_, v)| self.reads_only_meta(v)),
            Value::Array(a) => a.iter().all(|v| self.reads_only_meta(v)),
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::doc;

    #[test]
    fn options_are_completed() {
        let d = create(doc! { "timeField": "t", "metaField": "m" }.doc()).unwrap();
        assert_eq!(
            d,
            doc! { "timeField": "t", "metaField": "m", "granularity": "seconds",
            "bucketMaxSpanSeconds": 3600i32 }
        );
        let code = |d: DocBuf| create(d.doc()).unwrap_err().code();
        assert_eq!(code(doc! {}), 40414);
        assert_eq!(code(doc! { "timeField": "a.b" }), 72);
        assert_eq!(code(doc! { "timeField": "t", "metaField": "t" }), 72);
        assert_eq!(
            code(doc! { "timeField": "t", "bucketMaxSpanSeconds": 0i32,
            "bucketRoundingSeconds": 0i32 }),
            2
        );
        assert_eq!(
            code(doc! { "timeField": "t", "bucketMaxSpanSeconds": 5i32 }),
            72
        );
    }

    #[test]
    fn buckets_only_widen() {
        let now = create(doc! { "timeField": "t", "granularity": "minutes" }.doc()).unwrap();
        let code = |d: DocBuf| modify(now.doc(), d.doc()).err().map(|e| e.code());
        assert_eq!(code(doc! { "granularity": "seconds" }), Some(72));
        assert_eq!(code(doc! { "granularity": "hours" }), None);
    }
}
