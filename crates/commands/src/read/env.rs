//! The environment of one operation: its time, randomness, variables, collation and how it is
//! interrupted.

use crate::dispatch::ctx::Ctx;
use crate::dispatch::spec::flag;
use model::{Doc, Result};
use operators::Env;
use operators::expr;
use std::sync::Arc;

/// Where an operation's collation comes from.
pub(crate) enum CollationArg<'a> {
    /// The client named one.
    Given(Doc<'a>),
    /// The collection's default.
    Default(Option<Doc<'a>>),
}

impl<'a> CollationArg<'a> {
    /// The collation in force; `None` for the simple order.
    pub(crate) fn document(&self) -> Option<Doc<'a>> {
        match self {
            CollationArg::Given(d) => Some(*d),
            CollationArg::Default(d) => *d,
        }
        .filter(|d| d.field("locale").as_str() != Some("simple") && !d.is_empty())
    }
}

/// The environment of the operation.
///
/// # Errors
/// Those of the collation and of the `let` expressions.
pub(crate) fn environment(cx: &Ctx<'_, '_>, collation: &CollationArg<'_>) -> Result<Env> {
    let moment = cx.moment();
    let mut env = Env::new(moment.now_ms, moment.seed);
    // Updates see a time even on a standalone server.
    if cx.service.config.replica_set.is_some() || cx.command.is(flag::WRITE) {
        env.cluster_time = Some(moment.cluster_time);
    }
    if let CollationArg::Given(d) = collation {
        cx.service.collator(*d)?;
    }
    if let Some(d) = collation.document() {
        env.collation = cx.service.collator(d)?;
    }
    env.scripts = cx.service.scripts();
    let interrupt = Arc::clone(&cx.interrupt);
    env.memory = Some(Arc::clone(interrupt.memory()));
    env.interrupt = Some(Arc::new(move || interrupt.check()));
    expr::define_let(&mut env, cx.args.value("let"))?;
    Ok(env)
}

impl<'a> CollationArg<'a> {
    /// What the client gave, else the collection's default.
    pub(crate) fn of(given: Option<Doc<'a>>, options: Option<Doc<'a>>) -> CollationArg<'a> {
        match given {
            Some(d) if !d.is_empty() => CollationArg::Given(d),
            _ => CollationArg::Default(options.and_then(|o| o.field("collation").as_doc())),
        }
    }
}
