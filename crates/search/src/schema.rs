//! How documents are stored in tantivy. One text field has the terms of all paths: a letter for the
//! kind, the path, a zero, the token; so paths need not be known beforehand, and each has its own
//! counts. One JSON field has the columns of all paths: numbers, dates, strings and lengths of
//! texts. Vectors are bytes, in one field each. Must not know: definitions, queries.

use model::Value;
use tantivy::Term;
use tantivy::schema::{
    BytesOptions, FAST, Field, IndexRecordOption, JsonObjectOptions, STORED, Schema,
    TextFieldIndexing, TextOptions,
};

/// Separates a path from a token.
pub(crate) const END_OF_PATH: char = '\0';
/// Between a path and the name of a further analyzer.
pub(crate) const MULTI: char = '\u{1}';
/// Between the path of an array whose elements are indexed separately and a path below it.
pub(crate) const ELEMENT: char = '\u{3}';
/// Most bytes of an indexed token, including kind and path.
pub(crate) const TERM_BYTES_MAX: usize = 32_766;

/// What a term means for a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TermKind {
    /// A token of an analyzed text.
    Text,
    /// A gram for autocomplete.
    Gram,
    /// A whole string.
    Token,
    Boolean,
    ObjectId,
    Uuid,
    /// The path has a null.
    Null,
    /// The path has an indexed value.
    Exists,
    /// An element of the array at the path; with an empty path, a whole document.
    Element,
}

impl TermKind {
    fn letter(self) -> char {
        match self {
            TermKind::Text => 'T',
            TermKind::Gram => 'A',
            TermKind::Token => 'K',
            TermKind::Boolean => 'B',
            TermKind::ObjectId => 'O',
            TermKind::Uuid => 'U',
            TermKind::Null => 'Z',
            TermKind::Exists => 'E',
            TermKind::Element => 'Q',
        }
    }

    /// The prefix of all terms of a path.
    pub(crate) fn prefix(self, path: &str) -> String {
        format!("{}{path}{END_OF_PATH}", self.letter())
    }

    /// The prefix of the terms of all paths that begin with `path`.
    pub(crate) fn open_prefix(self, path: &str) -> String {
        format!("{}{path}", self.letter())
    }

    /// A term.
    pub(crate) fn text(self, path: &str, token: &str) -> String {
        format!("{}{path}{END_OF_PATH}{token}", self.letter())
    }
}

/// What a column stores for a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnKind {
    Number,
    /// Milliseconds.
    Date,
    /// Number of tokens of a text.
    Length,
    /// Whole strings.
    Token,
    Boolean,
    ObjectId,
    Uuid,
    /// Degrees of points.
    Longitude,
    Latitude,
    /// Geometries, as text.
    Shape,
}

impl ColumnKind {
    /// The key in the JSON field, without dots: they would split it.
    pub(crate) fn key(self, path: &str) -> String {
        let letter = match self {
            ColumnKind::Number => 'N',
            ColumnKind::Date => 'D',
            ColumnKind::Length => 'L',
            ColumnKind::Token => 'S',
            ColumnKind::Boolean => 'B',
            ColumnKind::ObjectId => 'I',
            ColumnKind::Uuid => 'U',
            ColumnKind::Longitude => 'X',
            ColumnKind::Latitude => 'Y',
            ColumnKind::Shape => 'G',
        };
        format!("{letter}{}", path.replace(['.', MULTI], "\u{2}"))
    }

    /// The name of the column in tantivy.
    pub(crate) fn name(self, path: &str) -> String {
        format!("values.{}", self.key(path))
    }
}

/// The key of a path inside the elements at `scope`; an empty scope is the whole document.
pub(crate) fn key_of(scope: &str, path: &str) -> String {
    match scope {
        "" => path.to_owned(),
        scope => format!("{scope}{ELEMENT}{path}"),
    }
}

/// The scope and the path of a key.
pub(crate) fn split_key(key: &str) -> (&str, &str) {
    key.split_once(ELEMENT).unwrap_or(("", key))
}

/// The path of a key, for error messages.
pub(crate) fn shown_path(key: &str) -> &str {
    split_key(key).1
}

/// The fields of an index.
#[derive(Clone, Debug)]
pub(crate) struct Fields {
    /// The encoded `_id`.
    pub(crate) id: Field,
    pub(crate) terms: Field,
    pub(crate) values: Field,
    pub(crate) vectors: Vec<Field>,
}

impl Fields {
    /// The schema with the given number of vector fields.
    pub(crate) fn build(vectors: usize) -> (Schema, Fields) {
        let mut schema = Schema::builder();
        let indexing = TextFieldIndexing::default()
            .set_tokenizer("raw")
            .set_fieldnorms(false)
            .set_index_option(IndexRecordOption::WithFreqsAndPositions);
        let fields = Fields {
            id: schema.add_bytes_field("id", BytesOptions::default().set_indexed() | STORED),
            terms: schema.add_text_field(
                "terms",
                TextOptions::default().set_indexing_options(indexing),
            ),
            values: schema.add_json_field("values", JsonObjectOptions::from(FAST)),
            vectors: (0..vectors)
                .map(|n| schema.add_bytes_field(&vector_name(n), FAST))
                .collect(),
        };
        (schema.build(), fields)
    }

    /// A term of `terms`.
    pub(crate) fn term(&self, kind: TermKind, path: &str, token: &str) -> Term {
        Term::from_field_text(self.terms, &kind.text(path, token))
    }
}

/// The name of vector field number `n`.
pub(crate) fn vector_name(n: usize) -> String {
    format!("vector{n}")
}

/// The term of a value that is compared as a whole; `None` for other values.
pub(crate) fn whole_value(v: &Value<'_>) -> Option<(TermKind, String)> {
    Some(match v {
        Value::String(s) => (TermKind::Token, (*s).to_owned()),
        Value::Bool(b) => (TermKind::Boolean, b.to_string()),
        Value::ObjectId(id) => (TermKind::ObjectId, id.to_hex()),
        Value::Binary(b) if b.subtype == 4 => (TermKind::Uuid, hex(b.bytes)),
        Value::Null => (TermKind::Null, String::new()),
        _ => return None,
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
