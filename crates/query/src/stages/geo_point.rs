//! Points, and the distance to stored locations: GeoJSON geometries and legacy pairs. Errors: 2 a
//! value that is no point or is off the sphere, 16433 a pair outside the plane's bounds.

use model::{Doc, FieldPath, Result, Value, bail, code};

/// MongoDB's sphere, in metres.
pub(super) const EARTH_RADIUS_M: f64 = 6_378_100.0;

/// Longitude and latitude in degrees, or x and y.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
}

/// The point from which distances are measured, and the geometry.
#[derive(Clone, Copy, Debug)]
pub(super) enum QueryPoint {
    /// On the plane.
    Flat(Point),
    /// On the sphere; distances are angles in radians.
    Sphere(Point),
}

type Vector = [f64; 3];

fn vector(p: Point) -> Vector {
    let (lon, lat) = (p.x.to_radians(), p.y.to_radians());
    [lat.cos() * lon.cos(), lat.cos() * lon.sin(), lat.sin()]
}

fn cross(a: Vector, b: Vector) -> Vector {
    [
        a[1] * b[2] - a[2] * b[1],
        a[2] * b[0] - a[0] * b[2],
        a[0] * b[1] - a[1] * b[0],
    ]
}

fn dot(a: Vector, b: Vector) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

fn angle(a: Vector, b: Vector) -> f64 {
    let c = cross(a, b);
    dot(c, c).sqrt().atan2(dot(a, b))
}

/// The first two numbers of an array or document; further ones (an altitude) may follow.
fn pair(v: Value<'_>) -> Option<Point> {
    let d = match v {
        Value::Array(a) => a.as_doc(),
        Value::Document(d) => d,
        _ => return None,
    };
    let mut numbers = d.iter().map(|(_, v)| v.as_f64());
    Some(Point {
        x: numbers.next()??,
        y: numbers.next()??,
    })
}

fn on_sphere(p: Point) -> bool {
    p.x.abs() <= 180.0 && p.y.abs() <= 90.0
}

impl QueryPoint {
    /// The point of a query, and whether it is a legacy pair.
    ///
    /// # Errors
    /// See the head of this file.
    pub(super) fn of_query(near: Value<'_>, spherical: bool) -> Result<(QueryPoint, bool)> {
        if let Value::Document(d) = near
            && let Some(coordinates) = d.get("coordinates")
        {
            if !matches!(d.field("type"), Value::Missing | Value::String("Point")) {
                bail!(
                    code::BAD_VALUE,
                    "$geoNear 'near' must be a GeoJSON Point, not {near}"
                );
            }
            return match pair(coordinates).filter(|p| on_sphere(*p)) {
                Some(p) => Ok((QueryPoint::Sphere(p), false)),
                None => bail!(
                    code::BAD_VALUE,
                    "invalid point in $geoNear 'near': {near}. Longitude is within 180, latitude \
                        within 90 degrees"
                ),
            };
        }
        let Some(p) = pair(near) else {
            bail!(
                code::BAD_VALUE,
                "invalid argument in $geoNear 'near': {near}"
            )
        };
        if spherical {
            return match on_sphere(p) {
                true => Ok((QueryPoint::Sphere(p), true)),
                false => bail!(
                    code::BAD_VALUE,
                    "legacy point is out of bounds for spherical query: {near}"
                ),
            };
        }
        if p.x.abs() > 180.0 || p.y.abs() > 180.0 {
            bail!(16433, "point not in interval of [ -180, 180 ]: {near}");
        }
        Ok((QueryPoint::Flat(p), true))
    }

    fn point(&self, p: Point) -> f64 {
        match self {
            QueryPoint::Flat(q) => (p.x - q.x).hypot(p.y - q.y),
            QueryPoint::Sphere(q) => angle(vector(*q), vector(p)),
        }
    }

    /// Distance to a great circle arc.
    fn arc(&self, a: Point, b: Point) -> f64 {
        let QueryPoint::Sphere(q) = self else {
            return self.point(a).min(self.point(b));
        };
        let (p, a3, b3) = (vector(*q), vector(a), vector(b));
        // Exact also for points close to each other; twice the cross product.
        let sum = [a3[0] + b3[0], a3[1] + b3[1], a3[2] + b3[2]];
        let difference = [b3[0] - a3[0], b3[1] - a3[1], b3[2] - a3[2]];
        let normal = cross(sum, difference);
        let length = dot(normal, normal).sqrt();
        let beside = dot(cross(normal, a3), p) < 0.0 || dot(cross(b3, normal), p) < 0.0;
        if length == 0.0 || beside {
            self.point(a).min(self.point(b))
        } else {
            // The distance to the foot of the perpendicular is computed like any distance to a
            // point, so that both agree to the last bit.
            let height = dot(normal, p) / dot(normal, normal);
            let foot = [
                p[0] - normal[0] * height,
                p[1] - normal[1] * height,
                p[2] - normal[2] * height,
            ];
            angle(p, foot)
        }
    }

