//! `update`, `delete`, `findAndModify`.

use crate::dispatch::args::Kind;
use crate::crud::write::{DELETE, FIND_AND_MODIFY, UPDATE};
use crate::crud::{DeleteOp, FindAndModifyArgs, Mods, UpdateOp, WriteArgs};
use crate::dispatch::ctx::Ctx;
use crate::ddl::names;
use crate::ddl::timeseries::Series;
use crate::exec::write::{Changer, Done, Target, collection, delete, update};
use crate::read::{CollationArg, environment};
use crate::dispatch::interrupt::is_interruption;
use crate::dispatch::command::{Command, OpClass};
use crate::dispatch::request::Outcome;
use crate::dispatch::retry::{Retry, single};
use crate::service::{Service, replaced};
use crate::write::{self, FLAGS, Validator};
use model::{Bump, Doc, DocBuf, MongoError, Namespace, OwnedValue, Result, Value, bail};
use operators::expr::{ParseCx, define_let};
use operators::{Cx, Env};
use operators::filter::Filter;
use operators::project::Projection;
use query::pipeline::MatchFilter;
use query::plan::Hint;
use store::{CommitPos, Effect, Keep, Noted};

pub(crate) static COMMANDS: &[Command] = &[
    Command { value: Kind::Collection, class: OpClass::Update, ..super::command("update", "changes documents", FLAGS, UPDATE, run_update) },
    Command { value: Kind::Collection, class: OpClass::Delete, ..super::command("delete", "deletes documents", FLAGS, DELETE, run_delete) },
    Command {
        aliases: &["findandmodify"],
        value: Kind::Collection,
        ..super::command("findAndModify", "changes one document and returns it", FLAGS, FIND_AND_MODIFY, find_and_modify)
    },
];

/// The environment of one statement: the command's, with the collation in force for it.
fn prepare<'a>(service: &Service, env: &mut Env, given: Option<Doc<'a>>, options: Option<Doc<'a>>) -> Result<Option<Doc<'a>>> {
    if let Some(d) = given {
        service.check_collation(d)?;
    }
    let collation = CollationArg::of(given, options).document();
    env.collation = match collation {
        Some(d) => service.collator(d)?,
        None => None,
    };
    Ok(collation)
}

/// How one statement runs.
#[derive(Default)]
pub(crate) struct How<'n> {
    /// Validators do not count.
    pub(crate) bypass: bool,
    /// The documents before and after are wanted.
    pub(crate) keep: bool,
    /// Where a retryable write is remembered.
    pub(crate) noted: Option<Noted<'n>>,
}

impl How<'_> {
    /// The same for another attempt.
    fn again(&mut self) -> How<'_> {
        let noted = self.noted.as_mut().map(|n| Noted { record: &mut *n.record, ids: n.ids, keep: n.keep });
        How { bypass: self.bypass, keep: self.keep, noted }
    }
}

/// Runs one statement of `update`.
///
/// # Errors
/// Those of filter, update, validator and store.
pub(crate) fn one_update(service: &Service, env: &mut Env, ns: &Namespace, op: &UpdateOp<'_>, mut how: How<'_>) -> Result<Done> {
    let done = update_once(service, env, ns, op, how.again());
    // A change of one document that fails has changed nothing.
    if op.multi || !replaced(&done) {
        return done;
    }
    service.while_replaced(|| update_once(service, env, ns, op, how.again()))
}

fn update_once(service: &Service, env: &mut Env, ns: &Namespace, op: &UpdateOp<'_>, how: How<'_>) -> Result<Done> {
    let Mods::Pipeline { constants, .. } = &op.mods else { return update_with(service, env, ns, op, how) };
    // Constants hide variables of the command of the same name.
    let outer = env.let_vars.clone();
    let result = define_let(env, Value::Document(*constants)).and_then(|()| {
        env.let_vars.rotate_left(outer.len());
        update_with(service, env, ns, op, how)
    });
    env.let_vars = outer;
    result
}

