//! `$switch`: `{branches: [{case, then}, ...], default}`. Constant cases are evaluated while
//! parsing: a false one drops its branch; a true one makes its `then` the default and drops all
//! later branches. Dropped branches cannot fail.
//!
//! 40060 no object, 40061 `branches` no array, 40062 a branch no object, 40063 / 40067 an unknown
//! field of a branch / of the whole, 40064 / 40065 no `case` / `then`, 40068 no branch, 40069 all
//! cases constant and false without a default, 40066 no case true and no default.

use crate::Cx;
use crate::expr::{BoxExpr, Expr, Operator, ParseCx, parse};
use model::{Doc, Result, Value, bail};

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$switch",
    parse: |cx, _, spec| parse_switch(cx, spec),
}];

fn parse_switch(cx: &mut ParseCx<'_>, spec: Value<'_>) -> Result<BoxExpr> {
    let Value::Document(spec) = spec else {
        bail!(
            40060,
            "$switch requires an object as an argument, found: {}",
            spec.type_name()
        );
    };
    let (mut parsed, mut default) = (Vec::new(), None);
    for (field, v) in spec.iter() {
        match (field, v) {
            ("branches", Value::Array(list)) => {
                for branch in list.iter() {
                    parsed.push(parse_branch(cx, branch)?);
                }
            }
            ("branches", v) => {
                bail!(
                    40061,
                    "$switch expected an array for 'branches', found: {}",
                    v.type_name()
                );
            }
            ("default", v) => default = Some(parse(cx, v)?),
            _ => bail!(
                40067,
                "$switch found an unknown argument: {field}; allowed are branches \
                and default"
            ),
        }
    }
    if parsed.is_empty() {
        bail!(40068, "$switch requires at least one branch");
    }
    // A default that fails is an error even when a constant case makes it unreachable.
    if let Some(error) = default.as_deref().and_then(Expr::failure) {
        return Err(error.clone());
    }
    let mut branches = Vec::new();
    for (case, then) in parsed {
        match case.constant().map(|v| v.truthy()) {
            Some(false) => {}
            Some(true) => {
                default = Some(then);
                break;
            }
            None => branches.push((case, then)),
        }
    }
    match default {
        Some(only) if branches.is_empty() => Ok(only),
        None if branches.is_empty() => {
            bail!(
                40069,
                "One cannot execute a switch statement where all the cases evaluate to \
                false without a default"
            )
        }
        default => Ok(Box::new(Switch { branches, default })),
    }
}

fn parse_branch(cx: &mut ParseCx<'_>, branch: Value<'_>) -> Result<(BoxExpr, BoxExpr)> {
    let Value::Document(branch) = branch else {
        bail!(
            40062,
            "$switch expected each branch to be an object, found: {}",
            branch.type_name()
        );
    };
    if let Some((field, _)) = Doc::iter(branch).find(|(name, _)| !matches!(*name, "case" | "then"))
    {
        bail!(
            40063,
            "$switch found an unknown argument to a branch: {field}; allowed are case and \
            then"
        );
    }
    let Some(case) = branch.get("case") else {
        bail!(
            40064,
            "$switch requires each branch have a \
        'case' expression"
        )
    };
    let Some(then) = branch.get("then") else {
        bail!(
            40065,
            "$switch requires each branch have a \
        'then' expression"
        )
    };
    Ok((parse(cx, case)?, parse(cx, then)?))
}

struct Switch {
    branches: Vec<(BoxExpr, BoxExpr)>,
    default: Option<BoxExpr>,
}

impl Expr for Switch {
    fn eval<'a>(&'a self, cx: &Cx<'_, 'a>) -> Result<Value<'a>> {
        for (case, then) in &self.branches {
            if case.eval(cx)?.truthy() {
                return then.eval(cx);
            }
        }
        match &self.default {
            Some(e) => e.eval(cx),
            None => bail!(
                40066,
                "$switch could not find a matching branch for an input, and no \
                default was specified"
            ),
        }
    }
    fn visit<'e>(&'e self, each: &mut dyn FnMut(&'e dyn Expr)) {
        for (case, then) in &self.branches {
            each(case.as_ref());
            each(then.as_ref());
        }
        if let Some(e) = &self.default {
            each(e.as_ref());
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::rows(&[
            (
                r#"{"$switch": {"branches": [{"case": "$n", "then": 1}, {"case": "$a",
                    "then": "$missing"}]}}"#,
                "missing MISSING",
            ),
            (
                r#"{"$switch": {"branches": [{"case": "$n", "then": 1}], "default": 9}}"#,
                "int 9",
            ),
            (
                r#"{"$switch": {"branches": [{"case": "$n", "then": 1}]}}"#,
                "error 40066",
            ),
            (
                r#"{"$switch": {"branches": [{"case": 0, "then": {"$divide": [1, 0]}}],
                    "default": 9}}"#,
                "int 9",
            ),
            (
                r#"{"$switch": {"branches": [{"case": 1, "then": 7}, {"case": {"$divide": [1, 0]},
                    "then": 8}]}}"#,
                "int 7",
            ),
            (
                r#"{"$switch": {"branches": [{"case": 1, "then": 7}], "default": {"$divide": [1,
                    0]}}}"#,
                "error 2",
            ),
            (
                r#"{"$switch": {"branches": [{"case": "$a", "then": {"$divide": [1, 0]}}],
                    "default": 3}}"#,
                "error 2",
            ),
            (
                r#"{"$switch": {"branches": [{"case": false, "then": 1}]}}"#,
                "error 40069",
            ),
            (r#"{"$switch": 1}"#, "error 40060"),
            (r#"{"$switch": {"branches": 1}}"#, "error 40061"),
            (r#"{"$switch": {"branches": [1]}}"#, "error 40062"),
            (r#"{"$switch": {"branches": [{"x": 1}]}}"#, "error 40063"),
            (r#"{"$switch": {"branches": [{"then": 1}]}}"#, "error 40064"),
            (r#"{"$switch": {"branches": [{"case": 1}]}}"#, "error 40065"),
            (r#"{"$switch": {"x": []}}"#, "error 40067"),
            (r#"{"$switch": {"branches": []}}"#, "error 40068"),
        ]);
    }
}
