//! `explain` of writes.

use super::arguments::{arguments, own_namespace, plain_find};
use super::explained::{ExplainTarget, Level};
use context::crud::args::write::{DELETE, FIND_AND_MODIFY, UPDATE};
use context::crud::args::{DeleteOp, FindAndModifyArgs, Mods, UpdateOp};
use context::crud::change::UpdateSpec;
use context::ctx::Ctx;
use context::ddl::collection::collection;
use context::env::{CollationArg, environment};
use context::read::StoreHost;
use model::{Doc, Result, Value, bail, code};
use operators::expr::ParseCx;
use operators::project::Projection;
use query::exec::ExecContext;
use query::exec::SortPattern;
use query::physical::{Change, ProjectionSpec};
use request::Outcome;
use state::plan_filters::ShapeParts;
use std::sync::Arc;

/// The statement of an `update`, `delete` or `findAndModify`.
struct Statement<'a> {
    filter: Doc<'a>,
    sort: Doc<'a>,
    hint: Option<Value<'a>>,
    collation: Option<Doc<'a>>,
    /// The change; `None` for a delete.
    mods: Option<Mods<'a>>,
    multi: bool,
    upsert: bool,
    projection: Doc<'a>,
}

fn statement<'a>(
    cx: &Ctx<'a, '_>,
    name: &'a str,
    own: Value<'a>,
    inner: Doc<'a>,
) -> Result<Statement<'a>> {
    if !matches!(name, "update" | "delete") {
        let args = arguments(name, FIND_AND_MODIFY, inner)?;
        let a = FindAndModifyArgs::of(own.as_str().unwrap_or_default(), &args)?;
        return Ok(Statement {
            filter: a.query,
            sort: a.sort,
            hint: a.hint,
            collation: a.collation,
            mods: a.mods,
            multi: false,
            upsert: a.upsert,
            projection: a.fields,
        });
    }
    let (table, list) = match name {
        "update" => (UPDATE, "updates"),
        _ => (DELETE, "deletes"),
    };
    // Document sequences belong to `explain`, not to the command inside it.
    let beside = !cx.request.sequences.is_empty() && !inner.contains(list);
    let ops = match beside {
        true => Vec::new(),
        false => arguments(name, table, inner)?.documents(name, list)?,
    };
    let [only] = ops.as_slice() else {
        bail!(
            code::INVALID_LENGTH,
            "explained write batches must be of size 1, given {}",
            ops.len()
        );
    };
    let projection = Doc::EMPTY;
    Ok(if name == "update" {
        let op = UpdateOp::of(0, *only)?;
        Statement {
            filter: op.filter,
            sort: op.sort,
            hint: op.hint,
            collation: op.collation,
            mods: Some(op.mods),
            multi: op.multi,
            upsert: op.upsert,
            projection,
        }
    } else {
        let op = DeleteOp::of(0, *only)?;
        Statement {
            filter: op.filter,
            sort: Doc::EMPTY,
            hint: op.hint,
            collation: op.collation,
            mods: None,
            multi: op.multi,
            upsert: false,
            projection,
        }
    })
}

/// Explains a write: how it finds its documents, and how many it would change.
pub(super) fn explain_write<'a>(
    cx: &mut Ctx<'a, '_>,
    name: &'a str,
    own: Value<'a>,
    inner: Doc<'a>,
    level: Level,
) -> Result<Outcome> {
    let ns = own_namespace(cx, name, own)?;
    let s = statement(cx, name, own, inner)?;
    let coll = collection(cx.service, &cx.operation, &ns, false, None)?;
    let options = coll.as_ref().map(|c| c.options());
    let collation = CollationArg::of(s.collation, options.as_ref().map(|o| o.doc()));
    let env = environment(cx, &collation)?;
    let in_force = collation.document().map(|d| d.to_buf());
    let host = StoreHost::new(cx.service.arc()?, in_force.clone(), None);
    let exec = ExecContext::new(&env, &host);
    let mut find = plain_find(s.filter, s.hint, &env, in_force)?;
    if !s.sort.is_empty() {
        find.sort = Some(Arc::new(SortPattern::parse(s.sort)?));
    }
    if !s.projection.is_empty() {
        find.projection = Some(Arc::new(ProjectionSpec {
            projection: Projection::parse_find(&mut ParseCx::new(&env), s.projection)?,
            spec: s.projection.to_buf(),
        }));
    }
    if !s.multi {
        find.limit = Some(1);
    }
    let shape = ShapeParts {
        sort: s.sort,
        ..ShapeParts::of(s.filter, s.collation)
    };
    find.allowed = cx.service.state.plan_filters.allowed(&ns, &shape);
    let explained = ExplainTarget::new(ns, coll, find);
    let filter = explained.find.filter.clone();
    let change = match &s.mods {
        None => Change::Delete,
        Some(mods) => {
            let changer = UpdateSpec::parse(&env, mods, None)?;
            Change::Update {
                would_change: Box::new(move |doc, env| {
                    changer.changes_document(&filter.filter, env, doc)
                }),
                upsert: s.upsert,
            }
        }
    };
    let planned = explained.find.plan_write(explained.coll.clone(), change)?;
    explained.reply(cx, planned, &exec, level)
}
