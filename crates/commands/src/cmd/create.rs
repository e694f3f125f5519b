//! `create`: collections, capped and clustered collections, time series, views. The options are
//! checked here and stored in the catalog in the format of `listCollections`.

use access::uuid::new_uuid;
use auth::{Action, Target};
use context::command::Command;
use context::ctx::Ctx;
use context::ddl::{encrypted, engine_options, index_spec, names, timeseries, view};
use context::read::{View, needs_of_view};
use context::rules::constraint;
use model::{Array, Doc, DocBuf, Namespace, Number, Result, Tag, Value, bail, code};
use operators::{Profile, collation};
use request::Outcome;
use request::args::{Arg, Args, Kind, arg, check_doc, show, to_i64};
use request::asked::RightsRequest;
use request::spec::{Privilege, flag};

pub(crate) static ARGS: &[Arg] = &[
    arg("capped", Kind::BoolLike),
    arg("autoIndexId", Kind::BoolLike),
    arg("idIndex", Kind::Object),
    arg("size", Kind::Number),
    arg("max", Kind::Number),
    arg("storageEngine", Kind::Object),
    arg("validator", Kind::Object),
    arg("validationLevel", Kind::Str),
    arg("validationAction", Kind::Str),
    arg("indexOptionDefaults", Kind::Object),
    arg("viewOn", Kind::Str),
    arg("pipeline", Kind::Array),
    arg("collation", Kind::Object),
    arg("recordPreImages", Kind::BoolLike),
    arg("changeStreamPreAndPostImages", Kind::Object),
    arg("timeseries", Kind::Object),
    arg(
        "clusteredIndex",
        Kind::OneOf(&[
            Tag::DOCUMENT,
            Tag::BOOL,
            Tag::INT64,
            Tag::INT32,
            Tag::DECIMAL128,
            Tag::DOUBLE,
        ]),
    )
    .strict_null(),
    arg(
        "expireAfterSeconds",
        Kind::OneOf(&[
            Tag::STRING,
            Tag::INT64,
            Tag::INT32,
            Tag::DECIMAL128,
            Tag::DOUBLE,
        ]),
    ),
    arg("encryptedFields", Kind::Object),
    arg("temp", Kind::BoolLike),
    arg("flags", Kind::Number),
    arg("recordIdsReplicated", Kind::Bool),
];

pub(crate) static COMMANDS: &[Command] = &[Command::new(
    "create",
    "creates a collection or view",
    Privilege::Asked(needs),
    flag::API_V1 | flag::WRITE_CONCERN | flag::WRITE | flag::IN_TRANSACTION | flag::RESUMABLE,
    ARGS,
    run,
)
.value(Kind::Collection)];

fn needs(asked: &RightsRequest<'_, '_>) -> Result<()> {
    let view = asked.args.str("viewOn").map(|source| View {
        source,
        pipeline: asked.args.array("pipeline").unwrap_or(Array::EMPTY),
    });
    create_needs(asked, &Namespace::new(asked.db, asked.collection()?)?, view)
}

/// Checks the rights to create a collection or a view.
pub(crate) fn create_needs(
    asked: &RightsRequest<'_, '_>,
    named: &Namespace,
    view: Option<View<'_>>,
) -> Result<()> {
    if let Some(view) = view {
        needs_of_view(asked, named, view)?;
    }
    for ns in [&created_namespace(named)?, named] {
        let target = Target::Collection(ns.db(), ns.coll());
        let may = asked.may(target, &[Action::CreateCollection]);
        asked.require(may || (view.is_none() && asked.may(target, &[Action::Insert])))?;
    }
    Ok(())
}

/// The object that `create` creates for this name: the name of a time series' buckets gives the
/// time series.
fn created_namespace(ns: &Namespace) -> Result<Namespace> {
    match ns.coll().strip_prefix("system.buckets.") {
        Some(series) => Namespace::new(ns.db(), series),
        None => Ok(ns.clone()),
    }
}

/// Largest capped collection: a petabyte.
const CAPPED_BYTES_MAX: i64 = 1 << 50;

fn run(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let named = names::read_collection(cx)?;
    let options = check(cx, &named)?;
    names::check_may_create(&named)?;
    let ns = created_namespace(&named)?;
    names::check_may_create(&ns)?;
    check_transaction(cx)?;
    if let Some(there) = cx.collection(&ns)? {
        // Outside of transactions, creating a collection a second time changes nothing.
        if cx.transaction.is_some() {
            bail!(code::NAMESPACE_EXISTS, "Collection {ns} already exists.");
        }
        if same_options(there.options().doc(), options.doc()) {
            return Ok(Outcome::Reply);
        }
        bail!(
            code::NAMESPACE_EXISTS,
            "namespace {ns} already exists, but with different options: {}",
            there.options().doc()
        );
    }
    let made_in = cx.transaction.as_deref();
    let c = cx
        .service
        .create(&cx.operation, &ns, options, new_uuid(), made_in)?;
    let catalog = cx.service.store.writer(&cx.operation);
    timeseries::add_own_index(&catalog, &c)?;
    if cx.transaction.is_none() {
        cx.service.ttl.track(&c);
    }
    Ok(Outcome::Reply)
}

