//! Estimates for a planner: how many entries an index has in some intervals, which share of the
//! index they take, a sample of documents spread over a collection. Must not know: filters, plans.

use crate::catalog::Collection;
use crate::error;
use crate::format::{decode, keys, record};
use crate::index::{FieldKind, Index, KeyInterval, KeySet};
use crate::view::ReadView;
use crate::view::parts::split_keys;
use model::{Doc, Result};
use storage::{CursorOpts, KeyRange, Table, prefix_end};

/// Most halvings of a range of keys: ids may be long and differ late.
const DEPTH_MAX: u32 = 96;
/// Places of a sample that is read from another machine: each costs a request.
const PLACES_REMOTE: usize = 32;

/// The entries of some intervals, as far as they were counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryCount {
    /// Number of entries that were counted.
    pub entries: u64,
    /// Whether all entries were counted.
    pub all: bool,
}

impl Collection {
    /// Counts the entries of an index in some intervals, up to `most`; not counted as a use of the
    /// index.
    ///
    /// # Errors
    /// Engine failures.
    ///
    /// # Cost
    /// A seek for each interval, `most` of them at most; no document is read.
    pub fn count_entries_in(
        &self,
        view: &ReadView,
        index: &Index,
        intervals: &[KeyInterval],
        most: u64,
    ) -> Result<EntryCount> {
        let engine = self.shared.engine.as_ref();
        let opts = CursorOpts {
            keys_only: true,
            limit_hint: usize::try_from(most).unwrap_or(usize::MAX),
            ..CursorOpts::default()
        };
        let (mut entries, mut seeks) = (0u64, 0u64);
        for interval in intervals {
            let left = most.saturating_sub(entries);
            if left == 0 || seeks == most {
                return Ok(EntryCount {
                    entries,
                    all: false,
                });
            }
            seeks += 1;
            let (lower, upper) = entry_bounds(index, interval);
            let range = KeyRange::new(&lower, &upper);
            let mut cursor = view.cursor(engine, Table::Idx, range, opts)?;
            let mut met = 0;
            let more = cursor
                .visit(usize::try_from(left).unwrap_or(usize::MAX), &mut |_, _| {
                    met += 1;
                    true
                })
                .map_err(error::storage)?;
            entries += met;
            if more && entries >= most {
                return Ok(EntryCount {
                    entries,
                    all: false,
                });
            }
        }
        Ok(EntryCount { entries, all: true })
    }

    /// The distinct components of an index's first field, in the order of the index; `None` when
    /// there are more than `most`.
    ///
    /// # Errors
    /// 1 InternalError for a damaged entry; engine failures.
    ///
    /// # Cost
    /// A seek for each of them.
    pub fn first_components(&self, index: &Index, most: usize) -> Result<Option<Vec<Vec<u8>>>> {
        let engine = self.shared.engine.as_ref();
        let opts = CursorOpts {
            keys_only: true,
            limit_hint: 1,
            ..CursorOpts::default()
        };
        let first = index.fields().first();
        let descending = first.is_some_and(|f| f.kind == FieldKind::Descending);
        let mut rest = KeyInterval {
            lower: Vec::new(),
            upper: vec![0xFF],
        };
        let mut components = Vec::new();
        loop {
            let (lower, upper) = entry_bounds(index, &rest);
            let range = KeyRange::new(&lower, &upper);
            let mut cursor = ReadView::LATEST.cursor(engine, Table::Idx, range, opts)?;
            let mut found = None;
            let show = &mut |key: &[u8], _: &[u8]| {
                let entry = key.get(4..).unwrap_or_default();
                let len = decode::component_len(entry, descending).unwrap_or(0);
                found = Some(entry.get(..len).unwrap_or_default().to_vec());
                false
            };
            cursor.visit(1, show).map_err(error::storage)?;
            match found {
                None => return Ok(Some(components)),
                Some(component) if component.is_empty() => {
                    return Err(error::corrupt(&format!(
                        "an entry of index {}",
                        index.name()
                    )));
                }
                Some(_) if components.len() == most => return Ok(None),
                Some(component) => {
                    rest.lower = [&component[..], &[keys::AFTER]].concat();
                    components.push(component);
                }
            }
        }
    }

    /// The share of an index's bytes that some intervals take, from 0 to 1, as the engine estimates
    /// it; of many intervals only the first ones are measured.
    ///
    /// # Errors
    /// Engine failures.
    pub fn share_of_index(&self, index: &Index, intervals: &[KeyInterval]) -> Result<f64> {
        const LOOKED_AT: usize = 16;
        let engine = self.shared.engine.as_ref();
        let lower = index.ident().to_be_bytes();
        let mut upper = Vec::new();
        prefix_end(&lower, &mut upper);
        let size = |lower: &[u8], upper: &[u8]| {
            engine
                .approx_size(Table::Idx, KeyRange::new(lower, upper))
                .map_err(error::storage)
        };
        let all = size(&lower, &upper)?.max(1);
        let mut some = 0;
        for interval in intervals.iter().take(LOOKED_AT) {
            let (lower, upper) = entry_bounds(index, interval);
            some += size(&lower, &upper)?;
        }
        let looked_at = intervals.len().clamp(1, LOOKED_AT) as f64;
        let share = some as f64 / all as f64 * intervals.len() as f64 / looked_at;
        Ok(share.min(1.0))
    }

