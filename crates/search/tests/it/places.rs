//! Geometries: points within areas, geometries by their relation to another, scores by distance.

use crate::{index_of, search, search_positions};
use model::{DocBuf, doc};
use search::Index;
use std::sync::Arc;

fn point(lng: f64, lat: f64) -> DocBuf {
    doc! { "type": "Point", "coordinates": [lng, lat] }
}

fn square(kind: &str, west: f64, south: f64, side: f64) -> DocBuf {
    let (east, north) = (west + side, south + side);
    let ring = doc! { "v": [[west, south], [east, south], [east, north], [west, north],
    [west, south]] };
    let rings = doc! { "v": [ring.doc().field("v")] };
    match kind {
        "Polygon" => doc! { "type": kind, "coordinates": rings.doc().field("v") },
        _ => doc! { "type": kind, "coordinates": [rings.doc().field("v")] },
    }
}

fn places() -> Arc<Index> {
    let definition = doc! { "mappings": { "fields": {
        "at": { "type": "geo" },
        "area": { "type": "geo", "indexShapes": true }
    } } };
    let line = doc! { "type": "LineString", "coordinates": [[1i32, 1i32], [30i32, 1i32]] };
    index_of(
        "search",
        &definition,
        &[
            doc! { "at": &point(1.0, 1.0), "area": &square("Polygon", 0.0, 0.0, 10.0) },
            doc! { "at": &point(20.0, 20.0), "area": &square("MultiPolygon", 20.0, 20.0, 2.0) },
            doc! { "at": [&point(179.5, 0.0), &point(50.0, 50.0)], "area": &point(5.0, 5.0) },
            doc! { "at": "nowhere", "area": &line },
            doc! { "at": &square("Polygon", 0.0, 0.0, 1.0) },
        ],
    )
}

#[test]
fn points_are_found_within_boxes_circles_and_polygons() {
    let index = places();
    let corners = |a: DocBuf, b: DocBuf| {
        doc! { "geoWithin": { "path": "at", "box": { "bottomLeft": &a, "topRight": &b } } }
    };
    let circle = |radius: f64| {
        let circle = doc! { "center": &point(1.0, 0.0), "radius": radius };
        doc! { "geoWithin": { "path": "at", "circle": &circle } }
    };
    let within = |geometry: DocBuf| doc! { "geoWithin": { "path": "at", "geometry": &geometry } };
    for (spec, wanted) in [
        (corners(point(0.0, 0.0), point(1.0, 1.0)), vec![0]),
        (corners(point(0.0, 0.0), point(60.0, 60.0)), vec![0, 1, 2]),
        // Across the date line.
        (corners(point(170.0, -1.0), point(-170.0, 1.0)), vec![2]),
        // A degree of latitude is 6,378,100 * pi / 180 = 111,318.8 m.
        (circle(111_318.0), vec![]),
        (circle(111_319.0), vec![0]),
        (within(square("Polygon", 0.5, 0.5, 1.0)), vec![0]),
        (within(square("MultiPolygon", 19.0, 19.0, 2.0)), vec![1]),
        (within(square("Polygon", 49.0, 49.0, 2.0)), vec![2]),
    ] {
        assert_eq!(search_positions(&index, &spec), wanted, "{spec:?}");
    }
}

#[test]
fn geometries_are_found_by_how_they_lie() {
    let index = places();
    let shape = |relation: &str, geometry: &DocBuf| {
        doc! { "geoShape": { "path": "area", "relation": relation, "geometry": geometry } }
    };
    let inner = square("Polygon", 4.0, 4.0, 2.0);
    let around = square("Polygon", -1.0, -1.0, 13.0);
    for (spec, wanted) in [
        (shape("contains", &inner), vec![0]),
        (shape("contains", &point(21.0, 21.0)), vec![1]),
        (shape("contains", &point(5.0, 5.0)), vec![0, 2]),
        (shape("intersects", &inner), vec![0, 2]),
        (shape("intersects", &around), vec![0, 2, 3]),
        (shape("within", &around), vec![0, 2]),
        (shape("disjoint", &around), vec![1]),
        (shape("disjoint", &inner), vec![1, 3]),
    ] {
        assert_eq!(search_positions(&index, &spec), wanted, "{spec:?}");
    }
}

