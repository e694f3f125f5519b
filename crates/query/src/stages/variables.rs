//! `let` of `$lookup` and `$merge`: variables computed on a document and bound around a pipeline.
//! Errors: 9 for a bad name.

use crate::exec::ExecContext;
use model::{Bump, Doc, Result, Value, bail, code};
use operators::expr::{self, BoxExpr, ParseCx};
use operators::{Frame, RequiredFields, VarId};

/// Parsed variables.
pub(super) struct LetClause {
    vars: Vec<(VarId, BoxExpr)>,
    /// For each variable, whether its value must exist.
    must_exist: Vec<bool>,
}

impl LetClause {
    /// Parses the variables, then `inner` with them in scope.
    ///
    /// # Errors
    /// 9 FailedToParse for a bad name, those of the expressions and of `inner`.
    pub(super) fn parse<'e, T>(
        cx: &mut ParseCx<'e>,
        spec: Doc<'_>,
        inner: impl FnOnce(&mut ParseCx<'e>) -> Result<T>,
    ) -> Result<(LetClause, T)> {
        let mut parsed = Vec::new();
        for (name, v) in spec.iter() {
            check_name(name)?;
            parsed.push((name, expr::parse(cx, v)?));
        }
        cx.parse_scoped(|cx| {
            let vars = parsed
                .into_iter()
                .map(|(name, e)| (cx.define(name), e))
                .collect();
            Ok((
                LetClause {
                    vars,
                    must_exist: Vec::new(),
                },
                inner(cx)?,
            ))
        })
    }

    /// Adds the fields from which the variables are computed.
    pub(super) fn reads(&self, reads: &mut RequiredFields) {
        self.vars.iter().for_each(|(_, e)| e.reads(reads));
    }

    /// Sets which variables must have a value (17276 otherwise).
    pub(super) fn must_exist(self, must_exist: Vec<bool>) -> LetClause {
        LetClause { must_exist, ..self }
    }
}

/// A name must begin with a lower-case letter or a character beyond ASCII.
fn check_name(name: &str) -> Result<()> {
    let first = name.chars().next();
    if !first.is_some_and(|c| c.is_ascii_lowercase() || !c.is_ascii()) {
        bail!(
            code::FAILED_TO_PARSE,
            "'{name}' starts with an invalid character for a user variable name"
        );
    }
    if let Some(c) = name
        .chars()
        .find(|c| !(c.is_ascii_alphanumeric() || *c == '_' || !c.is_ascii()))
    {
        bail!(
            code::FAILED_TO_PARSE,
            "'{name}' contains an invalid character for a variable name: '{c}'"
        );
    }
    Ok(())
}

/// Runs `inner` with the variables bound to their values on `doc`.
///
/// # Errors
/// Those of the expressions and of `inner`.
pub(super) fn with_variables<T>(
    vars: &LetClause,
    exec: &ExecContext<'_>,
    arena: &Bump,
    doc: Doc<'_>,
    inner: impl FnOnce(&ExecContext<'_>) -> Result<T>,
) -> Result<T> {
    let cx = exec.cx(arena, doc);
    let mut values = Vec::with_capacity(vars.vars.len());
    for (i, (id, e)) in vars.vars.iter().enumerate() {
        let value = e.eval(&cx)?;
        if value.is_missing() && vars.must_exist.get(i) == Some(&true) {
            bail!(
                17276,
                "Use of undefined variable: one of 'let' has no value for this document"
            );
        }
        values.push((*id, value));
    }
    bind(&values, exec, Box::new(inner))
}

type Continuation<'i, T> = Box<dyn FnOnce(&ExecContext<'_>) -> Result<T> + 'i>;

/// Binds the first variable and recurses, because a frame lives on the stack of the call that binds
/// it.
fn bind<'i, T>(
    values: &[(VarId, Value<'_>)],
    exec: &ExecContext<'_>,
    inner: Continuation<'i, T>,
) -> Result<T> {
    match values.split_first() {
        None => inner(exec),
        Some(((id, value), rest)) => {
            let frame = Frame {
                id: *id,
                value: *value,
                outer: exec.vars,
            };
            bind(
                rest,
                &ExecContext {
                    vars: Some(&frame),
                    ..*exec
                },
                inner,
            )
        }
    }
}
