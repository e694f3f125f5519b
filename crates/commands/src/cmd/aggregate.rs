//! `aggregate`.

use crate::args::Kind;
use crate::crud::AggregateArgs;
use crate::crud::read::AGGREGATE;
use crate::ctx::Ctx;
use crate::cursors::{BatchLimit, CursorInfo};
use crate::read::{CollationArg, QueryCursor, StoreHost, environment};
use crate::registry::{Command, OpClass, flag};
use crate::request::Outcome;
use model::{Namespace, Result};
use operators::expr::ParseCx;
use query::pipeline::{ParseOptions, Pipeline, Rt, Target};
use query::plan::Hint;

pub(crate) static COMMANDS: &[Command] = &[Command {
    value: Kind::Any,
    class: OpClass::Command,
    ..super::command(
        "aggregate",
        "documents that go through a pipeline",
        flag::API_V1 | flag::READ_CONCERN | flag::WRITE_CONCERN | flag::LONG,
        AGGREGATE,
        run,
    )
}];

/// Documents of a first batch when the client names no number.
const FIRST_BATCH_DOCUMENTS: i64 = 101;

fn run(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let args = AggregateArgs::of(cx.value(), &cx.args, false, cx.generic.write_concern.is_some())?;
    if cx.generic.api_strict {
        crate::api::check_pipeline(args.pipeline)?;
    }
    let (ns, options) = match args.coll {
        Some(coll) => {
            let ns = Namespace::new(cx.db, coll)?;
            (ns.to_string(), ParseOptions::collection(ns))
        }
        None => (format!("{}.$cmd.aggregate", cx.db), ParseOptions::database(cx.db)),
    };
    let coll = match &options.target {
        Target::Collection(ns) => cx.service.store.collection(ns)?,
        Target::Database(_) => None,
    };
    if let Target::Collection(ns) = &options.target {
        super::drop::check_uuid(cx, ns, coll.as_ref().map(|c| c.uuid()))?;
    }
    let coll_options = coll.as_ref().map(|c| c.options());
    let collation = CollationArg::of(args.collation, coll_options.as_ref().map(|o| o.doc()));
    let env = environment(cx, &collation)?;
    let pipeline = Pipeline::parse(&mut ParseCx::new(&env), args.pipeline, &options)?;
    let host = StoreHost::new(
        cx.service.arc()?,
        collation.document().map(|d| d.to_buf()),
        Hint::parse(args.hint.unwrap_or_default())?,
    )
    .bypassing_validation(args.bypass_validation);
    let allow_disk_use = args.allow_disk_use.unwrap_or(true);
    let rt = Rt { env: &env, host: &host, vars: None, allow_disk_use };
    if args.explain {
        let stages = pipeline.explain(&rt)?;
        super::explain::reply(cx, |w| {
            w.put("explainVersion", "1").put("stages", stages.doc().as_array());
        });
        return Ok(Outcome::Reply);
    }
    let docs = pipeline.open(&rt)?;
    // A pipeline that writes runs to its end whatever the batch size.
    let writes = pipeline.writes();
    let batch = if writes { None } else { Some(args.batch_size.unwrap_or(FIRST_BATCH_DOCUMENTS)) };
    let cursor = QueryCursor::new(docs, env, host, allow_disk_use);
    let info = CursorInfo { ns, ..cx.cursor_info() };
    cx.first_batch(Box::new(cursor), info, BatchLimit::of(batch), false)?;
    if writes { crate::write::durability_of_all(cx) } else { Ok(Outcome::Reply) }
}
