//! Converts JavaScript values to BSON. Errors: 139 for a type that BSON does not have, 17260 over
//! the largest document, 17279 over the deepest nesting (a cycle).

use crate::failure::{Outcome, script_error};
use crate::to_js::tool;
use crate::{origins, watch};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use model::{
    ArrayWriter, Binary, Decimal128, DocBuf, DocWriter, MongoError, ObjectId, Regex, Timestamp,
    Value,
};
use rquickjs::{Array, Filter, Object, String as JsString, Type, Value as Js};

/// Deepest nesting of what a script returns.
const DEPTH_MAX: usize = 150;
/// Largest value, including the space that internal documents have beyond 16 MB.
const BYTES_MAX: usize = 16 * 1024 * 1024 + 16 * 1024;

/// Where a value is written.
enum ValueSlot<'p, 'b> {
    Field(&'p mut DocWriter<'b>, &'p str),
    Element(&'p mut ArrayWriter<'b>),
}

impl<'p> ValueSlot<'p, '_> {
    fn put(self, v: Value<'_>) {
        match self {
            ValueSlot::Field(w, name) => {
                w.put(name, v);
            }
            ValueSlot::Element(w) => {
                w.push(v);
            }
        }
    }
    fn doc(self) -> DocWriter<'p> {
        match self {
            ValueSlot::Field(w, name) => w.doc(name),
            ValueSlot::Element(w) => w.doc(),
        }
    }
    fn array(self) -> ArrayWriter<'p> {
        match self {
            ValueSlot::Field(w, name) => w.array(name),
            ValueSlot::Element(w) => w.array(),
        }
    }
}

/// Converts values of the engine.
pub(crate) struct ToBson<'t, 'js> {
    tools: &'t Object<'js>,
    /// Bytes of strings and names written so far.
    bytes: usize,
}

impl<'t, 'js> ToBson<'t, 'js> {
    pub(crate) fn new(tools: &'t Object<'js>) -> ToBson<'t, 'js> {
        ToBson { tools, bytes: 0 }
    }

    /// Writes the return value of a function to a field; `undefined` becomes null.
    pub(crate) fn write_returned(
        &mut self,
        w: &mut DocWriter<'_>,
        name: &str,
        v: &Js<'js>,
    ) -> Outcome<()> {
        if v.is_undefined() {
            w.put(name, Value::Null);
            return Ok(());
        }
        self.write(ValueSlot::Field(w, name), v, None, 0)
    }

    /// Writes a value to a field.
    pub(crate) fn field(&mut self, w: &mut DocWriter<'_>, name: &str, v: &Js<'js>) -> Outcome<()> {
        self.write(ValueSlot::Field(w, name), v, None, 0)
    }

    /// Counts bytes that are about to be written, against the limit.
    fn spend(&mut self, bytes: usize) -> Outcome<()> {
        self.bytes += bytes + 8;
        if self.bytes > BYTES_MAX {
            return Err(MongoError::new(
                17260,
                format!(
                    "Converting from JavaScript to BSON failed: the object exceeds {BYTES_MAX} \
                        bytes"
                ),
            )
            .into());
        }
        Ok(())
    }

    fn text(&self, s: &JsString<'js>) -> Outcome<String> {
        match s.to_string() {
            // Half of a surrogate pair, which UTF-8 cannot represent.
            Err(rquickjs::Error::Utf8(_)) => {
                Ok(tool::<JsString<'js>>(self.tools, "wellFormed", (s.clone(),))?.to_string()?)
            }
            text => Ok(text?),
        }
    }

    fn write(
        &mut self,
        place: ValueSlot<'_, '_>,
        v: &Js<'js>,
        was: Option<i32>,
        depth: usize,
    ) -> Outcome<()> {
        self.spend(0)?;
        match v.type_of() {
            Type::Undefined | Type::Uninitialized => place.put(Value::Undefined),
            Type::Null => place.put(Value::Null),
            Type::Bool => place.put(Value::Bool(v.as_bool().unwrap_or(false))),
            Type::Int | Type::Float => {
                let n = v.as_number().unwrap_or(f64::NAN);
                place.put(match was {
                    Some(i) if f64::from(i) == n => Value::Int32(i),
                    _ => Value::Double(n),
                });
            }
            Type::BigInt => {
                let fits: bool = tool(self.tools, "fits", (v.clone(),))?;
                match v.clone().into_big_int().map(rquickjs::BigInt::to_i64) {
                    Some(Ok(n)) if fits => place.put(Value::Int64(n)),
                    _ => return Err(script_error("a BigInt does not fit 64 bits").into()),
                }
            }
            Type::String => {
                let Some(s) = v.as_string() else {
                    return Err(script_error("a string that is none").into());
                };
                let text = self.text(s)?;
                self.spend(text.len())?;
                place.put(Value::String(&text));
            }
            Type::Array => {
                let Some(a) = v.as_array() else {
                    return Err(script_error("an array that is none").into());
                };
                self.array(place, a, depth)?;
            }
            Type::Symbol | Type::Module | Type::Unknown => {
                return Err(script_error("a symbol cannot be converted to BSON").into());
            }
            _ => {
                let Some(o) = v.as_object() else {
                    return Err(script_error("a value cannot be converted to BSON").into());
                };
                self.object(place, o, depth)?;
            }
        }
        Ok(())
    }

    fn array(&mut self, place: ValueSlot<'_, '_>, a: &Array<'js>, depth: usize) -> Outcome<()> {
        deeper(depth)?;
        let noted = !origins::is_empty();
        // Up to 2^32 - 1, which the engine gives as a double; the array may be empty nevertheless.
        let length: f64 = a.as_object().get("length")?;
        if length > BYTES_MAX as f64 {
            self.spend(BYTES_MAX)?;
        }
        let mut w = place.array();
        for i in 0..length as usize {
            if i % 1024 == 1023 && watch::is_over() {
                return Err(script_error("interrupted").into());
            }
            let was = if noted {
                origins::int_at(a.as_value(), &i.to_string())
            } else {
                None
            };
            self.write(ValueSlot::Element(&mut w), &a.get(i)?, was, depth + 1)?;
        }
        Ok(())
    }

    fn object(&mut self, place: ValueSlot<'_, '_>, o: &Object<'js>, depth: usize) -> Outcome<()> {
        let kind: u8 = tool(self.tools, "kindOf", (o.clone(),))?;
        if kind != 0 {
            return self.write_typed(place, o, kind, depth);
        }
        if let Some(f) = o.as_function() {
            let source: JsString<'js> = tool(self.tools, "sourceOf", (f.clone(),))?;
            let source = self.text(&source)?;
            self.spend(source.len())?;
            place.put(Value::Code(&source));
            return Ok(());
        }
        deeper(depth)?;
        let noted = !origins::is_empty();
        let mut w = place.doc();
        for key in o.own_keys::<JsString<'js>>(Filter::new().string().enum_only()) {
            if watch::is_over() {
                return Err(script_error("interrupted").into());
            }
            let key = key?;
            let name = self.text(&key)?;
            if name.contains('\0') {
                return Err(script_error("a field name cannot contain a null byte").into());
            }
            self.spend(name.len())?;
            let v: Js<'js> = o.get(key)?;
            let was = if noted {
                origins::int_at(o.as_value(), &name)
            } else {
                None
            };
            self.write(ValueSlot::Field(&mut w, &name), &v, was, depth + 1)?;
        }
        Ok(())
    }

