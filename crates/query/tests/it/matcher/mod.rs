//! Finds the same documents in three ways: with the compiled filter on raw BSON, with a naive
//! matcher over owned trees, and by every access path that the planner chooses or is told to use.
//! `QUARRY_MATCHER_SECS` sets the length of the run, `QUARRY_MATCHER_SEED` repeats one case; a
//! failure prints the seed and a shrunk case.

mod expression;
mod filters;
mod naive;
mod schema;
mod tree;

use model::{Bump, Collate, Doc, DocBuf, Namespace, Result, Value, doc};
use operation::{Operation, SystemClock};
use operators::Env;
use operators::expr::ParseCx;
use operators::filter::Filter;
use query::exec::MatchFilter;
use query::exec::SortPattern;
use query::physical::each_match;
use query::plan::{Access, Hint, Plan, PlanRequest, plan_read};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use storage::MemoryEngine;
use store::{Collection, Hooks, Predicate, Store};
use tree::{Rng, Tree};

/// Partial filters and collations, as the server makes them.
struct Language;

impl Hooks for Language {
    fn predicate(&self, filter: Doc<'_>, collation: Option<Doc<'_>>) -> Result<Predicate> {
        let mut env = Env::new(0, 1);
        env.collation = collation.map_or(Ok(None), operators::collation::collator)?;
        let f = Filter::parse(&mut ParseCx::new(&env), filter)?;
        let collate = env.collation.clone();
        Ok(Arc::new(move |d: Doc<'_>| {
            let (mut env, arena) = (Env::new(0, 1), Bump::new());
            env.collation.clone_from(&collate);
            f.matches(d, &arena, &env).unwrap_or(false)
        }))
    }
    fn collator(&self, spec: Doc<'_>) -> Result<Option<Arc<dyn Collate>>> {
        operators::collation::collator(spec)
    }
    fn terms(&self, index: Doc<'_>) -> Result<Arc<dyn store::Terms>> {
        store::NoHooks.terms(index)
    }
}

fn collations() -> Vec<Tree> {
    let strength = |n: i32| {
        Tree::doc(vec![
            ("locale", Tree::leaf("en")),
            ("strength", Tree::leaf(n)),
        ])
    };
    let numeric = Tree::doc(vec![
        ("locale", Tree::leaf("en")),
        ("numericOrdering", Tree::leaf(true)),
    ]);
    vec![strength(1), strength(2), numeric]
}

/// The data of one case; shrinking makes smaller ones.
#[derive(Clone)]
struct Case {
    collation: Option<Tree>,
    indexes: Vec<Tree>,
    docs: Vec<Tree>,
    /// Number of documents inserted before the indexes are built.
    early: usize,
    filter: Tree,
    sort: Option<Tree>,
}

impl std::fmt::Display for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let show = |t: &Tree| format!("{:?}", t.buf());
        writeln!(f, "filter    {}", show(&self.filter))?;
        writeln!(f, "sort      {:?}", self.sort.as_ref().map(show))?;
        writeln!(f, "collation {:?}", self.collation.as_ref().map(show))?;
        self.indexes
            .iter()
            .try_for_each(|i| writeln!(f, "index     {}", show(i)))?;
        writeln!(f, "documents there before the indexes: {}", self.early)?;
        self.docs
            .iter()
            .try_for_each(|d| writeln!(f, "document  {}", show(d)))
    }
}

