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
    /// A collection scan must not be planned for it.
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
            // A filter that selects everything needs a scan.
            refuses_scan: cx.env.refuses_scans && !spec.is_empty(),
        })
    }
}
