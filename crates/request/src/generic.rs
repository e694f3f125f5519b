//! Generic arguments, which every command accepts: session, concerns, time limit, stable API.

use super::args::{Arg, Kind, arg, check_doc, wrong_type};
use super::concern::{ReadConcern, ReadLevel, WriteConcern, read_concern, write_concern};
use super::spec::{Spec, flag};
use model::{Binary, Doc, MongoError, Number, Result, Tag, Timestamp, Value, bail, code};

/// Session of a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lsid {
    /// UUID of the session.
    pub id: [u8; 16],
    /// The digest of the session's user, if the client sends one.
    pub uid: Option<[u8; 32]>,
}

/// All generic arguments of one request, checked.
#[derive(Clone, Debug, Default)]
pub struct Generic<'a> {
    /// `$db`.
    pub db: &'a str,
    /// `lsid`.
    pub lsid: Option<Lsid>,
    /// `txnNumber`.
    pub txn_number: Option<i64>,
    /// `autocommit` (false inside a transaction).
    pub autocommit: Option<bool>,
    /// `startTransaction`.
    pub start_transaction: bool,
    /// `maxTimeMS`, 0 without limit.
    pub max_time_ms: i64,
    /// `readConcern`.
    pub read_concern: Option<ReadConcern>,
    /// `writeConcern`.
    pub write_concern: Option<WriteConcern>,
    /// `$clusterTime`, the latest time the client has seen.
    pub cluster_time: Option<Timestamp>,
    /// `comment`.
    pub comment: Value<'a>,
    /// Whether `apiVersion` was given.
    pub api: bool,
    /// `apiStrict`.
    pub api_strict: bool,
    /// `rawData`: read a time-series collection as its buckets.
    pub raw_data: bool,
    /// `$readPreference` allows a secondary to answer.
    pub secondary_ok: bool,
    /// `mayBypassWriteBlocking`: the operation may write while user writes are blocked.
    pub may_bypass_block: Option<bool>,
}

impl Generic<'_> {
    /// True for a statement of a transaction, its commit and its abort.
    pub fn is_in_transaction(&self) -> bool {
        self.autocommit == Some(false)
    }
    /// True when the read concern promises data that is durable.
    pub fn promises_durable_reads(&self) -> bool {
        let level = self.read_concern.map_or(ReadLevel::Local, |c| c.level);
        matches!(
            level,
            ReadLevel::Majority | ReadLevel::Linearizable | ReadLevel::Snapshot
        )
    }
}

/// Generic arguments that are not checked.
const IGNORED: &[&str] = &[
    "$audit",
    "$client",
    "$configServerState",
    "$oplogQueryData",
    "$queryOptions",
    "$replData",
    "$gleStats",
    "$traceCtx",
    "coordinator",
    "maxTimeMSOpOnly",
    "databaseVersion",
    "shardVersion",
    "tracking_info",
    "expectPrefix",
    "requestGossipRoutingCache",
    "serialization_context",
    "versionContext",
    "help",
    "clientOperationKey",
    "$tenant",
    "$topologyTime",
    "$configTime",
    "ifrFlags",
    "isSearchIndexManagement",
    "$maxTimeMS",
];

