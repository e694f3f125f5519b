//! `$text`: a search for words. Parsed and checked here; the text index defines which fields are
//! searched, so the planner binds the test to an index. Errors: 4 without `$search`, 14 for
//! operands of a wrong type, 2 for unknown options and languages, 27 when no index was bound.

use crate::text::{Language, Sensitivity, TextMatcher, TextSpec};
use model::{Doc, MongoError, Result, Value, bail, code};
use std::sync::{Arc, PoisonError, RwLock};

/// A parsed `$text`.
pub struct Text {
    /// The search string, with `-` and quotes.
    pub search: String,
    /// The language of the stemmer and stop words; if absent, that of the index.
    pub language: Option<Language>,
    /// Whether case and diacritical marks count.
    pub how: Sensitivity,
    bound: RwLock<Option<Arc<TextMatcher>>>,
}

impl Text {
    /// Parses the operand.
    ///
    /// # Errors
    /// 2 BadValue, 4 NoSuchKey, 14 TypeMismatch.
    pub(super) fn parse(spec: Value<'_>) -> Result<Text> {
        let Value::Document(d) = spec else {
            bail!(
                code::BAD_VALUE,
                "$text expects an object, not {}",
                spec.type_name()
            )
        };
        let string = |name: &str, v: Value<'_>| match v {
            Value::String(s) => Ok(s.to_owned()),
            v => Err(MongoError::type_mismatch(format!(
                "{name} must be a string, not {}",
                v.type_name()
            ))),
        };
        let boolean = |name: &str| match d.field(name) {
            Value::Missing => Ok(false),
            Value::Bool(b) => Ok(b),
            v => Err(MongoError::type_mismatch(format!(
                "{name} must be a boolean, not {}",
                v.type_name()
            ))),
        };
        let search = match d.field("$search") {
            Value::Missing => bail!(code::NO_SUCH_KEY, "Missing expected field \"$search\""),
            v => string("$search", v)?,
        };
        let language = match d.field("$language") {
            Value::Missing => None,
            v => Some(string("$language", v)?),
        };
        let how = Sensitivity {
            case: boolean("$caseSensitive")?,
            diacritics: boolean("$diacriticSensitive")?,
        };
        if let Some((name, _)) = d.iter().find(|(n, _)| {
            !matches!(
                *n,
                "$search" | "$language" | "$caseSensitive" | "$diacriticSensitive"
            )
        }) {
            bail!(code::BAD_VALUE, "extra fields in $text: {name}");
        }
        let language = match language {
            None => None,
            Some(name) => match Language::find(&name) {
                Some(l) => Some(l),
                None => bail!(
                    code::BAD_VALUE,
                    "$language specified in $text query is not supported: {name}"
                ),
            },
        };
        Ok(Text {
            search,
            language,
            how,
            bound: RwLock::default(),
        })
    }

    /// Binds it to the text index; after that documents can be matched. A later binding replaces
    /// this one.
    pub fn bind(&self, index: Doc<'_>) -> Arc<TextMatcher> {
        let matcher = Arc::new(TextMatcher::new(
            TextSpec::of_index(index),
            &self.search,
            self.language,
            self.how,
        ));
        *self.bound.write().unwrap_or_else(PoisonError::into_inner) = Some(matcher.clone());
        matcher
    }

    /// The matcher it was bound to.
    pub fn matcher(&self) -> Option<Arc<TextMatcher>> {
        self.bound
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(super) fn matches(&self, doc: Doc<'_>) -> Result<bool> {
        match self.matcher() {
            Some(m) => m.matches(doc),
            None => Err(MongoError::new(
                code::INDEX_NOT_FOUND,
                "text index required for $text query",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::doc;

    #[test]
    fn codes() {
        for (spec, wanted) in [
            (doc! { "$search": "x", "$language": "English" }, None),
            (doc! {}, Some(4)),
            (doc! { "$search": 1i32 }, Some(14)),
            (doc! { "$search": "x", "$caseSensitive": 1i32 }, Some(14)),
            (doc! { "$search": "x", "$language": "klingon" }, Some(2)),
            (doc! { "$search": "x", "$other": 1i32 }, Some(2)),
        ] {
            assert_eq!(
                Text::parse(Value::Document(spec.doc()))
                    .err()
                    .map(|e| e.code()),
                wanted,
                "{spec:?}"
            );
        }
    }
}
