//! What can go wrong between the engine and us, as MongoDB's errors.

use model::{MongoError, code};
use rquickjs::{Ctx, Error, Function, Object};

/// An error of the engine, or one of ours that goes through unchanged.
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
    /// As a client sees it. `tools` makes a message of what was thrown.
    pub(crate) fn into_error<'js>(self, ctx: &Ctx<'js>, tools: Option<&Object<'js>>) -> MongoError {
        match self {
            Failure::Ours(e) => e,
            Failure::Engine(Error::Exception) => {
                let thrown = ctx.catch();
                if thrown.is_null() {
                    // What the engine throws when it has no memory for an error.
                    return failed("InternalError: out of memory");
                }
                let message = tools
                    .and_then(|t| t.get::<_, Function<'js>>("thrown").ok())
                    .and_then(|f| f.call::<_, String>((thrown.clone(),)).ok())
                    .or_else(|| thrown.as_exception().map(ToString::to_string));
                // Making the message may have failed in its turn.
                ctx.catch();
                failed(&message.unwrap_or_else(|| "a value was thrown".to_owned()))
            }
            Failure::Engine(Error::Allocation | Error::Unknown) => {
                failed("InternalError: out of memory")
            }
            Failure::Engine(e) => failed(&e.to_string()),
        }
    }
}

/// 139 JSInterpreterFailure.
pub(crate) fn failed(message: &str) -> MongoError {
    MongoError::new(code::JS_INTERPRETER_FAILURE, message.to_owned())
}
