//! Aggregation expressions: parsed once into boxed nodes, evaluated on raw values.
//!
//! A node borrows constants from itself and makes new bytes in the arena of the context; nothing
//! else is allocated.

pub(crate) mod args;
#[cfg(test)]
pub(crate) mod check;
#[cfg(test)]
pub(crate) mod table;

mod accumulator;
mod arithmetic;
mod array;
mod bitwise;
mod boolean;
mod comparison;
mod conditional;
mod date;
mod misc;
mod object;
mod parse;
mod path;
mod set;
mod string;
mod timestamp;
mod trigonometry;
mod types;
mod variable;

pub use args::check_user_variable;
pub(crate) use parse::check_path;
pub use parse::{ParseCx, Scope, define_let, parse, parse_args, parse_constant, parse_object};
pub use path::{CurrentPath, VarPath, walk};
pub(crate) use set::Members;

use crate::cx::bytes_of;
use crate::{Cx, Env};
use model::{Bump, MongoError, OwnedValue, Result, Value};
use rustc_hash::FxHashMap;
use std::sync::OnceLock;

/// A compiled expression.
pub trait Expr: Send + Sync {
    /// Evaluates in a context. `Missing` is a legal result.
    ///
    /// # Errors
    /// The operator's own codes.
    fn eval<'a>(&'a self, cx: &Cx<'_, 'a>) -> Result<Value<'a>>;

    /// Shows each direct operand; leaves none.
    fn visit<'e>(&'e self, _each: &mut dyn FnMut(&'e dyn Expr)) {}

    /// True when the value depends on the document, variables, time or chance even with constant
    /// operands.
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

    /// The error, when this node is a constant expression that failed; see [`fold`].
    fn failure(&self) -> Option<&MongoError> {
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

/// Replaces a node whose operands are all constant by its value, as MongoDB does before it looks at
/// any document. A node that fails becomes a node that says so: it fails the whole command at the
/// end of the outermost [`parse`], unless a parent (a `$switch` whose branch is never taken)
/// dropped it by then. Small expressions may make large values: when those of an operation fill
/// their bound, further expressions stay as they are.
pub fn fold(e: BoxExpr, env: &Env) -> BoxExpr {
    if e.constant().is_some() || env.folded_enough() || !is_foldable(e.as_ref()) {
        return e;
    }
    let arena = Bump::new();
    match e.eval(&Cx::new(&arena, Value::Missing, env)) {
        Ok(v) => {
            env.fold(bytes_of(&v));
            Constant::boxed(v)
        }
        Err(error) => Box::new(Failed(error)),
    }
}

/// A constant expression that failed.
struct Failed(MongoError);

impl Expr for Failed {
    fn eval<'a>(&'a self, _: &Cx<'_, 'a>) -> Result<Value<'a>> {
        Err(self.0.clone())
    }
    fn is_volatile(&self) -> bool {
        true
    }
    fn failure(&self) -> Option<&MongoError> {
        Some(&self.0)
    }
}

/// The first failed constant in a tree.
pub(crate) fn find_failure(e: &dyn Expr) -> Option<MongoError> {
    let mut found = e.failure().cloned();
    e.visit(&mut |child| {
        if found.is_none() {
            found = find_failure(child);
        }
    });
    found
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
        let v = self.arg.eval(cx)?;
        // Conversions and the like give about as much as they take.
        cx.spend(bytes_of(&v))?;
        (self.f)(cx, v)
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
            cx.spend(0)?;
        }
        (self.f)(cx, &values)
    }
    fn visit<'e>(&'e self, each: &mut dyn FnMut(&'e dyn Expr)) {
        self.args.iter().for_each(|a| each(a.as_ref()));
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

/// As [`nary`], for operators whose operands may be taken in any order: MongoDB evaluates constants
/// last, so that a null among the others spares them.
pub fn nary_unordered(
    cx: &mut ParseCx<'_>,
    name: &str,
    spec: Value<'_>,
    counts: (usize, usize),
    f: NaryFn,
) -> Result<BoxExpr> {
    let mut args = parse_args(cx, name, spec, counts.0, counts.1)?;
    args.sort_by_key(|a| a.constant().is_some());
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
    arithmetic::OPERATORS,
    array::OPERATORS,
    bitwise::OPERATORS,
    boolean::OPERATORS,
    comparison::OPERATORS,
    conditional::OPERATORS,
    date::OPERATORS,
    misc::OPERATORS,
    object::OPERATORS,
    set::OPERATORS,
    string::OPERATORS,
    timestamp::OPERATORS,
    trigonometry::OPERATORS,
    types::OPERATORS,
    variable::OPERATORS,
];

fn all() -> impl Iterator<Item = &'static Operator> {
    FAMILIES
        .iter()
        .flat_map(|f| f.iter())
        .flat_map(|ops| ops.iter())
}

/// The operator called `name` (with the dollar sign).
///
/// # Cost
/// One hash lookup.
pub fn find(name: &str) -> Option<&'static Operator> {
    static BY_NAME: OnceLock<FxHashMap<&'static str, &'static Operator>> = OnceLock::new();
    BY_NAME
        .get_or_init(|| all().map(|op| (op.name, op)).collect())
        .get(name)
        .copied()
}

/// The names of all operators.
pub fn names() -> impl Iterator<Item = &'static str> {
    all().map(|op| op.name)
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_are_unique_and_found() {
        let mut names: Vec<_> = super::names().collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(
            names
                .iter()
                .all(|n| n.starts_with('$') && super::find(n).is_some_and(|op| op.name == *n))
        );
        assert!(super::find("$nope").is_none());
    }
}
