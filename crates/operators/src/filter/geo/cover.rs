//! The cells of geospatial indexes: the cells stored for a document, and the cells a test has to
//! search. A covering may be larger than its shape, never smaller. Must not know: indexes, keys.

use super::cell::{Cell, LEVEL_MAX, Square};
use super::near::{Center, Near};
use super::region::Region;
use super::shape::{Shape, flat_point};
use super::{Geo, flat, sphere};
use model::{Doc, Value};
use std::collections::VecDeque;
use std::f64::consts::PI;

/// Most cells of one stored shape.
const STORED_CELLS: usize = 16;
/// Most cells that a test searches.
const TEST_CELLS: usize = 32;
/// The finest level for cells of shapes other than points, about half a metre.
const STORED_LEVEL: u32 = 24;
/// Tolerance for rounding, in radians: less than a tenth of a millimetre on the earth.
const SLACK: f64 = 1e-11;
/// The faces of the sphere.
const FACES: u64 = 6;

/// The surface that an index divides into cells.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Surface {
    /// The sphere, of `2dsphere`.
    Sphere,
    /// The square between the two numbers in both directions, of `2d`.
    Plane(f64, f64),
}

impl Surface {
    /// The surface of a field of this kind in an index with this specification.
    pub fn of(index: Doc<'_>, kind: &str) -> Option<Surface> {
        let number = |name: &str, default: f64| index.field(name).as_f64().unwrap_or(default);
        match kind {
            "2dsphere" => Some(Surface::Sphere),
            "2d" => Some(Surface::Plane(number("min", -180.0), number("max", 180.0))),
            _ => None,
        }
    }
}

/// The cells that contain the index entries of all values that pass a test.
#[derive(Clone, Debug, PartialEq)]
pub struct Covering {
    /// Least and greatest numbers of the cells inside the covering, ascending.
    pub inside: Vec<(u64, u64)>,
    /// The cells around them: only for stored shapes that are no points.
    pub around: Vec<u64>,
}

impl Covering {
    fn of(mut cells: Vec<Cell>) -> Covering {
        let mut around = Vec::new();
        for cell in &cells {
            let mut at = cell.parent();
            while let Some(outer) = at.filter(|c| !around.contains(&c.0)) {
                around.push(outer.0);
                at = outer.parent();
            }
        }
        around.sort_unstable();
        cells.sort_unstable();
        Covering {
            inside: cells.into_iter().map(Cell::descendant_range).collect(),
            around,
        }
    }
}

/// True for the cell of a point, false for one of a shape.
pub fn is_point_cell(cell: u64) -> bool {
    Cell(cell).level() == LEVEL_MAX
}

/// Appends the cells of a value that a document stores; none for a value that is no geometry.
pub fn stored_cells(v: &Value<'_>, on: Surface, out: &mut Vec<u64>) {
    let mut one = |v: &Value<'_>| match on {
        Surface::Sphere => {
            if let Some(shape) = Shape::parse_stored(v) {
                out.extend(cells_of_shape(&shape).iter().map(|c| c.0));
            }
        }
        Surface::Plane(min, max) => {
            if let Some(p) = flat_point(v) {
                out.push(Cell::of_plane(p, Square { min, max }).0);
            }
        }
    };
    one(v);
    // A test also considers the elements of an array.
    if let Value::Array(a) = v {
        a.iter().for_each(|v| one(&v));
    }
}

fn cells_of_shape(shape: &Shape) -> Vec<Cell> {
    if let Some(p) = shape.as_point() {
        return vec![Cell::of_sphere(p)];
    }
    let near = ShapeCover::new(shape);
    cover(FACES, STORED_CELLS, STORED_LEVEL, &|c| near.touches(c))
}

/// A shape, and a cap around it with which most cells are excluded without the full check.
struct ShapeCover<'s> {
    shape: &'s Shape,
    around: Option<(sphere::Point, f64)>,
}

impl ShapeCover<'_> {
    fn new(shape: &Shape) -> ShapeCover<'_> {
        ShapeCover {
            shape,
            around: shape.cap(),
        }
    }

    fn touches(&self, cell: Cell) -> bool {
        let (center, radius) = cell.cap();
        if let Some((middle, reach)) = self.around {
            let apart = center.angle(middle);
            if apart > reach + radius + SLACK {
                return false;
            }
            if radius > reach {
                return true;
            }
        }
        self.shape.angle_to(center) <= radius + SLACK
    }
}

