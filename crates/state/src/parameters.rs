//! Server parameters: one declarative table; values are kept in memory.

use super::verbosity::{COMPONENTS, collect_verbosity};
use model::{Doc, DocBuf, OwnedValue, Result, Tag, Value, bail, code};
use parking_lot::Mutex;
use request::args::{to_i64, wrong_type};
use std::collections::BTreeMap;

/// When a parameter may be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetPhase {
    /// Never; it is read-only.
    Never,
    /// At the start only.
    Startup,
    /// While running only.
    Runtime,
    /// At the start and while running.
    Both,
}

/// The default value of a parameter.
#[derive(Clone, Copy, Debug)]
enum Default {
    Bool(bool),
    Int(i32),
    Long(i64),
    Double(f64),
    Str(&'static str),
    Strs(&'static [&'static str]),
    /// Computed when it is read.
    Computed,
}

/// A row of the table of parameters.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Name.
    pub name: &'static str,
    /// When it may be set.
    pub set_at: SetPhase,
    default: Default,
    /// Smallest number allowed.
    min: i64,
}

const fn p(name: &'static str, set_at: SetPhase, default: Default) -> Parameter {
    Parameter {
        name,
        set_at,
        default,
        min: i64::MIN,
    }
}

impl Parameter {
    const fn with_minimum(self, min: i64) -> Parameter {
        Parameter { min, ..self }
    }
}

