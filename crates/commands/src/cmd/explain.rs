//! `explain` of find, aggregate, count, distinct, update, delete and findAndModify: the plan that
//! would run, and with execution statistics what it does. Nothing is changed by explaining.

use crate::crud::read::{AGGREGATE, COUNT, DISTINCT, FIND};
use crate::crud::write::FIND_AND_MODIFY;
use crate::crud::{
    AggregateArgs, CountArgs, DeleteOp, DistinctArgs, FindAndModifyArgs, FindArgs, Mods, UpdateOp,
};
use crate::dispatch::args::{Args, Kind, arg, missing_field, wrong_type};
use crate::dispatch::command::{Command, Privilege, flag};
use crate::dispatch::ctx::Ctx;
use crate::dispatch::request::Outcome;
use crate::exec::write::Changer;
use crate::read::{CollationArg, StoreHost, environment};
use model::{Doc, DocBuf, DocWriter, Namespace, Result, Tag, Value, bail, code};
use operators::Env;
use operators::expr::ParseCx;
use query::exec::SortPattern;
use query::exec::{ExecContext, MatchFilter};
use query::explain::{self, Explained, ExplainedSource, Operation, PlanNode, ReadStats};
use query::find::Find;
use query::pipeline::Pipeline;
use query::plan::{Hint, Plan, alternatives, distinct_plan, each_match, plan_read};
use std::sync::Arc;
use store::Collection;

pub(crate) static COMMANDS: &[Command] = &[Command {
    value: Kind::Object,
    ..super::command(
        "explain",
        "how a command would run",
        Privilege::Read,
        flag::API_V1 | flag::READ_CONCERN,
        &[arg("verbosity", Kind::Str)],
        run,
    )
}];

/// How much is told.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// The plan.
    Planner,
    /// What it did.
    Stats,
    /// What each plan did.
    All,
}

fn run(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let level = match cx.args.str("verbosity").unwrap_or("allPlansExecution") {
        "queryPlanner" => Level::Planner,
        "executionStats" => Level::Stats,
        "allPlansExecution" => Level::All,
        other => bail!(
            code::BAD_VALUE,
            "Enumeration value '{other}' for field 'explain.verbosity' is not a valid value."
        ),
    };
    let inner = cx.value().as_doc().unwrap_or(Doc::EMPTY);
    let Some((name, own)) = inner.first() else {
        bail!(
            code::COMMAND_NOT_FOUND,
            "Explain failed due to unknown command: "
        )
    };
    if let Some(db) = inner.field("$db").as_str()
        && db != cx.db
    {
        bail!(
            code::INVALID_NAMESPACE,
            "Mismatched $db in explain command. Expected {} but got {db}",
            cx.db
        );
    }
    match name {
        "find" | "count" | "distinct" => explain_read(cx, name, own, inner, level),
        "aggregate" => explain_aggregate(cx, own, inner, level),
        "update" | "delete" | "findAndModify" | "findandmodify" => {
            explain_write(cx, name, own, inner, level)
        }
        _ => bail!(
            code::COMMAND_NOT_FOUND,
            "Explain failed due to unknown command: {name}"
        ),
    }
}

/// The arguments of the inner command, checked against its table.
fn arguments<'a>(
    cx: &Ctx<'a, '_>,
    name: &str,
    table: &'static [crate::dispatch::args::Arg],
    inner: Doc<'a>,
) -> Result<Args<'a>> {
    let mut args = Args::new(cx.request.sequences);
    for (i, (field, value)) in inner.iter().enumerate() {
        if i > 0 && table.iter().any(|a| a.name == field) {
            args.take(name, table, field, value)?;
        }
    }
    for a in table.iter().filter(|a| a.required) {
        if !inner.contains(a.name) {
            return Err(missing_field(&format!("{name}.{}", a.name)));
        }
    }
    Ok(args)
}

fn own_namespace(cx: &Ctx<'_, '_>, name: &str, own: Value<'_>) -> Result<Namespace> {
    match own {
        Value::String(s) => Namespace::new(cx.db, s),
        v => Err(wrong_type(&format!("{name}.{name}"), &v, &[Tag::STRING])),
    }
}

/// What is explained, and of which collection.
struct Asked<'a> {
    ns: Namespace,
    coll: Option<Arc<Collection>>,
    find: Find,
    projection: Doc<'a>,
}

