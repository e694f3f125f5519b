//! Extended JSON to values: wrapper documents are replaced by their values; in all other documents
//! the fields are converted.

use super::write::{OLD_BINARY, failure};
use crate::expr::date;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use model::{
    Array, ArrayWriter, Binary, Decimal128, Doc, DocBuf, DocWriter, Number, ObjectId, Regex,
    Result, Timestamp, Value,
};

/// Puts the value of extended JSON into a document.
///
/// # Errors
/// 241 ConversionFailure for a wrapper that is malformed.
pub(super) fn put(w: &mut DocWriter<'_>, name: &str, v: &Value<'_>) -> Result<()> {
    convert(&mut Field(w, name), v)
}

/// The destination of a value: a field, or the next element of an array.
trait Sink {
    fn value(&mut self, v: Value<'_>);
    fn document(&mut self, d: Doc<'_>) -> Result<()>;
    fn array(&mut self, a: Array<'_>) -> Result<()>;
}

struct Field<'w, 'b, 'n>(&'w mut DocWriter<'b>, &'n str);

impl Sink for Field<'_, '_, '_> {
    fn value(&mut self, v: Value<'_>) {
        self.0.put(self.1, v);
    }
    fn document(&mut self, d: Doc<'_>) -> Result<()> {
        fields(&mut self.0.doc(self.1), d)
    }
    fn array(&mut self, a: Array<'_>) -> Result<()> {
        elements(&mut self.0.array(self.1), a)
    }
}

impl Sink for ArrayWriter<'_> {
    fn value(&mut self, v: Value<'_>) {
        self.push(v);
    }
    fn document(&mut self, d: Doc<'_>) -> Result<()> {
        fields(&mut self.doc(), d)
    }
    fn array(&mut self, a: Array<'_>) -> Result<()> {
        elements(&mut ArrayWriter::array(self), a)
    }
}

fn fields(w: &mut DocWriter<'_>, d: Doc<'_>) -> Result<()> {
    d.iter().try_for_each(|(name, v)| put(w, name, &v))
}

fn elements(w: &mut ArrayWriter<'_>, a: Array<'_>) -> Result<()> {
    a.iter().try_for_each(|v| convert(w, &v))
}

fn convert(to: &mut impl Sink, v: &Value<'_>) -> Result<()> {
    match v {
        Value::Document(d) => {
            if !wrapper(to, *d)? {
                to.document(*d)?;
            }
        }
        Value::Array(a) => to.array(*a)?,
        v => to.value(*v),
    }
    Ok(())
}

/// The fields of a wrapper.
struct WrapperFields<'d> {
    name: &'d str,
    inner: Value<'d>,
}

impl<'d> WrapperFields<'d> {
    fn malformed_error(&self) -> model::MongoError {
        failure(format!(
            "{} of extended JSON is malformed: {}",
            self.name, self.inner
        ))
    }

    fn text(&self) -> Result<&'d str> {
        self.inner.as_str().ok_or_else(|| self.malformed_error())
    }

    /// The value of the text.
    fn parse_text<T>(&self, parse: impl FnOnce(&'d str) -> Option<T>) -> Result<T> {
        parse(self.text()?).ok_or_else(|| self.malformed_error())
    }

    /// The fields of these names, and no others.
    fn fields<const N: usize>(&self, names: [&str; N]) -> Result<[Value<'d>; N]> {
        let Some(d) = self.inner.as_doc().filter(|d| d.count() == N) else {
            return Err(self.malformed_error());
        };
        let found = names.map(|name| d.field(name));
        if found.iter().any(Value::is_missing) {
            return Err(self.malformed_error());
        }
        Ok(found)
    }
}

/// Writes the value of a wrapper; false for a document that is no wrapper.
fn wrapper(to: &mut impl Sink, d: Doc<'_>) -> Result<bool> {
    let Some((name, inner)) = d.first().filter(|(name, _)| name.starts_with('$')) else {
        return Ok(false);
    };
    let parts = WrapperFields { name, inner };
    if d.count() == 2 {
        return code_with_scope(to, d);
    }
    if d.count() != 1 {
        return Ok(false);
    }
    match name {
        "$numberInt" => to.value(Value::Int32(
            parts.parse_text(|s| parse_whole_number(s)?.try_into().ok())?,
        )),
        "$numberLong" => to.value(Value::Int64(parts.parse_text(parse_whole_number)?)),
        "$numberDouble" => to.value(Value::Double(parts.parse_text(double)?)),
        "$numberDecimal" => to.value(Value::Decimal128(parts.parse_text(Decimal128::parse)?)),
        "$oid" => to.value(Value::ObjectId(parts.parse_text(ObjectId::parse)?)),
        "$symbol" => to.value(Value::Symbol(parts.text()?)),
        "$code" => to.value(Value::Code(parts.text()?)),
        "$date" => to.value(Value::Date(moment(&parts)?)),
        "$undefined" if parts.inner.as_bool() == Some(true) => to.value(Value::Undefined),
        "$minKey" if is_one(&parts.inner) => to.value(Value::MinKey),
        "$maxKey" if is_one(&parts.inner) => to.value(Value::MaxKey),
        "$undefined" | "$minKey" | "$maxKey" => return Err(parts.malformed_error()),
        _ => return composite(to, &parts),
    }
    Ok(true)
}

