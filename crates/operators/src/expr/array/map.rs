//! `$map`: `in` evaluated for each element bound to `as` (default `this`). Null for nullish input;
//! a missing result becomes null. Errors: 16878 no document, 16879 unknown argument, 16880 no
//! `input`, 16882 no `in`, 16883 input no array, 9 bad `as` or `arrayIndexAs`, 9375801 both the
//! same.

use crate::cx::VALUE_BYTES_PER_BYTE;
use crate::expr::args::{check_distinct, define_as, define_index, index_frame, missing_error};
use crate::expr::{BoxExpr, Expr, Operator, ParseCx, parse};
use crate::{Cx, Frame, VarId};
use model::{Result, Value, bail};

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$map",
    parse: parse_map,
}];

struct Map {
    input: BoxExpr,
    var: VarId,
    index: VarId,
    body: BoxExpr,
}

fn parse_map(cx: &mut ParseCx<'_>, name: &'static str, spec: Value<'_>) -> Result<BoxExpr> {
    let Value::Document(d) = spec else {
        bail!(
            16878,
            "{name} only supports an object as its argument, not {}",
            spec.type_name()
        );
    };
    let known = ["input", "as", "in", "arrayIndexAs"];
    if let Some((unknown, _)) = d.iter().find(|(n, _)| !known.contains(n)) {
        bail!(16879, "Unrecognized parameter to {name}: {unknown}");
    }
    let input = d
        .get("input")
        .ok_or_else(|| missing_error(16880, name, "input"))?;
    let body = d
        .get("in")
        .ok_or_else(|| missing_error(16882, name, "in"))?;
    let input = parse(cx, input)?;
    cx.parse_scoped(|cx| {
        let var = define_as(cx, d.field("as"))?;
        let index = define_index(cx, d.field("arrayIndexAs"))?;
        let names = [(d.field("as"), "this"), (d.field("arrayIndexAs"), "IDX")];
        check_distinct(9375801, name, &names)?;
        Ok(Box::new(Map {
            input,
            var,
            index,
            body: parse(cx, body)?,
        }) as BoxExpr)
    })
}

impl Expr for Map {
    fn eval<'a>(&'a self, cx: &Cx<'_, 'a>) -> Result<Value<'a>> {
        let array = match self.input.eval(cx)? {
            Value::Array(a) => a,
            v if v.is_nullish() => return Ok(Value::Null),
            v => bail!(
                16883,
                "input to $map must be an array not {}",
                v.type_name()
            ),
        };
        let mut out = smallvec::SmallVec::<[Value<'a>; 16]>::new();
        cx.spend(array.as_bytes().len().saturating_mul(VALUE_BYTES_PER_BYTE))?;
        for (i, item) in array.iter().enumerate() {
            cx.spend(0)?;
            let index = index_frame(self.index, i, cx.vars);
            let frame = Frame {
                id: self.var,
                value: item,
                outer: Some(&index),
            };
            out.push(self.body.eval(&cx.with_frame(&frame))?);
        }
        cx.array(&out)
    }
    fn visit<'e>(&'e self, each: &mut dyn FnMut(&'e dyn Expr)) {
        each(self.input.as_ref());
        each(self.body.as_ref());
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::table(&[
            (
                "{'$map': {'input': '$a', 'in': ['$$this', '$k']}}",
                "{'a': [1, 2], 'k': 0}",
                "[[1, 0], [2, 0]]",
            ),
            (
                "{'$map': {'input': '$a', 'as': 'e', 'in': '$$e.x'}}",
                "{'a': [{'x': 1}, {}]}",
                "[1, null]",
            ),
            (
                "{'$map': {'input': '$a', 'as': 'e', 'in': {'$map': {'input': '$$e', 'as': 'f', \
                    'in': \
                ['$$e', '$$f']}}}}",
                "{'a': [[1]]}",
                "[[[[1], 1]]]",
            ),
            (
                "{'$map': {'input': [7], 'arrayIndexAs': 'i', 'in': '$$IDX'}}",
                "{}",
                "!17276",
            ),
            ("{'$map': {'input': '$$IDX', 'in': 1}}", "{}", "!17276"),
            (
                "{'$map': {'input': [], 'as': 'i', 'arrayIndexAs': 'i', 'in': 1}}",
                "{}",
                "!9375801",
            ),
            (
                "{'$map': {'input': [7], 'index': 1, 'in': 1}}",
                "{}",
                "!16879",
            ),
            ("{'$map': {'input': '$none', 'in': 1}}", "{}", "null"),
            ("{'$map': {'input': 'x', 'in': 1}}", "{}", "!16883"),
            ("{'$map': {'input': [], 'as': 1, 'in': 1}}", "{}", "!9"),
            ("{'$map': {'in': 1}}", "{}", "!16880"),
            ("{'$map': {'input': []}}", "{}", "!16882"),
            ("{'$map': []}", "{}", "!16878"),
            (
                "{'$map': {'input': '$a', 'arrayIndexAs': 'i', 'in': ['$$this', '$$i']}}",
                "{'a': [7, 8]}",
                "[[7, 0], [8, 1]]",
            ),
            (
                "{'$map': {'input': '$a', 'in': '$$IDX'}}",
                "{'a': [7, 8]}",
                "[0, 1]",
            ),
            (
                "{'$map': {'input': '$a', 'in': {'$map': {'input': '$a', 'arrayIndexAs': 'i', \
                    'in': {'$add': ['$$IDX', '$$i']}}}}}",
                "{'a': [7, 8]}",
                "[[0, 1], [1, 2]]",
            ),
            (
                "{'$map': {'input': [], 'arrayIndexAs': 'I', 'in': 1}}",
                "{}",
                "!9",
            ),
        ]);
    }
}