impl Asked<'_> {
    fn plan(&self) -> Result<Option<Plan>> {
        let request = self.find.plan_request();
        self.coll
            .as_ref()
            .map(|c| plan_read(c, &request))
            .transpose()
    }

    fn measure(
        &self,
        plan: Option<&Plan>,
        exec: &ExecContext<'_>,
        cx: &Ctx<'_, '_>,
        most: u64,
        entries: bool,
    ) -> Result<ReadStats> {
        let (Some(c), Some(plan)) = (&self.coll, plan) else {
            return Ok(ReadStats::default());
        };
        let start = cx.service.clock.monotonic_us();
        let mut m = explain::measure(c, plan, Some(&self.find.filter), exec.env, most, entries)?;
        m.ms = (cx.service.clock.monotonic_us() - start) / 1000;
        Ok(m)
    }

    /// Matches after which nobody would look further.
    fn most(&self, plan: Option<&Plan>) -> u64 {
        let blocked = self.find.sort.is_some() && !plan.is_some_and(|p| p.sorted);
        self.find
            .limit
            .filter(|_| !blocked)
            .map_or(u64::MAX, |n| n.saturating_add(self.find.skip))
    }

    fn subject<'s>(&'s self, plan: Option<&'s Plan>, over: Operation) -> Explained<'s> {
        let clustered = self
            .coll
            .as_ref()
            .is_some_and(|c| c.options().doc().contains("clusteredIndex"));
        Explained {
            find: &self.find,
            projection: self.projection,
            plan,
            clustered,
            over,
        }
    }

    /// Plans that were looked at and not taken.
    fn rejected(&self, plan: Option<&Plan>) -> Vec<PlanNode> {
        let (Some(c), Some(plan)) = (&self.coll, plan) else {
            return Vec::new();
        };
        let others = alternatives(c, &self.find.plan_request(), plan);
        others
            .iter()
            .map(|p| {
                explain::tree(
                    &self.subject(Some(p), Operation::Find),
                    &ReadStats::default(),
                )
            })
            .collect()
    }

    /// Answers with the plan alone.
    fn reply(
        &self,
        cx: &mut Ctx<'_, '_>,
        plan: Option<&Plan>,
        over: Operation,
        measured: Option<&ReadStats>,
        level: Level,
    ) {
        let subject = self.subject(plan, over);
        let rejected = self.rejected(plan);
        let name = self.ns.to_string();
        reply(cx, |w| {
            w.put("explainVersion", "1");
            explain::query_planner(&mut w.doc("queryPlanner"), &name, &subject, &rejected);
            if let Some(m) = measured {
                explain::put_stats(
                    &mut w.doc("executionStats"),
                    &explain::tree(&subject, m),
                    m,
                    level == Level::All,
                );
            }
        });
    }
}

