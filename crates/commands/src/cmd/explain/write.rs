//! `explain` of writes.

use super::arguments::{arguments, own_namespace, plain_find};
use super::explained::{Explained, Level};
use crate::crud::args::write::{DELETE, FIND_AND_MODIFY, UPDATE};
use crate::crud::args::{DeleteOp, FindAndModifyArgs, Mods, UpdateOp};
use crate::crud::change::Changer;
use crate::crud::collection::collection;
use crate::dispatch::ctx::Ctx;
use crate::dispatch::request::Outcome;
use crate::read::{CollationArg, StoreHost, environment};
use crate::state::plan_filters::ShapeParts;
use model::{Doc, Result, Value, bail, code};
use operators::Env;
use query::exec::ExecContext;
use query::exec::SortPattern;
use query::explain::Operation;
use query::plan::{Plan, each_match};

/// The statement of an `update`, `delete` or `findAndModify`.
struct Statement<'a> {
    filter: Doc<'a>,
    sort: Doc<'a>,
    hint: Option<Value<'a>>,
    collation: Option<Doc<'a>>,
    /// The change; `None` deletes.
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
    // What the client sent beside the command belongs to no command inside it.
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

/// `explain` of a write: how it finds its documents, and how many it would change.
pub(super) fn explain_write<'a>(
    cx: &mut Ctx<'a, '_>,
    name: &'a str,
    own: Value<'a>,
    inner: Doc<'a>,
    level: Level,
) -> Result<Outcome> {
    let ns = own_namespace(cx, name, own)?;
    let s = statement(cx, name, own, inner)?;
    let coll = collection(cx.service, &ns, false, None)?;
    let options = coll.as_ref().map(|c| c.options());
    let collation = CollationArg::of(s.collation, options.as_ref().map(|o| o.doc()));
    let env = environment(cx, &collation)?;
    let in_force = collation.document().map(|d| d.to_buf());
    let host = StoreHost::new(cx.service.arc()?, in_force.clone(), None);
    let exec = ExecContext::new(&env, &host);
    let mut find = plain_find(s.filter, s.hint, &env, in_force)?;
    if !s.sort.is_empty() {
        find.sort = Some(SortPattern::parse(s.sort)?);
    }
    if !s.multi {
        find.limit = Some(1);
    }
    let shape = ShapeParts {
        sort: s.sort,
        ..ShapeParts::of(s.filter, s.collation)
    };
    find.allowed = cx.service.state.plan_filters.allowed(&ns, &shape);
    let explained = Explained {
        ns,
        coll,
        find,
        projection: s.projection,
    };
    let plan = explained.plan()?;
    let changer = s
        .mods
        .as_ref()
        .map(|m| Changer::parse(&env, m, None))
        .transpose()?;
    let mut measured = match level {
        Level::Planner => None,
        _ => Some(explained.measure(
            plan.as_ref(),
            &exec,
            cx,
            explained.most(plan.as_ref()),
            false,
        )?),
    };
    if let (false, Some(m)) = (s.multi, &mut measured) {
        m.matched = m.matched.min(1);
    }
    let over = match &changer {
        None => Operation::Delete,
        Some(changer) => {
            let found = measured.as_ref().map_or(0, |m| m.matched);
            let modified = if found > 0 {
                would_modify(&explained, plan.as_ref(), changer, &env, s.multi)?
            } else {
                0
            };
            Operation::Update {
                modified,
                upserted: u64::from(s.upsert && measured.is_some() && found == 0),
            }
        }
    };
    explained.reply(cx, plan.as_ref(), over, measured.as_ref(), level);
    Ok(Outcome::Reply)
}

/// How many documents an update would change.
fn would_modify(
    explained: &Explained<'_>,
    plan: Option<&Plan>,
    changer: &Changer,
    env: &Env,
    multi: bool,
) -> Result<u64> {
    let (Some(c), Some(plan)) = (&explained.coll, plan) else {
        return Ok(0);
    };
    let mut modified = 0;
    each_match(c, plan, Some(&explained.find.filter), env, &mut |row| {
        modified += u64::from(changer.would_change(&explained.find.filter.filter, env, row.doc)?);
        Ok(multi)
    })?;
    Ok(modified)
}
