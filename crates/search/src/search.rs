//! `$search` and `$searchMeta`: checks and runs the specification. Must not know: stages,
//! collections.

use crate::args::Args;
use crate::error::invalid;
use crate::facet::{self, Facet};
use crate::highlight::Highlight;
use crate::hits::{Check, Hits, each_match, weight_of};
use crate::index::{Index, View};
use crate::operator::{self, Build};
use crate::order::{Order, SortedHit, place_of};
use crate::synonyms::{self, Sources};
use model::{Doc, DocBuf, Result, Value};
use std::cmp::Ordering;
use tantivy::query::Query;

/// The default name of an index.
const DEFAULT_INDEX: &str = "default";
/// Default threshold of lower-bound counts.
const THRESHOLD: i64 = 1000;

const META_OPTIONS: &[&str] = &["index", "concurrent", "tracking", "count"];
const OPTIONS: &[&str] = &[
    "index",
    "concurrent",
    "tracking",
    "count",
    "highlight",
    "sort",
    "searchAfter",
    "searchBefore",
    "scoreDetails",
    "returnStoredSource",
];

/// A specification of `$search` or `$searchMeta`.
#[derive(Clone, Debug)]
pub struct Search {
    index: String,
    /// `{operator: {...}}`; empty for all documents.
    operator: DocBuf,
    count: Count,
    facets: Vec<Facet>,
    shown: OutputOptions,
    synonyms: Sources,
}

/// Which documents and fields are returned, and what is returned with them.
#[derive(Clone, Debug, Default)]
struct OutputOptions {
    highlight: Option<Highlight>,
    sort: Order,
    after: Option<String>,
    before: Option<String>,
    details: bool,
    stored: bool,
}

/// How `$searchMeta` counts.
#[derive(Clone, Copy, Debug)]
enum Count {
    /// Exact up to the threshold; above it, the threshold plus one.
    LowerBound(i64),
    Total,
}

impl Search {
    /// Reads the specification of `stage`.
    ///
    /// # Errors
    /// 8 UnknownError: none or several operators, unknown options.
    pub fn parse(stage: &str, spec: Doc<'_>) -> Result<Search> {
        let args = Args {
            path: stage.to_owned(),
            doc: spec,
        };
        let is_meta = stage == "$searchMeta";
        let options = if is_meta { META_OPTIONS } else { OPTIONS };
        // Options for parallel execution and analytics do not change the answer.
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
        let mut search = Search {
            index: args.string("index")?.unwrap_or(DEFAULT_INDEX).to_owned(),
            operator,
            count: match args.get("count") {
                None => Count::LowerBound(THRESHOLD),
                Some(v) => parse_count(v)?,
            },
            facets: Vec::new(),
            shown: match is_meta {
                true => OutputOptions::default(),
                false => OutputOptions::parse(&args)?,
            },
            synonyms: Sources::new(),
        };
        search.check_operator(stage, options)?;
        if let Some(("facet", v)) = search.operator.doc().first() {
            let (facets, operator) = facet::parse(v)?;
            (search.facets, search.operator) = (facets, operator);
        }
        Ok(search)
    }

    /// Checks that there is one operator, or facets, and no field that is neither an operator nor
    /// an option.
    fn check_operator(&self, stage: &str, options: &[&str]) -> Result<()> {
        let given = self.operator.doc();
        let known = |name: &str| name == "facet" || operator::is_operator(name);
        if let Some((name, _)) = given.iter().find(|(name, _)| !known(name)) {
            return Err(invalid(format!(
                "{stage}: \"{name}\" is neither a known operator nor an option; operators are {}, \
                 collectors facet, options {}",
                operator::names().join(", "),
                options.join(", ")
            )));
        }
        if given.count() != 1 {
            return Err(invalid(format!(
                "{stage} must have exactly one operator, one of {}, or facet, not {}",
                operator::names().join(", "),
                given.count()
            )));
        }
        Ok(())
    }

    /// Name of the index.
    pub fn index(&self) -> &str {
        &self.index
    }

    /// True when only stored-source fields are returned.
    pub fn returns_stored(&self) -> bool {
        self.shown.stored
    }

    /// Names of collections whose documents must be passed to [`Search::give_synonyms`].
    pub fn synonym_collections(&self, index: &Index) -> Vec<String> {
        let mut names = Vec::new();
        synonyms::names_in(self.operator.doc(), &mut names);
        let mappings = index.definition().synonyms.iter();
        let wanted = mappings.filter(|m| names.contains(&m.name));
        wanted.map(|m| m.collection.clone()).collect()
    }

    /// Sets the documents of a synonym collection.
    pub fn give_synonyms(&mut self, collection: String, docs: Vec<DocBuf>) {
        self.synonyms.insert(collection, docs);
    }

