//! Checks of documents for geospatial indexes.

use super::shape::{STRICT_WINDING, Shape};
use model::{Doc, Result, Value, bail};

/// Checks the value of a field with a 2dsphere index. Null, undefined, an empty document and an
/// empty array count as no geometry.
///
/// # Errors
/// 16755 for a value that is neither GeoJSON nor a legacy point on the earth, and for a polygon of
/// strict winding, which is allowed only in queries.
pub fn check_on_sphere(v: &Value<'_>, doc: Doc<'_>) -> Result<()> {
    match failure_on_sphere(v) {
        None => Ok(()),
        Some(why) => bail!(16755, "Can't extract geo keys: {doc}  {why}"),
    }
}

/// Why a 2dsphere index cannot index a value; `None` when it can.
pub fn failure_on_sphere(v: &Value<'_>) -> Option<String> {
    let is_empty = pair(v).is_some_and(Doc::is_empty);
    if v.is_missing() || v.is_nullish() || is_empty {
        return None;
    }
    match v {
        Value::Document(d) if is_strictly_wound(*d) => {
            Some("a polygon of strict winding cannot be stored".to_owned())
        }
        Value::Document(_) | Value::Array(_) => match Shape::any(v) {
            Ok(_) => None,
            Err(e) => Some(e.message().to_owned()),
        },
        v => Some(format!("geo element must be an array or object: {v}")),
    }
}

/// Checks a value of a time-series measurement that has a 2dsphere index.
///
/// # Errors
/// 183934 for a value that is no geometry on the earth, 183493 for a geometry that is no point.
pub fn check_measured_on_sphere(v: &Value<'_>) -> Result<()> {
    if let Some(why) = failure_on_sphere(v) {
        bail!(183_934, "Can't extract geo keys: {why}");
    }
    let kind = v.as_doc().map_or(Value::Missing, |d| d.field("type"));
    if kind.as_str().is_some_and(|kind| kind != "Point") {
        bail!(
            183_493,
            "a 2dsphere index of a time-series collection holds only points, given {v}"
        );
    }
    Ok(())
}

fn is_strictly_wound(d: Doc<'_>) -> bool {
    let crs = d.field("crs").as_doc();
    let properties = crs.and_then(|crs| crs.field("properties").as_doc());
    properties.is_some_and(|p| p.field("name").as_str() == Some(STRICT_WINDING))
}

/// Checks the value of a field with a 2d index: a pair of numbers or a list of such pairs. Other
/// types are not indexed.
///
/// # Errors
/// 16804 an element of a list that is no pair, 13067 and 13068 too few numbers, 13026 no numbers,
/// 13027 out of bounds.
pub fn check_on_plane(v: &Value<'_>, min: f64, max: f64) -> Result<()> {
    let Some(d) = pair(v).filter(|d| !d.is_empty()) else {
        return Ok(());
    };
    if d.first().is_some_and(|(_, v)| v.is_number()) {
        return check_pair(d, min, max);
    }
    for (_, v) in d.iter() {
        let Some(inner) = pair(&v) else {
            bail!(
                16804,
                "location object expected, location array not in correct format"
            );
        };
        if !inner.is_empty() {
            check_pair(inner, min, max)?;
        }
    }
    Ok(())
}

fn pair<'a>(v: &Value<'a>) -> Option<Doc<'a>> {
    match v {
        Value::Document(d) => Some(*d),
        Value::Array(a) => Some(a.as_doc()),
        _ => None,
    }
}

fn check_pair(d: Doc<'_>, min: f64, max: f64) -> Result<()> {
    let mut values = d.iter().map(|(_, v)| v);
    let Some(x) = values.next() else {
        bail!(13067, "geo field is empty");
    };
    let Some(y) = values.next() else {
        bail!(13068, "geo field only has 1 element");
    };
    let (Some(x), Some(y)) = (x.as_f64(), y.as_f64()) else {
        bail!(
            13026,
            "geo values must be 'legacy coordinate pairs' for 2d indexes"
        );
    };
    let inside = |n: f64| (min..=max).contains(&n);
    if !inside(x) || !inside(y) {
        bail!(13027, "point not in interval of [ {min}, {max} ]: {d}");
    }
    Ok(())
}
