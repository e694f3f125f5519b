//! `$convert`: `{input, to, onError, onNull, format, byteOrder, base}`; `to` is a type's name or
//! number, or `{type, subtype}`. A null or missing input gives `onNull` (or null); a null or
//! missing `to` gives null. `onError` takes the place of 241 ConversionFailure only.
//!
//! 9 no object, an unknown field, no `input` or `to`, a `to` that is no name or number; 2 an
//! unknown type name; 4341106 / 4341107 / 4341108 a subtype that is not integral / not a subtype /
//! no number; 4341114 / 4341125 a format that is no string / unknown; 4341115 text to binary or
//! back without a format; 9130001 / 9130002 a byte order that is no string / unknown; 3501300 /
//! 3501301 a base that is no whole number / not 2, 8, 10 or 16.

use super::target::{Format, Kind, Target};
use crate::expr::{BoxExpr, Expr, Operator, ParseCx, parse};
use crate::{Cx, Profile};
use model::{MongoError, Number, Result, Tag, Value, bail, code};

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$convert",
    parse: |cx, _, spec| parse_convert(cx, spec),
}];

const FIELDS: [&str; 7] = [
    "input",
    "to",
    "onError",
    "onNull",
    "format",
    "byteOrder",
    "base",
];

fn parse_convert(cx: &mut ParseCx<'_>, spec: Value<'_>) -> Result<BoxExpr> {
    let Value::Document(spec) = spec else {
        bail!(
            code::FAILED_TO_PARSE,
            "$convert expects an object of named arguments but found: {}",
            spec.type_name()
        );
    };
    let mut found: [Option<BoxExpr>; FIELDS.len()] = Default::default();
    for (field, v) in spec.iter() {
        let Some(slot) = FIELDS.iter().position(|f| *f == field) else {
            bail!(
                code::FAILED_TO_PARSE,
                "$convert found an unknown argument: {field}; allowed are \
                {}",
                FIELDS.join(", ")
            );
        };
        found[slot] = Some(parse(cx, v)?);
    }
    let missing = |name: &str| {
        MongoError::failed_to_parse(format!(
            "Missing '{name}' parameter to \
        $convert"
        ))
    };
    let [input, to, on_error, on_null, format, byte_order, base] = found;
    Ok(Box::new(Convert {
        input: input.ok_or_else(|| missing("input"))?,
        to: to.ok_or_else(|| missing("to"))?,
        on_error,
        on_null,
        format,
        byte_order,
        base,
    }))
}

struct Convert {
    input: BoxExpr,
    to: BoxExpr,
    on_error: Option<BoxExpr>,
    on_null: Option<BoxExpr>,
    format: Option<BoxExpr>,
    byte_order: Option<BoxExpr>,
    base: Option<BoxExpr>,
}

/// Errors that `onError` handles: failed conversions, and years that no text can hold.
fn is_failure(e: &MongoError) -> bool {
    matches!(e.code(), code::CONVERSION_FAILURE | 18537)
}

impl Expr for Convert {
    fn eval<'a>(&'a self, cx: &Cx<'_, 'a>) -> Result<Value<'a>> {
        let input = self.input.eval(cx)?;
        if input.is_nullish() {
            return self
                .on_null
                .as_ref()
                .map_or(Ok(Value::Null), |e| e.eval(cx));
        }
        let Some((kind, subtype)) = target_type(&self.to.eval(cx)?)? else {
            return Ok(Value::Null);
        };
        let option = |e: &'a Option<BoxExpr>| e.as_ref().map_or(Ok(Value::Missing), |e| e.eval(cx));
        let target = Target {
            kind: kind_of(kind, cx.env.profile),
            subtype: if kind == Tag::BINARY {
                binary_subtype(&subtype)?
            } else {
                0
            },
            format: format_of(&option(&self.format)?)?,
            big_endian: is_big_endian(&option(&self.byte_order)?)?,
            base: base_of(&option(&self.base)?)?,
            wide: cx.env.profile.converts_every_type(),
            subnormal: cx.env.profile.reads_subnormal_numbers(),
            name: kind.name(),
        };
        match (super::convert(cx.arena, input, &target), &self.on_error) {
            (Err(e), Some(instead)) if is_failure(&e) => instead.eval(cx),
            (result, _) => result,
        }
    }
    fn visit<'e>(&'e self, each: &mut dyn FnMut(&'e dyn Expr)) {
        each(self.input.as_ref());
        each(self.to.as_ref());
        for e in [
            &self.on_error,
            &self.on_null,
            &self.format,
            &self.byte_order,
            &self.base,
        ]
        .into_iter()
        .flatten()
        {
            each(e.as_ref());
        }
    }
}

