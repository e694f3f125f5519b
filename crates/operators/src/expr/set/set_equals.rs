//! `$setEquals`: whether two or more arrays have the same distinct elements. Errors: 17044 no array
//! (null too), 5887502 the same of a constant, 17045 fewer than two operands.

use super::Members;
use crate::Cx;
use crate::expr::{Expr, Operator, nary};
use model::{Result, Value, bail};

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$setEquals",
    parse: |cx, name, spec| {
        let operands = spec.as_array().map_or(1, |a| a.len());
        if operands < 2 {
            bail!(
                17045,
                "{name} needs at least two arguments, had: {operands}"
            );
        }
        let e = nary(cx, name, spec, 2..=usize::MAX, eval)?;
        check_constants(e.as_ref())?;
        Ok(e)
    },
}];

/// Constant operands are checked while parsing, with their own error code.
fn check_constants(e: &dyn Expr) -> Result<()> {
    let (mut at, mut wrong) = (0, None);
    e.visit(&mut |operand| {
        at += 1;
        if let (Some(v), None) = (operand.constant(), wrong) {
            wrong = (!matches!(v, Value::Array(_))).then(|| (at, v.type_name()));
        }
    });
    match wrong {
        Some((at, given)) => bail!(
            5887502,
            "All operands of $setEquals must be arrays. {at}-th argument is of type: {given}"
        ),
        None => Ok(()),
    }
}

fn eval<'a>(cx: &Cx<'_, 'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    let mut first: Option<Members<'_>> = None;
    let mut equal = true;
    for (i, v) in args.iter().enumerate() {
        let Value::Array(a) = v else {
            bail!(
                17044,
                "All operands of $setEquals must be arrays. {}-th argument is of type: {}",
                i + 1,
                v.type_name()
            );
        };
        match &mut first {
            None => first = Some(Members::of(*a, cx.collate())),
            // After a difference is found, the types of the remaining operands are still checked.
            Some(first) if equal => {
                equal = a.iter().all(|v| first.contains(&v))
                    && Members::of(*a, cx.collate()).len() == first.len();
            }
            Some(_) => {}
        }
    }
    Ok(Value::Bool(equal))
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::table(&[
            ("{'$setEquals': [[1, 2, 1], [2.0, 1]]}", "{}", "true"),
            ("{'$setEquals': [[1, 2], [2, 1], [1]]}", "{}", "false"),
            ("{'$setEquals': [[1], [1, 2]]}", "{}", "false"),
            ("{'$setEquals': [[1], [2], null]}", "{}", "!5887502"),
            ("{'$setEquals': [[1, 2], true]}", "{}", "!5887502"),
            ("{'$setEquals': ['$v', [2]]}", "{'v': 1}", "!17044"),
            ("{'$setEquals': ['$v', 2]}", "{'v': [1]}", "!5887502"),
            ("{'$setEquals': ['$v', [2], 2]}", "{'v': [2]}", "!5887502"),
            ("{'$setEquals': [[1]]}", "{}", "!17045"),
        ]);
    }
}
