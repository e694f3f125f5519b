//! `update`, `delete`, `findAndModify`.

use auth::Action::{self, Find, Insert, Remove, Update};
use auth::Target;
use context::command::Command;
use context::crud::args::write::{DELETE, FIND_AND_MODIFY, UPDATE};
use context::crud::args::{DeleteOp, FindAndModifyArgs, UpdateOp, WriteArgs};
use context::crud::done::WriteOutcome;
use context::crud::selector::SuspendedStatement;
use context::crud::statement::{
    WriteOptions, earlier_effect, one_delete, one_update, report, report_retried,
};
use context::crud::write_batch::{FLAGS, check_batch, write_errors};
use context::ctx::Ctx;
use context::ddl::collection::collection;
use context::ddl::names;
use context::env::{CollationArg, environment};
use context::retry::single;
use model::{Bump, Doc, DocBuf, DocWriter, MongoError, OwnedValue, Result, Value, bail};
use operators::expr::ParseCx;
use operators::filter::Filter;
use operators::project::Projection;
use operators::{Cx, Env};
use request::Outcome;
use request::args::{Args, Kind};
use request::asked::RightsRequest;
use request::spec::{Durability, LatencyKind, OpClass, Privilege, flag};
use store::{Effect, RetryImage};

pub(crate) static COMMANDS: &[Command] = &[
    Command::new(
        "update",
        "changes documents",
        Privilege::Asked(needs_of_update),
        FLAGS | flag::MAY_NAME_SCRIPT,
        UPDATE,
        run_update,
    )
    .value(Kind::Collection)
    .kind(LatencyKind::Write)
    .class(OpClass::Update)
    .durability(Durability::OwnWrites),
    Command::new(
        "delete",
        "deletes documents",
        Privilege::Collection(&[Remove]),
        FLAGS | flag::MAY_NAME_SCRIPT,
        DELETE,
        run_delete,
    )
    .value(Kind::Collection)
    .kind(LatencyKind::Write)
    .class(OpClass::Delete)
    .durability(Durability::OwnWrites),
    Command::new(
        "findAndModify",
        "changes one document and returns it",
        Privilege::Asked(needs_of_find_and_modify),
        FLAGS | flag::MAY_NAME_SCRIPT,
        FIND_AND_MODIFY,
        find_and_modify,
    )
    .aliases(&["findandmodify"])
    .value(Kind::Collection)
    .kind(LatencyKind::Write)
    .durability(Durability::OwnWrites),
];

fn needs_of_update(asked: &RightsRequest<'_, '_>) -> Result<()> {
    let target = Target::Collection(asked.db, asked.collection()?);
    let upserts = || -> Result<bool> { Ok(update_ops(asked.args)?.iter().any(|op| op.upsert)) };
    let actions: &[Action] = match asked.may(target, &[Update, Insert]) || upserts()? {
        true => &[Update, Insert],
        false => &[Update],
    };
    asked.needs_to_write(target, actions)
}

fn needs_of_find_and_modify(asked: &RightsRequest<'_, '_>) -> Result<()> {
    let coll = asked.collection()?;
    let target = Target::Collection(asked.db, coll);
    let a = FindAndModifyArgs::of(coll, asked.args)?;
    let change = if a.mods.is_none() { Remove } else { Update };
    asked.needs_to_write(target, &[Find, change])?;
    if a.upsert {
        asked.needs(target, &[Insert])?;
    }
    Ok(())
}

/// The statements of an `update`.
fn update_ops<'a>(args: &Args<'a>) -> Result<Vec<UpdateOp<'a>>> {
    let documents = args.documents("update", "updates")?;
    check_batch(documents.len())?;
    let of = |(i, d)| UpdateOp::of(i, d);
    documents.into_iter().enumerate().map(of).collect()
}

fn small(n: i64) -> Value<'static> {
    i32::try_from(n).map_or(Value::Int64(n), Value::Int32)
}

/// Writes `n` and `upserted`.
fn put_matched(reply: &mut DocWriter<'_>, matched: i64, upserted: &[(usize, OwnedValue)]) {
    let made = i64::try_from(upserted.len()).unwrap_or(0);
    reply.put("n", small(matched + made));
    if !upserted.is_empty() {
        let mut list = reply.array("upserted");
        for (i, id) in upserted {
            list.doc()
                .put("index", i32::try_from(*i).unwrap_or(i32::MAX))
                .put("_id", id.get());
        }
    }
}

/// The progress of an `update` or `delete`.
#[derive(Default)]
struct ModifyProgress {
    /// How many statements have ended.
    ended: usize,
    matched: i64,
    modified: i64,
    upserted: Vec<(usize, OwnedValue)>,
    errors: Vec<(usize, MongoError)>,
    /// The state of the next statement when a run was set aside in its middle.
    middle: Option<SuspendedStatement>,
}

