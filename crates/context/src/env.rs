//! The environment of one operation: its time, randomness, variables and collation, and its
//! interruption.

use crate::ctx::Ctx;
use model::{Doc, DocBuf, Namespace, Result, Value};
use operators::expr;
use operators::{Env, script};
use request::spec::flag;
use std::sync::Arc;
use store::ReadView;

/// The collation of an operation.
pub enum CollationArg<'a> {
    /// The client has specified one.
    Given(Doc<'a>),
    /// The default of the collection.
    Default(Option<Doc<'a>>),
}

impl<'a> CollationArg<'a> {
    /// The collation in effect; `None` for the simple order.
    pub fn document(&self) -> Option<Doc<'a>> {
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
pub fn environment(cx: &Ctx<'_, '_>, collation: &CollationArg<'_>) -> Result<Env> {
    let moment = cx.moment();
    let mut env = Env::new(moment.now_ms, moment.seed);
    env.profile = cx.service.config.profile;
    // Updates know a cluster time even on a standalone server.
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
    env.refuses_scans = cx.service.state.parameters.bool("notablescan");
    if cx.command.is(flag::MAY_NAME_SCRIPT) && names_where(cx) {
        env.script_library = script_library(cx)?;
    }
    env.operation = Some(Arc::clone(&cx.operation));
    expr::define_let(&mut env, cx.args.value("let"))?;
    Ok(env)
}

/// Whether the bytes of a request contain the name `$where`.
fn names_where(cx: &Ctx<'_, '_>) -> bool {
    let mut beside = cx.request.sequences.iter();
    script::names_where(cx.request.body.as_bytes())
        || beside.any(|s| script::names_where(s.documents))
}

/// The functions and values in the database's `system.js`, by name. `$where` and `mapReduce` see
/// them; `$function` and `$accumulator` do not.
///
/// # Errors
/// Engine failures.
pub fn script_library(cx: &Ctx<'_, '_>) -> Result<Option<DocBuf>> {
    let Some(kept) = cx.collection(&Namespace::new(cx.db, "system.js")?)? else {
        return Ok(None);
    };
    let mut library = DocBuf::new();
    let mut scan = kept.scan(&ReadView::LATEST, false);
    while scan.visit(64, &mut |row| {
        if let Value::String(name) = row.doc.field("_id") {
            library.put(name, row.doc.field("value"));
        }
        true
    })? {}
    Ok(Some(library))
}

impl<'a> CollationArg<'a> {
    /// The collation that the client gave, or else the default of the collection.
    pub fn of(given: Option<Doc<'a>>, options: Option<Doc<'a>>) -> CollationArg<'a> {
        match given {
            Some(d) if !d.is_empty() => CollationArg::Given(d),
            _ => CollationArg::Default(options.and_then(|o| o.field("collation").as_doc())),
        }
    }
}