fn is_one(v: &Value<'_>) -> bool {
    Number::of(v).and_then(Number::to_i64_exact) == Some(1)
}

/// A whole number without a plus sign.
fn parse_whole_number(s: &str) -> Option<i64> {
    s.parse().ok().filter(|_| !s.starts_with('+'))
}

fn double(s: &str) -> Option<f64> {
    match s {
        "NaN" => Some(f64::NAN),
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        s => s.parse().ok().filter(|x: &f64| x.is_finite()),
    }
}

fn code_with_scope(to: &mut impl Sink, d: Doc<'_>) -> Result<bool> {
    let (Value::String(code), Value::Document(scope)) = (d.field("$code"), d.field("$scope"))
    else {
        return Ok(false);
    };
    let mut outcome = Ok(());
    let scope = DocBuf::build(|w| outcome = fields(w, scope));
    outcome?;
    to.value(Value::CodeWithScope(code, scope.as_bytes()));
    Ok(true)
}

fn moment(parts: &WrapperFields<'_>) -> Result<i64> {
    match parts.inner {
        Value::String(s) => date::moment_of_text(s).map_err(|_| parts.malformed_error()),
        Value::Int32(ms) => Ok(ms.into()),
        Value::Int64(ms) => Ok(ms),
        _ => {
            let [ms] = parts.fields(["$numberLong"])?;
            ms.as_str()
                .and_then(parse_whole_number)
                .ok_or_else(|| parts.malformed_error())
        }
    }
}

/// Wrappers whose value has several parts.
fn composite(to: &mut impl Sink, parts: &WrapperFields<'_>) -> Result<bool> {
    match parts.name {
        "$uuid" => {
            let bytes = parts.parse_text(super::super::binary::parse_uuid)?;
            to.value(Value::Binary(Binary {
                subtype: super::super::target::UUID,
                bytes: &bytes,
            }));
        }
        "$binary" => {
            let [base64, subtype] = parts.fields(["base64", "subType"])?;
            let bytes = base64.as_str().and_then(|s| STANDARD.decode(s).ok());
            let subtype = subtype.as_str().filter(|s| (1..=2).contains(&s.len()));
            let subtype = subtype.and_then(|s| u8::from_str_radix(s, 16).ok());
            let (Some(mut bytes), Some(subtype)) = (bytes, subtype) else {
                return Err(parts.malformed_error());
            };
            if subtype == OLD_BINARY {
                let length = u32::try_from(bytes.len()).map_err(|_| parts.malformed_error())?;
                bytes.splice(0..0, length.to_le_bytes());
            }
            to.value(Value::Binary(Binary {
                subtype,
                bytes: &bytes,
            }));
        }
        "$timestamp" => {
            let whole = |v| u32::try_from(Number::of(&v)?.to_i64_exact()?).ok();
            let [Some(time), Some(increment)] = parts.fields(["t", "i"])?.map(whole) else {
                return Err(parts.malformed_error());
            };
            to.value(Value::Timestamp(Timestamp { time, increment }));
        }
        "$regularExpression" => {
            let texts = parts.fields(["pattern", "options"])?.map(|v| v.as_str());
            let [Some(pattern), Some(options)] = texts else {
                return Err(parts.malformed_error());
            };
            to.value(Value::Regex(Regex { pattern, options }));
        }
        "$dbPointer" => {
            let [ns, id] = parts.fields(["$ref", "$id"])?;
            let id = id.as_doc().and_then(|d| d.field("$oid").as_str());
            let (Some(ns), Some(id)) = (ns.as_str(), id.and_then(ObjectId::parse)) else {
                return Err(parts.malformed_error());
            };
            to.value(Value::DbPointer(ns, id));
        }
        _ => return Ok(false),
    }
    Ok(true)
}
