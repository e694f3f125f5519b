//! Geometry of the unit sphere: points are unit vectors, edges the shorter great-circle arcs.
//! Computes the same bits on every machine, because index entries depend on it: nothing here calls
//! the system's math library.

use std::f64::consts::PI;

/// Mean radius in metres, as in MongoDB.
pub const EARTH_RADIUS_M: f64 = 6_378_100.0;

/// Points closer than this angle are equal.
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
    pub fn from_degrees(lng: f64, lat: f64) -> Option<Point> {
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

    /// From a vector of any length but zero.
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

    /// Angle between two points, exact for small angles, too.
    pub fn angle(self, o: Point) -> f64 {
        libm::atan2(self.cross(o).norm(), self.dot(o))
    }

    pub(super) fn is_same(self, o: Point) -> bool {
        self.angle(o) <= SAME
    }
}

/// Whether a ring has more than a hemisphere on its left: then the sum of its turns is below zero.
/// Exactly a hemisphere does not count, with a tolerance for rounding.
pub(super) fn is_beyond_hemisphere(ring: &[Point]) -> bool {
    const ROUNDING: f64 = 1e-14;
    sum_turns(ring) < -ROUNDING
}

/// The sum of a ring's left turns: a full turn minus the solid angle on its left.
fn sum_turns(ring: &[Point]) -> f64 {
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
    turning
}

impl Point {
    /// Angle between vectors of any length.
    fn angle_of_vectors(self, o: Point) -> f64 {
        libm::atan2(self.cross(o).norm(), self.dot(o))
    }
}

/// Whether `p` is on the left of a ring whose left side is at most a hemisphere. Corners count as
/// inside.
pub(super) fn is_in_ring(p: Point, ring: &[Point]) -> bool {
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
    // A ring that extends over more than a hemisphere may also contain the opposite of `p`; then
    // the turns around both points are summed.
    if total.abs() > PI || fits_in_hemisphere(ring) {
        total > PI
    } else {
        is_reached_from_inside(p, ring)
    }
}

/// Whether all corners are less than a right angle from their center.
fn fits_in_hemisphere(ring: &[Point]) -> bool {
    let middle = ring.iter().fold([0.0; 3], |[x, y, z], p| {
        let [px, py, pz] = p.vector();
        [x + px, y + py, z + pz]
    });
    let middle = Point::of_vector(middle);
    ring.iter().all(|p| p.dot(middle) > 0.0)
}

/// Whether `p` is inside, by the number of edges crossed on arcs from inner points. The majority of
/// three arcs decides, because an arc may pass through a corner.
fn is_reached_from_inside(p: Point, ring: &[Point]) -> bool {
    const STEP: f64 = 1e-9;
    let n = ring.len();
    let edge = |i: usize| Some((*ring.get(i % n)?, *ring.get((i + 1) % n)?));
    let is_inside = |at: usize| {
        let Some((a, b)) = edge(at) else {
            return false;
        };
        let start = offset_point(a, b, 0.4, STEP);
        let edges = (0..n).filter_map(edge);
        let crossed = edges.filter(|(c, d)| arcs_cross(start, p, *c, *d));
        crossed.count() % 2 == 0
    };
    let votes = [0, n / 3, 2 * n / 3].into_iter();
    votes.filter(|at| is_inside(*at)).count() > 1
}

/// Whether `p` is on the arc.
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

/// Whether two arcs cross at an inner point of both.
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

/// The point at `angle` to the left of an arc, at a fraction of its length.
pub(super) fn offset_point(a: Point, b: Point, share: f64, angle: f64) -> Point {
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

/// As [`arcs_cross`], but an end of one arc on the other arc never counts as a crossing.
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
        // Computed as the distance to the foot as a point, so that both distances agree to the last
        // bit.
        let height = p.dot(normal) / normal.dot(normal);
        let foot = Point {
            x: p.x - normal.x * height,
            y: p.y - normal.y * height,
            z: p.z - normal.z * height,
        };
        p.angle(foot).min(ends)
    } else {
        ends
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The distance from a line is the distance from its nearest point, to the last bit, so that
    /// equal distances compare equal.
    #[test]
    fn a_line_is_as_far_as_its_nearest_point() {
        let at = |lng, lat| Point::from_degrees(lng, lat).unwrap();
        let (a, b, nearest) = (at(0.0, 0.0), at(2.0, 0.0), at(1.0, 0.0));
        let p = at(1.0, 1.0);
        assert_eq!(
            angle_to_arc(p, a, b) * EARTH_RADIUS_M,
            p.angle(nearest) * EARTH_RADIUS_M
        );
        assert_eq!(p.angle(nearest) * EARTH_RADIUS_M, 111_318.845_021_450_31);
        assert_eq!(angle_to_arc(at(5.0, 0.0), a, b), at(5.0, 0.0).angle(b));
    }
}
