//! `$jsonSchema`: MongoDB's dialect of JSON Schema draft 4 with `bsonType`. A keyword for other
//! types accepts the value. Not allowed: `$ref $schema default definitions format id`.

mod matching;
mod parse;
mod schema;

use model::{Result, Value};
pub use schema::Schema;

impl Schema {
    /// Parses the operand of `$jsonSchema`.
    ///
    /// # Errors
    /// 14 TypeMismatch for operands of a wrong type, 9 FailedToParse for unknown keywords and
    /// impossible numbers, 2 BadValue for unknown type names, 51091 for patterns that do not
    /// compile.
    pub(super) fn parse(spec: Value<'_>) -> Result<Schema> {
        parse::schema(spec, "$jsonSchema", 0)
    }

    /// Whether the value satisfies the schema.
    ///
    /// # Errors
    /// 51156 for runaway patterns.
    pub fn matches(&self, v: Value<'_>) -> Result<bool> {
        matching::value(self, &v)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Decimal128, DocBuf, doc};

    fn ok(schema: &DocBuf, d: &DocBuf) -> bool {
        Schema::parse(Value::Document(schema.doc()))
            .unwrap()
            .matches(Value::Document(d.doc()))
            .unwrap()
    }

    fn fails(schema: &DocBuf) -> Option<i32> {
        Schema::parse(Value::Document(schema.doc()))
            .err()
            .map(|e| e.code())
    }

    #[test]
    fn keywords_concern_their_types_only() {
        let s = doc! { "properties": { "x": { "minimum": 5i32, "exclusiveMinimum": true,
        "minLength": 2i32 } } };
        assert!(ok(&s, &doc! { "x": 6i32 }));
        assert!(!ok(&s, &doc! { "x": 5i32 }));
        assert!(ok(&s, &doc! { "x": "ab" }));
        assert!(!ok(&s, &doc! { "x": "é" }));
        assert!(ok(&s, &doc! { "y": 1i32 }));
        let s = doc! { "properties": { "x": { "multipleOf": 0.1 } } };
        assert!(ok(&s, &doc! { "x": 0.3 }));
        assert!(!ok(&s, &doc! { "x": 0.35 }));
        let s = doc! { "properties": { "x": { "uniqueItems": true, "items": [{ "type": "number" }],
        "additionalItems": false } } };
        assert!(ok(&s, &doc! { "x": [1i32] }));
        assert!(!ok(&s, &doc! { "x": [1i32, 2i32] }));
    }

    #[test]
    fn combinations() {
        let s = doc! { "oneOf": [{ "required": ["a"] }, { "required": ["b"] }], "not": {
        "required": ["c"] } };
        assert!(ok(&s, &doc! { "a": 1i32 }));
        assert!(!ok(&s, &doc! { "a": 1i32, "b": 1i32 }));
        assert!(!ok(&s, &doc! { "a": 1i32, "c": 1i32 }));
    }

    #[test]
    fn codes() {
        for (schema, wanted) in [
            (doc! { "nope": 1i32 }, 9),
            (doc! { "type": "integer" }, 9),
            (doc! { "type": "int" }, 2),
            (doc! { "bsonType": true }, 14),
            (doc! { "required": [] }, 9),
            (doc! { "minLength": -1i32 }, 9),
            (doc! { "minLength": "1" }, 9),
            (doc! { "exclusiveMinimum": true }, 9),
            (doc! { "allOf": [] }, 2),
            (doc! { "pattern": "[" }, 51091),
        ] {
            assert_eq!(fails(&schema), Some(wanted), "{schema:?}");
        }
    }

    /// Keywords, the types of their operands, and the code for all other types.
    const OPERANDS: &[(&[&str], &[&str], i32)] = &[
        (&["type", "bsonType"], &["string", "array"], 14),
        (
            &["minimum", "maximum", "multipleOf"],
            &["int", "double", "decimal"],
            14,
        ),
        (
            &[
                "minLength",
                "maxLength",
                "minItems",
                "maxItems",
                "minProperties",
                "maxProperties",
            ],
            &["int"],
            9,
        ),
        (&["uniqueItems"], &["bool"], 14),
        (&["pattern", "title", "description"], &["string"], 14),
        (
            &["required", "enum", "allOf", "anyOf", "oneOf"],
            &["array"],
            14,
        ),
        (&["items"], &["array", "object"], 14),
        (
            &["additionalItems", "additionalProperties"],
            &["bool", "object"],
            14,
        ),
        (
            &["properties", "patternProperties", "dependencies", "not"],
            &["object"],
            14,
        ),
    ];

    #[test]
    fn operands_of_every_type() {
        let strings = doc! { "v": ["string"], "schemas": [{}] };
        let of = |name: &str| strings.doc().field(name);
        let empty = doc! {};
        for (keywords, taken, number) in OPERANDS {
            for keyword in *keywords {
                let list = match *keyword {
                    "allOf" | "anyOf" | "oneOf" | "items" => of("schemas"),
                    _ => of("v"),
                };
                let samples = [
                    Value::Null,
                    Value::Undefined,
                    Value::Bool(true),
                    Value::Int32(3),
                    Value::Double(0.5),
                    Value::Decimal128(Decimal128::parse("0.5").unwrap()),
                    Value::String("string"),
                    Value::ObjectId(model::ObjectId([1; 12])),
                    Value::Date(5),
                    Value::Code("f"),
                    Value::MinKey,
                    Value::MaxKey,
                    list,
                    Value::Document(empty.doc()),
                ];
                for v in samples {
                    let wanted = (!taken.contains(&v.type_name())).then_some(*number);
                    assert_eq!(fails(&doc! { (*keyword): v }), wanted, "{keyword}: {v:?}");
                }
            }
        }
    }
}
