//! Null and undefined for optional arguments, for every row of every command's table: they count as
//! not given, as in MongoDB's parsers, unless a row says otherwise.

use crate::behaviour::{send, serve, store};
use commands::{Config, registry};
use model::{DocBuf, Value, doc};
use request::args::Kind;
use request::spec::flag;

/// Optional arguments for which null is a wrong type: from recordings, or required.
const STRICT: &[(&str, &str)] = &[
    ("aggregate", "allowDiskUse"),
    ("aggregate", "cursor"),
    ("aggregate", "explain"),
    ("collMod", "expireAfterSeconds"),
    ("create", "clusteredIndex"),
    ("find", "filter"),
    ("renameCollection", "dropTarget"),
];

/// Arguments with their own parser, which refuses null in its own way.
const OWN: &[&str] = &["hint"];

#[test]
fn null_is_not_given() {
    let service = serve(Config::default(), store());
    let mut conn = service.connect("127.0.0.1:1");
    let (mut wrong, mut strict, mut rows) = (Vec::new(), Vec::new(), 0);
    for spec in registry::all().map(|c| &c.spec) {
        let optional = spec.args.iter().filter(|a| !a.required);
        for row in optional.filter(|a| a.kind != Kind::Any && !OWN.contains(&a.name)) {
            rows += 1;
            if row.strict_null {
                strict.push((spec.name, row.name));
                continue;
            }
            for null in [Value::Null, Value::Undefined] {
                let db = if spec.is(flag::ADMIN) { "admin" } else { "db" };
                let own: Value<'_> = match spec.value {
                    Kind::Collection | Kind::Str => "c".into(),
                    _ => 1i32.into(),
                };
                let command = DocBuf::build(|w| {
                    w.put(spec.name, own).put(row.name, null);
                });
                // `shutdown` ends the process; other commands wait.
                if spec.name == "shutdown" {
                    continue;
                }
                let reply = send(&service, &mut conn, db, command.doc());
                let text = reply
                    .doc()
                    .field("errmsg")
                    .as_str()
                    .unwrap_or("")
                    .to_owned();
                if text.contains(&format!(".{}' is the wrong type", row.name)) {
                    wrong.push(format!("{} {}: {text}", spec.name, row.name));
                }
            }
        }
    }
    assert!(rows > 150, "{rows} rows");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    strict.sort_unstable();
    assert_eq!(strict, STRICT);
}

/// Fields of an index specification are not arguments: MongoDB 8.2 refuses null in each of them
/// (recorded for `sparse`, `unique`, `hidden`, `collation`, `partialFilterExpression`,
/// `wildcardProjection`, `bits`, `min`, `max`, `2dsphereIndexVersion`, `default_language` with 14,
/// for `expireAfterSeconds` with 67).
#[test]
fn null_in_an_index_specification_is_refused() {
    let service = serve(Config::default(), store());
    let mut conn = service.connect("127.0.0.1:1");
    for (field, wanted) in [
        ("sparse", 14),
        ("unique", 14),
        ("background", 14),
        ("hidden", 14),
        ("collation", 14),
        ("partialFilterExpression", 14),
        ("expireAfterSeconds", 67),
    ] {
        let spec = doc! { "key": { "a": 1i32 }, "name": "a", field: Value::Null };
        let command = doc! { "createIndexes": "c", "indexes": [&spec] };
        let reply = send(&service, &mut conn, "db", command.doc());
        assert_eq!(
            reply.doc().field("code").as_i64_exact(),
            Some(wanted),
            "{field}"
        );
    }
}
