//! Fail points: failures that a client requests in order to test itself. They exist only with
//! `enableTestCommands`; without it, the only cost is one relaxed load per command. Must not know
//! what any command does.

use super::transactions::{RETRYABLE, RETRYABLE_WRITE, TRANSIENT, is_transient};
use crate::connections::ConnectionInfo;
use model::{Doc, DocBuf, DocWriter, MongoError, Result, Value, bail, code};
use parking_lot::Mutex;
use request::generic::Generic;
use request::spec::{Spec, flag};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

/// Names of the fail points that a client may configure.
pub const NAMES: &[&str] = &[
    "failCommand",
    "failGetMoreAfterCursorCheckout",
    "maxTimeAlwaysTimeOut",
    "maxTimeNeverTimeOut",
    ON_WRITE,
];

/// The fail point that fails retryable writes before or after they are made.
const ON_WRITE: &str = "onPrimaryTransactionalWrite";

/// Longest `blockTimeMS`, in milliseconds.
const BLOCK_MS_MAX: i64 = 10 * 60 * 1000;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    Always,
    /// Hit this many times.
    Times(i64),
    /// Passed this many times, then hit this many times, or without end.
    Skip(i64, Option<i64>),
    /// Hit with this probability.
    Random(f64),
}

#[derive(Clone, Debug)]
struct Point {
    mode: Mode,
    data: DocBuf,
    hits: i64,
}

impl Point {
    fn hit(&mut self) -> bool {
        let hit = match &mut self.mode {
            Mode::Always => true,
            Mode::Times(n) if *n > 0 => {
                *n -= 1;
                true
            }
            Mode::Times(_) => false,
            Mode::Skip(n, _) if *n > 0 => {
                *n -= 1;
                false
            }
            Mode::Skip(_, None) => true,
            Mode::Skip(_, Some(n)) => {
                *n -= 1;
                *n >= 0
            }
            Mode::Random(p) => rand::random::<f64>() < *p,
        };
        self.hits += i64::from(hit);
        hit
    }
}

/// All fail points of the server.
#[derive(Default)]
pub struct FailPoints {
    armed: AtomicBool,
    points: Mutex<BTreeMap<&'static str, Point>>,
}

/// The failure that `failCommand` requests for one command.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// Milliseconds to wait first.
    pub block_ms: i64,
    /// Close the connection without a reply.
    pub close: bool,
    /// The code of the error to answer with; 0 for no error.
    pub code: i32,
    /// The labels of the error, when the client specified them.
    pub labels: Option<Vec<String>>,
    /// Added to a successful reply.
    pub write_concern_error: Option<DocBuf>,
}

impl FailPoints {
    /// True when at least one fail point is on.
    pub fn is_armed(&self) -> bool {
        self.armed.load(Ordering::Relaxed)
    }

    /// Sets a fail point and returns how often it was hit.
    ///
    /// # Errors
    /// 266 FailPointSetFailed for an unknown name, 2 BadValue and 9 FailedToParse for an invalid
    /// mode.
    pub fn configure(&self, name: &str, mode: Value<'_>, data: Doc<'_>) -> Result<i64> {
        let Some(name) = NAMES.iter().find(|n| **n == name) else {
            bail!(266, "{name} not found, known are {}", NAMES.join(", "));
        };
        let mode = parse_mode(mode)?;
        let mut points = self.points.lock();
        let hits = points.get(name).map_or(0, |p| p.hits);
        match mode {
            Some(mode) => points.insert(
                name,
                Point {
                    mode,
                    data: data.to_buf(),
                    hits,
                },
            ),
            None => points.remove(name),
        };
        self.armed.store(!points.is_empty(), Ordering::Relaxed);
        Ok(hits)
    }

    /// How often a fail point was hit; `None` when it is off.
    pub fn hits(&self, name: &str) -> Option<i64> {
        self.points.lock().get(name).map(|p| p.hits)
    }

    /// Fails if `maxTimeAlwaysTimeOut` is on; called for operations with a time limit.
    ///
    /// # Errors
    /// 50 MaxTimeMSExpired by `maxTimeAlwaysTimeOut`.
    pub fn time_out(&self) -> Result<()> {
        if self.is_armed()
            && self
                .points
                .lock()
                .get_mut("maxTimeAlwaysTimeOut")
                .is_some_and(Point::hit)
        {
            bail!(code::MAX_TIME_MS_EXPIRED, "operation exceeded time limit");
        }
        Ok(())
    }

