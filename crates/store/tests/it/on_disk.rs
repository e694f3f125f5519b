//! The examples of `docs/on-disk.md` are what the encoder writes.

use model::{Value, doc};
use store::format::keys::encode;

#[test]
fn documented_components_are_the_encoders() {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/on-disk.md")).unwrap();
    let (_, examples) = text.split_once("## Examples").unwrap();
    let a = doc! { "a": 1i32 };
    let values: &[(&str, Value<'_>)] = &[
        ("int 5", Value::Int32(5)),
        ("long -1", Value::Int64(-1)),
        ("double 1.5", Value::Double(1.5)),
        ("string \"ab\"", Value::String("ab")),
        ("{a: 1}", Value::Document(a.doc())),
        ("ascending null", Value::Null),
        ("date 0", Value::Date(0)),
    ];
    for (name, v) in values {
        let row = examples.lines().find(|l| l.starts_with(&format!("| {name} |"))).unwrap_or_else(|| panic!("no row {name}"));
        let documented = row.rsplit('|').nth(1).unwrap().trim().to_owned();
        let mut out = Vec::new();
        encode(v, None, &mut out);
        let hex: Vec<String> = out.iter().map(|b| format!("{b:02X}")).collect();
        assert_eq!(documented, hex.join(" "), "{name}");
    }
}
