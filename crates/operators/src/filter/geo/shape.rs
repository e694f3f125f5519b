//! GeoJSON and legacy points: parsing, checks, and how shapes relate on the sphere.

use super::{flat, sphere};
use model::{Doc, Result, Value, bail, code};
use sphere::Point;
use std::f64::consts::PI;

/// The reference system in which the direction of a ring is significant.
pub(super) const STRICT_WINDING: &str = "urn:x-mongodb:crs:strictwinding:EPSG:4326";

/// A shape on the sphere: any number of points, lines and polygons.
#[derive(Debug, Default)]
pub struct Shape {
    points: Vec<Point>,
    lines: Vec<Vec<Point>>,
    polygons: Vec<Polygon>,
}

/// An outer ring and holes. The inside of each ring is on its left and at most a hemisphere.
#[derive(Debug)]
struct Polygon {
    rings: Vec<Vec<Point>>,
    /// The outer ring bounds the outside: the polygon is larger than a hemisphere.
    inverted: bool,
}

/// Distance of inner points from the edges, in radians.
const INNER: f64 = 1e-11;
/// Positions of inner points along an edge: near both ends, because shapes may meet in a corner.
const ALONG: [f64; 3] = [1e-4, 0.5, 1.0 - 1e-4];

impl Polygon {
    /// Points inside the polygon next to each edge.
    fn inner_points(&self) -> impl Iterator<Item = Point> {
        self.rings.iter().enumerate().flat_map(|(n, ring)| {
            // The inside of the outer ring is on its left; next to a hole the inside of the polygon
            // is on the right.
            let is_left = n == 0 && !self.inverted;
            let side = if is_left { INNER } else { -INNER };
            let edges = ring.iter().zip(ring.iter().cycle().skip(1));
            edges.flat_map(move |(a, b)| {
                ALONG.map(|share| sphere::offset_point(*a, *b, share, side))
            })
        })
    }
    fn contains(&self, p: Point) -> bool {
        let Some((outer, holes)) = self.rings.split_first() else {
            return false;
        };
        sphere::is_in_ring(p, outer) != self.inverted
            && !holes.iter().any(|h| sphere::is_in_ring(p, h))
    }
    fn edges(&self) -> impl Iterator<Item = (Point, Point)> {
        self.rings
            .iter()
            .flat_map(|r| r.iter().copied().zip(r.iter().copied().cycle().skip(1)))
    }
}

fn line_edges(line: &[Point]) -> impl Iterator<Item = (Point, Point)> {
    line.iter().copied().zip(line.iter().copied().skip(1))
}

/// The first two elements of an array or document, as finite numbers.
pub(super) fn flat_point(v: &Value<'_>) -> Option<flat::Point> {
    let d = match v {
        Value::Array(a) => a.as_doc(),
        Value::Document(d) => *d,
        _ => return None,
    };
    let mut numbers = d.iter().map(|(_, v)| v.as_f64());
    let (x, y) = (numbers.next()??, numbers.next()??);
    (x.is_finite() && y.is_finite()).then_some(flat::Point { x, y })
}

/// A stored legacy point, or a GeoJSON point as a point of the plane.
pub(super) fn stored_flat_point(v: &Value<'_>) -> Option<flat::Point> {
    match v {
        Value::Document(d) if is_geojson(*d) => match (d.field("type"), d.field("coordinates")) {
            (Value::String("Point"), c @ Value::Array(_)) => flat_point(&c),
            _ => None,
        },
        v => flat_point(v),
    }
}

pub(super) fn is_geojson(d: Doc<'_>) -> bool {
    matches!(d.field("type"), Value::String(_))
}

fn position(v: &Value<'_>) -> Result<Point> {
    let shown = || v.to_string();
    let (Value::Array(_) | Value::Document(_)) = v else {
        bail!(
            code::BAD_VALUE,
            "Point must be an array or object, instead got {}",
            v.type_name()
        )
    };
    let Some(p) = flat_point(v) else {
        bail!(
            code::BAD_VALUE,
            "Point must only contain numeric elements: {}",
            shown()
        )
    };
    match Point::from_degrees(p.x, p.y) {
        Some(p) => Ok(p),
        None => bail!(
            code::BAD_VALUE,
            "longitude/latitude is out of bounds, lng: {} lat: {}",
            p.x,
            p.y
        ),
    }
}

