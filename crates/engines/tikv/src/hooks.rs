//! Functions that are called after commits. Promises: for each event, all of them are called once,
//! in the order of their registration. Must not know: what a commit contains.

use parking_lot::Mutex;
use storage::{DurableHook, FlushEvent};

#[derive(Default)]
pub(crate) struct DurableHooks(Mutex<Vec<DurableHook>>);

impl DurableHooks {
    pub(crate) fn add(&self, hook: DurableHook) {
        self.0.lock().push(hook);
    }

    pub(crate) fn call(&self, event: FlushEvent) {
        for hook in self.0.lock().iter() {
            hook(event);
        }
    }
}
