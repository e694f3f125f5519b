//! What an index contains: the checked mappings of a search index or fields of a vector index. Must
//! not know: how either is stored.

mod fields;
mod mapping;

pub(crate) use mapping::{FieldKind, Mapping, StringField, TextOptions};

use crate::analysis::{Analyzer, Analyzers};
use crate::args::Args;
use crate::error::invalid;
use crate::schema::{MULTI, shown_path, split_key};
use crate::stored::StoredSource;
use crate::synonyms::SynonymMapping;
use crate::vector::{Quantization, Similarity, VectorField};
use fields::{Defaults, parse_document};
use mapping::NumberField;
use model::{Doc, DocBuf, Result, Value};

/// Most dimensions of a vector.
const DIMENSIONS_MAX: i64 = 8192;
/// The default analyzer of strings.
const DEFAULT_ANALYZER: &str = "lucene.standard";

/// A validated definition.
#[derive(Clone, Debug)]
pub struct Definition {
    /// The mapping of whole documents.
    pub(crate) root: Mapping,
    /// Vector fields, in the order of the index.
    pub(crate) vectors: Vec<VectorField>,
    /// Elements of arrays are indexed separately.
    has_elements: bool,
    /// A vector index, for `$vectorSearch` and not for `$search`.
    is_vector: bool,
    /// How strings of fields without a mapping are analyzed.
    pub(crate) dynamic: StringField,
    /// Which fields are stored source.
    pub(crate) stored: StoredSource,
    pub(crate) synonyms: Vec<SynonymMapping>,
}

impl Definition {
    /// Checks a definition; `kind` is the index's type, `search` or `vectorSearch`.
    ///
    /// # Errors
    /// 8 UnknownError: an unknown field, type, analyzer or option.
    pub fn parse(kind: &str, spec: Doc<'_>) -> Result<Definition> {
        match kind {
            "search" => Definition::parse_search(spec),
            "vectorSearch" => Definition::parse_vector(spec),
            _ => Err(invalid(format!(
                "\"type\" must be search or vectorSearch, not \"{kind}\""
            ))),
        }
    }

    /// True for an index of `$vectorSearch`.
    pub fn is_vector(&self) -> bool {
        self.is_vector
    }

    fn parse_search(spec: Doc<'_>) -> Result<Definition> {
        let allowed = [
            "mappings",
            "analyzer",
            "searchAnalyzer",
            "analyzers",
            "storedSource",
            "synonyms",
        ];
        let args = Args::new("definition", Value::Document(spec), &allowed)?;
        let defaults = Defaults {
            analyzers: Analyzers::parse(args.get("analyzers"))?,
            index: args
                .string("analyzer")?
                .unwrap_or(DEFAULT_ANALYZER)
                .to_owned(),
            search: args.string("searchAnalyzer")?.map(str::to_owned),
        };
        let dynamic = defaults.string_field("definition", None, None)?;
        let v = args.required("mappings")?;
        let mappings = Args::new("mappings", v, &["dynamic", "fields"])?;
        let root = parse_document(&mappings, &defaults)?;
        if !root.dynamic && root.fields.is_empty() {
            return Err(invalid(
                "\"mappings\" must be dynamic or name at least one field",
            ));
        }
        Ok(Definition {
            has_elements: root.has_elements(),
            root,
            vectors: Vec::new(),
            is_vector: false,
            dynamic,
            stored: StoredSource::parse(args.get("storedSource"))?,
            synonyms: parse_synonyms(&args, &defaults)?,
        })
    }

