//! Aggregation expressions: parsed once into boxed nodes, evaluated on raw values.
//!
//! A node borrows constants from itself and makes new bytes in the arena of the context; nothing else is allocated.

mod parse;
mod path;

pub(crate) mod args;
#[cfg(test)]
pub(crate) mod check;

mod accumulator;
mod array;
mod date;
mod misc;
mod object;
mod set;
mod timestamp;
mod variable;

pub use parse::{ParseCx, Scope, parse, parse_args, parse_constant, parse_object};
pub use path::{CurrentPath, VarPath, walk};

use crate::{Cx, Env};
use model::{Bump, OwnedValue, Result, Value};

/// A compiled expression.
pub trait Expr: Send + Sync {
    /// Evaluates in a context. `Missing` is a legal result.
    ///
    /// # Errors
    /// The operator's own codes.
    fn eval<'a>(&'a self, cx: &Cx<'_, 'a>) -> Result<Value<'a>>;

    /// Shows each direct operand; leaves none.
    fn visit<'e>(&'e self, _each: &mut dyn FnMut(&'e dyn Expr)) {}

    /// True when the value depends on the document, variables, time or chance even with constant operands.
    fn is_volatile(&self) -> bool {
        false
    }

    /// The constant value, when this node is a constant.
    fn constant(&self) -> Option<Value<'_>> {
        None
    }

    /// The field path relative to the document, when this node is just `"$a.b"`.
    fn field_path(&self) -> Option<&model::FieldPath> {
        None
    }
}

/// A boxed expression.
pub type BoxExpr = Box<dyn Expr>;

/// One registered operator: its name and how its argument is parsed.
pub struct Operator {
    /// With the dollar sign.
    pub name: &'static str,
    /// Parses the operator's argument.
    pub parse: fn(&mut ParseCx<'_>, &'static str, Value<'_>) -> Result<BoxExpr>,
}

/// A constant.
pub struct Constant(pub OwnedValue);

impl Constant {
    /// A boxed constant.
    pub fn boxed(v: Value<'_>) -> BoxExpr {
        Box::new(Constant(v.to_owned_value()))
    }
}

impl Expr for Constant {
    fn eval<'a>(&'a self, _: &Cx<'_, 'a>) -> Result<Value<'a>> {
        Ok(self.0.get())
    }
    fn constant(&self) -> Option<Value<'_>> {
        Some(self.0.get())
    }
}

/// True when the value can be computed without a document.
fn is_foldable(e: &dyn Expr) -> bool {
    let mut ok = !e.is_volatile();
    e.visit(&mut |child| ok = ok && child.constant().is_some());
    ok
}

/// Replaces a node whose operands are all constant by its value, as MongoDB does before it looks at any document;
/// errors of such nodes are therefore errors of the command.
///
/// # Errors
/// Those of the node.
pub fn fold(e: BoxExpr, env: &Env) -> Result<BoxExpr> {
    if e.constant().is_some() || !is_foldable(e.as_ref()) {
        return Ok(e);
    }
    let arena = Bump::new();
    let folded = Constant::boxed(e.eval(&Cx::new(&arena, Value::Missing, env))?);
    Ok(folded)
}

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
        (self.f)(cx, self.arg.eval(cx)?)
    }
    fn visit<'e>(&'e self, each: &mut dyn FnMut(&'e dyn Expr)) {
        each(self.arg.as_ref());
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
        }
        (self.f)(cx, &values)
    }
    fn visit<'e>(&'e self, each: &mut dyn FnMut(&'e dyn Expr)) {
        self.args.iter().for_each(|a| each(a.as_ref()));
    }
}

/// Parses an operator of exactly one operand.
///
/// # Errors
/// 16020 for another number of operands.
pub fn unary(cx: &mut ParseCx<'_>, name: &str, spec: Value<'_>, f: UnaryFn) -> Result<BoxExpr> {
    let mut args = parse_args(cx, name, spec, 1, 1)?;
    let Some(arg) = args.pop() else { return Err(model::MongoError::internal("one operand was checked")) };
    Ok(Box::new(Unary { arg, f }))
}

/// Parses an operator of `min` to `max` operands that are all evaluated before the function runs.
///
/// # Errors
/// 16020 / 28667 for another number of operands.
pub fn nary(
    cx: &mut ParseCx<'_>,
    name: &str,
    spec: Value<'_>,
    (min, max): (usize, usize),
    f: NaryFn,
) -> Result<BoxExpr> {
    let args = parse_args(cx, name, spec, min, max)?;
    Ok(Box::new(Nary { args, f }))
}

/// Declares the operators of one folder: a module a name, and their table.
#[macro_export]
macro_rules! expr_family {
    ($($module:ident),* $(,)?) => {
        $(mod $module;)*
        /// The operators of this folder.
        pub(crate) static OPERATORS: &[&[$crate::expr::Operator]] = &[$($module::OPERATORS),*];
    };
}

/// Every folder of operators. A new folder is one line here.
static FAMILIES: &[&[&[Operator]]] = &[
    accumulator::OPERATORS,
    array::OPERATORS,
    date::OPERATORS,
    misc::OPERATORS,
    object::OPERATORS,
    set::OPERATORS,
    timestamp::OPERATORS,
    variable::OPERATORS,
];

/// The operator called `name` (with the dollar sign).
pub fn find(name: &str) -> Option<&'static Operator> {
    FAMILIES.iter().flat_map(|f| f.iter()).flat_map(|ops| ops.iter()).find(|op| op.name == name)
}

/// The names of all operators.
pub fn names() -> impl Iterator<Item = &'static str> {
    FAMILIES.iter().flat_map(|f| f.iter()).flat_map(|ops| ops.iter()).map(|op| op.name)
}
