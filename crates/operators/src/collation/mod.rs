//! Collations: from a collation document to a string order, and to the full form that the catalog
//! stores. Promises MongoDB's checks and codes, and that sort keys order as the comparison does.
//! Must not know: where the document comes from, indexes, commands.
//!
//! MongoDB 8.2 uses ICU 57.1; Quarry uses ICU4X with later CLDR data. Known differences: strings
//! are always compared as if normalized (`normalization` is stored and shown, but has no effect);
//! characters added after Unicode 8 and tailorings revised since then may order differently;
//! locales whose tailoring ICU4X lacks are refused (238) instead of approximated.

mod icu;
mod locale;
mod spec;

pub use spec::VERSION;

use model::{Collate, Doc, DocBuf, Result};
use spec::Spec;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

type Cache = RwLock<HashMap<Box<[u8]>, Arc<dyn Collate>>>;

/// Collators, with the bytes of their collation document as key.
static CACHE: LazyLock<Cache> = LazyLock::new(Cache::default);

/// Clients may send many distinct documents (order and types of fields vary), so the cache is
/// emptied when it has this many.
const CACHE_LIMIT: usize = 256;

/// The collator a collation document describes; `None` for the simple order.
///
/// # Errors
/// The errors of [`normalize`].
///
/// # Cost
/// A hash lookup for a document seen before; else parsing it and looking up locale data
/// (microseconds).
pub fn collator(spec: Doc<'_>) -> Result<Option<Arc<dyn Collate>>> {
    let seen = CACHE
        .read()
        .unwrap_or_else(PoisonError::into_inner)
        .get(spec.as_bytes())
        .cloned();
    if seen.is_some() {
        return Ok(seen);
    }
    let Some(parsed) = Spec::parse(spec)? else {
        return Ok(None);
    };
    let made: Arc<dyn Collate> = Arc::new(icu::Icu::new(&parsed)?);
    let mut cache = CACHE.write().unwrap_or_else(PoisonError::into_inner);
    if cache.len() >= CACHE_LIMIT {
        cache.clear();
    }
    cache.insert(spec.as_bytes().into(), Arc::clone(&made));
    Ok(Some(made))
}

/// The full form of a collation document as `listIndexes` shows it: every field; absent fields take
/// the locale's defaults. The simple collation stays `{locale: "simple"}`.
///
/// # Errors
/// 40414 IDLMissingField without a locale, 40415 unknown and 40413 repeated fields, 14 types, 2
/// values, locales and combinations, 161 another version, 238 NotImplemented for a locale or
/// variant without data.
pub fn normalize(spec: Doc<'_>) -> Result<DocBuf> {
    match Spec::parse(spec)? {
        Some(parsed) => {
            icu::Icu::new(&parsed)?;
            Ok(parsed.full())
        }
        None => Ok(DocBuf::build(|w| {
            w.put("locale", locale::SIMPLE);
        })),
    }
}

/// As [`normalize`], for a command whose definition types the field (`create`): there absent fields
/// take fixed defaults instead of the locale's, except `backwards`. `path` names the field in
/// messages.
///
/// # Errors
/// The errors of [`normalize`].
pub fn normalize_typed(spec: Doc<'_>, path: &str) -> Result<DocBuf> {
    let filled = spec::Fields::parse(spec, path)?.write_defaults();
    normalize(filled.doc())
}

/// Whether two documents describe the same order; false when either is not valid.
pub fn same(a: Doc<'_>, b: Doc<'_>) -> bool {
    match (Spec::parse(a), Spec::parse(b)) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
