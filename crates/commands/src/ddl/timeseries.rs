//! The `timeseries` options of `create` and `collMod`.

use crate::args::{Arg, Args, Kind, arg, check_doc};
use model::{Doc, DocBuf, Result, bail, code};

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

/// Seconds a bucket spans by default at a granularity.
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
        bail!(code::INVALID_OPTIONS, "The {name} must be a top-level field, given '{value}'");
    }
    Ok(())
}

/// Granularity or custom span: `(granularity, span)`.
fn bucketing<'a>(args: &Args<'a>) -> Result<(Option<&'a str>, Option<i64>)> {
    let granularity = args.str("granularity");
    if let Some(g) = granularity
        && default_span(g).is_none()
    {
        bail!(code::BAD_VALUE, "Enumeration value '{g}' for field 'timeseries.granularity' is not a valid value, allowed are seconds, minutes, hours");
    }
    let (span, rounding) = (args.int("bucketMaxSpanSeconds"), args.int("bucketRoundingSeconds"));
    if let Some(n) = [span, rounding].into_iter().flatten().find(|n| *n > SPAN_SECONDS_MAX) {
        bail!(code::BAD_VALUE, "bucketMaxSpanSeconds and bucketRoundingSeconds must be <= {SPAN_SECONDS_MAX}, given {n}");
    }
    if span != rounding {
        bail!(code::INVALID_OPTIONS, "bucketMaxSpanSeconds and bucketRoundingSeconds must be set to the same value");
    }
    Ok((granularity, span))
}

/// Checks and completes the options of `create`.
///
/// # Errors
/// 40414, 40415, 14, 2 BadValue, 72 InvalidOptions.
pub(crate) fn create(doc: Doc<'_>) -> Result<DocBuf> {
    let args = check_doc("create.timeseries", CREATE, doc)?;
    let time = args.str("timeField").unwrap_or("");
    check_field("timeField", time)?;
    let meta = args.str("metaField");
    if let Some(meta) = meta {
        check_field("metaField", meta)?;
        if meta == time || meta == "_id" {
            bail!(code::INVALID_OPTIONS, "The metaField cannot be '_id' or the timeField, given '{meta}'");
        }
    }
    let (granularity, span) = bucketing(&args)?;
    if span.is_some() && granularity.is_some() {
        bail!(code::INVALID_OPTIONS, "Timeseries 'granularity' cannot be set together with bucketMaxSpanSeconds and bucketRoundingSeconds");
    }
    Ok(DocBuf::build(|w| {
        w.put("timeField", time);
        if let Some(meta) = meta {
            w.put("metaField", meta);
        }
        match span {
            Some(span) => {
                w.put("bucketRoundingSeconds", span as i32).put("bucketMaxSpanSeconds", span as i32);
            }
            None => {
                let granularity = granularity.unwrap_or("seconds");
                w.put("granularity", granularity);
                w.put("bucketMaxSpanSeconds", default_span(granularity).unwrap_or(3600) as i32);
            }
        }
    }))
}

/// Checks the options of `collMod` against those there are and returns the new ones. Buckets may only get wider.
///
/// # Errors
/// 40415, 14, 2 BadValue, 72 InvalidOptions.
pub(crate) fn modify(current: Doc<'_>, change: Doc<'_>) -> Result<DocBuf> {
    let args = check_doc("collMod.timeseries", MODIFY, change)?;
    let (granularity, span) = bucketing(&args)?;
    if granularity.is_some() && span.is_some_and(|s| default_span(granularity.unwrap_or("")) != Some(s)) {
        bail!(code::INVALID_OPTIONS, "Timeseries 'granularity' cannot be set together with another bucketMaxSpanSeconds");
    }
    let now = current.field("bucketMaxSpanSeconds").as_i64_exact().unwrap_or(3600);
    let new = span.or(granularity.and_then(default_span)).unwrap_or(now);
    if new < now {
        bail!(code::INVALID_OPTIONS, "Invalid transition for timeseries bucketing: the span of {now} seconds can only be increased, given {new}");
    }
    Ok(DocBuf::build(|w| {
        for (name, v) in current.iter().filter(|(n, _)| matches!(*n, "timeField" | "metaField")) {
            w.put(name, v);
        }
        match granularity.or_else(|| if span.is_none() { current.field("granularity").as_str() } else { None }) {
            Some(g) => {
                w.put("granularity", g).put("bucketMaxSpanSeconds", new as i32);
            }
            None => {
                w.put("bucketRoundingSeconds", new as i32).put("bucketMaxSpanSeconds", new as i32);
            }
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::doc;

    #[test]
    fn options_are_completed() {
        let d = create(doc! { "timeField": "t", "metaField": "m" }.doc()).unwrap();
        assert_eq!(d, doc! { "timeField": "t", "metaField": "m", "granularity": "seconds", "bucketMaxSpanSeconds": 3600i32 });
        let code = |d: DocBuf| create(d.doc()).unwrap_err().code();
        assert_eq!(code(doc! {}), 40414);
        assert_eq!(code(doc! { "timeField": "a.b" }), 72);
        assert_eq!(code(doc! { "timeField": "t", "metaField": "t" }), 72);
        assert_eq!(code(doc! { "timeField": "t", "bucketMaxSpanSeconds": 0i32, "bucketRoundingSeconds": 0i32 }), 2);
        assert_eq!(code(doc! { "timeField": "t", "bucketMaxSpanSeconds": 5i32 }), 72);
    }

    #[test]
    fn buckets_only_widen() {
        let now = create(doc! { "timeField": "t", "granularity": "minutes" }.doc()).unwrap();
        let code = |d: DocBuf| modify(now.doc(), d.doc()).err().map(|e| e.code());
        assert_eq!(code(doc! { "granularity": "seconds" }), Some(72));
        assert_eq!(code(doc! { "granularity": "hours" }), None);
    }
}