/// Cells that cover everything touched: at most `most`, or one for each touched face.
fn cover(faces: u64, most: usize, finest: u32, touches: &dyn Fn(Cell) -> bool) -> Vec<Cell> {
    let whole = (0..faces).map(Cell::face).filter(|c| touches(*c));
    // The coarsest first.
    let mut open: VecDeque<Cell> = whole.collect();
    let mut done = Vec::new();
    while let Some(cell) = open.pop_front() {
        if cell.level() >= finest {
            done.push(cell);
            continue;
        }
        let parts = || cell.children().into_iter().filter(|c| touches(*c));
        let parts: smallvec::SmallVec<[Cell; 4]> = parts().collect();
        match done.len() + open.len() + parts.len() > most {
            true => done.push(cell),
            false => open.extend(parts),
        }
    }
    done
}

impl Geo {
    /// The cells where an index over `on` has all values that pass; `None` when these are all
    /// cells, or when the index cannot know.
    pub fn cells(&self, on: Surface) -> Option<Covering> {
        match self {
            Geo::Within(region) => match (region, on) {
                (Region::CenterSphere(p, radius), _) => {
                    ring(&Center::Sphere(*p, 1.0), 0.0, *radius, on)
                }
                (Region::Geometry(shape), Surface::Sphere) => of_shape(shape),
                (Region::Box(a, b), Surface::Plane(min, max)) => {
                    of_box(&[*a, *b], Square { min, max })
                }
                (Region::Polygon(corners), Surface::Plane(min, max)) => {
                    of_box(corners, Square { min, max })
                }
                (Region::Center(p, radius), Surface::Plane(..)) => {
                    ring(&Center::Flat(*p), 0.0, *radius, on)
                }
                _ => None,
            },
            Geo::Intersects(shape) => of_shape(shape).filter(|_| on == Surface::Sphere),
            Geo::Near(near) => near.cells(near.min, near.max, on),
        }
    }
}

impl Near {
    /// The same for values nearer than `to` and not nearer than `from`, in the units of the test.
    pub fn cells(&self, from: f64, to: f64, on: Surface) -> Option<Covering> {
        ring(&self.center, from, to, on)
    }

    /// The least distance to search, the greatest distance possible on the surface, and a step that
    /// is small beside it, in the units of the test.
    pub fn reach(&self, on: Surface) -> (f64, f64, f64) {
        let (end, step) = match (&self.center, on) {
            (Center::Sphere(_, unit), _) => (PI * unit, 1e-5 * unit),
            (Center::Flat(p), Surface::Plane(min, max)) => {
                let far = |n: f64| (n - min).abs().max((n - max).abs());
                (far(p.x).hypot(far(p.y)), (max - min) / 1e6)
            }
            (Center::Flat(_), Surface::Sphere) => (f64::INFINITY, 1.0),
        };
        (self.min, self.max.min(end), step)
    }
}

fn of_shape(shape: &Shape) -> Option<Covering> {
    let near = ShapeCover::new(shape);
    cover_faces(FACES, &|c| near.touches(c))
}

fn of_box(corners: &[flat::Point], bounds: Square) -> Option<Covering> {
    let fold = |f: fn(f64, f64) -> f64, start: f64| flat::Point {
        x: corners.iter().map(|p| p.x).fold(start, f),
        y: corners.iter().map(|p| p.y).fold(start, f),
    };
    let (low, high) = (
        fold(f64::min, f64::INFINITY),
        fold(f64::max, f64::NEG_INFINITY),
    );
    let slack = slack_on_plane(bounds);
    cover_faces(1, &|c| {
        let (a, b) = c.rectangle(bounds);
        let apart = |low: f64, high: f64, a: f64, b: f64| a > high + slack || b < low - slack;
        !apart(low.x, high.x, a.x, b.x) && !apart(low.y, high.y, a.y, b.y)
    })
}

/// By rounding, a point at the edge of a finest cell may be assigned to the neighbouring cell.
fn slack_on_plane(Square { min, max }: Square) -> f64 {
    (max - min) / f64::from(1u32 << LEVEL_MAX)
}