    /// Adds keys of documents between two keys, so that about as many bytes lie between any two
    /// neighbours. Sizes are estimated, because keys are rarely spread evenly.
    fn split_by_size(
        &self,
        lower: &[u8],
        upper: &[u8],
        places: usize,
        depth: u32,
        out: &mut Vec<Vec<u8>>,
    ) -> Result<()> {
        let middle = split_keys(lower, upper, 2).pop();
        let Some(middle) =
            middle.filter(|m| places > 1 && depth < DEPTH_MAX && lower < m.as_slice())
        else {
            return Ok(());
        };
        let engine = self.shared.engine.as_ref();
        let size = |lower: &[u8], upper: &[u8]| {
            engine
                .approx_size(Table::Doc, KeyRange::new(lower, upper))
                .map_err(error::storage)
        };
        let (left, right) = (size(lower, &middle)?, size(&middle, upper)?);
        let share = left as f64 / (left + right).max(1) as f64;
        let before = ((places as f64) * share).round() as usize;
        self.split_by_size(lower, &middle, before, depth + 1, out)?;
        if before > 0 && before < places {
            out.push(middle.clone());
        }
        self.split_by_size(&middle, upper, places - before, depth + 1, out)
    }

    /// Shows a sample of the latest state: the first `each` documents after each of `places` places
    /// that are spread evenly over the data. From another machine as many documents are read at
    /// fewer places, which are spread evenly over the keys. Shows nothing for a time series or the
    /// log, which have other keys.
    ///
    /// # Errors
    /// 1 InternalError for a damaged record; engine failures.
    ///
    /// # Cost
    /// A seek and about four estimates of sizes for each place; from another machine a request for
    /// each of the fewer places.
    pub fn visit_spread(
        &self,
        places: usize,
        each: usize,
        f: &mut dyn FnMut(Doc<'_>),
    ) -> Result<()> {
        if self.is_series() || self.as_log().is_some() {
            return Ok(());
        }
        let view = ReadView::now(self.shared.engine.as_ref())?;
        let is_near = self.request_rows() == 1;
        let (places, each) = match is_near {
            true => (places, each),
            false => (PLACES_REMOTE, (places * each).div_ceil(PLACES_REMOTE)),
        };
        let spread = self.spread_places(&view, places, is_near)?;
        self.visit_places(&view, spread, each, f)
    }

    /// Keys that are spread evenly over the data, ascending: by estimates of sizes, or only over
    /// the keys.
    fn spread_places(&self, view: &ReadView, places: usize, by_size: bool) -> Result<Vec<Vec<u8>>> {
        let (low, up) = self.key_bounds();
        let (first, last) = (
            self.end_id(view, &low, &up, false)?,
            self.end_id(view, &low, &up, true)?,
        );
        let (Some(first), Some(last)) = (first, last) else {
            return Ok(Vec::new());
        };
        let [first, last] = [first, last].map(|id| [&low[..], &id].concat());
        let mut spread = vec![first.clone()];
        match by_size {
            true => self.split_by_size(&first, &last, places, 0, &mut spread)?,
            false => spread.extend(split_keys(&first, &last, places)),
        }
        spread.sort_unstable();
        Ok(spread)
    }

    /// Shows up to `each` documents from each of some ascending keys on, each document once.
    fn visit_places(
        &self,
        view: &ReadView,
        places: Vec<Vec<u8>>,
        each: usize,
        f: &mut dyn FnMut(Doc<'_>),
    ) -> Result<()> {
        let engine = self.shared.engine.as_ref();
        let (_, up) = self.key_bounds();
        let opts = CursorOpts {
            limit_hint: each,
            ..CursorOpts::default()
        };
        let mut is_damaged = false;
        let mut shown_up_to = Vec::new();
        for place in places {
            let lower = place.max(std::mem::take(&mut shown_up_to));
            let range = KeyRange::new(&lower, &up);
            let mut cursor = view.cursor(engine, Table::Doc, range, opts)?;
            let show = &mut |key: &[u8], value: &[u8]| {
                shown_up_to = [key, &[0]].concat();
                match record::read(value) {
                    Some((_, doc)) => f(doc),
                    None => is_damaged = true,
                }
                !is_damaged
            };
            cursor.visit(each, show).map_err(error::storage)?;
            if is_damaged {
                return Err(error::corrupt("a document"));
            }
        }
        Ok(())
    }
}

impl Index {
    /// The entries that a document would have in some ascending intervals, without their ids; none
    /// for a document that the index cannot hold.
    pub fn entries_inside(
        &self,
        doc: Doc<'_>,
        intervals: &[KeyInterval],
        set: &mut KeySet,
    ) -> Vec<Vec<u8>> {
        if self.keys_of(doc, set).is_err() {
            return Vec::new();
        }
        let is_inside = |key: &Vec<u8>| {
            let at = intervals.partition_point(|i| i.upper.as_slice() <= key.as_slice());
            intervals.get(at).is_some_and(|i| i.lower <= *key)
        };
        let entries = set
            .iter()
            .map(|components| [components, &[keys::END]].concat());
        entries.filter(is_inside).collect()
    }
}

/// The keys of the entries in an interval: lower included, upper excluded.
fn entry_bounds(index: &Index, interval: &KeyInterval) -> (Vec<u8>, Vec<u8>) {
    let prefix = index.ident().to_be_bytes();
    let bound = |components: &[u8]| [&prefix[..], components].concat();
    (bound(&interval.lower), bound(&interval.upper))
}
