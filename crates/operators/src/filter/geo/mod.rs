//! `$geoWithin $geoIntersects $near $nearSphere`: shapes on the plane (legacy `$box $polygon
//! $center`) and on the sphere (`$geometry`, `$centerSphere`). Values that are no geometry do not
//! match. Errors: 2 for malformed shapes and operands, 16893-16896 for distances beside a legacy
//! `$near`, 5626500 where ordering by distance is not possible.

mod cell;
mod cover;
mod flat;
mod near;
mod parse;
mod region;
mod shape;
mod sphere;
mod stored;

pub use cover::{Covering, Surface, is_point_cell, stored_cells};
pub(super) use near::LegacyDistances;
pub use near::Near;
pub use region::Region;
pub use shape::Shape;
pub use sphere::{EARTH_RADIUS_M, Point as SpherePoint};

use model::{Result, Value};
pub use stored::{check_measured_on_sphere, check_on_plane, check_on_sphere, failure_on_sphere};

/// A parsed geospatial test.
pub enum Geo {
    /// `$geoWithin`.
    Within(Region),
    /// `$geoIntersects`.
    Intersects(Shape),
    /// `$near` and `$nearSphere`; the planner orders the result.
    Near(Near),
}

impl Geo {
    /// Parses the operand of a geospatial operator.
    ///
    /// # Errors
    /// 2 BadValue.
    pub(super) fn parse(name: &str, spec: Value<'_>) -> Result<Geo> {
        match name {
            "$geoIntersects" => parse::intersects(spec).map(Geo::Intersects),
            "$near" | "$nearSphere" | "$geoNear" => Near::parse(name, spec).map(Geo::Near),
            _ => parse::parse_within(name, spec).map(Geo::Within),
        }
    }

    pub(super) fn matches(&self, v: &Value<'_>) -> bool {
        match self {
            Geo::Within(region) => region.contains(v),
            Geo::Intersects(shape) => Shape::parse_stored(v).is_some_and(|s| s.intersects(shape)),
            Geo::Near(near) => near.distance(v).is_some(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{DocBuf, doc};

    fn hits(name: &str, spec: &DocBuf, v: &DocBuf) -> bool {
        let Ok(geo) = Geo::parse(name, Value::Document(spec.doc())) else {
            panic!("{spec:?} is valid")
        };
        geo.matches(&v.doc().field("v"))
    }

    fn code(name: &str, spec: &DocBuf) -> Option<i32> {
        Geo::parse(name, spec.doc().field("s"))
            .err()
            .map(|e| e.code())
    }

    #[test]
    fn plane_and_sphere() {
        let at = |x: f64, y: f64| doc! { "v": { "type": "Point", "coordinates": [x, y] } };
        let polygon = |side: f64| {
            doc! { "$geometry": { "type": "Polygon", "coordinates": [[
                [-side, -side], [side, -side], [side, side], [-side, side], [-side, -side]
            ]] } }
        };
        assert!(hits("$geoWithin", &polygon(10.0), &at(9.9, 0.0)));
        assert!(!hits("$geoWithin", &polygon(10.0), &at(10.1, 0.0)));
        assert!(!hits("$geoWithin", &polygon(10.0), &at(180.0, 0.0)));
        assert!(hits(
            "$geoWithin",
            &doc! { "$box": [[0.0, 0.0], [5.0, 5.0]] },
            &doc! { "v": [5i32, 0i32] }
        ));
        assert!(!hits(
            "$geoWithin",
            &doc! { "$box": [[0.0, 0.0], [5.0, 5.0]] },
            &doc! { "v": "x" }
        ));
        assert!(hits(
            "$geoWithin",
            &doc! { "$centerSphere": [[0.0, 90.0], 0.05] },
            &at(77.0, 89.0)
        ));
        assert!(hits(
            "$geoIntersects",
            &polygon(10.0),
            &doc! { "v": { "type": "LineString", "coordinates": [
                [-20i32, 0i32], [20i32, 0i32]
            ] } }
        ));
        assert!(!hits(
            "$geoIntersects",
            &polygon(10.0),
            &doc! { "v": { "type": "LineString", "coordinates": [
                [-20i32, 15i32], [20i32, 15i32]
            ] } }
        ));
    }

    /// A border that goes up and down around the equator has exactly a hemisphere on each side: its
    /// left side is inside, whatever rounding does to the sum of a thousand turns.
    #[test]
    fn a_ring_of_exactly_a_hemisphere_keeps_its_orientation() {
        let zigzag = |eastward: bool| {
            let mut ring: Vec<(f64, f64)> = (0..1000)
                .map(|i| {
                    let north = if i % 2 == 0 { -0.5 } else { 0.5 };
                    (-180.0 + f64::from(i) * 0.36, north)
                })
                .collect();
            ring.push((-180.0, -0.5));
            if !eastward {
                ring.reverse();
            }
            DocBuf::build(|w| {
                let mut geometry = w.doc("$geometry");
                geometry.put("type", "Polygon");
                let mut rings = geometry.array("coordinates");
                let mut points = rings.array();
                for (x, y) in ring {
                    let mut point = points.array();
                    point.push(x);
                    point.push(y);
                }
            })
        };
        let at = |y: f64| doc! { "v": { "type": "Point", "coordinates": [0.0, y] } };
        for (eastward, north, south) in [(true, true, false), (false, false, true)] {
            let ring = zigzag(eastward);
            assert_eq!(hits("$geoIntersects", &ring, &at(80.0)), north);
            assert_eq!(hits("$geoIntersects", &ring, &at(0.0)), north);
            assert_eq!(hits("$geoIntersects", &ring, &at(-80.0)), south);
        }
    }

    #[test]
    fn malformed_operands() {
        for (name, spec) in [
            ("$geoWithin", doc! { "s": 1i32 }),
            ("$geoWithin", doc! { "s": { "$box": [[0i32, 0i32]] } }),
            (
                "$geoWithin",
                doc! { "s": { "$center": [[0i32, 0i32], -1i32] } },
            ),
            (
                "$geoWithin",
                doc! { "s": { "$geometry": { "type": "Point", "coordinates": [0i32, 0i32] } } },
            ),
            (
                "$geoIntersects",
                doc! { "s": { "$geometry": { "type": "Point", "coordinates": [0i32, 91i32] } } },
            ),
            (
                "$geoIntersects",
                doc! { "s": { "$geometry": { "type": "Polygon", "coordinates": [[[0i32, 0i32],
                [1i32, 1i32]]] } } },
            ),
            ("$near", doc! { "s": [1i32] }),
        ] {
            assert_eq!(code(name, &spec), Some(2), "{name} {spec:?}");
        }
    }
}
