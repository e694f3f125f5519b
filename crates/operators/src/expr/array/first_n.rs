//! `$firstN`, `$lastN`, `$minN`, `$maxN` of an array: `{n, input}`. `$minN`/`$maxN` ignore nulls
//! and sort their result. Errors: 5787801 / 5787900 no document, 5787901 unknown argument, 5787906
//! no `n`, 5787907 no `input`, 5787902 / 5787903 `n` no integer, 5787908 `n` not positive, 5788200
//! input no array.

use crate::Cx;
use crate::expr::n_spec::{NSpec, count_of};
use crate::expr::{BoxExpr, Expr, Operator, ParseCx};
use model::{Array, Result, Value, bail, compare_with};

pub(super) static OPERATORS: &[Operator] = &[
    Operator {
        name: "$firstN",
        parse: |cx, name, spec| parse(cx, name, spec, Pick::First),
    },
    Operator {
        name: "$lastN",
        parse: |cx, name, spec| parse(cx, name, spec, Pick::Last),
    },
    Operator {
        name: "$minN",
        parse: |cx, name, spec| parse(cx, name, spec, Pick::Min),
    },
    Operator {
        name: "$maxN",
        parse: |cx, name, spec| parse(cx, name, spec, Pick::Max),
    },
];

#[derive(Clone, Copy, PartialEq)]
enum Pick {
    First,
    Last,
    Min,
    Max,
}

struct PickN {
    spec: NSpec,
    pick: Pick,
}

fn parse(cx: &mut ParseCx<'_>, name: &'static str, spec: Value<'_>, pick: Pick) -> Result<BoxExpr> {
    Ok(Box::new(PickN {
        spec: NSpec::parse(cx, name, spec)?,
        pick,
    }))
}

impl Expr for PickN {
    fn eval<'a>(&'a self, cx: &Cx<'_, 'a>) -> Result<Value<'a>> {
        let n = count_of(self.spec.n.eval(cx)?)?;
        let array = match self.spec.input.eval(cx)? {
            Value::Array(a) => a,
            v => bail!(5788200, "Input must be an array, not {}", v.type_name()),
        };
        let mut items: Vec<Value<'a>> = array.iter().collect();
        match self.pick {
            Pick::First => {}
            Pick::Last => {
                items.drain(..items.len().saturating_sub(n));
            }
            Pick::Min | Pick::Max => {
                items.retain(|v| !v.is_nullish());
                items.sort_by(|a, b| {
                    let order = compare_with(a, b, cx.collate());
                    if self.pick == Pick::Max {
                        order.reverse()
                    } else {
                        order
                    }
                });
            }
        }
        items.truncate(n);
        Ok(Value::Array(Array::from_values_in(cx.arena, items)))
    }
    fn visit<'e>(&'e self, each: &mut dyn FnMut(&'e dyn Expr)) {
        each(self.spec.n.as_ref());
        each(self.spec.input.as_ref());
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::table(&[
            (
                "{'$firstN': {'n': 2, 'input': '$a'}}",
                "{'a': [3, null, 1]}",
                "[3, null]",
            ),
            (
                "{'$lastN': {'n': 2, 'input': '$a'}}",
                "{'a': [3, null, 1]}",
                "[null, 1]",
            ),
            (
                "{'$minN': {'n': 2, 'input': '$a'}}",
                "{'a': [3, null, 1, 2]}",
                "[1, 2]",
            ),
            (
                "{'$maxN': {'n': 9, 'input': '$a'}}",
                "{'a': [3, null, 1, 2]}",
                "[3, 2, 1]",
            ),
            ("{'$maxN': {'n': 9, 'input': '$a'}}", "{}", "!5788200"),
            ("{'$maxN': {'n': 0, 'input': '$a'}}", "{}", "!5787908"),
            ("{'$maxN': {'n': 1.5, 'input': '$a'}}", "{}", "!5787903"),
            ("{'$maxN': {'n': 'x', 'input': '$a'}}", "{}", "!5787902"),
            ("{'$maxN': {'input': '$a'}}", "{}", "!5787906"),
            ("{'$maxN': {'n': 1}}", "{}", "!5787907"),
            ("{'$maxN': {'n': 1, 'input': [], 'x': 1}}", "{}", "!5787901"),
            ("{'$maxN': 1}", "{}", "!5787900"),
            ("{'$firstN': 1}", "{}", "!5787801"),
        ]);
    }
}
