//! `collMod`: changes options of a collection, view or index. All checks are made before any
//! change.

use super::create::{expire_seconds, pre_images, validation_words};
use context::ddl::identity::check_uuid;
use context::ddl::{index_spec, names, system_views, timeseries, view};
use context::read::{View, needs_of_view};
use context::rules::constraint;
use context::{command::Command, ctx::Ctx};
use model::{Array, Doc, DocBuf, MongoError, Namespace, Result, Tag, Value, bail, code};
use request::args::{Arg, Kind, arg, check_doc, show, to_i64};
use request::spec::{Privilege, flag};
use request::{Outcome, asked::RightsRequest};
use std::sync::Arc;
use store::{Collection, Index, IndexBuild, ReadView, Writer};

static ARGS: &[Arg] = &[
    arg("index", Kind::Object),
    arg("validator", Kind::Object),
    arg("validationLevel", Kind::Str),
    arg("validationAction", Kind::Str),
    arg(constraint::PREPARED, Kind::Bool),
    arg("viewOn", Kind::Str),
    arg("pipeline", Kind::Array),
    arg("recordPreImages", Kind::Bool),
    arg("changeStreamPreAndPostImages", Kind::Object),
    arg(
        "expireAfterSeconds",
        Kind::OneOf(&[
            Tag::STRING,
            Tag::INT64,
            Tag::INT32,
            Tag::DECIMAL128,
            Tag::DOUBLE,
        ]),
    )
    .strict_null(),
    arg("timeseries", Kind::Object),
    arg("dryRun", Kind::BoolLike),
    arg("cappedSize", Kind::Number),
    arg("cappedMax", Kind::Number),
    arg("collectionUUID", Kind::OneOf(&[Tag::BINARY])),
    arg("isTimeseriesNamespace", Kind::Bool),
];

static INDEX: &[Arg] = &[
    arg("name", Kind::Str),
    arg("keyPattern", Kind::Object),
    arg("expireAfterSeconds", Kind::Number),
    arg("hidden", Kind::BoolLike),
    arg("unique", Kind::BoolLike),
    arg("prepareUnique", Kind::BoolLike),
    arg("forceNonUnique", Kind::BoolLike),
];

/// Most bytes of `_id` values in the error of a conversion to a unique index.
const VIOLATION_BYTES_MAX: usize = 8 << 20;

pub(crate) static COMMANDS: &[Command] = &[Command::new(
    "collMod",
    "changes options of a collection or view",
    Privilege::Asked(needs),
    flag::API_V1 | flag::WRITE_CONCERN | flag::WRITE | flag::RESUMABLE | flag::LONG,
    ARGS,
    run,
)
.value(Kind::Collection)];

fn needs(asked: &RightsRequest<'_, '_>) -> Result<()> {
    let ns = Namespace::new(asked.db, asked.collection()?)?;
    asked.needs_at(&ns, &[auth::Action::CollMod])?;
    match (asked.args.str("viewOn"), asked.args.array("pipeline")) {
        (None, None) => Ok(()),
        (Some(source), Some(pipeline)) => needs_of_view(asked, &ns, View { source, pipeline }),
        // The other half stays unchanged; the client may have no right to see it.
        _ => bail!(
            code::INVALID_OPTIONS,
            "Must specify both 'viewOn' and 'pipeline' when modifying a view and auth is enabled"
        ),
    }
}

