//! Some documents of a collection, kept in memory, for the planner to try filters on. Promises:
//! bounded bytes for each collection and for all; the same sample as long as the collection has not
//! halved or doubled, so that the same state gives the same plan. Must not know: costs.

use model::{DocBuf, Result};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use store::Collection;

/// Places that are looked at, and documents at each.
const PLACES: usize = 256;
const DOCUMENTS_A_PLACE: usize = 2;
/// Bytes of the documents of one sample. Larger documents are left out first.
const BYTES_MAX: usize = 256 << 10;
/// Bytes of all samples of the process; without room there is none.
const ALL_BYTES_MAX: usize = 32 << 20;

static ALL_BYTES: AtomicUsize = AtomicUsize::new(0);

/// Where the sample of a collection is kept.
#[derive(Default)]
pub(super) struct KeptSample(Mutex<Option<Arc<Sample>>>);

/// Documents of a collection.
pub(super) struct Sample {
    docs: Vec<DocBuf>,
    bytes: usize,
    /// So many documents the collection had.
    of: u64,
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

    fn draw(coll: &Collection) -> Result<Sample> {
        let mut sample = Sample {
            docs: Vec::new(),
            bytes: 0,
            of: coll.count(),
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
    /// The sample of a collection, drawn when there is none that fits.
    ///
    /// # Errors
    /// Engine failures.
    pub(super) fn get(&self, coll: &Collection) -> Result<Arc<Sample>> {
        let kept = self.0.lock().clone();
        if let Some(sample) = kept.filter(|s| s.fits(coll.count())) {
            return Ok(sample);
        }
        let sample = Arc::new(Sample::draw(coll)?);
        *self.0.lock() = Some(Arc::clone(&sample));
        Ok(sample)
    }
}
