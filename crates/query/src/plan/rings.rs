//! Rings around a point, from near to far: the intervals of a geospatial index that hold what lies
//! in each. Must not know: scans.

use super::bounds::FieldBounds;
use super::geo::of_cells;
use super::index_bounds::intervals;
use operators::filter::{Near, Surface};
use std::sync::Arc;
use store::{Index, KeyInterval};

/// Documents in a ring with which the next is as wide.
const ENOUGH: std::ops::RangeInclusive<usize> = 100..=1000;

/// The rings still to be read. A document is in the intervals of every ring that it may have a
/// place in.
#[derive(Clone)]
pub struct Rings {
    index: Arc<Index>,
    /// The bounds of its fields; that of the place is made for each ring.
    bounds: Vec<FieldBounds>,
    /// The field with the place, and what its cells lie on.
    field: usize,
    on: Surface,
    from: f64,
    step: f64,
    end: f64,
}

/// One ring.
pub(crate) struct Ring {
    /// What is read.
    pub intervals: Arc<Vec<KeyInterval>>,
    /// The index's multikey bits the intervals were made for.
    pub multikey: u32,
    /// Its documents are at this distance or farther.
    pub from: f64,
    /// And nearer than this, which is without limit for the last ring.
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

    /// The index that is read.
    pub fn index(&self) -> &Arc<Index> {
        &self.index
    }

    /// The next ring; `None` behind the last. Until [`Rings::done`] it is the same, for what the
    /// index is now.
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

    /// The ring was read, and so many documents lay in it.
    pub(crate) fn done(&mut self, found: usize) {
        self.from += self.step;
        self.step *= match found {
            0 => 4.0,
            n if ENOUGH.contains(&n) => 1.0,
            n if n < *ENOUGH.start() => 2.0,
            _ => 0.5,
        };
    }
}
