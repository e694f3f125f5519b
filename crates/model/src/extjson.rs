//! MongoDB extended JSON v2, canonical and relaxed, to and from BSON bytes. Behind the feature
//! `extjson`: tests, tools and the log use it, the wire protocol never does.

use crate::show::uuid as uuid_text;
use crate::{
    ArrayWriter, Binary, Decimal128, Doc, DocBuf, DocWriter, ObjectId, OwnedValue, Regex,
    Timestamp, Value,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Number, Value as Json};

/// The binary subtype whose stored bytes begin with their own length; extended JSON omits that
/// length.
const OLD_BINARY: u8 = 2;
const UUID: u8 = 4;

/// How values without a JSON counterpart are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Every type is kept: `{"$numberInt": "1"}`.
    Canonical,
    /// Numbers are JSON numbers; dates are ISO text where possible.
    Relaxed,
    /// Like `Relaxed`, with dates as in [`log_time`] and UUIDs as `{"$uuid": "..."}`: the form of
    /// mongod's log.
    Log,
}

/// Reads one document.
///
/// # Errors
/// A sentence that names the malformed wrapper, or says that the text is no JSON object.
pub fn parse_document(text: &str) -> Result<DocBuf, String> {
    let json: Json = serde_json::from_str(text).map_err(|e| e.to_string())?;
    document(&json)
}

/// The document of a JSON object.
///
/// # Errors
/// A sentence that names the malformed wrapper, or says that the value is no object.
pub fn document(json: &Json) -> Result<DocBuf, String> {
    let Json::Object(fields) = json else {
        return Err(format!("not a JSON object: {json}"));
    };
    let mut failure = None;
    let doc = DocBuf::build(|w| failure = put_fields(w, fields).err());
    failure.map_or(Ok(doc), Err)
}

/// The value of any JSON.
///
/// # Errors
/// A sentence that names the malformed wrapper.
pub fn value(json: &Json) -> Result<OwnedValue, String> {
    let mut failure = None;
    let holder = DocBuf::build(|w| failure = put(w, "", json).err());
    match failure {
        Some(e) => Err(e),
        None => Ok(holder.doc().field("").to_owned_value()),
    }
}

fn put_fields(w: &mut DocWriter<'_>, fields: &Map<String, Json>) -> Result<(), String> {
    fields.iter().try_for_each(|(name, v)| put(w, name, v))
}

/// The destination of a converted value: a field or the next array element.
trait Sink {
    fn value(&mut self, v: Value<'_>);
    fn document(&mut self, fields: &Map<String, Json>) -> Result<(), String>;
    fn array(&mut self, items: &[Json]) -> Result<(), String>;
}

struct Field<'w, 'b, 'n>(&'w mut DocWriter<'b>, &'n str);

impl Sink for Field<'_, '_, '_> {
    fn value(&mut self, v: Value<'_>) {
        self.0.put(self.1, v);
    }
    fn document(&mut self, fields: &Map<String, Json>) -> Result<(), String> {
        put_fields(&mut self.0.doc(self.1), fields)
    }
    fn array(&mut self, items: &[Json]) -> Result<(), String> {
        push_all(&mut self.0.array(self.1), items)
    }
}

impl Sink for ArrayWriter<'_> {
    fn value(&mut self, v: Value<'_>) {
        self.push(v);
    }
    fn document(&mut self, fields: &Map<String, Json>) -> Result<(), String> {
        put_fields(&mut self.doc(), fields)
    }
    fn array(&mut self, items: &[Json]) -> Result<(), String> {
        push_all(&mut ArrayWriter::array(self), items)
    }
}

fn put(w: &mut DocWriter<'_>, name: &str, json: &Json) -> Result<(), String> {
    convert(&mut Field(w, name), json)
}

fn push_all(w: &mut ArrayWriter<'_>, items: &[Json]) -> Result<(), String> {
    items.iter().try_for_each(|item| convert(w, item))
}

fn convert(to: &mut impl Sink, json: &Json) -> Result<(), String> {
    match json {
        Json::Null => to.value(Value::Null),
        Json::Bool(b) => to.value(Value::Bool(*b)),
        Json::String(s) => to.value(Value::String(s)),
        Json::Number(n) => to.value(match n.as_i64() {
            Some(i) => i32::try_from(i).map_or(Value::Int64(i), Value::Int32),
            None => Value::Double(n.as_f64().unwrap_or(f64::NAN)),
        }),
        Json::Array(items) => return to.array(items),
        Json::Object(fields) => {
            if !write_wrapper(to, fields)? {
                return to.document(fields);
            }
        }
    }
    Ok(())
}

