//! State that a change stream shares with the cursor above it: its progress, what wakes it, the
//! token from which it resumes. Must not know: how events are made.

use super::resume_token::ResumeToken;
use model::Timestamp;
use parking_lot::Mutex;
use std::sync::Arc;
use store::{Store, Watch};

/// The metadata field of events that holds their token.
pub const CHANGE_TOKEN: &str = "changeStreamToken";

/// What the server provides for change streams.
pub struct ChangeHost<'h> {
    /// A store with a log.
    pub store: &'h Arc<Store>,
    /// How long pre-images are kept, in milliseconds; `None` keeps them as long as the log.
    pub image_ms: Option<i64>,
}

/// The progress of a change stream.
#[derive(Default)]
pub struct ChangeProgress {
    /// The event after which the stream was asked to resume.
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
    /// The progress of a stream that resumes after `behind`, or of a new stream.
    pub fn new(behind: Option<ResumeToken>) -> ChangeProgress {
        ChangeProgress {
            behind,
            state: Mutex::default(),
        }
    }

    /// The event after which the stream was asked to resume.
    pub fn resume_token(&self) -> Option<ResumeToken> {
        self.behind
    }

    /// Notes that the stream is open and begins with the log entries of time `next`.
    pub fn open(&self, watch: Arc<Watch>, next: Timestamp) {
        let mut state = self.state.lock();
        (state.watch, state.next) = (Some(watch), next.as_u64());
    }

    /// Notes that all entries before `next` were read; `at_end` says that the log has no more now.
    pub fn advance(&self, next: Timestamp, at_end: bool) {
        let mut state = self.state.lock();
        (state.next, state.at_end) = (next.as_u64(), at_end);
    }

    /// Marked when there may be new entries; `Some` once the stream is open.
    pub fn watch(&self) -> Option<Arc<Watch>> {
        self.state.lock().watch.clone()
    }

    /// Whether the stream had read the whole log at its last step.
    pub fn is_at_end(&self) -> bool {
        self.state.lock().at_end
    }

    /// The token with which a stream resumes from here.
    pub fn place(&self) -> ResumeToken {
        ResumeToken::before_time(Timestamp::from_u64(self.state.lock().next))
    }
}
