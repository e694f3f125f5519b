//! Some documents of a collection, kept in memory, for the planner to try filters on. Promises:
//! bounded bytes for each collection and for all; a query draws a sample of a small collection
//! only, and again only when it has halved or doubled; for others it is drawn in the background, as
//! it is for all of which a good part has changed. Must not know: costs, who draws in the
//! background.

use model::{DocBuf, Result};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use store::Collection;

/// Places that are looked at, and documents at each.
const PLACES: usize = 256;
const DOCUMENTS_A_PLACE: usize = 2;
/// Bytes of the documents of one sample. Larger documents are left out first.
const BYTES_MAX: usize = 256 << 10;
/// Bytes of all samples of the process; without room there is none.
const ALL_BYTES_MAX: usize = 32 << 20;

/// Collections with more documents or bytes are large: no query waits for their sample.
const SMALL_DOCUMENTS: u64 = 20_000;
const SMALL_BYTES: u64 = 32 << 20;

/// A sample is old when one in so many documents has changed since, and no fewer than that.
const CHANGED_PART: u64 = 5;
const CHANGED_MIN: u64 = 1000;

static ALL_BYTES: AtomicUsize = AtomicUsize::new(0);

/// Where the sample of a collection is kept.
#[derive(Default)]
pub(super) struct KeptSample {
    sample: Mutex<Option<Arc<Sample>>>,
    /// A query has asked since the last one was drawn.
    asked: AtomicBool,
}

/// Documents of a collection.
pub(super) struct Sample {
    docs: Vec<DocBuf>,
    bytes: usize,
    /// So many documents the collection had.
    of: u64,
    /// What [`Collection::changed`] was.
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

    /// So much has changed since that another one would say better what there is.
    fn is_old(&self, coll: &Collection) -> bool {
        let changed = coll.changed().saturating_sub(self.changed);
        !self.fits(coll.count()) || changed >= (self.of / CHANGED_PART).max(CHANGED_MIN)
    }

    fn draw(coll: &Collection) -> Result<Sample> {
        let mut sample = Sample {
            docs: Vec::new(),
            bytes: 0,
            of: coll.count(),
            changed: coll.changed(),
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

impl KeptSample {
    /// The sample of a collection. Of a small one it is drawn when there is none that fits; of a
    /// large one it is the last one, `None` until one was drawn in the background.
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

    /// Whether queries would be planned better by another sample than they have.
    pub(super) fn is_wanted(&self, coll: &Collection) -> bool {
        let is_old = |kept: &Option<Arc<Sample>>| kept.as_ref().is_none_or(|s| s.is_old(coll));
        self.asked.load(Relaxed) && is_old(&self.sample.lock())
    }

    /// Draws a sample in place of the one that is kept.
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

fn is_large(coll: &Collection) -> bool {
    coll.count() > SMALL_DOCUMENTS || coll.size_bytes() > SMALL_BYTES
}
