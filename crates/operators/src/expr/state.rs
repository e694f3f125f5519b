//! The state of parsing one specification: variables in scope, what is allowed at this point, and
//! the table of operators. Must not know: which operators there are.

use super::node::BoxExpr;
use crate::{Env, VarId};
use model::{Result, Value};

/// One registered operator: its name and how its argument is parsed.
pub struct Operator {
    /// Including the dollar sign.
    pub name: &'static str,
    /// Parses the operator's argument.
    pub parse: fn(&mut ParseCx<'_>, &'static str, Value<'_>) -> Result<BoxExpr>,
}

/// Returns the operator of a name (including the dollar sign).
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
    /// The operation, in which constants are folded.
    pub env: &'e Env,
    /// User variables in scope.
    pub scope: Scope,
    /// Metadata (`$meta`) of documents at this point of the pipeline.
    pub meta: Vec<&'static str>,
    /// True when a `$meta` needs the record id or the index key, which only a read knows.
    pub wants_row_metadata: bool,
    /// Finds an operator by its name.
    pub(super) operator: Lookup,
    next_var: VarId,
    pub(super) depth: usize,
    /// Depth of filters being parsed; counted by [`crate::filter`].
    pub(crate) filter_depth: usize,
    /// `$near` is refused because results cannot be ordered by distance here; set by
    /// [`crate::filter`].
    pub(crate) near_refused: bool,
    /// `$where` is allowed in the filter: in queries of clients, but not in pipelines, listings,
    /// validators or stored filters.
    pub scripts_allowed: bool,
}

impl<'e> ParseCx<'e> {
    /// A new state with a table of operators.
    pub(super) fn with_operators(env: &'e Env, operator: Lookup) -> ParseCx<'e> {
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

    /// Adds a variable to the scope and returns its number. Restore `scope` afterwards.
    pub fn define(&mut self, name: &str) -> VarId {
        let id = self.next_var;
        self.next_var += 1;
        self.scope.names.push((name.to_owned(), id));
        id
    }

    /// Parses `body`; variables that it defines are out of scope afterwards.
    ///
    /// # Errors
    /// The errors of `body`.
    pub fn parse_scoped<T>(
        &mut self,
        body: impl FnOnce(&mut ParseCx<'e>) -> Result<T>,
    ) -> Result<T> {
        let saved = self.scope.clone();
        let result = body(self);
        self.scope = saved;
        result
    }
}