fn ring(center: &Center, from: f64, to: f64, on: Surface) -> Option<Covering> {
    match (center, on) {
        (Center::Sphere(p, unit), Surface::Sphere) => {
            let (from, to) = (from / unit, to / unit);
            cover_faces(FACES, &|c| {
                let (center, radius) = c.cap();
                let angle = center.angle(*p);
                angle <= to + radius + SLACK && angle + radius >= from - SLACK
            })
        }
        // Longitude and latitude on a plane.
        (Center::Sphere(p, unit), Surface::Plane(min, max)) => {
            of_box(&corners_around(*p, to / unit), Square { min, max })
        }
        (Center::Flat(p), Surface::Plane(min, max)) => {
            let square = Square { min, max };
            let slack = slack_on_plane(square);
            cover_faces(1, &|c| {
                let (a, b) = c.rectangle(square);
                let beside = |n: f64, low: f64, high: f64| (low - n).max(n - high).max(0.0);
                let beyond = |n: f64, low: f64, high: f64| (n - low).abs().max((n - high).abs());
                let least = beside(p.x, a.x, b.x).hypot(beside(p.y, a.y, b.y));
                let most = beyond(p.x, a.x, b.x).hypot(beyond(p.y, a.y, b.y));
                least <= to + slack && most >= from - slack
            })
        }
        (Center::Flat(_), Surface::Sphere) => None,
    }
}

/// Two corners, in degrees, of an area that contains a cap.
fn corners_around(p: sphere::Point, radius: f64) -> [flat::Point; 2] {
    let [x, y, z] = p.vector();
    let (lat, lng) = (libm::asin(z.clamp(-1.0, 1.0)), libm::atan2(y, x));
    let (low, high) = (lat - radius - SLACK, lat + radius + SLACK);
    let half = match low <= -PI / 2.0 || high >= PI / 2.0 {
        true => PI,
        false => libm::asin((libm::sin(radius) / libm::cos(lat)).min(1.0)) + SLACK,
    };
    let around = lng - half < -PI || lng + half > PI;
    let (west, east) = if around {
        (-PI, PI)
    } else {
        (lng - half, lng + half)
    };
    let at = |x: f64, y: f64| flat::Point {
        x: x.to_degrees(),
        y: y.to_degrees(),
    };
    [at(west, low), at(east, high)]
}