fn update_with(service: &Service, env: &mut Env, ns: &Namespace, op: &UpdateOp<'_>, how: How<'_>) -> Result<Done> {
    let coll = collection(service, ns, false)?;
    let options = coll.as_ref().map(|c| c.options());
    if let Some(series) = coll.as_deref().and_then(Series::of) {
        series.check_update(op)?;
    }
    let collation = prepare(service, env, op.collation, options.as_ref().map(|o| o.doc()))?;
    let env: &Env = env;
    let filter = MatchFilter::parse(&mut ParseCx::new(env), op.filter)?;
    let validator = match &coll {
        Some(c) if !how.bypass => Validator::of(service, c)?,
        _ => None,
    };
    let changer = Changer::parse(env, &op.mods, validator)?;
    let hint = Hint::parse(op.hint.unwrap_or_default())?;
    let coll = match coll {
        Some(c) => c,
        None if op.upsert => match collection(service, ns, true)? {
            Some(c) => c,
            None => return Ok(Done::default()),
        },
        None => return Ok(Done::default()),
    };
    update(service, &Target { coll: &coll, filter: &filter, hint, collation, env }, &changer, op, how.keep, how.noted)
}

/// Runs one statement of `delete`.
///
/// # Errors
/// Those of filter and store.
pub(crate) fn one_delete(service: &Service, env: &mut Env, ns: &Namespace, op: &DeleteOp<'_>, sort: Doc<'_>, mut how: How<'_>) -> Result<Done> {
    let done = delete_once(service, env, ns, op, sort, how.again());
    if op.multi || !replaced(&done) {
        return done;
    }
    service.while_replaced(|| delete_once(service, env, ns, op, sort, how.again()))
}

fn delete_once(service: &Service, env: &mut Env, ns: &Namespace, op: &DeleteOp<'_>, sort: Doc<'_>, how: How<'_>) -> Result<Done> {
    let coll = collection(service, ns, false)?;
    let options = coll.as_ref().map(|c| c.options());
    let collation = prepare(service, env, op.collation, options.as_ref().map(|o| o.doc()))?;
    let env: &Env = env;
    let filter = MatchFilter::parse(&mut ParseCx::new(env), op.filter)?;
    let hint = Hint::parse(op.hint.unwrap_or_default())?;
    let Some(coll) = coll else { return Ok(Done::default()) };
    delete(service, &Target { coll: &coll, filter: &filter, hint, collation, env }, op, sort, how.keep, how.noted)
}

fn small(n: i64) -> Value<'static> {
    i32::try_from(n).map_or(Value::Int64(n), Value::Int32)
}

fn run_update(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let ns = names::own(cx)?;
    let a = WriteArgs::of(cx.value().as_str().unwrap_or(""), &cx.args);
    let documents = cx.args.documents("update", "updates")?;
    write::check_batch(documents.len())?;
    let ops = documents.into_iter().enumerate().map(|(i, d)| UpdateOp::of(i, d)).collect::<Result<Vec<_>>>()?;
    let start_us = cx.service.clock.monotonic_us();
    collection(cx.service, &ns, false)?;
    let mut env = environment(cx, &CollationArg::Default(None))?;
    let (mut matched, mut modified, mut pos) = (0, 0, CommitPos::default());
    let mut upserted: Vec<(usize, OwnedValue)> = Vec::new();
    let mut errors: Vec<(usize, MongoError)> = Vec::new();
    let ids = cx.retry.as_mut().map(|r| r.ids(&cx.args, ops.len())).transpose()?.unwrap_or_default();
    for (i, op) in ops.iter().enumerate() {
        cx.interrupt.check()?;
        let id = ids.get(i..=i).unwrap_or_default();
        let result = single(&cx.retry, op.multi, "multi=true").and_then(|()| match before(&mut cx.retry, id) {
            Some(Effect::Deleted | Effect::Removed(_)) => Err(MongoError::new(
                40_638,
                "update retry request is not compatible with previous write in the transaction of type: delete",
            )),
            Some(effect) => Ok(Done::before(effect)),
            None => {
                let noted = cx.retry.as_mut().map(|r| r.note(id, Keep::Fact));
                one_update(cx.service, &mut env, &ns, op, How { bypass: a.bypass_validation, noted, ..How::default() })
            }
        });
        match result {
            Ok(done) => {
                matched += done.matched;
                modified += done.modified;
                pos = pos.max(done.pos);
                upserted.extend(done.upserted.map(|id| (i, id)));
            }
            Err(e) if is_interruption(&e) => return Err(e),
            Err(e) => {
                errors.push((i, e));
                if a.ordered {
                    break;
                }
            }
        }
    }
    let made = i64::try_from(upserted.len()).unwrap_or(0);
    cx.reply.put("n", small(matched + made));
    if !upserted.is_empty() {
        let mut list = cx.reply.array("upserted");
        for (i, id) in &upserted {
            list.doc().put("index", i32::try_from(*i).unwrap_or(i32::MAX)).put("_id", id.get());
        }
    }
    cx.reply.put("nModified", small(modified));
    write::errors(&mut cx.reply, &errors);
    let pos = pos.max(retried(cx));
    used(cx, &ns, start_us);
    Ok(write::durability(cx, pos))
}

