//! From a document to what the index keeps of it, by the definition. Must not know: queries.

use crate::definition::{Definition, FieldKind, Mapping, StringField};
use crate::schema::{ColumnKind, Fields, MULTI, TERM_BYTES_MAX, TermKind, whole_value};
use crate::vector;
use model::{Doc, Value};
use std::collections::{BTreeMap, BTreeSet};
use tantivy::TantivyDocument;
use tantivy::schema::OwnedValue;
use tantivy::tokenizer::{PreTokenizedString, Token};

/// Tokens between the texts of an array, so that no phrase reaches over.
const GAP: u32 = 100;
/// Deepest nesting that is followed.
const DEPTH_MAX: usize = 100;

struct Builder<'d> {
    definition: &'d Definition,
    dynamic: Vec<FieldKind>,
    tokens: Vec<Token>,
    /// Where the next text of a path begins.
    ends: BTreeMap<String, u32>,
    lengths: BTreeMap<String, i64>,
    columns: BTreeMap<String, Vec<OwnedValue>>,
    vectors: BTreeMap<usize, Vec<u8>>,
    paths: BTreeSet<String>,
}

/// What the index keeps of a document; `id` is its encoded `_id`.
pub(crate) fn convert(
    definition: &Definition,
    fields: &Fields,
    id: &[u8],
    doc: Doc<'_>,
) -> TantivyDocument {
    let mut b = Builder {
        dynamic: definition.dynamic_kinds(),
        definition,
        tokens: Vec::new(),
        ends: BTreeMap::new(),
        lengths: BTreeMap::new(),
        columns: BTreeMap::new(),
        vectors: BTreeMap::new(),
        paths: BTreeSet::new(),
    };
    b.document("", doc, &definition.root, 0);
    let mut out = TantivyDocument::default();
    out.add_bytes(fields.id, id);
    for path in &b.paths {
        b.tokens.push(token(TermKind::Exists.text(path, ""), 0));
    }
    let text = PreTokenizedString {
        text: String::new(),
        tokens: b.tokens,
    };
    out.add_pre_tokenized_text(fields.terms, text);
    for (path, length) in b.lengths {
        b.columns
            .insert(ColumnKind::Length.key(&path), vec![OwnedValue::I64(length)]);
    }
    let object: BTreeMap<String, OwnedValue> = b
        .columns
        .into_iter()
        .map(|(key, values)| (key, OwnedValue::Array(values)))
        .collect();
    out.add_object(fields.values, object);
    for (n, bytes) in b.vectors {
        if let Some(field) = fields.vectors.get(n) {
            out.add_bytes(*field, &bytes);
        }
    }
    out
}

fn token(text: String, position: u32) -> Token {
    Token {
        position: position as usize,
        text,
        ..Token::default()
    }
}

impl Builder<'_> {
    fn document(&mut self, path: &str, doc: Doc<'_>, mapping: &Mapping, depth: usize) {
        if depth > DEPTH_MAX {
            return;
        }
        for (name, v) in doc.iter() {
            let path = match path {
                "" => name.to_owned(),
                path => format!("{path}.{name}"),
            };
            match mapping.fields.get(name) {
                Some(named) => self.value(&path, v, named, depth + 1),
                None if mapping.dynamic => {
                    let unnamed = Mapping {
                        dynamic: true,
                        kinds: self.dynamic.clone(),
                        ..Mapping::default()
                    };
                    self.value(&path, v, &unnamed, depth + 1);
                }
                None => {}
            }
        }
    }

    fn value(&mut self, path: &str, v: Value<'_>, mapping: &Mapping, depth: usize) {
        for kind in &mapping.kinds {
            if let FieldKind::Vector(n) = kind
                && let Some(field) = self.definition.vectors.get(*n)
                && let Some(bytes) = vector::encode(&v, field.dimensions)
            {
                self.vectors.insert(*n, bytes);
                self.paths.insert(path.to_owned());
            }
        }
        match v {
            Value::Document(d) => self.document(path, d, mapping, depth),
            Value::Array(list) if depth <= DEPTH_MAX => list
                .iter()
                .for_each(|v| self.value(path, v, mapping, depth + 1)),
            Value::Null if !mapping.kinds.is_empty() => self.term(TermKind::Null, path, "", 0),
            v => mapping.kinds.iter().for_each(|k| self.scalar(path, v, k)),
        }
    }

    fn scalar(&mut self, path: &str, v: Value<'_>, kind: &FieldKind) {
        match (kind, v) {
            (FieldKind::String(field), Value::String(s)) => self.text(path, s, field),
            (FieldKind::Autocomplete(analyzer), Value::String(s)) => {
                for t in analyzer.tokens(s) {
                    self.term(TermKind::Gram, path, &t.text, t.position);
                }
            }
            (FieldKind::Token { lowercase: true }, Value::String(s)) => {
                let lower = s.to_lowercase();
                self.term(TermKind::Token, path, &lower, 0);
                self.column(ColumnKind::Token, path, OwnedValue::Str(lower));
            }
            (FieldKind::Number, v) if v.is_number() => {
                let n = v.as_f64().unwrap_or(f64::NAN);
                self.column(ColumnKind::Number, path, OwnedValue::F64(n));
            }
            (FieldKind::Date, Value::Date(ms)) => {
                self.column(ColumnKind::Date, path, OwnedValue::I64(ms));
            }
            (FieldKind::Token { .. }, Value::String(_))
            | (FieldKind::Boolean, Value::Bool(_))
            | (FieldKind::ObjectId, Value::ObjectId(_))
            | (FieldKind::Uuid, Value::Binary(_)) => {
                if let Some((kind, text)) = whole_value(&v) {
                    self.term(kind, path, &text, 0);
                    self.whole_column(kind, path, text);
                }
            }
            _ => return,
        }
        self.paths.insert(path.to_owned());
    }

    fn text(&mut self, path: &str, text: &str, field: &StringField) {
        let start = self.ends.get(path).copied().unwrap_or(0);
        let tokens = field.index.tokens(text);
        let end = tokens.last().map_or(start, |t| start + t.position + 1);
        self.ends.insert(path.to_owned(), end + GAP);
        *self.lengths.entry(path.to_owned()).or_default() += tokens.len() as i64;
        for t in tokens {
            self.term(TermKind::Text, path, &t.text, start + t.position);
        }
        for (name, multi) in &field.multi {
            self.text(&format!("{path}{MULTI}{name}"), text, multi);
        }
    }

    fn term(&mut self, kind: TermKind, path: &str, text: &str, position: u32) {
        let text = kind.text(path, text);
        if text.len() <= TERM_BYTES_MAX {
            self.tokens.push(token(text, position));
        }
    }

    /// For sorting.
    fn whole_column(&mut self, kind: TermKind, path: &str, text: String) {
        let (kind, v) = match kind {
            TermKind::Token => (ColumnKind::Token, OwnedValue::Str(text)),
            TermKind::ObjectId => (ColumnKind::ObjectId, OwnedValue::Str(text)),
            TermKind::Uuid => (ColumnKind::Uuid, OwnedValue::Str(text)),
            TermKind::Boolean => {
                let v = OwnedValue::I64(i64::from(text == "true"));
                (ColumnKind::Boolean, v)
            }
            _ => return,
        };
        self.column(kind, path, v);
    }

    fn column(&mut self, kind: ColumnKind, path: &str, v: OwnedValue) {
        self.columns.entry(kind.key(path)).or_default().push(v);
    }
}
