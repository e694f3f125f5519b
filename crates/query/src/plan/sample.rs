//! Samples of a collection's documents in memory, on which the planner tests filters. Promises: the
//! bytes are bounded for each collection and in all. A query draws a sample of a small collection
//! only, and again only when its size has halved or doubled; none where the data is on another
//! machine. Other samples, and new ones after many changes, are drawn in the background. Must not
//! know: costs, who draws in the background.

use model::{DocBuf, Result};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use store::Collection;

/// Positions at which documents are drawn, and documents drawn at each.
const PLACES: usize = 256;
const DOCUMENTS_A_PLACE: usize = 2;
/// Most bytes of the documents of one sample; larger documents are left out first.
const BYTES_MAX: usize = 256 << 10;
/// Most bytes of all samples of the process; beyond that no sample is drawn.
const ALL_BYTES_MAX: usize = 32 << 20;

/// Collections with more documents or bytes are large: no query waits for their sample.
const SMALL_DOCUMENTS: u64 = 20_000;
const SMALL_BYTES: u64 = 32 << 20;

/// A sample is old if one in this many documents has changed since it was drawn, and at least
/// [`CHANGED_MIN`].
const CHANGED_PART: u64 = 5;
const CHANGED_MIN: u64 = 1000;

static ALL_BYTES: AtomicUsize = AtomicUsize::new(0);

/// The current sample of a collection.
#[derive(Default)]
pub(super) struct SampleCache {
    sample: Mutex<Option<Arc<Sample>>>,
    /// A query has asked since the last sample was drawn.
    asked: AtomicBool,
}

/// A sample of a collection's documents.
pub(super) struct Sample {
    docs: Vec<DocBuf>,
    bytes: usize,
    /// The number of documents of the collection when it was drawn.
    of: u64,
    /// [`Collection::change_count`] when it was drawn; beside other servers, that of an earlier
    /// handle.
    changed: u64,
}

impl Drop for Sample {
    fn drop(&mut self) {
        ALL_BYTES.fetch_sub(self.bytes, Relaxed);
    }
}

impl Sample {
    /// The documents.
    pub(super) fn docs(&self) -> &[DocBuf] {
        &self.docs
    }

    fn fits(&self, count: u64) -> bool {
        count / 2 <= self.of && self.of / 2 <= count
    }

    /// Whether so much has changed since that a new sample would be better.
    fn is_old(&self, coll: &Collection) -> bool {
        let changed = coll.change_count().saturating_sub(self.changed);
        !self.fits(coll.count()) || changed >= (self.of / CHANGED_PART).max(CHANGED_MIN)
    }

    fn draw(coll: &Collection) -> Result<Sample> {
        let mut sample = Sample {
            docs: Vec::new(),
            bytes: 0,
            of: coll.count(),
            changed: coll.change_count(),
        };
        let most_each = BYTES_MAX / (PLACES * DOCUMENTS_A_PLACE) * 8;
        coll.visit_spread(PLACES, DOCUMENTS_A_PLACE, &mut |doc| {
            let bytes = doc.as_bytes().len();
            let room = sample.bytes + bytes <= BYTES_MAX
                && ALL_BYTES.load(Relaxed) + bytes <= ALL_BYTES_MAX;
            if bytes <= most_each && room {
                ALL_BYTES.fetch_add(bytes, Relaxed);
                sample.bytes += bytes;
                sample.docs.push(doc.to_buf());
            }
        })?;
        Ok(sample)
    }
}

impl SampleCache {
    /// The sample of a collection. For a small collection it is drawn now if none fits. For a large
    /// one, or on another machine, it is the last one drawn, or `None` until the first was drawn in
    /// the background.
    ///
    /// # Errors
    /// Engine failures.
    pub(super) fn get(&self, coll: &Collection) -> Result<Option<Arc<Sample>>> {
        if !self.asked.load(Relaxed) {
            self.asked.store(true, Relaxed);
        }
        let kept = self.sample.lock().clone();
        let fits = kept.as_ref().is_some_and(|s| s.fits(coll.count()));
        if fits || is_large(coll) {
            return Ok(kept);
        }
        self.draw(coll).map(Some)
    }

    /// Whether a new sample would improve the plans of queries.
    pub(super) fn is_wanted(&self, coll: &Collection) -> bool {
        let is_old = |kept: &Option<Arc<Sample>>| kept.as_ref().is_none_or(|s| s.is_old(coll));
        self.asked.load(Relaxed) && is_old(&self.sample.lock())
    }

    /// Draws a sample and replaces the current one.
    ///
    /// # Errors
    /// Engine failures.
    pub(super) fn draw(&self, coll: &Collection) -> Result<Arc<Sample>> {
        let sample = Arc::new(Sample::draw(coll)?);
        *self.sample.lock() = Some(Arc::clone(&sample));
        self.asked.store(false, Relaxed);
        Ok(sample)
    }
}

/// Whether no query waits for a sample of the collection.
fn is_large(coll: &Collection) -> bool {
    // On another machine each place of a sample costs a request.
    coll.request_rows() > 1 || coll.count() > SMALL_DOCUMENTS || coll.size_bytes() > SMALL_BYTES
}
