//! The log of all changes, `local.oplog.rs` (ADR 0020). Promises: an entry is in the batch of its
//! change; readers see entries in the order of their times, each once. Must not know: documents,
//! sessions, cursors.

mod audience;
mod concerned;
mod consumers;
mod due;
mod entry;
mod note;
mod positions;
mod reader;
mod reference_counters;
mod references;
mod retention;
mod times;
mod truncate;
mod watch;

pub use audience::Audience;
pub use concerned::NamespaceHash;
pub use consumers::{ConsumerState, Lifetime, LogConsumer};
pub(crate) use entry::{EntryList, LogRows, NewRecord, SessionFields, common, operation, uuid};
pub use reader::{LogReader, LogVisitor, VisitResult};
pub use reference_counters::ReferenceCounts;
pub(crate) use references::{records_of_row, resolve};
pub use times::{Log, LogSettings};
pub use watch::{Waker, WakerGuard, Watch};