/// Writes the value of a type wrapper; false when the object is an ordinary document.
fn write_wrapper(to: &mut impl Sink, fields: &Map<String, Json>) -> Result<bool, String> {
    let Some((key, inner)) = fields.iter().next() else {
        return Ok(false);
    };
    if !key.starts_with('$') {
        return Ok(false);
    }
    if fields.len() == 2 {
        if let (Some(Json::String(code)), Some(scope)) = (fields.get("$code"), fields.get("$scope"))
        {
            to.value(Value::CodeWithScope(code, document(scope)?.as_bytes()));
            return Ok(true);
        }
        return Ok(false);
    }
    if fields.len() != 1 {
        return Ok(false);
    }
    let bad = || format!("malformed {key}: {inner}");
    let text = || inner.as_str().ok_or_else(bad);
    match key.as_str() {
        "$numberInt" => to.value(Value::Int32(text()?.parse().map_err(|_| bad())?)),
        "$numberLong" => to.value(Value::Int64(text()?.parse().map_err(|_| bad())?)),
        "$numberDouble" => to.value(Value::Double(text()?.parse().map_err(|_| bad())?)),
        "$numberDecimal" => to.value(Value::Decimal128(
            Decimal128::parse(text()?).ok_or_else(bad)?,
        )),
        "$oid" => to.value(Value::ObjectId(ObjectId::parse(text()?).ok_or_else(bad)?)),
        "$date" => to.value(Value::Date(date(inner).ok_or_else(bad)?)),
        "$symbol" => to.value(Value::Symbol(text()?)),
        "$code" => to.value(Value::Code(text()?)),
        "$undefined" => to.value(Value::Undefined),
        "$minKey" => to.value(Value::MinKey),
        "$maxKey" => to.value(Value::MaxKey),
        _ => return composite(to, key, inner),
    }
    Ok(true)
}

