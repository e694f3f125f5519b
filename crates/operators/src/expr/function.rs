//! Operators that are a function of their evaluated operands, like most operators.

use super::node::{BoxExpr, Expr};
use super::parse::parse_args;
use super::state::ParseCx;
use crate::Cx;
use crate::cx::bytes_of;
use model::{MongoError, Result, Value};
use std::ops::RangeInclusive;

/// Function of one value, the shape of most simple operators.
pub type UnaryFn = for<'a> fn(&Cx<'_, 'a>, Value<'a>) -> Result<Value<'a>>;
/// Function of all evaluated operands.
pub type NaryFn = for<'a> fn(&Cx<'_, 'a>, &[Value<'a>]) -> Result<Value<'a>>;

struct Unary {
    arg: BoxExpr,
    f: UnaryFn,
}

impl Expr for Unary {
    fn eval<'a>(&'a self, cx: &Cx<'_, 'a>) -> Result<Value<'a>> {
        let v = self.arg.eval(cx)?;
        self.apply(cx, &[v])
    }
    fn visit<'e>(&'e self, each: &mut dyn FnMut(&'e dyn Expr)) {
        each(self.arg.as_ref());
    }
    fn applies(&self) -> bool {
        true
    }
    fn apply<'a>(&'a self, cx: &Cx<'_, 'a>, operands: &[Value<'a>]) -> Result<Value<'a>> {
        let v = operands.first().copied().unwrap_or_default();
        // Conversions and similar functions return about as many bytes as they take.
        cx.spend(bytes_of(&v))?;
        (self.f)(cx, v)
    }
}

struct Nary {
    args: Vec<BoxExpr>,
    f: NaryFn,
}

impl Expr for Nary {
    fn eval<'a>(&'a self, cx: &Cx<'_, 'a>) -> Result<Value<'a>> {
        let mut values = smallvec::SmallVec::<[Value<'a>; 4]>::new();
        for a in &self.args {
            values.push(a.eval(cx)?);
            cx.spend(0)?;
        }
        (self.f)(cx, &values)
    }
    fn visit<'e>(&'e self, each: &mut dyn FnMut(&'e dyn Expr)) {
        self.args.iter().for_each(|a| each(a.as_ref()));
    }
    fn applies(&self) -> bool {
        true
    }
    fn apply<'a>(&'a self, cx: &Cx<'_, 'a>, operands: &[Value<'a>]) -> Result<Value<'a>> {
        cx.spend(0)?;
        (self.f)(cx, operands)
    }
}

/// A node that applies a function to one operand.
pub fn unary_of(arg: BoxExpr, f: UnaryFn) -> BoxExpr {
    Box::new(Unary { arg, f })
}

/// Parses an operator of exactly one operand.
///
/// # Errors
/// 16020 for another number of operands.
pub fn unary(cx: &mut ParseCx<'_>, name: &str, spec: Value<'_>, f: UnaryFn) -> Result<BoxExpr> {
    let mut args = parse_args(cx, name, spec, 1, 1)?;
    let Some(arg) = args.pop() else {
        return Err(MongoError::internal("one operand was checked"));
    };
    Ok(unary_of(arg, f))
}

/// Parses an operator that evaluates all operands before its function runs; `counts` bounds their
/// number.
///
/// # Errors
/// 16020 / 28667 for another number of operands.
pub fn nary(
    cx: &mut ParseCx<'_>,
    name: &str,
    spec: Value<'_>,
    counts: RangeInclusive<usize>,
    f: NaryFn,
) -> Result<BoxExpr> {
    let args = parse_args(cx, name, spec, *counts.start(), *counts.end())?;
    Ok(Box::new(Nary { args, f }))
}

/// Like [`nary`], for operators whose operands may be evaluated in any order: MongoDB evaluates
/// constants last, so that after a null among the others they are not evaluated.
pub fn nary_unordered(
    cx: &mut ParseCx<'_>,
    name: &str,
    spec: Value<'_>,
    counts: RangeInclusive<usize>,
    f: NaryFn,
) -> Result<BoxExpr> {
    let mut args = parse_args(cx, name, spec, *counts.start(), *counts.end())?;
    args.sort_by_key(|a| a.constant().is_some());
    Ok(Box::new(Nary { args, f }))
}
