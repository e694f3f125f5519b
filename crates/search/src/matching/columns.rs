//! Documents by the numbers or dates at a path.

use super::docs::Matcher;
use crate::schema::ColumnKind;
use std::ops::Bound;
use tantivy::columnar::DynamicColumn;
use tantivy::{DocId, Score, SegmentReader};

/// Which values match.
#[derive(Clone, Debug)]
pub(crate) enum ColumnTest {
    Numbers(Bound<f64>, Bound<f64>),
    Dates(Bound<i64>, Bound<i64>),
    /// Any value.
    Any(ColumnKind),
}

/// The score of a document.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scoring {
    Constant(f32),
    /// `pivot / (pivot + distance from origin)`.
    Near {
        origin: f64,
        pivot: f64,
    },
}

/// Documents with a matching value at a path.
#[derive(Clone, Debug)]
pub(crate) struct Columns {
    pub(crate) path: String,
    pub(crate) test: ColumnTest,
    pub(crate) scoring: Scoring,
}

impl ColumnTest {
    fn kind(&self) -> ColumnKind {
        match self {
            ColumnTest::Numbers(..) => ColumnKind::Number,
            ColumnTest::Dates(..) => ColumnKind::Date,
            ColumnTest::Any(kind) => *kind,
        }
    }

    fn wants_number(&self, v: f64) -> bool {
        match self {
            ColumnTest::Numbers(min, max) => {
                let above = match min {
                    Bound::Included(min) => v >= *min,
                    Bound::Excluded(min) => v > *min,
                    Bound::Unbounded => true,
                };
                let below = match max {
                    Bound::Included(max) => v <= *max,
                    Bound::Excluded(max) => v < *max,
                    Bound::Unbounded => true,
                };
                above && below
            }
            ColumnTest::Dates(..) => false,
            ColumnTest::Any(_) => true,
        }
    }

    fn wants_integer(&self, v: i64) -> bool {
        match self {
            ColumnTest::Dates(min, max) => (min.as_ref(), max.as_ref()).contains_value(v),
            _ => self.wants_number(v as f64),
        }
    }
}

trait ContainsValue {
    fn contains_value(&self, v: i64) -> bool;
}

impl ContainsValue for (Bound<&i64>, Bound<&i64>) {
    fn contains_value(&self, v: i64) -> bool {
        std::ops::RangeBounds::contains(self, &v)
    }
}

impl Scoring {
    /// The score of a value.
    pub(super) fn of(self, v: f64) -> f32 {
        match self {
            Scoring::Constant(score) => score,
            Scoring::Near { origin, pivot } => (pivot / (pivot + (v - origin).abs())) as f32,
        }
    }
}

impl Columns {
    /// The best score of the document's matching values.
    fn best<T>(&self, values: impl Iterator<Item = T>, read: impl Fn(T) -> Option<f64>) -> f32 {
        values
            .filter_map(read)
            .map(|v| self.scoring.of(v))
            .fold(f32::NEG_INFINITY, f32::max)
    }
}

impl Matcher for Columns {
    fn find(&self, segment: &SegmentReader) -> tantivy::Result<Vec<(DocId, Score)>> {
        let name = self.test.kind().name(&self.path);
        let mut found = Vec::new();
        let float = |v: f64| self.test.wants_number(v).then_some(v);
        let integer = |v: i64| self.test.wants_integer(v).then_some(v as f64);
        for handle in segment.fast_fields().dynamic_column_handles(&name)? {
            let column = handle.open()?;
            for doc in 0..segment.max_doc() {
                let best = match &column {
                    DynamicColumn::F64(c) => self.best(c.values_for_doc(doc), float),
                    DynamicColumn::I64(c) => self.best(c.values_for_doc(doc), integer),
                    DynamicColumn::U64(c) => self.best(c.values_for_doc(doc), |v| float(v as f64)),
                    _ => break,
                };
                if best > f32::NEG_INFINITY {
                    found.push((doc, best));
                }
            }
        }
        Ok(found)
    }
}
