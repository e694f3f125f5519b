//! A parsed filter together with the document it was parsed from, which the planner reads.

use model::{Doc, DocBuf, Result};
use operators::expr::ParseCx;
use operators::filter::Filter;

/// A filter and its source.
pub struct MatchFilter {
    /// As the client wrote it.
    pub spec: DocBuf,
    /// Compiled.
    pub filter: Filter,
    /// A plan for it must not be a scan of the collection.
    pub refuses_scan: bool,
}

impl MatchFilter {
    /// Parses a filter.
    ///
    /// # Errors
    /// Those of the filter's operators.
    pub fn parse(cx: &mut ParseCx<'_>, spec: Doc<'_>) -> Result<MatchFilter> {
        Ok(MatchFilter {
            spec: spec.to_buf(),
            filter: Filter::parse(cx, spec)?,
            // Whoever asks for everything has to be given a scan.
            refuses_scan: cx.env.refuses_scans && !spec.is_empty(),
        })
    }
}
