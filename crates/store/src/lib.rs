//! Documents and indexes over a storage engine.
//!
//! Promises: documents are clustered by `_id` (one read per point lookup); secondary index entries
//! are put without reading the index; a document, its index entries and the counters change in one
//! commit; counts are exact after any crash; a collection is opened by one read of its catalog row.
//! Must not know: operators, queries, commands, sockets, which engine is below.
//!
//! Layers, each importing only from those before it: the leaves `error`, `hooks`, `format` (bytes),
//! `commit` (the one way to change data), `log`, `sync`, `locks`, `gate`; `index` (specification,
//! and the keys of a document); `catalog` (collections and indexes); `view` (reading); `write`
//! (documents); `follow` (data that another process writes); `store` (the public interface); `ddl`
//! (changes of the catalog), `validate`, `repair`.

pub mod catalog;
mod commit;
mod ddl;
pub mod error;
mod exclusive;
mod follow;
mod following;
pub mod format;
mod gate;
mod handles;
pub mod hooks;
pub mod index;
mod jobs;
pub mod locks;
mod log;
mod names;
mod peers;
mod released;
mod repair;
mod store;
mod sync;
mod validate;
mod validate_segments;
mod view;
mod write;

pub use catalog::{CollStats, Collection, LARGE_BYTES, asks_to_spread};
pub use ddl::writer::CatalogWriter;
pub use ddl::{IndexBuild, IndexEquality};
pub use format::diff::{ChangedPaths, Paths, Set, apply as apply_diff, apply_what_fits};
pub use format::record::Header;
pub use format::segment::SegmentColumn;
pub use gate::{ClosingGuard, ExclusiveGuard, Gate, SharedGuard};
pub use hooks::{CellExtractor, Hooks, NoHooks, Predicate, Terms};
pub use index::{
    Coverage, EntryParts, FieldKind, Index, IndexField, KeyInterval, KeySet, TextPart, Usage,
    WantedFields, WildcardPart, encode_cell,
};
pub use log::{
    Audience, ConsumerState, Lifetime, Log, LogConsumer, LogKeeper, LogReader, LogSettings,
    LogVisitor, NamespaceHash, ReferenceCounts, UnpublishedLog, VisitResult, Waker, WakerGuard,
    Watch,
};
pub use names::CollectionEntry;
pub use peers::Peer;
pub use released::Registration;
pub use repair::{DamagedRow, RepairReport, SalvageSink, check_catalog, check_log, repair};
pub use store::Store;
pub use validate::Validation;
pub use view::ReadView;
pub use view::bucket_facts::BucketStats;
pub use view::buckets::{BucketScanStats, BucketView, SeriesRead, SeriesScan};
pub use view::columns::{NextSegment, Segment, Segments};
pub use view::entry_ranges::{EntryRange, EntryRanges};
pub use view::estimate::EntryCount;
pub use view::index_scan::IndexScan;
pub use view::parts::{Part, Parts};
pub use view::rows::{EntryVisitor, Row, RowVisitor};
pub use view::scan::Scan;
pub use view::text_scan::TermsScan;
pub use write::change::{Change, DecideFn, ModifyOutcome};
pub use write::insert::InsertOutcome;
pub use write::segments::{NewSegment, ReplacedSegments};
pub use write::session::{Effect, NumberOrder, RetryImage, SessionId, SessionRecord, StatementLog};
pub use write::session_sweep::SeenSessions;
pub use write::transaction::Transaction;
pub use write::writer::Writer;

/// Position of a commit in the journal; hand it to [`Store::wait_durable`].
pub use storage::CommitPos;
/// Classes of writers, for the engine's admission control.
pub use storage::WriteClass;
/// An engine to which another process writes, and its moments, see [`Store::follow`].
pub use storage::{Follower, Moment};
