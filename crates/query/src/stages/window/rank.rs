//! `$rank`, `$denseRank`, `$documentNumber`, all with `{}`: the position in the order; equal
//! documents share ranks. Errors: 5371601 a window or another key, 5371602 no sortBy of exactly one
//! component, 5371603 arguments.
//! component, 5371603 arguments.

use super::function::{WindowContext, WindowFn};
use super::partition::Partition;
use crate::exec::{ExecContext, SortBy, SortPattern};
use crate::path::plain_at;
use model::{OwnedValue, Result, Value, bail};
use operators::RequiredFields;
use operators::numeric::int_or_long;
use smallvec::SmallVec;
use std::cmp::Ordering;

pub(super) fn parse(
    wcx: &mut WindowContext<'_, '_>,
    name: &'static str,
    arg: Value<'_>,
) -> Result<Box<dyn WindowFn>> {
    wcx.no_window(name, 5371601)?;
    let Some(sort) = wcx.sort.filter(|s| s.parts().len() == 1) else {
        bail!(
            5371602,
            "{name} must be specified with a top level sortBy expression with exactly one element"
        );
    };
    if !arg.as_doc().is_some_and(|d| d.is_empty()) {
        bail!(
            5371603,
            "{name} must be specified with '{{}}' as the value, not {arg}"
        );
    }
    let step = match name {
        "$rank" => RankKind::Rank,
        "$denseRank" => RankKind::Dense,
        _ => RankKind::Number,
    };
    Ok(Box::new(Rank {
        sort: sort.clone(),
        step,
    }))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum RankKind {
    Rank,
    Dense,
    Number,
}

struct Rank {
    sort: SortPattern,
    step: RankKind,
}

impl WindowFn for Rank {
    fn reads(&self, reads: &mut RequiredFields) {
        self.sort.reads(reads);
    }

    fn compute(&self, part: &Partition, exec: &ExecContext<'_>) -> Result<Vec<OwnedValue>> {
        let mut previous: Option<(SmallVec<[Value<'_>; 4]>, bool)> = None;
        // Null and missing are equal for sorting, but do not share a rank.
        let absent = |doc| {
            matches!(self.sort.parts(), [p] if matches!(&p.by, SortBy::Path(path)
            if plain_at(doc, path).is_missing()))
        };
        let (mut rank, mut out) = (0i64, Vec::with_capacity(part.docs.len()));
        for (i, (doc, meta)) in part.docs.iter_meta().enumerate() {
            let mut key = SmallVec::new();
            self.sort.key_values(doc, meta, exec.env, &mut key)?;
            let absent = absent(doc);
            let equal =
                |p: &[Value<'_>]| self.sort.compare(p, &key, exec.env.collate()) == Ordering::Equal;
            let tied = previous
                .as_ref()
                .is_some_and(|(p, was_absent)| *was_absent == absent && equal(p));
            match self.step {
                RankKind::Number => rank = i as i64 + 1,
                RankKind::Rank if !tied => rank = i as i64 + 1,
                RankKind::Dense if !tied => rank += 1,
                _ => {}
            }
            out.push(int_or_long(rank).to_owned_value());
            previous = Some((key, absent));
        }
        Ok(out)
    }
}