/// The wanted type and subtype; `None` when `to` is null or missing.
fn target_type<'a>(to: &Value<'a>) -> Result<Option<(Tag, Value<'a>)>> {
    let (kind, subtype) = match to {
        Value::Document(d) => {
            if let Some((field, _)) = d
                .iter()
                .find(|(name, _)| !matches!(*name, "type" | "subtype"))
            {
                bail!(
                    code::FAILED_TO_PARSE,
                    "$convert's 'to' found an unknown argument: {field}; \
                    allowed are type, subtype"
                );
            }
            let Some(kind) = d.get("type") else {
                bail!(
                    code::FAILED_TO_PARSE,
                    "Missing 'type' parameter of $convert's 'to' argument"
                );
            };
            (kind, d.get("subtype").unwrap_or(Value::Int32(0)))
        }
        v if v.is_nullish() => return Ok(None),
        v => (*v, Value::Int32(0)),
    };
    let tag = match (&kind, Number::of(&kind).map(Number::to_i64_exact)) {
        (Value::String(name), _) => match Tag::from_name(name) {
            Some(tag) => tag,
            None => bail!(code::BAD_VALUE, "Unknown type name: {name}"),
        },
        (_, Some(Some(n))) => match tag_of_number(n) {
            Some(tag) => tag,
            None => bail!(
                code::FAILED_TO_PARSE,
                "In $convert, numeric value for 'to' does not \
                correspond to a BSON type: {n}"
            ),
        },
        _ => bail!(
            code::FAILED_TO_PARSE,
            "$convert's 'to' argument must be a string or number, but is {}",
            kind.type_name()
        ),
    };
    Ok(Some((tag, subtype)))
}

fn tag_of_number(n: i64) -> Option<Tag> {
    let byte = if n == -1 {
        0xFF
    } else {
        u8::try_from(n).ok().filter(|b| *b != 0xFF)?
    };
    // Zero, the absence of a value, is accepted as a type; no value converts to it.
    Some(Tag(byte)).filter(|t| t.name() != "invalid")
}

fn kind_of(tag: Tag, profile: Profile) -> Kind {
    match tag {
        Tag::DOUBLE => Kind::Double,
        Tag::STRING => Kind::String,
        Tag::BINARY => Kind::Binary,
        Tag::OBJECT_ID => Kind::ObjectId,
        Tag::BOOL => Kind::Bool,
        Tag::DATE => Kind::Date,
        Tag::INT32 => Kind::Int,
        Tag::INT64 => Kind::Long,
        Tag::DECIMAL128 => Kind::Decimal,
        Tag::DOCUMENT if profile.converts_every_type() => Kind::Object,
        Tag::ARRAY if profile.converts_every_type() => Kind::Array,
        _ => Kind::Other,
    }
}

fn binary_subtype(v: &Value<'_>) -> Result<u8> {
    let Some(n) = Number::of(v) else {
        bail!(
            4341108,
            "$convert's 'subtype' argument must be a number, but is {}",
            v.type_name()
        );
    };
    let Some(n) = n.to_i64_exact().and_then(|n| i32::try_from(n).ok()) else {
        bail!(
            4341106,
            "In $convert, numeric 'subtype' argument is not an integer"
        );
    };
    match u8::try_from(n) {
        Ok(n) if !(10..128).contains(&n) => Ok(n),
        _ => bail!(
            4341107,
            "In $convert, numeric value for 'subtype' does not correspond to a \
            BinData type: {n}"
        ),
    }
}

fn format_of(v: &Value<'_>) -> Result<Option<Format>> {
    Ok(Some(match v {
        v if v.is_nullish() => return Ok(None),
        Value::String("auto") => Format::Auto,
        Value::String("base64") => Format::Base64,
        Value::String("base64url") => Format::Base64Url,
        Value::String("hex") => Format::Hex,
        Value::String("utf8") => Format::Utf8,
        Value::String("uuid") => Format::Uuid,
        Value::String(other) => {
            bail!(
                4341125,
                "Invalid 'format' argument for $convert: {other}; allowed are auto, \
                base64, base64url, hex, utf8, uuid"
            )
        }
        v => bail!(
            4341114,
            "$convert requires that 'format' be a string, found: {}",
            v.type_name()
        ),
    }))
}

