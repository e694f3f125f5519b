//! Arguments every command takes: sessions, concerns, time limits, the stable API. Checked in this
//! one place.

use crate::dispatch::args::Arg;
use crate::dispatch::args::{Args, Kind, arg, check_doc, to_i64, unknown_field, wrong_type};
use crate::dispatch::command::{Command, flag};
use model::{Binary, Doc, MongoError, Number, Result, Tag, Timestamp, Value, bail, code};

/// Read concern levels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadLevel {
    /// The newest data.
    #[default]
    Local,
    /// Like local on anything but a sharded cluster.
    Available,
    /// Acknowledged by a majority.
    Majority,
    /// Majority, confirmed to be the newest.
    Linearizable,
    /// One moment in time.
    Snapshot,
}

/// A checked read concern.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ReadConcern {
    /// Level.
    pub level: ReadLevel,
    /// Read nothing older than this.
    pub after: Option<Timestamp>,
    /// Read exactly this moment.
    pub at: Option<Timestamp>,
}

/// Who must have a write.
#[derive(Clone, Debug, PartialEq)]
pub enum Acknowledge {
    /// So many members.
    Members(i32),
    /// `"majority"`.
    Majority,
    /// A named mode.
    Mode(String),
    /// So many members with each of these tags.
    Tags,
}

/// A checked write concern.
#[derive(Clone, Debug, PartialEq)]
pub struct WriteConcern {
    /// Who.
    pub w: Acknowledge,
    /// Wait for the journal, when the client said so.
    pub journal: Option<bool>,
    /// Patience, 0 is without end.
    pub timeout_ms: i32,
}

impl Default for WriteConcern {
    fn default() -> WriteConcern {
        WriteConcern {
            w: Acknowledge::Majority,
            journal: None,
            timeout_ms: 0,
        }
    }
}

/// Session of a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lsid {
    /// UUID of the session.
    pub id: [u8; 16],
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
    /// `comment`.
    pub comment: Value<'a>,
    /// `apiVersion` was given.
    pub api: bool,
    /// `apiStrict`.
    pub api_strict: bool,
    /// `rawData`: see a time-series collection as its buckets.
    pub raw_data: bool,
}

/// Names that need no check of their own.
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
    "mayBypassWriteBlocking",
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
    "mayBypassWriteBlocking",
    "isSearchIndexManagement",
    "$maxTimeMS",
];

/// Takes `name` when it is a generic argument. False: it is the command's own.
///
/// # Errors
/// Those of the single checks.
pub fn take<'a>(
    g: &mut Generic<'a>,
    command: &Command,
    name: &str,
    value: Value<'a>,
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
        "autocommit" | "startTransaction" | "rawData" => match value {
            Value::Bool(b) if name == "autocommit" => g.autocommit = Some(b),
            Value::Bool(b) if name == "rawData" => g.raw_data = b,
            Value::Bool(b) => g.start_transaction = b,
            _ if absent => {}
            v => return Err(wrong_type(name, &v, &[Tag::BOOL])),
        },
        "maxTimeMS" => g.max_time_ms = max_time_ms(&value)?,
        "comment" => g.comment = value,
        "readConcern" if absent => {}
        "readConcern" => g.read_concern = Some(read_concern(command, &value, standalone)?),
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
        "$readPreference" => read_preference(&value)?,
        "$clusterTime" => cluster_time(&value)?,
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
        "maxTimeMS",
        "comment",
        "readConcern",
        "writeConcern",
        "$readPreference",
        "$clusterTime",
    ];
    CHECKED.contains(&name) || IGNORED.contains(&name)
}

/// The stable API: checked before the arguments.
///
/// # Errors
/// 322 APIVersionError, 323 APIStrictError, 4886600 for strictness without a version, 14.
pub fn api(g: &mut Generic<'_>, command: &Command, body: Doc<'_>) -> Result<()> {
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
    uuid(&args.value("id")).map(|id| Lsid { id })
}

/// What sessions carry in place of a user where nobody logs in: the SHA-256 of nothing.
pub const NO_USER: &[u8; 32] = &[
    0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24,
    0x27, 0xae, 0x41, 0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55,
];

/// A UUID of subtype 4.
///
/// # Errors
/// 14 for another subtype, 207 InvalidUUID for another length.
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

/// `maxTimeMS` and its kin: a whole number of milliseconds within 31 bits.
///
/// # Errors
/// 14 for another type, 9 for a fraction, 2 out of range.
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
            crate::dispatch::args::show(value)
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

const PROVENANCES: &[&str] = &[
    "clientSupplied",
    "implicitDefault",
    "customDefault",
    "getLastErrorDefaults",
    "internalWriteDefault",
];