    /// Fails if `failGetMoreAfterCursorCheckout` is on; called for each getMore.
    ///
    /// # Errors
    /// 28616, or the code in the fail point's data, by `failGetMoreAfterCursorCheckout`.
    pub fn check_get_more(&self) -> Result<()> {
        if !self.is_armed() {
            return Ok(());
        }
        let mut points = self.points.lock();
        let Some(p) = points.get_mut("failGetMoreAfterCursorCheckout") else {
            return Ok(());
        };
        if !p.hit() {
            return Ok(());
        }
        let error = p
            .data
            .doc()
            .field("errorCode")
            .as_i64_exact()
            .and_then(|c| i32::try_from(c).ok())
            .unwrap_or(28_616);
        bail!(error, "Hit the fail point failGetMoreAfterCursorCheckout");
    }

    /// True when the connection is to be closed after a retryable write that was made.
    pub fn after_write(&self) -> bool {
        if !self.is_armed() {
            return false;
        }
        let mut points = self.points.lock();
        points.get_mut(ON_WRITE).is_some_and(|point| {
            failure_of_write(point.data.doc()).is_none() && closes(point.data.doc()) && point.hit()
        })
    }

    /// The failure of this command, if a fail point requests one.
    ///
    /// # Errors
    /// 50 MaxTimeMSExpired by `maxTimeAlwaysTimeOut`.
    pub fn at(
        &self,
        conn: &ConnectionInfo,
        command: &Spec,
        generic: &Generic<'_>,
        body: Doc<'_>,
    ) -> Result<Option<Failure>> {
        if generic.max_time_ms > 0 && !command.is(flag::WAITS_FOR_DATA) {
            self.time_out()?;
        }
        let mut points = self.points.lock();
        let retryable = command.is(flag::RETRYABLE) && !generic.is_in_transaction();
        if retryable
            && generic.txn_number.is_some()
            && let Some(point) = points.get_mut(ON_WRITE)
            && let Some(failure) = failure_of_write(point.data.doc())
            && point.hit()
        {
            return Ok(Some(failure));
        }
        let Some(point) = points.get_mut("failCommand") else {
            return Ok(None);
        };
        let data = point.data.clone();
        if !concerns(data.doc(), conn, command, generic.db, body) || !point.hit() {
            return Ok(None);
        }
        Ok(Some(failure(data.doc())))
    }
}

fn parse_mode(mode: Value<'_>) -> Result<Option<Mode>> {
    match mode {
        Value::String("off") => Ok(None),
        Value::String("alwaysOn") => Ok(Some(Mode::Always)),
        Value::String(other) => bail!(
            code::BAD_VALUE,
            "unknown mode '{other}', allowed are 'off', 'alwaysOn' and a document"
        ),
        Value::Document(d) => {
            let Some((name, value)) = d.first() else {
                bail!(
                    code::BAD_VALUE,
                    "the mode of a fail point may not be an empty document"
                );
            };
            let count = || match request::args::to_i64(&value) {
                Some(n) if n >= 0 => Ok(n),
                _ => bail!(
                    code::BAD_VALUE,
                    "'{name}' of a fail point must be a number of 0 or more, given {}",
                    request::args::show(&value)
                ),
            };
            match name {
                "times" => Ok(Some(Mode::Times(count()?))),
                "skip" => {
                    let times = request::args::to_i64(&d.field("times"));
                    Ok(Some(Mode::Skip(count()?, times.map(|n| n.max(0)))))
                }
                "activationProbability" => match value.as_f64() {
                    Some(p) if (0.0..=1.0).contains(&p) => Ok(Some(Mode::Random(p))),
                    _ => bail!(
                        code::BAD_VALUE,
                        "activationProbability must be between 0.0 and 1.0"
                    ),
                },
                other => bail!(
                    code::BAD_VALUE,
                    "unknown mode '{other}', allowed are times, skip and activationProbability"
                ),
            }
        }
        v => bail!(
            code::TYPE_MISMATCH,
            "'mode' must be a string or a document, given {}",
            v.type_name()
        ),
    }
}

fn concerns(data: Doc<'_>, conn: &ConnectionInfo, command: &Spec, db: &str, body: Doc<'_>) -> bool {
    if command.is(flag::NEVER_FAILS) {
        return false;
    }
    let named = data.field("failCommands").as_array().is_some_and(|names| {
        names.iter().any(|n| {
            n.as_str()
                .is_some_and(|n| n == command.name || command.aliases.contains(&n))
        })
    });
    let app = || {
        let Some(wanted) = data.field("appName").as_str() else {
            return true;
        };
        let client = conn.client.lock();
        // The first greeting of a connection contains the client's metadata, which are not stored
        // yet.
        let told = client.as_ref().map(|c| c.doc());
        let told = told.or_else(|| body.field("client").as_doc());
        let name = told
            .and_then(|c| c.field("application").as_doc())
            .and_then(|a| a.field("name").as_str());
        name == Some(wanted)
    };
    let ns = body.first().and_then(|(_, v)| v.as_str());
    let namespace = || {
        data.field("namespace")
            .as_str()
            .is_none_or(|w| w.split_once('.') == ns.map(|c| (db, c)))
    };
    named && app() && namespace()
}

