//! The state of parsing one specification: variables in scope, what the place allows, and the table
//! of operators. Must not know: which operators there are.

use super::node::BoxExpr;
use crate::{Env, VarId};
use model::{Result, Value};

/// One registered operator: its name and how its argument is parsed.
pub struct Operator {
    /// With the dollar sign.
    pub name: &'static str,
    /// Parses the operator's argument.
    pub parse: fn(&mut ParseCx<'_>, &'static str, Value<'_>) -> Result<BoxExpr>,
}

/// The operator called so (with the dollar sign).
pub(super) type Lookup = fn(&str) -> Option<&'static Operator>;

/// Names of variables in scope while parsing.
#[derive(Clone, Default)]
pub struct Scope {
    names: Vec<(String, VarId)>,
}

impl Scope {
    /// The innermost variable of that name.
    pub fn find(&self, name: &str) -> Option<VarId> {
        self.names
            .iter()
            .rev()
            .find(|(n, _)| n == name)
            .map(|(_, id)| *id)
    }
}

/// State of parsing one specification.
pub struct ParseCx<'e> {
    /// The operation; constants are folded in it.
    pub env: &'e Env,
    /// User variables in scope.
    pub scope: Scope,
    /// Metadata (`$meta`) that documents have at this point of the pipeline.
    pub meta: Vec<&'static str>,
    /// Some `$meta` asks for what only a read knows: the record id or the index key.
    pub wants_row_metadata: bool,
    /// Finds an operator by its name.
    pub(super) operator: Lookup,
    next_var: VarId,
    pub(super) depth: usize,
    /// Depth of filters being parsed; [`crate::filter`] keeps it.
    pub(crate) filter_depth: usize,
    /// Results cannot be ordered by distance here; [`crate::filter`] keeps it.
    pub(crate) near_refused: bool,
    /// `$where` may stand in the filter: in queries of clients, not in pipelines, listings,
    /// validators or anything kept.
    pub scripts_allowed: bool,
}

impl<'e> ParseCx<'e> {
    /// A fresh state over a table of operators.
    pub(super) fn over(env: &'e Env, operator: Lookup) -> ParseCx<'e> {
        ParseCx {
            env,
            scope: Scope::default(),
            meta: Vec::new(),
            wants_row_metadata: false,
            operator,
            next_var: 1,
            depth: 0,
            filter_depth: 0,
            near_refused: false,
            scripts_allowed: false,
        }
    }

    /// Brings a variable into scope and gives it its number. Restore `scope` afterwards.
    pub fn define(&mut self, name: &str) -> VarId {
        let id = self.next_var;
        self.next_var += 1;
        self.scope.names.push((name.to_owned(), id));
        id
    }

    /// Parses with variables in scope only for the duration of `body`.
    ///
    /// # Errors
    /// Those of `body`.
    pub fn scoped<T>(&mut self, body: impl FnOnce(&mut ParseCx<'e>) -> Result<T>) -> Result<T> {
        let saved = self.scope.clone();
        let result = body(self);
        self.scope = saved;
        result
    }
}