fn case(dice: &mut Rng) -> Case {
    let collations = collations();
    dice.choose_focus();
    let collation = dice.one_in(3).then(|| collations[dice.roll(3)].clone());
    let indexes: Vec<Tree> = (0..1 + dice.roll(3))
        .map(|n| dice.index(n, &collations))
        .collect();
    let docs: Vec<Tree> = (0..1 + dice.roll(12))
        .map(|n| {
            let id = if dice.one_in(3) {
                dice.scalar()
            } else {
                Tree::leaf(n as i32)
            };
            let Tree::Doc(mut fields) = dice.fields(3) else {
                unreachable!("fields are a document")
            };
            fields.insert(0, ("_id".to_owned(), id));
            Tree::Doc(fields)
        })
        .collect();
    let sort = dice.one_in(2).then(|| {
        let mut by = vec![(
            dice.path(),
            Tree::leaf(if dice.one_in(2) { 1i32 } else { -1 }),
        )];
        if by[0].0 != "_id" && dice.one_in(2) {
            by.push(("_id", Tree::leaf(if dice.one_in(2) { 1i32 } else { -1 })));
        }
        Tree::doc(by)
    });
    let early = dice.roll(docs.len() + 1);
    let mut filter = dice.filter_of(2, true);
    // Makes queries use partial indexes.
    let partial = indexes
        .iter()
        .find_map(|i| i.field("partialFilterExpression"));
    if let (Some(Tree::Doc(condition)), Tree::Doc(clauses), true) =
        (partial, &mut filter, dice.one_in(2))
    {
        clauses.retain(|(n, _)| *n != condition[0].0);
        clauses.push(condition[0].clone());
    }
    Case {
        collation,
        indexes,
        docs,
        early,
        filter,
        sort,
    }
}

fn collection(case: &Case) -> (Arc<Collection>, Vec<usize>) {
    let store = Store::open(Arc::new(MemoryEngine::new()), Arc::new(Language)).unwrap();
    let operation = Operation::new_detached(Arc::new(SystemClock::default()));
    let c = store
        .writer(&operation)
        .create_collection(&Namespace::new("db", "c").unwrap(), DocBuf::new(), [0; 16])
        .unwrap();
    let mut kept = Vec::new();
    let mut put = |range: std::ops::Range<usize>| {
        for n in range {
            // Duplicates, parallel arrays and similar documents are refused; only inserted ones
            // must be found.
            if c.writer(&operation)
                .insert(&[case.docs[n].buf().doc()], true)
                .is_ok_and(|i| i.count == 1)
            {
                kept.push(n);
            }
        }
    };
    put(0..case.early.min(case.docs.len()));
    for i in &case.indexes {
        let _ = c.writer(&operation).create_index(i.buf());
    }
    put(case.early.min(case.docs.len())..case.docs.len());
    (c, kept)
}

#[derive(Default)]
struct MatchCounts {
    cases: u64,
    matched: u64,
    compared: u64,
    by_index: u64,
    in_order: u64,
    unparsed: u64,
}

/// Runs a case; returns the first error.
fn trouble(case: &Case, seen: &mut MatchCounts) -> Option<String> {
    let mut env = Env::new(0, 1);
    let collation = case.collation.as_ref().map(Tree::buf);
    env.collation = collation
        .as_ref()
        .and_then(|c| operators::collation::collator(c.doc()).unwrap());
    let spec = case.filter.buf();
    let Ok(f) = MatchFilter::parse(&mut ParseCx::new(&env), spec.doc()) else {
        seen.unparsed += 1;
        return None;
    };
    let mut expected: Vec<usize> = Vec::new();
    for (n, d) in case.docs.iter().enumerate() {
        let (arena, raw) = (Bump::new(), d.buf());
        let compiled = f.filter.matches(raw.doc(), &arena, &env);
        let naive = naive::matches(&case.filter, d, env.collate());
        seen.compared += 1;
        seen.matched += u64::from(naive);
        if compiled != Ok(naive) {
            return Some(format!(
                "document {raw:?}: compiled says {compiled:?}, naive says {naive}"
            ));
        }
        if naive {
            expected.push(n);
        }
    }
    let (coll, kept) = collection(case);
    expected.retain(|n| kept.contains(n));
    let sort = case
        .sort
        .as_ref()
        .and_then(|s| SortPattern::parse(s.buf().doc()).ok());
    let mut hints = vec![
        None,
        Some(Hint::Natural { reverse: false }),
        Some(Hint::Name("_id_".to_owned())),
    ];
    // A client may force a sparse or partial index on a query that the index cannot answer
    // completely.
    hints.extend(
        coll.indexes()
            .iter()
            .filter(|i| !i.is_sparse() && !i.is_partial())
            .map(|i| Some(Hint::Name(i.name().to_owned()))),
    );
    hints.iter().find_map(|hint| {
        let request = PlanRequest {
            filter: Some(&f),
            sort: sort.as_ref(),
            hint: hint.as_ref(),
            collation: collation.as_ref().map(DocBuf::doc),
            ..PlanRequest::default()
        };
        let plan = plan_read(&coll, &request).ok()?;
        let expected = expected.iter().map(|n| case.docs[*n].buf());
        wrong_answer(&coll, &request, &plan, &env, expected, seen)
            .map(|why| format!("hint {hint:?}: {why}"))
    })
}

