//! The text part of an index specification. It is checked and converted to its stored form: in the
//! key, `_fts` and `_ftsx` replace the text fields, which are listed in `weights`.

use model::{Doc, DocBuf, DocWriter, MongoError, Result, Tag, Value, code};
use operators::text::{DEFAULT_LANGUAGE, DEFAULT_OVERRIDE, Language};
use request::args::{show, to_i64, wrong_type};
use std::collections::BTreeMap;

/// The fields of the stored specification that this module writes.
pub(super) const FIELDS: &[&str] = &[
    "weights",
    "default_language",
    "language_override",
    "textIndexVersion",
];

/// The version of text indexes that folds terms by the rules of Unicode.
const VERSION: i32 = 3;
const WEIGHT_MAX: i64 = 99_999;

/// A checked text index.
pub(super) struct TextIndex {
    /// The key in its stored form.
    pub(super) key: DocBuf,
    weights: BTreeMap<String, i32>,
    language: String,
    language_field: String,
    version: i32,
}

fn index_error(why: impl Into<String>) -> MongoError {
    MongoError::new(code::CANNOT_CREATE_INDEX, why)
}

impl TextIndex {
    /// Checks the specification of an index with a text field.
    ///
    /// # Errors
    /// 67 CannotCreateIndex, 14 TypeMismatch.
    pub(super) fn parse(spec: Doc<'_>, key: Doc<'_>) -> Result<TextIndex> {
        let mut weights = weights(spec)?;
        let key = complete_key(key, &mut weights)?;
        if weights.is_empty() {
            return Err(index_error(
                "a text index needs 'weights' where its key names no fields",
            ));
        }
        for path in weights.keys() {
            check_path(path)?;
        }
        Ok(TextIndex {
            key,
            weights,
            language: language(spec)?,
            language_field: language_field(spec)?,
            version: version(spec)?,
        })
    }

    /// Writes the index's fields of the stored specification.
    pub(super) fn write(&self, w: &mut DocWriter<'_>) {
        let mut inner = w.doc("weights");
        for (path, weight) in &self.weights {
            inner.put(path, *weight);
        }
        drop(inner);
        w.put("default_language", self.language.as_str())
            .put("language_override", self.language_field.as_str());
        w.put("textIndexVersion", self.version);
    }
}

fn weights(spec: Doc<'_>) -> Result<BTreeMap<String, i32>> {
    let given = match spec.field("weights") {
        Value::Missing => return Ok(BTreeMap::new()),
        Value::Document(d) => d,
        Value::Array(_) | Value::String(_) => {
            return Err(index_error(format!(
                "'weights' of a text index must be a document, not of type {}",
                spec.field("weights").type_name()
            )));
        }
        v => {
            return Err(wrong_type(
                "indexes.weights",
                &v,
                &[Tag::STRING, Tag::DOCUMENT],
            ));
        }
    };
    let mut all = BTreeMap::new();
    for (path, w) in given.iter() {
        let weight = to_i64(&w)
            .filter(|n| w.is_number() && (1..=WEIGHT_MAX).contains(n))
            .and_then(|n| i32::try_from(n).ok());
        let Some(weight) = weight else {
            return Err(index_error(format!(
                "text index weight must be a number in the exclusive interval (0, 100000), given \
                    {} for {path}",
                show(&w)
            )));
        };
        all.insert(path.to_owned(), weight);
    }
    Ok(all)
}

/// Replaces the text fields of a key by one pair of fields. A text field without a weight gets the
/// weight 1.
fn complete_key(key: Doc<'_>, weights: &mut BTreeMap<String, i32>) -> Result<DocBuf> {
    let (mut out, mut ended) = (DocBuf::new(), false);
    let mut before = None;
    for (path, v) in key.iter() {
        let is_text = matches!(v, Value::String("text"));
        match (is_text, path) {
            (true, "_fts") => {}
            (true, path) => {
                weights.entry(path.to_owned()).or_insert(1);
            }
            (false, "_ftsx") if before == Some(true) => continue,
            (false, "_fts" | "_ftsx") => {
                return Err(index_error(format!(
                    "text index field names '_fts' and '_ftsx' are reserved, given '{key}'"
                )));
            }
            (false, path) => {
                out.put(path, v);
            }
        }
        if is_text {
            if ended {
                return Err(index_error("'text' fields in index must all be adjacent"));
            }
            if !out.doc().contains("_fts") {
                out.put("_fts", "text").put("_ftsx", 1i32);
            }
        } else {
            ended |= before == Some(true);
        }
        before = Some(is_text);
    }
    Ok(out)
}

