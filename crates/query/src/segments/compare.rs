//! `validate` of the values in segments: for a document that has not changed since, a column has
//! the value that is extracted from it now. Promises: everything is read from one snapshot, and
//! writers are not blocked. Must not know: whether segments can be read and have the right
//! documents, which the store checks.

use super::taking::{SegmentBuilder, is_word};
use model::{Doc, FieldPath, Result, Tag};
use operation::Operation;
use rustc_hash::FxHashSet;
use std::sync::Arc;
use store::format::segment::{ColumnHead, SHAPES, touched_id};
use store::{Collection, Index, ReadView, Segment, SegmentColumn};

/// Documents between two checks of the interrupt.
const STEP_DOCS: usize = 1024;

/// Finds errors in the columns of an index; returns at most one for each column of a segment.
///
/// # Errors
/// Those of the store; the operation's interrupt.
pub fn wrong_values(
    coll: &Arc<Collection>,
    index: &Index,
    operation: &Operation,
) -> Result<Vec<String>> {
    let compare = Compare {
        coll,
        index,
        view: coll.snapshot()?,
        operation,
    };
    let mut wrong = Vec::new();
    // The store's own check reports heads that cannot be read.
    let heads = coll.segment_heads(&compare.view, index);
    for segment in heads.unwrap_or_default() {
        for found in compare.segment(&segment)? {
            let (name, number) = (index.name(), segment.number);
            wrong.push(format!("index {name}: segment {number}: {found}"));
        }
    }
    Ok(wrong)
}

struct Compare<'c> {
    coll: &'c Arc<Collection>,
    index: &'c Index,
    view: ReadView,
    operation: &'c Operation,
}

/// The present documents of a segment that have not changed since it was built.
struct Documents {
    taking: SegmentBuilder,
    /// The row and the id of each.
    rows: Vec<(usize, Vec<u8>)>,
    /// The first document with a field that no column has, and that field.
    other: Option<(Vec<u8>, String)>,
}

impl Compare<'_> {
    fn segment(&self, segment: &Segment) -> Result<Vec<String>> {
        let Some(stored) = self.read_stored(segment)? else {
            return Ok(Vec::new());
        };
        let now = self.documents(segment)?;
        let mut wrong = Vec::new();
        if let Some((id, field)) = now.other {
            let id = hex(&id);
            wrong.push(format!(
                "no column has the field {field} of the document at {id}"
            ));
        }
        let (heads, _, columns) = now.taking.end();
        let of_stored = segment.head.columns.iter().zip(&stored);
        for ((head, stored), (now_head, column)) in of_stored.zip(heads.iter().zip(&columns)) {
            let differs = |(at, (row, _)): &(usize, &(usize, Vec<u8>))| {
                value_of(stored, *row) != value_of(column, *at)
            };
            let shown = match &head.path[..] {
                SHAPES => "the column of shapes".to_owned(),
                path => format!("column {path}"),
            };
            if let Some((_, (_, id))) = now.rows.iter().enumerate().find(differs) {
                let id = hex(id);
                wrong.push(format!(
                    "{shown}: the value of the document at {id} is another"
                ));
            } else if !now.rows.is_empty() && !has_bounds_of(head, now_head) {
                wrong.push(format!("{shown}: a value lies outside of its bounds"));
            }
        }
        Ok(wrong)
    }

    /// The columns of a segment; `None` when one cannot be read.
    fn read_stored(&self, segment: &Segment) -> Result<Option<Vec<SegmentColumn>>> {
        let numbers = 1..=segment.head.columns.len() as u32;
        let read = |n| self.coll.segment_column(&self.view, self.index, segment, n);
        let columns: Result<Vec<_>> = numbers.map(read).collect();
        Ok(columns?.into_iter().collect())
    }

    fn documents(&self, segment: &Segment) -> Result<Documents> {
        let head = &segment.head;
        let (low, high) = (&head.low[..], Some(&head.high[..]));
        let go_on = || self.operation.check();
        let (coll, view, index) = (self.coll, &self.view, self.index);
        let notes = coll.read_touch_notes(view, index, low, high, usize::MAX, &go_on)?;
        let touched: FxHashSet<&[u8]> = notes.iter().filter_map(|n| touched_id(n)).collect();
        let ids = coll.segment_ids(view, index, segment)?.unwrap_or_default();
        let paths = head.columns.iter().filter(|c| c.path != SHAPES);
        let names: FxHashSet<&[u8]> = paths.clone().map(|c| c.path.as_bytes()).collect();
        let mut now = Documents {
            taking: SegmentBuilder::of(paths.map(|c| FieldPath::new(&c.path))),
            rows: Vec::new(),
            other: None,
        };
        let mut scan = coll.scan_keys(view, Some(low), high, false);
        let (mut more, mut row) = (true, 0);
        while more {
            go_on()?;
            more = scan.visit(STEP_DOCS, &mut |found| {
                let id = found.id();
                while row < ids.len() && ids.long(row) < id {
                    row += 1;
                }
                // The store's check reports documents that only the segment or only the collection
                // has.
                if row < ids.len() && ids.long(row) == id && !touched.contains(id) {
                    now.taking.take(found.doc);
                    now.rows.push((row, id.to_vec()));
                    if head.is_complete && now.other.is_none() {
                        now.other = other_field(found.doc, &names).map(|f| (id.to_vec(), f));
                    }
                }
                true
            })?;
        }
        Ok(now)
    }
}

/// A field of a document that has no column. A name with a dot is ignored, because no path leads to
/// it.
fn other_field(doc: Doc<'_>, names: &FxHashSet<&[u8]>) -> Option<String> {
    let is_path = |name: &[u8]| !name.is_empty() && !name.contains(&b'.');
    let mut fields = doc.elements();
    let other = fields.find(|e| is_path(e.name) && !names.contains(e.name))?;
    Some(String::from_utf8_lossy(other.name).into_owned())
}

/// A value as its type and either its word or its bytes; the other one is zero or empty.
fn value_of(column: &SegmentColumn, row: usize) -> Option<(u8, u64, &[u8])> {
    let (tag, word) = (*column.tags.get(row)?, *column.words.get(row)?);
    Some(match is_word(Tag(tag)) {
        true => (tag, word, &[]),
        false => (tag, 0, column.long(row)),
    })
}

/// Whether the bounds of a stored column include those of its values now.
fn has_bounds_of(stored: &ColumnHead, now: &ColumnHead) -> bool {
    match (&stored.zone, &now.zone) {
        (None, _) => true,
        (Some(stored), Some(now)) => stored.has(now),
        (Some(_), None) => false,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