fn is_big_endian(v: &Value<'_>) -> Result<bool> {
    match v {
        v if v.is_nullish() => Ok(false),
        Value::String("little") => Ok(false),
        Value::String("big") => Ok(true),
        Value::String(other) => bail!(
            9130002,
            "Invalid 'byteOrder' argument for $convert: \
            {other}; allowed are little, big"
        ),
        v => bail!(
            9130001,
            "$convert requires that 'byteOrder' be a string, found: {}",
            v.type_name()
        ),
    }
}

fn base_of(v: &Value<'_>) -> Result<Option<u32>> {
    if v.is_nullish() {
        return Ok(None);
    }
    match Number::of(v).and_then(Number::to_i64_exact) {
        Some(base @ (2 | 8 | 10 | 16)) => Ok(u32::try_from(base).ok()),
        Some(other) => bail!(
            3501301,
            "In $convert, 'base' argument is not valid: {other}; allowed are 2, 8, 10, 16"
        ),
        None => bail!(
            3501300,
            "In $convert, 'base' argument is not an integer: {v}; allowed are 2, 8, 10, 16"
        ),
    }
}

#[cfg(test)]
mod tests {
    use crate::Profile;
    use crate::expr::check::table_of;

    /// Checks the arguments and results of `$convert`.
    fn conversions(profile: Profile, rows: &[(&str, &str)]) {
        for (arguments, wanted) in rows {
            let spec = format!("{{'$convert': {{{arguments}}}}}");
            table_of(profile, &[(&spec, "{}", wanted)]);
        }
    }

    fn text_since_8_3(arguments: &str) -> String {
        let mut env = crate::Env::new(0, 1);
        env.profile = Profile::V9_0;
        let spec = crate::expr::check::json(&format!("{{'$convert': {{{arguments}}}}}"));
        let e = crate::expr::parse(&mut crate::expr::ParseCx::new(&env), spec.get()).unwrap();
        e.constant()
            .and_then(|v| v.as_str())
            .unwrap_or("")
            .to_owned()
    }

    #[test]
    fn whole_numbers_have_texts_in_a_base() {
        for profile in Profile::ALL {
            conversions(
                profile,
                &[
                    ("'input': 10, 'to': 'string', 'base': 2", "'1010'"),
                    ("'input': -10.0, 'to': 'string', 'base': 16", "'-A'"),
                    (
                        "'input': {'$numberDecimal': '10'}, 'to': 'string', 'base': 8",
                        "'12'",
                    ),
                    (
                        "'input': {'$numberLong': '-9223372036854775808'}, 'to': 'string',
                            'base': 16",
                        "'-8000000000000000'",
                    ),
                    ("'input': 10.5, 'to': 'string', 'base': 10", "!241"),
                    ("'input': 'a', 'to': 'int', 'base': 16", "10"),
                    ("'input': '-12', 'to': 'double', 'base': 8", "-10.0"),
                    (
                        "'input': 'A', 'to': 'decimal', 'base': 16",
                        "{'$numberDecimal': '10'}",
                    ),
                    ("'input': '80000000', 'to': 'int', 'base': 16", "!241"),
                    ("'input': '0xa', 'to': 'long', 'base': 16", "!241"),
                    ("'input': '8', 'to': 'int', 'base': 8", "!241"),
                    ("'input': '10', 'to': 'int', 'base': null", "10"),
                    ("'input': true, 'to': 'bool', 'base': 3", "!3501301"),
                    ("'input': 1, 'to': 'string', 'base': 2.5", "!3501300"),
                    ("'input': 1, 'to': 'string', 'base': 'x'", "!3501300"),
                    ("'input': 'str', 'to': 'string', 'base': 2", "'str'"),
                ],
            );
        }
    }

