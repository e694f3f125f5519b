//! `$expr` in a filter: an expression that is true for a document. Must not know: how expressions
//! are parsed, which operators there are.
//!
//! MongoDB also derives a filter on fields from `$expr` that has to pass in addition, and that
//! filter's `$in` ignores the collation (`$eq` and similar do not). So a list of constants in
//! `$expr` is compared in the binary order, although `$in` in every other expression, and in a
//! filter, uses the collation. Quarry does the same; otherwise queries with a collation would find
//! more.

use super::node::Node;
use crate::Cx;
use crate::expr::{self, BoxExpr, Expr, ParseCx};
use model::{OwnedValue, Result, Value, compare};

/// Parses the operand of `$expr`.
pub(super) fn parse(cx: &mut ParseCx<'_>, spec: Value<'_>) -> Result<Node> {
    let e = expr::parse(cx, spec)?;
    match e.constant().map(|c| c.truthy()) {
        Some(true) => return Ok(Node::AlwaysTrue),
        Some(false) => return Ok(Node::AlwaysFalse),
        None => {}
    }
    let expression = Node::Expr(e);
    if cx.env.collate().is_none() {
        return Ok(expression);
    }
    Ok(match derive_filter(cx, spec)? {
        Some(filter) => Node::all(vec![filter, expression]),
        None => expression,
    })
}

/// The derived filter, as far as it differs from the expression; `None` when it adds no condition.
fn derive_filter(cx: &mut ParseCx<'_>, spec: Value<'_>) -> Result<Option<Node>> {
    let Value::Document(d) = spec else {
        return Ok(None);
    };
    let Some((name, Value::Array(operands))) = d.first() else {
        return Ok(None);
    };
    match name {
        "$in" => parse_in_list(cx, operands.iter().collect()),
        "$and" => {
            let mut all = Vec::new();
            for operand in operands.iter() {
                all.extend(derive_filter(cx, operand)?);
            }
            Ok((!all.is_empty()).then(|| Node::all(all)))
        }
        "$or" => {
            let (mut any, mut differs) = (Vec::new(), false);
            for operand in operands.iter() {
                any.push(match derive_filter(cx, operand)? {
                    Some(node) => {
                        differs = true;
                        node
                    }
                    // An alternative that no filter can express makes the whole `$or` an
                    // expression.
                    None if !is_comparison(cx, operand)? => return Ok(None),
                    None => Node::Expr(expr::parse(cx, operand)?),
                });
            }
            Ok(differs.then_some(Node::Or(any)))
        }
        _ => Ok(None),
    }
}

/// `$in` of a field in a list of constants.
fn parse_in_list(cx: &mut ParseCx<'_>, operands: Vec<Value<'_>>) -> Result<Option<Node>> {
    let [field, list] = operands.as_slice() else {
        return Ok(None);
    };
    let (field, list) = (expr::parse(cx, *field)?, expr::parse(cx, *list)?);
    let (Some(_), Some(list @ Value::Array(_))) = (field.field_path(), list.constant()) else {
        return Ok(None);
    };
    Ok(Some(Node::Expr(Box::new(InList {
        field,
        list: list.to_owned_value(),
    }))))
}

/// Whether a field is compared with a constant, in either order.
fn is_comparison(cx: &mut ParseCx<'_>, spec: Value<'_>) -> Result<bool> {
    let Some((name, Value::Array(operands))) = spec.as_doc().and_then(|d| d.first()) else {
        return Ok(false);
    };
    if !matches!(name, "$eq" | "$gt" | "$gte" | "$lt" | "$lte") {
        return Ok(false);
    }
    let (mut fields, mut constants) = (0, 0);
    for operand in operands.iter() {
        let e = expr::parse(cx, operand)?;
        fields += usize::from(e.field_path().is_some());
        constants += usize::from(e.constant().is_some());
    }
    Ok((fields, constants) == (1, 1))
}

/// A field is one of a list of constants in the binary order.
struct InList {
    field: BoxExpr,
    list: OwnedValue,
}

impl Expr for InList {
    fn eval<'a>(&'a self, cx: &Cx<'_, 'a>) -> Result<Value<'a>> {
        let wanted = self.field.eval(cx)?;
        let Value::Array(list) = self.list.get() else {
            return Ok(Value::Bool(false));
        };
        Ok(Value::Bool(
            list.iter().any(|v| compare(&v, &wanted).is_eq()),
        ))
    }

    fn visit<'e>(&'e self, each: &mut dyn FnMut(&'e dyn Expr)) {
        each(self.field.as_ref());
    }
}
