//! Geometry of the unit sphere: points are unit vectors, edges the shorter great-circle arcs. Gives
//! the same bits on every machine, for entries of indexes are made with it: nothing here calls the
//! system's mathematics.

use std::f64::consts::PI;

/// Mean radius in metres, as MongoDB has it.
pub(super) const EARTH_RADIUS_M: f64 = 6_378_100.0;

/// Angle below which points are the same.
const SAME: f64 = 1e-15;

/// A unit vector.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Point {
    x: f64,
    y: f64,
    z: f64,
}

impl Point {
    /// From degrees; `None` outside the valid range.
    pub(super) fn from_degrees(lng: f64, lat: f64) -> Option<Point> {
        if !(-180.0..=180.0).contains(&lng) || !(-90.0..=90.0).contains(&lat) {
            return None;
        }
        let (lng, lat) = (lng.to_radians(), lat.to_radians());
        Some(Point {
            x: libm::cos(lat) * libm::cos(lng),
            y: libm::cos(lat) * libm::sin(lng),
            z: libm::sin(lat),
        })
    }

    /// Of any length but zero.
    pub(super) fn of_vector([x, y, z]: [f64; 3]) -> Point {
        let length = (x * x + y * y + z * z).sqrt();
        Point {
            x: x / length,
            y: y / length,
            z: z / length,
        }
    }

    pub(super) fn vector(self) -> [f64; 3] {
        [self.x, self.y, self.z]
    }

    fn dot(self, o: Point) -> f64 {
        self.x * o.x + self.y * o.y + self.z * o.z
    }

    fn cross(self, o: Point) -> Point {
        Point {
            x: self.y * o.z - self.z * o.y,
            y: self.z * o.x - self.x * o.z,
            z: self.x * o.y - self.y * o.x,
        }
    }

    fn norm(self) -> f64 {
        self.dot(self).sqrt()
    }

    /// Angle between two points, exact for small ones too.
    pub(super) fn angle(self, o: Point) -> f64 {
        libm::atan2(self.cross(o).norm(), self.dot(o))
    }

    pub(super) fn is_same(self, o: Point) -> bool {
        self.angle(o) <= SAME
    }
}

/// Twice the signed angle-area measure: the solid angle to the left of a ring, in [0, 4π).
pub(super) fn area_to_the_left(ring: &[Point]) -> f64 {
    let n = ring.len();
    let at = |i: usize| ring.get(i % n).copied();
    let mut turning = 0.0;
    for i in 0..n {
        let (Some(a), Some(b), Some(c)) = (at(i), at(i + 1), at(i + 2)) else {
            continue;
        };
        let (ab, bc) = (a.cross(b), b.cross(c));
        let angle = ab.angle_of_vectors(bc);
        turning += if ab.cross(bc).dot(b) < 0.0 {
            -angle
        } else {
            angle
        };
    }
    (2.0 * PI - turning).rem_euclid(4.0 * PI)
}

impl Point {
    /// Angle between vectors of any length.
    fn angle_of_vectors(self, o: Point) -> f64 {
        libm::atan2(self.cross(o).norm(), self.dot(o))
    }
}

/// Is `p` to the left of a ring whose left side is no more than a hemisphere? Corners count as
/// inside.
pub(super) fn in_ring(p: Point, ring: &[Point]) -> bool {
    let Some(last) = ring.last() else {
        return false;
    };
    let mut total = 0.0;
    let mut a = *last;
    for &b in ring {
        if p.is_same(b) || on_arc(p, a, b) {
            return true;
        }
        // The angle at p between the directions towards a and b.
        let (u, v) = (p.cross(a), p.cross(b));
        let angle = u.angle_of_vectors(v);
        total += if u.cross(v).dot(p) < 0.0 {
            -angle
        } else {
            angle
        };
        a = b;
    }
    total > PI
}

/// Is `p` on the arc?
pub(super) fn on_arc(p: Point, a: Point, b: Point) -> bool {
    let normal = a.cross(b);
    let length = normal.norm();
    if length <= SAME {
        return p.is_same(a);
    }
    p.dot(normal).abs() / length <= SAME
        && p.dot(a) >= a.dot(b) - SAME
        && p.dot(b) >= a.dot(b) - SAME
}

/// Do two arcs cross at an inner point of both?
pub(super) fn arcs_cross(a: Point, b: Point, c: Point, d: Point) -> bool {
    let ab = a.cross(b);
    let (acb, bda) = (-ab.dot(c), ab.dot(d));
    if acb * bda <= 0.0 {
        return false;
    }
    let cd = c.cross(d);
    let (cbd, dac) = (-cd.dot(b), cd.dot(a));
    acb * cbd > 0.0 && acb * dac > 0.0
}

/// The point that is `angle` to the left of an arc, at a share of its way.
pub(super) fn beside(a: Point, b: Point, share: f64, angle: f64) -> Point {
    let ([ax, ay, az], [bx, by, bz]) = (a.vector(), b.vector());
    let on = |a: f64, b: f64| a + (b - a) * share;
    let middle = Point::of_vector([on(ax, bx), on(ay, by), on(az, bz)]);
    let normal = a.cross(b);
    let length = normal.norm();
    if length <= SAME {
        return middle;
    }
    let ([x, y, z], [nx, ny, nz]) = (middle.vector(), normal.vector());
    let step = angle / length;
    Point::of_vector([x + nx * step, y + ny * step, z + nz * step])
}

/// As [`arcs_cross`], where an end on the other arc is no crossing, rounding or not.
pub(super) fn arcs_cross_inside(a: Point, b: Point, c: Point, d: Point) -> bool {
    const ROUNDING: f64 = 1e-14;
    let is_off = |p: Point, a: Point, b: Point| {
        let normal = a.cross(b);
        p.dot(normal).abs() > ROUNDING * normal.norm()
    };
    arcs_cross(a, b, c, d)
        && is_off(a, c, d)
        && is_off(b, c, d)
        && is_off(c, a, b)
        && is_off(d, a, b)
}

/// Least angle from a point to an arc.
pub(super) fn angle_to_arc(p: Point, a: Point, b: Point) -> f64 {
    let normal = a.cross(b);
    let length = normal.norm();
    let ends = p.angle(a).min(p.angle(b));
    if length <= SAME {
        return ends;
    }
    // The foot of the perpendicular lies on the arc when p is between the planes through its ends.
    let between = normal.cross(a).dot(p) >= 0.0 && b.cross(normal).dot(p) >= 0.0;
    if between {
        libm::asin((p.dot(normal) / length).clamp(-1.0, 1.0))
            .abs()
            .min(ends)
    } else {
        ends
    }
}
