//! JavaScript functions as operators see them: the function, its arguments and the requested
//! result. Promises: a script ends when its operation is ended, and its state is dropped with the
//! operation. Must not know: the engine, which the server puts into an operation's environment.

use model::Value;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A function as the client wrote it: `function(x) {...}`, `x => ...`, an expression, or
/// statements with a `return`.
#[derive(Debug)]
pub struct Script {
    /// The source text.
    pub source: Box<str>,
    /// Unique in the process; the key of the compiled code.
    pub id: u64,
}

impl Script {
    /// A script with this source text.
    pub fn new(source: &str) -> Script {
        Script {
            source: source.into(),
            id: next_id(),
        }
    }

    /// The text of a value that may hold a script: a string or code.
    pub fn source_of<'v>(v: &Value<'v>) -> Option<&'v str> {
        match v {
            Value::String(s) | Value::Code(s) => Some(s),
            _ => None,
        }
    }
}

/// An id that is unique in the process.
pub(crate) fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Relaxed)
}

/// Whether a command may run a script: its bytes contain the name of an operator that runs scripts.
/// True also when the name is part of a text.
pub fn is_named_in(command: &[u8]) -> bool {
    const NAMES: [&[u8]; 3] = [b"$where", b"$function", b"$accumulator"];
    NAMES
        .iter()
        .any(|name| memchr::memmem::find(command, name).is_some())
}

/// Whether a command may contain a `$where`, by its bytes. True also when the name is part of a
/// text.
pub fn names_where(command: &[u8]) -> bool {
    memchr::memmem::find(command, b"$where").is_some()
}

/// The requested result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallResult {
    /// The returned value.
    Value,
    /// Whether the returned value is true in JavaScript.
    Truth,
    /// The array of `{k, v}` passed to `emit`.
    Emitted,
    /// `args` are a first state and arrays of further arguments; the function is called once for
    /// each array with the state before it, and the last state is returned.
    Fold,
}

/// One call.
#[derive(Clone, Copy, Debug)]
pub struct Call<'c, 'v> {
    /// The function.
    pub script: &'c Script,
    /// `this`, and the global `obj`.
    pub this: Option<Value<'v>>,
    /// The arguments.
    pub args: &'c [Value<'v>],
    /// The requested result.
    pub wants: CallResult,
}
