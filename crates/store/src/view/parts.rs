//! Divides a collection by key into parts, for several threads that read it at once. Must not know:
//! what the documents are read for, threads.

use crate::catalog::Collection;
use crate::catalog::live::NATURAL_ORDER_DOCS;
use crate::error;
use crate::view::ReadView;
use model::Result;
use std::sync::Arc;
use storage::{CursorOpts, KeyRange, Table};

/// The documents between two bounds in parts, and the state in which all of them are read.
pub struct Parts {
    /// The view for reading all parts.
    pub view: ReadView,
    /// The parts in key order.
    pub list: Vec<Part>,
}

/// Documents between two encoded ids (lower included, upper excluded); see
/// [`Collection::scan_keys`].
pub struct Part {
    /// The lower bound.
    pub lower: Option<Vec<u8>>,
    /// The upper bound.
    pub upper: Option<Vec<u8>>,
}

impl Collection {
    /// Divides the documents after a record key and before an encoded id into at most `parts`
    /// parts, at places evenly spread over the keys: the numbers of documents may differ widely.
    /// `None` for collections in another order than that of their keys, for small ones, and for a
    /// reader with uncommitted writes.
    ///
    /// # Errors
    /// Engine failures.
    ///
    /// # Cost
    /// A seek and a snapshot.
    pub fn split_parts(
        self: &Arc<Self>,
        view: &ReadView,
        after: &[u8],
        upper: Option<&[u8]>,
        parts: usize,
    ) -> Result<Option<Parts>> {
        if self.count() <= NATURAL_ORDER_DOCS
            || self.is_capped()
            || self.is_series()
            || self.as_log().is_some()
            || view.overlay().is_some()
        {
            return Ok(None);
        }
        let view = view.fix(self.shared.engine.as_ref())?;
        let (low, up) = self.key_bounds();
        let first = after.get(low.len()..).unwrap_or_default();
        let upper_key = upper.map_or_else(|| up.to_vec(), |b| [&low[..], b].concat());
        let Some(last) = self.end_id(&view, after, &upper_key, true)? else {
            return Ok(None);
        };
        let mut list = Vec::new();
        let mut lower = Some([first, &[0]].concat());
        for bound in split_keys(first, &last, parts) {
            list.push(Part {
                lower: lower.replace(bound.clone()),
                upper: Some(bound),
            });
        }
        list.push(Part {
            lower,
            upper: upper.map(<[u8]>::to_vec),
        });
        Ok((list.len() > 1).then_some(Parts { view, list }))
    }

    /// The encoded id of the first document between two keys; of the last one in reverse.
    pub(crate) fn end_id(
        &self,
        view: &ReadView,
        lower: &[u8],
        upper: &[u8],
        reverse: bool,
    ) -> Result<Option<Vec<u8>>> {
        let ident_len = self.key_bounds().0.len();
        let range = KeyRange { lower, upper };
        let opts = CursorOpts {
            reverse,
            keys_only: true,
            ..CursorOpts::default()
        };
        let engine = self.shared.engine.as_ref();
        let mut cursor = view.cursor(engine, Table::Doc, range, opts)?;
        let mut found = None;
        let each = &mut |key: &[u8], _: &[u8]| {
            found = key.get(ident_len..).map(<[u8]>::to_vec);
            false
        };
        cursor.visit(1, each).map_err(error::storage)?;
        Ok(found)
    }
}

/// Up to `parts - 1` keys between `first` and `last`, evenly spread when the eight bytes after
/// their common prefix are read as numbers.
pub(crate) fn split_keys(first: &[u8], last: &[u8], parts: usize) -> Vec<Vec<u8>> {
    let shared = first.iter().zip(last).take_while(|(a, b)| a == b).count();
    let number = |key: &[u8]| {
        let mut eight = [0; 8];
        let rest = key.get(shared..).unwrap_or_default();
        eight
            .iter_mut()
            .zip(rest)
            .for_each(|(to, from)| *to = *from);
        u64::from_be_bytes(eight)
    };
    let (low, high) = (number(first), number(last));
    let step = high.saturating_sub(low) / parts.max(1) as u64;
    if step == 0 {
        return Vec::new();
    }
    let beginning = first.get(..shared).unwrap_or_default();
    (1..parts as u64)
        .map(|i| [beginning, &(low + i * step).to_be_bytes()].concat())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::split_keys;

    #[test]
    fn keys_are_spread_evenly_behind_the_shared_beginning() {
        let found = split_keys(b"ab\x00", b"ab\x40x", 4);
        assert_eq!(found.len(), 3);
        assert!(found.is_sorted() && found.iter().all(|k| k.starts_with(b"ab")));
        assert_eq!(found.get(1).and_then(|k| k.get(2)), Some(&0x20));
        assert!(split_keys(b"a", b"a", 4).is_empty());
        assert!(split_keys(b"same", b"same\x00", 1).is_empty());
    }
}
