//! JavaScript for operators (`$where`, `$function`, `$accumulator`, mapReduce), executed by
//! QuickJS.
//!
//! Promises: a script has no I/O and sees only its arguments; it is ended when the operation is
//! interrupted, or when it runs too long, nests too deep or holds too much memory (QuickJS uses the
//! process's allocator, so its memory is charged to the operation, too); no other operation sees
//! anything that a script leaves behind.
//!
//! Each thread that runs scripts has one runtime, and in it one context for its current operation,
//! with the compiled functions. Must not know: what operators do with results, the server.

mod emitted;
mod failure;
mod limits;
mod machine;
mod native;
mod origins;
mod session;
mod source;
mod to_bson;
mod to_js;
mod watch;

pub use limits::{Limits, PrintCallback};

use limits::Settings;
use model::{Result, Value};
use operators::Cx;
use operators::Scripts;
use operators::script::Call;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// The script engine of a server.
pub struct Engine {
    heap_bytes: AtomicUsize,
    call_ms: AtomicU64,
    emitted_bytes: AtomicUsize,
    print: PrintCallback,
    version: &'static str,
}

impl Engine {
    /// An engine whose scripts print to `print` and see `version`.
    pub fn new(version: &'static str, print: PrintCallback) -> Engine {
        let engine = Engine {
            heap_bytes: AtomicUsize::new(0),
            call_ms: AtomicU64::new(0),
            emitted_bytes: AtomicUsize::new(0),
            print,
            version,
        };
        engine.set_limits(Limits::default());
        engine
    }

    /// Changes the limits for operations that begin from now on.
    pub fn set_limits(&self, limits: Limits) {
        self.heap_bytes.store(limits.heap_bytes, Relaxed);
        let ms = u64::try_from(limits.call.as_millis()).unwrap_or(u64::MAX);
        self.call_ms.store(ms, Relaxed);
        self.emitted_bytes.store(limits.emitted_bytes, Relaxed);
    }

    fn limits(&self) -> Limits {
        Limits {
            heap_bytes: self.heap_bytes.load(Relaxed),
            call: Duration::from_millis(self.call_ms.load(Relaxed)),
            emitted_bytes: self.emitted_bytes.load(Relaxed),
        }
    }
}

impl Scripts for Engine {
    fn call<'a>(&self, cx: &Cx<'_, 'a>, call: &Call<'_, '_>) -> Result<Value<'a>> {
        let settings = Settings {
            limits: self.limits(),
            print: &self.print,
            version: self.version,
        };
        machine::call(&settings, cx, call)
    }

    fn end(&self, operation: u64) {
        machine::end(operation);
    }
}

#[cfg(test)]
mod tests;