fn check_path(path: &str) -> Result<()> {
    let bad = path != "$**"
        && (path.is_empty()
            || path.split('.').any(|p| p.is_empty() || p.starts_with('$'))
            || matches!(path, "_fts" | "_ftsx"));
    if bad {
        return Err(index_error(format!(
            "text indexes cannot take the field '{path}'"
        )));
    }
    Ok(())
}

fn language(spec: Doc<'_>) -> Result<String> {
    match spec.field("default_language") {
        Value::Missing | Value::String("") => Ok(DEFAULT_LANGUAGE.to_owned()),
        Value::String(name) if Language::find(name).is_some() => Ok(name.to_owned()),
        Value::String(name) => Err(index_error(format!(
            "default_language is not valid: unsupported language '{name}' for text index version \
                {VERSION}"
        ))),
        v => Err(wrong_type("indexes.default_language", &v, &[Tag::STRING])),
    }
}

fn language_field(spec: Doc<'_>) -> Result<String> {
    match spec.field("language_override") {
        Value::Missing => Ok(DEFAULT_OVERRIDE.to_owned()),
        Value::String(name) if name.is_empty() || name.starts_with('$') || name.contains('.') => {
            Err(index_error(format!(
                "language_override is not valid: '{name}' cannot be empty, begin with '$' or \
                    contain '.'"
            )))
        }
        Value::String(name) => Ok(name.to_owned()),
        v => Err(wrong_type("indexes.language_override", &v, &[Tag::STRING])),
    }
}

fn version(spec: Doc<'_>) -> Result<i32> {
    match spec.field("textIndexVersion") {
        Value::Missing => Ok(VERSION),
        v => match v.as_i64_exact() {
            Some(n @ 1..=3) => Ok(n as i32),
            _ if v.is_number() => Err(index_error(format!(
                "bad textIndexVersion: {}, versions 1 to {VERSION} are known",
                show(&v)
            ))),
            _ => Err(wrong_type(
                "indexes.textIndexVersion",
                &v,
                &[Tag::INT64, Tag::INT32, Tag::DOUBLE, Tag::DECIMAL128],
            )),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::doc;

    fn normalize_spec(spec: DocBuf) -> std::result::Result<DocBuf, i32> {
        let key = spec.doc().field("key").as_doc().unwrap();
        TextIndex::parse(spec.doc(), key)
            .map_err(|e| e.code())
            .map(|t| {
                DocBuf::build(|w| {
                    w.put("key", &t.key);
                    t.write(w);
                })
            })
    }

    #[test]
    fn completed() {
        let wanted = doc! {
            "key": { "a": 1i32, "_fts": "text", "_ftsx": 1i32, "z": -1i32 }, "weights": { "b": 7i32,
                "c": 1i32, "d": 2i32 },
            "default_language": "none", "language_override": "language", "textIndexVersion": 3i32
        };
        let given = doc! { "key": { "a": 1i32, "c": "text", "b": "text", "z": -1i32 },
        "weights": { "d": 2i32, "b": 7.0 }, "default_language": "none" };
        assert_eq!(normalize_spec(given).unwrap(), wanted);
        assert_eq!(
            normalize_spec(wanted.clone()).unwrap(),
            wanted,
            "what listIndexes shows makes the same index"
        );
        assert_eq!(
            normalize_spec(doc! { "key": { "$**": "text" } })
                .unwrap()
                .doc()
                .field("weights")
                .as_doc()
                .unwrap()
                .to_buf(),
            doc! { "$**": 1i32 }
        );
    }

    #[test]
    fn codes() {
        for (spec, code) in [
            (doc! { "key": { "a": "text", "b": 1i32, "c": "text" } }, 67),
            (
                doc! { "key": { "a": "text" }, "default_language": "klingon" },
                67,
            ),
            (
                doc! { "key": { "a": "text" }, "default_language": 5i32 },
                14,
            ),
            (
                doc! { "key": { "a": "text" }, "language_override": "a.b" },
                67,
            ),
            (
                doc! { "key": { "a": "text" }, "weights": { "a": 100_000i32 } },
                67,
            ),
            (doc! { "key": { "a": "text" }, "weights": { "a": "1" } }, 67),
            (
                doc! { "key": { "a": "text" }, "weights": { "$b": 1i32 } },
                67,
            ),
            (doc! { "key": { "_fts": "text", "_ftsx": 1i32 } }, 67),
            (doc! { "key": { "_ftsx": 1i32, "a": "text" } }, 67),
            (
                doc! { "key": { "a": "text" }, "textIndexVersion": 4i32 },
                67,
            ),
        ] {
            assert_eq!(normalize_spec(spec.clone()), Err(code), "{spec:?}");
        }
    }
}