fn list<'a>(v: &Value<'a>, what: &str) -> Result<Vec<Value<'a>>> {
    match v {
        Value::Array(a) => Ok(a.iter().collect()),
        v => bail!(
            code::BAD_VALUE,
            "{what} coordinates must be an array, instead got {}",
            v.type_name()
        ),
    }
}

fn line(v: &Value<'_>) -> Result<Vec<Point>> {
    let mut points = list(v, "LineString")?
        .iter()
        .map(position)
        .collect::<Result<Vec<_>>>()?;
    points.dedup_by(|a, b| a.is_same(*b));
    if points.len() < 2 {
        bail!(
            code::BAD_VALUE,
            "LineString must have at least 2 distinct vertices: {}",
            v
        );
    }
    Ok(points)
}

/// A closed ring without the repeated last point and without repeated corners.
fn ring(v: &Value<'_>) -> Result<Vec<Point>> {
    let mut points = list(v, "Polygon")?
        .iter()
        .map(position)
        .collect::<Result<Vec<_>>>()?;
    let (Some(first), Some(last)) = (points.first().copied(), points.last().copied()) else {
        bail!(code::BAD_VALUE, "Polygon loop must not be empty")
    };
    if points.len() < 4 || !first.is_same(last) {
        bail!(
            code::BAD_VALUE,
            "Loop is not closed, first vertex does not equal last vertex: {}",
            v
        );
    }
    points.pop();
    points.dedup_by(|a, b| a.is_same(*b));
    if points.len() < 3 {
        bail!(
            code::BAD_VALUE,
            "Loop must have at least 3 different vertices: {}",
            v
        );
    }
    let edges: Vec<_> = points
        .iter()
        .copied()
        .zip(points.iter().copied().cycle().skip(1))
        .collect();
    let doubled = points
        .iter()
        .enumerate()
        .any(|(i, p)| points.iter().skip(i + 1).any(|q| p.is_same(*q)));
    // Adjacent edges share a corner, which rounding must not turn into a crossing.
    let last = edges.len() - 1;
    let crossed = edges.iter().enumerate().any(|(i, (a, b))| {
        let others = edges
            .iter()
            .enumerate()
            .skip(i + 2)
            .filter(|(j, _)| i != 0 || *j != last);
        others
            .into_iter()
            .any(|(_, (c, d))| sphere::arcs_cross(*a, *b, *c, *d))
    });
    if doubled || crossed {
        bail!(
            code::BAD_VALUE,
            "Loop is not valid: edges cross or vertices repeat: {}",
            v
        );
    }
    Ok(points)
}

fn polygon(v: &Value<'_>, strict: bool) -> Result<Polygon> {
    let mut rings = list(v, "Polygon")?
        .iter()
        .map(ring)
        .collect::<Result<Vec<_>>>()?;
    let mut inverted = false;
    if rings.is_empty() {
        bail!(code::BAD_VALUE, "Polygon has no loops");
    }
    for (i, r) in rings.iter_mut().enumerate() {
        if sphere::is_beyond_hemisphere(r) {
            r.reverse();
            inverted |= strict && i == 0;
        }
    }
    if strict && rings.len() > 1 {
        bail!(
            code::BAD_VALUE,
            "Only one simple loop is allowed in a big polygon"
        );
    }
    if let Some((outer, holes)) = rings.split_first() {
        for (i, hole) in holes.iter().enumerate() {
            // Rings may touch in one point, but not along an edge.
            let edges = || outer.iter().zip(outer.iter().cycle().skip(1));
            let touches = hole
                .iter()
                .filter(|p| edges().any(|(a, b)| sphere::on_arc(**p, *a, *b)))
                .count();
            let outside = !hole.iter().all(|p| sphere::is_in_ring(*p, outer));
            let overlaps = holes
                .iter()
                .skip(i + 1)
                .any(|other| other.iter().any(|p| sphere::is_in_ring(*p, hole)));
            if outside || overlaps || touches > 1 {
                bail!(
                    code::BAD_VALUE,
                    "Secondary loops must lie inside the first and must not share edges or overlap"
                );
            }
        }
    }
    Ok(Polygon { rings, inverted })
}

