//! Distributes the planner's estimate of a plan over its stages. A stage that was not estimated has
//! none.

use super::estimate::StageEstimate;
use super::node::PlanNode;
use crate::plan::Estimate;

impl PlanNode {
    /// The same stages, with the estimates of the plan that they show.
    #[must_use]
    pub fn with_estimates(mut self, plan: Option<&Estimate>) -> PlanNode {
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
                rows: None,
                ..below
            })
        };
        let amount = |name: &str| self.own.doc().field(name).as_f64();
        self.estimate = match self.stage {
            "COLLSCAN" | "CLUSTERED_IXSCAN" | "COLUMN_SCAN" => Some(StageEstimate {
                docs: Some(plan.read),
                rows: plan.rows,
                ..read
            }),
            "IXSCAN" | "COUNT_SCAN" if fetched => Some(StageEstimate {
                // Documents are stored by id, so reading ids alone costs nothing more.
                cost: plan.entries_cost.unwrap_or(plan.read_cost),
                gives: Some((plan.read, plan.read_source)),
                keys: Some(plan.read),
                ..StageEstimate::default()
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
