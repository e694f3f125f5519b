//! Documents by the points at a path.

use super::columns::Scoring;
use super::docs::Matcher;
use crate::schema::ColumnKind;
use operators::filter::{EARTH_RADIUS_M, Shape, SpherePoint};
use std::f64::consts::PI;
use std::sync::Arc;
use tantivy::columnar::{Column, DynamicColumn};
use tantivy::{DocId, Score, SegmentReader};

/// Which points match.
#[derive(Clone, Debug)]
pub(crate) enum PointTest {
    /// Between degrees of longitude and latitude; the box crosses the date line when left is
    /// greater than right.
    Box {
        left: f64,
        bottom: f64,
        right: f64,
        top: f64,
    },
    /// Within an angle.
    Circle {
        center: SpherePoint,
        latitude: f64,
        angle: f64,
    },
    /// Inside polygons.
    Area(Arc<Shape>),
    /// All points, scored by their distance.
    Near(SpherePoint),
}

/// Documents with a matching point at a path.
#[derive(Clone, Debug)]
pub(crate) struct Points {
    pub(crate) path: String,
    pub(crate) test: PointTest,
    pub(crate) scoring: Scoring,
}

/// The query for a segment's points.
struct PointQuery<'p> {
    test: &'p PointTest,
    /// A circle around the area.
    cap: Option<(SpherePoint, f64)>,
}

impl PointQuery<'_> {
    /// The distance of a matching point in metres; 0 if the score does not need it.
    fn distance(&self, lng: f64, lat: f64) -> Option<f64> {
        match self.test {
            PointTest::Box {
                left,
                bottom,
                right,
                top,
            } => {
                let beside = match left <= right {
                    true => (*left..=*right).contains(&lng),
                    false => lng >= *left || lng <= *right,
                };
                (beside && (*bottom..=*top).contains(&lat)).then_some(0.0)
            }
            PointTest::Circle {
                center,
                latitude,
                angle,
            } => {
                // At most the difference in latitude; rounding must not exclude the rim.
                let limit = angle + 1e-12;
                if (lat - latitude).abs().to_radians() > limit {
                    return None;
                }
                let at = SpherePoint::from_degrees(lng, lat)?;
                (*angle >= PI || at.angle(*center) <= limit).then_some(0.0)
            }
            PointTest::Area(shape) => {
                let at = SpherePoint::from_degrees(lng, lat)?;
                let outside = |(center, radius): (SpherePoint, f64)| at.angle(center) > radius;
                if self.cap.is_some_and(outside) {
                    return None;
                }
                shape.has_inside(at).then_some(0.0)
            }
            PointTest::Near(center) => {
                let at = SpherePoint::from_degrees(lng, lat)?;
                Some(at.angle(*center) * EARTH_RADIUS_M)
            }
        }
    }
}

impl Matcher for Points {
    fn find(&self, segment: &SegmentReader) -> tantivy::Result<Vec<(DocId, Score)>> {
        let longitudes = open(segment, ColumnKind::Longitude, &self.path)?;
        let latitudes = open(segment, ColumnKind::Latitude, &self.path)?;
        let (Some(longitudes), Some(latitudes)) = (longitudes, latitudes) else {
            return Ok(Vec::new());
        };
        let wanted = PointQuery {
            test: &self.test,
            cap: match &self.test {
                PointTest::Area(shape) => shape.cap().map(|(c, radius)| (c, radius + 1e-9)),
                _ => None,
            },
        };
        let mut found = Vec::new();
        for doc in 0..segment.max_doc() {
            let points = longitudes
                .values_for_doc(doc)
                .zip(latitudes.values_for_doc(doc));
            let nearest = points
                .filter_map(|(lng, lat)| wanted.distance(lng, lat))
                .fold(f64::INFINITY, f64::min);
            if nearest < f64::INFINITY {
                found.push((doc, self.scoring.of(nearest)));
            }
        }
        Ok(found)
    }
}

/// A column of degrees.
fn open(
    segment: &SegmentReader,
    kind: ColumnKind,
    path: &str,
) -> tantivy::Result<Option<Column<f64>>> {
    let name = kind.name(path);
    for handle in segment.fast_fields().dynamic_column_handles(&name)? {
        if let DynamicColumn::F64(column) = handle.open()? {
            return Ok(Some(column));
        }
    }
    Ok(None)
}