/// Wrappers whose value has several parts.
fn composite(to: &mut impl Sink, key: &str, inner: &Json) -> Result<bool, String> {
    let bad = || format!("malformed {key}: {inner}");
    let text = || inner.as_str().ok_or_else(bad);
    let part = |name: &str| inner.get(name).ok_or_else(bad);
    match key {
        "$uuid" => {
            let hex: String = text()?.chars().filter(|c| *c != '-').collect();
            let n = u128::from_str_radix(&hex, 16).map_err(|_| bad())?;
            to.value(Value::Binary(Binary {
                subtype: UUID,
                bytes: &n.to_be_bytes(),
            }));
        }
        "$binary" => {
            let mut bytes = STANDARD
                .decode(part("base64")?.as_str().ok_or_else(bad)?)
                .map_err(|_| bad())?;
            let subtype = u8::from_str_radix(part("subType")?.as_str().ok_or_else(bad)?, 16)
                .map_err(|_| bad())?;
            if subtype == OLD_BINARY {
                let len = u32::try_from(bytes.len()).map_err(|_| bad())?;
                bytes.splice(0..0, len.to_le_bytes());
            }
            to.value(Value::Binary(Binary {
                subtype,
                bytes: &bytes,
            }));
        }
        "$timestamp" => {
            let number = |j: &Json| {
                j.as_u64()
                    .and_then(|n| u32::try_from(n).ok())
                    .ok_or_else(bad)
            };
            to.value(Value::Timestamp(Timestamp {
                time: number(part("t")?)?,
                increment: number(part("i")?)?,
            }));
        }
        // The short forms of `$regex` and `$type` are query operators, so only the v2 wrapper is
        // converted.
        "$regularExpression" => to.value(Value::Regex(Regex {
            pattern: part("pattern")?.as_str().ok_or_else(bad)?,
            options: part("options")?.as_str().ok_or_else(bad)?,
        })),
        "$dbPointer" => {
            let id = part("$id")?
                .get("$oid")
                .and_then(Json::as_str)
                .and_then(ObjectId::parse)
                .ok_or_else(bad)?;
            to.value(Value::DbPointer(
                part("$ref")?.as_str().ok_or_else(bad)?,
                id,
            ));
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn date(json: &Json) -> Option<i64> {
    match json {
        Json::Number(n) => n.as_i64(),
        Json::Object(o) => o.get("$numberLong")?.as_str()?.parse().ok(),
        Json::String(s) => iso_millis(s),
        _ => None,
    }
}

/// `YYYY-MM-DDThh:mm:ss[.fraction](Z|+hh:mm)`, as in relaxed extended JSON.
fn iso_millis(s: &str) -> Option<i64> {
    let number = |from: usize, to: usize| s.get(from..to)?.parse::<i64>().ok();
    let days = days_from_civil(number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let seconds = days * 86_400 + number(11, 13)? * 3600 + number(14, 16)? * 60 + number(17, 19)?;
    let rest = s.get(19..)?;
    let (fraction, zone) = rest.split_at(rest.find(['Z', '+', '-'])?);
    let mut millis = 0;
    for (digit, unit) in fraction.trim_start_matches('.').chars().zip([100, 10, 1]) {
        millis += i64::from(digit.to_digit(10)?) * unit;
    }
    let offset_minutes = if zone == "Z" {
        0
    } else {
        let sign = if zone.starts_with('-') { -1 } else { 1 };
        let (h, m) = zone.get(1..)?.split_once(':')?;
        sign * (h.parse::<i64>().ok()? * 60 + m.parse::<i64>().ok()?)
    };
    Some((seconds - offset_minutes * 60) * 1000 + millis)
}

/// Days since 1970-01-01 of a proleptic Gregorian date (eras of 400 years, March-based).
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let y = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (y.div_euclid(400), y.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + day_of_year - 719_468
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let z = days + 719_468;
    let (era, of_era) = (z.div_euclid(146_097), z.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    (
        year + era * 400 + i64::from(month <= 2),
        month,
        of_year - (153 * shifted + 2) / 5 + 1,
    )
}

/// Writes a document.
pub fn from_document(d: Doc<'_>, mode: Mode) -> Json {
    Json::Object(
        d.iter()
            .map(|(name, v)| (name.to_owned(), from_value(&v, mode)))
            .collect(),
    )
}

fn wrap(key: &str, inner: impl Into<Json>) -> Json {
    Json::Object(Map::from_iter([(key.to_owned(), inner.into())]))
}

fn pair(fields: [(&str, Json); 2]) -> Json {
    Json::Object(Map::from_iter(
        fields.map(|(name, value)| (name.to_owned(), value)),
    ))
}

/// Writes a value; `Missing` is written as `null`.
pub fn from_value(v: &Value<'_>, mode: Mode) -> Json {
    let relaxed = mode != Mode::Canonical;
    match v {
        Value::Missing | Value::Null => Json::Null,
        Value::Bool(b) => Json::Bool(*b),
        Value::String(s) => Json::String((*s).to_owned()),
        Value::Document(d) => from_document(*d, mode),
        Value::Array(a) => Json::Array(a.iter().map(|v| from_value(&v, mode)).collect()),
        Value::Int32(n) if relaxed => Json::from(*n),
        Value::Int32(n) => wrap("$numberInt", n.to_string()),
        Value::Int64(n) if relaxed => Json::from(*n),
        Value::Int64(n) => wrap("$numberLong", n.to_string()),
        Value::Double(n) => match Number::from_f64(*n) {
            Some(number) if relaxed => Json::Number(number),
            _ => wrap("$numberDouble", double_text(*n)),
        },
        Value::Decimal128(n) => wrap("$numberDecimal", n.to_string()),
        Value::ObjectId(id) => wrap("$oid", id.to_hex()),
        Value::Date(ms) if mode == Mode::Log => wrap("$date", log_time(*ms)),
        Value::Date(ms) if relaxed && (0..253_402_300_800_000).contains(ms) => {
            wrap("$date", iso_text(*ms))
        }
        Value::Date(ms) => wrap("$date", wrap("$numberLong", ms.to_string())),
        Value::Timestamp(t) => wrap(
            "$timestamp",
            pair([("t", t.time.into()), ("i", t.increment.into())]),
        ),
        Value::Binary(b) if mode == Mode::Log && b.subtype == UUID && b.bytes.len() == 16 => {
            wrap("$uuid", uuid_text(b.bytes))
        }
        Value::Binary(b) => {
            let bytes = if b.subtype == OLD_BINARY {
                b.bytes.get(4..).unwrap_or(&[])
            } else {
                b.bytes
            };
            let subtype = format!("{:02x}", b.subtype);
            wrap(
                "$binary",
                pair([
                    ("base64", STANDARD.encode(bytes).into()),
                    ("subType", subtype.into()),
                ]),
            )
        }
        Value::Regex(r) => wrap(
            "$regularExpression",
            pair([("pattern", r.pattern.into()), ("options", r.options.into())]),
        ),
        Value::DbPointer(ns, id) => wrap(
            "$dbPointer",
            pair([("$ref", (*ns).into()), ("$id", wrap("$oid", id.to_hex()))]),
        ),
        Value::Code(c) => wrap("$code", *c),
        Value::CodeWithScope(c, scope) => pair([
            ("$code", (*c).into()),
            ("$scope", from_document(Doc::from_prefix(scope), mode)),
        ]),
        Value::Symbol(s) => wrap("$symbol", *s),
        Value::Undefined => wrap("$undefined", true),
        Value::MinKey => wrap("$minKey", 1),
        Value::MaxKey => wrap("$maxKey", 1),
    }
}

fn double_text(n: f64) -> String {
    if n.is_nan() {
        "NaN".to_owned()
    } else if n.is_infinite() {
        if n > 0.0 { "Infinity" } else { "-Infinity" }.to_owned()
    } else {
        crate::show::double(n)
    }
}

fn iso_text(ms: i64) -> String {
    let fraction = match ms.rem_euclid(1000) {
        0 => String::new(),
        millis => format!(".{millis:03}"),
    };
    format!("{}{fraction}Z", seconds_text(ms))
}

/// The time of a log line: `2026-01-31T12:00:00.000+00:00`, from milliseconds since the epoch.
pub fn log_time(ms: i64) -> String {
    format!("{}.{:03}+00:00", seconds_text(ms), ms.rem_euclid(1000))
}

fn seconds_text(ms: i64) -> String {
    let (y, m, d) = civil_from_days(ms.div_euclid(86_400_000));
    let of_day = ms.rem_euclid(86_400_000) / 1000;
    format!(
        "{y:04}-{m:02}-{d:02}T{:02}:{:02}:{:02}",
        of_day / 3600,
        of_day / 60 % 60,
        of_day % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_round_trips_every_type() {
        let text = concat!(
            r#"{"i":{"$numberInt":"1"},"l":{"$numberLong":"-9223372036854775808"},"#,
            r#""f":{"$numberDouble":"-0.0"},"#,
            r#""n":{"$numberDouble":"NaN"},"m":{"$numberDecimal":"1.50"},"#,
            r#""o":{"$oid":"0123456789abcdef01234567"},"#,
            r#""d":{"$date":{"$numberLong":"-1"}},"t":{"$timestamp":{"t":4294967295,"i":1}},"#,
            r#""b":{"$binary":{"base64":"AAEC","subType":"80"}},"b2":{"$binary":{"base64":"AAEC","#,
            r#""subType":"02"}},"#,
            r#""r":{"$regularExpression":{"pattern":"^a","options":"i"}},"#,
            r#""p":{"$dbPointer":{"$ref":"a.b","$id":{"$oid":"0123456789abcdef01234567"}}},"#,
            r#""c":{"$code":"x"},"#,
            r#""w":{"$code":"y","$scope":{"a":{"$numberInt":"1"}}},"s":{"$symbol":"z"},"#,
            r#""u":{"$undefined":true},"#,
            r#""lo":{"$minKey":1},"hi":{"$maxKey":1},"a":[null,true,"x",[],{}],"q":{"$add":["$x","#,
            r#"{"$numberInt":"2"}]}}"#
        );
        let doc = parse_document(text).unwrap();
        assert_eq!(from_document(doc.doc(), Mode::Canonical).to_string(), text);
    }

    #[test]
    fn the_log_shows_times_with_milliseconds_and_uuids() {
        assert_eq!(log_time(0), "1970-01-01T00:00:00.000+00:00");
        assert_eq!(log_time(951_782_400_123), "2000-02-29T00:00:00.123+00:00");
        assert_eq!(log_time(1_795_359_599_999), "2026-11-22T14:59:59.999+00:00");
        assert_eq!(log_time(-1), "1969-12-31T23:59:59.999+00:00");
        let text = concat!(
            r#"{"n":1,"d":2.0,"t":{"$date":"1969-12-31T23:59:59.999+00:00"},"#,
            r#""u":{"$uuid":"00112233-4455-6677-8899-aabbccddeeff"},"#,
            r#""b":{"$binary":{"base64":"AAEC","subType":"04"}}}"#
        );
        let doc = parse_document(text).unwrap();
        assert_eq!(from_document(doc.doc(), Mode::Log).to_string(), text);
    }

    #[test]
    fn relaxed_reads_and_writes_plain_numbers_and_iso_dates() {
        let text = r#"{"i":1,"l":5000000000,"f":1.5,"d":{"$date":"2024-02-29T23:59:59.007Z"}}"#;
        let doc = parse_document(text).unwrap();
        assert!(matches!(doc.doc().field("i"), Value::Int32(1)));
        assert!(matches!(
            doc.doc().field("d"),
            Value::Date(1_709_251_199_007)
        ));
        assert_eq!(from_document(doc.doc(), Mode::Relaxed).to_string(), text);
        let offset = parse_document(r#"{"d":{"$date":"1970-01-01T01:00:00+01:00"}}"#).unwrap();
        assert!(matches!(offset.doc().field("d"), Value::Date(0)));
    }

    #[test]
    fn malformed_wrappers_are_refused() {
        for text in [
            r#"{"a":{"$numberInt":1}}"#,
            r#"{"a":[{"$oid":"12"}]}"#,
            r#"{"a":{"$date":"x"}}"#,
            "[]",
            "{",
        ] {
            assert!(parse_document(text).is_err(), "{text}");
        }
    }
}
