//! The lower part of a plan: how documents are reached.

use super::{Figures, Shown, bounds, count, filter};
use crate::pipeline::MatchFilter;
use crate::plan::{Access, DistinctWalk, Plan, Walked, walk_counted};
use model::{DocBuf, Result};
use operators::Env;
use std::sync::Arc;
use store::{Collection, Index};

/// What a read did.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Index entries and documents looked at, by branch.
    pub walked: Walked,
    /// Documents that matched.
    pub matched: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Time.
    pub ms: u64,
}

/// Runs a read, no further than `most` matches, counting. With `entries_only` documents are not
/// read where that is possible.
///
/// # Errors
/// Those of the filter and the store.
pub fn measure(
    coll: &Arc<Collection>,
    plan: &Plan,
    filter: Option<&MatchFilter>,
    env: &Env,
    most: u64,
    entries_only: bool,
) -> Result<Measured> {
    let mut m = Measured::default();
    if most == 0 {
        return Ok(m);
    }
    let (mut matched, mut bytes) = (0, 0);
    m.walked = walk_counted(coll, plan, filter, env, entries_only, &mut |doc| {
        matched += 1;
        bytes += doc.map_or(0, |d| d.len_bytes() as u64);
        matched < most
    })?;
    (m.matched, m.bytes) = (matched, bytes);
    Ok(m)
}

fn figures(returned: u64, looked_at: u64, ms: u64) -> Figures {
    Figures {
        returned,
        works: looked_at.max(returned) + 1,
        ms,
    }
}

/// The tree of an access path with its filter. `clustered` collections are in the order of `_id` by
/// the client's own wish.
pub(super) fn tree(plan: &Plan, f: Option<&MatchFilter>, clustered: bool, m: &Measured) -> Shown {
    let spec = f.map(|f| &f.spec).filter(|s| !s.doc().is_empty());
    let whole = || spec.map(|s| filter::canonical(s.doc()));
    let docs = m.walked.docs;
    match &plan.access {
        Access::Nothing => Shown {
            stage: "EOF",
            own: model::doc! { "type": "predicatesEvalToFalse" },
            figures: figures(0, 0, m.ms),
            ..Shown::default()
        },
        Access::Collection { reverse } => Shown {
            stage: "COLLSCAN",
            filter: whole(),
            own: model::doc! { "direction": direction(*reverse) },
            figures: figures(m.matched, docs, m.ms),
            counted: model::doc! { "docsExamined": count(docs) },
            inputs: Vec::new(),
        },
        Access::Ids { ids, .. } if ids.len() == 1 && plan.complete => Shown {
            stage: if clustered {
                "EXPRESS_CLUSTERED_IXSCAN"
            } else {
                "EXPRESS_IXSCAN"
            },
            own: model::doc! { "keyPattern": "{ _id: 1 }", "indexName": "_id_" },
            figures: Figures {
                returned: m.matched,
                works: 1,
                ms: m.ms,
            },
            counted: model::doc! { "keysExamined": count(docs), "docsExamined": count(docs), "projectionCovered": false },
            ..Shown::default()
        },
        Access::Ids { reverse, .. } | Access::IdRange { reverse, .. } if clustered => Shown {
            stage: "CLUSTERED_IXSCAN",
            filter: whole(),
            own: model::doc! { "direction": direction(*reverse) },
            figures: figures(m.matched, docs, m.ms),
            counted: model::doc! { "docsExamined": count(docs) },
            inputs: Vec::new(),
        },
        Access::Ids { reverse, .. } | Access::IdRange { reverse, .. } => {
            let backwards = *reverse;
            let own = DocBuf::build(|w| {
                w.put("keyPattern", &model::doc! { "_id": 1i32 })
                    .put("indexName", "_id_")
                    .put("isMultiKey", false);
                w.doc("multiKeyPaths").array("_id");
                w.put("isUnique", true)
                    .put("isSparse", false)
                    .put("isPartial", false)
                    .put("indexVersion", 2i32);
                w.put("direction", direction(backwards));
                let mut b = w.doc("indexBounds");
                let mut list = b.array("_id");
                for t in plan.bounds.first().map_or_else(
                    || bounds::texts(&Default::default(), backwards),
                    |b| bounds::texts(b, backwards),
                ) {
                    list.push(t.as_str());
                }
            });
            let scan = Shown {
                stage: "IXSCAN",
                own,
                figures: figures(docs, docs, m.ms),
                counted: model::doc! { "keysExamined": count(docs), "seeks": 1i32, "dupsTested": 0i32, "dupsDropped": 0i32 },
                ..Shown::default()
            };
            let exact = plan.bounds.first().is_some_and(|b| b.exact);
            fetch(
                scan,
                spec.and_then(|s| filter::residual(s.doc(), &|p| exact && p == "_id")),
                m,
            )
        }
        Access::Index { .. } => {
            let scan = index_scan(plan, m.walked.keys, m);
            fetch(scan, residual_of(plan, spec), m)
        }
        Access::Text { terms } => text_match(plan, terms.len(), f, m),
        Access::Union {
            branches, merge, ..
        } => {
            let scans: Vec<Shown> = branches
                .iter()
                .enumerate()
                .map(|(i, b)| {
                    let walked = m.walked.branches.get(i).cloned().unwrap_or_default();
                    let own = Measured {
                        matched: walked.docs,
                        walked,
                        bytes: 0,
                        ms: m.ms,
                    };
                    match &b.access {
                        Access::Index { .. } => index_scan(b, own.walked.keys, &own),
                        _ => tree(b, None, clustered, &own),
                    }
                })
                .collect();
            let union = Shown {
                stage: if merge.is_some() { "SORT_MERGE" } else { "OR" },
                own: merge
                    .as_ref()
                    .map_or_else(DocBuf::new, |s| model::doc! { "sortPattern": s.spec() }),
                figures: figures(docs, m.walked.keys, m.ms),
                counted: model::doc! { "dupsTested": count(docs), "dupsDropped": 0i32 },
                inputs: scans,
                filter: None,
            };
            fetch(union, if plan.complete { None } else { whole() }, m)
        }
    }
}