/// What a statement did at an earlier try.
pub(crate) fn before(retry: &mut Option<Retry<'_>>, id: &[i32]) -> Option<Effect> {
    retry.as_mut()?.done(*id.first()?)
}

/// Reports the statements that were not run again; covers what earlier tries wrote.
pub(crate) fn retried(cx: &mut Ctx<'_, '_>) -> CommitPos {
    let Some(r) = &cx.retry else { return CommitPos::default() };
    r.report(&mut cx.reply);
    r.pos()
}

/// Adds the operation to the counts of `top`.
fn used(cx: &Ctx<'_, '_>, ns: &Namespace, start_us: u64) {
    let us = cx.service.clock.monotonic_us().saturating_sub(start_us);
    cx.service.counters.used(&ns.to_string(), cx.command.class, i64::try_from(us).unwrap_or(i64::MAX));
}

fn run_delete(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let ns = names::own(cx)?;
    let a = WriteArgs::of(cx.value().as_str().unwrap_or(""), &cx.args);
    let documents = cx.args.documents("delete", "deletes")?;
    write::check_batch(documents.len())?;
    let ops = documents.into_iter().enumerate().map(|(i, d)| DeleteOp::of(i, d)).collect::<Result<Vec<_>>>()?;
    let start_us = cx.service.clock.monotonic_us();
    collection(cx.service, &ns, false)?;
    let mut env = environment(cx, &CollationArg::Default(None))?;
    let (mut n, mut pos) = (0, CommitPos::default());
    let mut errors: Vec<(usize, MongoError)> = Vec::new();
    let ids = cx.retry.as_mut().map(|r| r.ids(&cx.args, ops.len())).transpose()?.unwrap_or_default();
    for (i, op) in ops.iter().enumerate() {
        cx.interrupt.check()?;
        let id = ids.get(i..=i).unwrap_or_default();
        let result = single(&cx.retry, op.multi, "limit=0").and_then(|()| match before(&mut cx.retry, id) {
            Some(effect) => Ok(Done::before(effect)),
            None => {
                let noted = cx.retry.as_mut().map(|r| r.note(id, Keep::Fact));
                one_delete(cx.service, &mut env, &ns, op, Doc::EMPTY, How { noted, ..How::default() })
            }
        });
        match result {
            Ok(done) => {
                n += done.matched;
                pos = pos.max(done.pos);
            }
            Err(e) if is_interruption(&e) => return Err(e),
            Err(e) => {
                errors.push((i, e));
                if a.ordered {
                    break;
                }
            }
        }
    }
    cx.reply.put("n", small(n));
    write::errors(&mut cx.reply, &errors);
    let pos = pos.max(retried(cx));
    used(cx, &ns, start_us);
    Ok(write::durability(cx, pos))
}

/// The projection of the returned document.
struct Shape {
    projection: Projection,
    filter: Option<Filter>,
}

impl Shape {
    fn of(env: &Env, a: &FindAndModifyArgs<'_>) -> Result<Option<Shape>> {
        if a.fields.is_empty() {
            return Ok(None);
        }
        let projection = Projection::parse_find(&mut ParseCx::new(env), a.fields)?;
        let filter = if projection.needs_position() { Some(Filter::parse(&mut ParseCx::new(env), a.query)?) } else { None };
        Ok(Some(Shape { projection, filter }))
    }

