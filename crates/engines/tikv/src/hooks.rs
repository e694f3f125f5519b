//! Those who are told of commits. Promises: each is called once for each event, in the order in
//! which they were added. Must not know: what a commit has.

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
