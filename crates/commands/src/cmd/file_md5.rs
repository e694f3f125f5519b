//! `filemd5`: the checksum of a GridFS file, over its chunks in order.

use context::command::Command;
use context::ctx::Ctx;
use context::env::{CollationArg, environment};
use context::read::StoreHost;
use md5::{Digest, Md5};
use model::{Namespace, Result, Value, bail, code};
use operators::expr::ParseCx;
use query::exec::{ExecContext, drain};
use query::pipeline::{Pipeline, QueryParts};
use request::Outcome;
use request::args::{Args, Kind, arg};
use request::asked::RightsRequest;
use request::spec::{Privilege, flag};

pub(crate) static COMMANDS: &[Command] = &[Command::new(
    "filemd5",
    "checksum of a GridFS file",
    Privilege::Asked(needs),
    flag::READ_CONCERN | flag::LONG | flag::LENIENT,
    &[arg("root", Kind::Str), arg("partialOk", Kind::BoolLike)],
    run,
)
.value(Kind::Any)];

/// The collection of chunks.
fn chunks(db: &str, args: &Args<'_>) -> Result<Namespace> {
    let root = args.str("root").unwrap_or("fs");
    Namespace::new(db, &format!("{root}.chunks"))
}

fn needs(asked: &RightsRequest<'_, '_>) -> Result<()> {
    asked.needs_at(&chunks(asked.db, asked.args)?, &[auth::Action::Find])
}

fn run(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let ns = chunks(cx.db, &cx.args)?;
    let env = environment(cx, &CollationArg::Default(None))?;
    let filter = model::doc! { "files_id": { "$eq": cx.value() } };
    let by_number = model::doc! { "n": 1i32 };
    let parts = QueryParts {
        filter: filter.doc(),
        sort: by_number.doc(),
        ..QueryParts::ALL
    };
    let options = query::stages::collection_options(ns);
    let pipeline = Pipeline::of_query(&mut ParseCx::new(&env), parts, &options)?;
    let host = StoreHost::new(cx.service.arc()?, None, None);
    let exec = ExecContext::new(&env, &host);
    let partial = cx.args.bool("partialOk", false);
    let (mut md5, mut chunks, mut gap) = (Md5::new(), 0i32, false);
    drain(pipeline.open(&exec)?.as_mut(), &exec, |chunk, _| {
        gap |= chunk.field("n").as_i64_exact() != Some(i64::from(chunks));
        match (gap, chunk.field("data")) {
            (true, _) if partial => {}
            (true, _) => bail!(
                10040,
                "chunks out of order: chunk {chunks} is missing, found {}",
                chunk.field("n")
            ),
            (false, Value::Binary(b)) => {
                // The data of the old binary subtype begin with their length.
                md5.update(if b.subtype == 2 {
                    b.bytes.get(4..).unwrap_or(&[])
                } else {
                    b.bytes
                });
                chunks = chunks.saturating_add(1);
            }
            (false, v) => bail!(
                code::TYPE_MISMATCH,
                "the 'data' of chunk {chunks} must be binary, found {}",
                v.type_name()
            ),
        }
        Ok(())
    })?;
    cx.reply
        .put("numChunks", chunks)
        .put("md5", super::check::hex(&md5.finalize()).as_str());
    Ok(Outcome::Reply)
}
