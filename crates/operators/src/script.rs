//! Functions in JavaScript as operators see them: what is called, with what, and what is wanted of
//! it. Promises: a script is ended when its operation is, and what it leaves behind ends with the
//! operation. Must not know: the engine, which the server puts into an operation's environment.

use model::Value;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A function as the client wrote it: `function(x) {...}`, `x => ...`, an expression, or
/// statements with a `return`.
#[derive(Debug)]
pub struct Script {
    /// The text.
    pub source: Box<str>,
    /// No other script of the process has it: what compiled code is kept by.
    pub id: u64,
}

impl Script {
    /// A script of this text.
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

/// A number nobody else has.
pub(crate) fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Relaxed)
}

/// Whether a command may run a script, by the names of operators that do in its bytes. It may be
/// wrong about texts.
pub fn is_named_in(command: &[u8]) -> bool {
    const NAMES: [&[u8]; 3] = [b"$where", b"$function", b"$accumulator"];
    NAMES
        .iter()
        .any(|name| memchr::memmem::find(command, name).is_some())
}

/// Whether a command may hold a `$where`, by its bytes. It may be wrong about texts.
pub fn names_where(command: &[u8]) -> bool {
    memchr::memmem::find(command, b"$where").is_some()
}

/// What is wanted of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallResult {
    /// The value it returns.
    Value,
    /// Whether what it returns is true as JavaScript sees it.
    Truth,
    /// The array of `{k, v}` it gave to `emit`.
    Emitted,
    /// `args` are a first state and arrays of further arguments; the function is called once for
    /// each of these with the state before it, and its last state is wanted.
    Fold,
}

/// One call.
#[derive(Clone, Copy, Debug)]
pub struct Call<'c, 'v> {
    /// What is called.
    pub script: &'c Script,
    /// `this`, and the global `obj`.
    pub this: Option<Value<'v>>,
    /// The arguments.
    pub args: &'c [Value<'v>],
    /// What is wanted.
    pub wants: CallResult,
}
