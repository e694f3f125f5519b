//! Validators of collections, applied to documents that are written.

use model::{Doc, DocBuf, MongoError, Namespace, Result, Value, bail, code};
use operation::ConnectionId;
use state::matcher::Matcher;
use state::service::Service;
use std::sync::Arc;
use store::Collection;

/// The level at which every document of the collection is valid (9.0).
pub const LEVEL: &str = "constraint";
/// The option that is set between the two steps in which `collMod` sets the level.
pub const PREPARED: &str = "prepareConstraintValidationLevel";
/// Largest explanation of a failure in a reply, in bytes; larger ones are left out.
const DETAILS_BYTES_MAX: usize = 1 << 20;

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
    /// The connection of the writer.
    by: ConnectionId,
}

impl Validator {
    /// The validator in effect, if there is one and the writer does not `bypass` it.
    ///
    /// # Errors
    /// 72 InvalidOptions for a bypass when every document has to be valid; those of the filter
    /// parser.
    pub fn of(
        service: &Service,
        by: ConnectionId,
        coll: &Collection,
        bypass: bool,
    ) -> Result<Option<Validator>> {
        let options = coll.options();
        let d = options.doc();
        let guarded = is_guarded(d);
        if bypass && guarded {
            bail!(
                code::INVALID_OPTIONS,
                "bypassDocumentValidation is not allowed for {}, whose validation level is \
                    'constraint' or is about to be",
                coll.ns()
            );
        }
        if bypass {
            return Ok(None);
        }
        let level = d.field("validationLevel").as_str();
        match d.field("validator") {
            Value::Document(spec) if (guarded || level != Some("off")) && !spec.is_empty() => {
                Ok(Some(Validator {
                    matches: service.matcher(spec)?,
                    now_ms: service.clock.now_ms(),
                    spec: spec.to_buf(),
                    moderate: !guarded && level == Some("moderate"),
                    action: match d.field("validationAction").as_str() {
                        Some("warn") if guarded => Action::RefuseAndLog,
                        Some("warn") => Action::Log,
                        Some("errorAndLog") => Action::RefuseAndLog,
                        _ => Action::Refuse,
                    },
                    ns: coll.ns().clone(),
                    service: service.arc()?,
                    by,
                }))
            }
            _ => Ok(None),
        }
    }

    /// Documents that were invalid before the write may stay invalid.
    pub(crate) fn moderate(&self) -> bool {
        self.moderate
    }

    /// True when the document is valid. A document on which the validator fails with an error is
    /// invalid.
    pub(crate) fn accepts(&self, d: Doc<'_>) -> bool {
        self.matches.matches(d, self.now_ms).unwrap_or(false)
    }

    /// Refuses an invalid document or logs it, depending on the collection's action.
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
                "Document would fail validation: namespace {} document _id {} errInfo \
                    {details}",
                self.ns,
                d.field("_id")
            );
            self.service.log_of(self.by, 'W', "STORAGE", &line);
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

    /// Explains why the document is invalid. An explanation of many megabytes is not returned.
    fn details(&self, d: Doc<'_>) -> DocBuf {
        let env = self.service.filter_env();
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

/// Whether writes may not bypass the validator of a collection with these options.
pub fn is_guarded(options: Doc<'_>) -> bool {
    options.field("validationLevel").as_str() == Some(LEVEL) || options.field(PREPARED).truthy()
}
