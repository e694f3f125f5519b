//! `mapReduce`, executed as a pipeline: `$match`, `$sort` and `$limit` select the input, one
//! expression runs `map` and returns the emitted values, `$group` reduces, `$project` finalizes,
//! `$out` or `$merge` writes. `jsMode` and `verbose` are accepted without effect, as in MongoDB.

use auth::{Action, Target};
use context::command::Command;
use context::ctx::Ctx;
use context::ddl::names;
use context::env::{CollationArg, environment, script_library};
use context::read::{QueryCursor, StoreHost, WritingCursor};
use model::{ArrayWriter, DocBuf, Namespace, Result, Tag, Value, bail, code};
use operators::Env;
use operators::expr::ParseCx;
use query::exec::ExecContext;
use query::pipeline::Pipeline;
use request::Outcome;
use request::args::{Arg, Args, Kind, arg, check_doc, show};
use request::asked::RightsRequest;
use request::spec::{LatencyKind, Privilege, flag};

const FUNCTION: Kind = Kind::OneOf(&[Tag::STRING, Tag::CODE]);

/// The argument table of the command.
pub(crate) static MAP_REDUCE: &[Arg] = &[
    arg("map", FUNCTION).required(),
    arg("reduce", FUNCTION).required(),
    arg("out", Kind::OneOf(&[Tag::STRING, Tag::DOCUMENT])).required(),
    arg("finalize", FUNCTION),
    arg("query", Kind::Object),
    arg("sort", Kind::Object),
    arg("limit", Kind::Number),
    arg("collation", Kind::Object),
    arg("scope", Kind::Object),
    arg("let", Kind::Object),
    arg("jsMode", Kind::BoolLike),
    arg("verbose", Kind::BoolLike),
    arg("bypassDocumentValidation", Kind::BoolLike),
];

pub(crate) static COMMANDS: &[Command] = &[Command::new(
    "mapReduce",
    "documents that go through functions in JavaScript",
    Privilege::Asked(needs),
    flag::READ_CONCERN
        | flag::WRITE_CONCERN
        | flag::LONG
        | flag::ENDS_WITH_CLIENT
        | flag::RESUMABLE,
    MAP_REDUCE,
    run,
)
.aliases(&["mapreduce"])
.value(Kind::Collection)
.kind(LatencyKind::Read)];

fn needs(asked: &RightsRequest<'_, '_>) -> Result<()> {
    asked.needs_on(asked.collection()?, &[Action::Find])?;
    let out = Out::parse(asked.db, asked.args.value("out"))?;
    let actions: &[Action] = match &out {
        Out::Inline => return Ok(()),
        Out::Replace(_) => &[Action::Insert, Action::Remove],
        Out::Merge(_) | Out::Reduce(_) => &[Action::Insert, Action::Update],
    };
    let target = out
        .target()
        .map(|ns| Target::Collection(ns.db(), ns.coll()));
    target.map_or(Ok(()), |target| asked.needs_to_write(target, actions))
}

/// The destination of the results.
enum Out {
    Inline,
    /// They replace the collection.
    Replace(Namespace),
    /// They replace documents with the same key.
    Merge(Namespace),
    /// They are reduced together with documents of the same key.
    Reduce(Namespace),
}

impl Out {
    fn target(&self) -> Option<&Namespace> {
        match self {
            Out::Inline => None,
            Out::Replace(ns) | Out::Merge(ns) | Out::Reduce(ns) => Some(ns),
        }
    }