impl ModifyProgress {
    /// Adds the outcome of a statement; false when the next statement must not run.
    ///
    /// # Errors
    /// An error that ends the whole command.
    fn add(
        &mut self,
        cx: &mut Ctx<'_, '_>,
        result: Result<WriteOutcome>,
        ordered: bool,
    ) -> Result<bool> {
        let i = self.ended;
        let goes_on = match result {
            Ok(done) => {
                self.matched += done.matched;
                self.modified += done.modified;
                self.upserted.extend(done.upserted.map(|id| (i, id)));
                true
            }
            Err(e) if cx.ends_command(&e) => return Err(e),
            Err(e) => {
                self.errors.push((i, e));
                cx.note_statement_failure(ordered)
            }
        };
        self.ended += 1;
        cx.operation.writes().checkpoint();
        Ok(goes_on)
    }
}

fn run_update(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let mut written = cx.progress.take_or_default::<ModifyProgress>();
    let result = update_all(cx, &mut written);
    let (written, ()) = cx.progress.settle(written, result)?;
    if !cx.is_unacknowledged() {
        put_matched(&mut cx.reply, written.matched, &written.upserted);
        cx.reply.put("nModified", small(written.modified));
        write_errors(&mut cx.reply, &written.errors);
        report_retried(cx);
    }
    Ok(Outcome::Reply)
}

fn update_all(cx: &mut Ctx<'_, '_>, written: &mut ModifyProgress) -> Result<()> {
    let transaction = cx.transaction.clone();
    let ns = names::own_or_buckets(cx)?;
    let a = WriteArgs::of(cx.value().as_str().unwrap_or(""), &cx.args);
    let ops = update_ops(&cx.args)?;
    collection(cx.service, &cx.operation, &ns, false, None)?;
    let mut env = environment(cx, &CollationArg::Default(None))?;
    let ids = cx
        .retry
        .as_mut()
        .map(|r| r.ids(&cx.args, ops.len()))
        .transpose()?
        .unwrap_or_default();
    for (i, op) in ops.iter().enumerate().skip(written.ended) {
        cx.operation.check()?;
        let id = ids.get(i..=i).unwrap_or_default();
        let result = single(&cx.retry, op.multi, "multi=true").and_then(|()| match earlier_effect(
            &mut cx.retry,
            id,
        ) {
            Some(Effect::Deleted | Effect::Removed(_)) => Err(MongoError::new(
                40_638,
                "update retry request is not compatible with previous write in the transaction of \
                    type: delete",
            )),
            Some(effect) => Ok(WriteOutcome::repeat(effect)),
            None => {
                let log = cx.retry.as_mut().map(|r| r.log(id, RetryImage::Fact));
                let options = WriteOptions {
                    bypass: a.bypass_validation,
                    log,
                    transaction: transaction.as_deref(),
                    middle: Some(&mut written.middle),
                    ..WriteOptions::of(&cx.operation)
                };
                one_update(cx.service, &mut env, &ns, op, options)
            }
        });
        report(&mut cx.reported, &result, op.multi);
        if !written.add(cx, result, a.ordered)? {
            break;
        }
    }
    Ok(())
}

fn run_delete(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let mut written = cx.progress.take_or_default::<ModifyProgress>();
    let result = delete_all(cx, &mut written);
    let (written, ()) = cx.progress.settle(written, result)?;
    if !cx.is_unacknowledged() {
        cx.reply.put("n", small(written.matched));
        write_errors(&mut cx.reply, &written.errors);
        report_retried(cx);
    }
    Ok(Outcome::Reply)
}

fn delete_all(cx: &mut Ctx<'_, '_>, written: &mut ModifyProgress) -> Result<()> {
    let transaction = cx.transaction.clone();
    let ns = names::own_or_buckets(cx)?;
    let a = WriteArgs::of(cx.value().as_str().unwrap_or(""), &cx.args);
    let documents = cx.args.documents("delete", "deletes")?;
    check_batch(documents.len())?;
    let ops = documents
        .into_iter()
        .enumerate()
        .map(|(i, d)| DeleteOp::of(i, d))
        .collect::<Result<Vec<_>>>()?;
    collection(cx.service, &cx.operation, &ns, false, None)?;
    let mut env = environment(cx, &CollationArg::Default(None))?;
    let ids = cx
        .retry
        .as_mut()
        .map(|r| r.ids(&cx.args, ops.len()))
        .transpose()?
        .unwrap_or_default();
    for (i, op) in ops.iter().enumerate().skip(written.ended) {
        cx.operation.check()?;
        let id = ids.get(i..=i).unwrap_or_default();
        let result = single(&cx.retry, op.multi, "limit=0").and_then(|()| {
            match earlier_effect(&mut cx.retry, id) {
                Some(effect) => Ok(WriteOutcome::repeat(effect)),
                None => {
                    let log = cx.retry.as_mut().map(|r| r.log(id, RetryImage::Fact));
                    let options = WriteOptions {
                        log,
                        transaction: transaction.as_deref(),
                        middle: Some(&mut written.middle),
                        ..WriteOptions::of(&cx.operation)
                    };
                    one_delete(cx.service, &mut env, &ns, op, Doc::EMPTY, options)
                }
            }
        });
        report(&mut cx.reported, &result, op.multi);
        if !written.add(cx, result, a.ordered)? {
            break;
        }
    }
    Ok(())
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
        let filter = if projection.needs_position() {
            Some(Filter::parse(&mut ParseCx::of_query(env), a.query)?)
        } else {
            None
        };
        Ok(Some(Shape { projection, filter }))
    }

    fn apply<'a>(&'a self, env: &Env, arena: &'a Bump, doc: Doc<'a>) -> Result<Doc<'a>> {
        let position = match &self.filter {
            Some(f) => f.matches_with_position(doc, arena, env)?.1,
            None => None,
        };
        self.projection
            .apply_at(&Cx::new(arena, Value::Document(doc), env), doc, position)
    }
}