    fn apply<'a>(&'a self, env: &Env, arena: &'a Bump, doc: Doc<'a>) -> Result<Doc<'a>> {
        let position = match &self.filter {
            Some(f) => f.matches_with_position(doc, arena, env)?.1,
            None => None,
        };
        self.projection.apply_at(&Cx::new(arena, Value::Document(doc), env), doc, position)
    }
}

/// The remembered result of a findAndModify, when it answers what is asked now.
///
/// # Errors
/// 40606, 40608, 40609 for another kind of change than the first time, 40611, 40612 for the other image.
fn retried_result(a: &FindAndModifyArgs<'_>, effect: Effect) -> Result<Effect> {
    let (kind, fits) = match &effect {
        Effect::Removed(_) => ((40_606, "delete"), a.mods.is_none()),
        Effect::Made(_) => ((40_608, "insert"), a.mods.is_some() && a.upsert),
        Effect::UpdatedBefore(_) | Effect::UpdatedAfter(_) => ((40_609, "update"), a.mods.is_some()),
        Effect::Inserted | Effect::Upserted(_) => ((40_608, "insert"), false),
        Effect::Updated => ((40_609, "update"), false),
        Effect::Deleted => ((40_606, "delete"), false),
    };
    if !fits {
        bail!(kind.0, "findAndModify retry request is not compatible with previous write in the transaction of type: {}", kind.1);
    }
    match &effect {
        Effect::UpdatedBefore(_) if a.new => {
            bail!(40_611, "findAndModify retry request wants the document after update returned, but only before update document is stored")
        }
        Effect::UpdatedAfter(_) if !a.new => {
            bail!(40_612, "findAndModify retry request wants the document before update returned, but only after update document is stored")
        }
        _ => Ok(effect),
    }
}

fn find_and_modify(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let ns = names::own(cx)?;
    let a = FindAndModifyArgs::of(cx.value().as_str().unwrap_or(""), &cx.args)?;
    let start_us = cx.service.clock.monotonic_us();
    collection(cx.service, &ns, false)?;
    let mut env = environment(cx, &CollationArg::Default(None))?;
    let shape = Shape::of(&env, &a)?;
    let ids = cx.retry.as_mut().map(|r| r.ids(&cx.args, 1)).transpose()?.unwrap_or_default();
    let known = before(&mut cx.retry, &ids);
    let noted = cx.retry.as_mut().map(|r| r.note(&ids, if a.new { Keep::After } else { Keep::Before }));
    let done = match (known, &a.mods) {
        (Some(effect), _) => Done::before(retried_result(&a, effect)?),
        (None, None) => {
            let op = DeleteOp { filter: a.query, multi: false, collation: a.collation, hint: a.hint };
            one_delete(cx.service, &mut env, &ns, &op, a.sort, How { keep: true, noted, ..How::default() })?
        }
        (None, Some(mods)) => {
            let op = UpdateOp { filter: a.query, mods: mods.clone(), multi: false, upsert: a.upsert, collation: a.collation, hint: a.hint, sort: a.sort };
            one_update(cx.service, &mut env, &ns, &op, How { bypass: a.bypass_validation, keep: true, noted })?
        }
    };
    let mut last = cx.reply.doc("lastErrorObject");
    let n = done.matched + i64::from(done.upserted.is_some());
    last.put("n", small(n));
    if a.mods.is_some() {
        last.put("updatedExisting", done.matched > 0);
        if let Some(id) = &done.upserted {
            last.put("upserted", id.get());
        }
    }
    drop(last);
    let shown: Option<DocBuf> = if a.new { done.after } else { done.before };
    let arena = Bump::new();
    match (&shown, &shape) {
        (None, _) => cx.reply.put("value", Value::Null),
        (Some(d), None) => cx.reply.put("value", d),
        (Some(d), Some(s)) => cx.reply.put("value", s.apply(&env, &arena, d.doc())?),
    };
    let mut pos = done.pos;
    if let Some(r) = cx.retry.as_ref().filter(|r| r.retried(&ids)) {
        pos = pos.max(r.pos());
        cx.reply.put("retriedStmtId", ids.first().copied().unwrap_or(0));
    }
    used(cx, &ns, start_us);
    Ok(write::durability(cx, pos))
}