fn explain_read<'a>(
    cx: &mut Ctx<'a, '_>,
    name: &'a str,
    own: Value<'a>,
    inner: Doc<'a>,
    level: Level,
) -> Result<Outcome> {
    let ns = own_namespace(cx, name, own)?;
    let coll = cx.service.store.collection(&ns)?;
    let options = coll.as_ref().map(|c| c.options());
    let collation = CollationArg::of(
        inner.field("collation").as_doc(),
        options.as_ref().map(|o| o.doc()),
    );
    let env = environment(cx, &collation)?;
    let in_force = collation.document().map(|d| d.to_buf());
    let host = StoreHost::new(cx.service.arc()?, in_force.clone(), None);
    let exec = ExecContext::new(&env, &host);
    let own = own.as_str().unwrap_or_default();
    let (mut projection, mut key) = (Doc::EMPTY, None);
    let (find, on_view) = match name {
        "find" => {
            let args = FindArgs::of(own, &arguments(cx, name, FIND, inner)?)?;
            projection = args.projection;
            (
                super::find::parse(&args, &env, in_force)?,
                super::find::as_pipeline(&args),
            )
        }
        "count" => {
            let a = CountArgs::of(own, &arguments(cx, name, COUNT, inner)?)?;
            let find = Find {
                skip: a.skip,
                limit: a.limit,
                ..plain_find(a.query, a.hint, &env, in_force)?
            };
            (find, super::count::count_pipeline(&a))
        }
        _ => {
            let a = DistinctArgs::of(own, &arguments(cx, name, DISTINCT, inner)?)?;
            key = Some(a.key);
            (
                plain_find(a.query, a.hint, &env, in_force)?,
                model::doc! { "0": { "$match": a.query } },
            )
        }
    };
    if coll.as_ref().is_some_and(|c| c.is_view()) {
        let pipeline = Pipeline::parse(
            &mut ParseCx::new(&env),
            on_view.doc().as_array(),
            &query::stages::collection_options(ns),
        )?;
        return aggregation(cx, &pipeline, None, &exec, level);
    }
    let asked = Asked {
        ns,
        coll,
        find,
        projection,
    };
    let plan = asked.plan()?;
    if let (Some(c), Some(chosen), Some(key)) = (&asked.coll, &plan, key)
        && let Some(leap) = distinct_plan(c, &asked.find.plan_request(), chosen, key)
    {
        let measured = if level == Level::Planner {
            None
        } else {
            Some(explain::measure_distinct(c, &leap, exec.env)?)
        };
        asked.reply(
            cx,
            Some(&leap),
            Operation::Distinct,
            measured.as_ref(),
            level,
        );
        return Ok(Outcome::Reply);
    }
    let counts = name == "count";
    // The counter answers without a look at any document.
    let by_counter =
        counts && asked.find.filter.filter.is_always_true() && asked.find.hint.is_none();
    let measured = match level {
        Level::Planner => None,
        _ if by_counter => Some(ReadStats {
            matched: asked.coll.as_ref().map_or(0, |c| c.count()),
            ..ReadStats::default()
        }),
        _ => Some(asked.measure(plan.as_ref(), &exec, cx, asked.most(plan.as_ref()), counts)?),
    };
    let over = if counts {
        Operation::Count
    } else {
        Operation::Find
    };
    asked.reply(cx, plan.as_ref(), over, measured.as_ref(), level);
    Ok(Outcome::Reply)
}

fn plain_find(
    filter: Doc<'_>,
    hint: Option<Value<'_>>,
    env: &Env,
    collation: Option<DocBuf>,
) -> Result<Find> {
    Ok(Find {
        filter: Arc::new(MatchFilter::parse(&mut ParseCx::new(env), filter)?),
        sort: None,
        skip: 0,
        limit: None,
        projection: None,
        hint: Hint::parse(hint.unwrap_or_default())?,
        min: DocBuf::new(),
        max: DocBuf::new(),
        return_key: false,
        show_record_id: false,
        tail: false,
        collation,
        view: None,
    })
}

fn explain_aggregate<'a>(
    cx: &mut Ctx<'a, '_>,
    own: Value<'a>,
    inner: Doc<'a>,
    level: Level,
) -> Result<Outcome> {
    let args = arguments(cx, "aggregate", AGGREGATE, inner)?;
    let a = AggregateArgs::of(own, &args, true, false)?;
    let options = match a.coll {
        Some(coll) => query::stages::collection_options(Namespace::new(cx.db, coll)?),
        None => query::stages::database_options(cx.db),
    };
    let coll = match a.coll {
        Some(coll) => cx.service.store.collection(&Namespace::new(cx.db, coll)?)?,
        None => None,
    };
    let coll_options = coll.as_ref().map(|c| c.options());
    let collation = CollationArg::of(a.collation, coll_options.as_ref().map(|o| o.doc()));
    let env = environment(cx, &collation)?;
    let pipeline = Pipeline::parse(&mut ParseCx::new(&env), a.pipeline, &options)?;
    let hint = Hint::parse(a.hint.unwrap_or_default())?;
    let host = StoreHost::new(
        cx.service.arc()?,
        collation.document().map(|d| d.to_buf()),
        hint.clone(),
    );
    let exec = ExecContext::new(&env, &host);
    aggregation(cx, &pipeline, hint, &exec, level)
}