/// Takes `name` if it is a generic argument. Returns false if it is an argument of the command.
///
/// # Errors
/// Those of the individual checks.
pub fn take<'a>(
    g: &mut Generic<'a>,
    command: &Spec,
    name: &str,
    value: Value<'a>,
    body: Doc<'_>,
    standalone: bool,
) -> Result<bool> {
    let absent = matches!(value, Value::Null | Value::Undefined);
    match name {
        "$db" | "apiVersion" | "apiStrict" | "apiDeprecationErrors" => {}
        "lsid" if absent => {}
        "lsid" => g.lsid = Some(lsid(&value)?),
        "txnNumber" => match value {
            Value::Int64(n) if n >= 0 => g.txn_number = Some(n),
            Value::Int64(n) => bail!(
                code::INVALID_OPTIONS,
                "Transaction number cannot be negative, given {n}"
            ),
            _ if absent => {}
            v => return Err(wrong_type("txnNumber", &v, &[Tag::INT64])),
        },
        "autocommit" | "startTransaction" | "rawData" | "mayBypassWriteBlocking" => match value {
            Value::Bool(b) if name == "mayBypassWriteBlocking" => g.may_bypass_block = Some(b),
            Value::Bool(b) if name == "autocommit" => g.autocommit = Some(b),
            Value::Bool(b) if name == "rawData" => g.raw_data = b,
            Value::Bool(true) => g.start_transaction = true,
            Value::Bool(false) => bail!(
                code::INVALID_OPTIONS,
                "Specifying startTransaction=false is not allowed."
            ),
            _ if absent => {}
            v => return Err(wrong_type(name, &v, &[Tag::BOOL])),
        },
        "maxTimeMS" => g.max_time_ms = max_time_ms(&value)?,
        "comment" => g.comment = value,
        "readConcern" if absent => {}
        "readConcern" => {
            // The first statement of a transaction carries the read concern of the transaction,
            // whichever command it is.
            let in_transaction = body.contains("autocommit");
            let concern = read_concern(command, &value, standalone, in_transaction)?;
            g.read_concern = Some(concern);
        }
        "writeConcern" if absent => {}
        "writeConcern" => {
            let doc = value
                .as_doc()
                .ok_or_else(|| wrong_type("writeConcern", &value, &[Tag::DOCUMENT]))?;
            if !command.is(flag::WRITE_CONCERN) {
                bail!(
                    code::INVALID_OPTIONS,
                    "Command {} does not support writeConcern",
                    command.name
                );
            }
            g.write_concern = Some(write_concern(doc, standalone)?);
        }
        "$readPreference" => g.secondary_ok = read_preference(&value)?,
        "$clusterTime" => g.cluster_time = Some(cluster_time(&value)?),
        _ => return Ok(IGNORED.contains(&name)),
    }
    Ok(true)
}

/// True for the name of a generic argument.
pub fn is_generic(name: &str) -> bool {
    const CHECKED: &[&str] = &[
        "$db",
        "apiVersion",
        "apiStrict",
        "apiDeprecationErrors",
        "lsid",
        "txnNumber",
        "autocommit",
        "startTransaction",
        "rawData",
        "mayBypassWriteBlocking",
        "maxTimeMS",
        "comment",
        "readConcern",
        "writeConcern",
        "$readPreference",
        "$clusterTime",
    ];
    CHECKED.contains(&name) || IGNORED.contains(&name)
}

/// Checks the stable API before the arguments.
///
/// # Errors
/// 322 APIVersionError, 323 APIStrictError, 4886600 for strictness without a version, 14
/// TypeMismatch.
pub fn api(g: &mut Generic<'_>, command: &Spec, body: Doc<'_>) -> Result<()> {
    let flag_of = |name: &str| match body.field(name) {
        Value::Missing | Value::Null => Ok(false),
        Value::Bool(b) => Ok(b),
        v => Err(wrong_type(name, &v, &[Tag::BOOL])),
    };
    let (strict, deprecation) = (flag_of("apiStrict")?, flag_of("apiDeprecationErrors")?);
    match body.field("apiVersion") {
        Value::Missing | Value::Null => {
            if strict
                || deprecation
                || body.contains("apiStrict")
                || body.contains("apiDeprecationErrors")
            {
                bail!(
                    4_886_600,
                    "Provided apiStrict and/or apiDeprecationErrors without passing apiVersion"
                );
            }
        }
        Value::String("1") => {
            g.api = true;
            g.api_strict = strict;
            if strict && !command.is(flag::API_V1) {
                bail!(
                    code::API_STRICT_ERROR,
                    "Provided apiStrict:true, but the command {} is not in API Version 1",
                    command.name
                );
            }
        }
        Value::String(other) => bail!(
            code::API_VERSION_ERROR,
            "API version must be \"1\", given \"{other}\""
        ),
        v => return Err(wrong_type("apiVersion", &v, &[Tag::STRING])),
    }
    Ok(())
}

