//! `MongoError`: the error type of operators, query and commands. One pointer wide, so that
//! `Result` stays small.

use crate::DocBuf;
use crate::code;

/// Result with a [`MongoError`].
pub type Result<T> = std::result::Result<T, MongoError>;

/// An error as MongoDB reports it: number, name (derived), message, labels, details.
#[derive(Clone, PartialEq)]
pub struct MongoError(Box<Inner>);

/// What an error means to the server's own control flow. Clients see only codes and messages;
/// several causes share one code, and messages are for people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ErrorKind {
    /// No meaning besides its code.
    #[default]
    Plain,
    /// The collection of an operation was dropped, renamed or replaced during the operation.
    CollectionGone,
    /// The operation has done nothing; it runs again when what it waits for is released.
    SetAside,
    /// The operation has done nothing: something was announced since the state that it rests on. It
    /// runs again at a new moment.
    Outdated,
    /// A division by zero in an expression.
    DivisionByZero,
}

#[derive(Clone, PartialEq)]
struct Inner {
    code: i32,
    kind: ErrorKind,
    message: String,
    labels: Vec<&'static str>,
    /// Extra top-level fields of the error reply (`keyPattern`, `keyValue`, `errInfo`, ...).
    extra: Option<DocBuf>,
}

impl MongoError {
    /// An error with a code of [`code`] or a location number.
    pub fn new(code: i32, message: impl Into<String>) -> MongoError {
        MongoError(Box::new(Inner {
            code,
            kind: ErrorKind::Plain,
            message: message.into(),
            labels: Vec::new(),
            extra: None,
        }))
    }
    /// 2 BadValue.
    pub fn bad_value(message: impl Into<String>) -> MongoError {
        MongoError::new(code::BAD_VALUE, message)
    }
    /// 9 FailedToParse.
    pub fn failed_to_parse(message: impl Into<String>) -> MongoError {
        MongoError::new(code::FAILED_TO_PARSE, message)
    }
    /// 14 TypeMismatch.
    pub fn type_mismatch(message: impl Into<String>) -> MongoError {
        MongoError::new(code::TYPE_MISMATCH, message)
    }
    /// 1 InternalError: a broken invariant of the server.
    pub fn internal(message: impl Into<String>) -> MongoError {
        MongoError::new(code::INTERNAL_ERROR, message)
    }
    /// Sets the meaning of the error for the server itself.
    #[must_use]
    pub fn kind(mut self, kind: ErrorKind) -> MongoError {
        self.0.kind = kind;
        self
    }
    /// Adds an error label.
    #[must_use]
    pub fn label(mut self, label: &'static str) -> MongoError {
        self.0.labels.push(label);
        self
    }
    /// Adds top-level fields to the reply.
    #[must_use]
    pub fn extra(mut self, fields: DocBuf) -> MongoError {
        self.0.extra = Some(fields);
        self
    }
    /// Prepends a prefix to the message, as parsers do when they pass an error up.
    #[must_use]
    pub fn context(mut self, prefix: &str) -> MongoError {
        self.0.message = format!("{prefix} :: caused by :: {}", self.0.message);
        self
    }
    /// True when it is of this kind. A prefix of the message does not change the kind.
    pub fn is(&self, kind: ErrorKind) -> bool {
        self.0.kind == kind
    }
    /// True when the collection of the operation was dropped, renamed or replaced.
    pub fn is_collection_gone(&self) -> bool {
        self.is(ErrorKind::CollectionGone)
    }
    /// The error code.
    pub fn code(&self) -> i32 {
        self.0.code
    }
    /// The name of the code; `Location<number>` for codes without one.
    pub fn code_name(&self) -> String {
        code::name(self.0.code)
    }
    /// The message.
    pub fn message(&self) -> &str {
        &self.0.message
    }
    /// Error labels.
    pub fn labels(&self) -> &[&'static str] {
        &self.0.labels
    }
    /// Extra reply fields.
    pub fn extra_fields(&self) -> Option<&DocBuf> {
        self.0.extra.as_ref()
    }
}

impl std::fmt::Debug for MongoError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} ({}): {}",
            self.code(),
            self.code_name(),
            self.message()
        )
    }
}
impl std::fmt::Display for MongoError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.message())
    }
}
impl std::error::Error for MongoError {}

/// `bail!(code, "format {x}")`: returns early with a [`MongoError`].
#[macro_export]
macro_rules! bail {
    ($code:expr, $($fmt:tt)+) => { return Err($crate::MongoError::new($code, format!($($fmt)+))) };
}
