//! Geometry of the plane.

/// A point.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Point {
    /// First coordinate.
    pub x: f64,
    /// Second coordinate.
    pub y: f64,
}

pub(super) fn distance(a: Point, b: Point) -> f64 {
    (a.x - b.x).hypot(a.y - b.y)
}

/// Edges included; corners in any order.
pub(super) fn in_box(p: Point, a: Point, b: Point) -> bool {
    let between = |v: f64, s: f64, t: f64| s.min(t) <= v && v <= s.max(t);
    between(p.x, a.x, b.x) && between(p.y, a.y, b.y)
}

fn on_edge(p: Point, a: Point, b: Point) -> bool {
    let cross = (b.x - a.x) * (p.y - a.y) - (b.y - a.y) * (p.x - a.x);
    cross == 0.0 && in_box(p, a, b)
}

/// Even-odd rule, edges included.
pub(super) fn in_polygon(p: Point, corners: &[Point]) -> bool {
    let mut inside = false;
    let Some(last) = corners.last() else { return false };
    let mut a = *last;
    for &b in corners {
        if on_edge(p, a, b) {
            return true;
        }
        if (a.y > p.y) != (b.y > p.y) && p.x < (b.x - a.x) * (p.y - a.y) / (b.y - a.y) + a.x {
            inside = !inside;
        }
        a = b;
    }
    inside
}
