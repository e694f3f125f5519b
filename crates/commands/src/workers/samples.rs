//! Draws the samples of documents that the planner estimates with, so that no query has to sample a
//! large collection itself: in each round one collection that queries ask for and that has no
//! sample or has changed since.

use super::worker::{Class, NextRound, Scope, Worker, never};
use model::{Namespace, Result};
use query::plan::PlanCache;
use state::service::Service;
use std::time::Duration;

pub(super) static WORKER: Worker = Worker {
    name: "samples",
    class: Class::Own,
    scope: Scope::Server,
    period: Duration::from_secs(1),
    is_due_early: never,
    work: || {
        let mut last = None;
        Box::new(move |service, _| draw_next(service, &mut last).map(|()| NextRound::Again))
    },
    error: ("QUERY", "a sample of documents could not be drawn"),
};

/// Draws one sample. Collections take turns in the order of their names.
fn draw_next(service: &Service, last: &mut Option<Namespace>) -> Result<()> {
    let mut wanting = service.store.collections_in_use(&PlanCache::wants_sample);
    wanting.sort_unstable_by(|a, b| a.ns().cmp(b.ns()));
    let is_behind = |ns: &Namespace| last.as_ref().is_none_or(|last| ns > last);
    let next = wanting.iter().find(|coll| is_behind(coll.ns()));
    let Some(coll) = next.or(wanting.first()) else {
        return Ok(());
    };
    *last = Some(coll.ns().clone());
    PlanCache::draw_sample(coll)
}