/// All parameters, by name.
pub static PARAMETERS: &[Parameter] = &[
    p(
        "KeysRotationIntervalSec",
        SetPhase::Startup,
        Default::Int(7_776_000),
    ),
    p(
        "ShardingTaskExecutorPoolReplicaSetMatching",
        SetPhase::Both,
        Default::Str("automatic"),
    ),
    p(
        "admissionQueueTimeMaxMS",
        SetPhase::Both,
        Default::Int(10_000),
    )
    .with_minimum(1),
    p("allowDiskUseByDefault", SetPhase::Both, Default::Bool(true)),
    p(
        "auditAuthorizationSuccess",
        SetPhase::Both,
        Default::Bool(false),
    ),
    p("authSchemaVersion", SetPhase::Never, Default::Int(5)),
    p(
        "authenticationMechanisms",
        SetPhase::Startup,
        Default::Strs(&["MONGODB-X509", "SCRAM-SHA-1", "SCRAM-SHA-256"]),
    ),
    p(
        "automationServiceDescriptor",
        SetPhase::Both,
        Default::Str(""),
    ),
    p(
        "clientCursorMonitorFrequencySecs",
        SetPhase::Both,
        Default::Int(4),
    ),
    p(
        "connPoolMaxConnsPerHost",
        SetPhase::Startup,
        Default::Int(200),
    ),
    p("cursorTimeoutMillis", SetPhase::Both, Default::Int(600_000)),
    p(
        "enableLocalhostAuthBypass",
        SetPhase::Startup,
        Default::Bool(true),
    ),
    p(
        "enableTestCommands",
        SetPhase::Startup,
        Default::Bool(false),
    ),
    p(
        "featureCompatibilityVersion",
        SetPhase::Never,
        Default::Computed,
    ),
    p(
        "internalInsertMaxBatchSize",
        SetPhase::Both,
        Default::Int(500),
    ),
    p(
        "internalQueryExecYieldIterations",
        SetPhase::Both,
        Default::Int(1000),
    ),
    p(
        "internalQueryMaxBlockingSortMemoryUsageBytes",
        SetPhase::Both,
        Default::Long(104_857_600),
    ),
    p(
        "internalQueryJavaScriptFnTimeoutMillis",
        SetPhase::Both,
        Default::Int(60_000),
    )
    .with_minimum(1),
    p(
        "internalQueryJavaScriptHeapSizeLimitMB",
        SetPhase::Both,
        Default::Int(100),
    )
    .with_minimum(1),
    p(
        "internalQueryMaxJsEmitBytes",
        SetPhase::Both,
        Default::Int(104_857_600),
    )
    .with_minimum(1),
    // The largest number means that only `--memory` limits; 9.0 has a lower limit.
    p(
        "internalQueryMaxMemoryUsageBytesPerOperation",
        SetPhase::Both,
        Default::Long(i64::MAX),
    )
    .with_minimum(1),
    p(
        "internalQueryPlannerEnableHashIntersection",
        SetPhase::Both,
        Default::Bool(false),
    ),
    p(
        "internalQueryFrameworkControl",
        SetPhase::Both,
        Default::Str("forceClassicEngine"),
    ),
    p(
        "internalQueryStatsRateLimit",
        SetPhase::Both,
        Default::Int(0),
    ),
    p("journalCommitInterval", SetPhase::Both, Default::Int(100)),
    p(
        "localLogicalSessionTimeoutMinutes",
        SetPhase::Startup,
        Default::Int(30),
    ),
    p("logComponentVerbosity", SetPhase::Both, Default::Computed),
    p("logLevel", SetPhase::Both, Default::Int(0)),
    p(
        "logicalSessionRefreshMillis",
        SetPhase::Startup,
        Default::Int(300_000),
    ),
    p("maxBSONDepth", SetPhase::Startup, Default::Int(180)),
    // 0 means no limit.
    p(
        "maxConcurrentMultiDocumentTransactions",
        SetPhase::Both,
        Default::Long(0),
    )
    .with_minimum(0),
    p(
        "maxIndexBuildMemoryUsageMegabytes",
        SetPhase::Both,
        Default::Int(200),
    ),
    p(
        "maxNumActiveUserIndexBuilds",
        SetPhase::Both,
        Default::Int(3),
    ),
    p("maxSessions", SetPhase::Startup, Default::Int(1_000_000)),
    p(
        "maxTransactionLockRequestTimeoutMillis",
        SetPhase::Both,
        Default::Int(5),
    ),
    p(
        "minSnapshotHistoryWindowInSeconds",
        SetPhase::Both,
        Default::Int(300),
    ),
    p("notablescan", SetPhase::Both, Default::Bool(false)),
    // Read by the code that starts the server; kept for `getParameter`.
    p(
        "oidcIdentityProviders",
        SetPhase::Startup,
        Default::Strs(&[]),
    ),
    p("periodicNoopIntervalSecs", SetPhase::Both, Default::Int(10)),
    p(
        "profileOperationResourceConsumptionMetrics",
        SetPhase::Startup,
        Default::Bool(false),
    ),
    p("quiet", SetPhase::Both, Default::Bool(false)),
    p("redactClientLogData", SetPhase::Both, Default::Bool(false)),
    p("replWriterThreadCount", SetPhase::Startup, Default::Int(16)),
    p("requireApiVersion", SetPhase::Both, Default::Bool(false)),
    p("saslHostName", SetPhase::Startup, Default::Str("")),
    p(
        "saslServiceName",
        SetPhase::Startup,
        Default::Str("mongodb"),
    ),
    p("scramIterationCount", SetPhase::Both, Default::Int(10_000)),
    p(
        "scramSHA256IterationCount",
        SetPhase::Both,
        Default::Int(15_000),
    ),
    p("syncdelay", SetPhase::Both, Default::Double(60.0)),
    p("tcmallocReleaseRate", SetPhase::Both, Default::Double(1.0)),
    p("tlsMode", SetPhase::Startup, Default::Str("disabled")),
    p(
        "transactionLifetimeLimitSeconds",
        SetPhase::Both,
        Default::Int(60),
    ),
    p(
        "ttlIndexDeleteTargetDocs",
        SetPhase::Both,
        Default::Long(50_000),
    )
    .with_minimum(0),
    p(
        "ttlIndexDeleteTargetTimeMS",
        SetPhase::Both,
        Default::Long(1000),
    )
    .with_minimum(0),
    p("ttlMonitorEnabled", SetPhase::Both, Default::Bool(true)),
    p("ttlMonitorSleepSecs", SetPhase::Both, Default::Int(60)).with_minimum(1),
    p(
        "wiredTigerConcurrentReadTransactions",
        SetPhase::Both,
        Default::Int(128),
    )
    .with_minimum(1),
    p(
        "wiredTigerConcurrentWriteTransactions",
        SetPhase::Both,
        Default::Int(128),
    )
    .with_minimum(1),
];

/// Values that differ from the built-in defaults.
#[derive(Default)]
pub struct Parameters {
    set: Mutex<BTreeMap<&'static str, OwnedValue>>,
    /// Defaults that differ in the followed release.
    of_release: Mutex<BTreeMap<&'static str, i64>>,
    /// Verbosity by `component` or `component.child`.
    verbosity: Mutex<BTreeMap<String, i32>>,
}