fn provenance(args: &Args<'_>, scope: &str) -> Result<()> {
    match args.str("provenance") {
        Some(p) if !PROVENANCES.contains(&p) => {
            bail!(
                code::BAD_VALUE,
                "Enumeration value '{p}' for field '{scope}.provenance' is not a valid value, \
                    allowed are {}",
                PROVENANCES.join(", ")
            )
        }
        _ => Ok(()),
    }
}

fn read_concern(command: &Command, value: &Value<'_>, standalone: bool) -> Result<ReadConcern> {
    let doc = value
        .as_doc()
        .ok_or_else(|| wrong_type("readConcern", value, &[Tag::DOCUMENT]))?;
    static TABLE: &[Arg] = &[
        arg("level", Kind::Str),
        arg("afterClusterTime", Kind::OneOf(&[Tag::TIMESTAMP])).strict_null(),
        arg("atClusterTime", Kind::OneOf(&[Tag::TIMESTAMP])).strict_null(),
        arg("afterOpTime", Kind::Object),
        arg("provenance", Kind::Str),
        arg("allowTransactionTableSnapshot", Kind::Bool),
        arg("waitLastStableRecoveryTimestamp", Kind::Bool),
    ];
    let args = check_doc("readConcern", TABLE, doc)?;
    provenance(&args, "readConcern")?;
    let level = match args.str("level") {
        None | Some("local") => ReadLevel::Local,
        Some("available") => ReadLevel::Available,
        Some("majority") => ReadLevel::Majority,
        Some("linearizable") => ReadLevel::Linearizable,
        Some("snapshot") => ReadLevel::Snapshot,
        Some(other) => bail!(
            code::BAD_VALUE,
            "Enumeration value '{other}' for field 'readConcern.level' is not a valid value"
        ),
    };
    let time = |name: &str| match args.value(name) {
        Value::Timestamp(t) => Some(t),
        _ => None,
    };
    let concern = ReadConcern {
        level,
        after: time("afterClusterTime"),
        at: time("atClusterTime"),
    };
    if concern.at.is_some() && concern.after.is_some() {
        bail!(
            code::INVALID_OPTIONS,
            "Specifying a timestamp for readConcern snapshot in both atClusterTime and \
                afterClusterTime is not allowed"
        );
    }
    if concern.at.is_some() && level != ReadLevel::Snapshot {
        bail!(
            code::INVALID_OPTIONS,
            "readConcern.atClusterTime needs readConcern.level to be snapshot"
        );
    }
    if matches!(
        concern.at,
        Some(
            Timestamp { time: 0, .. }
                | Timestamp {
                    increment: 0,
                    time: 1..
                }
        )
    ) && concern.at.is_some_and(|t| t.as_u64() == 0)
    {
        bail!(
            code::INVALID_OPTIONS,
            "readConcern.atClusterTime cannot be a null timestamp"
        );
    }
    if level != ReadLevel::Local && !command.is(flag::READ_CONCERN) {
        bail!(
            code::INVALID_OPTIONS,
            "Command {} does not support read concern level {level:?}",
            command.name
        );
    }
    if standalone && (concern.after.is_some() || args.has("afterOpTime")) {
        bail!(
            code::ILLEGAL_OPERATION,
            "Cannot specify afterClusterTime readConcern without replication enabled"
        );
    }
    if standalone && concern.at.is_some() {
        bail!(
            code::INVALID_OPTIONS,
            "readConcern.atClusterTime needs a replica set"
        );
    }
    if !command.is(flag::CHECKS_READ_LEVEL) {
        check_level(level, standalone)?;
    }
    Ok(concern)
}

/// Checks a level against what the server is.
///
/// # Errors
/// 123 NotAReplicaSet.
pub fn check_level(level: ReadLevel, standalone: bool) -> Result<()> {
    if standalone && matches!(level, ReadLevel::Linearizable | ReadLevel::Snapshot) {
        bail!(
            code::NOT_A_REPLICA_SET,
            "node needs to be a replica set member to use read concern {level:?}"
        );
    }
    Ok(())
}

