//! `$text`: words to look for. Parsed and checked here; only a text index can answer it.
//! Errors: 4 without `$search`, 14 for operands of a wrong type, 2 for unknown options and languages, 27 when no index
//! answered it.

use model::{Result, Value, bail, code};

/// A parsed `$text`.
pub struct Text {
    /// The words, `-` and quotes included.
    pub search: String,
    /// The language whose stemmer and stop words apply; absent: that of the index.
    pub language: Option<String>,
    /// Letters' case counts.
    pub case_sensitive: bool,
    /// Accents count.
    pub diacritic_sensitive: bool,
}

/// Names and ISO codes of the languages MongoDB stems.
const LANGUAGES: &[&str] = &[
    "none", "danish", "da", "dutch", "nl", "english", "en", "finnish", "fi", "french", "fr", "german", "de", "hungarian",
    "hu", "italian", "it", "norwegian", "nb", "portuguese", "pt", "romanian", "ro", "russian", "ru", "spanish", "es",
    "swedish", "sv", "turkish", "tr",
];

impl Text {
    /// Parses the operand.
    ///
    /// # Errors
    /// 2, 4, 14.
    pub(super) fn parse(spec: Value<'_>) -> Result<Text> {
        let Value::Document(d) = spec else { bail!(code::BAD_VALUE, "$text expects an object, not {}", spec.type_name()) };
        let string = |name: &str, v: Value<'_>| match v {
            Value::String(s) => Ok(s.to_owned()),
            v => Err(model::MongoError::type_mismatch(format!("{name} must be a string, not {}", v.type_name()))),
        };
        let boolean = |name: &str| match d.field(name) {
            Value::Missing => Ok(false),
            Value::Bool(b) => Ok(b),
            v => Err(model::MongoError::type_mismatch(format!("{name} must be a boolean, not {}", v.type_name()))),
        };
        let search = match d.field("$search") {
            Value::Missing => bail!(code::NO_SUCH_KEY, "Missing expected field \"$search\""),
            v => string("$search", v)?,
        };
        let language = match d.field("$language") {
            Value::Missing => None,
            v => Some(string("$language", v)?),
        };
        let text = Text {
            search,
            language,
            case_sensitive: boolean("$caseSensitive")?,
            diacritic_sensitive: boolean("$diacriticSensitive")?,
        };
        if let Some((name, _)) =
            d.iter().find(|(n, _)| !matches!(*n, "$search" | "$language" | "$caseSensitive" | "$diacriticSensitive"))
        {
            bail!(code::BAD_VALUE, "extra fields in $text: {name}");
        }
        if let Some(l) = text.language.as_deref().filter(|l| !LANGUAGES.contains(&l.to_lowercase().as_str())) {
            bail!(code::BAD_VALUE, "$language specified in $text query is not supported: {l}");
        }
        Ok(text)
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
            assert_eq!(Text::parse(Value::Document(spec.doc())).err().map(|e| e.code()), wanted, "{spec:?}");
        }
    }
}
