//! From checked arguments to running queries: environments, the pipeline's host over the store, cursors, single-document
//! writes. Neighbours: `crud` before, `query` and `store` after.

pub(crate) mod cursor;
pub(crate) mod host;
pub(crate) mod write;

use crate::ctx::Ctx;
use model::{Bump, Doc, Namespace, Result, Value, bail, code};
use operators::expr::{ParseCx, parse};
use operators::{Cx, Env};
use std::sync::atomic::Ordering;

/// The environment of one operation: time, variables, and a look at maxTimeMS and killOp now and then.
///
/// # Errors
/// Those of the expressions of `let`.
pub(crate) fn env(cx: &Ctx<'_, '_>, let_vars: Doc<'_>, collation: Option<Doc<'_>>) -> Result<Env> {
    let now_ms = cx.now_ms();
    let mut env = Env::new(now_ms, rand::random());
    if cx.service.config.replica_set.is_some() {
        env.cluster_time = Some(cx.service.operation_time());
    }
    if let Some(c) = collation {
        cx.service.check_collation(c)?;
    }
    add_vars(&mut env, let_vars)?;
    let clock = cx.service.clock.clone();
    let limit_us = u64::try_from(cx.generic.max_time_ms).unwrap_or(0).saturating_mul(1000);
    let deadline_us = (limit_us > 0).then(|| clock.monotonic_us().saturating_add(limit_us));
    let killed = cx.conn.info.op.lock().as_ref().map(|op| op.killed.clone());
    env.interrupt = Some(Box::new(move || {
        if killed.as_ref().is_some_and(|k| k.load(Ordering::Acquire)) {
            bail!(code::INTERRUPTED, "operation was interrupted");
        }
        if deadline_us.is_some_and(|d| clock.monotonic_us() > d) {
            bail!(code::MAX_TIME_MS_EXPIRED, "operation exceeded time limit");
        }
        Ok(())
    }));
    Ok(env)
}

/// Evaluates the variables of `let` once; later ones may not use earlier ones.
///
/// # Errors
/// 9 for a name that is not allowed; those of the expressions.
pub(crate) fn add_vars(env: &mut Env, vars: Doc<'_>) -> Result<()> {
    let arena = Bump::new();
    let mut found = Vec::new();
    for (name, v) in vars.iter() {
        let head = name.chars().next().unwrap_or(' ');
        if !(head.is_ascii_lowercase() || !head.is_ascii()) || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || !c.is_ascii()) {
            bail!(code::FAILED_TO_PARSE, "'{name}' starts with an invalid character for a user variable name or holds one");
        }
        let expr = parse(&mut ParseCx::new(env), v)?;
        let value = expr.eval(&Cx::new(&arena, Value::Document(Doc::EMPTY), env))?;
        found.push((name.to_owned(), value.to_owned_value()));
    }
    env.let_vars.extend(found);
    Ok(())
}

/// Adds to the counts of `top` when dropped.
pub(crate) struct Used<'s> {
    service: &'s crate::Service,
    ns: String,
    class: crate::registry::OpClass,
    start_us: u64,
}

impl<'s> Used<'s> {
    pub(crate) fn start(cx: &Ctx<'s, '_>, ns: &Namespace) -> Used<'s> {
        Used { service: cx.service, ns: ns.to_string(), class: cx.command.class, start_us: cx.service.clock.monotonic_us() }
    }
}

impl Drop for Used<'_> {
    fn drop(&mut self) {
        let us = self.service.clock.monotonic_us().saturating_sub(self.start_us);
        self.service.counters.used(&self.ns, self.class, i64::try_from(us).unwrap_or(i64::MAX));
    }
}
