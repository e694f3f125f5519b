//! `distinct`: the different values at a path, array elements one by one.

use crate::crud::args::DistinctArgs;
use crate::crud::args::read::DISTINCT;
use crate::ddl::identity::check_uuid;
use crate::ddl::{names, system_views};
use crate::dispatch::args::Kind;
use crate::dispatch::command::Command;
use crate::dispatch::ctx::Ctx;
use crate::dispatch::request::Outcome;
use crate::dispatch::spec::{Kinds, Privilege, flag};
use crate::read::{CollationArg, StoreHost, environment, shape};
use model::path::PathPart;
use model::{Collate, Doc, FieldPath, OwnedValue, Result, Value, bail};
use operators::Env;
use operators::expr::ParseCx;
use query::exec::{ExecContext, MatchFilter, drain};
use query::pipeline::Pipeline;
use query::plan::{DistinctScan, Hint, PlanRequest, distinct_plan, each_match, plan_read};
use rustc_hash::FxHashSet;
use std::sync::Arc;
use store::Collection;

const FLAGS: u32 = flag::READ_CONCERN
    | flag::ENDS_WITH_CLIENT
    | flag::IN_TRANSACTION
    | flag::RUNS_AGAIN
    | flag::MAY_NAME_SCRIPT;

pub(crate) static COMMANDS: &[Command] = &[Command::new(
    "distinct",
    "different values of a field",
    Privilege::Collection(&[auth::Action::Find]),
    FLAGS,
    DISTINCT,
    run,
)
.value(Kind::Collection)
.kind(Kinds::Read)];

fn run(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let ns = names::own_or_buckets(cx)?;
    let args = DistinctArgs::of(cx.value().as_str().unwrap_or_default(), &cx.args)?;
    if args.key.contains('\0') {
        bail!(31032, "Distinct key cannot contain a null byte");
    }
    let coll = cx.collection(&ns)?;
    check_uuid(cx, &ns, coll.as_ref().map(|c| c.uuid()))?;
    let options = coll.as_ref().map(|c| c.options());
    let collation = CollationArg::of(args.collation, options.as_ref().map(|o| o.doc()));
    let mut env = environment(cx, &collation)?;
    env.has_now = false;
    let filter = MatchFilter::parse(&mut ParseCx::of_query(&env), args.query)?;
    let allowed = shape::allowed_indexes(cx.service, &ns, cx.request.body, &args.shape())?;
    let hint = Hint::parse(args.hint.unwrap_or_default())?;
    let path = FieldPath::new(args.key);
    let mut values = Values {
        seen: FxHashSet::default(),
        list: Vec::new(),
        bytes: 0,
    };
    let (view, at) = cx.read_view()?;
    let by_pipeline = match &coll {
        None => system_views::is_read_by_pipeline(cx.service, &view, &ns)?,
        Some(c) => c.is_view(),
    };
    match coll {
        _ if by_pipeline => {
            cx.ok_int = true;
            let collation = collation.document().map(|d| d.to_buf());
            let host = StoreHost::new(cx.service.arc()?, collation, None).reading(view);
            let pipeline = model::doc! { "0": { "$match": args.query } };
            let pipeline = Pipeline::parse(
                &mut ParseCx::new(&env),
                pipeline.doc().as_array(),
                &query::stages::collection_options(ns),
            )?;
            let exec = ExecContext::new(&env, &host);
            let mut docs = pipeline.open(&exec)?;
            drain(docs.as_mut(), &exec, |doc, _| {
                values.collect(Value::Document(doc), path.parts(), env.collate())
            })?;
        }
        None => {}
        Some(c) => {
            // It was a view once, and its reply has stayed one of a view.
            cx.ok_int = names::is_timeseries(&c);
            let want = PlanRequest {
                filter: Some(&filter),
                hint: hint.as_ref(),
                collation: collation.document(),
                view: Some(&view),
                allowed: allowed.as_ref(),
                ..PlanRequest::default()
            };
            values.read(&c, &want, args.key, &env)?;
        }
    }
    values
        .list
        .sort_by(|a, b| model::compare_with(&a.get(), &b.get(), env.collate()));
    let mut out = cx.reply.array("values");
    for v in &values.list {
        out.push(v.get());
    }
    drop(out);
    if let Some(at) = at {
        cx.reply.put("atClusterTime", at);
    }
    Ok(Outcome::Reply)
}

struct Values {
    seen: FxHashSet<Vec<u8>>,
    list: Vec<OwnedValue>,
    bytes: usize,
}

impl Values {
    /// Collects from the documents of a collection, by a loose index scan where that is possible.
    fn read(
        &mut self,
        c: &Arc<Collection>,
        want: &PlanRequest<'_>,
        key: &str,
        env: &Env,
    ) -> Result<()> {
        let path = FieldPath::new(key);
        let plan = plan_read(c, want)?;
        let loose_scan =
            distinct_plan(c, want, &plan, key).and_then(|p| DistinctScan::open(c.clone(), &p));
        let Some(mut scan) = loose_scan else {
            return each_match(c, &plan, want.filter, env, &mut |row| {
                self.collect(Value::Document(row.doc), path.parts(), env.collate())?;
                Ok(true)
            });
        };
        // The entry of a document without the field is that of null, but it has no value.
        while scan.next(env, &mut |doc| {
            let before = self.list.len();
            self.collect(Value::Document(doc), path.parts(), env.collate())?;
            Ok(self.list.len() > before)
        })? {}
        Ok(())
    }

    /// Collects the values at a path; arrays are gone through on the way and once at the end.
    fn collect(
        &mut self,
        v: Value<'_>,
        path: &[PathPart],
        collate: Option<&dyn Collate>,
    ) -> Result<()> {
        let Some((head, rest)) = path.split_first() else {
            return match v {
                Value::Array(a) => a.iter().try_for_each(|v| self.add(v, collate)),
                v => self.add(v, collate),
            };
        };
        match v {
            Value::Document(d) => self.collect(field(d, &head.name), rest, collate),
            Value::Array(a) => {
                if let Some(i) = head.index
                    && let Some(v) = a.get(i)
                {
                    self.collect(v, rest, collate)?;
                }
                a.iter()
                    .filter(|v| matches!(v, Value::Document(_)))
                    .try_for_each(|v| self.collect(v, path, collate))
            }
            _ => Ok(()),
        }
    }

    fn add(&mut self, v: Value<'_>, collate: Option<&dyn Collate>) -> Result<()> {
        if v.is_missing() {
            return Ok(());
        }
        let mut key = Vec::new();
        model::compare::equality_key(&v, collate, &mut key);
        if self.seen.insert(key) {
            self.bytes += v.payload_bytes() + 8;
            if self.bytes > model::bson::MAX_DOCUMENT_BYTES {
                bail!(17217, "distinct too big, 16mb cap");
            }
            self.list.push(v.to_owned_value());
        }
        Ok(())
    }
}

fn field<'a>(d: Doc<'a>, name: &str) -> Value<'a> {
    d.field(name)
}
