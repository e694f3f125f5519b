//! Documents of a query with scores computed from the query's scores and from numbers of the
//! documents.

use crate::schema::ColumnKind;
use tantivy::columnar::{Column, DynamicColumn};
use tantivy::query::{EnableScoring, Explanation, Query, Scorer, Weight};
use tantivy::{DocId, DocSet, Score, SegmentReader};

/// How a score is computed.
#[derive(Clone, Debug)]
pub(crate) enum Function {
    /// The score of the query.
    Score,
    Constant(f64),
    /// The number at a path, with a default.
    Path {
        path: String,
        or: f64,
    },
    Gauss {
        path: String,
        or: f64,
        curve: Curve,
    },
    Add(Vec<Function>),
    Multiply(Vec<Function>),
    /// The logarithm to base 10.
    Log(Box<Function>),
    Log1p(Box<Function>),
}

/// A bell curve: 1 up to `offset` from the origin, and `decay` at a distance of `scale` beyond it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Curve {
    pub(crate) origin: f64,
    pub(crate) scale: f64,
    pub(crate) decay: f64,
    pub(crate) offset: f64,
}

impl Curve {
    fn at(&self, v: f64) -> f64 {
        let away = ((v - self.origin).abs() - self.offset).max(0.0) / self.scale;
        (away * away * self.decay.ln()).exp()
    }
}

/// A query with a score function.
#[derive(Debug)]
pub(crate) struct FunctionQuery {
    query: Box<dyn Query>,
    function: Function,
}

impl FunctionQuery {
    pub(crate) fn new_boxed(query: Box<dyn Query>, function: Function) -> Box<dyn Query> {
        Box::new(FunctionQuery { query, function })
    }
}

impl Clone for FunctionQuery {
    fn clone(&self) -> FunctionQuery {
        FunctionQuery {
            query: self.query.box_clone(),
            function: self.function.clone(),
        }
    }
}

impl Query for FunctionQuery {
    fn weight(&self, scoring: EnableScoring<'_>) -> tantivy::Result<Box<dyn Weight>> {
        Ok(Box::new(FunctionWeight {
            inner: self.query.weight(scoring)?,
            function: self.function.clone(),
        }))
    }
}

struct FunctionWeight {
    inner: Box<dyn Weight>,
    function: Function,
}

impl Weight for FunctionWeight {
    fn scorer(&self, segment: &SegmentReader, boost: Score) -> tantivy::Result<Box<dyn Scorer>> {
        Ok(Box::new(FunctionScorer {
            inner: self.inner.scorer(segment, 1.0)?,
            function: BoundFunction::open(&self.function, segment)?,
            boost,
        }))
    }

    fn explain(&self, segment: &SegmentReader, doc: DocId) -> tantivy::Result<Explanation> {
        let mut scorer = self.scorer(segment, 1.0)?;
        let found = scorer.doc() <= doc && scorer.seek(doc) == doc;
        let score = if found { scorer.score() } else { 0.0 };
        let mut all = Explanation::new("FunctionScoreQuery, computed from:", score);
        if found {
            all.add_detail(self.inner.explain(segment, doc)?);
        }
        Ok(all)
    }
}

/// A function with the columns of a segment.
enum BoundFunction {
    Score,
    Constant(f64),
    Path(Numbers, f64),
    Gauss(Numbers, f64, Curve),
    Add(Vec<BoundFunction>),
    Multiply(Vec<BoundFunction>),
    Log(Box<BoundFunction>),
    Log1p(Box<BoundFunction>),
}

/// The numbers at a path.
struct Numbers(Vec<NumberColumn>);

enum NumberColumn {
    Float(Column<f64>),
    Integer(Column<i64>),
}

impl Numbers {
    fn open(segment: &SegmentReader, path: &str) -> tantivy::Result<Numbers> {
        let mut found = Vec::new();
        for kind in [ColumnKind::Number, ColumnKind::Date] {
            let name = kind.name(path);
            for handle in segment.fast_fields().dynamic_column_handles(&name)? {
                match handle.open()? {
                    DynamicColumn::F64(c) => found.push(NumberColumn::Float(c)),
                    DynamicColumn::I64(c) => found.push(NumberColumn::Integer(c)),
                    _ => {}
                }
            }
        }
        Ok(Numbers(found))
    }

    fn first(&self, doc: DocId) -> Option<f64> {
        self.0.iter().find_map(|c| match c {
            NumberColumn::Float(c) => c.first(doc),
            NumberColumn::Integer(c) => c.first(doc).map(|v| v as f64),
        })
    }
}

impl BoundFunction {
    fn open(function: &Function, segment: &SegmentReader) -> tantivy::Result<BoundFunction> {
        let one = |f: &Function| BoundFunction::open(f, segment);
        let each = |list: &[Function]| list.iter().map(one).collect::<tantivy::Result<Vec<_>>>();
        Ok(match function {
            Function::Score => BoundFunction::Score,
            Function::Constant(n) => BoundFunction::Constant(*n),
            Function::Path { path, or } => BoundFunction::Path(Numbers::open(segment, path)?, *or),
            Function::Gauss { path, or, curve } => {
                BoundFunction::Gauss(Numbers::open(segment, path)?, *or, *curve)
            }
            Function::Add(list) => BoundFunction::Add(each(list)?),
            Function::Multiply(list) => BoundFunction::Multiply(each(list)?),
            Function::Log(f) => BoundFunction::Log(Box::new(one(f)?)),
            Function::Log1p(f) => BoundFunction::Log1p(Box::new(one(f)?)),
        })
    }

    fn value(&self, doc: DocId, score: f64) -> f64 {
        match self {
            BoundFunction::Score => score,
            BoundFunction::Constant(n) => *n,
            BoundFunction::Path(numbers, or) => numbers.first(doc).unwrap_or(*or),
            BoundFunction::Gauss(numbers, or, curve) => curve.at(numbers.first(doc).unwrap_or(*or)),
            BoundFunction::Add(list) => list.iter().map(|f| f.value(doc, score)).sum(),
            BoundFunction::Multiply(list) => list.iter().map(|f| f.value(doc, score)).product(),
            BoundFunction::Log(f) => f.value(doc, score).log10(),
            BoundFunction::Log1p(f) => (1.0 + f.value(doc, score)).log10(),
        }
    }
}

struct FunctionScorer {
    inner: Box<dyn Scorer>,
    function: BoundFunction,
    boost: Score,
}

impl DocSet for FunctionScorer {
    fn advance(&mut self) -> DocId {
        self.inner.advance()
    }
    fn seek(&mut self, target: DocId) -> DocId {
        self.inner.seek(target)
    }
    fn doc(&self) -> DocId {
        self.inner.doc()
    }
    fn size_hint(&self) -> u32 {
        self.inner.size_hint()
    }
}

impl Scorer for FunctionScorer {
    fn score(&mut self) -> Score {
        let score = f64::from(self.inner.score());
        let found = self.function.value(self.inner.doc(), score);
        // A result that is not finite, such as the logarithm of zero, counts as zero.
        let found = if found.is_finite() { found } else { 0.0 };
        found.max(0.0) as Score * self.boost
    }
}
