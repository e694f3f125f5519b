//! `fsync`, `fsyncUnlock`, `autoCompact`, `profile`, `top`, `rotateCertificates`, and commands
//! without effect, because this server has neither authentication caches nor free-space reports.

use auth::{Action, Target};
use context::command::Command;
use context::ctx::Ctx;
use dispatch::observe::profile_collection;
use model::{Result, Value, bail, code};
use request::Outcome;
use request::args::{Kind, arg, to_i64, wrong_type};
use request::asked::RightsRequest;
use request::spec::OpClass::{Command as Other, Delete, GetMore, Insert, Query, Update};
use request::spec::{Privilege, flag};
use state::profile::ProfileLevel;
use std::sync::atomic::Ordering;

pub(crate) static COMMANDS: &[Command] = &[
    Command::new(
        "fsync",
        "makes all writes durable, with lock: true also holds back further ones",
        Privilege::Cluster(&[Action::Fsync]),
        flag::ADMIN | flag::LONG,
        &[
            arg("lock", Kind::BoolLike),
            arg(
                "fsyncLockAcquisitionTimeoutMillis",
                Kind::OneOf(&[model::Tag::INT32]),
            ),
            arg("async", Kind::BoolLike),
            arg("forBackup", Kind::BoolLike),
        ],
        fsync,
    ),
    Command::new(
        "fsyncUnlock",
        "lets writes go on after fsync with lock: true",
        Privilege::Cluster(&[Action::Unlock]),
        flag::ADMIN | flag::LENIENT,
        &[],
        fsync_unlock,
    ),
    Command::new(
        "autoCompact",
        "turns background compaction on or off",
        Privilege::Cluster(&[Action::Compact]),
        flag::ADMIN,
        &[
            arg("freeSpaceTargetMB", Kind::Number),
            arg("runOnce", Kind::Bool),
        ],
        auto_compact,
    )
    .value(Kind::Bool),
    Command::new(
        "profile",
        "sets which operations are recorded",
        Privilege::Asked(needs_of_profile),
        0,
        &[
            arg("slowms", Kind::Number),
            arg("sampleRate", Kind::Number),
            arg("filter", Kind::Any),
        ],
        profile,
    )
    .value(Kind::Number),
    Command::new(
        "top",
        "time spent per collection",
        Privilege::Cluster(&[Action::Top]),
        flag::ADMIN | flag::LENIENT,
        &[],
        top,
    ),
    Command::new(
        "rotateCertificates",
        "reads certificates again",
        Privilege::Cluster(&[Action::RotateCertificates]),
        flag::ADMIN,
        &[arg("message", Kind::Str)],
        rotate_certificates,
    ),
    Command::new(
        "rotateEncryptionKey",
        "seals the data key by what the file of the master key holds now",
        Privilege::Cluster(&[Action::RotateCertificates]),
        flag::ADMIN,
        &[],
        rotate_encryption_key,
    ),
    Command::new(
        "dropConnections",
        "closes pooled connections to other servers, of which a single server has none",
        Privilege::Cluster(&[Action::DropConnections]),
        flag::ADMIN,
        &[arg("hostAndPort", Kind::Array).required()],
        drop_connections,
    )
    .value(Kind::Any),
    Command::new(
        "invalidateUserCache",
        "forgets cached users",
        Privilege::Cluster(&[Action::InvalidateUserCache]),
        flag::ADMIN | flag::LENIENT,
        &[],
        |cx| {
            cx.service.access.note_change()?;
            Ok(Outcome::Reply)
        },
    ),
];

fn rotate_certificates(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    if let Some(rotate) = cx.service.state.rotate_certificates.get()
        && let Err(e) = rotate()
    {
        bail!(
            code::OPERATION_FAILED,
            "certificates stay as they were: {e}"
        );
    }
    Ok(Outcome::Reply)
}

fn rotate_encryption_key(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let Some(rotate) = cx.service.state.rotate_encryption_key.get() else {
        bail!(
            code::ILLEGAL_OPERATION,
            "the data is not encrypted: there is no key to rotate"
        );
    };
    let result = rotate();
    let number = result.as_ref().err().map_or(0, |_| code::OPERATION_FAILED);
    cx.service.audit(
        cx.operation.connection(),
        "rotateEncryptionKey",
        number,
        |_| {},
    );
    match result {
        Ok(()) => Ok(Outcome::Reply),
        Err(e) => bail!(code::OPERATION_FAILED, "the key stays as it was: {e}"),
    }
}

fn fsync(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    cx.service.flush()?;
    if cx.args.bool("lock", false) {
        let count = cx.service.state.fsync_locks.fetch_add(1, Ordering::AcqRel) + 1;
        cx.reply.put(
            "info",
            "now locked against writes, use db.fsyncUnlock() to unlock",
        );
        cx.reply.put("lockCount", count);
        cx.reply
            .put("seeAlso", "http://dochub.mongodb.org/core/fsynccommand");
    } else {
        cx.reply.put("numFiles", 1i32);
    }
    Ok(Outcome::Reply)
}

fn fsync_unlock(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let locks = &cx.service.state.fsync_locks;
    let taken = locks.fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| {
        (n > 0).then_some(n - 1)
    });
    let Ok(before) = taken else {
        bail!(
            code::ILLEGAL_OPERATION,
            "fsyncUnlock called when not locked"
        )
    };
    cx.reply
        .put("info", "fsyncUnlock completed")
        .put("lockCount", before - 1);
    Ok(Outcome::Reply)
}

/// Checks the names although there is no pool of connections.
fn drop_connections(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let hosts = cx.args.array("hostAndPort").unwrap_or(model::Array::EMPTY);
    for (i, host) in hosts.iter().enumerate() {
        match host {
            Value::Null | Value::Undefined => {}
            Value::String(s) => check_host(s)?,
            v => {
                let path = format!("dropConnections.hostAndPort.{i}");
                return Err(wrong_type(&path, &v, &[model::Tag::STRING]));
            }
        }
    }
    Ok(Outcome::Reply)
}