fn run(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let ns = names::of_buckets(cx.service, names::read_collection(cx)?)?;
    validation_words(&cx.args, cx.service.config.profile)?;
    let index = cx
        .args
        .doc("index")
        .map(|d| check_doc("collMod.index", INDEX, d))
        .transpose()?;
    let images = pre_images(&cx.args)?;
    if system_views::is_there(cx.service, &ReadView::LATEST, &ns)? {
        bail!(code::INVALID_OPTIONS, "collMod is not allowed on {ns}");
    }
    let c = names::find_collection(cx, &ns)?;
    check_uuid(cx, &ns, Some(c.uuid()))?;
    if c.is_view() {
        return change_view(cx, &ns, &c);
    }
    for name in ["viewOn", "pipeline"] {
        if cx.args.has(name) {
            bail!(
                code::INVALID_OPTIONS,
                "the option '{name}' is only supported on a view, {ns} is a collection"
            );
        }
    }
    let change = index
        .map(|i| IndexChange::check(&c, &i))
        .transpose()?
        .flatten();
    constraint::check_change(cx, &c)?;
    let options = new_options(cx, &ns, &c, images)?;
    if cx.args.bool("dryRun", false) {
        let Some(change) = change.filter(|i| i.unique) else {
            bail!(
                code::INVALID_OPTIONS,
                "dryRun is only supported for the conversion of an index to a unique one"
            );
        };
        change.check_unique(&c, &|| cx.operation.check())?;
        return Ok(Outcome::Reply);
    }
    let command = log_document(cx);
    if !cx.request.waited {
        cx.service
            .log_modified(cx.operation.connection(), &ns.to_string(), command.doc());
    }
    let mut done = cx.progress.take_or_default::<CollModProgress>();
    if !done.options && (options != *c.options() || change.is_none()) {
        let writer = c.writer(&cx.operation);
        writer.set_options(options, Some(command.clone()))?;
        done.options = true;
        cx.operation.writes().checkpoint();
    }
    if let Some(change) = change {
        let command = (!done.options).then_some(command);
        let writer = c.writer(&cx.operation);
        let result = change.apply(writer, &mut cx.reply, command, &mut done.building);
        cx.progress.settle(done, result)?;
    }
    cx.service.ttl.track(&c);
    Ok(Outcome::Reply)
}

/// The progress of a `collMod` over its runs.
#[derive(Default)]
struct CollModProgress {
    /// The options were changed; the log entry of that change contains the whole command.
    options: bool,
    /// The index that is being rebuilt.
    building: Option<IndexBuild>,
}

/// The command in the log: its arguments without generic ones.
fn log_document(cx: &Ctx<'_, '_>) -> DocBuf {
    let own = |name: &str| cx.command.args.iter().any(|a| a.name == name);
    DocBuf::build(|w| {
        for (n, (name, value)) in cx.request.body.iter().enumerate() {
            if n == 0 || own(name) {
                w.put(if n == 0 { "collMod" } else { name }, value);
            }
        }
    })
}

fn change_view(cx: &mut Ctx<'_, '_>, ns: &Namespace, c: &Arc<Collection>) -> Result<Outcome> {
    const NOT_ON_VIEWS: &[&str] = &[
        "index",
        "validator",
        "validationLevel",
        "validationAction",
        constraint::PREPARED,
        "changeStreamPreAndPostImages",
        "expireAfterSeconds",
        "timeseries",
        "cappedSize",
        "cappedMax",
    ];
    if let Some(name) = NOT_ON_VIEWS.iter().find(|n| cx.args.has(n)) {
        bail!(
            code::INVALID_OPTIONS,
            "the option '{name}' is not supported on a view"
        );
    }
    if !cx.args.has("viewOn") && !cx.args.has("pipeline") {
        return Ok(Outcome::Reply);
    }
    let options = c.options();
    let old = options.doc();
    let source = cx
        .args
        .str("viewOn")
        .or(old.field("viewOn").as_str())
        .unwrap_or("");
    let on = view::check_source(ns.db(), source)?;
    let pipeline = cx
        .args
        .array("pipeline")
        .or(old.field("pipeline").as_array())
        .unwrap_or(Array::EMPTY);
    view::check_pipeline(cx, &on, pipeline)?;
    let definition = DocBuf::build(|w| {
        w.put("viewOn", source);
        let mut out = w.array("pipeline");
        for stage in pipeline.iter().filter(|s| s.as_doc().is_some()) {
            out.push(stage);
        }
        drop(out);
        w.put("collation", old.field("collation"));
    });
    view::check_cycle(cx, ns, definition.doc())?;
    let writer = c.writer(&cx.operation);
    writer.set_options(definition, Some(log_document(cx)))?;
    Ok(Outcome::Reply)
}