/// Compares the result of a plan with the expected documents; returns a difference.
fn wrong_answer(
    coll: &Arc<Collection>,
    request: &PlanRequest<'_>,
    plan: &Plan,
    env: &Env,
    expected: impl Iterator<Item = DocBuf>,
    seen: &mut MatchCounts,
) -> Option<String> {
    seen.by_index += u64::from(matches!(
        plan.access,
        Access::Index { .. } | Access::Union { .. }
    ));
    let mut found = Vec::new();
    let run = each_match(coll, plan, request.filter, env, &mut |row| {
        found.push(row.doc.to_buf());
        Ok(true)
    });
    if let Err(e) = run {
        return Some(format!("{e:?}"));
    }
    if let (true, Some(order)) = (plan.sorted, request.sort) {
        seen.in_order += 1;
        for w in found.windows(2) {
            let (mut x, mut y) = (Default::default(), Default::default());
            order.key_values(w[0].doc(), None, env, &mut x).unwrap();
            order.key_values(w[1].doc(), None, env, &mut y).unwrap();
            if order.compare(&x, &y, env.collate()).is_gt() {
                return Some(format!("{:?} before {:?}", w[0], w[1]));
            }
        }
    }
    // By bytes: ids may be equal under a collation, but the documents differ.
    let mut by_bytes: BTreeMap<Vec<u8>, i32> = BTreeMap::new();
    for d in &found {
        *by_bytes.entry(d.as_bytes().to_vec()).or_default() += 1;
    }
    for d in expected {
        *by_bytes.entry(d.into_bytes()).or_default() -= 1;
    }
    let (bytes, n) = by_bytes.iter().find(|(_, n)| **n != 0)?;
    let d = Doc::new(bytes).unwrap_or(Doc::EMPTY);
    let what = if *n > 0 {
        "is found though it must not"
    } else {
        "is not found"
    };
    Some(format!(
        "{d:?} {what}; plan {}, complete: {}",
        access(&plan.access),
        plan.complete
    ))
}

fn access(a: &Access) -> String {
    match a {
        Access::Nothing => "nothing".to_owned(),
        Access::Collection { .. } => "collection".to_owned(),
        Access::Ids { ids, .. } => format!("ids {ids:02x?}"),
        Access::IdRange { lower, upper, .. } => format!("ids from {lower:02x?} to {upper:02x?}"),
        Access::Union {
            branches, merge, ..
        } => {
            let all: Vec<String> = branches.iter().map(|b| access(&b.access)).collect();
            format!("union (merged: {}) of {}", merge.is_some(), all.join("; "))
        }
        Access::Index {
            name, intervals, ..
        } => format!("index {name} {intervals:02x?}"),
        Access::Near(nearness) => format!("near at {}", nearness.path.as_str()),
        Access::Text { terms } => format!("terms {terms:02x?}"),
    }
}

/// Cases that are a little smaller than this one.
fn smaller(case: &Case) -> Vec<Case> {
    let mut out = Vec::new();
    for i in 0..case.docs.len() {
        let mut c = case.clone();
        c.docs.remove(i);
        c.early -= usize::from(i < case.early);
        out.push(c);
    }
    for i in 0..case.indexes.len() {
        let mut c = case.clone();
        c.indexes.remove(i);
        out.push(c);
    }
    if case.sort.is_some() {
        out.push(Case {
            sort: None,
            ..case.clone()
        });
    }
    if case.collation.is_some() {
        out.push(Case {
            collation: None,
            ..case.clone()
        });
    }
    if case.early > 0 {
        out.push(Case {
            early: 0,
            ..case.clone()
        });
    }
    out.extend(case.filter.smaller().into_iter().map(|filter| Case {
        filter,
        ..case.clone()
    }));
    for (n, d) in case.docs.iter().enumerate() {
        for t in d.smaller() {
            let mut c = case.clone();
            c.docs[n] = t;
            out.push(c);
        }
    }
    for (n, i) in case.indexes.iter().enumerate() {
        for t in i.smaller() {
            let mut c = case.clone();
            c.indexes[n] = t;
            out.push(c);
        }
    }
    out
}

