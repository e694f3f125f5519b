//! The log of all changes, `local.oplog.rs` (ADR 0020). Promises: an entry is in the batch of its
//! change; readers see entries in the order of their times, each once. Must not know: documents,
//! sessions, cursors.

mod audience;
mod commit_times;
mod concerned;
mod consumers;
mod due;
mod ended;
mod entry;
mod keeper;
mod member;
mod merged;
mod moment;
mod note;
mod places;
mod positions;
mod published;
mod quiet;
mod reader;
mod reference_counters;
mod references;
mod renewal;
mod retention;
mod settings;
mod sums;
mod times;
mod truncate;
mod truncate_shared;
mod watch;

pub use audience::Audience;
pub(crate) use commit_times::{COMMIT_ENTRIES_MAX, end_time, position_of};
pub use concerned::NamespaceHash;
pub use consumers::{ConsumerState, Lifetime, LogConsumer};
pub(crate) use entry::{EntryList, LogRows, NewRecord, SessionFields, common, operation, uuid};
pub use keeper::LogKeeper;
pub(crate) use moment::LogMoment;
pub use places::UnpublishedLog;
pub use reader::{LogReader, LogVisitor, VisitResult};
pub use reference_counters::ReferenceCounts;
pub(crate) use references::{records_of_row, resolve};
pub use settings::LogSettings;
pub use times::Log;
pub use watch::{Waker, WakerGuard, Watch};