/// Answers with the plan of a pipeline.
///
/// # Errors
/// Those of the stages and of the planner.
pub(crate) fn aggregation(
    cx: &mut Ctx<'_, '_>,
    pipeline: &Pipeline,
    hint: Option<Hint>,
    exec: &ExecContext<'_>,
    level: Level,
) -> Result<Outcome> {
    let pipeline = pipeline.resolved(exec)?;
    let all = level == Level::All;
    let mut out = DocBuf::new();
    let mut failed = Ok(());
    match pipeline.reads() {
        None => {
            out.append(|w| failed = explain::aggregation(w, &pipeline, None, 0, all, exec));
        }
        Some(ns) => {
            let fields = pipeline.fields_needed();
            let (mut find, projection, taken) =
                explain::plain_prefix(pipeline.stages(), exec, fields.as_deref())?;
            find.hint = hint;
            find.collation = exec.host.collation();
            let coll = cx.service.store.collection(ns)?;
            let asked = Asked {
                ns: ns.clone(),
                coll,
                find,
                projection: projection.doc(),
            };
            let plan = asked.plan()?;
            let measured = match level {
                Level::Planner => None,
                _ => Some(asked.measure(
                    plan.as_ref(),
                    exec,
                    cx,
                    asked.most(plan.as_ref()),
                    false,
                )?),
            };
            let source = ExplainedSource {
                ns: &asked.ns.to_string(),
                subject: asked.subject(plan.as_ref(), Operation::Find),
                rejected: asked.rejected(plan.as_ref()),
                measured,
            };
            out.append(|w| {
                failed = explain::aggregation(w, &pipeline, Some(&source), taken, all, exec)
            });
        }
    }
    failed?;
    reply(cx, |w| {
        w.put("explainVersion", "1").put_all(out.doc());
    });
    Ok(Outcome::Reply)
}

/// One statement, whatever the command.
struct Statement<'a> {
    filter: Doc<'a>,
    sort: Doc<'a>,
    hint: Option<Value<'a>>,
    collation: Option<Doc<'a>>,
    /// The change; `None` deletes.
    mods: Option<Mods<'a>>,
    multi: bool,
    upsert: bool,
    projection: Doc<'a>,
}

fn statement<'a>(
    cx: &Ctx<'a, '_>,
    name: &'a str,
    own: Value<'a>,
    inner: Doc<'a>,
) -> Result<Statement<'a>> {
    if !matches!(name, "update" | "delete") {
        let args = arguments(cx, name, FIND_AND_MODIFY, inner)?;
        let a = FindAndModifyArgs::of(own.as_str().unwrap_or_default(), &args)?;
        return Ok(Statement {
            filter: a.query,
            sort: a.sort,
            hint: a.hint,
            collation: a.collation,
            mods: a.mods,
            multi: false,
            upsert: a.upsert,
            projection: a.fields,
        });
    }
    let list = if name == "update" {
        "updates"
    } else {
        "deletes"
    };
    let ops: Vec<Doc<'_>> = match inner.field(list) {
        Value::Array(a) => a.iter().filter_map(|v| v.as_doc()).collect(),
        Value::Missing if !cx.request.sequences.is_empty() => Vec::new(),
        Value::Missing => return Err(missing_field(&format!("{name}.{list}"))),
        v => return Err(wrong_type(&format!("{name}.{list}"), &v, &[Tag::ARRAY])),
    };
    let [only] = ops.as_slice() else {
        bail!(
            code::INVALID_LENGTH,
            "explained write batches must be of size 1, given {}",
            ops.len()
        );
    };
    let projection = Doc::EMPTY;
    Ok(if name == "update" {
        let op = UpdateOp::of(0, *only)?;
        Statement {
            filter: op.filter,
            sort: op.sort,
            hint: op.hint,
            collation: op.collation,
            mods: Some(op.mods),
            multi: op.multi,
            upsert: op.upsert,
            projection,
        }
    } else {
        let op = DeleteOp::of(0, *only)?;
        Statement {
            filter: op.filter,
            sort: Doc::EMPTY,
            hint: op.hint,
            collation: op.collation,
            mods: None,
            multi: op.multi,
            upsert: false,
            projection,
        }
    })
}