/// Refuses views and time series in a transaction.
fn check_transaction(cx: &Ctx<'_, '_>) -> Result<()> {
    if cx.transaction.is_none() {
        return Ok(());
    }
    for (option, what) in [("viewOn", "view"), ("timeseries", "time-series collection")] {
        if cx.args.has(option) {
            bail!(
                code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION,
                "Cannot create a {what} in a multi-document transaction."
            );
        }
    }
    Ok(())
}

fn same_options(a: Doc<'_>, b: Doc<'_>) -> bool {
    a.count() == b.count()
        && a.iter()
            .all(|(k, v)| b.get(k).is_some_and(|w| model::compare(&v, &w).is_eq()))
}

/// Checks all options and returns them in their stored form.
fn check(cx: &Ctx<'_, '_>, ns: &Namespace) -> Result<DocBuf> {
    let a = &cx.args;
    let images = pre_images(a)?;
    let encrypted_fields = encrypted_fields(a)?;
    engine_options::check(
        "storageEngine",
        a.doc("storageEngine").unwrap_or(Doc::EMPTY),
    )?;
    engine_options::check_defaults(a.doc("indexOptionDefaults").unwrap_or(Doc::EMPTY))?;
    validation_words(a, cx.service.config.profile)?;
    constraint::check_new(a)?;
    let capped = parse_capped(a)?;
    let series = a.doc("timeseries").map(timeseries::create).transpose()?;
    let buckets = ns.coll().starts_with("system.buckets.");
    let clustered = parse_clustered(a, buckets)?;
    if let Some(spec) = a.doc("idIndex") {
        index_spec::check_id_index(spec, a.doc("collation"))?;
    }
    conflicts(a, ns, images, buckets)?;
    let collation = a
        .doc("collation")
        .map(|c| collation::normalize_typed(c, "create.collation"))
        .transpose()?;
    let collation = collation
        .as_ref()
        .map(DocBuf::doc)
        .filter(|c| c.field("locale").as_str() != Some("simple"));
    let expire = expire(a, series.is_some() || clustered.is_some(), cx.now_ms())?;
    if let Some(source) = a.str("viewOn") {
        return view_options(cx, ns, source, collation);
    }
    if let Some(v) = a.doc("validator").filter(|_| !buckets) {
        cx.service.check_validator(ns, v)?;
    }
    Ok(DocBuf::build(|w| {
        if let Some((size, max)) = capped {
            w.put("capped", true).put(
                "size",
                i32::try_from(size).map_or(Value::Int64(size), Value::Int32),
            );
            if let Some(max) = max {
                w.put("max", max);
            }
        }
        for name in [
            "storageEngine",
            "indexOptionDefaults",
            "validator",
            "validationLevel",
            "validationAction",
        ] {
            // The validator of buckets is not set by clients. Empty engine options are not stored.
            let says_nothing = matches!(name, "storageEngine" | "indexOptionDefaults")
                && a.doc(name).is_some_and(Doc::is_empty);
            if !buckets && !says_nothing {
                w.put(name, a.value(name));
            }
        }
        if images == Some(true) {
            w.doc("changeStreamPreAndPostImages").put("enabled", true);
        }
        for (name, value) in [("timeseries", &series), ("clusteredIndex", &clustered)] {
            if let Some(d) = value {
                w.put(name, d);
            }
        }
        if let Some(seconds) = expire {
            w.put("expireAfterSeconds", seconds);
        }
        if let Some(c) = collation {
            w.put("collation", c);
        }
        if let Some(d) = encrypted_fields {
            w.put("encryptedFields", d);
        }
    }))
}

/// The encrypted fields of the collection.
fn encrypted_fields<'a>(a: &Args<'a>) -> Result<Option<Doc<'a>>> {
    let Some(d) = a.doc("encryptedFields") else {
        return Ok(None);
    };
    encrypted::check(d)?;
    if a.has("timeseries") || a.has("viewOn") {
        bail!(
            6_346_401,
            "Encrypted collections cannot be views or time-series collections"
        );
    }
    if a.bool("capped", false) {
        bail!(6_367_301, "Encrypted collections cannot be capped");
    }
    Ok(Some(d))
}

