//! `validate`, `dbHash`, `compact`, `validateDBMetadata`.

use auth::{Action, Target};
use context::command::Command;
use context::ctx::Ctx;
use context::ddl::{describe, names, system_views};
use md5::{Digest, Md5};
use model::{Binary, Doc, DocWriter, Namespace, Result, Value, bail, code};
use request::Outcome;
use request::args::{Arg, Kind, arg, check_doc};
use request::asked::RightsRequest;
use request::spec::{Privilege, flag};
use std::sync::Arc;
use store::{Collection, ReadView, Validation};

pub(crate) static COMMANDS: &[Command] = &[
    Command::new(
        "validate",
        "checks documents and indexes of a collection",
        Privilege::Collection(&[Action::Validate]),
        flag::LENIENT | flag::LONG | flag::RESUMABLE,
        &[
            arg("full", Kind::Any),
            arg("background", Kind::Any),
            arg("repair", Kind::Any),
            arg("metadata", Kind::Any),
            arg("checkBSONConformance", Kind::Any),
        ],
        validate,
    )
    .value(Kind::Collection),
    Command::new(
        "dbHash",
        "checksums of collections",
        Privilege::Database(&[Action::DbHash]),
        flag::LENIENT | flag::LONG | flag::READ_CONCERN,
        &[arg("collections", Kind::Any)],
        db_hash,
    )
    .aliases(&["dbhash"]),
    Command::new(
        "compact",
        "gives back unused space",
        Privilege::Collection(&[Action::Compact]),
        flag::LONG,
        &[
            arg("force", Kind::BoolLike),
            arg("dryRun", Kind::Bool),
            arg("freeSpaceTargetMB", Kind::AtLeast(1, code::BAD_VALUE)),
        ],
        compact,
    )
    .value(Kind::Collection),
    Command::new(
        "validateDBMetadata",
        "finds what a version of the stable API does not allow",
        Privilege::Asked(needs_of_validate_metadata),
        flag::ADMIN,
        &[
            arg("apiParameters", Kind::Object).required(),
            arg("db", Kind::Str),
            arg("collection", Kind::Str),
        ],
        validate_metadata,
    ),
];

fn validate(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let ns = names::read_collection(cx)?;
    let on = |name: &str| cx.args.bool(name, false);
    let (full, background, repair, metadata) =
        (on("full"), on("background"), on("repair"), on("metadata"));
    if background && (full || repair) {
        bail!(
            code::INVALID_OPTIONS,
            "Running the validate command with {{ background: true }} is not supported with 'full' \
                or 'repair'"
        );
    }
    if metadata && (full || background || repair || on("checkBSONConformance")) {
        bail!(
            code::INVALID_OPTIONS,
            "Running the validate command with {{ metadata: true }} is not supported with any \
                other options"
        );
    }
    if repair && on("checkBSONConformance") {
        bail!(
            code::INVALID_OPTIONS,
            "Running the validate command with {{ repair: true }} is not supported with \
                checkBSONConformance"
        );
    }
    let named = ns.clone();
    let ns = names::of_buckets(cx.service, ns)?;
    let c = names::find_collection(cx, &ns)
        .map_err(|e| e.context(&format!("Collection '{ns}' does not exist to validate")))?;
    if c.is_view() {
        bail!(
            code::COMMAND_NOT_SUPPORTED_ON_VIEW,
            "Cannot validate a view"
        );
    }
    // Specifications are checked when they are created and read, so a metadata check scans nothing.
    let mut found = match metadata {
        true => None,
        false => Some(c.validate_while(&cx.operation, &|| cx.operation.check())?),
    };
    if let (true, Some(found)) = (full, &mut found) {
        for index in c
            .indexes()
            .iter()
            .filter(|i| i.is_columns() && i.is_ready())
        {
            let wrong = query::segments::wrong_values(&c, index, &cx.operation)?;
            found.errors.extend(wrong);
        }
    }
    put_validation(&mut cx.reply, &named, &c, found.as_ref())?;
    cx.reply.put(
        "repairMode",
        match (repair, on("fixMultikey")) {
            (true, _) => "FixErrors",
            (false, true) => "AdjustMultikey",
            (false, false) => "None",
        },
    );
    Ok(Outcome::Reply)
}

