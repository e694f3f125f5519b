//! `$sort`: stable, by a compound order. With a limit only that many rows are kept; beyond the
//! memory budget sorted runs go to temporary files and are merged. Errors: 15973 for no document,
//! 40218 for a `$meta` that no stage provides, 292 past the budget without disk use, and those of
//! [`SortPattern`].

use crate::exec::{BatchStream, ExecContext, SortBy, SortPattern};
use crate::physical;
use crate::stage::{ApiClass, Kind, Placement, Stage, StageNeeds, StageOp, one};
use model::{DocBuf, Result, Value, bail};
use operators::RequiredFields;
use std::sync::Arc;

pub(super) static STAGES: &[StageOp] = &[StageOp {
    name: "$sort",
    api: ApiClass::Inside,
    needs: StageNeeds::Nothing,
    placement: Placement::ANYWHERE,
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
        one(Sort {
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
    fn open(
        self: Arc<Self>,
        input: Box<dyn BatchStream>,
        _: &ExecContext<'_>,
    ) -> Result<Box<dyn BatchStream>> {
        Ok(Box::new(physical::Sort::new(
            input,
            self.pattern.clone(),
            self.limit,
        )))
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
    fn reads(&self, reads: &mut RequiredFields) {
        self.pattern.reads(reads);
    }
    fn with_limit(&self, n: u64) -> Option<Arc<dyn Stage>> {
        let limit = Some(self.limit.map_or(n, |m| m.min(n)));
        Some(Arc::new(Sort {
            pattern: self.pattern.clone(),
            limit,
        }))
    }
}
