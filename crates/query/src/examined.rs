//! What the operation of this thread has looked at, for the profile and for slow operations.
//!
//! Promises: counting costs an addition for each document and a few thread-local writes for each
//! step of a scan. Must not know: who asks.

use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use store::Index;

/// Access paths told of; a query with more has as many branches.
const PATHS_MAX: usize = 8;

/// How documents were come by.
pub(crate) enum Path {
    /// The collection as it lies.
    Collection,
    /// One document by its `_id`.
    Id,
    /// Ranges of `_id`.
    IdRange,
    /// An index.
    Index(Arc<Index>),
    /// The terms of a text index.
    Text(Arc<Index>),
    /// Nothing is read.
    Nothing,
}

/// The access paths of an operation.
#[derive(Default)]
pub struct Paths(SmallVec<[Path; 2]>);

thread_local! {
    static KEYS: Cell<u64> = const { Cell::new(0) };
    static DOCS: Cell<u64> = const { Cell::new(0) };
    static RETURNED: Cell<u64> = const { Cell::new(0) };
    static PATHS: RefCell<Paths> = RefCell::default();
}

/// What an operation has looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Examined {
    /// Index entries.
    pub keys: u64,
    /// Documents.
    pub docs: u64,
    /// Documents given to the client.
    pub returned: u64,
}

/// Begins an operation on this thread.
pub fn begin() {
    KEYS.set(0);
    DOCS.set(0);
    RETURNED.set(0);
    PATHS.with_borrow_mut(|paths| paths.0.clear());
}

/// What was looked at since [`begin`].
pub fn so_far() -> Examined {
    Examined {
        keys: KEYS.get(),
        docs: DOCS.get(),
        returned: RETURNED.get(),
    }
}

/// Adds what was looked at, here or by a thread that worked for this one.
pub fn add(more: Examined) {
    step(more.keys, more.docs);
}

fn step(keys: u64, docs: u64) {
    KEYS.set(KEYS.get().wrapping_add(keys));
    DOCS.set(DOCS.get().wrapping_add(docs));
}

/// So many documents stand in the reply.
pub fn returned(documents: usize) {
    RETURNED.set(documents as u64);
}

/// A document was read by its `_id`, without a plan.
pub fn by_id(found: bool) {
    let n = u64::from(found);
    path(Path::Id);
    RETURNED.set(n);
    step(n, n);
}

/// A document was looked for by its `_id`, without a plan, to be changed.
pub fn by_id_to_write(found: bool) {
    path(Path::Id);
    step(u64::from(found), u64::from(found));
}

/// Whether the operation has read a whole collection.
pub fn scanned_collection() -> bool {
    PATHS.with_borrow(|paths| paths.0.iter().any(|p| matches!(p, Path::Collection)))
}

/// Takes the access paths of the operation, which has ended.
pub fn take_paths() -> Paths {
    PATHS.take()
}

impl Paths {
    /// As MongoDB's `planSummary` writes them; `None` when nothing was planned.
    pub fn summary(&self) -> Option<String> {
        let mut shown: Vec<String> = Vec::with_capacity(self.0.len());
        for path in &self.0 {
            let one = path.to_string();
            if !shown.contains(&one) {
                shown.push(one);
            }
        }
        (!shown.is_empty()).then(|| shown.join(", "))
    }
}

impl std::fmt::Display for Path {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Path::Collection => f.write_str("COLLSCAN"),
            Path::Id => f.write_str("EXPRESS_IXSCAN { _id: 1 }"),
            Path::IdRange => f.write_str("IXSCAN { _id: 1 }"),
            Path::Index(index) => write!(f, "IXSCAN {:?}", index.key_pattern()),
            Path::Text(index) => write!(f, "TEXT_MATCH {:?}", index.key_pattern()),
            Path::Nothing => f.write_str("EOF"),
        }
    }
}

fn path(path: Path) {
    PATHS.with_borrow_mut(|paths| {
        if paths.0.len() < PATHS_MAX {
            paths.0.push(path);
        }
    });
}

/// A read is opened. What is opened after something was read belongs to a stage further on, which
/// the summary leaves out, as MongoDB's does.
pub(crate) fn opened(by: impl FnOnce() -> Path) {
    if DOCS.get() == 0 && KEYS.get() == 0 {
        path(by());
    }
}

/// Counts for one scan.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    /// Index entries told of.
    keys: u64,
}

impl Meter {
    /// A step of the scan has looked at so many documents; `keys` counts from the scan's beginning.
    pub(crate) fn step(&mut self, docs: u64, keys: u64) {
        let more = keys.saturating_sub(std::mem::replace(&mut self.keys, keys));
        step(more, docs);
    }
}