fn residual_of(plan: &Plan, spec: Option<&DocBuf>) -> Option<DocBuf> {
    let index = plan.index.as_ref()?;
    let exact = |path: &str| {
        index
            .fields()
            .iter()
            .zip(&plan.bounds)
            .any(|(f, b)| b.exact && f.path.as_str() == path)
    };
    filter::residual(spec?.doc(), &exact)
}

fn fetch(scan: Shown, filter: Option<DocBuf>, m: &Measured) -> Shown {
    Shown {
        stage: "FETCH",
        filter,
        own: DocBuf::new(),
        figures: figures(m.matched, m.walked.docs, m.ms),
        counted: model::doc! { "docsExamined": count(m.walked.docs), "alreadyHasObj": 0i32 },
        inputs: vec![scan],
    }
}

/// What explain says of an index, up to its direction.
fn put_index(w: &mut model::DocWriter<'_>, i: &Index) {
    w.put("keyPattern", i.key_pattern())
        .put("indexName", i.name());
    if let Some(c) = i.collation() {
        w.put("collation", c);
    }
    w.put("isMultiKey", i.is_multikey());
    let bits = i.multikey_bits();
    let mut paths = w.doc("multiKeyPaths");
    for (n, f) in i.fields().iter().enumerate() {
        let mut list = paths.array(f.path.as_str());
        if bits & (1 << n.min(31)) != 0 {
            list.push(f.path.as_str());
        }
    }
    drop(paths);
    w.put("isUnique", i.is_unique())
        .put("isSparse", i.is_sparse())
        .put("isPartial", i.is_partial());
    w.put("indexVersion", 2i32);
}

