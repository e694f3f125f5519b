//! `$zip`: `{inputs, useLongestLength, defaults}`, transposes arrays. Null when an input is
//! nullish. Errors: 34460 no document, 34461 / 34462 / 34463 argument of the wrong type, 34464
//! unknown argument, 34465 no inputs, 34466 / 34467 defaults without useLongestLength / of another
//! length, 34468 input no array.

use crate::Cx;
use crate::cx::{VALUE_BYTES_PER_BYTE, bytes_of};
use crate::expr::{BoxExpr, Expr, Operator, ParseCx, parse};
use model::{Array, Result, Value, bail};

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$zip",
    parse: parse_zip,
}];

struct Zip {
    inputs: Vec<BoxExpr>,
    longest: bool,
    defaults: Vec<BoxExpr>,
}

fn parse_zip(cx: &mut ParseCx<'_>, name: &'static str, spec: Value<'_>) -> Result<BoxExpr> {
    let Value::Document(d) = spec else {
        bail!(
            34460,
            "{name} only supports an object as an argument, found {}",
            spec.type_name()
        );
    };
    let mut zip = Zip {
        inputs: Vec::new(),
        longest: false,
        defaults: Vec::new(),
    };
    for (field, v) in d.iter() {
        match field {
            "inputs" => zip.inputs = list(cx, v, "inputs", 34461)?,
            "defaults" => zip.defaults = list(cx, v, "defaults", 34462)?,
            "useLongestLength" => match v {
                Value::Bool(b) => zip.longest = b,
                v => bail!(
                    34463,
                    "useLongestLength must be a bool, found {}",
                    v.type_name()
                ),
            },
            _ => bail!(34464, "{name} found an unknown argument: {field}"),
        }
    }
    if zip.inputs.is_empty() {
        bail!(34465, "{name} requires at least one input array");
    }
    if !zip.defaults.is_empty() && !zip.longest {
        bail!(
            34466,
            "cannot specify defaults unless useLongestLength is true"
        );
    }
    if !zip.defaults.is_empty() && zip.defaults.len() != zip.inputs.len() {
        bail!(
            34467,
            "defaults and inputs must have the same length, found {} and {}",
            zip.defaults.len(),
            zip.inputs.len()
        );
    }
    Ok(Box::new(zip))
}

fn list(cx: &mut ParseCx<'_>, v: Value<'_>, field: &str, code: i32) -> Result<Vec<BoxExpr>> {
    match v {
        Value::Array(a) => a.iter().map(|v| parse(cx, v)).collect(),
        v => bail!(
            code,
            "{field} must be an array of expressions, found {}",
            v.type_name()
        ),
    }
}

impl Expr for Zip {
    fn eval<'a>(&'a self, cx: &Cx<'_, 'a>) -> Result<Value<'a>> {
        let mut inputs: Vec<Vec<Value<'a>>> = Vec::with_capacity(self.inputs.len());
        let mut bytes = 0;
        for e in &self.inputs {
            match e.eval(cx)? {
                Value::Array(a) => {
                    bytes += a.as_bytes().len().saturating_mul(VALUE_BYTES_PER_BYTE);
                    cx.spend(bytes)?;
                    inputs.push(a.iter().collect());
                }
                v if v.is_nullish() => return Ok(Value::Null),
                v => bail!(34468, "$zip found a non-array expression in input: {v}"),
            }
        }
        let defaults = self
            .defaults
            .iter()
            .map(|e| e.eval(cx))
            .collect::<Result<Vec<_>>>()?;
        let lengths = inputs.iter().map(Vec::len);
        let rows = if self.longest {
            lengths.max()
        } else {
            lengths.min()
        }
        .unwrap_or(0);
        let cells = rows.saturating_mul(inputs.len()).saturating_mul(16);
        let elements = inputs.iter().flatten().map(bytes_of).sum::<usize>();
        cx.spend(cells.saturating_add(elements))?;
        Ok(Value::Array(Array::build_in(cx.arena, |w| {
            for row in 0..rows {
                let mut out = w.array();
                for (column, input) in inputs.iter().enumerate() {
                    let default = || defaults.get(column).copied().unwrap_or(Value::Null);
                    out.push(input.get(row).copied().unwrap_or_else(default));
                }
            }
        })))
    }
    fn visit<'e>(&'e self, each: &mut dyn FnMut(&'e dyn Expr)) {
        self.inputs
            .iter()
            .chain(&self.defaults)
            .for_each(|e| each(e.as_ref()));
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::table(&[
            (
                "{'$zip': {'inputs': ['$a', [3, 4, 5]]}}",
                "{'a': [1, 2]}",
                "[[1, 3], [2, 4]]",
            ),
            (
                "{'$zip': {'inputs': ['$a', [3]], 'useLongestLength': true, 'defaults': [0, 'd']}}",
                "{'a': [1, 2]}",
                "[[1, 3], [2, 'd']]",
            ),
            ("{'$zip': {'inputs': ['$a', [3]]}}", "{}", "null"),
            ("{'$zip': {'inputs': [1]}}", "{}", "!34468"),
            ("{'$zip': {'inputs': []}}", "{}", "!34465"),
            (
                "{'$zip': {'inputs': [[1]], 'defaults': [1]}}",
                "{}",
                "!34466",
            ),
            (
                "{'$zip': {'inputs': [[1]], 'useLongestLength': true, 'defaults': [1, 2]}}",
                "{}",
                "!34467",
            ),
            ("{'$zip': {'inputs': 1}}", "{}", "!34461"),
            ("{'$zip': {'inputs': [[1]], 'x': 1}}", "{}", "!34464"),
            ("{'$zip': 1}", "{}", "!34460"),
        ]);
    }
}
