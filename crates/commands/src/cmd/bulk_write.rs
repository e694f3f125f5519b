//! `bulkWrite`: inserts, updates and deletes on several collections; results come in a cursor.

use auth::{Action, Target};
use context::command::Command;
use context::crud::args::bulk::BULK_WRITE;
use context::crud::args::{BulkArgs, BulkOp};
use context::crud::done::WriteOutcome;
use context::crud::selector::SuspendedStatement;
use context::crud::statement::{
    WriteOptions, earlier_effect, one_delete, one_update, report, report_retried,
};
use context::crud::write_batch::FLAGS;
use context::ctx::Ctx;
use context::ddl::collection::collection;
use context::ddl::identity::match_uuid;
use context::ddl::names;
use context::ddl::timeseries::Series;
use context::env::{CollationArg, environment};
use context::read::listing::Listing;
use context::retry::single;
use context::rules::document_id::with_id;
use context::rules::validator::Validator;
use model::{Doc, DocBuf, MongoError, Namespace, Result, bail};
use operators::Env;
use request::Outcome;
use request::asked::RightsRequest;
use request::spec::{Durability, LatencyKind, OpClass, Privilege, flag};
use state::capped;
use state::cursors::{BatchLimit, CursorInfo};
use state::service::Service;
use store::{Effect, RetryImage};

pub(crate) static COMMANDS: &[Command] = &[Command::new(
    "bulkWrite",
    "writes to several collections",
    Privilege::Asked(needs),
    FLAGS | flag::ADMIN | flag::MAY_NAME_SCRIPT,
    BULK_WRITE,
    run,
)
.durability(Durability::OwnWrites)
.kind(LatencyKind::Write)];

/// Each operation needs the rights on its own namespace.
fn needs(asked: &RightsRequest<'_, '_>) -> Result<()> {
    let a = BulkArgs::of(asked.args)?;
    for op in &a.ops {
        let actions: &[Action] = match op {
            BulkOp::Insert(..) => &[Action::Insert],
            BulkOp::Update(_, u) if u.upsert => &[Action::Update, Action::Insert],
            BulkOp::Update(..) | BulkOp::Refused(..) => &[Action::Update],
            BulkOp::Delete(..) => &[Action::Remove],
        };
        let ns = a.namespace(op)?;
        asked.needs_to_write(Target::Collection(ns.db(), ns.coll()), actions)?;
    }
    Ok(())
}

#[derive(Default)]
struct Totals {
    errors: i32,
    inserted: i32,
    matched: i32,
    modified: i32,
    upserted: i32,
    deleted: i32,
}

fn int(n: i64) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX)
}

/// The progress of a `bulkWrite`.
#[derive(Default)]
struct BulkProgress {
    totals: Totals,
    results: Vec<DocBuf>,
    /// How many operations have ended, and how many of them were counted.
    ended: usize,
    counted: usize,
    /// The state of the next operation when a run was set aside in its middle.
    middle: Option<SuspendedStatement>,
}

fn run(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let a = BulkArgs::of(&cx.args)?;
    let mut written = cx.progress.take_or_default::<BulkProgress>();
    let result = all(cx, &a, &mut written);
    let (written, ()) = cx.progress.settle(written, result)?;
    let info = CursorInfo {
        ns: "admin.$cmd.bulkWrite".to_owned(),
        ..cx.cursor_info()
    };
    cx.first_batch(
        Box::new(Listing::new(written.results)),
        info,
        BatchLimit::of(a.batch_size),
        false,
    )?;
    let t = written.totals;
    let w = &mut cx.reply;
    w.put("nErrors", t.errors)
        .put("nInserted", t.inserted)
        .put("nMatched", t.matched)
        .put("nModified", t.modified);
    w.put("nUpserted", t.upserted).put("nDeleted", t.deleted);
    report_retried(cx);
    Ok(Outcome::Reply)
}

fn all(cx: &mut Ctx<'_, '_>, a: &BulkArgs<'_>, written: &mut BulkProgress) -> Result<()> {
    let mut env = environment(cx, &CollationArg::Default(None))?;
    let ids = cx
        .retry
        .as_mut()
        .map(|r| r.ids(&cx.args, a.ops.len()))
        .transpose()?
        .unwrap_or_default();
    for (i, op) in a.ops.iter().enumerate().skip(written.ended) {
        cx.operation.check()?;
        if env.cluster_time.is_some() {
            // Each operation has its own cluster time.
            env.cluster_time = Some(cx.service.operation_time());
        }
        let id = ids.get(i..=i).unwrap_or_default();
        let result = write_one(cx, &mut env, a, i, op, id, written);
        report(&mut cx.reported, &result, is_multi(op));
        let mut goes_on = true;
        match result {
            Ok(done) => {
                let result = count(op, &done, i, &mut written.totals);
                if !a.errors_only {
                    written.results.push(result);
                }
            }
            Err(e) if cx.ends_command(&e) => return Err(e),
            Err(e) => {
                written.totals.errors += 1;
                written.results.push(failure(op, i, &e));
                goes_on = cx.note_statement_failure(a.ordered);
            }
        }
        written.ended += 1;
        cx.operation.writes().checkpoint();
        if !goes_on {
            break;
        }
    }
    Ok(())
}

