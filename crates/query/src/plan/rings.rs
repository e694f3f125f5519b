//! Rings around a point, in order of distance: the intervals of a geospatial index that contain
//! each ring. Must not know: scans.

use super::bounds::FieldBounds;
use super::geo::of_cells;
use super::index_bounds::intervals;
use operators::filter::{Near, Surface};
use std::sync::Arc;
use store::{Index, KeyInterval};

/// If a ring has this many documents, the next has the same width.
const ENOUGH: std::ops::RangeInclusive<usize> = 100..=1000;

/// The rings that have not been read. A document is in the intervals of every ring in which it may
/// have a location.
#[derive(Clone)]
pub struct Rings {
    index: Arc<Index>,
    /// The bounds of the index's fields; that of the location is made for each ring.
    bounds: Vec<FieldBounds>,
    /// The number of the field with the location, and the surface of its cells.
    field: usize,
    on: Surface,
    from: f64,
    step: f64,
    end: f64,
}

/// One ring.
pub(crate) struct Ring {
    /// The index intervals to read.
    pub intervals: Arc<Vec<KeyInterval>>,
    /// The index's multikey bits for which the intervals were made.
    pub multikey: u32,
    /// Least distance of its documents.
    pub from: f64,
    /// Distance that its documents do not reach; infinite for the last ring.
    pub to: f64,
}

impl Rings {
    pub(crate) fn new(
        index: &Arc<Index>,
        bounds: Vec<FieldBounds>,
        field: usize,
        on: Surface,
        near: &Near,
    ) -> Rings {
        let (from, end, step) = near.reach(on);
        Rings {
            index: index.clone(),
            bounds,
            field,
            on,
            from,
            step,
            end,
        }
    }

    /// The index to read.
    pub fn index(&self) -> &Arc<Index> {
        &self.index
    }

    /// The next ring; `None` after the last. Until [`Rings::advance`] is called it returns the same
    /// ring, with intervals for the present state of the index.
    pub(crate) fn next(&self, near: &Near) -> Option<Ring> {
        if self.from > self.end {
            return None;
        }
        let to = self.from + self.step;
        let multikey = self.index.multikey_bits();
        let shapes = multikey & (1 << self.field.min(31)) != 0;
        let mut bounds = self.bounds.clone();
        if let Some(b) = bounds.get_mut(self.field) {
            let cells = near.cells(self.from, to, self.on);
            *b = cells.map_or_else(FieldBounds::all, |c| of_cells(&c, shapes));
        }
        Some(Ring {
            intervals: Arc::new(intervals(&self.index, &bounds).0),
            multikey,
            from: self.from,
            to: if to > self.end { f64::INFINITY } else { to },
        })
    }

    /// Notes that the ring was read and had `found` documents.
    pub(crate) fn advance(&mut self, found: usize) {
        self.from += self.step;
        self.step *= match found {
            0 => 4.0,
            n if ENOUGH.contains(&n) => 1.0,
            n if n < *ENOUGH.start() => 2.0,
            _ => 0.5,
        };
    }
}