/// The current options with the changes of the command.
fn new_options(
    cx: &Ctx<'_, '_>,
    ns: &Namespace,
    c: &Collection,
    images: Option<bool>,
) -> Result<DocBuf> {
    let a = &cx.args;
    let options = c.options();
    let old = options.doc();
    let series = old.field("timeseries").as_doc();
    let mut set: Vec<(&str, Value<'_>)> = Vec::new();
    let mut unset: Vec<&str> = Vec::new();
    if let Some(v) = a.doc("validator") {
        if series.is_some() {
            bail!(
                code::INVALID_OPTIONS,
                "the option 'validator' is not supported on a time-series collection"
            );
        }
        cx.service.check_validator(ns, v)?;
        if v.is_empty() {
            unset.push("validator")
        } else {
            set.push(("validator", Value::Document(v)))
        }
    }
    for name in ["validationLevel", "validationAction"] {
        if a.has(name) {
            if series.is_some() {
                bail!(
                    code::INVALID_OPTIONS,
                    "the option '{name}' is not supported on a time-series collection"
                );
            }
            set.push((name, a.value(name)));
        }
    }
    let enabled = model::doc! { "enabled": true };
    match images {
        Some(_) if series.is_some() => bail!(
            code::INVALID_OPTIONS,
            "the option 'changeStreamPreAndPostImages' is not supported on a time-series collection"
        ),
        Some(true) => set.push(("changeStreamPreAndPostImages", Value::from(&enabled))),
        Some(false) => unset.push("changeStreamPreAndPostImages"),
        None => {}
    }
    if a.has("expireAfterSeconds") {
        if series.is_none() && !old.contains("clusteredIndex") {
            bail!(
                code::INVALID_OPTIONS,
                "'expireAfterSeconds' is only supported on time-series collections and clustered \
                    collections"
            );
        }
        match expire_seconds(&a.value("expireAfterSeconds"), cx.now_ms())? {
            Some(n) => set.push(("expireAfterSeconds", Value::Int64(n))),
            None => unset.push("expireAfterSeconds"),
        }
    }
    set_capped(cx, old, &mut set)?;
    let bucketing = match (a.doc("timeseries"), series) {
        (Some(_), None) => bail!(
            code::INVALID_OPTIONS,
            "the option 'timeseries' is only supported on a time-series collection"
        ),
        (Some(change), Some(now)) => Some(timeseries::modify(now, change)?),
        (None, _) => None,
    };
    if let Some(b) = &bucketing {
        set.push(("timeseries", Value::from(b)));
    }
    Ok(constraint::settle(a, replace_fields(old, &set, &unset)))
}

fn set_capped<'v>(
    cx: &Ctx<'_, '_>,
    old: Doc<'_>,
    set: &mut Vec<(&'static str, Value<'v>)>,
) -> Result<()> {
    let is_capped = old.field("capped").truthy();
    for (name, kept, max) in [
        ("cappedSize", "size", 1i64 << 50),
        ("cappedMax", "max", i64::from(i32::MAX)),
    ] {
        let Some(n) = to_i64(&cx.args.value(name)) else {
            continue;
        };
        if old.contains("timeseries") {
            continue;
        }
        if !is_capped {
            bail!(
                code::INVALID_OPTIONS,
                "the option '{name}' is only supported on a capped collection"
            );
        }
        if n > max || name == "cappedSize" && n < 1 {
            bail!(
                code::BAD_VALUE,
                "{name} must be 1 to {max}, given {}",
                show(&cx.args.value(name))
            );
        }
        set.push((
            kept,
            if kept == "max" {
                Value::Int32(n.max(0) as i32)
            } else {
                Value::Int64(n)
            },
        ));
    }
    Ok(())
}

/// `old` with fields replaced in place, appended, or removed.
fn replace_fields(old: Doc<'_>, set: &[(&str, Value<'_>)], unset: &[&str]) -> DocBuf {
    DocBuf::build(|w| {
        for (name, v) in old.iter().filter(|(n, _)| !unset.contains(n)) {
            let new = set.iter().find(|(n, _)| *n == name).map(|(_, v)| *v);
            w.put(name, new.unwrap_or(v));
        }
        for (name, v) in set.iter().filter(|(n, _)| !old.contains(n)) {
            w.put(name, *v);
        }
    })
}

/// A validated change of one index.
struct IndexChange {
    index: Arc<Index>,
    hidden: Option<bool>,
    expire: Option<i64>,
    unique: bool,
    prepare_unique: Option<bool>,
}

