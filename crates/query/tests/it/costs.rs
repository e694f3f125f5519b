//! The planner's choice if points and costs disagree.

use model::{DocBuf, Namespace, Value, doc};
use operation::{Operation, SystemClock};
use operators::Env;
use operators::expr::ParseCx;
use query::exec::{AllowedIndexes, MatchFilter, SortPattern};
use query::plan::{Access, Plan, PlanCache, PlanRequest, plan_read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use storage::observe::{Call, ObservedEngine, Observer};
use storage::{Caps, Engine, MemoryEngine};
use store::{Collection, NoHooks, Store};

/// 4,000 documents: `a` is 0 for all but 40, `b` has 40 values, `c` follows from `b`.
fn collection(indexes: &[DocBuf]) -> Arc<Collection> {
    collection_on(Arc::new(MemoryEngine::new()), indexes)
}

fn collection_on(engine: Arc<dyn Engine>, indexes: &[DocBuf]) -> Arc<Collection> {
    let store = Store::open(engine, Arc::new(NoHooks)).unwrap();
    let operation = Operation::new_detached(Arc::new(SystemClock::default()));
    let writer = store.writer(&operation);
    let ns = Namespace::new("db", "c").unwrap();
    let c = writer
        .create_collection(&ns, DocBuf::new(), [0; 16])
        .unwrap();
    for (n, key) in indexes.iter().enumerate() {
        let spec = doc! { "v": 2i32, "name": format!("i{n}").as_str(), "key": key.doc() };
        c.writer(&operation).create_index(spec).unwrap();
    }
    for n in 0..4000i32 {
        let (a, b) = (if n % 100 == 0 { n / 100 } else { 0 }, n % 40);
        let d = doc! { "_id": n, "a": a, "b": b, "c": b / 10 };
        c.writer(&operation).insert(&[d.doc()], true).unwrap();
    }
    c
}

fn plan_find(
    c: &Arc<Collection>,
    filter: DocBuf,
    sort: Option<DocBuf>,
    limit: Option<u64>,
) -> Plan {
    let env = Env::new(0, 1);
    let filter = MatchFilter::parse(&mut ParseCx::new(&env), filter.doc()).unwrap();
    let sort = sort.map(|s| SortPattern::parse(s.doc()).unwrap());
    let request = PlanRequest {
        filter: Some(&filter),
        sort: sort.as_ref(),
        limit,
        ..PlanRequest::default()
    };
    plan_read(c, &request).unwrap()
}

fn index_of(plan: &Plan) -> &str {
    match (&plan.access, &plan.index) {
        (Access::Collection { .. }, _) => "scan",
        (_, Some(index)) => index.name(),
        _ => "_id_",
    }
}

#[test]
fn a_value_that_most_documents_have_is_not_looked_for_in_an_index() {
    let c = collection(&[doc! { "a": 1i32 }, doc! { "b": 1i32 }]);
    assert_eq!(
        index_of(&plan_find(&c, doc! { "a": 0i32 }, None, None)),
        "scan"
    );
    assert_eq!(
        index_of(&plan_find(&c, doc! { "a": 7i32 }, None, None)),
        "i0"
    );
    let both = doc! { "a": 0i32, "b": 3i32 };
    assert_eq!(index_of(&plan_find(&c, both, None, None)), "i1");
}

#[test]
fn the_order_of_an_index_counts_where_few_are_wanted() {
    let c = collection(&[doc! { "a": 1i32 }, doc! { "b": 1i32 }]);
    let order = || Some(doc! { "b": 1i32 });
    let frequent = plan_find(&c, doc! { "a": 0i32 }, order(), Some(5));
    assert_eq!(index_of(&frequent), "i1");
    // No matching document is near either end of the order.
    let rare = plan_find(&c, doc! { "a": 0i32, "c": 2i32 }, order(), Some(5));
    assert_ne!(index_of(&rare), "i1");
}

#[test]
fn an_index_with_late_matches_is_not_preferred() {
    let c = collection(&[doc! { "c": 1i32 }, doc! { "b": 1i32 }]);
    // All documents with `c` below 3 come first and do not match.
    let late = doc! { "c": { "$gte": 0i32 }, "b": { "$in": [35i32, 36i32, 37i32, 38i32] } };
    let plan = plan_find(&c, late, None, Some(1));
    assert_eq!(index_of(&plan), "i1");
    let late = doc! { "b": { "$in": [0i32, 1i32, 2i32, 3i32, 4i32, 5i32, 39i32] },
    "c": { "$gt": 2i32 } };
    let plan = plan_find(&c, late, None, Some(1));
    assert_ne!(index_of(&plan), "i1", "{:?}", plan.bounds.len());
}

#[test]
fn a_limit_that_is_never_reached_saves_nothing() {
    let c = collection(&[doc! { "c": 1i32 }, doc! { "a": 1i32 }]);
    // By points both are equalities, so the first would be taken.
    let none = doc! { "c": { "$in": [0i32, 1i32, 2i32] }, "a": 999i32 };
    assert_eq!(index_of(&plan_find(&c, none, None, Some(73))), "i1");
}

#[test]
fn a_scan_is_no_alternative_to_the_indexes_that_settings_allow() {
    let c = collection(&[doc! { "a": 1i32 }, doc! { "b": 1i32 }]);
    let env = Env::new(0, 1);
    let filter = doc! { "a": 0i32 };
    let filter = MatchFilter::parse(&mut ParseCx::new(&env), filter.doc()).unwrap();
    let allowed = AllowedIndexes {
        list: vec![Value::String("i0").to_owned_value()],
        filter: false,
    };
    let request = PlanRequest {
        filter: Some(&filter),
        allowed: Some(&allowed),
        ..PlanRequest::default()
    };
    assert_eq!(index_of(&plan_read(&c, &request).unwrap()), "i0");
}

/// Counts what a sample costs an engine on another machine, which estimates sizes by reading rows.
#[derive(Default)]
struct SampleCost(AtomicU64);

impl Observer for SampleCost {
    fn before_call(&self, call: &Call<'_>, _: &Caps) -> storage::Result<()> {
        let is_request = matches!(call, Call::Visit { .. } | Call::ApproxSize { .. });
        self.0.fetch_add(u64::from(is_request), Ordering::Relaxed);
        Ok(())
    }
}

#[test]
fn a_sample_from_another_machine_costs_few_requests() {
    let engine = MemoryEngine::remote(128);
    let engine = Arc::new(ObservedEngine::new(Arc::new(engine), SampleCost::default()));
    let c = collection_on(engine.clone(), &[doc! { "a": 1i32 }, doc! { "b": 1i32 }]);
    // By points the first equality is taken; the sample knows that most documents match it.
    let both = || plan_find(&c, doc! { "a": 0i32, "b": 3i32 }, None, None);
    let before = engine.observer().0.load(Ordering::Relaxed);
    both();
    let asked = engine.observer().0.load(Ordering::Relaxed) - before;
    assert!(asked <= 10, "{asked} requests for a plan");
    PlanCache::draw_sample(&c).unwrap();
    let drawn = engine.observer().0.load(Ordering::Relaxed) - before - asked;
    assert!(drawn <= 40, "{drawn} requests for a sample");
    assert_eq!(index_of(&both()), "i1");
}
