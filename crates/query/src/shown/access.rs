//! The lower part of a plan: how documents are reached.

use super::{PlanNode, ReadCounts, StageStats, bounds, count, filter};
use crate::exec::{MatchFilter, SortPattern};
use crate::plan::{Access, FieldBounds, NearMethod, Plan};
use model::{DocBuf, FieldPath};
use store::Index;

/// The stats of a stage that gave `returned` of `looked_at` documents or entries.
fn stats(returned: u64, looked_at: u64, m: &ReadCounts) -> StageStats {
    StageStats {
        saves: m.saves,
        ..StageStats::of(returned, looked_at, m.ended)
    }
}

/// The stages of an access path with its filter. `clustered`: the client asked for a collection in
/// the order of `_id`.
pub(crate) fn read(
    plan: &Plan,
    f: Option<&MatchFilter>,
    clustered: bool,
    m: &ReadCounts,
) -> PlanNode {
    let spec = f.map(|f| &f.spec).filter(|s| !s.doc().is_empty());
    let whole = || spec.map(|s| filter::canonical(s.doc()));
    let docs = m.docs;
    match &plan.access {
        Access::Nothing => PlanNode {
            stage: "EOF",
            own: model::doc! { "type": "predicatesEvalToFalse" },
            stats: stats(0, 0, m),
            ..PlanNode::default()
        },
        Access::Collection { reverse } => PlanNode {
            estimate: None,
            stage: "COLLSCAN",
            filter: whole(),
            own: model::doc! { "direction": direction(*reverse) },
            stats: stats(m.matched, docs, m),
            counted: describe_counts(m),
            inputs: Vec::new(),
        },
        Access::Ids { ids, .. } if ids.len() == 1 && plan.complete => PlanNode {
            stage: if clustered {
                "EXPRESS_CLUSTERED_IXSCAN"
            } else {
                "EXPRESS_IXSCAN"
            },
            own: model::doc! { "keyPattern": "{ _id: 1 }", "indexName": "_id_" },
            stats: StageStats {
                works: 1,
                ..stats(m.matched, docs, m)
            },
            counted: model::doc! { "keysExamined": count(docs), "docsExamined": count(docs),
            "projectionCovered": false },
            ..PlanNode::default()
        },
        Access::Ids { reverse, .. } | Access::IdRange { reverse, .. } if clustered => PlanNode {
            estimate: None,
            stage: "CLUSTERED_IXSCAN",
            filter: whole(),
            own: model::doc! { "direction": direction(*reverse) },
            stats: stats(m.matched, docs, m),
            counted: model::doc! { "docsExamined": count(docs) },
            inputs: Vec::new(),
        },
        Access::Ids { reverse, .. } | Access::IdRange { reverse, .. } => {
            let scan = id_scan(plan, *reverse, m);
            let exact = plan.bounds.first().is_some_and(|b| b.exact);
            fetch(
                scan,
                spec.and_then(|s| filter::residual(s.doc(), &|p| exact && p == "_id")),
                m,
            )
        }
        Access::Index { .. } if plan.covered.is_some() => describe_covered(plan, spec, m),
        Access::Index { .. } => {
            let scan = index_scan(plan, m.keys, m);
            fetch(scan, residual_of(plan, spec), m)
        }
        Access::Near(nearness) => match &nearness.by {
            NearMethod::Rings(rings) => near(rings.index(), &nearness.path, whole(), m),
            NearMethod::Whole(plan) => read(plan, f, clustered, m),
        },
        Access::Text { terms } => text_match(plan, terms.len(), f, m),
        Access::Union {
            branches, merge, ..
        } => {
            let union = union(branches, merge.as_deref(), clustered, m);
            if plan.is_covered() {
                return union;
            }
            fetch(union, if plan.complete { None } else { whole() }, m)
        }
    }
}

/// Rings over a geospatial index.
fn near(index: &Index, path: &FieldPath, filter: Option<DocBuf>, m: &ReadCounts) -> PlanNode {
    let flat = index.key_pattern().field(path.as_str()).as_str() == Some("2d");
    PlanNode {
        estimate: None,
        stage: if flat {
            "GEO_NEAR_2D"
        } else {
            "GEO_NEAR_2DSPHERE"
        },
        filter,
        own: model::doc! { "keyPattern": index.key_pattern(), "indexName": index.name(),
        "indexVersion": 2i32 },
        stats: stats(m.matched, m.keys, m),
        counted: model::doc! { "keysExamined": count(m.keys),
        "docsExamined": count(m.docs) },
        inputs: Vec::new(),
    }
}

/// Documents examined; for a time-series collection also how many buckets were unpacked, and for
/// how many the header was enough.
fn describe_counts(m: &ReadCounts) -> DocBuf {
    DocBuf::build(|w| {
        w.put("docsExamined", count(m.docs));
        if let Some(b) = m.buckets {
            w.put("bucketsUnpacked", count(b.read))
                .put("bucketsPassed", count(b.passed));
        }
    })
}