/// True for an operation on all matching documents.
fn is_multi(op: &BulkOp<'_>) -> bool {
    match op {
        BulkOp::Update(_, u) => u.multi,
        BulkOp::Delete(_, d) => d.multi,
        BulkOp::Insert(..) | BulkOp::Refused(..) => false,
    }
}

fn write_one(
    cx: &mut Ctx<'_, '_>,
    env: &mut Env,
    a: &BulkArgs<'_>,
    i: usize,
    op: &BulkOp<'_>,
    id: &[i32],
    written: &mut BulkProgress,
) -> Result<WriteOutcome> {
    let ns = a.namespace(op)?;
    names::refuse_raw(cx, ns)?;
    if let Some(wanted) = a.identity(op) {
        match_uuid(cx.service, ns, wanted)?;
    }
    if let BulkOp::Refused(_, e) = op {
        return Err(e.clone());
    }
    let class = match op {
        BulkOp::Insert(..) => OpClass::Insert,
        BulkOp::Update(..) => OpClass::Update,
        BulkOp::Delete(..) => OpClass::Delete,
        BulkOp::Refused(..) => OpClass::Update,
    };
    if written.counted <= i {
        cx.service.counters.add(class, 1);
        written.counted = i + 1;
    }
    single(&cx.retry, is_multi(op), "multi=true")?;
    match (earlier_effect(&mut cx.retry, id), op) {
        (Some(Effect::Deleted | Effect::Removed(_)), BulkOp::Update(..)) => {
            bail!(
                40_638,
                "update retry request is not compatible with previous write in the transaction of \
                    type: delete"
            )
        }
        (Some(effect), _) => return Ok(WriteOutcome::repeat(effect)),
        (None, _) => {}
    }
    let transaction = cx.transaction.clone();
    let options = WriteOptions {
        bypass: a.bypass_validation,
        keep: false,
        log: cx.retry.as_mut().map(|r| r.log(id, RetryImage::Fact)),
        operation: &cx.operation,
        transaction: transaction.as_deref(),
        middle: Some(&mut written.middle),
    };
    match op {
        BulkOp::Insert(_, d) => insert(cx.service, ns, *d, options),
        BulkOp::Update(_, u) => one_update(cx.service, env, ns, u, options),
        BulkOp::Delete(_, d) => one_delete(cx.service, env, ns, d, Doc::EMPTY, options),
        BulkOp::Refused(_, e) => Err(e.clone()),
    }
}

fn insert(
    service: &Service,
    ns: &Namespace,
    d: Doc<'_>,
    options: WriteOptions<'_>,
) -> Result<WriteOutcome> {
    let d = with_id(d, service.clock.now_ms())?;
    let Some(coll) = collection(service, options.operation, ns, true, options.transaction)? else {
        return Ok(WriteOutcome::default());
    };
    let d = match Series::of(&coll) {
        Some(s) => s.arrange(d.doc())?,
        None => d,
    };
    if let Some(v) = Validator::of(
        service,
        options.operation.connection(),
        &coll,
        options.bypass,
    )? {
        v.check(d.doc())?;
    }
    let mut log = options.log;
    let writer = coll.writer(options.operation);
    let done = match options.transaction {
        Some(transaction) => writer.insert_in(&[d.doc()], true, transaction)?,
        None => {
            let done = writer.insert_logged(&[d.doc()], true, log.as_mut())?;
            capped::end_insert(service, writer)?;
            done
        }
    };
    match done.errors.into_iter().next() {
        Some((_, e)) => Err(e),
        None => Ok(WriteOutcome {
            matched: 1,
            pos: done.pos,
            ..WriteOutcome::default()
        }),
    }
}

fn count(op: &BulkOp<'_>, done: &WriteOutcome, i: usize, t: &mut Totals) -> DocBuf {
    let made = i64::from(done.upserted.is_some());
    match op {
        BulkOp::Insert(..) => t.inserted += 1,
        BulkOp::Refused(..) => {}
        BulkOp::Delete(..) => t.deleted = t.deleted.saturating_add(int(done.matched)),
        BulkOp::Update(..) => {
            t.matched = t.matched.saturating_add(int(done.matched));
            t.modified = t.modified.saturating_add(int(done.modified));
            t.upserted = t.upserted.saturating_add(int(made));
        }
    }
    DocBuf::build(|w| {
        w.put("ok", 1.0)
            .put("idx", int(i as i64))
            .put("n", int(done.matched + made));
        if let BulkOp::Update(..) = op {
            w.put("nModified", int(done.modified));
        }
        if let Some(id) = &done.upserted {
            w.doc("upserted").put("_id", id.get());
        }
    })
}

fn failure(op: &BulkOp<'_>, i: usize, e: &MongoError) -> DocBuf {
    DocBuf::build(|w| {
        w.put("ok", 0.0)
            .put("idx", int(i as i64))
            .put("code", e.code());
        if let Some(extra) = e.extra_fields() {
            w.put_all(extra.doc());
        }
        w.put("errmsg", e.message()).put("n", 0i32);
        if let BulkOp::Update(..) = op {
            w.put("nModified", 0i32);
        }
    })
}
