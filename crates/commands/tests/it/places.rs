//! Geospatial indexes refuse documents that they cannot index.

use crate::behaviour::{send, serve, store};
use crate::interrupts::json;
use commands::Config;

fn codes(commands: &[&str]) -> Vec<i64> {
    let service = serve(Config::default(), store());
    let mut conn = service.connect("127.0.0.1:50000");
    let mut code = |command: &&str| {
        let command = json(&command.replace('\'', "\""));
        let reply = send(&service, &mut conn, "d", command.doc());
        let failed = reply.doc().field("writeErrors").as_array();
        let first = failed.and_then(|a| a.iter().next()?.as_doc()?.field("code").as_i64_exact());
        let own = reply.doc().field("code").as_i64_exact();
        own.or(first).unwrap_or(0)
    };
    commands.iter().map(&mut code).collect()
}

fn index(kind: &str) -> String {
    format!("{{'createIndexes': 'c', 'indexes': [{{'key': {{'p.q': '{kind}'}}, 'name': 'p'}}]}}")
}

#[test]
fn documents_are_checked_when_they_are_written() {
    let on_sphere = [
        ("{'type': 'Point', 'coordinates': [1, 2]}", 0),
        ("[1, 2]", 0),
        ("{'lng': 1, 'lat': 2}", 0),
        ("null", 0),
        ("5", 16755),
        ("'x'", 16755),
        ("[1]", 16755),
        ("[500, 0]", 16755),
        ("[[1, 2], [3, 4]]", 16755),
        ("{'type': 'Point', 'coordinates': [0, 91]}", 16755),
        ("{'type': 'Nope', 'coordinates': [0, 1]}", 16755),
        ("{'type': 'LineString', 'coordinates': [[0, 1]]}", 16755),
        (
            "{'type': 'Polygon', 'coordinates': [[[0, 0], [1, 0], [1, 1]]]}",
            16755,
        ),
    ];
    let on_plane = [
        ("[1, 2]", 0),
        ("[[1, 2], [3, 4]]", 0),
        ("{'x': 1, 'y': 2}", 0),
        ("null", 0),
        ("5", 0),
        ("[]", 0),
        ("[1]", 13068),
        ("[1, 'x']", 13026),
        ("[1, 181]", 13027),
        ("[[1, 2], 3]", 16804),
        ("[[1, 2], [3]]", 13068),
    ];
    for (kind, rows) in [("2dsphere", &on_sphere[..]), ("2d", &on_plane[..])] {
        for (value, wanted) in rows {
            let insert =
                format!("{{'insert': 'c', 'documents': [{{'_id': 1, 'p': {{'q': {value}}}}}]}}");
            let update = format!(
                "{{'update': 'c', 'updates': [{{'q': {{'_id': 0}}, 'u': {{'$set': \
                    {{'p': [{{'q': {value}}}, {{}}]}}}}}}]}}"
            );
            let found = codes(&[
                &index(kind),
                "{'insert': 'c', 'documents': [{'_id': 0}]}",
                &insert,
                &update,
                // An existing document that cannot be indexed makes the build fail.
                "{'dropIndexes': 'c', 'index': 'p'}",
                &insert.replace("'_id': 1", "'_id': 2"),
                &index(kind),
            ]);
            assert_eq!(
                found,
                [0, 0, *wanted, *wanted, 0, 0, *wanted],
                "{kind} {value}"
            );
        }
    }
}

#[test]
fn a_clustered_index_is_made_with_its_collection() {
    let clustered = |coll: &str, key: &str| {
        format!(
            "{{'createIndexes': '{coll}', 'indexes': [{{'key': {{'{key}': 1}}, 'name': 'x', \
                'clustered': true, 'unique': true}}]}}"
        )
    };
    let found = codes(&[
        "{'create': 'c'}",
        "{'create': 'k', 'clusteredIndex': {'key': {'_id': 1}, 'unique': true}}",
        &clustered("c", "a"),
        &clustered("k", "a"),
        &clustered("never", "a"),
    ]);
    assert_eq!(found, [0, 0, 6_243_700, 6_243_700, 6_100_900]);
}
