//! Reading. Promises: every read goes through a `ReadView`; between calls a scan keeps a position
//! and, of the engine's resources, only the view it was given. Must not know: how documents are
//! written.

pub(crate) mod bucket_facts;
pub(crate) mod buckets;
pub(crate) mod capped;
pub(crate) mod columns;
pub(crate) mod entry_ranges;
pub(crate) mod estimate;
pub(crate) mod index_scan;
mod log_scan;
mod made;
mod overlay;
pub(crate) mod parts;
mod past;
pub(crate) mod point;
pub(crate) mod rows;
pub(crate) mod scan;
pub(crate) mod text_scan;

pub(crate) use made::UncommittedCollections;
pub(crate) use overlay::Overlay;
pub(crate) use past::{CollectionCache, FixedState};

use crate::catalog::{Collection, Shared};
use crate::error;
use model::{Namespace, Result};
use overlay::OverlayCursor;
use std::sync::Arc;
use std::time::Duration;
use storage::{CommitPos, Cursor, CursorOpts, Engine, KeyRange, Moment, Snapshot, Table};

/// Which state of the data a read sees: the latest at each call, or a fixed one. Cheap to clone.
///
/// A scan over [`ReadView::latest`] sees commits between its calls; only an index entry and its
/// document are of one moment. A scan over a snapshot sees one moment throughout, also after a
/// pause, and keeps old versions on disk until the last clone of the view is dropped.
#[derive(Clone, Default)]
pub struct ReadView {
    snapshot: Option<Arc<dyn Snapshot>>,
    /// The catalog of that state, whose data stays on disk; only for views that serve several
    /// statements.
    past: Option<Arc<FixedState>>,
    /// The uncommitted writes of the reader's transaction.
    overlay: Option<Arc<Overlay>>,
    /// The collections that only this transaction sees.
    made: Option<Arc<UncommittedCollections>>,
}

impl ReadView {
    /// The latest state at each call.
    pub const LATEST: ReadView = ReadView {
        snapshot: None,
        past: None,
        overlay: None,
        made: None,
    };

    /// A view of the current state for one scan; a drop does not wait for it.
    ///
    /// # Errors
    /// Engine failures.
    pub(crate) fn now(engine: &dyn Engine) -> Result<ReadView> {
        Ok(ReadView {
            snapshot: Some(engine.snapshot().map_err(error::storage)?),
            ..ReadView::LATEST
        })
    }

    /// A view of the current state. The data of collections and indexes that are dropped later
    /// stays on disk.
    ///
    /// # Errors
    /// Engine failures.
    pub(crate) fn pin(shared: &Shared) -> Result<ReadView> {
        let engine = shared.engine.as_ref();
        // The pin comes first: a collection dropped before the snapshot is taken is not in it.
        let pin = shared.pins.hold(engine);
        let snapshot = engine.snapshot().map_err(error::storage)?;
        Ok(ReadView {
            past: Some(Arc::new(FixedState::new(
                Arc::clone(&snapshot),
                pin,
                Arc::default(),
            ))),
            snapshot: Some(snapshot),
            ..ReadView::LATEST
        })
    }

    /// The view of a moment of an engine to which another process writes. `opened` is shared with
    /// the views of other moments in which the catalog is the same.
    pub(crate) fn of_moment(
        shared: &Shared,
        moment: &Moment,
        opened: &Arc<CollectionCache>,
    ) -> ReadView {
        let pin = shared.pins.hold(shared.engine.as_ref());
        let snapshot = Arc::clone(&moment.snapshot);
        ReadView {
            past: Some(Arc::new(FixedState::new(
                Arc::clone(&snapshot),
                pin,
                Arc::clone(opened),
            ))),
            snapshot: Some(snapshot),
            ..ReadView::LATEST
        }
    }

    /// The catalog of its state; `None` when it uses the current one.
    pub(crate) fn fixed_state(&self) -> Option<&FixedState> {
        self.past.as_deref()
    }

    /// A view of the same state with an empty overlay.
    pub(crate) fn with_overlay(&self) -> ReadView {
        ReadView {
            snapshot: self.snapshot.clone(),
            past: self.past.clone(),
            overlay: Some(Arc::default()),
            made: Some(Arc::default()),
        }
    }

