//! What a stream of changes and the cursor above it tell each other: how far it is, what wakes it,
//! which place it goes on from. Must not know: how events are made.

use super::resume_token::ResumeToken;
use model::Timestamp;
use parking_lot::Mutex;
use std::sync::Arc;
use store::{Store, Watch};

/// The metadata field of events that holds their token.
pub const CHANGE_TOKEN: &str = "changeStreamToken";

/// What a stream of changes is made from.
pub struct ChangeHost<'h> {
    /// A store with a log.
    pub store: &'h Arc<Store>,
    /// Milliseconds for which documents before changes are kept; `None` as long as the log.
    pub image_ms: Option<i64>,
}

/// How far a stream of changes has come.
#[derive(Default)]
pub struct ChangeProgress {
    /// The event the stream was asked to go on behind.
    behind: Option<ResumeToken>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    watch: Option<Arc<Watch>>,
    next: u64,
    at_end: bool,
}

impl ChangeProgress {
    /// Of a stream that goes on behind an event, or begins anew.
    pub fn new(behind: Option<ResumeToken>) -> ChangeProgress {
        ChangeProgress {
            behind,
            state: Mutex::default(),
        }
    }

    /// The event the stream was asked to go on behind.
    pub fn behind(&self) -> Option<ResumeToken> {
        self.behind
    }

    /// The stream is open and begins with the entries of a time.
    pub fn open(&self, watch: Arc<Watch>, next: Timestamp) {
        let mut state = self.state.lock();
        (state.watch, state.next) = (Some(watch), next.as_u64());
    }

    /// Everything before a time was looked at; with `at_end` there is nothing more now.
    pub fn advance(&self, next: Timestamp, at_end: bool) {
        let mut state = self.state.lock();
        (state.next, state.at_end) = (next.as_u64(), at_end);
    }

    /// Marked when there may be something to read; there once the stream is open.
    pub fn watch(&self) -> Option<Arc<Watch>> {
        self.state.lock().watch.clone()
    }

    /// There is nothing more now.
    pub fn is_at_end(&self) -> bool {
        self.state.lock().at_end
    }

    /// The place at which a stream that has come so far goes on.
    pub fn place(&self) -> ResumeToken {
        ResumeToken::before(Timestamp::from_u64(self.state.lock().next))
    }
}