/// A scan of the `_id` index as MongoDB shows it.
fn id_scan(plan: &Plan, backwards: bool, m: &ReadCounts) -> PlanNode {
    let docs = m.docs;
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
    PlanNode {
        stage: "IXSCAN",
        own,
        stats: stats(docs, docs, m),
        counted: model::doc! { "keysExamined": count(docs), "seeks": 1i32, "dupsTested": 0i32,
        "dupsDropped": 0i32 },
        ..PlanNode::default()
    }
}

/// The scans of a union, one after another or merged.
fn union(
    branches: &[Plan],
    merge: Option<&SortPattern>,
    clustered: bool,
    m: &ReadCounts,
) -> PlanNode {
    // Each row, also where no document was read for it.
    let docs = m.docs.max(m.matched);
    let scans: Vec<PlanNode> = branches
        .iter()
        .enumerate()
        .map(|(i, b)| {
            let own = m.branches.get(i).cloned().unwrap_or_default();
            // Rows, also where no document was read for them.
            let rows = ReadCounts {
                docs: own.docs.max(own.matched),
                ..own.clone()
            };
            match &b.access {
                Access::Index { .. } => index_scan(b, own.keys, &rows),
                _ => read(b, None, clustered, &own),
            }
        })
        .collect();
    PlanNode {
        estimate: None,
        stage: if merge.is_some() { "SORT_MERGE" } else { "OR" },
        own: merge.map_or_else(DocBuf::new, |s| model::doc! { "sortPattern": s.spec() }),
        stats: stats(docs, m.keys, m),
        counted: model::doc! { "dupsTested": count(docs), "dupsDropped": 0i32 },
        inputs: scans,
        filter: None,
    }
}

fn residual_of(plan: &Plan, spec: Option<&DocBuf>) -> Option<DocBuf> {
    let index = plan.index.as_ref()?;
    let fields = shown_fields(plan, index);
    let exact = |path: &str| {
        let of_path = |(name, _, _, b): &(&str, _, _, Option<&FieldBounds>)| {
            *name == path && b.is_some_and(|b| b.exact)
        };
        fields.iter().any(of_path)
    };
    filter::residual(spec?.doc(), &exact)
}

/// The scan of an index whose entries have all fields the query uses.
fn describe_covered(plan: &Plan, spec: Option<&DocBuf>, m: &ReadCounts) -> PlanNode {
    PlanNode {
        filter: spec
            .filter(|_| !plan.complete)
            .and_then(|s| residual_of(plan, Some(s))),
        stats: stats(m.matched, m.keys, m),
        ..index_scan(plan, m.keys, m)
    }
}

fn fetch(scan: PlanNode, filter: Option<DocBuf>, m: &ReadCounts) -> PlanNode {
    PlanNode {
        estimate: None,
        stage: "FETCH",
        filter,
        own: DocBuf::new(),
        stats: stats(m.matched, m.docs, m),
        counted: DocBuf::build(|w| {
            _ = w
                .put_all(describe_counts(m).doc())
                .put("alreadyHasObj", 0i32)
        }),
        inputs: vec![scan],
    }
}

/// The name of the path's component in keys of wildcard indexes.
const PATH: &str = "$_path";

/// The fields of a plan's index as explain shows them, with the bounds of each. A wildcard is shown
/// as a field for the path and the path itself.
fn shown_fields<'p>(
    plan: &'p Plan,
    i: &'p Index,
) -> Vec<(&'p str, store::FieldKind, bool, Option<&'p FieldBounds>)> {
    let bits = match plan.wildcard {
        Some(_) => plan.multikey,
        None => i.multikey_bits(),
    };
    let mut bounds = plan.bounds.iter();
    let mut out = Vec::new();
    for (n, f) in i.fields().iter().enumerate() {
        let wildcard = plan.wildcard.as_ref();
        let wildcard = wildcard.filter(|_| i.wildcard().is_some_and(|w| w.at == n));
        if let Some(w) = wildcard {
            out.push((PATH, store::FieldKind::Ascending, false, bounds.next()));
            let name = w.path.as_deref().unwrap_or(f.path.as_str());
            out.push((name, f.kind, w.multikey, bounds.next()));
        } else {
            let multikey = bits & (1 << n.min(31)) != 0;
            out.push((f.path.as_str(), f.kind, multikey, bounds.next()));
        }
    }
    out
}

