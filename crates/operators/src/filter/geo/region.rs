//! Operands of `$geoWithin`: regions of the plane and of the sphere.

use super::shape::{Shape, stored_flat_point};
use super::{flat, sphere};
use model::Value;

/// A region that contains geometries.
pub enum Region {
    /// Two corners.
    Box(flat::Point, flat::Point),
    /// Corners.
    Polygon(Vec<flat::Point>),
    /// Centre and radius on the plane.
    Center(flat::Point, f64),
    /// Centre and radius in radians on the sphere.
    CenterSphere(sphere::Point, f64),
    /// Polygons on the sphere.
    Geometry(Shape),
}

impl Region {
    /// Whether the stored geometry is inside.
    pub(super) fn contains(&self, v: &Value<'_>) -> bool {
        match self {
            Region::CenterSphere(center, radius) => {
                Shape::parse_stored(v).is_some_and(|s| s.is_within_cap(*center, *radius))
            }
            Region::Geometry(outer) => Shape::parse_stored(v).is_some_and(|s| s.is_within(outer)),
            planar => {
                let Some(p) = stored_flat_point(v) else {
                    return false;
                };
                match planar {
                    Region::Box(a, b) => flat::is_in_box(p, *a, *b),
                    Region::Polygon(corners) => flat::is_in_polygon(p, corners),
                    Region::Center(center, radius) => flat::distance(p, *center) <= *radius,
                    _ => false,
                }
            }
        }
    }
}