    fn parse_vector(spec: Doc<'_>) -> Result<Definition> {
        let args = Args::new("definition", Value::Document(spec), &["fields"])?;
        let v = args.required("fields")?;
        let Value::Array(list) = v else {
            return Err(args.wrong_type("fields", "an array", v));
        };
        let (mut root, mut vectors) = (Mapping::default(), Vec::new());
        for (n, v) in list.iter().enumerate() {
            let field = format!("fields[{n}]");
            let allowed = [
                "type",
                "path",
                "numDimensions",
                "similarity",
                "quantization",
            ];
            let args = Args::new(&field, v, &allowed)?;
            args.required("type")?;
            let path = args.as_string("path", args.required("path")?)?;
            let at = root.at(path);
            if !at.kinds.is_empty() {
                return Err(invalid(format!(
                    "\"{field}.path\": {path} is defined twice"
                )));
            }
            match args.word("type", &["vector", "filter"])? {
                Some("vector") => {
                    at.kinds.push(FieldKind::Vector(vectors.len()));
                    vectors.push(parse_vector_field(&args, path)?);
                }
                _ => at.kinds.extend(filter_kinds()),
            }
        }
        if vectors.is_empty() {
            return Err(invalid("\"fields\" must have at least one vector field"));
        }
        Ok(Definition {
            root,
            has_elements: false,
            vectors,
            is_vector: true,
            dynamic: StringField::of(&Analyzer::standard()),
            stored: StoredSource::Undefined,
            synonyms: Vec::new(),
        })
    }

    /// The stored-source fields of a document; `None` when none are defined.
    pub fn stored_source(&self, doc: Doc<'_>) -> Option<DocBuf> {
        let is_defined = self.stored != StoredSource::Undefined;
        is_defined.then(|| self.stored.cut(doc))
    }

    /// The field kinds indexed at a path: those of its mapping, or those of dynamic mappings.
    pub(crate) fn kinds_at(&self, key: &str) -> Vec<FieldKind> {
        let (scope, path) = split_key(key);
        let (mut at, path) = match scope {
            "" => (&self.root, path),
            scope => match self.root.elements_at(scope) {
                Some(at) => (at, path.get(scope.len() + 1..).unwrap_or_default()),
                None => return Vec::new(),
            },
        };
        for part in path.split('.') {
            match at.fields.get(part) {
                Some(next) => at = next,
                None if at.dynamic => return self.dynamic_kinds(),
                None => return Vec::new(),
            }
        }
        at.kinds.clone()
    }

    /// True when the elements of the array at a path are indexed separately.
    pub(crate) fn has_elements_at(&self, path: &str) -> bool {
        self.root.elements_at(path).is_some()
    }

    /// True when elements of any array are indexed separately.
    pub(crate) fn has_elements(&self) -> bool {
        self.has_elements
    }

    /// What is stored of texts at a path, also for one of its further analyzers.
    pub(crate) fn text_options(&self, key: &str) -> TextOptions {
        let (path, multi) = match key.split_once(MULTI) {
            Some((path, multi)) => (path, Some(multi)),
            None => (key, None),
        };
        let field = self.string_at(path, multi).ok().flatten();
        field.map_or_else(TextOptions::default, |f| f.kept)
    }

    /// True when whole strings at a path are stored in lower case.
    pub(crate) fn lowercases(&self, path: &str) -> bool {
        let lowercase = |k: &FieldKind| matches!(k, FieldKind::Token { lowercase: true });
        self.kinds_at(path).iter().any(lowercase)
    }

    /// How values of fields without a mapping are indexed.
    pub(crate) fn dynamic_kinds(&self) -> Vec<FieldKind> {
        vec![
            FieldKind::String(self.dynamic.clone()),
            FieldKind::Number(NumberField::default()),
            FieldKind::Date,
            FieldKind::Boolean,
            FieldKind::ObjectId,
            FieldKind::Uuid,
        ]
    }

    /// The string field at a path, or one of its further analyzers.
    pub(crate) fn string_at(&self, path: &str, multi: Option<&str>) -> Result<Option<StringField>> {
        let mut strings = self.kinds_at(path).into_iter().filter_map(|k| match k {
            FieldKind::String(s) => Some(s),
            _ => None,
        });
        let found = strings.next();
        let Some(name) = multi else {
            return Ok(found);
        };
        let multi = found.and_then(|s| s.multi.into_iter().find(|(n, _)| n == name));
        multi.map(|(_, s)| Some(s)).ok_or_else(|| {
            invalid(format!(
                "\"path.multi\": {} has no multi analyzer \"{name}\"",
                shown_path(path)
            ))
        })
    }
}

/// The field kinds that a filter of `$vectorSearch` may compare.
fn filter_kinds() -> [FieldKind; 6] {
    [
        FieldKind::Token { lowercase: false },
        FieldKind::Number(NumberField::default()),
        FieldKind::Date,
        FieldKind::Boolean,
        FieldKind::ObjectId,
        FieldKind::Uuid,
    ]
}