/// The recorded result of a findAndModify, if it matches the current request.
///
/// # Errors
/// 40606, 40608, 40609 for another kind of change than in the first attempt, 40611, 40612 for the
/// other image.
fn check_retried(a: &FindAndModifyArgs<'_>, effect: Effect) -> Result<Effect> {
    let (kind, fits) = match &effect {
        Effect::Removed(_) => ((40_606, "delete"), a.mods.is_none()),
        Effect::Made(_) => ((40_608, "insert"), a.mods.is_some() && a.upsert),
        Effect::UpdatedBefore(_) | Effect::UpdatedAfter(_) => {
            ((40_609, "update"), a.mods.is_some())
        }
        Effect::Inserted | Effect::Upserted(_) => ((40_608, "insert"), false),
        Effect::Updated => ((40_609, "update"), false),
        Effect::Deleted => ((40_606, "delete"), false),
    };
    if !fits {
        bail!(
            kind.0,
            "findAndModify retry request is not compatible with previous write in the transaction \
                of type: {}",
            kind.1
        );
    }
    match &effect {
        Effect::UpdatedBefore(_) if a.new => {
            bail!(
                40_611,
                "findAndModify retry request wants the document after update returned, but only \
                    before update document is stored"
            )
        }
        Effect::UpdatedAfter(_) if !a.new => {
            bail!(
                40_612,
                "findAndModify retry request wants the document before update returned, but only \
                    after update document is stored"
            )
        }
        _ => Ok(effect),
    }
}

fn find_and_modify(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let transaction = cx.transaction.clone();
    let ns = names::own_or_buckets(cx)?;
    let a = FindAndModifyArgs::of(cx.value().as_str().unwrap_or(""), &cx.args)?;
    collection(cx.service, &cx.operation, &ns, false, None)?;
    let mut env = environment(cx, &CollationArg::Default(None))?;
    let shape = Shape::of(&env, &a)?;
    let ids = cx
        .retry
        .as_mut()
        .map(|r| r.ids(&cx.args, 1))
        .transpose()?
        .unwrap_or_default();
    let known = earlier_effect(&mut cx.retry, &ids);
    let log = cx.retry.as_mut().map(|r| {
        r.log(
            &ids,
            if a.new {
                RetryImage::After
            } else {
                RetryImage::Before
            },
        )
    });
    let result = match (known, &a.mods) {
        (Some(effect), _) => check_retried(&a, effect).map(WriteOutcome::repeat),
        (None, None) => {
            let op = DeleteOp {
                filter: a.query,
                multi: false,
                collation: a.collation,
                hint: a.hint,
            };
            one_delete(
                cx.service,
                &mut env,
                &ns,
                &op,
                a.sort,
                WriteOptions {
                    keep: true,
                    log,
                    transaction: transaction.as_deref(),
                    ..WriteOptions::of(&cx.operation)
                },
            )
        }
        (None, Some(mods)) => {
            let op = UpdateOp {
                filter: a.query,
                mods: mods.clone(),
                multi: false,
                upsert: a.upsert,
                collation: a.collation,
                hint: a.hint,
                sort: a.sort,
            };
            one_update(
                cx.service,
                &mut env,
                &ns,
                &op,
                WriteOptions {
                    bypass: a.bypass_validation,
                    keep: true,
                    log,
                    transaction: transaction.as_deref(),
                    ..WriteOptions::of(&cx.operation)
                },
            )
        }
    };
    report(&mut cx.reported, &result, false);
    put_image(cx, &env, &a, shape.as_ref(), result?)?;
    if cx.retry.as_ref().is_some_and(|r| r.is_retried(&ids)) {
        cx.reply
            .put("retriedStmtId", ids.first().copied().unwrap_or(0));
    }
    Ok(Outcome::Reply)
}

/// Writes `lastErrorObject` and `value`.
fn put_image(
    cx: &mut Ctx<'_, '_>,
    env: &Env,
    a: &FindAndModifyArgs<'_>,
    shape: Option<&Shape>,
    done: WriteOutcome,
) -> Result<()> {
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
    match (&shown, shape) {
        (None, _) => cx.reply.put("value", Value::Null),
        (Some(d), None) => cx.reply.put("value", d),
        (Some(d), Some(s)) => cx.reply.put("value", s.apply(env, &arena, d.doc())?),
    };
    Ok(())
}