fn cover_faces(faces: u64, touches: &dyn Fn(Cell) -> bool) -> Option<Covering> {
    let cells = cover(faces, TEST_CELLS, LEVEL_MAX, touches);
    let share = |c: &Cell| 0.25f64.powi(c.level() as i32);
    let everything = cells.iter().map(share).sum::<f64>() >= faces as f64;
    (!everything).then(|| Covering::of(cells))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{DocBuf, doc};

    struct Random(u64);

    impl Random {
        fn next(&mut self) -> f64 {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (self.0 >> 11) as f64 / (1u64 << 53) as f64
        }
        fn of(&mut self, n: usize) -> usize {
            (self.next() * n as f64) as usize
        }
        /// A random position, often near one of a few.
        fn place(&mut self) -> [f64; 2] {
            let towns = [
                [13.4, 52.5],
                [-179.9, 0.0],
                [179.9, -65.0],
                [0.0, 89.9],
                [-70.0, -89.0],
            ];
            if self.of(5) == 0 {
                return [self.next() * 360.0 - 180.0, self.next() * 180.0 - 90.0];
            }
            let [x, y] = towns[self.of(towns.len())];
            let far = [0.0, 0.001, 0.1, 5.0][self.of(4)];
            let beside = |n: f64, most: f64, by: f64| (n + by).clamp(-most, most);
            let (right, up) = (self.next() * far, self.next() * far);
            [beside(x, 180.0, right), beside(y, 90.0, up)]
        }
        fn ring(&mut self) -> Vec<DocBuf> {
            let ([x, y], side) = (self.place(), [0.001, 0.3, 8.0][self.of(3)]);
            let at = |x: f64, y: f64| doc! { "p": [x.clamp(-180.0, 180.0), y.clamp(-90.0, 90.0)] };
            vec![
                at(x, y),
                at(x + side, y),
                at(x + side * 1.5, y + side * 0.7),
                at(x, y + side),
                at(x, y),
            ]
        }
        fn geometry(&mut self) -> DocBuf {
            let [x, y] = self.place();
            match self.of(3) {
                0 => doc! { "type": "Point", "coordinates": [x, y] },
                1 => {
                    let [a, b] = self.place();
                    doc! { "type": "LineString", "coordinates": [[x, y], [a, b]] }
                }
                _ => {
                    let ring = self.ring();
                    DocBuf::build(|w| {
                        w.put("type", "Polygon");
                        let mut rings = w.array("coordinates");
                        let mut one = rings.array();
                        for p in &ring {
                            one.push(p.doc().field("p"));
                        }
                    })
                }
            }
        }
    }

    /// Whether a document passes; if it does, its stored cells must be among those that the test
    /// searches.
    fn check(name: &str, spec: Value<'_>, v: &Value<'_>, on: Surface) -> bool {
        let Ok(geo) = Geo::parse(name, spec) else {
            return false;
        };
        let Some(cells) = geo.cells(on) else {
            return false;
        };
        let mut stored = Vec::new();
        stored_cells(v, on, &mut stored);
        let found = stored.iter().any(|c| {
            cells.inside.iter().any(|(low, high)| low <= c && c <= high) || cells.around.contains(c)
        });
        let passes = geo.matches(v);
        assert!(found || !passes, "{name} {spec:?} {v:?}");
        // A test of points does not search the cells of shapes.
        assert!(stored.iter().all(|c| is_point_cell(*c)) || found || !passes);
        passes
    }

    #[test]
    fn nothing_that_passes_is_missed() {
        let (mut r, mut passed) = (Random(11), [0; 6]);
        for _ in 0..1_000 {
            let stored = doc! { "v": &r.geometry() };
            let v = stored.doc().field("v");
            let geometry = doc! { "$geometry": &r.geometry() };
            let [x, y] = r.place();
            let radius = [1e-6, 1e-3, 0.1, 1.0][r.of(4)];
            let cap = doc! { "$centerSphere": [[x, y], radius] };
            let metres = radius * 6_378_100.0;
            let near = doc! { "$geometry": { "type": "Point", "coordinates": [x, y] },
            "$maxDistance": metres, "$minDistance": metres / 3.0 };
            for (n, (name, spec)) in [
                ("$geoIntersects", &geometry),
                ("$geoWithin", &geometry),
                ("$geoWithin", &cap),
                ("$nearSphere", &near),
            ]
            .into_iter()
            .enumerate()
            {
                passed[n] += usize::from(check(
                    name,
                    Value::Document(spec.doc()),
                    &v,
                    Surface::Sphere,
                ));
            }
            let plane = Surface::Plane(-180.0, 180.0);
            let [a, b] = r.place();
            let pair = doc! { "v": [a, b] };
            let v = pair.doc().field("v");
            let size = radius * 20.0;
            let spec = match r.of(3) {
                0 => doc! { "$box": [[x, y], [x + size, y - size]] },
                1 => doc! { "$center": [[x, y], size] },
                _ => doc! { "$polygon": [[x, y], [x + size, y], [x, y + size]] },
            };
            passed[4] += usize::from(check("$geoWithin", Value::Document(spec.doc()), &v, plane));
            passed[5] += usize::from(check("$geoWithin", Value::Document(cap.doc()), &v, plane));
        }
        assert!(passed.iter().all(|n| *n > 1), "{passed:?}");
    }

    #[test]
    fn a_small_area_is_few_cells_and_a_point_is_one() {
        let point = doc! { "v": { "type": "Point", "coordinates": [13.4, 52.5] } };
        let mut stored = Vec::new();
        stored_cells(&point.doc().field("v"), Surface::Sphere, &mut stored);
        assert!(stored.len() == 1 && is_point_cell(stored[0]));
        let spec = doc! { "$centerSphere": [[13.4, 52.5], 1e-4] };
        let Ok(geo) = Geo::parse("$geoWithin", Value::Document(spec.doc())) else {
            panic!("it is valid")
        };
        let cells = geo.cells(Surface::Sphere).unwrap();
        assert!(cells.inside.len() <= TEST_CELLS && cells.around.len() < 100);
        // Less than twice the area of the cap, which is a quarter of its squared radius.
        let numbers: f64 = cells.inside.iter().map(|(a, b)| (b - a + 2) as f64).sum();
        let share = numbers / (6.0 * (1u64 << 61) as f64);
        assert!(share < 2.0 * 1e-8 / 4.0, "{share}");
        assert!(
            Geo::parse("$nearSphere", doc! { "v": [1.0, 1.0] }.doc().field("v"))
                .is_ok_and(|g| g.cells(Surface::Sphere).is_none())
        );
    }
}
