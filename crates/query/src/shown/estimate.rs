//! What the planner expected, told stage by stage from what it expected of the whole plan. A stage
//! of which it asked nothing has nothing.

use super::PlanNode;
use crate::plan::{Estimate, EstimateSource};
use model::DocWriter;

/// What the planner expected of one stage.
#[derive(Clone, Copy, Debug, Default)]
pub struct StageEstimate {
    /// The cost of this stage and all below it.
    pub cost: f64,
    /// Documents or entries that it gives.
    pub gives: Option<(f64, EstimateSource)>,
    /// Entries of an index that it reads.
    pub keys: Option<f64>,
    /// Documents that it reads of a collection.
    pub docs: Option<f64>,
}

impl StageEstimate {
    /// Writes it under MongoDB's names.
    pub(super) fn write(&self, w: &mut DocWriter<'_>) {
        w.put("costEstimate", self.cost);
        if let Some((number, _)) = self.gives {
            w.put("cardinalityEstimate", number);
        }
        if let Some(keys) = self.keys {
            w.put("numKeysEstimate", keys);
        }
        if let Some(docs) = self.docs {
            w.put("numDocsEstimate", docs);
        }
        if let Some((_, source)) = self.gives {
            w.doc("estimatesMetadata").put("ceSource", source.name());
        }
    }
}

impl PlanNode {
    /// The same stages, with what was expected of the plan that they show.
    #[must_use]
    pub fn expecting(mut self, plan: Option<&Estimate>) -> PlanNode {
        if let Some(plan) = plan {
            self.expect(plan, false);
        }
        self
    }

    /// `fetched`: documents are read behind this stage.
    fn expect(&mut self, plan: &Estimate, fetched: bool) -> Option<StageEstimate> {
        let fetches = self.stage == "FETCH";
        let below = match self.inputs.as_mut_slice() {
            [one] => one.expect(plan, fetches),
            _ => None,
        };
        let found = plan.found.map(|found| (found, plan.source));
        let read = StageEstimate {
            cost: plan.read_cost,
            gives: found,
            ..StageEstimate::default()
        };
        let over = |change: &dyn Fn(f64) -> f64| {
            below.map(|below| StageEstimate {
                gives: below.gives.map(|(n, source)| (change(n), source)),
                keys: None,
                docs: None,
                ..below
            })
        };
        let amount = |name: &str| self.own.doc().field(name).as_f64();
        self.estimate = match self.stage {
            "COLLSCAN" | "CLUSTERED_IXSCAN" => Some(StageEstimate {
                docs: Some(plan.read),
                ..read
            }),
            "IXSCAN" | "COUNT_SCAN" if fetched => Some(StageEstimate {
                // Documents lie with their ids, so that nothing is read for these alone.
                cost: plan.entries_cost.unwrap_or(plan.read_cost),
                gives: Some((plan.read, plan.read_source)),
                keys: Some(plan.read),
                docs: None,
            }),
            "IXSCAN" | "COUNT_SCAN" => Some(StageEstimate {
                keys: Some(plan.read),
                ..read
            }),
            "FETCH" => Some(read),
            "SORT" => plan.cost.and_then(|cost| {
                let limit = amount("limitAmount").unwrap_or(f64::INFINITY);
                Some(StageEstimate {
                    cost,
                    ..over(&|n| n.min(limit))?
                })
            }),
            "LIMIT" => over(&|n| n.min(amount("limitAmount").unwrap_or(n))),
            "SKIP" => over(&|n| (n - amount("skipAmount").unwrap_or(0.0)).max(0.0)),
            "PROJECTION_DEFAULT" | "PROJECTION_SIMPLE" | "PROJECTION_COVERED" => over(&|n| n),
            _ => None,
        };
        self.estimate
    }
}