#[test]
fn the_nearer_the_better() {
    let index = places();
    let near = doc! { "near": { "path": "at", "origin": &point(1.0, 0.0), "pivot": 1000.0 } };
    let found = search(&index, near.doc()).expect("found");
    let ids: Vec<u8> = found.iter().map(|(n, _)| *n).collect();
    assert_eq!(ids, [0, 1, 2], "of two points the nearer counts");
    // One degree of latitude away: 1000 / (1000 + 111318.8).
    assert!(
        (f64::from(found[0].1) - 0.008_903).abs() < 1e-6,
        "{found:?}"
    );
}

#[test]
fn bad_arguments_of_places_are_refused() {
    let index = places();
    let p = point(0.0, 0.0);
    let far = doc! { "type": "Point", "coordinates": [200i32, 0i32] };
    let line = doc! { "type": "LineString", "coordinates": [[0i32, 0i32], [1i32, 1i32]] };
    let open = doc! { "type": "Polygon", "coordinates": [[[0i32, 0i32], [1i32, 1i32]]] };
    for (operator, spec, part) in [
        ("geoWithin", doc! { "path": "at" }, "exactly one of box"),
        (
            "geoWithin",
            doc! { "path": "at", "geometry": &line },
            "Polygon, MultiPolygon",
        ),
        (
            "geoWithin",
            doc! { "path": "at", "geometry": &open },
            "geoWithin.geometry\": Loop is not closed",
        ),
        (
            "geoWithin",
            doc! { "path": "at", "geometry": [1i32, 2i32] },
            "GeoJSON object",
        ),
        (
            "geoWithin",
            doc! { "path": "at", "circle": { "center": &p, "radius": -1i32 } },
            "negative",
        ),
        (
            "geoWithin",
            doc! { "path": "at", "circle": { "center": &p } },
            "circle.radius\" is required",
        ),
        (
            "geoWithin",
            doc! { "path": "at", "circle": { "center": &far, "radius": 1i32 } },
            "from -180 to 180",
        ),
        (
            "geoWithin",
            doc! { "path": "at", "box": { "bottomLeft": &point(0.0, 2.0), "topRight": &p } },
            "not below",
        ),
        (
            "geoWithin",
            doc! { "path": "elsewhere", "circle": { "center": &p, "radius": 1i32 } },
            "elsewhere is not indexed as geo",
        ),
        (
            "geoShape",
            doc! { "path": "at", "relation": "within",
            "geometry": &square("Polygon", 0.0, 0.0, 1.0) },
            "at is not indexed as geo with indexShapes",
        ),
        (
            "geoShape",
            doc! { "path": "area", "geometry": &p },
            "relation\" is required",
        ),
        (
            "geoShape",
            doc! { "path": "area", "relation": "beside", "geometry": &p },
            "contains, disjoint, intersects, within",
        ),
        (
            "geoShape",
            doc! { "path": "area", "relation": "within", "geometry": &line },
            "nothing lies within points or lines",
        ),
        (
            "near",
            doc! { "path": "at", "origin": &line, "pivot": 1i32 },
            "a GeoJSON point",
        ),
        (
            "near",
            doc! { "path": "area.x", "origin": &p, "pivot": 1i32 },
            "is not indexed as geo",
        ),
    ] {
        let whole = doc! { operator: &spec };
        let e = search(&index, whole.doc()).expect_err("refused");
        assert_eq!(e.code(), 8);
        assert!(e.message().contains(part), "{spec:?}: {}", e.message());
    }
}