fn lsid(value: &Value<'_>) -> Result<Lsid> {
    let doc = value
        .as_doc()
        .ok_or_else(|| wrong_type("OperationSessionInfo.lsid", value, &[Tag::DOCUMENT]))?;
    static TABLE: &[Arg] = &[
        arg("id", Kind::OneOf(&[Tag::BINARY])).required(),
        arg("uid", Kind::OneOf(&[Tag::BINARY])),
        arg("txnNumber", Kind::Number),
        arg("txnUUID", Kind::OneOf(&[Tag::BINARY])),
    ];
    let args = check_doc("OperationSessionInfo.lsid", TABLE, doc)?;
    let id = uuid(&args.value("id"))?;
    let uid = match args.value("uid") {
        Value::Binary(b) => Some(digest(b.bytes)?),
        _ => None,
    };
    Ok(Lsid { id, uid })
}

/// The digest of a user, from its bytes.
///
/// # Errors
/// 12 UnsupportedFormat for another length.
fn digest(bytes: &[u8]) -> Result<[u8; 32]> {
    <[u8; 32]>::try_from(bytes).map_err(|_| {
        MongoError::new(
            code::UNSUPPORTED_FORMAT,
            format!(
                "lsid.uid must be a digest of 32 bytes, given {} bytes",
                bytes.len()
            ),
        )
    })
}

/// A UUID of subtype 4.
///
/// # Errors
/// 14 TypeMismatch for another subtype, 207 InvalidUUID for another length.
pub fn uuid(value: &Value<'_>) -> Result<[u8; 16]> {
    match value {
        Value::Binary(Binary { subtype: 4, bytes }) => <[u8; 16]>::try_from(*bytes).map_err(|_| {
            MongoError::new(
                code::INVALID_UUID,
                format!(
                    "uuid must be a 16-byte binary field, given {} bytes",
                    bytes.len()
                ),
            )
        }),
        Value::Binary(b) => bail!(
            code::TYPE_MISMATCH,
            "a UUID must be binary of subtype 4, given subtype {}",
            b.subtype
        ),
        v => bail!(
            code::TYPE_MISMATCH,
            "a UUID must be binary, given {}",
            v.type_name()
        ),
    }
}

/// `maxTimeMS` and similar options: a whole number of milliseconds that fits 31 bits.
///
/// # Errors
/// 14 TypeMismatch for another type, 9 FailedToParse for a fraction, 2 out of range.
pub fn max_time_ms(value: &Value<'_>) -> Result<i64> {
    if matches!(value, Value::Null | Value::Undefined) {
        return Ok(0);
    }
    let Some(number) = Number::of(value) else {
        return Err(wrong_type(
            "maxTimeMS",
            value,
            &[Tag::INT64, Tag::INT32, Tag::DECIMAL128, Tag::DOUBLE],
        ));
    };
    let Some(ms) = number.to_i64_exact() else {
        bail!(
            code::FAILED_TO_PARSE,
            "Expected an integer for maxTimeMS, given {}",
            crate::args::show(value)
        );
    };
    if !(0..=i64::from(i32::MAX)).contains(&ms) {
        bail!(
            code::BAD_VALUE,
            "{ms} value for maxTimeMS is out of range [0, {}]",
            i32::MAX
        );
    }
    Ok(ms)
}

/// Whether the read preference allows a secondary to answer.
fn read_preference(value: &Value<'_>) -> Result<bool> {
    let doc = match value {
        Value::Null | Value::Undefined => return Ok(false),
        v => v
            .as_doc()
            .ok_or_else(|| wrong_type("$readPreference", v, &[Tag::DOCUMENT]))?,
    };
    match doc.field("mode") {
        Value::Missing | Value::String("primary") => Ok(false),
        Value::String("primaryPreferred" | "secondary" | "secondaryPreferred" | "nearest") => {
            Ok(true)
        }
        Value::String(m) => bail!(
            code::FAILED_TO_PARSE,
            "Could not parse $readPreference mode '{m}'. Only the modes 'primary', \
                'primaryPreferred', 'secondary', 'secondaryPreferred', 'nearest' are supported"
        ),
        v => Err(wrong_type("$readPreference.mode", &v, &[Tag::STRING])),
    }
}

fn cluster_time(value: &Value<'_>) -> Result<Timestamp> {
    let doc = value
        .as_doc()
        .ok_or_else(|| wrong_type("$clusterTime", value, &[Tag::DOCUMENT]))?;
    match doc.field("clusterTime") {
        Value::Timestamp(t) => Ok(t),
        v => Err(wrong_type(
            "$clusterTime.clusterTime",
            &v,
            &[Tag::TIMESTAMP],
        )),
    }
}