fn is_strict(d: Doc<'_>) -> Result<bool> {
    let crs = match d.field("crs") {
        Value::Missing => return Ok(false),
        Value::Document(crs) => crs,
        v => bail!(
            code::BAD_VALUE,
            "GeoJSON CRS must be an object, not {}",
            v.type_name()
        ),
    };
    let Value::String("name") = crs.field("type") else {
        bail!(
            code::BAD_VALUE,
            "GeoJSON CRS must have field \"type\": \"name\""
        )
    };
    let Value::Document(p) = crs.field("properties") else {
        bail!(
            code::BAD_VALUE,
            "CRS must have field \"properties\" which is an object"
        )
    };
    match p.field("name") {
        Value::String("urn:ogc:def:crs:OGC:1.3:CRS84" | "EPSG:4326") => Ok(false),
        Value::String(STRICT_WINDING) => Ok(true),
        v => bail!(code::BAD_VALUE, "Unknown CRS name: {}", v),
    }
}

impl Shape {
    /// A GeoJSON object.
    ///
    /// # Errors
    /// 2 BadValue.
    pub fn geojson(d: Doc<'_>) -> Result<Shape> {
        let strict = is_strict(d)?;
        let mut shape = Shape::default();
        let c = d.field("coordinates");
        let Value::String(kind) = d.field("type") else {
            bail!(code::BAD_VALUE, "unknown GeoJSON type: {d}")
        };
        if strict && kind != "Polygon" {
            bail!(
                code::BAD_VALUE,
                "Strict winding order is only supported by polygon"
            );
        }
        match kind {
            "Point" => shape.points.push(position(&c)?),
            "MultiPoint" => {
                shape.points = list(&c, kind)?
                    .iter()
                    .map(position)
                    .collect::<Result<_>>()?
            }
            "LineString" => shape.lines.push(line(&c)?),
            "MultiLineString" => {
                shape.lines = list(&c, kind)?.iter().map(line).collect::<Result<_>>()?
            }
            "Polygon" => shape.polygons.push(polygon(&c, strict)?),
            "MultiPolygon" => {
                shape.polygons = list(&c, kind)?
                    .iter()
                    .map(|v| polygon(v, false))
                    .collect::<Result<_>>()?;
            }
            "GeometryCollection" => {
                for g in list(&d.field("geometries"), kind)? {
                    let Value::Document(inner) = g else {
                        bail!(
                            code::BAD_VALUE,
                            "GeometryCollection geometries must be objects"
                        )
                    };
                    if matches!(inner.field("type"), Value::String("GeometryCollection")) {
                        bail!(
                            code::BAD_VALUE,
                            "GeometryCollections cannot be nested: {inner}"
                        );
                    }
                    let inner = Shape::geojson(inner)?;
                    shape.points.extend(inner.points);
                    shape.lines.extend(inner.lines);
                    shape.polygons.extend(inner.polygons);
                }
            }
            _ => bail!(code::BAD_VALUE, "unknown GeoJSON type: {d}"),
        }
        if shape.points.is_empty() && shape.lines.is_empty() && shape.polygons.is_empty() {
            bail!(code::BAD_VALUE, "{kind} must have at least one element");
        }
        Ok(shape)
    }

    /// A GeoJSON object or a legacy point in degrees.
    ///
    /// # Errors
    /// 2 BadValue.
    pub(super) fn any(v: &Value<'_>) -> Result<Shape> {
        match v {
            // A point may omit its type.
            Value::Document(d) if !d.contains("type") && d.contains("coordinates") => Ok(Shape {
                points: vec![position(&d.field("coordinates"))?],
                ..Shape::default()
            }),
            Value::Document(d) if d.contains("type") => Shape::geojson(*d),
            v => match flat_point(v).and_then(|p| Point::from_degrees(p.x, p.y)) {
                Some(p) => Ok(Shape {
                    points: vec![p],
                    ..Shape::default()
                }),
                None => bail!(code::BAD_VALUE, "not a geometry: {}", v),
            },
        }
    }

    /// The geometry of a stored value; `None` when it is no geometry.
    pub(super) fn parse_stored(v: &Value<'_>) -> Option<Shape> {
        matches!(v, Value::Document(_) | Value::Array(_))
            .then(|| Shape::any(v).ok())
            .flatten()
    }

    /// The point, when the shape is exactly one point.
    pub fn as_point(&self) -> Option<Point> {
        match (
            self.points.as_slice(),
            self.lines.is_empty() && self.polygons.is_empty(),
        ) {
            ([p], true) => Some(*p),
            _ => None,
        }
    }

    /// True when there are only polygons.
    pub fn is_area(&self) -> bool {
        self.points.is_empty() && self.lines.is_empty() && !self.polygons.is_empty()
    }