impl IndexChange {
    /// # Errors
    /// 72 InvalidOptions, 27 IndexNotFound, 2 BadValue for `_id_`, 181 for an ambiguous key.
    fn check(c: &Collection, a: &request::args::Args<'_>) -> Result<Option<IndexChange>> {
        match (a.has("name"), a.has("keyPattern")) {
            (true, true) => bail!(
                code::INVALID_OPTIONS,
                "Cannot specify both key pattern and name"
            ),
            (false, false) => bail!(
                code::INVALID_OPTIONS,
                "Must specify either index name or key pattern"
            ),
            _ => {}
        }
        if ![
            "hidden",
            "expireAfterSeconds",
            "unique",
            "prepareUnique",
            "forceNonUnique",
        ]
        .iter()
        .any(|n| a.has(n))
        {
            bail!(
                code::INVALID_OPTIONS,
                "no expireAfterSeconds, hidden, unique, or prepareUnique field"
            );
        }
        let clustered = c.options().doc().contains("clusteredIndex");
        if clustered && a.doc("keyPattern").is_some_and(index_spec::is_id_key) {
            bail!(
                code::INDEX_NOT_FOUND,
                "the clustered index is none of the collection's indexes"
            );
        }
        if clustered && a.has("hidden") && is_clustered_index(c, a) {
            bail!(6_011_800, "Cannot hide the clustered index");
        }
        if a.str("name") == Some("_id_") || a.doc("keyPattern").is_some_and(index_spec::is_id_key) {
            if a.has("hidden") {
                bail!(code::BAD_VALUE, "can't hide _id index");
            }
            bail!(code::INVALID_OPTIONS, "the _id index cannot be changed");
        }
        let index = index_spec::check_change(find(c, a)?, &|name| a.has(name))?;
        let expire = new_age(&a.value("expireAfterSeconds"), &index)?;
        let flag = |name: &'static str| a.has(name).then(|| a.bool(name, false));
        let unique = a.bool("unique", false);
        if a.has("unique") && !unique {
            bail!(
                code::BAD_VALUE,
                "'unique' of collMod can only be true: an index does not become non-unique by it"
            );
        }
        if unique && !index.is_unique() && !index.spec().field("prepareUnique").truthy() {
            bail!(
                code::INVALID_OPTIONS,
                "Cannot make index unique, run collMod with prepareUnique: true first"
            );
        }
        let change = IndexChange {
            index,
            hidden: flag("hidden"),
            expire,
            unique,
            prepare_unique: flag("prepareUnique"),
        };
        change.check_prepared_alone()?;
        Ok(Some(change))
    }

    /// Checks that `prepareUnique` is the only change; options that keep their values do not count.
    ///
    /// # Errors
    /// 72 InvalidOptions.
    fn check_prepared_alone(&self) -> Result<()> {
        let spec = self.index.spec();
        let turns =
            |name: &str, new: Option<bool>| new.is_some_and(|new| new != spec.field(name).truthy());
        let ages = |new| to_i64(&spec.field("expireAfterSeconds")) != Some(new);
        if turns("prepareUnique", self.prepare_unique)
            && (turns("hidden", self.hidden) || self.expire.is_some_and(ages))
        {
            bail!(
                code::INVALID_OPTIONS,
                "'prepareUnique' cannot be changed together with 'hidden' or 'expireAfterSeconds'"
            );
        }
        Ok(())
    }

    /// Checks that the index could be unique.
    ///
    /// # Errors
    /// 359 CannotConvertIndexToUnique with the ids of documents that share a key.
    fn check_unique(&self, c: &Collection, go_on: &dyn Fn() -> Result<()>) -> Result<()> {
        if self.index.is_unique() {
            return Ok(());
        }
        let shared = c.shared_keys(&self.index, VIOLATION_BYTES_MAX, go_on)?;
        if shared.is_empty() {
            return Ok(());
        }
        let violations = DocBuf::build(|w| {
            let mut list = w.array("violations");
            for group in &shared {
                let mut one = list.doc();
                let mut ids = one.array("ids");
                for id in group {
                    ids.push(id.get());
                }
            }
        });
        Err(MongoError::new(
            code::CANNOT_CONVERT_INDEX_TO_UNIQUE,
            "Cannot convert the index to unique. Please resolve conflicting documents before \
                running collMod again.",
        )
        .extra(violations))
    }

