//! Converts BSON values to JavaScript values. Documents become plain objects immediately. Types
//! that JavaScript lacks become those of MongoDB's shell: 64-bit integers are `NumberLong`, doubles
//! and 32-bit integers are numbers.

use crate::failure::Outcome;
use crate::origins;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use model::{Doc, Value};
use rquickjs::function::IntoArgs;
use rquickjs::object::Property;
use rquickjs::{Array, Ctx, FromJs, Function, IntoJs, Object, Value as Js};

/// Deeper than any stored document; such values come only from scripts.
pub(crate) const DEPTH_MAX: usize = 250;

/// Converts BSON values for a script.
pub(crate) struct ToJs<'t, 'js> {
    ctx: &'t Ctx<'js>,
    tools: &'t Object<'js>,
    /// Keeps the objects noted in [`origins`] alive.
    noted: Option<Vec<Js<'js>>>,
}

/// Calls one of the prelude's functions.
pub(crate) fn tool<'js, R: FromJs<'js>>(
    tools: &Object<'js>,
    name: &str,
    args: impl IntoArgs<'js>,
) -> rquickjs::Result<R> {
    tools.get::<_, Function<'js>>(name)?.call(args)
}

impl<'t, 'js> ToJs<'t, 'js> {
    /// With `notes`, 32-bit integers in documents are noted, so that they come back as integers.
    pub(crate) fn new(ctx: &'t Ctx<'js>, tools: &'t Object<'js>, notes: bool) -> ToJs<'t, 'js> {
        ToJs {
            ctx,
            tools,
            noted: notes.then(Vec::new),
        }
    }

    /// The objects that must live until the results are read.
    pub(crate) fn into_live_objects(self) -> Vec<Js<'js>> {
        self.noted.unwrap_or_default()
    }

    /// One argument.
    pub(crate) fn argument(&mut self, v: &Value<'_>) -> Outcome<Js<'js>> {
        let base = match v {
            Value::Document(d) if self.noted.is_some() => origins::keep(*d),
            Value::Array(a) if self.noted.is_some() => origins::keep(a.as_doc()),
            _ => None,
        };
        self.value(v, base, 0)
    }

    /// A document with the named fields; with all fields if none are named.
    pub(crate) fn document(&mut self, d: Doc<'_>, only: Option<&[String]>) -> Outcome<Js<'js>> {
        let base = if self.noted.is_some() {
            origins::keep(d)
        } else {
            None
        };
        self.object(d, only, base, 0).map(Object::into_value)
    }

    fn object(
        &mut self,
        d: Doc<'_>,
        only: Option<&[String]>,
        base: Option<origins::Base>,
        depth: usize,
    ) -> Outcome<Object<'js>> {
        let object = Object::new(self.ctx.clone())?;
        let mut has_int = false;
        for e in d.elements() {
            let name = e.name_str();
            if only.is_some_and(|only| !only.iter().any(|n| n == name)) {
                continue;
            }
            let v = e.value();
            has_int |= matches!(v, Value::Int32(_));
            let v = self.value(&v, base, depth + 1)?;
            if name == "__proto__" {
                let plain = Property::from(v).writable().enumerable().configurable();
                object.prop(name, plain)?;
            } else {
                object.set(name, v)?;
            }
        }
        if let (true, Some(base), Some(noted)) = (has_int, base, &mut self.noted) {
            origins::note(object.as_value(), base, d);
            noted.push(object.as_value().clone());
        }
        Ok(object)
    }

    fn array(
        &mut self,
        a: model::Array<'_>,
        base: Option<origins::Base>,
        depth: usize,
    ) -> Outcome<Array<'js>> {
        let array = Array::new(self.ctx.clone())?;
        let mut has_int = false;
        for (i, v) in a.iter().enumerate() {
            has_int |= matches!(v, Value::Int32(_));
            array.set(i, self.value(&v, base, depth + 1)?)?;
        }
        // The elements of an array argument itself become plain numbers.
        if let (true, true, Some(base), Some(noted)) = (has_int, depth > 0, base, &mut self.noted) {
            origins::note(array.as_value(), base, a.as_doc());
            noted.push(array.as_value().clone());
        }
        Ok(array)
    }

    fn value(
        &mut self,
        v: &Value<'_>,
        base: Option<origins::Base>,
        depth: usize,
    ) -> Outcome<Js<'js>> {
        if depth > DEPTH_MAX {
            return Err(
                crate::failure::script_error("InternalError: a value is nested too deep").into(),
            );
        }
        let (ctx, tools) = (self.ctx, self.tools);
        Ok(match *v {
            Value::Missing | Value::Undefined => Js::new_undefined(ctx.clone()),
            Value::Null => Js::new_null(ctx.clone()),
            Value::Bool(b) => Js::new_bool(ctx.clone(), b),
            Value::Int32(n) => Js::new_int(ctx.clone(), n),
            Value::Double(n) => Js::new_number(ctx.clone(), n),
            Value::Int64(n) => tool(tools, "long", (Js::new_big_int(ctx.clone(), n)?,))?,
            Value::Decimal128(n) => tool(tools, "decimal", (n.to_string(),))?,
            Value::String(s) | Value::Symbol(s) => s.into_js(ctx)?,
            Value::Document(d) => self.object(d, None, base, depth)?.into_value(),
            Value::Array(a) => self.array(a, base, depth)?.into_value(),
            Value::Binary(b) => tool(tools, "bin", (b.subtype, STANDARD.encode(b.bytes)))?,
            Value::ObjectId(id) => tool(tools, "oid", (id.to_hex(),))?,
            Value::Date(ms) => tool(tools, "date", (ms as f64,))?,
            Value::Timestamp(t) => tool(
                tools,
                "timestamp",
                (f64::from(t.time), f64::from(t.increment)),
            )?,
            Value::Regex(r) => {
                // Of PCRE's options, those that JavaScript has.
                let flags: String = r.options.chars().filter(|c| "ims".contains(*c)).collect();
                tool(tools, "regex", (r.pattern, flags))?
            }
            Value::DbPointer(ns, id) => tool(tools, "pointer", (ns, id.to_hex()))?,
            Value::Code(code) => tool(tools, "code", (code,))?,
            Value::CodeWithScope(code, scope) => {
                let scope = self.object(Doc::from_prefix(scope), None, None, depth + 1)?;
                tool(tools, "code", (code, scope))?
            }
            Value::MinKey => tools.get("min")?,
            Value::MaxKey => tools.get("max")?,
        })
    }
}
