//! `facet` of `$searchMeta`: counts of the found documents by value. Must not know: stages.

use crate::args::Args;
use crate::definition::FieldKind;
use crate::error::{index_error, invalid};
use crate::index::{Index, View, is_alive};
use crate::matching::{Terms, TokenTest};
use crate::schema::{ColumnKind, TermKind};
use model::{DocBuf, Result, Value};
use std::collections::BTreeMap;
use tantivy::columnar::DynamicColumn;
use tantivy::schema::IndexRecordOption;
use tantivy::{BitSet, DocSet, SegmentReader, TERMINATED};

/// Default number of buckets of a string facet.
const BUCKETS: i64 = 10;
/// Most buckets and boundaries.
const BUCKETS_MAX: i64 = 1000;

/// Found documents, by segment.
pub(crate) type DocumentSets = Vec<BitSet>;

/// One facet.
#[derive(Clone, Debug)]
pub(crate) struct Facet {
    name: String,
    path: String,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Strings {
        buckets: usize,
    },
    /// Numbers or dates, by boundaries.
    Between {
        column: ColumnKind,
        boundaries: Vec<f64>,
        /// `{v: [...]}`: the original boundaries.
        shown: DocBuf,
        default: Option<String>,
    },
}

/// Parses `facets: {name: {type, path, ...}}`.
pub(crate) fn parse_facets(args: &Args<'_>) -> Result<Vec<Facet>> {
    let v = args.required("facets")?;
    let Value::Document(facets) = v else {
        return Err(args.wrong_type("facets", "a document", v));
    };
    if facets.is_empty() {
        return Err(invalid(format!(
            "\"{}\" cannot be empty",
            args.name("facets")
        )));
    }
    let one = |(name, v): (&str, Value<'_>)| {
        let path = format!("{}.{name}", args.name("facets"));
        let allowed = ["type", "path", "numBuckets", "boundaries", "default"];
        let facet = Args::new(&path, v, &allowed)?;
        facet.required("type")?;
        let field = facet.as_string("path", facet.required("path")?)?;
        let kind = match facet.word("type", &["string", "number", "date"])? {
            Some("string") => {
                Args::new(&path, v, &["type", "path", "numBuckets"])?;
                let n = facet.integer("numBuckets", 1, BUCKETS_MAX)?;
                Kind::Strings {
                    buckets: usize::try_from(n.unwrap_or(BUCKETS)).unwrap_or(1),
                }
            }
            Some("number") => parse_boundaries(&facet, v, ColumnKind::Number)?,
            _ => parse_boundaries(&facet, v, ColumnKind::Date)?,
        };
        Ok(Facet {
            name: name.to_owned(),
            path: field.to_owned(),
            kind,
        })
    };
    facets.iter().map(one).collect()
}

fn parse_boundaries(facet: &Args<'_>, v: Value<'_>, column: ColumnKind) -> Result<Kind> {
    Args::new(&facet.path, v, &["type", "path", "boundaries", "default"])?;
    let v = facet.required("boundaries")?;
    let Value::Array(list) = v else {
        return Err(facet.wrong_type("boundaries", "an array", v));
    };
    let read = |v: Value<'_>| match (column, v) {
        (ColumnKind::Date, Value::Date(ms)) => Ok(ms as f64),
        (ColumnKind::Number, v) if v.is_number() => Ok(v.as_f64().unwrap_or(f64::NAN)),
        (ColumnKind::Date, v) => Err(facet.wrong_type("boundaries", "an array of dates", v)),
        (_, v) => Err(facet.wrong_type("boundaries", "an array of numbers", v)),
    };
    let boundaries = list.iter().map(read).collect::<Result<Vec<f64>>>()?;
    let rising = boundaries.windows(2).all(|w| w.first() < w.last());
    let most = usize::try_from(BUCKETS_MAX).unwrap_or(usize::MAX);
    if boundaries.len() < 2 || boundaries.len() > most || !rising {
        return Err(invalid(format!(
            "\"{}\" must be 2 to {BUCKETS_MAX} values that rise",
            facet.name("boundaries")
        )));
    }
    Ok(Kind::Between {
        column,
        boundaries,
        shown: DocBuf::build(|w| _ = w.put("v", Value::Array(list))),
        default: facet.string("default")?.map(str::to_owned),
    })
}

impl Facet {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The buckets: `{_id, count}`.
    ///
    /// # Errors
    /// 8 UnknownError for a path that is not indexed for facets.
    pub(crate) fn buckets(
        &self,
        index: &Index,
        view: &View,
        found: &DocumentSets,
    ) -> Result<Vec<DocBuf>> {
        let kinds = index.definition().kinds_at(&self.path);
        let fits = kinds.iter().any(|k| match (&self.kind, k) {
            (Kind::Strings { .. }, FieldKind::Token { .. }) => true,
            (Kind::Between { column, .. }, FieldKind::Number(_)) => *column == ColumnKind::Number,
            (Kind::Between { column, .. }, FieldKind::Date) => *column == ColumnKind::Date,
            _ => false,
        });
        if !fits {
            return Err(invalid(format!(
                "Cannot facet on field \"{}\" because it was not indexed as token, number or date",
                self.path
            )));
        }
        match &self.kind {
            Kind::Strings { buckets } => self.strings(index, view, found, *buckets),
            Kind::Between {
                column,
                boundaries,
                shown,
                default,
            } => {
                let (counts, others) = self.count_between(view, found, *column, boundaries)?;
                let bucket = |id: Value<'_>, n: i64| model::doc! { "_id": id, "count": n };
                let shown = shown
                    .doc()
                    .field("v")
                    .as_array()
                    .unwrap_or(model::Array::EMPTY);
                let mut all: Vec<DocBuf> = shown
                    .iter()
                    .zip(&counts)
                    .map(|(id, n)| bucket(id, *n))
                    .collect();
                let other = default.as_deref().filter(|_| others > 0);
                all.extend(other.map(|name| bucket(Value::String(name), others)));
                Ok(all)
            }
        }
    }