    fn apply(
        self,
        c: Writer<'_>,
        reply: &mut model::DocWriter<'_>,
        command: Option<DocBuf>,
        building: &mut Option<IndexBuild>,
    ) -> Result<()> {
        let spec = self.index.spec();
        let (mut set, mut unset): (Vec<(&str, Value<'_>)>, Vec<&str>) = (Vec::new(), Vec::new());
        if let Some(new) = self.expire {
            let old = to_i64(&spec.field("expireAfterSeconds"));
            if old != Some(new) {
                if let Some(old) = old {
                    reply.put("expireAfterSeconds_old", old);
                }
                reply.put("expireAfterSeconds_new", new);
                set.push((
                    "expireAfterSeconds",
                    i32::try_from(new).map_or(Value::Int64(new), Value::Int32),
                ));
            }
        }
        let mut switch = |name: &'static str, new: Option<bool>, shown: [&str; 2]| {
            let old = spec.field(name).truthy();
            if let Some(new) = new.filter(|n| *n != old) {
                reply.put(shown[0], old).put(shown[1], new);
                if new {
                    set.push((name, Value::Bool(true)))
                } else {
                    unset.push(name)
                }
            }
        };
        switch("hidden", self.hidden, ["hidden_old", "hidden_new"]);
        switch(
            "prepareUnique",
            self.prepare_unique,
            ["prepareUnique_old", "prepareUnique_new"],
        );
        if self.unique && !self.index.is_unique() {
            reply.put("unique_new", true);
            set.push(("unique", Value::Bool(true)));
            unset.push("prepareUnique");
        }
        if set.is_empty() && unset.is_empty() {
            return Ok(());
        }
        let new = replace_fields(spec, &set, &unset);
        if self.unique {
            // The entries of a unique index have another format, so the index is rebuilt; the new
            // one replaces the old one when the build has succeeded.
            let name = self.index.name();
            let go_on = &|| c.operation().check();
            let on_progress = || c.operation().writes().checkpoint();
            let rebuilt = c.rebuild_index(name, new, command, building, &on_progress, go_on);
            return rebuilt.map_err(|e| match e.code() {
                // The documents may have been corrected since, but the rebuild has failed.
                code::DUPLICATE_KEY => self.check_unique(&c, go_on).err().unwrap_or(e),
                _ => e,
            });
        }
        c.respecify_index(self.index.name(), new, command)
    }
}

/// The age at which the index lets documents expire. Ages above the maximum give the maximum; NaN
/// is 0 here, unlike in a specification.
///
/// # Errors
/// 72 InvalidOptions.
fn new_age(v: &Value<'_>, index: &Index) -> Result<Option<i64>> {
    match to_i64(v).map(|n| n.min(i64::from(i32::MAX))) {
        Some(n) if n < 0 => bail!(
            code::INVALID_OPTIONS,
            "TTL index 'expireAfterSeconds' option must be at least 0, given {n}"
        ),
        Some(_) if index.key_pattern().count() > 1 => bail!(
            code::INVALID_OPTIONS,
            "TTL indexes are single-field indexes, compound indexes do not support TTL"
        ),
        other => Ok(other),
    }
}

/// Whether the command names the clustered index.
fn is_clustered_index(c: &Collection, a: &request::args::Args<'_>) -> bool {
    let options = c.options();
    let own = options.doc().field("clusteredIndex").as_doc();
    let name = own.map_or(Value::Missing, |d| d.field("name"));
    a.str("name") == Some(name.as_str().unwrap_or("_id_"))
}

fn find(c: &Collection, a: &request::args::Args<'_>) -> Result<Arc<Index>> {
    let indexes = c.indexes();
    if let Some(name) = a.str("name") {
        return match indexes.iter().find(|i| i.name() == name && i.is_ready()) {
            Some(i) => Ok(i.clone()),
            None => bail!(
                code::INDEX_NOT_FOUND,
                "cannot find index {name} for ns {}",
                c.ns()
            ),
        };
    }
    let key = a.doc("keyPattern").unwrap_or(Doc::EMPTY);
    let mut found = indexes
        .iter()
        .filter(|i| i.is_ready() && index_spec::same_key(i.key_pattern(), key));
    match (found.next(), found.next()) {
        (Some(i), None) => Ok(i.clone()),
        (None, _) => bail!(
            code::INDEX_NOT_FOUND,
            "cannot find index {key} for ns {}",
            c.ns()
        ),
        (Some(_), Some(_)) => bail!(
            181,
            "index keyPattern {key} matches several indexes, must use index name"
        ),
    }
}
