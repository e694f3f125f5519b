//! Aggregation expressions: parsed once into boxed nodes, evaluated on raw values.
//!
//! A node borrows its constants and allocates results in the arena of the context; it allocates
//! nothing else.

pub(crate) mod args;
#[cfg(test)]
pub(crate) mod check;

mod accumulator;
mod arithmetic;
mod array;
mod bitwise;
mod boolean;
mod comparison;
mod conditional;
mod date;
mod function;
mod misc;
pub(crate) mod n_spec;
mod node;
mod object;
mod parse;
mod path;
pub(crate) mod quantile_spec;
mod reads;
mod set;
mod state;
mod string;
mod timestamp;
mod trigonometry;
mod types;
mod user_variable;
mod variable;

pub use function::{NaryFn, UnaryFn, nary, nary_unordered, unary, unary_of};
pub use misc::hashed_index_key;
pub(crate) use node::find_failure;
pub use node::{BoxExpr, Constant, Expr, fold};
pub(crate) use parse::check_path;
pub use parse::{define_let, parse, parse_args, parse_constant, parse_object};
pub use path::{CurrentPath, VarPath, walk};
pub(crate) use set::Members;
pub use state::{Operator, ParseCx, Scope};
pub use user_variable::check_user_variable;

use crate::Env;
use rustc_hash::FxHashMap;
use std::sync::OnceLock;

/// Declares the operators of one folder: one module per name, and their table.
#[macro_export]
macro_rules! expr_family {
    ($($module:ident),* $(,)?) => {
        $(mod $module;)*
        /// The operators of this folder.
        pub(crate) static OPERATORS: &[&[$crate::expr::Operator]] = &[$($module::OPERATORS),*];
    };
}

/// Every folder of operators, one line each.
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

impl<'e> ParseCx<'e> {
    /// A new state; the command's `let` variables are constants in it.
    pub fn new(env: &'e Env) -> ParseCx<'e> {
        ParseCx::with_operators(env, find)
    }

    /// A new state for the query of a client, in which scripts are allowed.
    pub fn of_query(env: &'e Env) -> ParseCx<'e> {
        let mut cx = ParseCx::new(env);
        cx.scripts_allowed = true;
        cx
    }
}

fn all() -> impl Iterator<Item = &'static Operator> {
    FAMILIES
        .iter()
        .flat_map(|f| f.iter())
        .flat_map(|ops| ops.iter())
}

/// The operator called `name` (including the dollar sign).
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