/// Checks a write concern document.
///
/// # Errors
/// 9 FailedToParse, 14, 40415, 2.
pub fn write_concern(doc: Doc<'_>, standalone: bool) -> Result<WriteConcern> {
    let mut out = WriteConcern::default();
    for (name, value) in doc.iter() {
        match name {
            "w" => out.w = acknowledge(&value, standalone)?,
            "j" | "fsync" => match value {
                Value::Null | Value::Undefined => {}
                v if v.is_number() || v.as_bool().is_some() => {
                    if name == "j" {
                        out.journal = Some(v.truthy());
                    }
                }
                v => {
                    let tags = &[
                        Tag::BOOL,
                        Tag::INT64,
                        Tag::INT32,
                        Tag::DECIMAL128,
                        Tag::DOUBLE,
                    ];
                    return Err(wrong_type(&format!("writeConcern.{name}"), &v, tags));
                }
            },
            "wtimeout" => out.timeout_ms = wtimeout(&value)?,
            "provenance" => match value {
                Value::Null => {}
                Value::String(p) if PROVENANCES.contains(&p) => {}
                Value::String(p) => bail!(
                    code::BAD_VALUE,
                    "Enumeration value '{p}' for field 'writeConcern.provenance' is not a valid \
                        value"
                ),
                v => return Err(wrong_type("writeConcern.provenance", &v, &[Tag::STRING])),
            },
            "wElectionId" | "wOpTime" | "getLastError" => {}
            other => return Err(unknown_field(&format!("writeConcern.{other}"))),
        }
    }
    Ok(out)
}

fn acknowledge(value: &Value<'_>, standalone: bool) -> Result<Acknowledge> {
    match value {
        v if v.is_number() => match if Number::of(v).is_some_and(Number::is_nan) {
            -1
        } else {
            to_i64(v).unwrap_or(-1)
        } {
            n @ 0..=1 => Ok(Acknowledge::Members(n as i32)),
            n @ 2..=50 if standalone => bail!(
                code::BAD_VALUE,
                "cannot use 'w' > 1 when a host is not replicated, given {n}"
            ),
            n @ 2..=50 => Ok(Acknowledge::Members(n as i32)),
            _ => bail!(
                code::FAILED_TO_PARSE,
                "w has to be a non-negative number and not greater than 50, given {}",
                crate::dispatch::args::show(v)
            ),
        },
        Value::String("majority") => Ok(Acknowledge::Majority),
        Value::String(mode) if !standalone && !mode.is_empty() => {
            Ok(Acknowledge::Mode((*mode).to_owned()))
        }
        Value::String(mode) => bail!(
            code::BAD_VALUE,
            "cannot use non-majority 'w' mode \"{mode}\" when a host is not a member of a replica \
                set"
        ),
        Value::Null | Value::Undefined => bail!(
            code::BAD_VALUE,
            "w has to be a number, a string or an object, given null"
        ),
        Value::Document(tags) if tags.is_empty() => {
            bail!(code::FAILED_TO_PARSE, "tagged write concern requires tags")
        }
        Value::Document(tags) => match tags.iter().find(|(_, v)| !v.is_number()) {
            Some((tag, v)) => bail!(
                code::FAILED_TO_PARSE,
                "tags must be a single level document with only number values, {tag} is {}",
                v.type_name()
            ),
            None if standalone => Ok(Acknowledge::Members(1)),
            None => Ok(Acknowledge::Tags),
        },
        v => bail!(
            code::FAILED_TO_PARSE,
            "w has to be a number, string, or object, given {}",
            v.type_name()
        ),
    }
}

fn wtimeout(value: &Value<'_>) -> Result<i32> {
    match to_i64(value) {
        Some(n) if n > i64::from(i32::MAX) => bail!(
            code::FAILED_TO_PARSE,
            "wtimeout must be a 32-bit integer, given {n}"
        ),
        Some(n) => Ok(n.max(0) as i32),
        None => Ok(0),
    }
}

fn read_preference(value: &Value<'_>) -> Result<()> {
    let doc = match value {
        Value::Null | Value::Undefined => return Ok(()),
        v => v
            .as_doc()
            .ok_or_else(|| wrong_type("$readPreference", v, &[Tag::DOCUMENT]))?,
    };
    match doc.field("mode") {
        Value::Missing => Ok(()),
        Value::String(
            "primary" | "primaryPreferred" | "secondary" | "secondaryPreferred" | "nearest",
        ) => Ok(()),
        Value::String(m) => bail!(
            code::FAILED_TO_PARSE,
            "Could not parse $readPreference mode '{m}'. Only the modes 'primary', \
                'primaryPreferred', 'secondary', 'secondaryPreferred', 'nearest' are supported"
        ),
        v => Err(wrong_type("$readPreference.mode", &v, &[Tag::STRING])),
    }
}

fn cluster_time(value: &Value<'_>) -> Result<()> {
    let doc = value
        .as_doc()
        .ok_or_else(|| wrong_type("$clusterTime", value, &[Tag::DOCUMENT]))?;
    match doc.field("clusterTime") {
        Value::Timestamp(_) => Ok(()),
        v => Err(wrong_type(
            "$clusterTime.clusterTime",
            &v,
            &[Tag::TIMESTAMP],
        )),
    }
}
