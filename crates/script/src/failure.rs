//! Errors of the JavaScript engine and of this crate, as MongoDB's errors.

use model::{MongoError, code};
use rquickjs::{Ctx, Error, Function, Object};

/// An error of the engine, or one of the server that passes through unchanged.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The engine's.
    Engine(Error),
    /// Ours.
    Ours(MongoError),
}

impl From<Error> for Failure {
    fn from(e: Error) -> Failure {
        Failure::Engine(e)
    }
}

impl From<MongoError> for Failure {
    fn from(e: MongoError) -> Failure {
        Failure::Ours(e)
    }
}

/// The result of a conversion.
pub(crate) type Outcome<T> = Result<T, Failure>;

impl Failure {
    /// Converts it to the client's error. `tools` formats a thrown value.
    pub(crate) fn into_error<'js>(self, ctx: &Ctx<'js>, tools: Option<&Object<'js>>) -> MongoError {
        match self {
            Failure::Ours(e) => e,
            Failure::Engine(Error::Exception) => {
                let thrown = ctx.catch();
                if thrown.is_null() {
                    // The engine throws this when it has no memory for an error object.
                    return script_error("InternalError: out of memory");
                }
                let message = tools
                    .and_then(|t| t.get::<_, Function<'js>>("thrown").ok())
                    .and_then(|f| f.call::<_, String>((thrown.clone(),)).ok())
                    .or_else(|| thrown.as_exception().map(ToString::to_string));
                // Formatting the message may have thrown an exception, too.
                ctx.catch();
                script_error(&message.unwrap_or_else(|| "a value was thrown".to_owned()))
            }
            Failure::Engine(Error::Allocation | Error::Unknown) => {
                script_error("InternalError: out of memory")
            }
            Failure::Engine(e) => script_error(&e.to_string()),
        }
    }
}

/// 139 JSInterpreterFailure.
pub(crate) fn script_error(message: &str) -> MongoError {
    MongoError::new(code::JS_INTERPRETER_FAILURE, message.to_owned())
}
