//! The parts of query execution: batches of documents, the pull operator and its context, sorting
//! and spilling. Must not know: which stages there are, how plans are chosen.

mod ahead;
mod batch;
mod changes;
mod host;
mod match_filter;
mod permits;
mod request;
mod resume_token;
mod rows;
mod sort;
mod sort_pattern;
mod spill;
mod spool;
mod stream;

pub(crate) use ahead::drain_ahead;
pub use batch::DocBatch;
pub use changes::{CHANGE_TOKEN, ChangeHost, ChangeProgress};
pub use host::{BatchStream, ExecContext, Fold, Host, OpenRead, PartialResult, ReadRequest};
pub use match_filter::MatchFilter;
pub(crate) use permits::Permit;
pub use permits::set_scan_threads;
pub use request::{
    AllowedIndexes, CountOutput, GeoIndex, GroupEnd, MergeWrite, OnMatch, OutTarget, OutWriter,
    ResolvedNamespace, WhenNotMatched,
};
pub use resume_token::ResumeToken;
pub(crate) use rows::{Run, SortBuffer, memory_error};
pub(crate) use sort::sort_all;
pub use sort_pattern::{SortBy, SortPart, SortPattern};
pub(crate) use spill::SpillFile;
pub(crate) use spool::{FinishedSpool, Spool, SpoolStream};
pub use stream::{EmptyStream, ReadyBatch, drain};
