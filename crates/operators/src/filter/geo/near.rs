//! `$near`, `$nearSphere`: a point and distances. Distances are in metres on the sphere for GeoJSON
//! points, in the plane's units for legacy points, and in radians for legacy points under
//! `$nearSphere`.

use super::shape::{Shape, flat_point, stored_flat_point};
use super::{flat, sphere};
use crate::filter::walk;
use model::{Doc, FieldPath, Result, Value, bail, code};
use std::ops::ControlFlow;

/// A parsed `$near`.
#[derive(Clone)]
pub struct Near {
    pub(super) center: Center,
    pub(super) min: f64,
    pub(super) max: f64,
}

#[derive(Clone)]
pub(super) enum Center {
    Flat(flat::Point),
    /// With the length of one radian.
    Sphere(sphere::Point, f64),
}

impl Near {
    /// Whether an index of this kind (`2d`, `2dsphere`) can serve this test: GeoJSON points need
    /// `2dsphere`, legacy points on the plane `2d`.
    pub fn can_use(&self, kind: &str) -> bool {
        match (&self.center, kind) {
            (Center::Flat(_), "2d") | (Center::Sphere(..), "2dsphere") => true,
            // A legacy point on the sphere measures in radians.
            (Center::Sphere(_, radian), "2d") => *radian == 1.0,
            _ => false,
        }
    }

    pub(super) fn parse(name: &str, spec: Value<'_>) -> Result<Near> {
        match spec {
            Value::Document(d) if d.contains("$geometry") => Near::geometry(name, d),
            Value::Array(_) | Value::Document(_) => Near::legacy(name, spec),
            v => bail!(
                code::BAD_VALUE,
                "near must be first in: {name} needs a point, not {}",
                v.type_name()
            ),
        }
    }

    /// `[x, y]`, `[x, y, greatest distance]` or `{x, y}`.
    fn legacy(name: &str, spec: Value<'_>) -> Result<Near> {
        let Some(p) = flat_point(&spec) else {
            bail!(code::BAD_VALUE, "{name} needs a point, not {}", spec)
        };
        let center = match name {
            "$nearSphere" => match sphere::Point::from_degrees(p.x, p.y) {
                Some(p) => Center::Sphere(p, 1.0),
                None => bail!(
                    code::BAD_VALUE,
                    "legacy point is out of bounds for spherical query"
                ),
            },
            _ => Center::Flat(p),
        };
        let max = match spec.as_array().and_then(|a| a.get(2)) {
            Some(max) => distance(name, &max)?,
            None => f64::INFINITY,
        };
        Ok(Near {
            center,
            min: 0.0,
            max,
        })
    }

    /// `{$geometry, $minDistance, $maxDistance}`.
    fn geometry(name: &str, spec: Doc<'_>) -> Result<Near> {
        let mut near = Near {
            center: Center::Flat(flat::Point { x: 0.0, y: 0.0 }),
            min: 0.0,
            max: f64::INFINITY,
        };
        for (field, v) in spec.iter() {
            match field {
                "$geometry" => {
                    let of_type = v.as_doc().map(|d| d.field("type"));
                    let other = matches!(of_type, Some(Value::String(t)) if t != "Point");
                    let Some(p) = Shape::any(&v)?.as_point().filter(|_| !other) else {
                        bail!(code::BAD_VALUE, "{name} requires a point, given {}", v)
                    };
                    near.center = Center::Sphere(p, sphere::EARTH_RADIUS_M);
                }
                "$minDistance" => near.min = finite_distance(field, &v)?,
                "$maxDistance" => near.max = finite_distance(field, &v)?,
                _ => bail!(
                    code::BAD_VALUE,
                    "invalid argument in geo near query: {field}"
                ),
            }
        }
        Ok(near)
    }

    /// Sets the distances given beside a legacy point.
    pub(in crate::filter) fn limit(&mut self, given: LegacyDistances) {
        self.min = given.min.unwrap_or(self.min);
        self.max = given.max.unwrap_or(self.max);
    }

    /// The distance of a stored geometry; `None` when it is no geometry or outside the limits.
    pub fn distance(&self, v: &Value<'_>) -> Option<f64> {
        let d = match &self.center {
            Center::Flat(p) => flat::distance(stored_flat_point(v)?, *p),
            Center::Sphere(p, unit) => Shape::parse_stored(v)?.angle_to(*p) * unit,
        };
        (self.min <= d && d <= self.max).then_some(d)
    }

    /// The least distance of the geometries that a document has at a path, within the limits.
    pub fn least(&self, path: &FieldPath, doc: Doc<'_>) -> Option<f64> {
        let mut least: Option<f64> = None;
        let _ = walk::walk_doc(
            doc,
            path.parts(),
            walk::Leaf::Traverse,
            None,
            &mut |v, _| {
                if let Some(d) = self.distance(&v) {
                    least = Some(least.map_or(d, |l| l.min(d)));
                }
                ControlFlow::Continue(())
            },
        );
        least
    }

    /// True when distances are measured on the sphere.
    pub fn is_spherical(&self) -> bool {
        matches!(self.center, Center::Sphere(..))
    }
}

/// The same as [`distance`], but an infinite distance is refused with 2.
fn finite_distance(what: &str, v: &Value<'_>) -> Result<f64> {
    match distance(what, v)? {
        d if d.is_finite() => Ok(d),
        d => bail!(code::BAD_VALUE, "{what} must be finite, not {d}"),
    }
}

fn distance(what: &str, v: &Value<'_>) -> Result<f64> {
    match v.as_f64() {
        Some(d) if d >= 0.0 => Ok(d),
        _ => bail!(
            code::BAD_VALUE,
            "{what} must be a non-negative number, not {}",
            v
        ),
    }
}

/// `$minDistance` and `$maxDistance` beside `$near: [x, y]`.
#[derive(Clone, Copy, Default)]
pub(in crate::filter) struct LegacyDistances {
    min: Option<f64>,
    max: Option<f64>,
}

impl LegacyDistances {
    /// # Errors
    /// 16893 and 16895 for no number, 16894 and 16896 for a negative one.
    pub(in crate::filter) fn set(&mut self, name: &str, v: &Value<'_>) -> Result<()> {
        let is_min = name == "$minDistance";
        let Some(d) = v.as_f64() else {
            bail!(
                if is_min { 16893 } else { 16895 },
                "{name} must be a number, not {}",
                v.type_name()
            )
        };
        if d.is_nan() || d < 0.0 {
            bail!(
                if is_min { 16894 } else { 16896 },
                "{name} must be non-negative"
            );
        }
        *(if is_min { &mut self.min } else { &mut self.max }) = Some(d);
        Ok(())
    }
}