/// Checks an address: `host`, `host:port` or `[v6]:port`.
fn check_host(s: &str) -> Result<()> {
    let (host, port) = match s.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => (host, Some(port)),
        // An IPv6 address must be in brackets.
        Some(_) => ("", None),
        None => (s, None),
    };
    let port_is_bad = |p: &str| {
        p.parse::<u16>()
            .is_ok_and(|n| n > 0)
            .then_some(())
            .is_none()
    };
    if host.is_empty() || port.is_some_and(port_is_bad) {
        bail!(
            code::FAILED_TO_PARSE,
            "Bad host and port in dropConnections: '{s}'"
        );
    }
    Ok(())
}

/// Largest target in MB: the number of bytes of a larger one exceeds 63 bits.
const FREE_SPACE_MB_MAX: i64 = (1 << 43) - 1;

fn auto_compact(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let enable = cx.value().truthy();
    let target = cx.args.int("freeSpaceTargetMB");
    let run_once = cx.args.bool("runOnce", false);
    let mut current = cx.service.state.auto_compact.lock();
    // The upper limit only applies when a compaction will run.
    if let Some(mb) = target
        && (mb < 1 || enable && mb > FREE_SPACE_MB_MAX)
    {
        bail!(
            code::BAD_VALUE,
            "freeSpaceTargetMB must be 1 to {FREE_SPACE_MB_MAX}, given {mb}"
        );
    }
    if !enable {
        *current = None;
        return Ok(Outcome::Reply);
    }
    // 20 MB is MongoDB's own default.
    let wanted = (target.unwrap_or(20), run_once);
    if current.is_some_and(|c| c != wanted) {
        bail!(
            code::ALREADY_INITIALIZED,
            "background compaction is already running with another configuration"
        );
    }
    *current = Some(wanted);
    Ok(Outcome::Reply)
}

/// The level that `profile` sets; `None` leaves it unchanged.
fn level_to_set(value: Value<'_>) -> Option<i32> {
    let level = i32::try_from(to_i64(&value)?).ok()?;
    (0..=2).contains(&level).then_some(level)
}

/// Reading the level needs fewer rights than setting it.
fn needs_of_profile(asked: &RightsRequest<'_, '_>) -> Result<()> {
    let given = |name: &str| !matches!(asked.args.raw_value(name), Value::Missing);
    let sets = level_to_set(asked.value).is_some()
        || ["slowms", "sampleRate", "filter"].into_iter().any(given);
    let log = Target::Collection(asked.db, "system.profile");
    if !sets && asked.may(log, &[Action::Find]) {
        return Ok(());
    }
    asked.needs(Target::Database(asked.db), &[Action::EnableProfiler])
}

fn profile(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let state = &cx.service.state;
    let level = level_to_set(cx.value());
    let filter = match cx.args.raw_value("filter") {
        Value::Missing => None,
        Value::String("unset") => Some(None),
        Value::Document(d) => Some(Some(d.to_buf())),
        v => bail!(
            code::BAD_VALUE,
            "Expected an object, or the string 'unset', as the filter of profile, given {}",
            request::args::show(&v)
        ),
    };
    let (was, before) = state.profile.of(cx.db);
    let mut slow = before;
    if let Some(ms) = cx.args.int("slowms") {
        slow.ms = ms.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32;
    }
    if let Some(rate) = cx.args.value("sampleRate").as_f64() {
        if !(0.0..=1.0).contains(&rate) {
            bail!(
                code::BAD_VALUE,
                "'sampleRate' must be between 0.0 and 1.0 inclusive, given {rate}"
            );
        }
        slow.sample_rate = rate;
    }
    let sets = level.is_some();
    let new = ProfileLevel {
        level: level.unwrap_or(was.level),
        filter: filter.clone().unwrap_or_else(|| was.filter.clone()),
    };
    if let Some(f) = new.filter.as_ref().filter(|_| filter.is_some()) {
        cx.service.query_matcher(f.doc())?;
    }
    if new.level > 0 && sets {
        profile_collection(cx.service, &cx.operation, cx.db)?;
    }
    let changes = sets || filter.is_some();
    state.profile.set(cx.db, changes.then_some(new), slow);
    cx.reply
        .put("was", was.level)
        .put("slowms", before.ms)
        .put("sampleRate", before.sample_rate);
    if let Some(filter) = &was.filter {
        let filter = query::shown::canonical(filter.doc());
        cx.reply.put("filter", &filter).put(
            "note",
            "When a filter expression is set, slowms and \
            sampleRate are not used for profiling and slow-query log lines.",
        );
    }
    Ok(Outcome::Reply)
}

fn top(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let totals = cx.service.counters.namespaces();
    let mut out = cx.reply.doc("totals");
    out.put("note", "all times in microseconds");
    for (ns, t) in totals {
        let mut one = out.doc(&ns);
        let all = [Query, GetMore, Insert, Update, Delete, Other];
        let rows = [
            ("total", t.sum(&all)),
            ("readLock", t.sum(&[Query, GetMore])),
            ("writeLock", t.sum(&[Insert, Update, Delete])),
            ("queries", t.tally(Query)),
            ("getmore", t.tally(GetMore)),
            ("insert", t.tally(Insert)),
            ("update", t.tally(Update)),
            ("remove", t.tally(Delete)),
            ("commands", t.tally(Other)),
        ];
        for (name, (time_us, count)) in rows {
            one.doc(name).put("time", time_us).put("count", count);
        }
    }
    Ok(Outcome::Reply)
}
