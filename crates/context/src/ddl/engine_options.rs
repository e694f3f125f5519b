//! The `storageEngine` option of collections: `{wiredTiger: {configString: TEXT}}`. The text is
//! checked as MongoDB checks it. All collections share the engine's tables, so a setting for one
//! collection could have no effect: a text with a setting is refused. `{tikv: {spread: true}}`
//! spreads the documents (ADR 0115); the store refuses it where the engine cannot.
//!
//! Must not know: which engine is used.

use model::{Doc, Result, Tag, Value, bail, code};
use request::args::{Arg, Kind, arg, check_doc, wrong_type};

/// Keys that the text may have, from WiredTiger's documentation of tables and files.
const KEYS: &[&str] = &[
    "access_pattern_hint",
    "allocation_size",
    "app_metadata",
    "assert",
    "block_allocation",
    "block_compressor",
    "cache_resident",
    "checksum",
    "colgroups",
    "collator",
    "columns",
    "dictionary",
    "encryption",
    "exclusive",
    "extractor",
    "format",
    "huffman_key",
    "huffman_value",
    "ignore_in_memory_cache_size",
    "immutable",
    "import",
    "internal_item_max",
    "internal_key_max",
    "internal_key_truncate",
    "internal_page_max",
    "key_format",
    "key_gap",
    "leaf_item_max",
    "leaf_key_max",
    "leaf_page_max",
    "leaf_value_max",
    "log",
    "lsm",
    "memory_page_image_max",
    "memory_page_max",
    "os_cache_dirty_max",
    "os_cache_max",
    "prefix_compression",
    "prefix_compression_min",
    "source",
    "split_deepen_min_child",
    "split_deepen_per_child",
    "split_pct",
    "tiered_storage",
    "type",
    "value_format",
    "verbose",
    "write_timestamp_usage",
];

/// Checks the document under `path`.
///
/// # Errors
/// 72 InvalidOptions for another engine, another option and a text with a setting, 2 BadValue for
/// an engine without a document and a text with an unknown key, 14 TypeMismatch for a value that is
/// not text.
pub fn check(path: &str, doc: Doc<'_>) -> Result<()> {
    for (engine, options) in doc.iter() {
        if engine != "wiredTiger" && (engine != "tikv" || path != "storageEngine") {
            bail!(
                code::INVALID_OPTIONS,
                "'{path}.{engine}': only the options of wiredTiger, and of tikv for a collection, \
                 are taken"
            );
        }
        let Value::Document(options) = options else {
            bail!(
                code::BAD_VALUE,
                "'{path}.{engine}' has to be an embedded document, not {}",
                options.type_name()
            );
        };
        for (name, v) in options.iter() {
            match (name, v) {
                ("spread", Value::Bool(_)) if engine == "tikv" => {}
                ("spread", v) if engine == "tikv" => {
                    let path = format!("{path}.{engine}.{name}");
                    return Err(wrong_type(&path, &v, &[Tag::BOOL]));
                }
                _ if engine == "tikv" => bail!(
                    code::INVALID_OPTIONS,
                    "'{path}.{engine}.{name}' is not a supported option, only 'spread' is"
                ),
                ("configString", Value::String(text)) if check_text(path, text)? => bail!(
                    code::INVALID_OPTIONS,
                    "'{path}.wiredTiger.configString' sets '{text}' for one collection, but \
                        collections share the tables of the engine: only an empty text is taken"
                ),
                ("configString", Value::String(_)) => {}
                ("configString", v) => {
                    let path = format!("{path}.{engine}.{name}");
                    return Err(wrong_type(&path, &v, &[Tag::STRING]));
                }
                _ => bail!(
                    code::INVALID_OPTIONS,
                    "'{path}.{engine}.{name}' is not a supported option, only 'configString' is"
                ),
            }
        }
    }
    Ok(())
}

/// Checks `indexOptionDefaults` of `create`.
///
/// # Errors
/// 40415 IDLFailedToParse for another field, 14 TypeMismatch, those of [`check`].
pub fn check_defaults(doc: Doc<'_>) -> Result<()> {
    static TABLE: &[Arg] = &[arg("storageEngine", Kind::Object)];
    let args = check_doc("create.indexOptionDefaults", TABLE, doc)?;
    let engine = args.doc("storageEngine").unwrap_or(Doc::EMPTY);
    check("indexOptionDefaults.storageEngine", engine)
}

/// Parses `key=value` or `key`, separated by commas outside of brackets and quotation marks.
/// Returns whether the text has any setting.
fn check_text(path: &str, text: &str) -> Result<bool> {
    let mut sets = false;
    let (mut depth, mut quoted) = (0usize, false);
    let parts = text.split(|c: char| {
        match c {
            '"' => quoted = !quoted,
            '(' | '[' | '{' if !quoted => depth += 1,
            ')' | ']' | '}' if !quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0 && !quoted
    });
    for part in parts.map(str::trim).filter(|p| !p.is_empty()) {
        let key = part.split(['=', ':']).next().unwrap_or(part).trim();
        if !KEYS.contains(&key) {
            bail!(
                code::BAD_VALUE,
                "'{path}.wiredTiger.configString': unknown configuration key '{key}'"
            );
        }
        sets = true;
    }
    Ok(sets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{DocBuf, doc};

    #[test]
    fn codes() {
        let of = |d: DocBuf| {
            check("storageEngine", d.doc())
                .err()
                .map_or(0, |e| e.code())
        };
        let text = |s: &str| of(doc! { "wiredTiger": { "configString": s } });
        assert_eq!(text(""), 0);
        assert_eq!(text("block_compressor=zlib,log=(enabled=false,x=1)"), 72);
        assert_eq!(text("invalid=bad"), 2);
        assert_eq!(text("checksum=on, nope"), 2);
        assert_eq!(of(doc! {}), 0);
        assert_eq!(of(doc! { "wiredTiger": "x" }), 2);
        assert_eq!(of(doc! { "wiredTiger": { "configString": 1i32 } }), 14);
        assert_eq!(of(doc! { "wiredTiger": { "other": "" } }), 72);
        assert_eq!(of(doc! { "other": {} }), 72);
        assert_eq!(of(doc! { "tikv": { "spread": true } }), 0);
        assert_eq!(of(doc! { "tikv": { "spread": 1i32 } }), 14);
        assert_eq!(of(doc! { "tikv": { "other": true } }), 72);
        let of = |d: DocBuf| check_defaults(d.doc()).err().map_or(0, |e| e.code());
        assert_eq!(of(doc! { "other": 1i32 }), 40415);
        assert_eq!(of(doc! { "storageEngine": { "wiredTiger": 1i32 } }), 2);
        let spread = doc! { "storageEngine": { "tikv": { "spread": true } } };
        assert_eq!(of(spread), 72);
    }
}