    /// # Errors
    /// 2 BadValue unless exactly one way of output is specified; 73 InvalidNamespace for invalid
    /// names.
    fn parse(db: &str, v: Value<'_>) -> Result<Out> {
        static TABLE: &[Arg] = &[
            arg("replace", Kind::Str),
            arg("merge", Kind::Str),
            arg("reduce", Kind::Str),
            arg("db", Kind::Str),
            arg("sharded", Kind::BoolLike),
            arg("nonAtomic", Kind::BoolLike),
        ];
        let d = match v {
            Value::String(coll) => return Ok(Out::Replace(Namespace::new(db, coll)?)),
            Value::Document(d) => d,
            _ => bail!(code::BAD_VALUE, "'out' must be a string or an object"),
        };
        if let Some(inline) = d.get("inline") {
            if d.count() > 1 || inline.as_f64() != Some(1.0) {
                bail!(
                    code::BAD_VALUE,
                    "'inline: 1' must be the only field of 'out', given {}",
                    show(&v)
                );
            }
            return Ok(Out::Inline);
        }
        let a = check_doc("mapReduce.out", TABLE, d)?;
        let db = a.str("db").unwrap_or(db);
        let ways: Vec<(&str, &str)> = ["replace", "merge", "reduce"]
            .into_iter()
            .filter_map(|way| Some((way, a.str(way)?)))
            .collect();
        let [(way, coll)] = ways.as_slice() else {
            bail!(
                code::BAD_VALUE,
                "'out' must name one of 'replace', 'merge', 'reduce' or 'inline', given {}",
                show(&v)
            )
        };
        let atomic = a.has("nonAtomic") && !a.bool("nonAtomic", true);
        if atomic && *way != "replace" {
            bail!(
                code::BAD_VALUE,
                "'nonAtomic: false' is no longer supported with '{way}'"
            );
        }
        let ns = Namespace::new(db, coll)?;
        Ok(match *way {
            "merge" => Out::Merge(ns),
            "reduce" => Out::Reduce(ns),
            _ => Out::Replace(ns),
        })
    }
}

/// The stages for the arguments.
fn stages(a: &Args<'_>, out: &Out) -> Result<DocBuf> {
    let limit = a.int("limit").unwrap_or(0);
    if limit < 0 {
        bail!(code::BAD_VALUE, "limit must not be negative, given {limit}");
    }
    let (map, reduce) = (a.value("map"), a.value("reduce"));
    let finalize = match a.value("finalize") {
        Value::Missing => None,
        v => Some(model::doc! { "$project": { "value": { "$function": {
        "body": v, "args": ["$_id", "$value"], "lang": "js" } } } }),
    };
    let mut bytes = Vec::new();
    {
        let mut w = ArrayWriter::new(&mut bytes);
        if let Some(query) = a.doc("query").filter(|d| !d.is_empty()) {
            w.push(&model::doc! { "$match": query });
        }
        if let Some(sort) = a.doc("sort").filter(|d| !d.is_empty()) {
            w.push(&model::doc! { "$sort": sort });
        }
        if limit > 0 {
            w.push(&model::doc! { "$limit": limit });
        }
        w.push(
            &model::doc! { "$project": { "_id": false, "emits": { "$_internalJsEmit": {
            "this": "$$ROOT", "eval": map } } } },
        );
        w.push(&model::doc! { "$unwind": "$emits" });
        w.push(
            &model::doc! { "$group": { "_id": "$emits.k", "value": { "$_internalJsReduce": {
            "data": "$emits", "eval": reduce } } } },
        );
        if let Some(finalize) = &finalize {
            w.push(finalize);
        }
        let into = |ns: &Namespace| model::doc! { "db": ns.db(), "coll": ns.coll() };
        match out {
            Out::Inline => {}
            Out::Replace(ns) => {
                w.push(&model::doc! { "$out": into(ns).doc() });
            }
            Out::Merge(ns) => {
                w.push(
                    &model::doc! { "$merge": { "into": into(ns).doc(), "on": "_id",
                    "whenMatched": "replace", "whenNotMatched": "insert" } },
                );
            }
            Out::Reduce(ns) => {
                let again = model::doc! { "$project": { "value": { "$function": { "body": reduce,
                "args": ["$_id", ["$value", "$$new.value"]], "lang": "js" } } } };
                let mut matched = Vec::new();
                {
                    let mut w = ArrayWriter::new(&mut matched);
                    w.push(&again);
                    if let Some(finalize) = &finalize {
                        w.push(finalize);
                    }
                }
                let matched = DocBuf::from_bytes(matched).unwrap_or_default();
                w.push(
                    &model::doc! { "$merge": { "into": into(ns).doc(), "on": "_id",
                    "whenMatched": Value::Array(matched.doc().as_array()),
                    "whenNotMatched": "insert" } },
                );
            }
        }
    }
    Ok(DocBuf::from_bytes(bytes).unwrap_or_default())
}