fn view_options(
    cx: &Ctx<'_, '_>,
    ns: &Namespace,
    source: &str,
    collation: Option<Doc<'_>>,
) -> Result<DocBuf> {
    let on = view::check_source(ns.db(), source)?;
    let pipeline = cx.args.array("pipeline").unwrap_or(Array::EMPTY);
    view::check_pipeline(cx, &on, pipeline)?;
    let definition = DocBuf::build(|w| {
        w.put("viewOn", source);
        let mut out = w.array("pipeline");
        for stage in pipeline.iter().filter(|s| s.as_doc().is_some()) {
            out.push(stage);
        }
        drop(out);
        if let Some(c) = collation {
            w.put("collation", c);
        }
    });
    view::check_cycle(cx, ns, definition.doc())?;
    Ok(definition)
}

/// Refuses options that a time series does not support.
fn series_conflicts(
    a: &Args<'_>,
    buckets: bool,
    refuse: &dyn Fn(&str, &str) -> Result<()>,
) -> Result<()> {
    let excluded = [
        "idIndex",
        "size",
        "max",
        "validator",
        "validationLevel",
        "validationAction",
        "clusteredIndex",
        "changeStreamPreAndPostImages",
    ];
    // listCollections shows a validator and a clustered index for buckets, so both are accepted for
    // them.
    let printed = |name: &str| buckets && matches!(name, "validator" | "clusteredIndex");
    let given = excluded.into_iter().find(|n| a.has(n) && !printed(n));
    if let Some(name) = given {
        return refuse("timeseries", name);
    }
    if a.bool("capped", false) {
        return refuse("timeseries", "capped");
    }
    Ok(())
}