/// How a write would find its documents, and how many it would change.
fn explain_write<'a>(
    cx: &mut Ctx<'a, '_>,
    name: &'a str,
    own: Value<'a>,
    inner: Doc<'a>,
    level: Level,
) -> Result<Outcome> {
    let ns = own_namespace(cx, name, own)?;
    let s = statement(cx, name, own, inner)?;
    let coll = crate::exec::write::collection(cx.service, &ns, false)?;
    let options = coll.as_ref().map(|c| c.options());
    let collation = CollationArg::of(s.collation, options.as_ref().map(|o| o.doc()));
    let env = environment(cx, &collation)?;
    let in_force = collation.document().map(|d| d.to_buf());
    let host = StoreHost::new(cx.service.arc()?, in_force.clone(), None);
    let exec = ExecContext::new(&env, &host);
    let mut find = plain_find(s.filter, s.hint, &env, in_force)?;
    if !s.sort.is_empty() {
        find.sort = Some(SortPattern::parse(s.sort)?);
    }
    if !s.multi {
        find.limit = Some(1);
    }
    let asked = Asked {
        ns,
        coll,
        find,
        projection: s.projection,
    };
    let plan = asked.plan()?;
    let changer = s
        .mods
        .as_ref()
        .map(|m| Changer::parse(&env, m, None))
        .transpose()?;
    let mut measured = match level {
        Level::Planner => None,
        _ => Some(asked.measure(plan.as_ref(), &exec, cx, asked.most(plan.as_ref()), false)?),
    };
    if let (false, Some(m)) = (s.multi, &mut measured) {
        m.matched = m.matched.min(1);
    }
    let over = match &changer {
        None => Operation::Delete,
        Some(changer) => {
            let found = measured.as_ref().map_or(0, |m| m.matched);
            let modified = if found > 0 {
                would_modify(&asked, plan.as_ref(), changer, &env, s.multi)?
            } else {
                0
            };
            Operation::Update {
                modified,
                upserted: u64::from(s.upsert && measured.is_some() && found == 0),
            }
        }
    };
    asked.reply(cx, plan.as_ref(), over, measured.as_ref(), level);
    Ok(Outcome::Reply)
}

/// How many documents an update would change; what stays as it is does not count.
fn would_modify(
    asked: &Asked<'_>,
    plan: Option<&Plan>,
    changer: &Changer,
    env: &Env,
    multi: bool,
) -> Result<u64> {
    let (Some(c), Some(plan)) = (&asked.coll, plan) else {
        return Ok(0);
    };
    let mut modified = 0;
    each_match(c, plan, Some(&asked.find.filter), env, &mut |row| {
        modified += u64::from(changer.would_change(&asked.find.filter.filter, env, row.doc)?);
        Ok(multi)
    })?;
    Ok(modified)
}

/// Writes what every explain ends with.
pub(crate) fn reply(cx: &mut Ctx<'_, '_>, fill: impl FnOnce(&mut DocWriter<'_>)) {
    fill(&mut cx.reply);
    cx.reply.put("queryShapeHash", Value::Missing);
    cx.reply.put(
        "command",
        cx.value().as_doc().map_or(Value::Missing, Value::Document),
    );
    let mut server = cx.reply.doc("serverInfo");
    let (host, port) = cx
        .service
        .config
        .host
        .rsplit_once(':')
        .unwrap_or((cx.service.config.host.as_str(), "27017"));
    server
        .put("host", host)
        .put("port", port.parse::<i32>().unwrap_or(27017));
    server
        .put("version", super::VERSION)
        .put("gitVersion", "quarry");
    drop(server);
    let mut p = cx.reply.doc("serverParameters");
    for (name, bytes) in [
        ("internalQueryFacetBufferSizeBytes", 104_857_600i32),
        ("internalQueryFacetMaxOutputDocSizeBytes", 104_857_600),
        (
            "internalLookupStageIntermediateDocumentMaxSizeBytes",
            104_857_600,
        ),
        ("internalDocumentSourceGroupMaxMemoryBytes", 104_857_600),
        ("internalQueryMaxBlockingSortMemoryUsageBytes", 104_857_600),
        ("internalQueryProhibitBlockingMergeOnMongoS", 0),
        ("internalQueryMaxAddToSetBytes", 104_857_600),
        (
            "internalDocumentSourceSetWindowFieldsMaxMemoryBytes",
            104_857_600,
        ),
    ] {
        p.put(name, bytes);
    }
    p.put("internalQueryFrameworkControl", "forceClassicEngine");
    p.put("internalQueryPlannerIgnoreIndexWithCollationForRegex", 1i32);
}
