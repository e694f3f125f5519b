//! The memory of a store that follows another process. What it keeps of rows that the other process
//! writes belongs to a generation: the states between two announcements of the writer
//! (`storage::Follower`). A reader takes a view of one moment and finds the collections of that
//! moment's generation, whatever moments other readers use meanwhile.
//!
//! Promises: collections have the options, indexes and marks of the view's moment; a view of a new
//! generation is handed out only after the layers above have renewed their own caches for it. Must
//! not know: how moments are asked for, the store.

use crate::catalog::collection::Attachment;
use crate::catalog::kept::KeptByIdent;
use crate::catalog::{Collection, Shared};
use crate::error;
use crate::view::{CollectionCache, ReadView};
use arc_swap::ArcSwap;
use model::Result;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use storage::{Follower, Moment, Table};

/// Whether a store that follows keeps the row in memory: a catalog row, a mark of a collection or
/// an index, a setting.
pub(crate) fn is_kept(table: Table, key: &[u8]) -> bool {
    table == Table::Meta && matches!(key.first(), Some(b'c' | b'm' | b'o' | b'w'))
}

/// The newest generation of a store that follows.
pub(crate) struct FollowerState {
    newest: ArcSwap<Generation>,
    /// Held by the reader that begins a generation; only one does at a time.
    beginning: Mutex<()>,
    /// What readers cache with collections of all generations.
    attachments: Arc<KeptByIdent<Attachment>>,
}

struct Generation {
    announced: Vec<u8>,
    /// The view of the last moment that was asked for.
    latest: ArcSwap<ReadView>,
    opened: Arc<CollectionCache>,
    /// The layers above have renewed their caches for this generation.
    is_renewed: AtomicBool,
}

impl Generation {
    fn new(
        shared: &Shared,
        moment: &Moment,
        attachments: &Arc<KeptByIdent<Attachment>>,
        is_renewed: bool,
    ) -> Generation {
        let opened = CollectionCache::new_shared(&moment.announced, attachments);
        let opened = Arc::new(opened);
        let view = ReadView::of_moment(shared, moment, &opened);
        Generation {
            announced: moment.announced.clone(),
            latest: ArcSwap::from_pointee(view),
            opened,
            is_renewed: AtomicBool::new(is_renewed),
        }
    }

    /// The view of a moment, if the moment is of this generation.
    fn view(&self, shared: &Shared, moment: &Moment) -> Option<ReadView> {
        if self.announced != moment.announced || !self.is_renewed.load(Ordering::Acquire) {
            return None;
        }
        let view = ReadView::of_moment(shared, moment, &self.opened);
        if view.pos() > self.latest.load().pos() {
            self.latest.store(Arc::new(view.clone()));
        }
        Some(view)
    }
}

impl FollowerState {
    /// Begins at a first moment; nothing is cached yet.
    pub(crate) fn begin(shared: &Shared, moment: &Moment) -> FollowerState {
        let attachments = Arc::default();
        let first = Generation::new(shared, moment, &attachments, true);
        FollowerState {
            newest: ArcSwap::from_pointee(first),
            beginning: Mutex::default(),
            attachments,
        }
    }

    /// The view of the last moment of the newest generation that was asked for.
    pub(crate) fn newest(&self) -> ReadView {
        let latest = self.newest.load().latest.load_full();
        ReadView::clone(&latest)
    }

    /// The collections of the newest generation that were opened and for which `is_meant` is true.
    pub(crate) fn list(&self, is_meant: &dyn Fn(&Collection) -> bool) -> Vec<Arc<Collection>> {
        self.newest.load().opened.list(is_meant)
    }

    /// A view of now, which is expected to belong to the newest generation. `None` when it does
    /// not. It is not the newest view before it was checked.
    pub(crate) fn expect_view(
        &self,
        shared: &Shared,
        follower: &dyn Follower,
    ) -> Result<Option<ReadView>> {
        let newest = self.newest.load();
        if !newest.is_renewed.load(Ordering::Acquire) {
            return Ok(None);
        }
        let begun = follower.begin_moment(&newest.announced);
        let moment = begun.map_err(error::storage)?.map(|snapshot| Moment {
            snapshot,
            announced: newest.announced.clone(),
        });
        Ok(moment.map(|moment| ReadView::of_moment(shared, &moment, &newest.opened)))
    }

    /// Makes a view that was checked the newest one.
    pub(crate) fn keep(&self, view: &ReadView) {
        let newest = self.newest.load();
        if view.shares(&newest.opened) && view.pos() > newest.latest.load().pos() {
            newest.latest.store(Arc::new(view.clone()));
        }
    }

    /// See [`crate::Store::view_of`].
    pub(crate) fn view_of(
        &self,
        shared: &Shared,
        moment: &Moment,
        renew: &mut dyn FnMut() -> Result<()>,
    ) -> Result<ReadView> {
        if let Some(view) = self.newest.load().view(shared, moment) {
            return Ok(view);
        }
        let _one = self.beginning.lock();
        let before = self.newest.load_full();
        if let Some(view) = before.view(shared, moment) {
            return Ok(view);
        }
        if before.latest.load().pos() > Some(moment.snapshot.pos()) {
            // The moment is older than the newest generation: its view gets a cache of its own.
            let opened = CollectionCache::new_shared(&moment.announced, &self.attachments);
            return Ok(ReadView::of_moment(shared, moment, &Arc::new(opened)));
        }
        let next = Arc::new(Generation::new(shared, moment, &self.attachments, false));
        self.newest.store(Arc::clone(&next));
        renew().inspect_err(|_| self.newest.store(before))?;
        next.is_renewed.store(true, Ordering::Release);
        Ok(ReadView::clone(&next.latest.load()))
    }
}