fn shrink_case(mut case: Case) -> (Case, String) {
    let mut ignored = MatchCounts::default();
    // The naive matcher panics on filters that only shrinking made invalid; those do not count as
    // smaller cases.
    let fails = |c: &Case, seen: &mut MatchCounts| {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| trouble(c, seen)))
            .ok()
            .flatten()
    };
    let mut why = fails(&case, &mut ignored).unwrap_or_default();
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    'again: loop {
        for c in smaller(&case) {
            if let Some(w) = fails(&c, &mut ignored) {
                (case, why) = (c, w);
                continue 'again;
            }
        }
        std::panic::set_hook(hook);
        return (case, why);
    }
}

fn check(seed: u64, seen: &mut MatchCounts) {
    let case = case(&mut Rng::new(seed));
    seen.cases += 1;
    if trouble(&case, seen).is_some() {
        let (small, why) = shrink_case(case);
        panic!("QUARRY_MATCHER_SEED={seed}\n{why}\n{small}");
    }
}

#[test]
fn matchers_and_plans_agree() {
    let env = |name: &str| std::env::var(name).ok().and_then(|v| v.parse::<u64>().ok());
    let mut seen = MatchCounts::default();
    if let Some(seed) = env("QUARRY_MATCHER_SEED") {
        return check(seed, &mut seen);
    }
    let (began, secs) = (Instant::now(), env("QUARRY_MATCHER_SECS"));
    let start = env("QUARRY_MATCHER_FROM").unwrap_or(0) << 32;
    for n in 0.. {
        match secs {
            Some(s) if began.elapsed() >= Duration::from_secs(s) => break,
            None if n >= 2_000 => break,
            _ => {}
        }
        check(start + n, &mut seen);
    }
    let MatchCounts {
        cases,
        matched,
        compared,
        by_index,
        in_order,
        unparsed,
    } = seen;
    println!(
        "{cases} cases, {unparsed} unparsed, {matched} of {compared} documents matched, {by_index} \
            index plans, {in_order} in order"
    );
    assert!(
        matched * 20 > compared && matched * 2 < compared,
        "the filters are all too narrow or too wide"
    );
    assert!(
        by_index * 2 > cases && in_order * 20 > cases && unparsed * 50 < cases,
        "too few cases say something"
    );
}

#[test]
fn the_naive_matcher_knows_the_documented_examples() {
    let d = Tree::of_doc(
        doc! { "a": [1i32, { "b": 2i32 }, [3i32]], "n": Value::Null, "s": "abc" }.doc(),
    );
    for (f, wanted) in [
        (doc! { "a": 3i32 }, false),
        (doc! { "a": [3i32] }, true),
        (doc! { "a.b": 2i32, "a.0": 1i32 }, true),
        (doc! { "a.2": 3i32 }, false),
        (doc! { "a.2.0": 3i32 }, true),
        (doc! { "x": Value::Null, "n": { "$exists": true } }, true),
        (
            doc! { "a": { "$elemMatch": { "b": { "$gt": 1i32 } } } },
            true,
        ),
        (doc! { "a": { "$size": 3i32, "$type": "array" } }, true),
        (doc! { "s": { "$gt": 1i32 } }, false),
        (doc! { "s": { "$not": { "$regex": "^a" } } }, false),
    ] {
        assert_eq!(
            naive::matches(&Tree::of_doc(f.doc()), &d, None),
            wanted,
            "{f:?}"
        );
    }
}
