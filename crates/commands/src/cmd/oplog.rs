//! `appendOplogNote`, `replSetResizeOplog`: changes of the log by clients.

use context::command::Command;
use context::ctx::Ctx;
use model::{Doc, MongoError, Number, Result, Tag, Value, bail, code};
use request::Outcome;
use request::args::{Kind, arg};
use request::spec::{Durability, Privilege, flag};

pub(crate) static COMMANDS: &[Command] = &[
    Command::new(
        "appendOplogNote",
        "writes a note into the log of changes",
        Privilege::Cluster(&[auth::Action::AppendOplogNote]),
        flag::ADMIN | flag::WRITE | flag::WRITE_CONCERN,
        &[
            arg("data", Kind::Object).required(),
            arg("maxClusterTime", Kind::OneOf(&[Tag::TIMESTAMP])),
        ],
        note,
    )
    .durability(Durability::Everything),
    Command::new(
        "replSetResizeOplog",
        "changes how much of the log of changes is kept",
        Privilege::Cluster(&[auth::Action::ReplSetResizeOplog]),
        flag::ADMIN | flag::WRITE,
        &[
            arg("size", Kind::Number),
            arg("minRetentionHours", Kind::Number),
        ],
        resize,
    )
    .durability(Durability::Everything),
];

/// The error code for a log that is already past the requested time.
const STALE_CLUSTER_TIME: i32 = 209;
/// Allowed sizes of a log in megabytes.
const SIZE_MB: std::ops::RangeInclusive<f64> = 990.0..=1_073_741_824.0;

fn no_log() -> MongoError {
    MongoError::new(
        code::NO_REPLICATION_ENABLED,
        "there is no log of changes: not running with --replSet",
    )
}

fn note(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    if let Value::Timestamp(most) = cx.args.value("maxClusterTime") {
        let now = cx.service.operation_time();
        if now > most {
            bail!(
                STALE_CLUSTER_TIME,
                "Requested maxClusterTime {most} is less than the current operation time {now}"
            );
        }
    }
    let data = cx.args.doc("data").unwrap_or(Doc::EMPTY).to_buf();
    cx.service.store.note(&data)?.ok_or_else(no_log)?;
    cx.reported.writes_somewhere();
    Ok(Outcome::Reply)
}

fn resize(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    if cx.service.store.log().is_none() {
        return Err(no_log());
    }
    let number = |name: &str| Number::of(&cx.args.value(name)).map(Number::to_f64);
    let (size, hours) = (number("size"), number("minRetentionHours"));
    if size.is_none() && hours.is_none() {
        bail!(
            code::INVALID_OPTIONS,
            "replSetResizeOplog must specify 'size' or 'minRetentionHours'"
        );
    }
    if let Some(size) = size.filter(|n| !SIZE_MB.contains(n)) {
        bail!(
            code::BAD_VALUE,
            "BSON field 'size' value must be from {} to {}, actual value '{size}'",
            SIZE_MB.start(),
            SIZE_MB.end()
        );
    }
    if let Some(hours) = hours.filter(|n| !(0.0..=1e9).contains(n)) {
        bail!(
            code::BAD_VALUE,
            "BSON field 'minRetentionHours' value must be 0 or more, actual value '{hours}'"
        );
    }
    // Both numbers are within their limits, so the integers can hold them.
    let bytes = size.map(|mb| (mb * 1_048_576.0) as u64);
    let keep_ms = hours.map(|h| (h * 3_600_000.0) as u64);
    cx.service.store.resize_log(&cx.operation, bytes, keep_ms)?;
    cx.reported.writes_somewhere();
    Ok(Outcome::Reply)
}
