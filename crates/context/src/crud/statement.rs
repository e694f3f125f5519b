//! One statement of a writing command, from its arguments to its effect: its environment, the retry
//! when its collection is replaced, the effect of an earlier attempt, and what the reply reports.

use super::args::{DeleteOp, Mods, UpdateOp};
use super::change::{UpdateSpec, delete, update};
use super::done::WriteOutcome;
use super::selector::{Selector, SuspendedStatement};
use super::series_update::check_series_update;
use crate::ctx::Ctx;
use crate::ddl::collection::collection;
use crate::ddl::timeseries::Series;
use crate::env::CollationArg;
use crate::reported::ReplyState;
use crate::retry::Retry;
use crate::rules::validator::Validator;
use model::{Doc, Namespace, Result, Value, bail, code};
use operation::Operation;
use operators::Env;
use operators::expr::{ParseCx, define_let};
use query::exec::MatchFilter;
use query::plan::Hint;
use state::plan_filters::ShapeParts;
use state::service::{Service, is_collection_gone};
use store::{CommitPos, Effect, StatementLog, Transaction};

/// The environment of one statement: that of the command with the collation of the statement.
fn prepare<'a>(
    service: &Service,
    env: &mut Env,
    given: Option<Doc<'a>>,
    options: Option<Doc<'a>>,
) -> Result<Option<Doc<'a>>> {
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

/// The options of one statement.
pub struct WriteOptions<'n> {
    /// The write bypasses validators.
    pub bypass: bool,
    /// Return the documents before and after the change.
    pub keep: bool,
    /// The log in which the effect of a retryable write is recorded.
    pub log: Option<StatementLog<'n>>,
    /// The writing operation.
    pub operation: &'n Operation,
    /// The transaction that the statement belongs to.
    pub transaction: Option<&'n Transaction>,
    /// The saved state of a statement that changes many documents: read at the start of a run, set
    /// when the run is set aside.
    pub middle: Option<&'n mut Option<SuspendedStatement>>,
}

impl<'n> WriteOptions<'n> {
    /// The options of a statement with defaults for everything but the operation.
    pub fn of(operation: &'n Operation) -> WriteOptions<'n> {
        WriteOptions {
            bypass: false,
            keep: false,
            log: None,
            operation,
            transaction: None,
            middle: None,
        }
    }

    /// The same options, borrowed for one attempt.
    fn reborrow(&mut self) -> WriteOptions<'_> {
        let log = self.log.as_mut().map(|n| StatementLog {
            record: &mut *n.record,
            ids: n.ids,
            keep: n.keep,
        });
        WriteOptions {
            bypass: self.bypass,
            keep: self.keep,
            log,
            operation: self.operation,
            transaction: self.transaction,
            middle: self.middle.as_deref_mut(),
        }
    }
}

/// Runs one statement of `update`.
///
/// # Errors
/// Those of filter, update, validator and store.
pub fn one_update(
    service: &Service,
    env: &mut Env,
    ns: &Namespace,
    op: &UpdateOp<'_>,
    mut options: WriteOptions<'_>,
) -> Result<WriteOutcome> {
    let done = update_once(service, env, ns, op, options.reborrow());
    // A failed change of one document has changed nothing.
    if op.multi || !is_collection_gone(&done) {
        return done;
    }
    service.retry_replaced(|| update_once(service, env, ns, op, options.reborrow()))
}

fn update_once(
    service: &Service,
    env: &mut Env,
    ns: &Namespace,
    op: &UpdateOp<'_>,
    options: WriteOptions<'_>,
) -> Result<WriteOutcome> {
    let Mods::Pipeline { constants, .. } = &op.mods else {
        return update_with(service, env, ns, op, options);
    };
    // The constants shadow the command's variables of the same names.
    let outer = env.let_vars.clone();
    let result = define_let(env, Value::Document(*constants)).and_then(|()| {
        env.let_vars.rotate_left(outer.len());
        update_with(service, env, ns, op, options)
    });
    env.let_vars = outer;
    result
}