impl Parameters {
    /// The table row of a name.
    pub fn find(name: &str) -> Option<&'static Parameter> {
        PARAMETERS.iter().find(|p| p.name == name)
    }

    /// The value of a parameter; `fcv` is the feature compatibility version, which one parameter
    /// reports.
    pub fn get(&self, row: &Parameter, fcv: &str) -> OwnedValue {
        match row.name {
            "featureCompatibilityVersion" => to_owned_value(&model::doc! { "version": fcv }),
            "logComponentVerbosity" => to_owned_value(&self.components()),
            _ => {
                if let Some(value) = self.set.lock().get(row.name) {
                    return value.clone();
                }
                match self.of_release.lock().get(row.name) {
                    Some(number) => Value::Int64(*number).to_owned_value(),
                    None => row.default.value(),
                }
            }
        }
    }

    /// Sets the default that a 64-bit parameter has in the followed release.
    pub(crate) fn follow_release(&self, name: &'static str, number: i64) {
        self.of_release.lock().insert(name, number);
    }

    /// The value of a boolean parameter.
    pub fn bool(&self, name: &str) -> bool {
        Parameters::find(name).is_some_and(|row| self.get(row, "").get().truthy())
    }

    /// The value of a numeric parameter.
    pub fn int(&self, name: &str) -> i64 {
        Parameters::find(name)
            .and_then(|row| to_i64(&self.get(row, "").get()))
            .unwrap_or(0)
    }

    /// The value of a parameter that is a list of strings.
    pub fn strings(&self, name: &str) -> Vec<String> {
        let value = Parameters::find(name).map(|row| self.get(row, ""));
        match value.as_ref().map(|v| v.get()) {
            Some(Value::Array(list)) => list
                .iter()
                .filter_map(|v| v.as_str().map(str::to_owned))
                .collect(),
            Some(Value::String(text)) => text.split(',').map(str::to_owned).collect(),
            _ => Vec::new(),
        }
    }

    /// Sets a parameter while the server runs and returns its previous value.
    ///
    /// # Errors
    /// 72 InvalidOptions for an unknown name, 20 IllegalOperation when it may not be set now, 14
    /// TypeMismatch, 2 BadValue.
    pub fn set(&self, name: &str, value: Value<'_>) -> Result<OwnedValue> {
        let Some(row) = Parameters::find(name) else {
            bail!(
                code::INVALID_OPTIONS,
                "attempted to set unrecognized parameter [{name}]"
            );
        };
        if !matches!(row.set_at, SetPhase::Both | SetPhase::Runtime) {
            bail!(
                code::ILLEGAL_OPERATION,
                "not allowed to change [{name}] at runtime"
            );
        }
        self.put(row, value)
    }

    /// Sets a parameter at the start of the server.
    ///
    /// # Errors
    /// As [`Parameters::set`].
    pub fn set_at_startup(&self, name: &str, value: Value<'_>) -> Result<()> {
        match Parameters::find(name) {
            Some(row) if matches!(row.set_at, SetPhase::Both | SetPhase::Startup) => {
                self.put(row, value).map(|_| ())
            }
            _ => bail!(
                code::BAD_VALUE,
                "unknown or unsettable server parameter '{name}'"
            ),
        }
    }

    /// Sets a parameter at the start from the text of a command line or a configuration file: `1`,
    /// `true`, `0.5`, or words.
    ///
    /// # Errors
    /// As [`Parameters::set_at_startup`].
    pub fn set_at_startup_text(&self, name: &str, text: &str) -> Result<()> {
        let value = match text {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            _ => match (text.parse::<i64>(), text.parse::<f64>()) {
                (Ok(n), _) => Value::Int64(n),
                (_, Ok(d)) => Value::Double(d),
                _ => Value::String(text),
            },
        };
        self.set_at_startup(name, value)
    }

    fn put(&self, row: &'static Parameter, value: Value<'_>) -> Result<OwnedValue> {
        let was = self.get(row, "");
        if row.name == "logComponentVerbosity" {
            let Value::Document(d) = value else {
                return Err(wrong_type(row.name, &value, &[Tag::DOCUMENT]));
            };
            self.set_verbosity(d)?;
            return Ok(was);
        }
        let new = row.default.convert(row.name, &value)?;
        if let Some(n) = to_i64(&new.get()).filter(|n| *n < row.min) {
            bail!(
                code::BAD_VALUE,
                "Invalid value for parameter {}: {n}, it must be {} or more",
                row.name,
                row.min
            );
        }
        if row.name == "logLevel" {
            let level = to_i64(&new.get()).unwrap_or(0);
            if !(0..=5).contains(&level) {
                bail!(
                    code::BAD_VALUE,
                    "Invalid value for logLevel: {level}, allowed are 0 to 5"
                );
            }
            self.verbosity.lock().insert(String::new(), level as i32);
        }
        self.set.lock().insert(row.name, new);
        Ok(was)
    }

    fn components(&self) -> DocBuf {
        let set = self.verbosity.lock();
        let of = |key: &str| {
            set.get(key)
                .copied()
                .unwrap_or(if key.is_empty() { 0 } else { -1 })
        };
        DocBuf::build(|w| {
            w.put("verbosity", of(""));
            for (name, children) in COMPONENTS {
                let mut c = w.doc(name);
                c.put("verbosity", of(name));
                for child in *children {
                    c.doc(child)
                        .put("verbosity", of(&format!("{name}.{child}")));
                }
            }
        })
    }

    /// Sets all verbosities or none: an unknown component leaves everything unchanged.
    fn set_verbosity(&self, doc: Doc<'_>) -> Result<()> {
        let mut changes = Vec::new();
        collect_verbosity("", doc, &mut changes)?;
        let mut set = self.verbosity.lock();
        for (key, level) in changes {
            if key.is_empty() {
                self.set
                    .lock()
                    .insert("logLevel", Value::from(level).to_owned_value());
            }
            set.insert(key, level);
        }
        Ok(())
    }
}

