//! What all writing commands share: batch limits, `_id` rules, validators, write errors.

use crate::ddl::names;
use crate::dispatch::command::flag;
use crate::language::Matcher;
use crate::state::service::Service;
use model::{Doc, DocBuf, DocWriter, MongoError, Namespace, Result, Value, bail, code};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use store::Collection;

/// Flags of writing commands.
pub(crate) const FLAGS: u32 =
    flag::API_V1 | flag::WRITE_CONCERN | flag::WRITE | flag::RETRYABLE | flag::IN_TRANSACTION;

/// Checks the number of operations of a batch.
///
/// # Errors
/// 16 InvalidLength.
pub fn check_batch(count: usize) -> Result<()> {
    let max = usize::try_from(crate::release::WRITE_BATCH_MAX).unwrap_or(100_000);
    if (1..=max).contains(&count) {
        return Ok(());
    }
    bail!(
        code::INVALID_LENGTH,
        "Write batch sizes must be between 1 and {max}. Got {count} operations"
    );
}

/// Checks that a value may be an `_id`.
///
/// # Errors
/// 53 InvalidIdField, 52 for a field of it that starts with a dollar.
pub fn check_id(id: &Value<'_>) -> Result<()> {
    match id {
        Value::Array(_) | Value::Regex(_) | Value::Undefined => {
            bail!(
                code::INVALID_ID_FIELD,
                "The '_id' value cannot be of type {}",
                id.type_name()
            )
        }
        Value::Document(d) => match d.iter().find(|(k, _)| k.starts_with('$')) {
            Some((k, _)) => bail!(
                code::DOLLAR_PREFIXED_FIELD_NAME,
                "_id fields may not contain '$'-prefixed fields: {k} is not valid for storage"
            ),
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

static COUNTER: AtomicU32 = AtomicU32::new(0);
static PROCESS: std::sync::LazyLock<[u8; 5]> = std::sync::LazyLock::new(rand::random);

/// A fresh object id: seconds, process, counter.
pub fn new_object_id(now_ms: i64) -> [u8; 12] {
    let mut id = [0; 12];
    id[..4].copy_from_slice(&u32::try_from(now_ms / 1000).unwrap_or(0).to_be_bytes());
    id[4..9].copy_from_slice(&*PROCESS);
    id[9..].copy_from_slice(&COUNTER.fetch_add(1, Ordering::Relaxed).to_be_bytes()[1..]);
    id
}

/// The document with an `_id`, which stands first.
///
/// # Errors
/// 53, 52; 10334 when too large.
pub fn with_id(d: Doc<'_>, now_ms: i64) -> Result<DocBuf> {
    let id = d.field("_id");
    check_id(&id)?;
    if d.len_bytes() > model::bson::MAX_DOCUMENT_BYTES {
        bail!(
            code::BSON_OBJECT_TOO_LARGE,
            "object to insert too large. size in bytes: {}",
            d.len_bytes()
        );
    }
    if d.first().is_some_and(|(name, _)| name == "_id") {
        return Ok(d.to_buf());
    }
    Ok(DocBuf::build(|w| {
        match id {
            Value::Missing => w.put("_id", model::ObjectId(new_object_id(now_ms))),
            id => w.put("_id", id),
        };
        for (name, v) in d.iter().filter(|(n, _)| *n != "_id") {
            w.put(name, v);
        }
    }))
}

/// Makes the collection a write found missing.
///
/// # Errors
/// 73; engine failures.
pub fn create_implicitly(service: &Service, ns: &Namespace) -> Result<Arc<Collection>> {
    names::may_create(ns)?;
    match service
        .store
        .create_collection(ns, DocBuf::new(), names::new_uuid())
    {
        Ok(c) => Ok(c),
        // Another writer was faster.
        Err(e) if e.code() == code::NAMESPACE_EXISTS => {
            service.store.collection(ns)?.ok_or_else(|| {
                MongoError::new(code::NAMESPACE_NOT_FOUND, format!("ns not found {ns}"))
            })
        }
        Err(e) => Err(e),
    }
}

/// Larger explanations are left out.
const DETAILS_BYTES_MAX: usize = 1 << 20;
/// Explanations of all failures of one reply together.
const EXTRA_BYTES_MAX: usize = 8 << 20;

/// What happens to a document that fails validation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Action {
    Refuse,
    Log,
    RefuseAndLog,
}

/// The validator of a collection.
pub struct Validator {
    matches: Matcher,
    now_ms: i64,
    spec: DocBuf,
    moderate: bool,
    action: Action,
    ns: Namespace,
    service: Arc<Service>,
}

impl Validator {
    /// The validator in force, if there is one.
    ///
    /// # Errors
    /// Those of the filter parser.
    pub fn of(service: &Service, coll: &Collection) -> Result<Option<Validator>> {
        let options = coll.options();
        let d = options.doc();
        let level = d.field("validationLevel").as_str();
        match d.field("validator") {
            Value::Document(spec) if level != Some("off") && !spec.is_empty() => {
                Ok(Some(Validator {
                    matches: service.matcher(spec)?,
                    now_ms: service.clock.now_ms(),
                    spec: spec.to_buf(),
                    moderate: level == Some("moderate"),
                    action: match d.field("validationAction").as_str() {
                        Some("warn") => Action::Log,
                        Some("errorAndLog") => Action::RefuseAndLog,
                        _ => Action::Refuse,
                    },
                    ns: coll.ns().clone(),
                    service: service.arc()?,
                }))
            }
            _ => Ok(None),
        }
    }

    /// Documents that were invalid before may stay so.
    pub fn moderate(&self) -> bool {
        self.moderate
    }

    /// True when the document is valid. A document the validator fails on is not.
    pub fn accepts(&self, d: Doc<'_>) -> bool {
        self.matches.matches(d, self.now_ms).unwrap_or(false)
    }

    /// Refuses an invalid document, or logs it, as the collection says.
    ///
    /// # Errors
    /// 121 DocumentValidationFailure with `errInfo`.
    pub fn check(&self, d: Doc<'_>) -> Result<()> {
        if self.accepts(d) {
            return Ok(());
        }
        let details = self.details(d);
        if self.action != Action::Refuse {
            let line = format!(
                "Document would fail validation: namespace {} document _id {:?} errInfo \
                    {details:?}",
                self.ns,
                d.field("_id")
            );
            self.service.log('W', "STORAGE", &line);
        }
        if self.action == Action::Log {
            return Ok(());
        }
        let extra =
            model::doc! { "errInfo": { "failingDocumentId": d.field("_id"), "details": &details } };
        Err(MongoError::new(
            code::DOCUMENT_VALIDATION_FAILURE,
            "Document failed validation",
        )
        .extra(extra))
    }

    /// Why the document fails. Values of many megabytes are not sent back.
    fn details(&self, d: Doc<'_>) -> DocBuf {
        let env = operators::Env::new(self.now_ms, 1);
        match operators::filter::explain_failure(self.spec.doc(), d, &env) {
            Some(found) if found.as_bytes().len() <= DETAILS_BYTES_MAX => found,
            found => DocBuf::build(|w| {
                w.put(
                    "operatorName",
                    found
                        .as_ref()
                        .map_or(Value::Missing, |f| f.doc().field("operatorName")),
                );
                w.put("reason", "the document does not match the validator")
                    .put("truncated", true);
            }),
        }
    }
}

/// Writes `writeErrors` when there are any.
pub fn errors(reply: &mut DocWriter<'_>, errors: &[(usize, MongoError)]) {
    if errors.is_empty() {
        return;
    }
    let mut list = reply.array("writeErrors");
    let mut left = EXTRA_BYTES_MAX;
    for (index, e) in errors {
        let mut one = list.doc();
        one.put("index", i32::try_from(*index).unwrap_or(i32::MAX))
            .put("code", e.code());
        if let Some(extra) = e.extra_fields().filter(|x| x.as_bytes().len() <= left) {
            left -= extra.as_bytes().len();
            one.put_all(extra.doc());
        }
        one.put("errmsg", e.message());
    }
}