fn update_with(
    service: &Service,
    env: &mut Env,
    ns: &Namespace,
    op: &UpdateOp<'_>,
    options: WriteOptions<'_>,
) -> Result<WriteOutcome> {
    let coll = collection(service, options.operation, ns, false, options.transaction)?;
    check_middle(coll.is_some(), &options)?;
    let coll_options = coll.as_ref().map(|c| c.options());
    if let Some(series) = coll.as_deref().and_then(Series::of) {
        check_series_update(&series, op)?;
    }
    let collation = prepare(
        service,
        env,
        op.collation,
        coll_options.as_ref().map(|o| o.doc()),
    )?;
    let env: &Env = env;
    let filter = MatchFilter::parse(&mut ParseCx::of_query(env), op.filter)?;
    let validator = match &coll {
        Some(c) => Validator::of(service, options.operation.connection(), c, options.bypass)?,
        None => None,
    };
    let changer = UpdateSpec::parse(env, &op.mods, validator)?;
    let hint = Hint::parse(op.hint.unwrap_or_default())?;
    let coll = match coll {
        Some(c) => c,
        None if op.upsert => {
            match collection(service, options.operation, ns, true, options.transaction)? {
                Some(c) => c,
                None => return Ok(WriteOutcome::default()),
            }
        }
        None => return Ok(WriteOutcome::default()),
    };
    let shape = ShapeParts {
        sort: op.sort,
        ..ShapeParts::of(op.filter, op.collation)
    };
    update(
        service,
        &Selector {
            coll: &coll,
            filter: &filter,
            hint,
            collation,
            env,
            allowed: service.state.plan_filters.allowed(ns, &shape),
            operation: options.operation,
            transaction: options.transaction,
        },
        &changer,
        op,
        options.keep,
        options.log,
        options.middle.unwrap_or(&mut None),
    )
}

/// Fails when a statement was interrupted in its middle and its collection no longer exists.
fn check_middle(there: bool, options: &WriteOptions<'_>) -> Result<()> {
    if !there && options.middle.as_ref().is_some_and(|m| m.is_some()) {
        bail!(
            code::QUERY_PLAN_KILLED,
            "the collection was dropped or renamed while the statement waited"
        );
    }
    Ok(())
}

/// Runs one statement of `delete`.
///
/// # Errors
/// Those of filter and store.
pub fn one_delete(
    service: &Service,
    env: &mut Env,
    ns: &Namespace,
    op: &DeleteOp<'_>,
    sort: Doc<'_>,
    mut options: WriteOptions<'_>,
) -> Result<WriteOutcome> {
    let done = delete_once(service, env, ns, op, sort, options.reborrow());
    if op.multi || !is_collection_gone(&done) {
        return done;
    }
    service.retry_replaced(|| delete_once(service, env, ns, op, sort, options.reborrow()))
}

fn delete_once(
    service: &Service,
    env: &mut Env,
    ns: &Namespace,
    op: &DeleteOp<'_>,
    sort: Doc<'_>,
    options: WriteOptions<'_>,
) -> Result<WriteOutcome> {
    let coll = collection(service, options.operation, ns, false, options.transaction)?;
    check_middle(coll.is_some(), &options)?;
    let coll_options = coll.as_ref().map(|c| c.options());
    let collation = prepare(
        service,
        env,
        op.collation,
        coll_options.as_ref().map(|o| o.doc()),
    )?;
    let env: &Env = env;
    let filter = MatchFilter::parse(&mut ParseCx::of_query(env), op.filter)?;
    let hint = Hint::parse(op.hint.unwrap_or_default())?;
    let Some(coll) = coll else {
        return Ok(WriteOutcome::default());
    };
    let shape = ShapeParts {
        sort,
        ..ShapeParts::of(op.filter, op.collation)
    };
    delete(
        service,
        &Selector {
            coll: &coll,
            filter: &filter,
            hint,
            collation,
            env,
            allowed: service.state.plan_filters.allowed(ns, &shape),
            operation: options.operation,
            transaction: options.transaction,
        },
        op,
        sort,
        options.keep,
        options.log,
        options.middle.unwrap_or(&mut None),
    )
}

/// The effect of a statement in an earlier attempt.
pub fn earlier_effect(retry: &mut Option<Retry<'_>>, id: &[i32]) -> Option<Effect> {
    retry.as_mut()?.find_effect(*id.first()?)
}

/// Records what the reply reports of one statement. A statement that changed its only document
/// reports just its own write. A statement without a change, on many documents, retried or failed
/// also reports the writes of others.
pub fn report(reported: &mut ReplyState, result: &Result<WriteOutcome>, multi: bool) {
    let pos = result
        .as_ref()
        .map_or(CommitPos::default(), |done| done.pos);
    if pos != CommitPos::default() {
        reported.own_write(pos);
    }
    if multi || pos == CommitPos::default() {
        reported.add_other_data();
    }
}

/// Writes the numbers of the statements that were not run again to the reply.
pub fn report_retried(cx: &mut Ctx<'_, '_>) {
    if let Some(r) = &cx.retry {
        r.report(&mut cx.reply);
    }
}
