//! Geometries of documents and queries: GeoJSON objects. Must not know: indexes, operators.

use crate::args::Args;
use crate::error::invalid;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use model::{Doc, DocBuf, Result, Value};
use operators::filter::{Shape, SpherePoint};

/// Longitude and latitude of a GeoJSON point; `None` for anything else.
pub(crate) fn point_of(d: Doc<'_>) -> Option<(f64, f64)> {
    let Value::String("Point") = d.field("type") else {
        return None;
    };
    let Value::Array(list) = d.field("coordinates") else {
        return None;
    };
    let mut numbers = list.iter().map(|v| v.as_f64());
    let (lng, lat) = (numbers.next()??, numbers.next()??);
    SpherePoint::from_degrees(lng, lat).map(|_| (lng, lat))
}

/// A geometry as text, in the form in which it is stored; `None` for a document that is no
/// geometry.
pub(crate) fn write_shape(d: Doc<'_>) -> Option<String> {
    Shape::geojson(d).ok()?;
    let kept = DocBuf::build(|w| {
        for field in ["type", "coordinates", "geometries", "crs"] {
            if let Some(v) = d.get(field) {
                w.put(field, v);
            }
        }
    });
    Some(STANDARD.encode(kept.as_bytes()))
}

/// The geometry of a stored text.
pub(crate) fn read_shape(text: &str) -> Option<Shape> {
    let doc = DocBuf::from_bytes(STANDARD.decode(text).ok()?)?;
    Shape::geojson(doc.doc()).ok()
}

/// The point of an argument.
///
/// # Errors
/// 8 UnknownError for anything but a GeoJSON point.
pub(crate) fn point_arg(args: &Args<'_>, field: &str) -> Result<(f64, f64)> {
    let v = args.required(field)?;
    let Value::Document(d) = v else {
        return Err(args.wrong_type(field, "a GeoJSON point", v));
    };
    point_of(d).ok_or_else(|| {
        invalid(format!(
            "\"{}\" must be a GeoJSON point with a longitude from -180 to 180 and a latitude from \
             -90 to 90, not {v}",
            args.name(field)
        ))
    })
}

/// The geometry of an argument, which must have one of the types.
///
/// # Errors
/// 8 UnknownError for anything else.
pub(crate) fn shape_arg(args: &Args<'_>, field: &str, types: &[&str]) -> Result<Shape> {
    let v = args.required(field)?;
    let Value::Document(d) = v else {
        return Err(args.wrong_type(field, "a GeoJSON object", v));
    };
    let kind = d.field("type").as_str().unwrap_or_default();
    if !types.contains(&kind) {
        return Err(invalid(format!(
            "\"{}.type\" must be one of {}, not {}",
            args.name(field),
            types.join(", "),
            d.field("type")
        )));
    }
    let shape = Shape::geojson(d);
    shape.map_err(|e| invalid(format!("\"{}\": {}", args.name(field), e.message())))
}