    fn vertices(&self) -> impl Iterator<Item = Point> {
        let rings = self.polygons.iter().flat_map(|p| p.rings.iter());
        self.points
            .iter()
            .copied()
            .chain(self.lines.iter().chain(rings).flatten().copied())
    }

    fn edges(&self) -> impl Iterator<Item = (Point, Point)> {
        self.lines
            .iter()
            .flat_map(|l| line_edges(l))
            .chain(self.polygons.iter().flat_map(|p| p.edges()))
    }

    /// True when no point is farther from a center than an angle.
    pub fn is_within_cap(&self, center: Point, radius: f64) -> bool {
        // Rounding of the radius must not exclude points on the rim.
        let limit = radius + 1e-12;
        radius >= PI || self.vertices().all(|p| p.angle(center) <= limit)
    }

    /// True when it lies in the polygons of another shape.
    pub fn is_within(&self, outer: &Shape) -> bool {
        let inside = |p: Point| outer.polygons.iter().any(|poly| poly.contains(p));
        self.vertices().all(inside)
            && !self
                .edges()
                .any(|(a, b)| outer.edges().any(|(c, d)| sphere::arcs_cross(a, b, c, d)))
    }

    /// True when the shapes have a common point; two areas need a common inner point: areas that
    /// only touch do not intersect.
    pub fn intersects(&self, other: &Shape) -> bool {
        if self.is_area() && other.is_area() {
            return self.overlaps(other);
        }
        self.covers_a_vertex_of(other)
            || other.covers_a_vertex_of(self)
            || self
                .edges()
                .any(|(a, b)| other.edges().any(|(c, d)| sphere::arcs_cross(a, b, c, d)))
    }

    fn overlaps(&self, other: &Shape) -> bool {
        let reaches_into = |one: &Shape, two: &Shape| {
            let mut inner = one.polygons.iter().flat_map(Polygon::inner_points);
            inner.any(|p| two.polygons.iter().any(|poly| poly.contains(p)))
        };
        reaches_into(self, other)
            || reaches_into(other, self)
            || self.edges().any(|(a, b)| {
                other
                    .edges()
                    .any(|(c, d)| sphere::arcs_cross_inside(a, b, c, d))
            })
    }

    fn covers_a_vertex_of(&self, other: &Shape) -> bool {
        other.vertices().any(|p| self.covers(p))
    }

    /// True when a point lies in one of the polygons.
    pub fn has_inside(&self, p: Point) -> bool {
        self.polygons.iter().any(|poly| poly.contains(p))
    }

    /// True when a point is one of the shape's points, or lies on a line or in a polygon.
    fn covers(&self, p: Point) -> bool {
        self.points.iter().any(|q| q.is_same(p))
            || self.edges().any(|(a, b)| sphere::on_arc(p, a, b))
            || self.polygons.iter().any(|poly| poly.contains(p))
    }

    /// True when the other shape lies in this one: in its polygons, or, if the other has only
    /// points, each on a point, line or polygon.
    pub fn holds(&self, other: &Shape) -> bool {
        let only_points = other.lines.is_empty() && other.polygons.is_empty();
        other.is_within(self) || only_points && other.points.iter().all(|p| self.covers(*p))
    }

    /// A cap around the shape, as center and radius, when it is small enough to be useful.
    pub fn cap(&self) -> Option<(Point, f64)> {
        let mut sum = [0.0; 3];
        for p in self.vertices() {
            sum.iter_mut().zip(p.vector()).for_each(|(s, n)| *s += n);
        }
        if self.polygons.iter().any(|p| p.inverted) || sum.iter().all(|n| n.abs() < 1e-6) {
            return None;
        }
        let center = Point::of_vector(sum);
        let radius = self.vertices().map(|p| p.angle(center)).fold(0.0, f64::max);
        // A cap smaller than a hemisphere contains the arcs between its points.
        (radius < PI / 2.5).then_some((center, radius))
    }

    /// Least angle from a point to the shape.
    pub(super) fn angle_to(&self, p: Point) -> f64 {
        if self.polygons.iter().any(|poly| poly.contains(p)) {
            return 0.0;
        }
        let to_edges = self.edges().map(|(a, b)| sphere::angle_to_arc(p, a, b));
        self.points
            .iter()
            .map(|q| p.angle(*q))
            .chain(to_edges)
            .fold(f64::INFINITY, f64::min)
    }
}