/// Writes the result for a collection under the requested name, which may be that of a time series
/// or of its buckets. `found` is `None` when only the metadata were checked.
fn put_validation(
    w: &mut DocWriter<'_>,
    ns: &Namespace,
    c: &Collection,
    found: Option<&Validation>,
) -> Result<()> {
    let errors = found.map_or(&[][..], |v| v.errors.as_slice());
    let ok = errors.is_empty();
    let buckets = ns != c.ns();
    // Buckets are clustered by their `_id`.
    let own_id = !buckets && !c.options().doc().contains("clusteredIndex");
    let small = |n: u64| {
        i32::try_from(n).map_or_else(
            |_| Value::Int64(i64::try_from(n).unwrap_or(i64::MAX)),
            Value::Int32,
        )
    };
    w.put("ns", ns.to_string().as_str()).put(
        "uuid",
        Binary {
            subtype: 4,
            bytes: &c.uuid(),
        },
    );
    let own = own_id.then(|| describe::id_index(c.options().doc()));
    let indexes = c.indexes();
    let count = indexes.len() + usize::from(own_id);
    if let Some(v) = found {
        let records = match buckets {
            true => u64::try_from(c.bucket_stats()?.buckets).unwrap_or(0),
            false => v.documents,
        };
        w.put("nInvalidDocuments", 0i32)
            .put("nNonCompliantDocuments", 0i32)
            .put("nrecords", small(records));
        w.put("nIndexes", small(count as u64));
        let mut keys = w.doc("keysPerIndex");
        if own_id {
            keys.put("_id_", small(records));
        }
        for (name, n) in &v.index_entries {
            keys.put(name, small(*n));
        }
    } else {
        w.put("nIndexes", small(count as u64));
    }
    let mut details = w.doc("indexDetails");
    if let Some(spec) = &own {
        details.doc("_id_").put("valid", true).put("spec", spec);
    }
    for i in indexes.iter() {
        let mut one = details.doc(i.name());
        one.put("valid", ok).put("spec", i.spec());
    }
    drop(details);
    w.put("valid", ok).put("repaired", false);
    w.array("warnings");
    let mut list = w.array("errors");
    for e in errors {
        list.push(e);
    }
    drop(list);
    for name in ["extraIndexEntries", "missingIndexEntries", "corruptRecords"] {
        w.array(name);
    }
    if !ok {
        w.put(
            "advice",
            "A corrupt namespace has been detected: restore it from a backup",
        );
    }
    Ok(())
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// The names in `collections`; `None` for all collections.
fn parse_collections<'a>(cx: &Ctx<'a, '_>) -> Result<Option<Vec<&'a str>>> {
    let Value::Array(names) = cx.args.value("collections") else {
        return Ok(None);
    };
    let mut list = Vec::new();
    for v in names.iter() {
        match v {
            Value::String(s) => list.push(s),
            v => bail!(
                code::BAD_VALUE,
                "collections must be an array of strings, given {}",
                v.type_name()
            ),
        }
    }
    Ok(Some(list).filter(|l| !l.is_empty()))
}

fn db_hash(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let start_us = cx.service.clock.monotonic_us();
    let chosen = parse_collections(cx)?;
    let mut found: Vec<(String, Arc<Collection>)> = Vec::new();
    for e in cx.service.store.list_collections(cx.db)? {
        let wanted = chosen.as_ref().is_none_or(|l| l.contains(&e.name.as_str()));
        let system = e.name.starts_with("system.")
            && !matches!(e.name.as_str(), "system.js" | "system.views");
        if !wanted || system {
            continue;
        }
        if let Some(c) = cx
            .service
            .store
            .collection(&Namespace::new(cx.db, &e.name)?)?
            .filter(|c| !c.is_view())
        {
            let name = if names::is_timeseries(&c) {
                format!("system.buckets.{}", e.name)
            } else {
                e.name
            };
            found.push((name, c));
        }
    }
    let mut sums = Vec::new();
    for (name, c) in &found {
        sums.push((name.as_str(), hash(c, &|| cx.operation.check())?, c.uuid()));
    }
    let views = Namespace::new(cx.db, system_views::NAME)?;
    if chosen
        .as_ref()
        .is_none_or(|l| l.contains(&system_views::NAME))
        && system_views::is_there(cx.service, &ReadView::LATEST, &views)?
    {
        sums.push((
            system_views::NAME,
            views_sum(cx)?,
            system_views::uuid(cx.db),
        ));
    }
    sums.sort();
    let mut whole = Md5::new();
    sums.iter()
        .for_each(|(_, sum, _)| whole.update(sum.as_bytes()));
    cx.reply.put("host", &cx.service.config.host);
    let mut out = cx.reply.doc("collections");
    for (name, sum, _) in &sums {
        out.put(name, sum);
    }
    drop(out);
    let mut capped = cx.reply.array("capped");
    for (name, _) in found.iter().filter(|(_, c)| names::is_capped(c)) {
        capped.push(name);
    }
    drop(capped);
    let mut uuids = cx.reply.doc("uuids");
    for (name, _, uuid) in &sums {
        uuids.put(
            name,
            Binary {
                subtype: 4,
                bytes: uuid,
            },
        );
    }
    drop(uuids);
    let millis =
        i32::try_from((cx.service.clock.monotonic_us() - start_us) / 1000).unwrap_or(i32::MAX);
    cx.reply
        .put("md5", hex(&whole.finalize()).as_str())
        .put("timeMillis", millis);
    Ok(Outcome::Reply)
}

/// The checksum of `system.views`.
fn views_sum(cx: &Ctx<'_, '_>) -> Result<String> {
    let mut md5 = Md5::new();
    for view in system_views::documents(cx.service, &ReadView::LATEST, cx.db)? {
        md5.update(view.doc().as_bytes());
    }
    Ok(hex(&md5.finalize()))
}

/// MD5 of the documents in the order of `_id`.
fn hash(c: &Arc<Collection>, go_on: &dyn Fn() -> Result<()>) -> Result<String> {
    let mut md5 = Md5::new();
    let mut scan = c.scan_keys(&ReadView::LATEST, None, None, false);
    while scan.visit(1024, &mut |row| {
        md5.update(row.doc.as_bytes());
        true
    })? {
        go_on()?;
    }
    Ok(hex(&md5.finalize()))
}

/// Smallest amount of space, in MB, for which a compaction runs unless the client sets another.
const COMPACT_TARGET_MB: i64 = 20;

fn compact(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let ns = names::read_collection(cx)?;
    let c = names::find_non_view(cx, &ns).map_err(|e| {
        if e.code() == code::NAMESPACE_NOT_FOUND {
            names::not_found(&ns)
        } else {
            e
        }
    })?;
    if cx.args.bool("dryRun", false) {
        put_size(&mut cx.reply, "estimatedBytesFreed", c.unused_bytes()?);
        return Ok(Outcome::Reply);
    }
    let check = || cx.operation.check();
    // Open buckets are packed into columns first.
    if c.is_series() {
        c.writer(&cx.operation).pack_buckets(&check)?;
    }
    cx.service.flush()?;
    let target = cx
        .args
        .int("freeSpaceTargetMB")
        .unwrap_or(COMPACT_TARGET_MB);
    let freed = match c.unused_bytes()? {
        unused if (unused >> 20) < u64::try_from(target).unwrap_or(0) => 0,
        _ => c.compact(&check)?,
    };
    put_size(&mut cx.reply, "bytesFreed", freed);
    Ok(Outcome::Reply)
}

/// As in mongod, a size has 32 bits if they are sufficient.
fn put_size(reply: &mut DocWriter, name: &str, bytes: u64) {
    match i32::try_from(bytes) {
        Ok(small) => reply.put(name, small),
        Err(_) => reply.put(name, i64::try_from(bytes).unwrap_or(i64::MAX)),
    };
}

/// The properties of a collection that version 1 of the stable API does not allow.
fn api_errors(c: &Collection) -> Vec<String> {
    let special = |key: Doc<'_>| {
        key.iter()
            .any(|(_, v)| matches!(v, Value::String("text" | "geoHaystack")))
    };
    let indexes = c.indexes();
    let bad = indexes
        .iter()
        .filter(|i| special(i.key_pattern()) || i.is_sparse());
    bad.map(|i| {
        format!(
            "The index with name {} is not allowed in API version 1.",
            i.name()
        )
    })
    .collect()
}

