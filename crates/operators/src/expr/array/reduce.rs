//! `$reduce`: folds `in` over the array with `$$value` (the result so far) and `$$this` (the
//! element). Null for nullish input. Errors: 40075 no document, 40076 unknown argument, 40077 /
//! 40078 / 40079 missing argument, 40080 input no array, 9 bad `as`, `valueAs` or `arrayIndexAs`,
//! 9298401 two of them the same.

use crate::expr::args::{check_distinct, define_as, define_index, index_frame, missing_error};
use crate::expr::{BoxExpr, Expr, Operator, ParseCx, parse};
use crate::{Cx, Frame, VarId};
use model::{Bump, OwnedValue, Result, Value, bail};

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$reduce",
    parse: parse_reduce,
}];

struct Reduce {
    input: BoxExpr,
    initial: BoxExpr,
    this: VarId,
    value: VarId,
    index: VarId,
    body: BoxExpr,
}

fn parse_reduce(cx: &mut ParseCx<'_>, name: &'static str, spec: Value<'_>) -> Result<BoxExpr> {
    let Value::Document(d) = spec else {
        bail!(
            40075,
            "{name} requires an object as an argument, found: {}",
            spec.type_name()
        );
    };
    let known = [
        "input",
        "initialValue",
        "in",
        "as",
        "valueAs",
        "arrayIndexAs",
    ];
    if let Some((unknown, _)) = d.iter().find(|(n, _)| !known.contains(n)) {
        bail!(40076, "{name} found an unknown argument: {unknown}");
    }
    let input = d
        .get("input")
        .ok_or_else(|| missing_error(40077, name, "input"))?;
    let initial = d
        .get("initialValue")
        .ok_or_else(|| missing_error(40078, name, "initialValue"))?;
    let body = d
        .get("in")
        .ok_or_else(|| missing_error(40079, name, "in"))?;
    let (input, initial) = (parse(cx, input)?, parse(cx, initial)?);
    cx.parse_scoped(|cx| {
        let this = define_as(cx, d.field("as"))?;
        let value = match d.field("valueAs") {
            Value::Missing => cx.define("value"),
            name => define_as(cx, name)?,
        };
        let index = define_index(cx, d.field("arrayIndexAs"))?;
        let names = [
            (d.field("as"), "this"),
            (d.field("valueAs"), "value"),
            (d.field("arrayIndexAs"), "IDX"),
        ];
        check_distinct(9298401, name, &names)?;
        Ok(Box::new(Reduce {
            input,
            initial,
            this,
            value,
            index,
            body: parse(cx, body)?,
        }) as BoxExpr)
    })
}

/// Bytes allocated by steps before their arena is freed: only the last result is needed.
const SWEEP_BYTES: usize = 1 << 20;

impl Reduce {
    /// Folds until the array ends or the arena has grown enough.
    fn some_steps<'a>(
        &'a self,
        cx: &Cx<'_, 'a>,
        items: &mut impl Iterator<Item = (usize, Value<'a>)>,
        carried: &OwnedValue,
    ) -> Result<OwnedValue> {
        let scratch = Bump::new();
        // All data of the outer context lives longer than these steps.
        let inner = Cx {
            arena: &scratch,
            held_bytes: cx.held_bytes + cx.arena.allocated_bytes() + carried.len_bytes(),
            ..*cx
        };
        let mut so_far = carried.get();
        for (i, item) in items {
            inner.spend(0)?;
            let index = index_frame(self.index, i, inner.vars);
            let this = Frame {
                id: self.this,
                value: item,
                outer: Some(&index),
            };
            let both = Frame {
                id: self.value,
                value: so_far,
                outer: Some(&this),
            };
            so_far = self.body.eval(&inner.with_frame(&both))?;
            if scratch.allocated_bytes() > SWEEP_BYTES {
                break;
            }
        }
        Ok(so_far.to_owned_value())
    }
}

impl Expr for Reduce {
    fn eval<'a>(&'a self, cx: &Cx<'_, 'a>) -> Result<Value<'a>> {
        let array = match self.input.eval(cx)? {
            Value::Array(a) => a,
            v if v.is_nullish() => return Ok(Value::Null),
            v => bail!(
                40080,
                "$reduce requires that 'input' be an array, found: {}",
                v.type_name()
            ),
        };
        let mut items = array.iter().enumerate().peekable();
        let mut carried = self.initial.eval(cx)?.to_owned_value();
        while items.peek().is_some() {
            carried = self.some_steps(cx, &mut items, &carried)?;
        }
        cx.spend(carried.len_bytes())?;
        Ok(carried.get().copy_into(cx.arena))
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
        crate::expr::check::table(&[
            (
                "{'$reduce': {'input': '$a', 'initialValue': [], 'in': {'$concatArrays': \
                    ['$$this', \
                '$$value']}}}",
                "{'a': [[1], [2], [3]]}",
                "[3, 2, 1]",
            ),
            (
                "{'$reduce': {'input': [], 'initialValue': '$none', 'in': 1}}",
                "{}",
                "missing",
            ),
            (
                "{'$reduce': {'input': null, 'initialValue': 1, 'in': 1}}",
                "{}",
                "null",
            ),
            (
                "{'$reduce': {'input': 1, 'initialValue': 1, 'in': 1}}",
                "{}",
                "!40080",
            ),
            ("{'$reduce': {'input': [], 'in': 1}}", "{}", "!40078"),
            (
                "{'$reduce': {'input': [], 'initialValue': 1, 'in': 1, 'index': 'x'}}",
                "{}",
                "!40076",
            ),
            (
                "{'$reduce': {'input': '$a', 'initialValue': 0, 'in': {'$add': ['$$value', \
                    {'$multiply': ['$$this', '$$IDX']}]}}}",
                "{'a': [1, 2, 3]}",
                "8",
            ),
            (
                "{'$reduce': {'input': '$a', 'initialValue': 0, 'as': 'e', 'valueAs': 'v', \
                    'arrayIndexAs': 'i', 'in': {'$add': ['$$v', '$$e', '$$i']}}}",
                "{'a': [1, 2, 3]}",
                "9",
            ),
            (
                "{'$reduce': {'input': [], 'initialValue': 0, 'as': 'e', 'in': '$$this'}}",
                "{}",
                "!17276",
            ),
            (
                "{'$reduce': {'input': [], 'initialValue': '$$IDX', 'in': 1}}",
                "{}",
                "!17276",
            ),
            (
                "{'$reduce': {'input': [], 'initialValue': 0, 'as': 'e', 'valueAs': 'e', 'in': 1}}",
                "{}",
                "!9298401",
            ),
            (
                "{'$reduce': {'input': [], 'initialValue': 0, 'valueAs': 'V', 'in': 1}}",
                "{}",
                "!9",
            ),
            ("{'$reduce': 1}", "{}", "!40075"),
        ]);
    }
}
