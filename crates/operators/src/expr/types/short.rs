//! `$toBool`, `$toDate`, `$toDecimal`, `$toDouble`, `$toInt`, `$toLong`, `$toObjectId`,
//! `$toString`, `$toUUID`, and since 8.3 `$toArray`, `$toObject`: `$convert` without options. Null
//! and missing give null. 50723 another number of operands than one, 241 not convertible.

use super::target::{Format, Kind, Target, UUID};
use crate::expr::{BoxExpr, Operator, ParseCx, UnaryFn, parse_args, unary_of};
use model::{Result, Value, bail};

macro_rules! short_forms {
    ($($name:literal $kind:ident $type_name:literal, $subtype:expr, $format:expr;)*) => {
        pub(super) static OPERATORS: &[Operator] = &[$(Operator {
            name: $name,
            parse: |cx, name, spec| parse_short(cx, name, spec, |cx, v| {
                if v.is_nullish() {
                    return Ok(Value::Null);
                }
                let target = Target {
                    kind: Kind::$kind,
                    subtype: $subtype,
                    format: $format,
                    big_endian: false,
                    base: None,
                    wide: cx.env.profile.converts_every_type(),
                    subnormal: cx.env.profile.reads_subnormal_numbers(),
                    name: $type_name,
                };
                super::convert(cx.arena, v, &target)
            }),
        }),*];
    };
}

short_forms! {
    "$toArray" Array "array", 0, None;
    "$toBool" Bool "bool", 0, None;
    "$toDate" Date "date", 0, None;
    "$toDecimal" Decimal "decimal", 0, None;
    "$toDouble" Double "double", 0, None;
    "$toInt" Int "int", 0, None;
    "$toLong" Long "long", 0, None;
    "$toObject" Object "object", 0, None;
    "$toObjectId" ObjectId "objectId", 0, None;
    "$toString" String "string", 0, Some(Format::Auto);
    "$toUUID" Binary "binData", UUID, Some(Format::Uuid);
}

fn parse_short(
    cx: &mut ParseCx<'_>,
    name: &'static str,
    spec: Value<'_>,
    f: UnaryFn,
) -> Result<BoxExpr> {
    let mut args = parse_args(cx, name, spec, 0, usize::MAX)?;
    match (args.pop(), args.len()) {
        (Some(arg), 0) => Ok(unary_of(arg, f)),
        (_, rest) => bail!(
            50723,
            "{name} requires a single argument, got {}",
            if rest == 0 { 0 } else { rest + 1 }
        ),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::rows(&[
            (r#"{"$toInt": "$missing"}"#, "null null"),
            (r#"{"$toInt": []}"#, "error 50723"),
            (r#"{"$toInt": [1, 2]}"#, "error 50723"),
            (r#"{"$toInt": -1.9}"#, "int -1"),
            (r#"{"$toLong": "12"}"#, "long 12"),
            (r#"{"$toDouble": {"$date": 5}}"#, "double 5.0"),
            (r#"{"$toDecimal": 2.5}"#, "decimal 2.50000000000000"),
            (r#"{"$toBool": "false"}"#, "bool true"),
            (r#"{"$toBool": {"$numberDecimal": "0.0"}}"#, "bool false"),
            (r#"{"$toString": 1e16}"#, "string \"1e+16\""),
            (r#"{"$toString": "$arr"}"#, "error 241"),
            (
                r#"{"$toObjectId": "0123456789abcdef01234567"}"#,
                "objectId \
                ObjectId('0123456789abcdef01234567')",
            ),
            (
                r#"{"$toDate": "1970-01-01T00:00:01Z"}"#,
                "date new Date(1000)",
            ),
            (r#"{"$toDate": 1}"#, "error 241"),
            (r#"{"$toUUID": "nope"}"#, "error 241"),
        ]);
    }

    #[test]
    fn json_becomes_documents_and_arrays() {
        crate::expr::check::rows(&[
            (
                r#"{"$toObject": "{\"a\": 1, \"b\": [1.5, null], \"a\": 3}"}"#,
                "object { a: 3, b: [ 1.5, null ] }",
            ),
            (
                r#"{"$toArray": "[\"$missing\"]"}"#,
                r#"array [ "$missing" ]"#,
            ),
            (r#"{"$toArray": "$arr"}"#, "array [ 1 ]"),
            (r#"{"$toObject": "$missing"}"#, "null null"),
            (r#"{"$toObject": "[]"}"#, "error 241"),
            (r#"{"$toArray": "{}"}"#, "error 241"),
            (r#"{"$toArray": "1"}"#, "error 241"),
            (r#"{"$toObject": "$a"}"#, "error 241"),
            (r#"{"$toObject": "$arr"}"#, "error 241"),
            (r#"{"$toObject": []}"#, "error 50723"),
            (
                r#"{"$toArray": {"$binary": {"base64": "AwD/Ag==", "subType": "09"}}}"#,
                "array [ -1, 2 ]",
            ),
            (
                r#"{"$toArray": {"$binary": {"base64": "EAbA", "subType": "09"}}}"#,
                "array [ true, true ]",
            ),
            (
                r#"{"$toArray": {"$binary": {"base64": "AwEB", "subType": "09"}}}"#,
                "error 10506606",
            ),
            (
                r#"{"$toArray": {"$binary": {"base64": "JwAR", "subType": "09"}}}"#,
                "error 10506602",
            ),
            (
                r#"{"$toArray": {"$binary": {"base64": "6gAA", "subType": "09"}}}"#,
                "error 10506600",
            ),
            (
                r#"{"$toArray": {"$binary": {"base64": "AwD/", "subType": "00"}}}"#,
                "error 241",
            ),
        ]);
        let nested = format!("{}{}", "[".repeat(300), "]".repeat(300));
        crate::expr::check::rows(&[(&format!(r#"{{"$toArray": "{nested}"}}"#), "error 241")]);
    }
}
