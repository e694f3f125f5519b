//! `span: {term | or | first | near | subtract | contains, score}`: spans of one text by order and
//! distance.

use super::build::Build;
use super::path::read_field_keys;
use super::score::apply_score;
use crate::args::Args;
use crate::error::{index_error, invalid};
use crate::marked::HighlightTerm;
use crate::matching::{MatcherQuery, SpanQuery, Spans};
use crate::schema::TermKind;
use model::{Result, Value};
use tantivy::query::Query;

/// Deepest nesting.
const DEPTH_MAX: usize = 50;
const CLAUSES: [&str; 6] = ["contains", "first", "near", "or", "subtract", "term"];

pub(super) fn span(b: &Build<'_>, path: &str, v: Value<'_>) -> Result<Box<dyn Query>> {
    let mut allowed = CLAUSES.to_vec();
    allowed.push("score");
    let args = Args::new(path, v, &allowed)?;
    let mut parser = Parser {
        b,
        path: None,
        weight: 0.0,
    };
    let span = parser.clause(&args, 0)?;
    let Some(path) = parser.path else {
        return Err(invalid(format!("\"{path}\" must have a term")));
    };
    let query = MatcherQuery::new_boxed(Spans {
        span,
        stats: b.stats(&path)?,
        path,
        weight: parser.weight,
    });
    apply_score(b, &args, query)
}

struct Parser<'p, 'i> {
    b: &'p Build<'i>,
    /// The field, which must be the same for all terms.
    path: Option<String>,
    /// The sum of the terms' weights.
    weight: f32,
}

impl Parser<'_, '_> {
    fn clause(&mut self, args: &Args<'_>, depth: usize) -> Result<SpanQuery> {
        if depth > DEPTH_MAX {
            return Err(invalid(format!(
                "\"span\" may be nested {DEPTH_MAX} deep at most"
            )));
        }
        let mut given = CLAUSES
            .iter()
            .filter_map(|name| Some((*name, args.get(name)?)));
        let (Some((name, v)), None) = (given.next(), given.next()) else {
            return Err(invalid(format!(
                "\"{}\" must have exactly one of {}",
                args.path,
                CLAUSES.join(", ")
            )));
        };
        let path = args.name(name);
        match name {
            "term" => self.term(&Args::new(&path, v, &["path", "query"])?),
            "or" => {
                let args = Args::new(&path, v, &["clauses"])?;
                self.clauses(&args, depth).map(SpanQuery::Or)
            }
            "first" => {
                let args = Args::new(&path, v, &["operator", "endPositionLte"])?;
                let last = args.integer("endPositionLte", 1, i64::from(i32::MAX))?;
                let inner = self.inner(&args, "operator", depth)?;
                let last = u32::try_from(last.unwrap_or(3)).unwrap_or(u32::MAX);
                Ok(SpanQuery::First(inner, last))
            }
            "near" => {
                let args = Args::new(&path, v, &["clauses", "slop", "inOrder"])?;
                let slop = args.integer("slop", 0, i64::from(i32::MAX))?.unwrap_or(0);
                Ok(SpanQuery::Near {
                    clauses: self.clauses(&args, depth)?,
                    slop: u32::try_from(slop).unwrap_or(u32::MAX),
                    in_order: args.boolean("inOrder")?.unwrap_or(false),
                })
            }
            "subtract" => {
                let args = Args::new(&path, v, &["include", "exclude"])?;
                let include = self.inner(&args, "include", depth)?;
                Ok(SpanQuery::Subtract(
                    include,
                    self.inner(&args, "exclude", depth)?,
                ))
            }
            _ => {
                let args = Args::new(&path, v, &["spanToReturn", "little", "big"])?;
                args.required("spanToReturn")?;
                let outer = args.word("spanToReturn", &["inner", "outer"])? == Some("outer");
                let little = self.inner(&args, "little", depth)?;
                let big = self.inner(&args, "big", depth)?;
                Ok(SpanQuery::Contains { little, big, outer })
            }
        }
    }

    fn inner(&mut self, args: &Args<'_>, field: &str, depth: usize) -> Result<Box<SpanQuery>> {
        let inner = Args::new(&args.name(field), args.required(field)?, &CLAUSES)?;
        self.clause(&inner, depth + 1).map(Box::new)
    }

    fn clauses(&mut self, args: &Args<'_>, depth: usize) -> Result<Vec<SpanQuery>> {
        let v = args.required("clauses")?;
        let Value::Array(list) = v else {
            return Err(args.wrong_type("clauses", "an array", v));
        };
        if list.is_empty() {
            return Err(invalid(format!(
                "\"{}\" cannot be empty",
                args.name("clauses")
            )));
        }
        let mut found = Vec::new();
        for (n, v) in list.iter().enumerate() {
            let inner = Args::new(&format!("{}[{n}]", args.name("clauses")), v, &CLAUSES)?;
            found.push(self.clause(&inner, depth + 1)?);
        }
        Ok(found)
    }

    fn term(&mut self, args: &Args<'_>) -> Result<SpanQuery> {
        let queries = args.strings("query")?;
        let paths = read_field_keys(self.b, args)?;
        let (Some(path), 1) = (paths.first(), paths.len()) else {
            return Err(invalid(format!(
                "\"{}\" must be one field",
                args.name("path")
            )));
        };
        if self.path.as_deref().is_some_and(|known| known != *path) {
            return Err(invalid(format!(
                "\"{}\": all terms of a span must be at one path",
                args.name("path")
            )));
        }
        self.path = Some(path.clone());
        self.b.check_positions(path)?;
        let stats = self.b.stats(path)?;
        let field = self.b.index.definition().string_at(path, None)?;
        let mut terms = Vec::new();
        for query in field
            .iter()
            .flat_map(|f| queries.iter().map(move |q| f.search.tokens(q)))
        {
            self.b.count_clauses(query.len())?;
            for t in query {
                self.b.mark(path, HighlightTerm::Token(t.text.clone()));
                let term = self.b.index.fields().term(TermKind::Text, path, &t.text);
                let having = self.b.view.searcher.doc_freq(&term);
                self.weight += stats.rarity(having.map_err(|e| index_error("a term", &e))?);
                terms.push(SpanQuery::Term(term));
            }
        }
        Ok(SpanQuery::Or(terms))
    }
}