    /// The collections created in the reader's transaction.
    pub(crate) fn created_collections(&self) -> Option<&Arc<UncommittedCollections>> {
        self.made.as_ref()
    }

    /// The collection of that name that only this transaction sees.
    pub(crate) fn created_collection(&self, ns: &Namespace) -> Option<Arc<Collection>> {
        self.made.as_ref()?.find(ns)
    }

    /// The uncommitted writes that it sees.
    pub(crate) fn overlay(&self) -> Option<&Arc<Overlay>> {
        self.overlay.as_ref()
    }

    /// Whether it sees one fixed state.
    pub fn is_fixed(&self) -> bool {
        self.snapshot.is_some()
    }

    /// Whether [`ReadView::count_of`] returns the number of documents that it sees: true for the
    /// latest state, and for a moment of data that another process writes.
    pub fn has_counters(&self) -> bool {
        !self.is_fixed() || self.is_of_moment()
    }

    fn is_of_moment(&self) -> bool {
        self.past.as_ref().is_some_and(|past| past.is_of_moment()) && self.overlay.is_none()
    }

    /// The position of a fixed view: it sees every commit up to here and none after it. `None` for
    /// the latest state.
    pub fn pos(&self) -> Option<CommitPos> {
        self.snapshot.as_ref().map(|s| s.pos())
    }

    /// See [`crate::Store::end_moment`].
    pub(crate) fn check(&self) -> Result<()> {
        let checked = self.snapshot.as_ref().map_or(Ok(()), |s| s.check());
        checked.map_err(error::storage)
    }

    /// How long it has kept old versions alive.
    pub fn age(&self) -> Option<Duration> {
        self.snapshot.as_ref().map(|s| s.age())
    }

    /// This view, or a view of the current state when it is the latest.
    pub(crate) fn fix(&self, engine: &dyn Engine) -> Result<ReadView> {
        if self.is_fixed() {
            Ok(self.clone())
        } else {
            ReadView::now(engine)
        }
    }

    pub(crate) fn get_with(
        &self,
        engine: &dyn Engine,
        table: Table,
        key: &[u8],
        f: &mut dyn FnMut(&[u8]),
    ) -> Result<bool> {
        if let Some(overlay) = &self.overlay {
            let changed = overlay.get(table, key, |value| value.map(&mut *f).is_some());
            if let Some(found) = changed {
                return Ok(found);
            }
        }
        match &self.snapshot {
            None => engine.get_with(table, key, f),
            Some(s) => s.get_with(table, key, f),
        }
        .map_err(error::storage)
    }

    pub(crate) fn multi_get(
        &self,
        engine: &dyn Engine,
        table: Table,
        keys: &[&[u8]],
        each: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        if self.overlay.is_some() {
            for (n, key) in keys.iter().enumerate() {
                if !self.get_with(engine, table, key, &mut |value| each(n, Some(value)))? {
                    each(n, None);
                }
            }
            return Ok(());
        }
        self.multi_get_below(engine, table, keys, each)
    }

    /// As [`ReadView::multi_get`], without the uncommitted writes of the reader's transaction.
    pub(crate) fn multi_get_below(
        &self,
        engine: &dyn Engine,
        table: Table,
        keys: &[&[u8]],
        each: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        match &self.snapshot {
            None => engine.multi_get(table, keys, each),
            Some(s) => s.multi_get(table, keys, each),
        }
        .map_err(error::storage)
    }

    pub(crate) fn cursor(
        &self,
        engine: &dyn Engine,
        table: Table,
        range: KeyRange<'_>,
        opts: CursorOpts,
    ) -> Result<Box<dyn Cursor>> {
        let cursor = match &self.snapshot {
            None => engine.cursor(table, range, opts),
            Some(s) => s.cursor(table, range, opts),
        }
        .map_err(error::storage)?;
        let Some(overlay) = self.overlay.clone() else {
            return Ok(cursor);
        };
        let reverse = opts.reverse;
        Ok(Box::new(OverlayCursor::new(
            cursor, overlay, table, range, reverse,
        )))
    }
}

impl std::fmt::Debug for ReadView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.pos() {
            None => f.write_str("ReadView(latest)"),
            Some(pos) => write!(f, "ReadView({})", pos.0),
        }
    }
}
