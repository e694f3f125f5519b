//! `$reduce`: folds `in` over the array with `$$value` (so far) and `$$this` (element). Null for nullish input.
//! Errors: 40075 no document, 40076 unknown argument, 40077 / 40078 / 40079 missing argument, 40080 input no array.

use crate::expr::args::{check_interrupt, missing};
use crate::expr::{BoxExpr, Expr, Operator, ParseCx, parse};
use crate::{Cx, Frame, VarId};
use model::{Result, Value, bail};

pub(super) static OPERATORS: &[Operator] = &[Operator { name: "$reduce", parse: parse_reduce }];

struct Reduce {
    input: BoxExpr,
    initial: BoxExpr,
    this: VarId,
    value: VarId,
    body: BoxExpr,
}

fn parse_reduce(cx: &mut ParseCx<'_>, name: &'static str, spec: Value<'_>) -> Result<BoxExpr> {
    let Value::Document(d) = spec else {
        bail!(40075, "{name} requires an object as an argument, found: {}", spec.type_name());
    };
    if let Some((unknown, _)) = d.iter().find(|(n, _)| !["input", "initialValue", "in"].contains(n)) {
        bail!(40076, "{name} found an unknown argument: {unknown}");
    }
    let input = d.get("input").ok_or_else(|| missing(40077, name, "input"))?;
    let initial = d.get("initialValue").ok_or_else(|| missing(40078, name, "initialValue"))?;
    let body = d.get("in").ok_or_else(|| missing(40079, name, "in"))?;
    let (input, initial) = (parse(cx, input)?, parse(cx, initial)?);
    cx.scoped(|cx| {
        let (this, value) = (cx.define("this"), cx.define("value"));
        Ok(Box::new(Reduce { input, initial, this, value, body: parse(cx, body)? }) as BoxExpr)
    })
}

impl Expr for Reduce {
    fn eval<'a>(&'a self, cx: &Cx<'_, 'a>) -> Result<Value<'a>> {
        let array = match self.input.eval(cx)? {
            Value::Array(a) => a,
            v if v.is_nullish() => return Ok(Value::Null),
            v => bail!(40080, "$reduce requires that 'input' be an array, found: {}", v.type_name()),
        };
        let mut so_far = self.initial.eval(cx)?;
        for (n, item) in array.iter().enumerate() {
            check_interrupt(cx, n)?;
            let this = Frame { id: self.this, value: item, outer: cx.vars };
            let both = Frame { id: self.value, value: so_far, outer: Some(&this) };
            so_far = self.body.eval(&cx.with(&both))?;
        }
        Ok(so_far)
    }
    fn visit<'e>(&'e self, each: &mut dyn FnMut(&'e dyn Expr)) {
        each(self.input.as_ref());
        each(self.initial.as_ref());
        each(self.body.as_ref());
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::table::table(&[
            ("{'$reduce': {'input': '$a', 'initialValue': [], 'in': {'$concatArrays': ['$$this', '$$value']}}}",
             "{'a': [[1], [2], [3]]}", "[3, 2, 1]"),
            ("{'$reduce': {'input': [], 'initialValue': '$none', 'in': 1}}", "{}", "missing"),
            ("{'$reduce': {'input': null, 'initialValue': 1, 'in': 1}}", "{}", "null"),
            ("{'$reduce': {'input': 1, 'initialValue': 1, 'in': 1}}", "{}", "!40080"),
            ("{'$reduce': {'input': [], 'in': 1}}", "{}", "!40078"),
            ("{'$reduce': {'input': [], 'initialValue': 1, 'in': 1, 'as': 'x'}}", "{}", "!40076"),
            ("{'$reduce': 1}", "{}", "!40075"),
        ]);
    }
}
