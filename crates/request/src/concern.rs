//! Read concern and write concern, checked.

use super::args::{Arg, Args, Kind, arg, check_doc, show, to_i64, unknown_field, wrong_type};
use super::spec::{Spec, flag};
use model::{Doc, Number, Result, Tag, Timestamp, Value, bail, code};

/// Level of a read concern.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadLevel {
    /// The latest data.
    #[default]
    Local,
    /// The same as local except on a sharded cluster.
    Available,
    /// Data acknowledged by a majority.
    Majority,
    /// Data acknowledged by a majority and confirmed to be the latest.
    Linearizable,
    /// The state at one point in time.
    Snapshot,
}

impl std::fmt::Display for ReadLevel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ReadLevel::Local => "local",
            ReadLevel::Available => "available",
            ReadLevel::Majority => "majority",
            ReadLevel::Linearizable => "linearizable",
            ReadLevel::Snapshot => "snapshot",
        })
    }
}

/// A checked read concern.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ReadConcern {
    /// The level.
    pub level: ReadLevel,
    /// The client specified the level, so that no default replaces it.
    pub level_given: bool,
    /// `afterClusterTime`.
    pub after: Option<Timestamp>,
    /// `atClusterTime`.
    pub at: Option<Timestamp>,
}

/// The members that must have a write.
#[derive(Clone, Debug, PartialEq)]
pub enum Acknowledge {
    /// This number of members.
    Members(i32),
    /// `"majority"`.
    Majority,
    /// A named mode.
    Mode(String),
    /// Members that match tags.
    Tags,
}

/// A checked write concern.
#[derive(Clone, Debug, PartialEq)]
pub struct WriteConcern {
    /// `w`.
    pub w: Acknowledge,
    /// `j`, when given.
    pub journal: Option<bool>,
    /// `wtimeout`; 0 is no limit.
    pub timeout_ms: i32,
    /// Set by `setDefaultRWConcern` instead of the client.
    pub is_default: bool,
}

impl Default for WriteConcern {
    fn default() -> WriteConcern {
        WriteConcern {
            w: Acknowledge::Majority,
            journal: None,
            timeout_ms: 0,
            is_default: false,
        }
    }
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

/// The level with this name.
///
/// # Errors
/// 2 BadValue for an unknown name.
pub fn read_level(name: Option<&str>) -> Result<ReadLevel> {
    Ok(match name {
        None | Some("local") => ReadLevel::Local,
        Some("available") => ReadLevel::Available,
        Some("majority") => ReadLevel::Majority,
        Some("linearizable") => ReadLevel::Linearizable,
        Some("snapshot") => ReadLevel::Snapshot,
        Some(other) => bail!(
            code::BAD_VALUE,
            "Enumeration value '{other}' for field 'readConcern.level' is not a valid value"
        ),
    })
}

/// Checks a read concern against the command and the kind of server.
///
/// # Errors
/// 14 TypeMismatch, 40415 IDLFailedToParse, 2 BadValue for an unknown level, 72 InvalidOptions for
/// options that exclude one another or that the command does not support, 20 IllegalOperation, 123
/// NotAReplicaSet on a standalone server.
pub(super) fn read_concern(
    command: &Spec,
    value: &Value<'_>,
    standalone: bool,
    in_transaction: bool,
) -> Result<ReadConcern> {
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
    let level = read_level(args.str("level"))?;
    let time = |name: &str| match args.value(name) {
        Value::Timestamp(t) => Some(t),
        _ => None,
    };
    let concern = ReadConcern {
        level,
        level_given: args.has("level"),
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
    if concern.at.is_some_and(|t| t.as_u64() == 0) {
        bail!(
            code::INVALID_OPTIONS,
            "readConcern.atClusterTime cannot be a null timestamp"
        );
    }
    let takes = in_transaction || command.is(flag::READ_CONCERN) || command.is(flag::OF_CURSOR);
    if level != ReadLevel::Local && !takes {
        bail!(
            code::INVALID_OPTIONS,
            "Command {} does not support read concern level {level}",
            command.name
        );
    }
    if concern.after.is_some_and(|t| t.as_u64() == 0) {
        bail!(
            code::INVALID_OPTIONS,
            "readConcern.afterClusterTime cannot be a null timestamp"
        );
    }
    check_supported(command, &concern, args.has("afterOpTime"), standalone)?;
    Ok(concern)
}

/// Checks that the command and the server support the concern.
fn check_supported(
    command: &Spec,
    concern: &ReadConcern,
    after_op_time: bool,
    standalone: bool,
) -> Result<()> {
    let level = concern.level;
    if standalone && (concern.after.is_some() || after_op_time) {
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
    Ok(())
}

/// Checks that the kind of server supports a level.
///
/// # Errors
/// 123 NotAReplicaSet.
pub fn check_level(level: ReadLevel, standalone: bool) -> Result<()> {
    if standalone && matches!(level, ReadLevel::Linearizable | ReadLevel::Snapshot) {
        bail!(
            code::NOT_A_REPLICA_SET,
            "node needs to be a replica set member to use read concern {level}"
        );
    }
    Ok(())
}

/// Checks a write concern document.
///
/// # Errors
/// 9 FailedToParse, 14 TypeMismatch, 40415 IDLFailedToParse, 2 BadValue.
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
                show(v)
            ),
        },
        Value::String("majority") => Ok(Acknowledge::Majority),
        Value::String(mode) if !standalone => Ok(Acknowledge::Mode((*mode).to_owned())),
        Value::String(mode) => bail!(
            code::BAD_VALUE,
            "cannot use non-majority 'w' mode \"{mode}\" when a host is not a member of a replica \
                set"
        ),
        // A member of a set uses the default.
        Value::Null | Value::Undefined if !standalone => Ok(WriteConcern::default().w),
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