/// Refuses options that exclude one another.
fn conflicts(a: &Args<'_>, ns: &Namespace, images: Option<bool>, buckets: bool) -> Result<()> {
    let refuse = |first: &str, second: &str| -> Result<()> {
        bail!(
            code::INVALID_OPTIONS,
            "the options '{first}' and '{second}' cannot be given together"
        );
    };
    let any = |names: &[&'static str]| names.iter().copied().find(|n| a.has(n));
    if a.has("pipeline") && !a.has("viewOn") {
        bail!(
            code::INVALID_OPTIONS,
            "'pipeline' requires 'viewOn' to also be specified"
        );
    }
    let is_spread = store::asks_to_spread(a.doc("storageEngine").unwrap_or(Doc::EMPTY));
    if is_spread && (a.has("viewOn") || a.bool("capped", false)) {
        let other = if a.has("viewOn") { "viewOn" } else { "capped" };
        return refuse("storageEngine.tikv.spread", other);
    }
    if a.has("viewOn") {
        if a.has("clusteredIndex") {
            bail!(
                6_026_500,
                "The 'clusteredIndex' option is not supported with views"
            );
        }
        // Other storage options are accepted for a view and have no effect.
        if let Some(name) = any(&["idIndex", "timeseries"]) {
            return refuse("viewOn", name);
        }
        if images == Some(true) {
            return refuse("viewOn", "changeStreamPreAndPostImages");
        }
    }
    if a.has("timeseries") {
        series_conflicts(a, buckets, &refuse)?;
    } else if buckets {
        bail!(
            code::ILLEGAL_OPERATION,
            "a collection named {ns} needs the option 'timeseries'"
        );
    }
    if a.has("clusteredIndex") && !buckets {
        if a.has("idIndex") {
            return refuse("clusteredIndex", "idIndex");
        }
        if a.bool("capped", false) {
            bail!(
                6_049_200,
                "The 'capped' option is not supported with the 'clusteredIndex' option"
            );
        }
        if any(&["size", "max"]).is_some() {
            bail!(
                6_049_204,
                "The 'size' and 'max' options are not supported with the 'clusteredIndex' option"
            );
        }
    }
    Ok(())
}

/// The `(size, max)` of a capped collection.
fn parse_capped(a: &Args<'_>) -> Result<Option<(i64, Option<i32>)>> {
    if !a.bool("capped", false)
        && !a.has("clusteredIndex")
        && let Some(name) = ["size", "max"].into_iter().find(|n| a.has(n))
    {
        bail!(
            code::INVALID_OPTIONS,
            "the option '{name}' requires 'capped: true'"
        );
    }
    let size = a.has("size").then(|| to_i64(&a.value("size")).unwrap_or(0));
    if let Some(size) = size
        && !(1..=CAPPED_BYTES_MAX).contains(&size)
    {
        bail!(
            code::BAD_VALUE,
            "size must be 1 to {CAPPED_BYTES_MAX} bytes, given {}",
            show(&a.value("size"))
        );
    }
    let max = a.int("max");
    if let Some(max) = max
        && max > i64::from(i32::MAX)
    {
        bail!(
            code::BAD_VALUE,
            "max must be less than 2^31, given {}",
            show(&a.value("max"))
        );
    }
    if !a.bool("capped", false) {
        return Ok(None);
    }
    let Some(size) = size else {
        bail!(
            code::INVALID_OPTIONS,
            "the 'size' field is required when 'capped' is true"
        );
    };
    Ok(Some((size, max.filter(|m| *m > 0).map(|m| m as i32))))
}

/// Checks the level and action of validation.
///
/// # Errors
/// 2 BadValue for an unknown word.
pub(crate) fn validation_words(a: &Args<'_>, profile: Profile) -> Result<()> {
    let levels = ["off", "strict", "moderate", constraint::LEVEL];
    let known = levels.len() - usize::from(!profile.has_constraints());
    for (name, words) in [
        ("validationLevel", levels.get(..known).unwrap_or(&levels)),
        ("validationAction", &["error", "warn", "errorAndLog"][..]),
    ] {
        if let Some(word) = a.str(name)
            && !words.contains(&word)
        {
            bail!(
                code::BAD_VALUE,
                "Enumeration value '{word}' for field '{name}' is not a valid value, allowed are \
                    {}",
                words.join(", ")
            );
        }
    }
    Ok(())
}

/// Whether images before and after changes are stored; `None` when not given.
///
/// # Errors
/// 14 TypeMismatch, 40414 IDLMissingField and 40415 IDLFailedToParse for malformed arguments.
pub(crate) fn pre_images(a: &Args<'_>) -> Result<Option<bool>> {
    static TABLE: &[Arg] = &[arg("enabled", Kind::Bool).required()];
    let Some(d) = a.doc("changeStreamPreAndPostImages") else {
        return Ok(None);
    };
    Ok(Some(
        check_doc("changeStreamPreAndPostImages", TABLE, d)?.bool("enabled", false),
    ))
}

fn parse_clustered(a: &Args<'_>, buckets: bool) -> Result<Option<DocBuf>> {
    static TABLE: &[Arg] = &[
        arg("key", Kind::Object).required(),
        arg("unique", Kind::BoolLike).required(),
        arg("name", Kind::Str),
        arg("v", Kind::Number),
    ];
    let spec = match a.value("clusteredIndex") {
        Value::Missing => return Ok(None),
        Value::Document(d) => d,
        v if !v.truthy() => return Ok(None),
        // listCollections shows this value for buckets.
        Value::Bool(true) if buckets => return Ok(None),
        _ => bail!(
            5_979_703,
            "clusteredIndex: true is reserved for time-series buckets, give {{key: {{_id: 1}}, \
                unique: true}}"
        ),
    };
    let args = check_doc("create.clusteredIndex", TABLE, spec)?;
    let key = args.doc("key").unwrap_or(Doc::EMPTY);
    let on_id = key.count() == 1 && key.field("_id").as_i64_exact() == Some(1);
    if !on_id {
        bail!(
            code::INVALID_INDEX_SPECIFICATION_OPTION,
            "The 'clusteredIndex' option is only supported for key: {{_id: 1}}, given {key}"
        );
    }
    if !args.bool("unique", false) {
        bail!(
            5_979_700,
            "The 'clusteredIndex' option requires unique: true to be specified"
        );
    }
    if args.int("v").is_some_and(|v| v != 2) {
        bail!(
            5_979_704,
            "The 'clusteredIndex' option does not support index versions other than 2, given {}",
            show(&args.value("v"))
        );
    }
    let name = args.str("name").unwrap_or("_id_");
    Ok(Some(
        model::doc! { "v": 2i32, "key": { "_id": 1i32 }, "name": name, "unique": true },
    ))
}

/// Seconds after which documents of a time-series or clustered collection expire; `None` means
/// never.
///
/// # Errors
/// 72 InvalidOptions, also for an age that begins before the epoch.
pub(crate) fn expire_seconds(v: &Value<'_>, now_ms: i64) -> Result<Option<i64>> {
    let max = now_ms / 1000;
    match v {
        Value::String("off") => Ok(None),
        Value::String(other) => bail!(
            code::INVALID_OPTIONS,
            "expireAfterSeconds must be a number or 'off', given '{other}'"
        ),
        // If it counted as zero, all documents would be deleted.
        v if Number::of(v).is_some_and(Number::is_nan) => Ok(index_spec::ttl_seconds(v)),
        v => match to_i64(v) {
            Some(n) if (0..=max).contains(&n) => Ok(Some(n)),
            _ => bail!(
                code::INVALID_OPTIONS,
                "expireAfterSeconds must be 0 to {max} (the seconds since the epoch), given {}",
                show(v)
            ),
        },
    }
}

fn expire(a: &Args<'_>, allowed: bool, now_ms: i64) -> Result<Option<i64>> {
    if !a.has("expireAfterSeconds") {
        return Ok(None);
    }
    if !allowed {
        bail!(
            code::INVALID_OPTIONS,
            "'expireAfterSeconds' is only supported on time-series collections or when the \
                'clusteredIndex' option is specified"
        );
    }
    expire_seconds(&a.value("expireAfterSeconds"), now_ms)
}
