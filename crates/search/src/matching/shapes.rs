//! Documents by the geometries at a path.

use super::docs::Matcher;
use crate::place::read_shape;
use crate::schema::ColumnKind;
use operators::filter::Shape;
use std::sync::Arc;
use tantivy::columnar::DynamicColumn;
use tantivy::{DocId, Score, SegmentReader};

/// The relation of a document's geometry to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    Contains,
    Disjoint,
    Intersects,
    Within,
}

/// Documents with geometries at a path that have this relation to `shape`.
#[derive(Clone, Debug)]
pub(crate) struct Shapes {
    pub(crate) path: String,
    pub(crate) relation: Relation,
    pub(crate) shape: Arc<Shape>,
}

impl Shapes {
    fn holds(&self, kept: &Shape) -> bool {
        match self.relation {
            Relation::Contains => kept.holds(&self.shape),
            Relation::Disjoint => !kept.intersects(&self.shape),
            Relation::Intersects => kept.intersects(&self.shape),
            Relation::Within => kept.is_within(&self.shape),
        }
    }
}

impl Matcher for Shapes {
    /// # Cost
    /// Each distinct geometry of the segment is read and compared once.
    fn find(&self, segment: &SegmentReader) -> tantivy::Result<Vec<(DocId, Score)>> {
        let name = ColumnKind::Shape.name(&self.path);
        // Of several geometries, one must contain or intersect; all must be disjoint or within.
        let one_is_enough = matches!(self.relation, Relation::Contains | Relation::Intersects);
        let mut found = Vec::new();
        for handle in segment.fast_fields().dynamic_column_handles(&name)? {
            let DynamicColumn::Str(column) = handle.open()? else {
                continue;
            };
            let mut holds = Vec::with_capacity(column.num_terms());
            let mut text = String::new();
            for ord in 0..column.num_terms() as u64 {
                text.clear();
                column.ord_to_str(ord, &mut text)?;
                holds.push(read_shape(&text).is_some_and(|kept| self.holds(&kept)));
            }
            let of = |ord: u64| {
                let at = usize::try_from(ord).unwrap_or(usize::MAX);
                holds.get(at).copied().unwrap_or(false)
            };
            for doc in 0..segment.max_doc() {
                let mut each = column.ords().values_for_doc(doc).map(of).peekable();
                let is_there = each.peek().is_some();
                let fits = match one_is_enough {
                    true => each.any(|fits| fits),
                    false => is_there && each.all(|fits| fits),
                };
                if fits {
                    found.push((doc, 1.0));
                }
            }
        }
        Ok(found)
    }
}