/// The environment and the pipeline of a `mapReduce` over a collection.
///
/// # Errors
/// Those of the arguments, and 166 CommandNotSupportedOnView on a view.
pub(crate) fn pipeline(
    cx: &Ctx<'_, '_>,
    ns: &Namespace,
    a: &Args<'_>,
) -> Result<(Env, Pipeline, StoreHost)> {
    let out = Out::parse(cx.db, a.value("out"))?;
    let spec = stages(a, &out)?;
    let coll = cx.collection(ns)?;
    if coll.as_ref().is_some_and(|c| c.is_view()) {
        bail!(
            code::COMMAND_NOT_SUPPORTED_ON_VIEW,
            "Namespace {ns} is a view, not a collection"
        );
    }
    let options = coll.as_ref().map(|c| c.options());
    let collation = CollationArg::of(a.doc("collation"), options.as_ref().map(|o| o.doc()));
    let mut env = environment(cx, &collation)?;
    env.script_library = script_library(cx)?;
    env.script_scope = a.doc("scope").map(|d| d.to_buf());
    let stages = query::stages::collection_options(ns.clone());
    let pipeline = Pipeline::parse(&mut ParseCx::new(&env), spec.doc().as_array(), &stages)?;
    let host = StoreHost::new(
        cx.service.arc()?,
        collation.document().map(|d| d.to_buf()),
        None,
    )
    .bypassing_validation(a.bool("bypassDocumentValidation", false));
    Ok((env, pipeline, host))
}

/// Largest reply in bytes.
const REPLY_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Writes the results into a collection.
fn write(cx: &mut Ctx<'_, '_>, mut writing: WritingCursor, target: &Namespace) -> Result<Outcome> {
    let result = writing.run(&cx.operation);
    cx.progress.settle(writing, result)?;
    if target.db() == cx.db {
        cx.reply.put("result", target.coll());
    } else {
        cx.reply
            .doc("result")
            .put("db", target.db())
            .put("collection", target.coll());
    }
    Ok(Outcome::Reply)
}

fn run(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let ns = names::read_collection(cx)?;
    let args = cx.args.clone();
    let out = Out::parse(cx.db, args.value("out"))?;
    let target = out.target();
    if let (Some(writing), Some(target)) = (cx.progress.take::<WritingCursor>(), target) {
        return write(cx, writing, target);
    }
    let (env, pipeline, host) = pipeline(cx, &ns, &args)?;
    let (view, _) = cx.read_view()?;
    let host = host.with_view(view);
    if let Some(target) = target {
        cx.reported.writes_somewhere();
        let docs = pipeline.open(&ExecContext::new(&env, &host))?;
        let cursor = QueryCursor::new(docs, env, host, true);
        return write(cx, WritingCursor::new(cursor, ns.to_string()), target);
    }
    cx.operation.ends_with_client(true);
    let all = pipeline.run_to_end(&ExecContext::new(&env, &host))?;
    let bytes: usize = all.iter().map(|d| d.len_bytes() + 12).sum();
    if bytes > REPLY_BYTES_MAX {
        bail!(
            code::BSON_OBJECT_TOO_LARGE,
            "the results take {bytes} bytes, more than a reply may have: write them to a \
                collection"
        );
    }
    let mut results = cx.reply.array("results");
    for d in all.iter() {
        results.push(d);
    }
    Ok(Outcome::Reply)
}
