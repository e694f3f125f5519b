//! `update`, `delete`, `findAndModify`.

use crate::args::Kind;
use crate::crud::write::{DELETE, FIND_AND_MODIFY, UPDATE};
use crate::crud::{DeleteOp, FindAndModifyArgs, Mods, UpdateOp, WriteArgs};
use crate::ctx::Ctx;
use crate::ddl::names;
use crate::ddl::timeseries::Series;
use crate::exec::write::{Changer, Done, Target, collection, delete, update};
use crate::read::{CollationArg, environment};
use crate::interrupt::is_interruption;
use crate::registry::{Command, OpClass};
use crate::request::Outcome;
use crate::service::{Service, replaced};
use crate::write::{self, FLAGS, Validator};
use model::{Bump, Doc, DocBuf, MongoError, Namespace, OwnedValue, Result, Value};
use operators::expr::{ParseCx, define_let};
use operators::{Cx, Env};
use operators::filter::Filter;
use operators::project::Projection;
use query::pipeline::MatchFilter;
use query::plan::Hint;
use store::CommitPos;

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

/// Runs one statement of `update`.
///
/// # Errors
/// Those of filter, update, validator and store.
pub(crate) fn one_update(service: &Service, env: &mut Env, ns: &Namespace, op: &UpdateOp<'_>, bypass: bool, keep: bool) -> Result<Done> {
    let done = update_once(service, env, ns, op, bypass, keep);
    // A change of one document that fails has changed nothing.
    if op.multi || !replaced(&done) {
        return done;
    }
    service.while_replaced(|| update_once(service, env, ns, op, bypass, keep))
}

fn update_once(service: &Service, env: &mut Env, ns: &Namespace, op: &UpdateOp<'_>, bypass: bool, keep: bool) -> Result<Done> {
    let Mods::Pipeline { constants, .. } = &op.mods else { return update_with(service, env, ns, op, bypass, keep) };
    // Constants hide variables of the command of the same name.
    let outer = env.let_vars.clone();
    let result = define_let(env, Value::Document(*constants)).and_then(|()| {
        env.let_vars.rotate_left(outer.len());
        update_with(service, env, ns, op, bypass, keep)
    });
    env.let_vars = outer;
    result
}

fn update_with(service: &Service, env: &mut Env, ns: &Namespace, op: &UpdateOp<'_>, bypass: bool, keep: bool) -> Result<Done> {
    let coll = collection(service, ns, false)?;
    let options = coll.as_ref().map(|c| c.options());
    if let Some(series) = coll.as_deref().and_then(Series::of) {
        series.check_update(op)?;
    }
    let collation = prepare(service, env, op.collation, options.as_ref().map(|o| o.doc()))?;
    let env: &Env = env;
    let filter = MatchFilter::parse(&mut ParseCx::new(env), op.filter)?;
    let validator = match &coll {
        Some(c) if !bypass => Validator::of(service, c)?,
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
    update(service, &Target { coll: &coll, filter: &filter, hint, collation, env }, &changer, op, keep)
}

/// Runs one statement of `delete`.
///
/// # Errors
/// Those of filter and store.
pub(crate) fn one_delete(service: &Service, env: &mut Env, ns: &Namespace, op: &DeleteOp<'_>, sort: Doc<'_>, keep: bool) -> Result<Done> {
    let done = delete_once(service, env, ns, op, sort, keep);
    if op.multi || !replaced(&done) {
        return done;
    }
    service.while_replaced(|| delete_once(service, env, ns, op, sort, keep))
}

fn delete_once(service: &Service, env: &mut Env, ns: &Namespace, op: &DeleteOp<'_>, sort: Doc<'_>, keep: bool) -> Result<Done> {
    let coll = collection(service, ns, false)?;
    let options = coll.as_ref().map(|c| c.options());
    let collation = prepare(service, env, op.collation, options.as_ref().map(|o| o.doc()))?;
    let env: &Env = env;
    let filter = MatchFilter::parse(&mut ParseCx::new(env), op.filter)?;
    let hint = Hint::parse(op.hint.unwrap_or_default())?;
    let Some(coll) = coll else { return Ok(Done::default()) };
    delete(service, &Target { coll: &coll, filter: &filter, hint, collation, env }, op, sort, keep)
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
    for (i, op) in ops.iter().enumerate() {
        cx.interrupt.check()?;
        match one_update(cx.service, &mut env, &ns, op, a.bypass_validation, false) {
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
    used(cx, &ns, start_us);
    Ok(write::durability(cx, pos))
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
    for (i, op) in ops.iter().enumerate() {
        cx.interrupt.check()?;
        match one_delete(cx.service, &mut env, &ns, op, Doc::EMPTY, false) {
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

fn find_and_modify(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let ns = names::own(cx)?;
    let a = FindAndModifyArgs::of(cx.value().as_str().unwrap_or(""), &cx.args)?;
    let start_us = cx.service.clock.monotonic_us();
    collection(cx.service, &ns, false)?;
    let mut env = environment(cx, &CollationArg::Default(None))?;
    let shape = Shape::of(&env, &a)?;
    let done = match &a.mods {
        None => {
            let op = DeleteOp { filter: a.query, multi: false, collation: a.collation, hint: a.hint };
            one_delete(cx.service, &mut env, &ns, &op, a.sort, true)?
        }
        Some(mods) => {
            let op = UpdateOp { filter: a.query, mods: mods.clone(), multi: false, upsert: a.upsert, collation: a.collation, hint: a.hint, sort: a.sort };
            one_update(cx.service, &mut env, &ns, &op, a.bypass_validation, true)?
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
    used(cx, &ns, start_us);
    Ok(write::durability(cx, done.pos))
}
