//! `arrayFilters`: which elements `$[id]` selects. Each filter has one identifier. Errors: 9 (no or
//! several identifiers, identifier twice, unused filter), 14 (not documents), 2 (identifier without
//! filter), 224 (`$expr`).

use super::modifier::UpdateCx;
use super::path::{self, Part};
use crate::expr::ParseCx;
use crate::filter::Filter;
use model::{Doc, Result, Value, bail, code};

/// The filters of one update.
#[derive(Default)]
pub(super) struct ArrayFilters {
    list: Vec<ArrayFilter>,
}

struct ArrayFilter {
    id: String,
    filter: Filter,
    used: bool,
}

impl ArrayFilters {
    pub(super) fn parse(cx: &mut ParseCx<'_>, spec: Option<Value<'_>>) -> Result<ArrayFilters> {
        let list = match spec {
            None => return Ok(ArrayFilters::default()),
            Some(Value::Array(a)) => a,
            Some(v) => bail!(
                code::TYPE_MISMATCH,
                "arrayFilters must be an array, not {}",
                v.type_name()
            ),
        };
        let mut parsed: Vec<ArrayFilter> = Vec::new();
        for f in list.iter() {
            let Value::Document(d) = f else {
                bail!(
                    code::TYPE_MISMATCH,
                    "arrayFilters elements must be objects, not {}",
                    f.type_name()
                )
            };
            let mut id = None;
            identifiers(d, &mut id)?;
            let filter = Filter::parse_without_near(cx, d)?;
            let Some(id) = id else {
                bail!(
                    code::FAILED_TO_PARSE,
                    "Cannot use an expression without a top-level field name in arrayFilters"
                )
            };
            if parsed.iter().any(|o| o.id == id) {
                bail!(
                    code::FAILED_TO_PARSE,
                    "Found multiple array filters with the same top-level field name {id}"
                );
            }
            parsed.push(ArrayFilter {
                id,
                filter,
                used: false,
            });
        }
        Ok(ArrayFilters { list: parsed })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Parses a path and checks that the identifiers in it have filters.
    ///
    /// # Errors
    /// The errors of the path; 2 BadValue for an identifier without filter.
    pub(super) fn checked_path(&mut self, field: &str) -> Result<Vec<Part>> {
        let parts = path::parse(field)?;
        for p in &parts {
            if let Part::Filtered(id) = p {
                self.mark_used(id, field)?;
            }
        }
        Ok(parts)
    }

    /// Notes that a path uses an identifier.
    ///
    /// # Errors
    /// 2 BadValue when there is no filter for it.
    fn mark_used(&mut self, id: &str, path: &str) -> Result<()> {
        match self.list.iter_mut().find(|o| o.id == id) {
            Some(o) => o.used = true,
            None => bail!(
                code::BAD_VALUE,
                "No array filter found for identifier '{id}' in path '{path}'"
            ),
        }
        Ok(())
    }

    /// # Errors
    /// 9 FailedToParse when a filter is not used by a path.
    pub(super) fn check_all_used(&self) -> Result<()> {
        match self.list.iter().find(|o| !o.used) {
            Some(o) => bail!(
                code::FAILED_TO_PARSE,
                "The array filter for identifier '{}' was not used in the update",
                o.id
            ),
            None => Ok(()),
        }
    }

    /// Whether the filter of an identifier matches an element.
    pub(super) fn matches<'a>(
        &'a self,
        id: &str,
        element: Value<'a>,
        cx: &UpdateCx<'_, 'a>,
    ) -> Result<bool> {
        let Some(one) = self.list.iter().find(|o| o.id == id) else {
            return Ok(false);
        };
        let wrapped = Doc::build_in(cx.arena, |w| {
            w.put(id, element);
        });
        one.filter.matches(wrapped, cx.arena, cx.env)
    }
}

/// Finds the identifier that all paths must begin with.
fn identifiers(d: Doc<'_>, id: &mut Option<String>) -> Result<()> {
    for (name, v) in d.iter() {
        match name {
            "$and" | "$or" | "$nor" => {
                for inner in v
                    .as_array()
                    .into_iter()
                    .flat_map(|a| a.iter())
                    .filter_map(|v| v.as_doc())
                {
                    identifiers(inner, id)?;
                }
            }
            "$expr" => bail!(
                code::QUERY_FEATURE_NOT_ALLOWED,
                "$expr is not allowed in this context"
            ),
            "$jsonSchema" => bail!(
                code::QUERY_FEATURE_NOT_ALLOWED,
                "$jsonSchema is not allowed in this context"
            ),
            "$where" | "$text" => bail!(code::BAD_VALUE, "{name} is not allowed in this context"),
            n if n.starts_with('$') => {}
            n => {
                let first = n.split('.').next().unwrap_or(n);
                match id {
                    Some(known) if known != first => bail!(
                        code::FAILED_TO_PARSE,
                        "Error parsing array filter :: caused by :: Expected a single top-level \
                            field name, found \
                         '{known}' and '{first}'"
                    ),
                    Some(_) => {}
                    None => *id = Some(first.to_owned()),
                }
            }
        }
    }
    Ok(())
}