/// A text search: a scan for each term, documents put together from them, and what entries cannot
/// tell.
fn text_match(plan: &Plan, terms: usize, f: Option<&MatchFilter>, m: &Measured) -> Shown {
    let (Some(index), matcher) = (&plan.index, f.and_then(|f| f.filter.text()?.matcher())) else {
        return Shown::default();
    };
    let docs = m.walked.docs;
    let scan = || Shown {
        stage: "IXSCAN",
        own: DocBuf::build(|w| {
            put_index(w, index);
            w.put("direction", direction(false));
            w.doc("indexBounds");
        }),
        figures: figures(
            if terms == 1 { docs } else { 0 },
            if terms == 1 { m.walked.keys } else { 0 },
            m.ms,
        ),
        counted: model::doc! { "keysExamined": count(if terms == 1 { m.walked.keys } else { 0 }) },
        ..Shown::default()
    };
    let below = Shown {
        stage: if terms == 1 { "FETCH" } else { "TEXT_OR" },
        filter: f.and_then(|f| filter::without_text(f.spec.doc())),
        own: DocBuf::new(),
        figures: figures(docs, m.walked.keys.max(docs), m.ms),
        counted: model::doc! { "docsExamined": count(docs) },
        inputs: (0..terms).map(|_| scan()).collect(),
    };
    let own = DocBuf::build(|w| {
        let mut prefix = w.doc("indexPrefix");
        if let Some(f) = f {
            for field in index.fields().iter().take(plan.bounds.len()) {
                prefix.put(
                    field.path.as_str(),
                    f.filter.equality(&field.path).unwrap_or(model::Value::Null),
                );
            }
        }
        drop(prefix);
        w.put("indexName", index.name());
        let mut parsed = w.doc("parsedTextQuery");
        let query = matcher.as_ref().map(|m| m.query());
        let mut list = |name: &str, items: Vec<&str>| {
            let mut list = parsed.array(name);
            items.into_iter().for_each(|s| {
                list.push(s);
            });
        };
        list(
            "terms",
            query.map_or_else(Vec::new, |q| q.terms.iter().map(String::as_str).collect()),
        );
        list(
            "negatedTerms",
            query.map_or_else(Vec::new, |q| q.negated_terms().collect()),
        );
        list(
            "phrases",
            query.map_or_else(Vec::new, |q| {
                q.phrases().iter().map(String::as_str).collect()
            }),
        );
        list(
            "negatedPhrases",
            query.map_or_else(Vec::new, |q| {
                q.negated_phrases().iter().map(String::as_str).collect()
            }),
        );
        drop(parsed);
        w.put("textIndexVersion", index.spec().field("textIndexVersion"));
    });
    Shown {
        stage: "TEXT_MATCH",
        own,
        figures: figures(m.matched, docs, m.ms),
        counted: model::doc! { "docsRejected": count(docs.saturating_sub(m.matched)) },
        inputs: vec![below],
        filter: None,
    }
}

pub(super) fn index_scan(plan: &Plan, keys: u64, m: &Measured) -> Shown {
    let (
        Some(i),
        Access::Index {
            reverse, intervals, ..
        },
    ) = (&plan.index, &plan.access)
    else {
        return Shown::default();
    };
    let own = DocBuf::build(|w| {
        put_index(w, i);
        w.put("direction", direction(*reverse));
        let mut b = w.doc("indexBounds");
        for (f, fb) in i.fields().iter().zip(&plan.bounds) {
            let backwards = (f.kind == store::FieldKind::Descending) != *reverse;
            let mut list = b.array(f.path.as_str());
            for t in bounds::texts(fb, backwards) {
                list.push(t.as_str());
            }
        }
    });
    let dups = if i.is_multikey() { keys } else { 0 };
    let counted = model::doc! {
        "keysExamined": count(keys), "seeks": count(intervals.len() as u64), "dupsTested": count(dups),
        "dupsDropped": count(keys.saturating_sub(m.walked.docs).min(dups))
    };
    Shown {
        stage: "IXSCAN",
        own,
        figures: figures(m.walked.docs, keys, m.ms),
        counted,
        ..Shown::default()
    }
}

/// A leap over an index from value to value, a document read for each.
pub(super) fn distinct_scan(plan: &Plan, m: &Measured) -> Shown {
    let mut scan = index_scan(plan, m.walked.keys, m);
    scan.stage = "DISTINCT_SCAN";
    scan.own
        .put("isShardFiltering", false)
        .put("isFetching", true)
        .put("isShardFilteringDistinctScanEnabled", false);
    scan.counted =
        model::doc! { "keysExamined": count(m.walked.keys), "docsExamined": count(m.walked.docs) };
    scan
}

/// Runs such a leap, counting.
///
/// # Errors
/// Those of the store.
pub fn measure_distinct(coll: &Arc<Collection>, plan: &Plan, env: &Env) -> Result<Measured> {
    let mut m = Measured::default();
    let Some(mut walk) = DistinctWalk::open(coll.clone(), plan) else {
        return Ok(m);
    };
    while walk.next(env, &mut |_| Ok(true))? {
        m.matched += 1;
    }
    m.walked = Walked {
        keys: walk.keys_examined(),
        docs: walk.docs,
        branches: Vec::new(),
    };
    Ok(m)
}

/// A count over an index alone.
pub(super) fn count_scan(plan: &Plan, m: &Measured) -> Shown {
    let mut scan = index_scan(plan, m.walked.keys, m);
    scan.stage = "COUNT_SCAN";
    scan.counted = model::doc! { "keysExamined": count(m.walked.keys) };
    scan
}

pub(super) fn direction(reverse: bool) -> &'static str {
    if reverse { "backward" } else { "forward" }
}
