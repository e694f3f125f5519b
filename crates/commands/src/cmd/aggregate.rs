//! `aggregate`.

use super::find::{FIRST_BATCH, hint};
use crate::args::Kind;
use crate::crud::AggregateArgs;
use crate::crud::read::AGGREGATE;
use crate::ctx::Ctx;
use crate::cursors::{BatchLimit, CursorInfo};
use crate::exec::cursor::PipelineCursor;
use crate::exec::host::StoreHost;
use crate::exec::{self, Used};
use crate::registry::{Command, flag};
use crate::request::Outcome;
use model::{Namespace, Result, Value, bail, code};
use operators::expr::ParseCx;
use query::pipeline::{ParseOptions, Pipeline, Rt};

pub(crate) static COMMANDS: &[Command] = &[Command {
    value: Kind::Any,
    ..super::command("aggregate", "runs a pipeline", flag::API_V1 | flag::READ_CONCERN | flag::WRITE_CONCERN, AGGREGATE, run)
}];

fn run(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let a = AggregateArgs::of(cx.value(), &cx.args, false, cx.generic.write_concern.is_some())?;
    let options = match a.coll {
        Some(c) => ParseOptions::collection(Namespace::new(cx.db, c)?),
        None => ParseOptions::database(cx.db),
    };
    let ns = match a.coll {
        Some(c) => Namespace::new(cx.db, c)?,
        None => Namespace::new(cx.db, "$cmd.aggregate")?,
    };
    let _used = Used::start(cx, &ns);
    let env = exec::env(cx, a.let_vars, a.collation)?;
    let pipeline = Pipeline::parse(&mut ParseCx::new(&env), a.pipeline, &options)?;
    check_collation(cx, &ns, &a)?;
    let host = StoreHost { store: cx.service.store.clone(), service: Some(cx.service), hint: hint(a.hint)? };
    let rt = Rt { allow_disk_use: a.allow_disk_use.unwrap_or(true), ..Rt::new(&env, &host) };
    if a.explain {
        let plan = pipeline.explain(&rt)?;
        cx.reply.put("explainVersion", "1").put_all(plan.doc());
        cx.reply.put("command", cx.request.body);
        return Ok(Outcome::Reply);
    }
    let info = CursorInfo { ns: ns.to_string(), ..cx.cursor_info() };
    let limit = BatchLimit::of(Some(a.batch_size.unwrap_or(FIRST_BATCH)));
    if pipeline.writes() {
        // A writing pipeline runs to its end before the reply, with the service at hand.
        let rest = pipeline.run_to_end(&rt)?;
        let docs = rest.iter().map(|d| d.to_buf()).collect();
        cx.first_batch(Box::new(crate::listing::Listing::new(docs)), info, limit, false)?;
        return Ok(Outcome::Reply);
    }
    let docs = pipeline.open(&rt)?;
    let cursor = PipelineCursor::new(docs, env, cx.service.store.clone(), None, a.allow_disk_use.unwrap_or(true));
    cx.first_batch(Box::new(cursor), info, limit, false)?;
    Ok(Outcome::Reply)
}

/// A view has its own collation; another one is refused.
fn check_collation(cx: &Ctx<'_, '_>, ns: &Namespace, a: &AggregateArgs<'_>) -> Result<()> {
    let (Some(_), Some(wanted)) = (a.coll, a.collation) else { return Ok(()) };
    let Some(c) = cx.service.store.collection(ns)?.filter(|c| c.is_view()) else { return Ok(()) };
    let options = c.options();
    let own = options.doc().field("collation");
    if model::compare(&own, &Value::Document(wanted)).is_ne() {
        bail!(code::OPTION_NOT_SUPPORTED_ON_VIEW, "Cannot override a view's default collation, {ns}");
    }
    Ok(())
}