fn to_owned_value(doc: &DocBuf) -> OwnedValue {
    Value::from(doc).to_owned_value()
}

impl Default {
    fn value(self) -> OwnedValue {
        match self {
            Default::Bool(v) => Value::from(v).to_owned_value(),
            Default::Int(v) => Value::from(v).to_owned_value(),
            Default::Long(v) => Value::from(v).to_owned_value(),
            Default::Double(v) => Value::from(v).to_owned_value(),
            Default::Str(v) => Value::from(v).to_owned_value(),
            Default::Strs(list) => {
                let mut d = DocBuf::new();
                d.append(|w| {
                    let mut a = w.array("");
                    for s in list {
                        a.push(*s);
                    }
                });
                d.doc().field("").to_owned_value()
            }
            Default::Computed => Value::Null.to_owned_value(),
        }
    }

    /// Converts a client's value to the type of this default.
    fn convert(self, name: &str, value: &Value<'_>) -> Result<OwnedValue> {
        let number = |tag| to_i64(value).ok_or_else(|| wrong_type(name, value, &[tag]));
        Ok(match self {
            // Any value that counts as true.
            Default::Bool(_) => Value::from(value.truthy()),
            Default::Int(_) if value.as_bool().is_some() => Value::from(i32::from(value.truthy())),
            Default::Int(_) => match i32::try_from(number(Tag::INT32)?) {
                Ok(n) => Value::from(n),
                Err(_) => bail!(
                    code::BAD_VALUE,
                    "value of {name} is out of the range of 32 bits: {}",
                    request::args::show(value)
                ),
            },
            Default::Long(_) => Value::from(number(Tag::INT64)?),
            Default::Double(_) => match value.as_f64() {
                Some(d) => Value::from(d),
                None => return Err(wrong_type(name, value, &[Tag::DOUBLE])),
            },
            Default::Str(_) => match value {
                Value::String(_) => *value,
                _ => return Err(wrong_type(name, value, &[Tag::STRING])),
            },
            // A command line separates the strings by commas.
            Default::Strs(_) if value.as_str().is_some() => {
                let text = value.as_str().unwrap_or_default();
                let list = DocBuf::build(|w| {
                    let mut list = w.array("");
                    for one in text.split(',') {
                        list.push(one.trim());
                    }
                });
                return Ok(list.doc().field("").to_owned_value());
            }
            Default::Strs(_) | Default::Computed => match value {
                Value::Array(_) => *value,
                _ => return Err(wrong_type(name, value, &[Tag::ARRAY])),
            },
        }
        .to_owned_value())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::doc;

    #[test]
    fn names_are_unique() {
        let mut seen = std::collections::BTreeSet::new();
        assert!(PARAMETERS.iter().all(|p| seen.insert(p.name)));
    }

    #[test]
    fn set_and_get() {
        let all = Parameters::default();
        let was = all.set("logLevel", Value::Double(1.5)).unwrap();
        assert!(matches!(was.get(), Value::Int32(0)) && all.int("logLevel") == 1);
        assert_eq!(all.set("nope", Value::Int32(1)).unwrap_err().code(), 72);
        assert_eq!(
            all.set("maxSessions", Value::Int32(1)).unwrap_err().code(),
            20
        );
        // Every value counts as true or false, as in MongoDB.
        all.set("quiet", Value::String("x")).unwrap();
        let text = all.set("logLevel", Value::String("x"));
        assert_eq!(text.unwrap_err().code(), 14);
        assert_eq!(all.set("logLevel", Value::Int32(9)).unwrap_err().code(), 2);
    }

    #[test]
    fn verbosity_is_all_or_nothing() {
        let all = Parameters::default();
        let bad = doc! { "command": { "verbosity": 2i32 }, "nope": { "verbosity": 1i32 } };
        assert_eq!(
            all.set("logComponentVerbosity", Value::from(&bad))
                .unwrap_err()
                .code(),
            2
        );
        assert!(all.verbosity.lock().is_empty());
        let good = doc! { "command": 4i32, "network": { "asio": { "verbosity": 2i32 } } };
        all.set("logComponentVerbosity", Value::from(&good))
            .unwrap();
        assert_eq!(all.verbosity.lock().get("network.asio"), Some(&2));
    }
}