    /// Writes a value of one of the prelude's types.
    fn write_typed(
        &mut self,
        place: ValueSlot<'_, '_>,
        o: &Object<'js>,
        kind: u8,
        depth: usize,
    ) -> Outcome<()> {
        match kind {
            8 => place.put(Value::MinKey),
            9 => place.put(Value::MaxKey),
            _ => {
                let simple: Js<'js> = tool(self.tools, "simple", (o.clone(), kind))?;
                if kind == 14 {
                    // A boxed primitive; its `valueOf` may return anything.
                    deeper(depth)?;
                    return self.write(place, &simple, None, depth + 1);
                }
                if kind == 10 && !o.get::<_, Js<'js>>("scope")?.is_undefined() {
                    return self.code_with_scope(place, o, &simple, depth);
                }
                let text = match simple.as_string() {
                    Some(s) => self.text(s)?,
                    None => String::new(),
                };
                self.spend(text.len())?;
                put_typed(place, kind, &simple, &text).ok_or_else(|| {
                    script_error("a value of a BSON type was changed by the script")
                })?;
            }
        }
        Ok(())
    }

    fn code_with_scope(
        &mut self,
        place: ValueSlot<'_, '_>,
        o: &Object<'js>,
        code: &Js<'js>,
        depth: usize,
    ) -> Outcome<()> {
        let mut scope = DocBuf::new();
        let mut written = Ok(());
        let v: Js<'js> = o.get("scope")?;
        scope.append(|w| written = self.write(ValueSlot::Field(w, ""), &v, None, depth + 1));
        written?;
        let Some(Value::Document(d)) = scope.doc().first().map(|(_, v)| v) else {
            return Err(script_error("the scope of code must be an object").into());
        };
        let code = code
            .as_string()
            .map_or(Ok(String::new()), |s| self.text(s))?;
        place.put(Value::CodeWithScope(&code, d.as_bytes()));
        Ok(())
    }
}

/// Writes what the prelude returned for such a value; `None` if that is not valid.
fn put_typed(place: ValueSlot<'_, '_>, kind: u8, simple: &Js<'_>, text: &str) -> Option<()> {
    match kind {
        2 => place.put(Value::Int64(simple.clone().into_big_int()?.to_i64().ok()?)),
        3 => place.put(Value::Int32(simple.as_number()? as i32)),
        4 => place.put(Value::Decimal128(Decimal128::parse(text)?)),
        5 => place.put(Value::ObjectId(ObjectId::parse(text)?)),
        6 => {
            let (subtype, data) = text.split_once(',')?;
            let bytes = STANDARD.decode(data).ok()?;
            place.put(Value::Binary(Binary {
                subtype: subtype.parse().ok()?,
                bytes: &bytes,
            }));
        }
        7 => {
            let (time, increment) = text.split_once(',')?;
            place.put(Value::Timestamp(Timestamp {
                time: time.parse().ok()?,
                increment: increment.parse().ok()?,
            }));
        }
        10 => place.put(Value::Code(text)),
        11 => {
            let (id, ns) = text.split_at_checked(24)?;
            place.put(Value::DbPointer(ns, ObjectId::parse(id)?));
        }
        12 => {
            let ms = simple.as_number()?;
            // An invalid date.
            place.put(Value::Date(if ms.is_nan() { i64::MIN } else { ms as i64 }));
        }
        13 => {
            let (flags, pattern) = text.split_once('/')?;
            let options: String = flags.chars().filter(|c| "ims".contains(*c)).collect();
            place.put(Value::Regex(Regex {
                pattern: if pattern == "(?:)" { "" } else { pattern },
                options: &options,
            }));
        }
        _ => return None,
    }
    Some(())
}

fn deeper(depth: usize) -> Outcome<()> {
    if depth >= DEPTH_MAX {
        return Err(MongoError::new(
            17279,
            format!(
                "Exceeded depth limit of {DEPTH_MAX} when converting js object to BSON. Do you \
                    have a cycle?"
            ),
        )
        .into());
    }
    Ok(())
}
