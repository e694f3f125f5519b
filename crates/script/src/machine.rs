//! The JavaScript runtime of a thread, and the session of its current operation.

use crate::limits::Settings;
use crate::session::Session;
use crate::{emitted, failure, native, origins, watch};
use model::{MongoError, Result, Value};
use operation::ConnectionId;
use operators::Cx;
use operators::script::{Call, CallResult};
use rquickjs::Runtime;
use std::cell::RefCell;

/// Most bytes of stack for a script; threads have two megabytes.
const STACK_BYTES: usize = 1 << 20;
/// The engine looks for cycles after so many bytes were allocated.
const GC_BYTES: usize = 4 << 20;

struct Machine {
    /// Declared before the runtime, which must be dropped last.
    session: Option<Session>,
    runtime: Runtime,
}

thread_local! {
    static MACHINE: RefCell<Option<Machine>> = const { RefCell::new(None) };
}

impl Machine {
    fn new() -> Result<Machine> {
        let runtime = Runtime::new().map_err(|_| memory_error())?;
        runtime.set_max_stack_size(STACK_BYTES);
        runtime.set_gc_threshold(GC_BYTES);
        runtime.set_interrupt_handler(Some(Box::new(watch::is_over)));
        Ok(Machine {
            session: None,
            runtime,
        })
    }

    fn call<'a>(
        &mut self,
        settings: &Settings<'_>,
        cx: &Cx<'_, 'a>,
        call: &Call<'_, '_>,
    ) -> Result<Value<'a>> {
        if self
            .session
            .as_ref()
            .is_none_or(|s| s.operation != cx.env.id)
        {
            // The runtime holds values of one operation at a time only.
            self.session = None;
            self.runtime.set_memory_limit(settings.limits.heap_bytes);
            self.session = Some(Session::new(&self.runtime, cx.env, settings.version)?);
        }
        let Some(session) = &mut self.session else {
            return Err(memory_error());
        };
        session.call(cx, call)
    }
}

fn memory_error() -> MongoError {
    failure::script_error("InternalError: out of memory")
}

/// Calls a function on this thread.
pub(crate) fn call<'a>(
    settings: &Settings<'_>,
    cx: &Cx<'_, 'a>,
    call: &Call<'_, '_>,
) -> Result<Value<'a>> {
    let limits = settings.limits;
    watch::begin(cx.env.operation.clone(), limits.call);
    emitted::begin((call.wants == CallResult::Emitted).then_some(limits.emitted_bytes));
    let called = MACHINE.with(|machine| {
        let mut machine = machine
            .try_borrow_mut()
            .map_err(|_| MongoError::internal("a script within a script"))?;
        let machine = match &mut *machine {
            Some(m) => m,
            none => none.insert(Machine::new()?),
        };
        let called = machine.call(settings, cx, call);
        if called.is_err() {
            // The session may be short of memory or in an inconsistent state.
            machine.session = None;
        }
        called
    });
    origins::clear();
    let operation = cx.env.operation.as_ref();
    let by = operation.map_or(ConnectionId::NONE, |op| op.connection());
    native::hand_on_lines(by, settings.print);
    match watch::end() {
        // Even if the script has caught the exception.
        Some(why) => {
            end(cx.env.id);
            Err(why)
        }
        None => called,
    }
}

/// Drops the session of an operation, if this thread has it.
pub(crate) fn end(operation: u64) {
    // A thread that is exiting has none any more.
    let _ = MACHINE.try_with(|machine| {
        if let Ok(mut machine) = machine.try_borrow_mut()
            && let Some(machine) = machine.as_mut()
            && machine
                .session
                .as_ref()
                .is_some_and(|s| s.operation == operation)
        {
            machine.session = None;
        }
    });
}