    fn strings(
        &self,
        index: &Index,
        view: &View,
        found: &DocumentSets,
        most: usize,
    ) -> Result<Vec<DocBuf>> {
        let terms = Terms {
            field: index.fields().terms,
            prefix: TermKind::Token.prefix(&self.path),
            test: TokenTest::All,
            score: 1.0,
        };
        let mut counts: BTreeMap<String, i64> = BTreeMap::new();
        for (segment, docs) in view.searcher.segment_readers().iter().zip(found) {
            let count = count_terms(segment, &terms, docs, &mut counts);
            count.map_err(|e| index_error("facets", &e))?;
        }
        let mut all: Vec<(String, i64)> = counts.into_iter().filter(|(_, n)| *n > 0).collect();
        all.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        all.truncate(most);
        let bucket = |(id, n): &(String, i64)| model::doc! { "_id": id.as_str(), "count": *n };
        Ok(all.iter().map(bucket).collect())
    }

    /// Counts documents with a value between two boundaries, and documents with a value outside of
    /// all.
    fn count_between(
        &self,
        view: &View,
        found: &DocumentSets,
        column: ColumnKind,
        boundaries: &[f64],
    ) -> Result<(Vec<i64>, i64)> {
        let mut counts = vec![0i64; boundaries.len().saturating_sub(1)];
        let mut others = 0;
        for (segment, docs) in view.searcher.segment_readers().iter().zip(found) {
            each_value(segment, &column.name(&self.path), docs, &mut |values| {
                let mut hit = vec![false; counts.len()];
                let mut elsewhere = false;
                for v in values {
                    let at = boundaries.partition_point(|b| b <= v);
                    match at.checked_sub(1).and_then(|at| hit.get_mut(at)) {
                        Some(slot) => *slot = true,
                        None => elsewhere = true,
                    }
                }
                for (n, hit) in counts.iter_mut().zip(hit) {
                    *n += i64::from(hit);
                }
                others += i64::from(elsewhere);
            })
            .map_err(|e| index_error("facets", &e))?;
        }
        Ok((counts, others))
    }
}

fn count_terms(
    segment: &SegmentReader,
    terms: &Terms,
    docs: &BitSet,
    counts: &mut BTreeMap<String, i64>,
) -> tantivy::Result<()> {
    let index = segment.inverted_index(terms.field)?;
    terms.visit_terms(segment, &mut |token, info| {
        let mut postings = index.read_postings_from_terminfo(info, IndexRecordOption::Basic)?;
        let slot = counts.entry(token.to_owned()).or_default();
        let mut doc = postings.doc();
        while doc != TERMINATED {
            *slot += i64::from(docs.contains(doc));
            doc = postings.advance();
        }
        Ok(())
    })
}

/// Calls a function with the values of each found document.
fn each_value(
    segment: &SegmentReader,
    column: &str,
    docs: &BitSet,
    f: &mut dyn FnMut(&[f64]),
) -> tantivy::Result<()> {
    for handle in segment.fast_fields().dynamic_column_handles(column)? {
        let column = handle.open()?;
        for doc in 0..segment.max_doc() {
            if !docs.contains(doc) || !is_alive(segment, doc) {
                continue;
            }
            let values: Vec<f64> = match &column {
                DynamicColumn::F64(c) => c.values_for_doc(doc).collect(),
                DynamicColumn::I64(c) => c.values_for_doc(doc).map(|v| v as f64).collect(),
                DynamicColumn::U64(c) => c.values_for_doc(doc).map(|v| v as f64).collect(),
                _ => return Ok(()),
            };
            if !values.is_empty() {
                f(&values);
            }
        }
    }
    Ok(())
}

/// An empty set of documents of a view.
pub(crate) fn empty_sets(view: &View) -> DocumentSets {
    let segments = view.searcher.segment_readers().iter();
    segments
        .map(|s| BitSet::with_max_value(s.max_doc()))
        .collect()
}

/// The facets of `{operator, facets}` and its operator, which is empty for all documents.
pub(crate) fn parse(v: Value<'_>) -> Result<(Vec<Facet>, DocBuf)> {
    let args = Args::new("facet", v, &["operator", "facets"])?;
    let operator = match args.get("operator") {
        None => DocBuf::new(),
        Some(Value::Document(d)) => d.to_buf(),
        Some(v) => return Err(args.wrong_type("operator", "an operator", v)),
    };
    Ok((parse_facets(&args)?, operator))
}