/// Needs the rights on one database, or on all.
fn needs_of_validate_metadata(asked: &RightsRequest<'_, '_>) -> Result<()> {
    let target = match asked.args.str("db") {
        Some(db) => Target::Database(db),
        None => Target::AnyNormal,
    };
    asked.needs(target, &[Action::Validate])
}

fn validate_metadata(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    static TABLE: &[Arg] = &[
        arg("version", Kind::Str).required(),
        arg("strict", Kind::Bool).strict_null(),
        arg("deprecationErrors", Kind::Bool).strict_null(),
    ];
    let api = check_doc(
        "validateDBMetadata.apiParameters",
        TABLE,
        cx.args.doc("apiParameters").unwrap_or(Doc::EMPTY),
    )?;
    let db = cx.args.str("db");
    if let Some(db) = db {
        check_db(db)?;
    }
    let coll = cx.args.str("collection");
    if let Some(coll) = coll {
        // Only the syntax is checked; the collection need not be one that can exist.
        if coll.is_empty() || coll.starts_with('.') || coll.contains('\0') {
            bail!(code::INVALID_NAMESPACE, "Invalid collection name: '{coll}'");
        }
    }
    let strict = api.bool("strict", false) && api.str("version") == Some("1");
    let mut found: Vec<(Namespace, String)> = Vec::new();
    if strict {
        for name in cx
            .service
            .store
            .list_databases()?
            .into_iter()
            .filter(|n| db.is_none_or(|d| d == n))
        {
            for e in cx
                .service
                .store
                .list_collections(&name)?
                .into_iter()
                .filter(|e| coll.is_none_or(|c| c == e.name))
            {
                let ns = Namespace::new(&name, &e.name)?;
                if let Some(c) = cx.service.store.collection(&ns)? {
                    found.extend(api_errors(&c).into_iter().map(|m| (ns.clone(), m)));
                }
            }
        }
    }
    let mut out = cx.reply.array("apiVersionErrors");
    for (ns, message) in &found {
        let mut one = out.doc();
        one.put("ns", ns.to_string().as_str())
            .put("code", code::API_STRICT_ERROR)
            .put("codeName", "APIStrictError")
            .put("errmsg", message);
    }
    Ok(Outcome::Reply)
}

/// This command has its own error for invalid database names.
fn check_db(db: &str) -> Result<()> {
    if db.is_empty() {
        bail!(28_539, "the database name must not be empty");
    }
    if db.len() > 63 || db.contains(['.', '\0']) {
        bail!(code::INVALID_NAMESPACE, "Invalid database name: '{db}'");
    }
    if db.contains(['/', '\\', ' ', '"']) {
        bail!(13_280, "invalid db name: {db}");
    }
    Ok(())
}
