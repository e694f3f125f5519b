//! Operators on geometries: geoWithin, geoShape, and near with a point as origin.

use super::build::Build;
use super::path::read_field_keys;
use super::score::apply_score;
use crate::args::Args;
use crate::definition::FieldKind;
use crate::error::invalid;
use crate::matching::{MatcherQuery, PointTest, Points, Relation, Scoring, Shapes};
use crate::place::{point_arg, point_of, shape_arg};
use crate::schema::shown_path;
use model::{Doc, Result, Value};
use operators::filter::{EARTH_RADIUS_M, SpherePoint};
use std::sync::Arc;
use tantivy::query::{BooleanQuery, ConstScoreQuery, Query};

const AREAS: [&str; 2] = ["Polygon", "MultiPolygon"];
const GEOMETRIES: [&str; 7] = [
    "Point",
    "LineString",
    "Polygon",
    "MultiPoint",
    "MultiLineString",
    "MultiPolygon",
    "GeometryCollection",
];

/// The keys of fields that are indexed as geo, with shapes if required.
fn places(b: &Build<'_>, args: &Args<'_>, with_shapes: bool) -> Result<Vec<String>> {
    let keys = read_field_keys(b, args)?;
    for key in &keys {
        let kinds = b.index.definition().kinds_at(key);
        let fits = |k: &FieldKind| match k {
            FieldKind::Geo { shapes } => *shapes || !with_shapes,
            _ => false,
        };
        if !kinds.iter().any(fits) {
            let wanted = match with_shapes {
                true => "geo with indexShapes",
                false => "geo",
            };
            return Err(invalid(format!(
                "\"{}\": {} is not indexed as {wanted}",
                args.name("path"),
                shown_path(key)
            )));
        }
    }
    Ok(keys)
}

fn union_queries(queries: Vec<Box<dyn Query>>) -> Box<dyn Query> {
    let any = Box::new(BooleanQuery::union(queries));
    Box::new(ConstScoreQuery::new(any, 1.0))
}

/// `geoWithin: {path, box | circle | geometry, score}`: points within an area.
pub(super) fn geo_within(b: &Build<'_>, path: &str, v: Value<'_>) -> Result<Box<dyn Query>> {
    let allowed = ["path", "box", "circle", "geometry", "score"];
    let args = Args::new(path, v, &allowed)?;
    let given = (args.get("box"), args.get("circle"), args.get("geometry"));
    let test = match given {
        (Some(v), None, None) => {
            let inner = Args::new(&args.name("box"), v, &["bottomLeft", "topRight"])?;
            let (left, bottom) = point_arg(&inner, "bottomLeft")?;
            let (right, top) = point_arg(&inner, "topRight")?;
            if bottom > top {
                return Err(invalid(format!(
                    "\"{}\": bottomLeft is not below topRight: {bottom} and {top}",
                    inner.path
                )));
            }
            PointTest::Box {
                left,
                bottom,
                right,
                top,
            }
        }
        (None, Some(v), None) => {
            circle(&Args::new(&args.name("circle"), v, &["center", "radius"])?)?
        }
        (None, None, Some(_)) => PointTest::Area(Arc::new(shape_arg(&args, "geometry", &AREAS)?)),
        _ => {
            return Err(invalid(format!(
                "\"{path}\" must have exactly one of box, circle, geometry"
            )));
        }
    };
    let keys = places(b, &args, false)?.into_iter();
    let found = keys.map(|path| {
        MatcherQuery::new_boxed(Points {
            path,
            test: test.clone(),
            scoring: Scoring::Constant(1.0),
        })
    });
    apply_score(b, &args, union_queries(found.collect()))
}

fn circle(args: &Args<'_>) -> Result<PointTest> {
    let (lng, lat) = point_arg(args, "center")?;
    args.required("radius")?;
    let radius = args.number("radius")?.unwrap_or(-1.0);
    match SpherePoint::from_degrees(lng, lat) {
        Some(center) if radius >= 0.0 => Ok(PointTest::Circle {
            center,
            latitude: lat,
            angle: radius / EARTH_RADIUS_M,
        }),
        _ => Err(invalid(format!(
            "\"{}\" cannot be negative, it is {radius}",
            args.name("radius")
        ))),
    }
}

/// `geoShape: {path, relation, geometry, score}`: geometries by their relation to another.
pub(super) fn geo_shape(b: &Build<'_>, path: &str, v: Value<'_>) -> Result<Box<dyn Query>> {
    let args = Args::new(path, v, &["path", "relation", "geometry", "score"])?;
    args.required("relation")?;
    let words = ["contains", "disjoint", "intersects", "within"];
    let relation = match args.word("relation", &words)? {
        Some("contains") => Relation::Contains,
        Some("disjoint") => Relation::Disjoint,
        Some("within") => Relation::Within,
        _ => Relation::Intersects,
    };
    let shape = shape_arg(&args, "geometry", &GEOMETRIES)?;
    if matches!(relation, Relation::Within) && !shape.is_area() {
        return Err(invalid(format!(
            "\"{}\": nothing lies within points or lines, the geometry must be polygons",
            args.name("relation")
        )));
    }
    let shape = Arc::new(shape);
    let keys = places(b, &args, true)?.into_iter();
    let found = keys.map(|path| {
        MatcherQuery::new_boxed(Shapes {
            path,
            relation,
            shape: shape.clone(),
        })
    });
    apply_score(b, &args, union_queries(found.collect()))
}

/// Documents with a point, scored by distance.
pub(super) fn near_place(
    b: &Build<'_>,
    args: &Args<'_>,
    origin: Doc<'_>,
    pivot: f64,
) -> Result<Box<dyn Query>> {
    let point = point_of(origin).and_then(|(lng, lat)| SpherePoint::from_degrees(lng, lat));
    let Some(center) = point else {
        return Err(invalid(format!(
            "\"{}\" must be a number, a date or a GeoJSON point, not {origin}",
            args.name("origin")
        )));
    };
    let keys = places(b, args, false)?.into_iter();
    let found = keys.map(|path| {
        MatcherQuery::new_boxed(Points {
            path,
            test: PointTest::Near(center),
            // The distance replaces the value.
            scoring: Scoring::Near { origin: 0.0, pivot },
        })
    });
    Ok(Box::new(BooleanQuery::union(found.collect())))
}