    #[test]
    fn every_type_has_a_text_since_8_3() {
        let document = "'input': {'$literal': {'a': [1.0, true, 'q\\\\'], 'b': null, \
            't': {'$timestamp': {'t': 1, 'i': 2}}, 'd': {'$date': '2018-03-27T16:58:51.538Z'}, \
            'n': {'$numberDouble': 'NaN'}}}, 'to': 'string'";
        conversions(Profile::V8_2, &[(document, "!241")]);
        let text = r#"{"a":[1,true,"q\\"],"b":null,"t":"Timestamp(1, 2)","#;
        let wanted = format!(r#"{text}"d":"2018-03-27T16:58:51.538Z","n":"NaN"}}"#);
        assert_eq!(text_since_8_3(document), wanted);
        conversions(
            Profile::V9_0,
            &[
                ("'input': {'$minKey': 1}, 'to': 'string'", "'MinKey'"),
                (
                    "'input': {'$regularExpression': {'pattern': 'B*', 'options': 'is'}}, \
                        'to': 'string'",
                    "'/B*/is'",
                ),
                ("'input': '{}', 'to': 'object'", "{}"),
                ("'input': '[]', 'to': 4", "[]"),
                ("'input': '[]', 'to': 'object', 'onError': 'no'", "'no'"),
                ("'input': '5e-324', 'to': 'double'", "5e-324"),
                (
                    "'input': [1, 0, true], 'to': {'type': 'binData', 'subtype': 9}",
                    "{'$binary': {'base64': 'EAWg', 'subType': '09'}}",
                ),
                (
                    "'input': [127.0, -128], 'to': {'type': 'binData', 'subtype': 9}",
                    "{'$binary': {'base64': 'AwB/gA==', 'subType': '09'}}",
                ),
                (
                    "'input': [1.5], 'to': {'type': 'binData', 'subtype': 9}, \
                        'byteOrder': 'big'",
                    "{'$binary': {'base64': 'JwA/wAAA', 'subType': '09'}}",
                ),
                (
                    "'input': [200], 'to': {'type': 'binData', 'subtype': 9}",
                    "!241",
                ),
                ("'input': [1], 'to': 'binData'", "!241"),
                (
                    "'input': {'$literal': {'a': 1}}, 'to': 'binData'",
                    "{'$binary': {'base64': 'DAAAABBhAAEAAAAA', 'subType': '00'}}",
                ),
                (
                    "'input': {'$literal': {}}, 'to': {'type': 'binData', 'subtype': 5}",
                    "!13016802",
                ),
            ],
        );
        conversions(
            Profile::V8_2,
            &[
                ("'input': '{}', 'to': 'object'", "!241"),
                ("'input': '5e-324', 'to': 'double'", "!241"),
                ("'input': {'$literal': {}}, 'to': 'binData'", "!241"),
            ],
        );
    }

    #[test]
    fn table() {
        crate::expr::check::rows(&[
            (
                r#"{"$convert": {"input": "$missing", "to": "int"}}"#,
                "null null",
            ),
            (
                r#"{"$convert": {"input": "$n", "to": "nope", "onNull": "$a"}}"#,
                "int 5",
            ),
            (r#"{"$convert": {"input": "$s", "to": "int"}}"#, "error 241"),
            (
                r#"{"$convert": {"input": "$s", "to": "int", "onError": "$missing"}}"#,
                "missing MISSING",
            ),
            (r#"{"$convert": {"input": "$s", "to": null}}"#, "null null"),
            (r#"{"$convert": {"input": 1, "to": "nope"}}"#, "error 2"),
            (r#"{"$convert": {"input": 1, "to": 99}}"#, "error 9"),
            (r#"{"$convert": {"input": 1.9, "to": 16}}"#, "int 1"),
            (r#"{"$convert": {"input": 1, "too": 16}}"#, "error 9"),
            (
                r#"{"$convert": {"input": 2147483648, "to": "int"}}"#,
                "error 241",
            ),
            (
                r#"{"$convert": {"input": "x", "to": "binData"}}"#,
                "error 4341115",
            ),
            (
                r#"{"$convert": {"input": {"$binary": {"base64": "aGk=", "subType": "00"}},
                    "to": "string"}}"#,
                "error 4341115",
            ),
            (
                r#"{"$convert": {"input": "68", "to": "binData", "format": "hex"}}"#,
                "binData BinData(0, 68)",
            ),
            (
                r#"{"$convert": {"input": 1, "to": {"type": "binData", "subtype": 100}}}"#,
                "error 4341107",
            ),
            (
                r#"{"$convert": {"input": 1, "to": "binData", "byteOrder": "big"}}"#,
                "binData BinData(0, 00000001)",
            ),
            (
                r#"{"$convert": {"input": 1, "to": "binData", "byteOrder": "middle"}}"#,
                "error 9130002",
            ),
            (
                r#"{"$convert": {"input": "1", "to": "binData", "format": 1}}"#,
                "error 4341114",
            ),
            (
                r#"{"$convert": {"input": "-0x1.8p1", "to": "double"}}"#,
                "double -3.0",
            ),
            (
                r#"{"$convert": {"input": "0x1p1", "to": "double"}}"#,
                "error 241",
            ),
            (
                r#"{"$convert": {"input": "1e309", "to": "double"}}"#,
                "error 241",
            ),
        ]);
    }
}
