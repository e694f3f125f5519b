//! Documents with any term of a path that passes a test.

use super::docs::Matcher;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Bound;
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::{DocId, DocSet, Score, SegmentReader, TERMINATED};

/// Which terms pass.
#[derive(Clone)]
pub(crate) enum TokenTest {
    All,
    Within(Bound<String>, Bound<String>),
    Matching(regex::Regex),
}

impl fmt::Debug for TokenTest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TokenTest::All => f.write_str("any token"),
            TokenTest::Within(min, max) => f.debug_list().entry(min).entry(max).finish(),
            TokenTest::Matching(pattern) => write!(f, "tokens like {pattern}"),
        }
    }
}

impl TokenTest {
    pub(crate) fn passes(&self, token: &str) -> bool {
        match self {
            TokenTest::All => true,
            TokenTest::Within(min, max) => {
                let bounds = (
                    min.as_ref().map(String::as_str),
                    max.as_ref().map(String::as_str),
                );
                std::ops::RangeBounds::<str>::contains(&bounds, token)
            }
            TokenTest::Matching(pattern) => pattern.is_match(token),
        }
    }
}

/// Documents with a term that begins with `prefix` and whose rest passes the test.
#[derive(Debug)]
pub(crate) struct Terms {
    pub(crate) field: Field,
    pub(crate) prefix: String,
    pub(crate) test: TokenTest,
    pub(crate) score: f32,
}

impl Terms {
    /// Calls `f` with each term of a segment that passes, without its prefix.
    pub(crate) fn visit_terms(
        &self,
        segment: &SegmentReader,
        f: &mut dyn FnMut(&str, &tantivy::postings::TermInfo) -> tantivy::Result<()>,
    ) -> tantivy::Result<()> {
        let index = segment.inverted_index(self.field)?;
        let range = index.terms().range().ge(self.prefix.as_bytes());
        let mut terms = range.into_stream()?;
        while terms.advance() {
            let Some(rest) = terms.key().strip_prefix(self.prefix.as_bytes()) else {
                break;
            };
            let token = std::str::from_utf8(rest).unwrap_or_default();
            if self.test.passes(token) {
                f(token, terms.value())?;
            }
        }
        Ok(())
    }
}

impl Matcher for Terms {
    fn find(&self, segment: &SegmentReader) -> tantivy::Result<Vec<(DocId, Score)>> {
        let index = segment.inverted_index(self.field)?;
        let mut docs = BTreeSet::new();
        self.visit_terms(segment, &mut |_, info| {
            let mut postings = index.read_postings_from_terminfo(info, IndexRecordOption::Basic)?;
            let mut doc = postings.doc();
            while doc != TERMINATED {
                docs.insert(doc);
                doc = postings.advance();
            }
            Ok(())
        })?;
        Ok(docs.into_iter().map(|doc| (doc, self.score)).collect())
    }
}