    /// The nearest of the locations stored in a document, with its distance; `None` if it has none.
    pub(super) fn nearest<'a>(
        &self,
        walked: Value<'a>,
        doc: Doc<'a>,
        field: &FieldPath,
    ) -> Option<(f64, Value<'a>)> {
        let stored = match walked {
            // A numeric component may name an array element, which expression paths do not.
            Value::Missing => value_by_index(doc, field),
            Value::Array(a) if a.is_empty() => value_by_index(doc, field),
            v => v,
        };
        if let Some(d) = self.distance(stored) {
            return Some((d, stored));
        }
        let Value::Array(a) = stored else { return None };
        a.iter()
            .filter_map(|v| Some((self.distance(v)?, v)))
            .min_by(|x, y| x.0.total_cmp(&y.0))
    }

    /// Distance to one stored geometry.
    fn distance(&self, v: Value<'_>) -> Option<f64> {
        if let Value::Document(d) = v
            && let Value::String(kind) = d.field("type")
        {
            return match kind {
                "GeometryCollection" => nearest(
                    d.field("geometries")
                        .as_array()?
                        .iter()
                        .map(|g| self.distance(g)),
                ),
                kind => self.geometry(kind, d.field("coordinates")),
            };
        }
        pair(v).map(|p| self.point(p))
    }

    fn geometry(&self, kind: &str, coordinates: Value<'_>) -> Option<f64> {
        let each = |of: &str| nearest(coordinates.as_array()?.iter().map(|c| self.geometry(of, c)));
        match kind {
            "Point" => pair(coordinates).map(|p| self.point(p)),
            "MultiPoint" => each("Point"),
            "MultiLineString" => each("LineString"),
            "MultiPolygon" => each("Polygon"),
            "LineString" => {
                let points: Vec<Point> = coordinates.as_array()?.iter().filter_map(pair).collect();
                nearest(
                    points
                        .windows(2)
                        .map(|w| Some(self.arc(*w.first()?, *w.last()?))),
                )
            }
            "Polygon" => {
                let rings = coordinates.as_array()?;
                let inside = rings.iter().filter(|r| self.is_inside(*r)).count() % 2 == 1;
                if inside {
                    Some(0.0)
                } else {
                    each("LineString")
                }
            }
            _ => None,
        }
    }

    /// Whether a ring goes around the point, by counting crossings along its meridian.
    fn is_inside(&self, ring: Value<'_>) -> bool {
        let (QueryPoint::Flat(p) | QueryPoint::Sphere(p)) = self;
        let points: Vec<Point> = ring
            .as_array()
            .into_iter()
            .flat_map(|a| a.iter())
            .filter_map(pair)
            .collect();
        let crossings = points.windows(2).filter(|w| match w {
            [a, b] => {
                (a.x > p.x) != (b.x > p.x) && p.y < (b.y - a.y) * (p.x - a.x) / (b.x - a.x) + a.y
            }
            _ => false,
        });
        crossings.count() % 2 == 1
    }
}

fn nearest(distances: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    distances.flatten().min_by(f64::total_cmp)
}

/// The value at a path whose numeric components are array indexes.
fn value_by_index<'a>(doc: Doc<'a>, field: &FieldPath) -> Value<'a> {
    field
        .parts()
        .iter()
        .fold(Value::Document(doc), |at, part| match (at, part.index) {
            (Value::Document(d), _) => d.field(&part.name),
            (Value::Array(a), Some(i)) => a.get(i).unwrap_or_default(),
            _ => Value::Missing,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_on_the_sphere_and_on_the_plane() {
        let d = model::doc! { "p": { "type": "Point", "coordinates": [1.0, 0.0] }, "l": [3.0, 4.0],
        "line": { "type": "LineString", "coordinates": [[-1.0, 1.0], [1.0, 1.0]] },
        "poly": { "type": "Polygon", "coordinates": [[[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0,
            1.0], [-1.0, -1.0]]] } };
        let (sphere, flat) = (
            QueryPoint::Sphere(Point { x: 0.0, y: 0.0 }),
            QueryPoint::Flat(Point { x: 0.0, y: 0.0 }),
        );
        assert_eq!(
            sphere
                .distance(d.doc().field("p"))
                .map(|a| a * EARTH_RADIUS_M),
            Some(111_318.845_021_450_34)
        );
        assert_eq!(flat.distance(d.doc().field("l")), Some(5.0));
        let to_line = sphere.distance(d.doc().field("line")).unwrap();
        assert!((to_line.to_degrees() - 1.0).abs() < 1e-3, "{to_line}");
        assert_eq!(sphere.distance(d.doc().field("poly")), Some(0.0));
        assert_eq!(
            QueryPoint::of_query(d.doc().field("none"), true)
                .map_err(|e| e.code())
                .err(),
            Some(2)
        );
    }
}
