//! Operands of `$geoWithin` and `$geoIntersects`.

use super::region::Region;
use super::shape::{Shape, flat_point};
use super::{flat, sphere};
use model::{Doc, Result, Value, bail, code};

fn operand<'a>(name: &str, spec: Value<'a>) -> Result<Doc<'a>> {
    match spec {
        Value::Document(d) => Ok(d),
        v => bail!(
            code::BAD_VALUE,
            "{name} expects an object, not {}",
            v.type_name()
        ),
    }
}

pub(super) fn intersects(spec: Value<'_>) -> Result<Shape> {
    let d = operand("$geoIntersects", spec)?;
    let (Some(("$geometry", v)), 1) = (d.first(), d.count()) else {
        bail!(
            code::BAD_VALUE,
            "$geoIntersects needs exactly a $geometry: {d}"
        )
    };
    Shape::any(&v)
}

pub(super) fn parse_within(name: &str, spec: Value<'_>) -> Result<Region> {
    let d = operand(name, spec)?;
    let mut region = None;
    for (specifier, v) in d.iter().filter(|(n, _)| *n != "$uniqueDocs") {
        if region.is_some() {
            bail!(code::BAD_VALUE, "{name} takes one shape: {d}");
        }
        region = Some(match specifier {
            "$geometry" => geometry(name, v)?,
            "$box" => {
                let (a, b) = two(specifier, v)?;
                Region::Box(corner(specifier, &a)?, corner(specifier, &b)?)
            }
            "$center" => {
                let (center, radius) = exactly_two(specifier, v)?;
                Region::Center(
                    corner(specifier, &center)?,
                    self::radius(specifier, &radius)?,
                )
            }
            "$centerSphere" => {
                let (center, radius) = exactly_two(specifier, v)?;
                let p = corner(specifier, &center)?;
                let Some(p) = sphere::Point::from_degrees(p.x, p.y) else {
                    bail!(
                        code::BAD_VALUE,
                        "the centre of $centerSphere is out of bounds: {} {}",
                        p.x,
                        p.y
                    )
                };
                Region::CenterSphere(p, self::radius(specifier, &radius)?)
            }
            "$polygon" => Region::Polygon(polygon(v)?),
            _ => bail!(code::BAD_VALUE, "unknown geo specifier: {specifier}"),
        });
    }
    match region {
        Some(r) => Ok(r),
        None => bail!(code::BAD_VALUE, "{name} needs a shape: {d}"),
    }
}

fn geometry(name: &str, v: Value<'_>) -> Result<Region> {
    let Value::Document(d) = v else {
        bail!(
            code::BAD_VALUE,
            "$geometry must be an object, not {}",
            v.type_name()
        )
    };
    let shape = Shape::geojson(d)?;
    if !shape.is_area() || matches!(d.field("type"), Value::String("GeometryCollection")) {
        bail!(
            code::BAD_VALUE,
            "{name} not supported with provided geometry: {d}"
        );
    }
    Ok(Region::Geometry(shape))
}

/// The first two elements.
fn two<'a>(specifier: &str, v: Value<'a>) -> Result<(Value<'a>, Value<'a>)> {
    let items = match v {
        Value::Array(a) => a,
        Value::Document(d) => d.as_array(),
        v => bail!(
            code::BAD_VALUE,
            "{specifier} must be an array, not {}",
            v.type_name()
        ),
    };
    match (items.get(0), items.get(1)) {
        (Some(a), Some(b)) => Ok((a, b)),
        _ => bail!(code::BAD_VALUE, "{specifier} needs two elements"),
    }
}

fn exactly_two<'a>(specifier: &str, v: Value<'a>) -> Result<(Value<'a>, Value<'a>)> {
    let extra = match v {
        Value::Array(a) => a.get(2),
        Value::Document(d) => d.as_array().get(2),
        _ => None,
    };
    match extra {
        Some(_) => bail!(
            code::BAD_VALUE,
            "{specifier} takes a centre and a radius, nothing else"
        ),
        None => two(specifier, v),
    }
}

fn corner(specifier: &str, v: &Value<'_>) -> Result<flat::Point> {
    let count = match v {
        Value::Array(a) => a.len(),
        Value::Document(d) => d.count(),
        _ => 0,
    };
    match flat_point(v).filter(|_| count == 2) {
        Some(p) => Ok(p),
        None => bail!(
            code::BAD_VALUE,
            "{specifier} needs points of two finite numbers, not {}",
            v
        ),
    }
}

fn radius(specifier: &str, v: &Value<'_>) -> Result<f64> {
    match v.as_f64() {
        Some(r) if r >= 0.0 => Ok(r),
        _ => bail!(
            code::BAD_VALUE,
            "radius of {specifier} must be a non-negative number, not {}",
            v
        ),
    }
}

fn polygon(v: Value<'_>) -> Result<Vec<flat::Point>> {
    let items = match v {
        Value::Array(a) => a,
        Value::Document(d) => d.as_array(),
        v => bail!(
            code::BAD_VALUE,
            "$polygon must be an array, not {}",
            v.type_name()
        ),
    };
    let corners = items
        .iter()
        .map(|p| corner("$polygon", &p))
        .collect::<Result<Vec<_>>>()?;
    if corners.len() < 3 {
        bail!(code::BAD_VALUE, "Polygon must have at least 3 points");
    }
    Ok(corners)
}
