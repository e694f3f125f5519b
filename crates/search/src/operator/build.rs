//! The context in which operators are built: the index as it was when the search began.

use crate::error::{index_error, invalid};
use crate::index::{Index, View};
use crate::marked::{HighlightTerm, Mark};
use crate::matching::{MatcherQuery, ScoredTerm, Terms, TextStats, TokenTest};
use crate::schema::{ELEMENT, END_OF_PATH, TermKind, key_of, shown_path};
use crate::synonyms::{Sources, Synonyms, mapping_of};
use model::{Doc, Result};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use tantivy::query::{AllQuery, ConstScoreQuery, Query, TermQuery};
use tantivy::schema::IndexRecordOption;

/// Most terms of a query.
const CLAUSES_MAX: usize = 1024;

/// Builds the query of `{operator: {...}}` at a path; the last argument is its depth.
pub(crate) type BuildFn = fn(&Build<'_>, &str, Doc<'_>, usize) -> Result<Box<dyn Query>>;

/// The index a query is built for.
pub(crate) struct Build<'i> {
    pub(crate) index: &'i Index,
    pub(crate) view: &'i View,
    /// Builds nested operators.
    pub(super) operator: BuildFn,
    synonyms: Option<&'i Sources>,
    clauses: Cell<usize>,
    /// What to highlight in found texts.
    marks: RefCell<Vec<Mark>>,
    /// Nesting depth in excluding clauses.
    excluded: Cell<usize>,
    /// The array whose elements are searched; empty for documents.
    scope: RefCell<String>,
}

impl<'i> Build<'i> {
    pub(super) fn new(index: &'i Index, view: &'i View, operator: BuildFn) -> Build<'i> {
        Build {
            index,
            view,
            operator,
            synonyms: None,
            clauses: Cell::new(0),
            marks: RefCell::default(),
            excluded: Cell::new(0),
            scope: RefCell::default(),
        }
    }

    /// Sets the documents of synonym collections.
    pub(crate) fn with_synonyms(self, synonyms: &'i Sources) -> Build<'i> {
        Build {
            synonyms: Some(synonyms),
            ..self
        }
    }

    /// The synonyms with that name.
    pub(crate) fn synonyms(&self, path: &str, name: &str) -> Result<Synonyms> {
        let mapping = mapping_of(&self.index.definition().synonyms, path, name)?;
        let docs = self.synonyms.and_then(|s| s.get(&mapping.collection));
        Synonyms::read(docs.map_or(&[], Vec::as_slice), &mapping.analyzer)
    }

    /// The array whose elements are searched; empty for documents.
    pub(crate) fn scope(&self) -> String {
        self.scope.borrow().clone()
    }

    /// Builds a query for the elements of an array.
    pub(crate) fn build_within<T>(&self, array: &str, f: impl FnOnce() -> T) -> T {
        let outer = self.scope.replace(array.to_owned());
        let made = self.build_excluded(f);
        self.scope.replace(outer);
        made
    }

    /// The key of a path.
    ///
    /// # Errors
    /// 8 UnknownError for a path that is outside of the searched elements.
    pub(crate) fn key(&self, path: &str) -> Result<String> {
        let scope = self.scope.borrow();
        let below = path.strip_prefix(scope.as_str());
        if !scope.is_empty() && !below.is_some_and(|rest| rest.starts_with('.')) {
            return Err(invalid(format!(
                "the path {path} must begin with {scope}, the path of the embeddedDocument"
            )));
        }
        Ok(key_of(&scope, path))
    }

    /// All documents, or all elements of the searched array.
    pub(crate) fn all_documents(&self) -> Box<dyn Query> {
        match self.index.definition().has_elements() {
            true => self.plain_term(TermKind::Element, &self.scope(), ""),
            false => Box::new(AllQuery),
        }
    }

    /// Refuses a text field without stored positions.
    pub(crate) fn check_positions(&self, key: &str) -> Result<()> {
        if self.index.definition().text_options(key).positions {
            return Ok(());
        }
        let path = shown_path(key);
        Err(invalid(format!(
            "{path} is indexed without positions (indexOptions), which phrases and spans need"
        )))
    }

    /// Marks something to highlight in the texts at a path.
    pub(crate) fn mark(&self, path: &str, what: HighlightTerm) {
        if self.excluded.get() == 0 {
            let key = path.to_owned();
            self.marks.borrow_mut().push(Mark { key, what });
        }
    }

    /// Builds an excluding clause.
    pub(crate) fn build_excluded<T>(&self, f: impl FnOnce() -> T) -> T {
        self.excluded.set(self.excluded.get() + 1);
        let made = f();
        self.excluded.set(self.excluded.get() - 1);
        made
    }

    /// Everything to highlight.
    pub(crate) fn take_marks(&self) -> Vec<Mark> {
        self.marks.take()
    }

    /// Counts the terms of the query.
    pub(crate) fn count_clauses(&self, more: usize) -> Result<()> {
        let all = self.clauses.get() + more;
        self.clauses.set(all);
        if all > CLAUSES_MAX {
            return Err(invalid(format!(
                "the query looks for {all} terms, at most {CLAUSES_MAX} are allowed"
            )));
        }
        Ok(())
    }

    /// Texts with a token, scored; `worth` multiplies the score.
    pub(crate) fn text_term(&self, path: &str, token: &str, worth: f32) -> Result<Box<dyn Query>> {
        self.mark(path, HighlightTerm::Token(token.to_owned()));
        let stats = self.stats(path)?;
        let term = self.index.fields().term(TermKind::Text, path, token);
        let having = self.view.searcher.doc_freq(&term);
        let having = having.map_err(|e| index_error("a term", &e))?;
        Ok(Box::new(ScoredTerm {
            weight: worth * stats.rarity(having),
            having,
            term,
            path: path.to_owned(),
            stats,
        }))
    }

    /// Documents with a term, all with the same score.
    pub(crate) fn plain_term(&self, kind: TermKind, path: &str, token: &str) -> Box<dyn Query> {
        let term = self.index.fields().term(kind, path, token);
        let query = TermQuery::new(term, IndexRecordOption::Basic);
        Box::new(ConstScoreQuery::new(Box::new(query), 1.0))
    }

    /// Documents with a token that passes a test.
    pub(crate) fn tokens(&self, kind: TermKind, path: &str, test: TokenTest) -> Box<dyn Query> {
        if kind == TermKind::Text {
            self.mark(path, HighlightTerm::Like(test.clone()));
        }
        MatcherQuery::new_boxed(Terms {
            field: self.index.fields().terms,
            prefix: kind.prefix(path),
            test,
            score: 1.0,
        })
    }

    pub(crate) fn stats(&self, path: &str) -> Result<TextStats> {
        self.index.text_stats(self.view, path)
    }

    /// Paths that occur in documents and begin with `prefix`.
    pub(crate) fn paths(&self, prefix: &str) -> Result<Vec<String>> {
        let terms = Terms {
            field: self.index.fields().terms,
            prefix: TermKind::Exists.open_prefix(&key_of(&self.scope(), "")),
            test: TokenTest::All,
            score: 1.0,
        };
        let mut found = BTreeSet::new();
        for segment in self.view.searcher.segment_readers() {
            terms
                .visit_terms(segment, &mut |path, _| {
                    let path = path.trim_end_matches(END_OF_PATH);
                    if path.starts_with(prefix) && !path.contains(ELEMENT) {
                        found.insert(path.to_owned());
                    }
                    Ok(())
                })
                .map_err(|e| index_error("paths", &e))?;
        }
        Ok(found.into_iter().collect())
    }
}