    /// Runs the search and returns its results.
    ///
    /// # Errors
    /// 8 UnknownError for arguments of operators; the errors of `check`.
    pub fn run(&self, index: &Index, check: &mut Check<'_>) -> Result<Hits> {
        if self.shown.stored && index.definition().stored_source(Doc::EMPTY).is_none() {
            return Err(invalid(format!(
                "\"returnStoredSource\": the index {} has no storedSource",
                self.index
            )));
        }
        let (view, shown) = (index.view(), &self.shown);
        let build = operator::begin(index, &view).with_synonyms(&self.synonyms);
        let query = self.query(&build)?;
        let mut hits = Hits::new(index, view.clone());
        if let Some(highlight) = &shown.highlight {
            hits.highlighter = Some(highlight.begin(&build)?);
        }
        let weight = weight_of(&view, query.as_ref())?;
        let mut found = facet::empty_sets(&view);
        let faceted = !self.facets.is_empty();
        let mut n = 0i64;
        each_match(&view, weight.as_ref(), check, &mut |hit| {
            if let Some(docs) = found.get_mut(hit.segment as usize).filter(|_| faceted) {
                docs.insert(hit.doc);
            }
            n += 1;
            hits.push(hit);
            true
        })?;
        hits.meta = self.describe_facets(index, &view, self.limit_count(n), &found)?;
        self.arrange(index, &view, &mut hits)?;
        hits.explains = shown.details.then_some(weight);
        Ok(hits)
    }

    /// Sorts the results as requested.
    fn arrange(&self, index: &Index, view: &View, hits: &mut Hits) -> Result<()> {
        let shown = &self.shown;
        shown.sort.check(index)?;
        let place = |token: &Option<String>| {
            let token = token.as_deref();
            token
                .map(|t| place_of(t, &shown.sort, index, view))
                .transpose()
        };
        let (after, before) = (place(&shown.after)?, place(&shown.before)?);
        if shown.sort.is_by_score() && after.is_none() && before.is_none() {
            return Ok(());
        }
        let wanted = |order: &Order, found: &SortedHit| {
            let than = |place: &Option<SortedHit>, wanted: Ordering| {
                let place = place.as_ref();
                place.is_none_or(|p| order.compare(found, p) == wanted)
            };
            than(&after, Ordering::Greater) && than(&before, Ordering::Less)
        };
        hits.sort(shown.sort.clone(), &wanted, before.is_some())
    }

    fn query(&self, build: &Build<'_>) -> Result<Box<dyn Query>> {
        match self.operator.doc().is_empty() {
            true => Ok(build.all_documents()),
            false => operator::build(build, "", self.operator.doc(), 0),
        }
    }

    /// The document of `$searchMeta`.
    ///
    /// # Errors
    /// The errors of [`Search::run`].
    pub fn count(&self, index: &Index, check: &mut Check<'_>) -> Result<DocBuf> {
        let view = index.view();
        let query = self.query(&operator::begin(index, &view).with_synonyms(&self.synonyms))?;
        let weight = weight_of(&view, query.as_ref())?;
        let mut found = facet::empty_sets(&view);
        let (mut n, faceted) = (0i64, !self.facets.is_empty());
        let most = match self.count {
            // Facets count all documents.
            Count::LowerBound(threshold) if !faceted => threshold.saturating_add(1),
            _ => i64::MAX,
        };
        each_match(&view, weight.as_ref(), check, &mut |hit| {
            n += 1;
            if let Some(docs) = found.get_mut(hit.segment as usize).filter(|_| faceted) {
                docs.insert(hit.doc);
            }
            n < most
        })?;
        self.describe_facets(index, &view, n, &found)
    }

    /// The count with the threshold applied, if there are no facets.
    fn limit_count(&self, n: i64) -> i64 {
        match self.count {
            Count::LowerBound(threshold) if self.facets.is_empty() => {
                n.min(threshold.saturating_add(1))
            }
            _ => n,
        }
    }

    fn describe_facets(
        &self,
        index: &Index,
        view: &View,
        n: i64,
        found: &facet::DocumentSets,
    ) -> Result<DocBuf> {
        let mut counted = self.count_document(n);
        if !self.facets.is_empty() {
            let buckets = self
                .facets
                .iter()
                .map(|f| Ok((f.name(), f.buckets(index, view, found)?)));
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

    /// The document of `$searchMeta` for a count of documents.
    pub fn count_document(&self, n: i64) -> DocBuf {
        DocBuf::build(|w| {
            let mut count = w.doc("count");
            match self.count {
                Count::Total => count.put("total", n),
                Count::LowerBound(_) => count.put("lowerBound", n),
            };
        })
    }
}

impl OutputOptions {
    fn parse(args: &Args<'_>) -> Result<OutputOptions> {
        let text = |field: &str| Ok(args.string(field)?.map(str::to_owned));
        let (after, before) = (text("searchAfter")?, text("searchBefore")?);
        if after.is_some() && before.is_some() {
            return Err(invalid(
                "searchAfter and searchBefore cannot be used together",
            ));
        }
        Ok(OutputOptions {
            highlight: args.get("highlight").map(Highlight::parse).transpose()?,
            sort: args
                .get("sort")
                .map(Order::parse)
                .transpose()?
                .unwrap_or_default(),
            after,
            before,
            details: args.boolean("scoreDetails")?.unwrap_or(false),
            stored: args.boolean("returnStoredSource")?.unwrap_or(false),
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
