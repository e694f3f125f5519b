//! `$sort`: stable, by a compound order; with a limit only that many rows are kept; past the memory
//! budget sorted runs go to temporary files and are merged. Errors: 15973 for no document, 40218
//! for `$meta` nobody provides, 292 past the budget without disk use, and those of [`SortPattern`].

use super::sort_pattern::{SortBy, SortPattern};
use super::{Kind, Stage, StageOp};
use crate::pipeline::{Batch, Docs, Place, Rt, drain_ahead};
use crate::rows::{Rows, Run, memory_exceeded};
use model::{DocBuf, Result, Value, bail};
use std::sync::Arc;

pub(super) static STAGES: &[StageOp] = &[StageOp {
    name: "$sort",
    place: Place::ANYWHERE,
    parse: |scx, name, arg| {
        let Value::Document(spec) = arg else {
            bail!(
                15973,
                "the {name} key specification must be an object, not {}",
                arg.type_name()
            );
        };
        let pattern = SortPattern::parse(spec)?;
        for part in pattern.parts() {
            if let SortBy::Meta(what) = &part.by
                && matches!(what.as_str(), "textScore" | "geoNearDistance")
                && !scx.cx.meta.contains(&what.as_str())
            {
                bail!(
                    40218,
                    "query requires {what} metadata, but it is not available"
                );
            }
        }
        super::one(Sort {
            pattern: Arc::new(pattern),
            limit: None,
        })
    },
}];

/// Sorts its input.
pub(crate) struct Sort {
    pattern: Arc<SortPattern>,
    limit: Option<u64>,
}

impl Sort {
    pub(crate) fn new(pattern: SortPattern) -> Sort {
        Sort {
            pattern: Arc::new(pattern),
            limit: None,
        }
    }
}

impl Stage for Sort {
    fn open(self: Arc<Self>, input: Box<dyn Docs>, _: &Rt<'_>) -> Result<Box<dyn Docs>> {
        Ok(Box::new(SortDocs {
            stage: self,
            input,
            sorted: None,
        }))
    }
    fn describe(&self) -> DocBuf {
        DocBuf::build(|w| {
            let mut inner = w.doc("$sort");
            inner.doc("sortKey").put_all(self.pattern.spec());
            if let Some(n) = self.limit {
                inner.put("limit", i64::try_from(n).unwrap_or(i64::MAX));
            }
        })
    }
    fn kind(&self) -> Kind<'_> {
        Kind::Sort {
            pattern: &self.pattern,
            limit: self.limit,
        }
    }
    fn with_limit(&self, n: u64) -> Option<Arc<dyn Stage>> {
        let limit = Some(self.limit.map_or(n, |m| m.min(n)));
        Some(Arc::new(Sort {
            pattern: self.pattern.clone(),
            limit,
        }))
    }
}

struct SortDocs {
    stage: Arc<Sort>,
    input: Box<dyn Docs>,
    sorted: Option<Run>,
}

impl Docs for SortDocs {
    fn next_batch(&mut self, rt: &Rt<'_>, out: &mut Batch) -> Result<bool> {
        let run = match &mut self.sorted {
            Some(run) => run,
            none => none.insert(sort_all(
                &self.stage.pattern,
                self.stage.limit,
                self.input.as_mut(),
                rt,
            )?),
        };
        run.next_batch(out)
    }
}

/// Smaller runs would make more files than they save memory.
const SPILL_BYTES_MIN: usize = 1 << 20;

/// Reads everything and sorts it.
///
/// # Errors
/// 292 past the budget without disk use, and those of the input.
pub(crate) fn sort_all(
    pattern: &SortPattern,
    limit: Option<u64>,
    input: &mut dyn Docs,
    rt: &Rt<'_>,
) -> Result<Run> {
    let budget = rt.host.memory_limit_bytes();
    let keep = limit.map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX));
    let mut state = (Rows::default(), Run::new(keep));
    // With a limit, rows are cut back whenever twice as many are there: amortized, each row is
    // sorted log(2n) times.
    let cut_at = keep.saturating_mul(2).max(Batch::TARGET_DOCS);
    drain_ahead(
        input,
        rt,
        &mut state,
        |(rows, run), doc, meta| {
            rows.push(pattern, doc, meta, rt.env)?;
            if rows.len() >= cut_at {
                rows.sort();
                rows.truncate(keep);
            }
            if rows.len_bytes() > budget {
                if limit.is_some() {
                    rows.sort();
                    rows.truncate(keep);
                }
                if rows.len_bytes() > budget / 2 {
                    if !rt.allow_disk_use {
                        return Err(memory_exceeded("$sort", budget));
                    }
                    rows.sort();
                    run.spill(rows, rt)?;
                }
            }
            Ok(())
        },
        |(rows, run)| {
            if rt.allow_disk_use
                && limit.is_none()
                && rows.len_bytes() > SPILL_BYTES_MIN
                && rt.env.is_short_of_memory()
            {
                rows.sort();
                run.spill(rows, rt)?;
            }
            Ok(())
        },
    )?;
    let (mut rows, mut run) = state;
    rows.sort();
    rows.truncate(keep);
    run.finish(rows);
    Ok(run)
}