fn parse_vector_field(args: &Args<'_>, path: &str) -> Result<VectorField> {
    args.required("numDimensions")?;
    args.required("similarity")?;
    let dimensions = args
        .integer("numDimensions", 1, DIMENSIONS_MAX)?
        .unwrap_or(1);
    let similarity = args.word("similarity", &["cosine", "euclidean", "dotProduct"])?;
    let quantization = args.word("quantization", &["none", "scalar", "binary"])?;
    Ok(VectorField {
        path: path.to_owned(),
        dimensions: usize::try_from(dimensions).unwrap_or(1),
        similarity: match similarity {
            Some("euclidean") => Similarity::Euclidean,
            Some("dotProduct") => Similarity::DotProduct,
            _ => Similarity::Cosine,
        },
        quantization: match quantization {
            Some("scalar") => Quantization::Scalar,
            Some("binary") => Quantization::Binary,
            _ => Quantization::None,
        },
    })
}

/// `synonyms: [{name, analyzer, source: {collection}}]`.
fn parse_synonyms(args: &Args<'_>, defaults: &Defaults) -> Result<Vec<SynonymMapping>> {
    let list = match args.get("synonyms") {
        None => return Ok(Vec::new()),
        Some(Value::Array(list)) => list,
        Some(v) => return Err(args.wrong_type("synonyms", "an array", v)),
    };
    let mut all: Vec<SynonymMapping> = Vec::new();
    for (n, v) in list.iter().enumerate() {
        let path = format!("synonyms[{n}]");
        let args = Args::new(&path, v, &["name", "analyzer", "source"])?;
        let name = args.as_string("name", args.required("name")?)?;
        let analyzer = args.as_string("analyzer", args.required("analyzer")?)?;
        let source = Args::new(
            &args.name("source"),
            args.required("source")?,
            &["collection"],
        )?;
        let collection = source.as_string("collection", source.required("collection")?)?;
        if name.is_empty() || collection.is_empty() || all.iter().any(|m| m.name == name) {
            return Err(invalid(format!(
                "\"{path}\": name and source.collection cannot be empty, and no two names the same"
            )));
        }
        all.push(SynonymMapping {
            name: name.to_owned(),
            collection: collection.to_owned(),
            analyzer: defaults.analyzers.find(&args.name("analyzer"), analyzer)?,
        });
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::doc;

    fn parse_error(kind: &str, spec: DocBuf) -> (i32, String) {
        let e = Definition::parse(kind, spec.doc()).expect_err("refused");
        (e.code(), e.message().to_owned())
    }

    #[test]
    fn bad_definitions_are_refused_with_what_is_wrong() {
        for (kind, spec, part) in [
            ("search", doc! {}, "mappings\" is required"),
            ("search", doc! { "mappings": {} }, "must be dynamic"),
            (
                "search",
                doc! { "mappings": { "dynamic": 1i32 } },
                "a boolean",
            ),
            (
                "search",
                doc! { "mappings": { "fields": { "a": { "type": "noun" } } } },
                "\"noun\"",
            ),
            (
                "search",
                doc! { "analyzer": "lucene.klingon", "mappings": { "dynamic": true } },
                "lucene.klingon",
            ),
            (
                "search",
                doc! { "bogus": 1i32 },
                "Unrecognized field \"bogus\"",
            ),
            ("vectorSearch", doc! { "fields": [] }, "at least one vector"),
            (
                "vectorSearch",
                doc! { "fields": [{ "type": "vector", "path": "v", "numDimensions": 8193i32,
                "similarity": "cosine" }] },
                "between 1 and 8192",
            ),
            ("columns", doc! {}, "search or vectorSearch"),
        ] {
            let (code, message) = parse_error(kind, spec);
            assert_eq!(code, 8);
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn named_fields_have_their_kinds_and_others_those_of_their_values() {
        let spec = doc! { "mappings": { "dynamic": true, "fields": {
        "a": { "type": "document", "fields": { "b": { "type": "number" } } } } } };
        let d = Definition::parse("search", spec.doc()).expect("a definition");
        assert_eq!(d.kinds_at("a.b").len(), 1);
        assert!(d.kinds_at("a.c").is_empty(), "a is not dynamic");
        assert_eq!(d.kinds_at("x.y").len(), 6);
    }
}
