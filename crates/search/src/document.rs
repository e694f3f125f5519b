//! From a document to its index entries, by the definition. Must not know: queries.

use crate::definition::{Definition, FieldKind, Mapping, StringField};
use crate::place;
use crate::schema::{
    ColumnKind, Fields, MULTI, TERM_BYTES_MAX, TermKind, key_of, shown_path, whole_value,
};
use crate::vector;
use model::{Doc, Value};
use std::collections::{BTreeMap, BTreeSet};
use tantivy::TantivyDocument;
use tantivy::schema::OwnedValue;
use tantivy::tokenizer::{PreTokenizedString, Token};

/// Position gap between the texts of an array, so that no phrase spans two texts.
const GAP: u32 = 100;
/// Deepest nesting that is indexed.
const DEPTH_MAX: usize = 100;

/// Converts documents; elements of arrays that are indexed separately come before their document.
struct Converter<'d> {
    definition: &'d Definition,
    fields: &'d Fields,
    id: &'d [u8],
    dynamic: Vec<FieldKind>,
    done: Vec<TantivyDocument>,
}

struct Builder<'c, 'd> {
    converter: &'c mut Converter<'d>,
    tokens: Vec<Token>,
    /// The position of the next text of each path.
    ends: BTreeMap<String, u32>,
    lengths: BTreeMap<String, i64>,
    columns: BTreeMap<String, Vec<OwnedValue>>,
    vectors: BTreeMap<usize, Vec<u8>>,
    paths: BTreeSet<String>,
}

/// The index entries of a document with the encoded `_id` `id`. Entries of its elements come before
/// it: an element belongs to the first document after it.
pub(crate) fn convert(
    definition: &Definition,
    fields: &Fields,
    id: &[u8],
    doc: Doc<'_>,
) -> Vec<TantivyDocument> {
    let mut c = Converter {
        dynamic: definition.dynamic_kinds(),
        definition,
        fields,
        id,
        done: Vec::new(),
    };
    let has_elements = definition.has_elements();
    c.convert("", doc, &definition.root, has_elements.then_some(""), 0);
    c.done
}

impl Converter<'_> {
    /// Converts a document whose fields are at `path` or below; `element_of` is the array of which
    /// it is an element.
    fn convert(
        &mut self,
        path: &str,
        doc: Doc<'_>,
        mapping: &Mapping,
        element_of: Option<&str>,
        depth: usize,
    ) {
        let (fields, id) = (self.fields, self.id);
        let mut b = Builder {
            converter: self,
            tokens: Vec::new(),
            ends: BTreeMap::new(),
            lengths: BTreeMap::new(),
            columns: BTreeMap::new(),
            vectors: BTreeMap::new(),
            paths: BTreeSet::new(),
        };
        b.document(path, doc, mapping, depth);
        if let Some(array) = element_of {
            b.tokens.push(token(TermKind::Element.text(array, ""), 0));
        }
        let done = b.finish(fields, id);
        self.done.push(done);
    }
}

fn token(text: String, position: u32) -> Token {
    Token {
        position: position as usize,
        text,
        ..Token::default()
    }
}

impl Builder<'_, '_> {
    fn finish(mut self, fields: &Fields, id: &[u8]) -> TantivyDocument {
        let mut out = TantivyDocument::default();
        out.add_bytes(fields.id, id);
        for path in &self.paths {
            self.tokens.push(token(TermKind::Exists.text(path, ""), 0));
        }
        let text = PreTokenizedString {
            text: String::new(),
            tokens: self.tokens,
        };
        out.add_pre_tokenized_text(fields.terms, text);
        for (path, length) in self.lengths {
            self.columns
                .insert(ColumnKind::Length.key(&path), vec![OwnedValue::I64(length)]);
        }
        let object: BTreeMap<String, OwnedValue> = self
            .columns
            .into_iter()
            .map(|(key, values)| (key, OwnedValue::Array(values)))
            .collect();
        out.add_object(fields.values, object);
        for (n, bytes) in self.vectors {
            if let Some(field) = fields.vectors.get(n) {
                out.add_bytes(*field, &bytes);
            }
        }
        out
    }

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
                        kinds: self.converter.dynamic.clone(),
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
                && let Some(field) = self.converter.definition.vectors.get(*n)
                && let Some(bytes) = vector::encode(&v, field.dimensions)
            {
                self.vectors.insert(*n, bytes);
                self.paths.insert(path.to_owned());
            }
        }
        if let (Some(elements), Value::Array(list)) = (&mapping.elements, v)
            && depth <= DEPTH_MAX
        {
            let array = shown_path(path);
            for element in list.iter().filter_map(|v| v.as_doc()) {
                let key = key_of(array, array);
                self.converter
                    .convert(&key, element, elements, Some(array), depth + 1);
            }
            self.paths.insert(path.to_owned());
        }
        match v {
            Value::Document(d) => {
                if let Some(shapes) = mapping.kinds.iter().find_map(|k| match k {
                    FieldKind::Geo { shapes } => Some(*shapes),
                    _ => None,
                }) {
                    self.place(path, d, shapes);
                }
                self.document(path, d, mapping, depth);
            }
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
            (FieldKind::Number(field), v) if v.is_number() => {
                let is_whole = matches!(v, Value::Int32(_) | Value::Int64(_));
                if !(if is_whole {
                    field.integers
                } else {
                    field.doubles
                }) {
                    return;
                }
                let n = v.as_f64().unwrap_or(f64::NAN);
                let n = if field.whole { n.trunc() } else { n };
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

    /// A GeoJSON object.
    fn place(&mut self, path: &str, d: Doc<'_>, shapes: bool) {
        let point = place::point_of(d);
        if let Some((lng, lat)) = point {
            self.column(ColumnKind::Longitude, path, OwnedValue::F64(lng));
            self.column(ColumnKind::Latitude, path, OwnedValue::F64(lat));
        }
        let shape = shapes.then(|| place::write_shape(d)).flatten();
        if point.is_some() || shape.is_some() {
            self.paths.insert(path.to_owned());
        }
        if let Some(text) = shape {
            self.column(ColumnKind::Shape, path, OwnedValue::Str(text));
        }
    }

    fn text(&mut self, path: &str, text: &str, field: &StringField) {
        if text.chars().count() > field.kept.longest {
            return;
        }
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

    /// Adds a whole string to a column, for sorting.
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
