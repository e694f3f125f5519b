//! `$serializeEJSON` (8.3): `{input, relaxed, onError}`, the value in extended JSON, relaxed by
//! default. `$deserializeEJSON`: `{input, onError}`, the reverse. Both return values, not text, and
//! null for nullish input. Errors: 9 no document or an argument missing or unknown, 2 for a
//! `relaxed` that is no boolean; 241, which `onError` handles, when a result is nested too deeply
//! or too large, or a wrapper is malformed.

mod read;
mod write;

use crate::expr::{BoxExpr, Expr, Operator, ParseCx, parse};
use crate::{Cx, expr};
use model::bson::MAX_DOCUMENT_BYTES;
use model::{DocBuf, Result, Value, bail, code};
use write::failure;

pub(super) static OPERATORS: &[Operator] = &[
    Operator {
        name: "$serializeEJSON",
        parse: |cx, name, spec| {
            let [input, relaxed, on_error] =
                parse_arguments(cx, name, spec, ["input", "relaxed", "onError"])?;
            let input = input.ok_or_else(|| expr::args::missing_error(9, name, "input"))?;
            Ok(Box::new(Serialize {
                input,
                relaxed,
                on_error,
            }))
        },
    },
    Operator {
        name: "$deserializeEJSON",
        parse: |cx, name, spec| {
            let [input, on_error] = parse_arguments(cx, name, spec, ["input", "onError"])?;
            let input = input.ok_or_else(|| expr::args::missing_error(9, name, "input"))?;
            Ok(Box::new(Deserialize { input, on_error }))
        },
    },
];

fn parse_arguments<const N: usize>(
    cx: &mut ParseCx<'_>,
    name: &str,
    spec: Value<'_>,
    known: [&str; N],
) -> Result<[Option<BoxExpr>; N]> {
    let Value::Document(d) = spec else {
        bail!(
            code::FAILED_TO_PARSE,
            "{name} expects an object of named arguments but found: {}",
            spec.type_name()
        );
    };
    let mut found = [const { None }; N];
    for (argument, v) in d.iter() {
        let Some(slot) = known.iter().position(|k| *k == argument) else {
            bail!(
                code::FAILED_TO_PARSE,
                "{name} found an unknown argument: {argument}; allowed are {}",
                known.join(", ")
            );
        };
        let parsed = parse(cx, v)?;
        if let Some(slot) = found.get_mut(slot) {
            *slot = Some(parsed);
        }
    }
    Ok(found)
}

/// Bytes of the result per byte of the input, at most, approximately.
const BYTES_PER_BYTE: usize = 4;

/// The value that `write` puts under the empty name.
fn build_value<'a>(
    cx: &Cx<'_, 'a>,
    input: &Value<'_>,
    write: impl FnOnce(&mut model::DocWriter<'_>) -> Result<()>,
) -> Result<Value<'a>> {
    cx.spend(crate::cx::bytes_of(input).saturating_mul(BYTES_PER_BYTE))?;
    let mut outcome = Ok(());
    let holder = DocBuf::build(|w| outcome = write(w));
    outcome?;
    if holder.as_bytes().len() > MAX_DOCUMENT_BYTES {
        return Err(failure(format!(
            "the result would be larger than {MAX_DOCUMENT_BYTES} bytes"
        )));
    }
    Ok(holder.doc().field("").copy_into(cx.arena))
}

fn or_instead<'a>(
    cx: &Cx<'_, 'a>,
    result: Result<Value<'a>>,
    on_error: &'a Option<BoxExpr>,
) -> Result<Value<'a>> {
    match (result, on_error) {
        (Err(e), Some(instead)) if e.code() == code::CONVERSION_FAILURE => instead.eval(cx),
        (result, _) => result,
    }
}

struct Serialize {
    input: BoxExpr,
    relaxed: Option<BoxExpr>,
    on_error: Option<BoxExpr>,
}

impl Expr for Serialize {
    fn eval<'a>(&'a self, cx: &Cx<'_, 'a>) -> Result<Value<'a>> {
        let relaxed = match &self.relaxed {
            None => true,
            Some(e) => match e.eval(cx)? {
                Value::Bool(b) => b,
                v => bail!(
                    code::BAD_VALUE,
                    "Unexpected value for relaxed: {v}; allowed are true and false"
                ),
            },
        };
        let input = self.input.eval(cx)?;
        if matches!(input, Value::Null | Value::Missing) {
            return Ok(Value::Null);
        }
        let result = build_value(cx, &input, |w| write::put(w, "", &input, relaxed, 0));
        or_instead(cx, result, &self.on_error)
    }
    fn visit<'e>(&'e self, each: &mut dyn FnMut(&'e dyn Expr)) {
        each(self.input.as_ref());
        [&self.relaxed, &self.on_error]
            .into_iter()
            .flatten()
            .for_each(|e| each(e.as_ref()));
    }
}

struct Deserialize {
    input: BoxExpr,
    on_error: Option<BoxExpr>,
}

impl Expr for Deserialize {
    fn eval<'a>(&'a self, cx: &Cx<'_, 'a>) -> Result<Value<'a>> {
        let input = self.input.eval(cx)?;
        if input.is_nullish() {
            return Ok(Value::Null);
        }
        let result = build_value(cx, &input, |w| read::put(w, "", &input));
        or_instead(cx, result, &self.on_error)
    }
    fn visit<'e>(&'e self, each: &mut dyn FnMut(&'e dyn Expr)) {
        each(self.input.as_ref());
        self.on_error.iter().for_each(|e| each(e.as_ref()));
    }
}

#[cfg(test)]
mod tests;
