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
pub(super) fn is_in_box(p: Point, a: Point, b: Point) -> bool {
    let between = |v: f64, s: f64, t: f64| s.min(t) <= v && v <= s.max(t);
    between(p.x, a.x, b.x) && between(p.y, a.y, b.y)
}

/// Even-odd rule with a ray to the right. Corners, horizontal and vertical edges belong to the
/// polygon; of slanted edges only those where the ray leaves, as in MongoDB.
pub(super) fn is_in_polygon(p: Point, corners: &[Point]) -> bool {
    let mut inside = false;
    let Some(last) = corners.last() else {
        return false;
    };
    let mut a = *last;
    for &b in corners {
        if p == b || ((a.y == b.y || a.x == b.x) && is_in_box(p, a, b)) {
            return true;
        }
        if p.y > a.y.min(b.y)
            && p.y <= a.y.max(b.y)
            && p.x <= (p.y - a.y) * (b.x - a.x) / (b.y - a.y) + a.x
        {
            inside = !inside;
        }
        a = b;
    }
    inside
}