/// What explain shows of an index, up to its direction.
fn put_index(w: &mut model::DocWriter<'_>, plan: &Plan, i: &Index) {
    let fields = shown_fields(plan, i);
    match &plan.wildcard {
        None => _ = w.put("keyPattern", i.key_pattern()),
        Some(_) => {
            let mut pattern = w.doc("keyPattern");
            for (name, kind, ..) in &fields {
                let ascending = *kind != store::FieldKind::Descending;
                pattern.put(name, if ascending { 1i32 } else { -1i32 });
            }
        }
    }
    w.put("indexName", i.name());
    if let Some(c) = i.collation() {
        w.put("collation", c);
    }
    w.put("isMultiKey", is_multikey(plan, i));
    let mut paths = w.doc("multiKeyPaths");
    for (name, _, multikey, _) in &fields {
        let mut list = paths.array(name);
        if *multikey {
            list.push(*name);
        }
    }
    drop(paths);
    w.put("isUnique", i.is_unique())
        .put("isSparse", i.is_sparse())
        .put("isPartial", i.is_partial());
    w.put("indexVersion", 2i32);
}

/// Whether some document has several entries in the part of the index that the plan reads.
fn is_multikey(plan: &Plan, i: &Index) -> bool {
    match &plan.wildcard {
        Some(_) => shown_fields(plan, i).iter().any(|(_, _, m, _)| *m),
        None => i.is_multikey(),
    }
}

/// A text search: a scan for each term, the documents that these give together, and a filter for
/// what entries cannot decide.
fn text_match(plan: &Plan, terms: usize, f: Option<&MatchFilter>, m: &ReadCounts) -> PlanNode {
    let (Some(index), matcher) = (&plan.index, f.and_then(|f| f.filter.text()?.matcher())) else {
        return PlanNode::default();
    };
    let docs = m.docs;
    let scan = || PlanNode {
        stage: "IXSCAN",
        own: DocBuf::build(|w| {
            put_index(w, plan, index);
            w.put("direction", direction(false));
            w.doc("indexBounds");
        }),
        stats: stats(
            if terms == 1 { docs } else { 0 },
            if terms == 1 { m.keys } else { 0 },
            m,
        ),
        counted: model::doc! { "keysExamined": count(if terms == 1 { m.keys } else { 0 }) },
        ..PlanNode::default()
    };
    let below = PlanNode {
        stage: if terms == 1 { "FETCH" } else { "TEXT_OR" },
        filter: f.and_then(|f| filter::remove_text(f.spec.doc())),
        stats: stats(docs, m.keys.max(docs), m),
        counted: model::doc! { "docsExamined": count(docs) },
        inputs: (0..terms).map(|_| scan()).collect(),
        ..PlanNode::default()
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
    PlanNode {
        stage: "TEXT_MATCH",
        own,
        stats: stats(m.matched, docs, m),
        counted: model::doc! { "docsRejected": count(docs.saturating_sub(m.matched)) },
        inputs: vec![below],
        ..PlanNode::default()
    }
}

fn index_scan(plan: &Plan, keys: u64, m: &ReadCounts) -> PlanNode {
    let (
        Some(i),
        Access::Index {
            reverse, intervals, ..
        },
    ) = (&plan.index, &plan.access)
    else {
        return PlanNode::default();
    };
    let own = DocBuf::build(|w| {
        put_index(w, plan, i);
        w.put("direction", direction(*reverse));
        let mut b = w.doc("indexBounds");
        for (name, kind, _, bounds) in shown_fields(plan, i) {
            let backwards = (kind == store::FieldKind::Descending) != *reverse;
            let mut list = b.array(name);
            for t in bounds.map_or_else(Vec::new, |b| bounds::texts(b, backwards)) {
                list.push(t.as_str());
            }
        }
    });
    let dups = if is_multikey(plan, i) { keys } else { 0 };
    let counted = model::doc! {
        "keysExamined": count(keys), "seeks": count(intervals.len() as u64),
            "dupsTested": count(dups),
        "dupsDropped": count(keys.saturating_sub(m.docs).min(dups))
    };
    PlanNode {
        stage: "IXSCAN",
        own,
        stats: stats(m.docs, keys, m),
        counted,
        ..PlanNode::default()
    }
}

/// A loose index scan; it reads a document for each value unless the index entry is enough.
pub(crate) fn distinct_scan(plan: &Plan, m: &ReadCounts) -> PlanNode {
    let mut scan = index_scan(plan, m.keys, m);
    scan.stage = "DISTINCT_SCAN";
    scan.stats = stats(m.docs.max(m.matched), m.keys, m);
    scan.own
        .put("isShardFiltering", false)
        .put("isFetching", plan.covered.is_none())
        .put("isShardFilteringDistinctScanEnabled", false);
    scan.counted = model::doc! { "keysExamined": count(m.keys),
    "docsExamined": count(m.docs) };
    scan
}

/// A count over an index alone.
pub(crate) fn count_scan(plan: &Plan, m: &ReadCounts) -> PlanNode {
    let mut scan = index_scan(plan, m.keys, m);
    scan.stage = "COUNT_SCAN";
    scan.stats = stats(m.matched, m.keys, m);
    scan.counted = model::doc! { "keysExamined": count(m.keys) };
    scan
}

fn direction(reverse: bool) -> &'static str {
    if reverse { "backward" } else { "forward" }
}
