//! `update`, `delete`, `findAndModify`.

use super::find::hint;
use crate::args::Kind;
use crate::crud::write::{DELETE, FIND_AND_MODIFY, UPDATE};
use crate::crud::{DeleteOp, FindAndModifyArgs, Mods, UpdateOp, WriteArgs};
use crate::ctx::Ctx;
use crate::ddl::names;
use crate::exec::cursor::Shape;
use crate::exec::write::{Changer, Done, Target, collection, delete, update};
use crate::exec::{self, Used};
use crate::registry::{Command, OpClass};
use crate::request::Outcome;
use crate::service::Service;
use crate::write::{self, FLAGS, Validator};
use model::{Bump, Doc, DocBuf, MongoError, Namespace, OwnedValue, Result, Value};
use operators::Env;
use operators::expr::ParseCx;
use operators::filter::Filter;
use operators::project::Projection;
use query::pipeline::MatchFilter;
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

/// Runs one statement of `update`.
///
/// # Errors
/// Those of filter, update, validator and store.
pub(crate) fn one_update(service: &Service, env: &mut Env, ns: &Namespace, op: &UpdateOp<'_>, bypass: bool, keep: bool) -> Result<Done> {
    let outer = env.let_vars.clone();
    if let Mods::Pipeline { constants, .. } = &op.mods {
        // Constants hide variables of the command of the same name.
        exec::add_vars(env, *constants)?;
        env.let_vars.rotate_left(outer.len());
    }
    let env_ref: &Env = env;
    let result = (|| {
        let filter = MatchFilter::parse(&mut ParseCx::new(env_ref), op.filter)?;
        let parsed = Changer::parse(env_ref, &op.mods, None)?;
        let Some(coll) = collection(service, ns, op.upsert)? else { return Ok(Done::default()) };
        let changer = if bypass { parsed } else { Changer::parse(env_ref, &op.mods, Validator::of(service, &coll)?)? };
        let target = Target { coll: &coll, filter: &filter, hint: hint(op.hint)?, env: env_ref };
        update(service, &target, &changer, op, keep)
    })();
    env.let_vars = outer;
    result
}

/// Runs one statement of `delete`.
///
/// # Errors
/// Those of filter and store.
pub(crate) fn one_delete(service: &Service, env: &Env, ns: &Namespace, op: &DeleteOp<'_>, sort: Doc<'_>, keep: bool) -> Result<Done> {
    let filter = MatchFilter::parse(&mut ParseCx::new(env), op.filter)?;
    let Some(coll) = collection(service, ns, false)? else { return Ok(Done::default()) };
    let target = Target { coll: &coll, filter: &filter, hint: hint(op.hint)?, env };
    delete(service, &target, op, sort, keep)
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
    let _used = Used::start(cx, &ns);
    collection(cx.service, &ns, false)?;
    let mut env = exec::env(cx, a.let_vars, None)?;
    let (mut matched, mut modified, mut pos) = (0, 0, CommitPos::default());
    let mut upserted: Vec<(usize, OwnedValue)> = Vec::new();
    let mut errors: Vec<(usize, MongoError)> = Vec::new();
    for (i, op) in ops.iter().enumerate() {
        match check_collation(cx, op.collation).and_then(|()| one_update(cx.service, &mut env, &ns, op, a.bypass_validation, false)) {
            Ok(done) => {
                matched += done.matched;
                modified += done.modified;
                pos = pos.max(done.pos);
                upserted.extend(done.upserted.map(|id| (i, id)));
            }
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
    Ok(write::durability(cx, pos))
}

fn check_collation(cx: &Ctx<'_, '_>, c: Option<Doc<'_>>) -> Result<()> {
    c.map_or(Ok(()), |c| cx.service.check_collation(c))
}

fn run_delete(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let ns = names::own(cx)?;
    let a = WriteArgs::of(cx.value().as_str().unwrap_or(""), &cx.args);
    let documents = cx.args.documents("delete", "deletes")?;
    write::check_batch(documents.len())?;
    let ops = documents.into_iter().enumerate().map(|(i, d)| DeleteOp::of(i, d)).collect::<Result<Vec<_>>>()?;
    let _used = Used::start(cx, &ns);
    collection(cx.service, &ns, false)?;
    let env = exec::env(cx, a.let_vars, None)?;
    let (mut n, mut pos) = (0, CommitPos::default());
    let mut errors: Vec<(usize, MongoError)> = Vec::new();
    for (i, op) in ops.iter().enumerate() {
        match check_collation(cx, op.collation).and_then(|()| one_delete(cx.service, &env, &ns, op, Doc::EMPTY, false)) {
            Ok(done) => {
                n += done.matched;
                pos = pos.max(done.pos);
            }
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
    Ok(write::durability(cx, pos))
}

fn find_and_modify(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let ns = names::own(cx)?;
    let a = FindAndModifyArgs::of(cx.value().as_str().unwrap_or(""), &cx.args)?;
    let _used = Used::start(cx, &ns);
    check_collation(cx, a.collation)?;
    collection(cx.service, &ns, false)?;
    let mut env = exec::env(cx, a.let_vars, None)?;
    let shape = if a.fields.is_empty() {
        None
    } else {
        let projection = Projection::parse_find(&mut ParseCx::new(&env), a.fields)?;
        let filter = if projection.needs_position() { Some(Filter::parse(&mut ParseCx::new(&env), a.query)?) } else { None };
        Some(Shape { projection, filter })
    };
    let done = match &a.mods {
        None => {
            let op = DeleteOp { filter: a.query, multi: false, collation: a.collation, hint: a.hint };
            one_delete(cx.service, &env, &ns, &op, a.sort, true)?
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
    Ok(write::durability(cx, done.pos))
}