fn failure(data: Doc<'_>) -> Failure {
    let labels = data.field("errorLabels").as_array();
    Failure {
        block_ms: if data.field("blockConnection").truthy() {
            request::args::to_i64(&data.field("blockTimeMS"))
                .unwrap_or(0)
                .clamp(0, BLOCK_MS_MAX)
        } else {
            0
        },
        close: data.field("closeConnection").truthy(),
        code: request::args::to_i64(&data.field("errorCode"))
            .and_then(|c| i32::try_from(c).ok())
            .unwrap_or(0),
        labels: labels.map(|l| {
            l.iter()
                .filter_map(|v| v.as_str().map(str::to_owned))
                .collect()
        }),
        write_concern_error: data.field("writeConcernError").as_doc().map(|d| d.to_buf()),
    }
}

/// The failure that `onPrimaryTransactionalWrite` requests instead of a write; `None` when the
/// write is to be made.
fn failure_of_write(data: Doc<'_>) -> Option<Failure> {
    let code = request::args::to_i64(&data.field("failBeforeCommitExceptionCode"))?;
    Some(Failure {
        block_ms: 0,
        close: closes(data),
        code: i32::try_from(code).unwrap_or(0),
        labels: None,
        write_concern_error: None,
    })
}

/// Whether `onPrimaryTransactionalWrite` closes the connection.
fn closes(data: Doc<'_>) -> bool {
    (data.get("closeConnection")).is_none_or(|close| close.truthy())
}

impl Failure {
    /// The error of the reply, if a fail point requests one.
    pub fn error(&self, generic: &Generic<'_>, ends: bool) -> Option<MongoError> {
        if self.code == 0 {
            return None;
        }
        let e = MongoError::new(self.code, "Failing command via 'failCommand' failpoint");
        Some(match &self.labels {
            Some(labels) => e.extra(DocBuf::build(|w| put_labels(w, labels))),
            None if generic.is_in_transaction() && !ends => {
                if RETRYABLE.contains(&self.code) || is_transient(&e, false) {
                    e.label(TRANSIENT)
                } else {
                    e
                }
            }
            None if generic.is_in_transaction() && is_transient(&e, true) => e.label(TRANSIENT),
            None if generic.txn_number.is_some() && RETRYABLE.contains(&self.code) => {
                e.label(RETRYABLE_WRITE)
            }
            None => e,
        })
    }

    /// Adds the write concern error to a successful reply.
    pub fn finish(&self, numbered: bool, reply: &mut Vec<u8>, start: usize) {
        let Some(error) = &self.write_concern_error else {
            return;
        };
        let Some(fields) = Doc::new(reply.get(start..).unwrap_or(&[])).map(|d| d.to_buf()) else {
            return;
        };
        reply.truncate(start);
        let mut out = DocWriter::new(reply);
        out.put_all(fields.doc());
        out.put("writeConcernError", error.doc());
        let code = request::args::to_i64(&error.doc().field("code"))
            .and_then(|c| i32::try_from(c).ok())
            .unwrap_or(0);
        match &self.labels {
            Some(labels) => put_labels(&mut out, labels),
            None if numbered && RETRYABLE.contains(&code) => {
                put_labels(&mut out, &[RETRYABLE_WRITE.to_owned()]);
            }
            None => {}
        }
    }
}

fn put_labels(w: &mut DocWriter<'_>, labels: &[String]) {
    let mut list = w.array("errorLabels");
    for label in labels {
        list.push(label.as_str());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_count() {
        let mut p = Point {
            mode: Mode::Times(2),
            data: DocBuf::new(),
            hits: 0,
        };
        assert_eq!([p.hit(), p.hit(), p.hit()], [true, true, false]);
        let mut p = Point {
            mode: Mode::Skip(1, None),
            data: DocBuf::new(),
            hits: 0,
        };
        assert_eq!([p.hit(), p.hit(), p.hit()], [false, true, true]);
        assert_eq!(p.hits, 2);
    }

    #[test]
    fn unknown_names_and_modes_are_refused() {
        let f = FailPoints::default();
        assert_eq!(
            f.configure("nonesuch", Value::String("off"), Doc::EMPTY)
                .unwrap_err()
                .code(),
            266
        );
        assert_eq!(
            f.configure("failCommand", Value::String("on"), Doc::EMPTY)
                .unwrap_err()
                .code(),
            2
        );
        assert_eq!(
            f.configure("failCommand", Value::String("alwaysOn"), Doc::EMPTY)
                .unwrap(),
            0
        );
        assert!(f.is_armed());
        f.configure("failCommand", Value::String("off"), Doc::EMPTY)
            .unwrap();
        assert!(!f.is_armed());
    }
}
