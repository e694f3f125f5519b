//! `$filter`: the elements for which `cond` is true, at most `limit`. Null for nullish input.
//! Errors: 28646 no document, 28647 unknown argument, 28648 no `input`, 28650 no `cond`, 28651
//! input no array, 327391 / 327392 bad limit, 9 bad `as` or `arrayIndexAs`, 9375802 both the same.

use crate::cx::VALUE_BYTES_PER_BYTE;
use crate::expr::args::{
    check_distinct, define_as, define_index, index_frame, int32_exact, missing_error,
};
use crate::expr::{BoxExpr, Expr, Operator, ParseCx, parse};
use crate::{Cx, Frame, VarId};
use model::{Result, Value, bail};

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$filter",
    parse: parse_filter,
}];

struct Filter {
    input: BoxExpr,
    var: VarId,
    index: VarId,
    cond: BoxExpr,
    limit: Option<BoxExpr>,
}

fn parse_filter(cx: &mut ParseCx<'_>, name: &'static str, spec: Value<'_>) -> Result<BoxExpr> {
    let Value::Document(d) = spec else {
        bail!(
            28646,
            "{name} only supports an object as its argument, not {}",
            spec.type_name()
        );
    };
    let known = ["input", "as", "cond", "limit", "arrayIndexAs"];
    if let Some((unknown, _)) = d.iter().find(|(n, _)| !known.contains(n)) {
        bail!(28647, "Unrecognized parameter to {name}: {unknown}");
    }
    let input = d
        .get("input")
        .ok_or_else(|| missing_error(28648, name, "input"))?;
    let cond = d
        .get("cond")
        .ok_or_else(|| missing_error(28650, name, "cond"))?;
    let input = parse(cx, input)?;
    let limit = d.get("limit").map(|v| parse(cx, v)).transpose()?;
    cx.parse_scoped(|cx| {
        let var = define_as(cx, d.field("as"))?;
        let index = define_index(cx, d.field("arrayIndexAs"))?;
        let names = [(d.field("as"), "this"), (d.field("arrayIndexAs"), "IDX")];
        check_distinct(9375802, name, &names)?;
        let cond = parse(cx, cond)?;
        Ok(Box::new(Filter {
            input,
            var,
            index,
            cond,
            limit,
        }) as BoxExpr)
    })
}

impl Expr for Filter {
    fn eval<'a>(&'a self, cx: &Cx<'_, 'a>) -> Result<Value<'a>> {
        let array = match self.input.eval(cx)? {
            Value::Array(a) => a,
            v if v.is_nullish() => return Ok(Value::Null),
            v => bail!(
                28651,
                "input to $filter must be an array not {}",
                v.type_name()
            ),
        };
        let limit = match &self.limit {
            None => usize::MAX,
            Some(e) => limit_of(e.eval(cx)?)?,
        };
        let mut kept = smallvec::SmallVec::<[Value<'a>; 16]>::new();
        cx.spend(array.as_bytes().len().saturating_mul(VALUE_BYTES_PER_BYTE))?;
        for (i, item) in array.iter().enumerate() {
            cx.spend(0)?;
            let index = index_frame(self.index, i, cx.vars);
            let frame = Frame {
                id: self.var,
                value: item,
                outer: Some(&index),
            };
            if self.cond.eval(&cx.with_frame(&frame))?.truthy() {
                kept.push(item);
                if kept.len() >= limit {
                    break;
                }
            }
        }
        cx.array(&kept)
    }
    fn visit<'e>(&'e self, each: &mut dyn FnMut(&'e dyn Expr)) {
        each(self.input.as_ref());
        each(self.cond.as_ref());
        self.limit.iter().for_each(|l| each(l.as_ref()));
    }
}

fn limit_of(v: Value<'_>) -> Result<usize> {
    if v.is_nullish() {
        return Ok(usize::MAX);
    }
    let Some(n) = int32_exact(&v) else {
        bail!(
            327391,
            "$filter: limit must be represented as a 32-bit integral value: {v}"
        );
    };
    match usize::try_from(n) {
        Ok(n) if n > 0 => Ok(n),
        _ => bail!(327392, "$filter: limit must be greater than 0: {n}"),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::table(&[
            (
                "{'$filter': {'input': '$a', 'cond': '$$this'}}",
                "{'a': [0, 1, null, 'x']}",
                "[1, 'x']",
            ),
            (
                "{'$filter': {'input': '$a', 'as': 'e', 'cond': '$$e.k', 'limit': 1}}",
                "{'a': [{'k': \
                1}, {'k': 2}]}",
                "[{'k': 1}]",
            ),
            (
                "{'$filter': {'input': '$a', 'cond': true, 'limit': null}}",
                "{'a': [1]}",
                "[1]",
            ),
            ("{'$filter': {'input': '$a', 'cond': true}}", "{}", "null"),
            ("{'$filter': {'input': 1, 'cond': true}}", "{}", "!28651"),
            (
                "{'$filter': {'input': [1], 'cond': true, 'limit': 0}}",
                "{}",
                "!327392",
            ),
            (
                "{'$filter': {'input': [1], 'cond': true, 'limit': 1.5}}",
                "{}",
                "!327391",
            ),
            ("{'$filter': {'input': [1], 'cond': '$$e'}}", "{}", "!17276"),
            (
                "{'$filter': {'input': [1], 'as': 'Up', 'cond': 1}}",
                "{}",
                "!9",
            ),
            ("{'$filter': 1}", "{}", "!28646"),
            (
                "{'$filter': {'input': '$b', 'cond': {'$eq': ['$$this', '$$IDX']}, 'limit': 2}}",
                "{'b': [0, 7, 2, 5, 4, 0]}",
                "[0, 2]",
            ),
            (
                "{'$filter': {'input': '$b', 'arrayIndexAs': 'i', 'cond': {'$eq': ['$$i', 1]}}}",
                "{'b': [0, 7, 2]}",
                "[7]",
            ),
            (
                "{'$filter': {'input': [1], 'arrayIndexAs': 'i', 'cond': '$$IDX'}}",
                "{}",
                "!17276",
            ),
            (
                "{'$filter': {'input': [1], 'cond': true, 'limit': '$$IDX'}}",
                "{}",
                "!17276",
            ),
            (
                "{'$filter': {'input': [1], 'arrayIndexAs': 'IDX', 'cond': true}}",
                "{}",
                "!9",
            ),
            (
                "{'$filter': {'input': [1], 'as': 'i', 'arrayIndexAs': 'i', 'cond': true}}",
                "{}",
                "!9375802",
            ),
        ]);
    }
}
