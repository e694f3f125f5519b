//! `$search` and `$searchMeta`: the specification checked and run. Must not know: stages,
//! collections.

use crate::args::Args;
use crate::error::invalid;
use crate::facet::{self, Facet};
use crate::hits::{Check, Hits, each_match};
use crate::index::Index;
use crate::operator;
use model::{Doc, DocBuf, Result, Value};
use tantivy::query::{AllQuery, Query};

/// The index that is meant where none is named.
const DEFAULT_INDEX: &str = "default";
/// Where a lower bound stops counting.
const THRESHOLD: i64 = 1000;

/// A specification of `$search` or `$searchMeta`.
#[derive(Clone, Debug)]
pub struct Search {
    index: String,
    /// `{operator: {...}}`; empty for all documents.
    operator: DocBuf,
    count: Count,
    facets: Vec<Facet>,
}

/// How `$searchMeta` counts.
#[derive(Clone, Copy, Debug)]
enum Count {
    /// Exact up to the threshold; past it, one more than that.
    LowerBound(i64),
    Total,
}

impl Search {
    /// Reads the specification of `stage`.
    ///
    /// # Errors
    /// 8 UnknownError: none or several operators, options that are not known.
    pub fn parse(stage: &str, spec: Doc<'_>) -> Result<Search> {
        let args = Args {
            path: stage.to_owned(),
            doc: spec,
        };
        let is_meta = stage == "$searchMeta";
        // Where the reference works in parallel or reports terms for analytics is not seen in the
        // answer.
        let options: &[&str] = match is_meta {
            true => &["index", "concurrent", "tracking", "count"],
            false => &["index", "concurrent", "tracking"],
        };
        args.boolean("concurrent")?;
        if let Some(v) = args.get("tracking") {
            let tracking = Args::new("tracking", v, &["searchTerms"])?;
            tracking.string("searchTerms")?;
        }
        let named = spec
            .iter()
            .filter(|(name, v)| !options.contains(name) && !v.is_nullish());
        let operator = DocBuf::build(|w| {
            named.for_each(|(name, v)| _ = w.put(name, v));
        });
        let count = match args.get("count").filter(|_| is_meta) {
            None => Count::LowerBound(THRESHOLD),
            Some(v) => parse_count(v)?,
        };
        if is_meta
            && let Some(("facet", v)) = operator.doc().first()
            && operator.doc().count() == 1
        {
            let (facets, operator) = facet::parse(v)?;
            return Ok(Search {
                index: args.string("index")?.unwrap_or(DEFAULT_INDEX).to_owned(),
                operator,
                count,
                facets,
            });
        }
        let first = operator.doc().first().map(|(name, _)| name.to_owned());
        match (first.as_deref(), operator.doc().count()) {
            (Some(name), 1) if operator::is_operator(name) => {}
            (Some(name), _) if !operator::is_operator(name) => {
                return Err(invalid(format!(
                    "{stage}: \"{name}\" is neither a known operator nor an option; operators are \
                     {}, options {}",
                    operator::names().join(", "),
                    options.join(", ")
                )));
            }
            _ => {
                return Err(invalid(format!(
                    "{stage} must have exactly one operator, one of {}",
                    operator::names().join(", ")
                )));
            }
        }
        Ok(Search {
            index: args.string("index")?.unwrap_or(DEFAULT_INDEX).to_owned(),
            operator,
            count,
            facets: Vec::new(),
        })
    }

    /// Name of the index.
    pub fn index(&self) -> &str {
        &self.index
    }

    /// The documents found.
    ///
    /// # Errors
    /// 8 UnknownError for arguments of operators; those of `check`.
    pub fn run(&self, index: &Index, check: &mut Check<'_>) -> Result<Hits> {
        let view = index.view();
        let query = {
            let build = operator::begin(index, &view);
            operator::build(&build, "", self.operator.doc(), 0)?
        };
        let mut hits = Hits::new(index, view.clone());
        each_match(&view, query.as_ref(), check, &mut |segment, doc, score| {
            hits.push(score, segment, doc);
            true
        })?;
        Ok(hits)
    }

    /// The document of `$searchMeta`.
    ///
    /// # Errors
    /// As [`Search::run`].
    pub fn count(&self, index: &Index, check: &mut Check<'_>) -> Result<DocBuf> {
        let view = index.view();
        let query: Box<dyn Query> = {
            let build = operator::begin(index, &view);
            match self.operator.doc().is_empty() {
                true => Box::new(AllQuery),
                false => operator::build(&build, "", self.operator.doc(), 0)?,
            }
        };
        let mut found = facet::nothing_found(&view);
        let (mut n, faceted) = (0i64, !self.facets.is_empty());
        let most = match self.count {
            // Facets are of all documents.
            Count::LowerBound(threshold) if !faceted => threshold.saturating_add(1),
            _ => i64::MAX,
        };
        each_match(&view, query.as_ref(), check, &mut |segment, doc, _| {
            n += 1;
            if let Some(docs) = found.get_mut(segment as usize).filter(|_| faceted) {
                docs.insert(doc);
            }
            n < most
        })?;
        let mut counted = self.counted(n);
        if faceted {
            let buckets = self
                .facets
                .iter()
                .map(|f| Ok((f.name(), f.buckets(index, &view, &found)?)));
            let buckets = buckets.collect::<Result<Vec<_>>>()?;
            counted.append(|w| {
                let mut all = w.doc("facet");
                for (name, buckets) in &buckets {
                    let mut facet = all.doc(name);
                    let mut list = facet.array("buckets");
                    buckets.iter().for_each(|b| _ = list.push(b));
                }
            });
        }
        Ok(counted)
    }

    /// The document of `$searchMeta` for so many documents.
    pub fn counted(&self, n: i64) -> DocBuf {
        DocBuf::build(|w| {
            let mut count = w.doc("count");
            match self.count {
                Count::Total => count.put("total", n),
                Count::LowerBound(_) => count.put("lowerBound", n),
            };
        })
    }
}

fn parse_count(v: Value<'_>) -> Result<Count> {
    let args = Args::new("count", v, &["type", "threshold"])?;
    let threshold = args.integer("threshold", 1, i64::from(i32::MAX))?;
    Ok(match args.word("type", &["lowerBound", "total"])? {
        Some("total") => Count::Total,
        _ => Count::LowerBound(threshold.unwrap_or(THRESHOLD)),
    })
}
