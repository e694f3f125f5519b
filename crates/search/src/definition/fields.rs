//! Reads the mappings of a definition: documents, fields and their types. Must not know: the other
//! parts of a definition.

use super::mapping::{FieldKind, Mapping, NumberField, StringField, TextOptions};
use crate::analysis::{Analyzer, Analyzers, GramAnchor};
use crate::args::Args;
use crate::error::invalid;
use model::{Result, Value};

/// Defaults of fields.
pub(super) struct Defaults {
    pub(super) analyzers: Analyzers,
    pub(super) index: String,
    pub(super) search: Option<String>,
}

impl Defaults {
    /// A string field whose analyzers are given by name.
    pub(super) fn string_field(
        &self,
        path: &str,
        index: Option<&str>,
        search: Option<&str>,
    ) -> Result<StringField> {
        // The definition's search analyzer is only for fields that name no analyzer of their own.
        let name = index.unwrap_or(&self.index);
        let search = search
            .or(self.search.as_deref().filter(|_| index.is_none()))
            .unwrap_or(name);
        Ok(StringField {
            index: self.analyzers.find(path, name)?,
            search: self.analyzers.find(path, search)?,
            multi: Vec::new(),
            kept: TextOptions::default(),
        })
    }
}

/// The mappings of a document: `{dynamic, fields}`.
pub(super) fn parse_document(args: &Args<'_>, defaults: &Defaults) -> Result<Mapping> {
    let mut mapping = Mapping {
        dynamic: args.boolean("dynamic")?.unwrap_or(false),
        ..Mapping::default()
    };
    let Some(v) = args.get("fields") else {
        return Ok(mapping);
    };
    let Value::Document(fields) = v else {
        return Err(args.wrong_type("fields", "a document", v));
    };
    for (name, v) in fields.iter() {
        let path = format!("{}.fields.{name}", args.path);
        let kinds = match v {
            Value::Array(list) if !list.is_empty() => list.iter().collect(),
            Value::Array(_) => {
                return Err(invalid(format!("\"{path}\" cannot be an empty array")));
            }
            v => vec![v],
        };
        let at = mapping.at(name);
        for v in kinds {
            parse_field(&path, v, defaults, at)?;
        }
    }
    Ok(mapping)
}

fn parse_field(path: &str, v: Value<'_>, defaults: &Defaults, at: &mut Mapping) -> Result<()> {
    let kind = match v {
        Value::Document(d) => d.field("type").as_str(),
        _ => {
            return Err(invalid(format!(
                "\"{path}\" must be a document, not {}",
                v.type_name()
            )));
        }
    };
    let kind = kind.ok_or_else(|| invalid(format!("\"{path}.type\" is required, a string")))?;
    let plain = |kind| Args::new(path, v, &["type"]).map(|_| kind);
    let kind = match kind {
        "document" => {
            let args = Args::new(path, v, &["type", "dynamic", "fields"])?;
            let inner = parse_document(&args, defaults)?;
            at.dynamic = inner.dynamic;
            at.fields = inner.fields;
            return Ok(());
        }
        "embeddedDocuments" => {
            let args = Args::new(path, v, &["type", "dynamic", "fields"])?;
            let inner = parse_document(&args, defaults)?;
            if !inner.dynamic && inner.fields.is_empty() {
                return Err(invalid(format!(
                    "\"{path}\" must be dynamic or name at least one field"
                )));
            }
            at.elements = Some(Box::new(inner));
            return Ok(());
        }
        "string" => FieldKind::String(parse_string(path, v, defaults)?),
        "token" => {
            let args = Args::new(path, v, &["type", "normalizer"])?;
            let normalizer = args.word("normalizer", &["none", "lowercase"])?;
            FieldKind::Token {
                lowercase: normalizer == Some("lowercase"),
            }
        }
        "autocomplete" => parse_autocomplete(path, v, defaults)?,
        "number" | "numberFacet" => parse_number(path, v)?,
        // Facets need no field type of their own: the ordinary types serve them.
        "stringFacet" => plain(FieldKind::Token { lowercase: false })?,
        "date" | "dateFacet" => plain(FieldKind::Date)?,
        "boolean" => plain(FieldKind::Boolean)?,
        "objectId" => plain(FieldKind::ObjectId)?,
        "uuid" => plain(FieldKind::Uuid)?,
        "geo" => FieldKind::Geo {
            shapes: Args::new(path, v, &["type", "indexShapes"])?
                .boolean("indexShapes")?
                .unwrap_or(false),
        },
        other => {
            return Err(invalid(format!(
                "\"{path}.type\": fields of type \"{other}\" are not supported"
            )));
        }
    };
    at.kinds.push(kind);
    Ok(())
}

fn parse_autocomplete(path: &str, v: Value<'_>, defaults: &Defaults) -> Result<FieldKind> {
    let allowed = [
        "type",
        "analyzer",
        "tokenization",
        "minGrams",
        "maxGrams",
        "foldDiacritics",
    ];
    let args = Args::new(path, v, &allowed)?;
    let bound = |field: &str, or: usize| -> Result<usize> {
        let n = args.integer(field, 1, 255)?;
        Ok(n.and_then(|n| usize::try_from(n).ok()).unwrap_or(or))
    };
    let (min, max) = (bound("minGrams", 2)?, bound("maxGrams", 15)?);
    if min > max {
        return Err(invalid(format!(
            "\"{}\" is {min}, which is more than maxGrams, {max}",
            args.name("minGrams")
        )));
    }
    let cut = args.word("tokenization", &["edgeGram", "rightEdgeGram", "nGram"])?;
    let cut = match cut {
        Some("nGram") => GramAnchor::All,
        Some("rightEdgeGram") => GramAnchor::Ends,
        _ => GramAnchor::Beginnings,
    };
    let fold = args.boolean("foldDiacritics")?.unwrap_or(true);
    let words = match args.string("analyzer")? {
        Some(name) => defaults.analyzers.find(&args.name("analyzer"), name)?,
        None => Analyzer::standard(),
    };
    Ok(FieldKind::Autocomplete(
        words.with_grams(min, max, cut, fold),
    ))
}

fn parse_number(path: &str, v: Value<'_>) -> Result<FieldKind> {
    let allowed = ["type", "representation", "indexIntegers", "indexDoubles"];
    let args = Args::new(path, v, &allowed)?;
    let field = NumberField {
        whole: args.word("representation", &["int64", "double"])? == Some("int64"),
        integers: args.boolean("indexIntegers")?.unwrap_or(true),
        doubles: args.boolean("indexDoubles")?.unwrap_or(true),
    };
    if !field.integers && !field.doubles {
        return Err(invalid(format!(
            "\"{path}\": indexIntegers and indexDoubles cannot both be false"
        )));
    }
    Ok(FieldKind::Number(field))
}

/// Options of a string field, except its type and `multi`.
const STRING_OPTIONS: [&str; 7] = [
    "analyzer",
    "searchAnalyzer",
    "ignoreAbove",
    "indexOptions",
    "norms",
    "similarity",
    "store",
];

fn parse_string(path: &str, v: Value<'_>, defaults: &Defaults) -> Result<StringField> {
    let mut allowed = vec!["type", "multi"];
    allowed.extend(STRING_OPTIONS);
    let args = Args::new(path, v, &allowed)?;
    let mut field = one_string(&args, defaults)?;
    let Some(v) = args.get("multi") else {
        return Ok(field);
    };
    let Value::Document(multi) = v else {
        return Err(args.wrong_type("multi", "a document", v));
    };
    allowed.retain(|name| *name != "multi");
    for (name, v) in multi.iter() {
        let path = format!("{}.{name}", args.name("multi"));
        let inner = Args::new(&path, v, &allowed)?;
        inner.word("type", &["string"])?;
        let inner = one_string(&inner, defaults)?;
        field.multi.push((name.to_owned(), inner));
    }
    Ok(field)
}

fn one_string(args: &Args<'_>, defaults: &Defaults) -> Result<StringField> {
    let (index, search) = (args.string("analyzer")?, args.string("searchAnalyzer")?);
    let mut field = defaults.string_field(&args.path, index, search)?;
    let longest = args.integer("ignoreAbove", 1, i64::from(i32::MAX))?;
    let options = ["docs", "freqs", "positions", "offsets"];
    let options = args.word("indexOptions", &options)?;
    let similarity = match args.get("similarity") {
        None => None,
        Some(v) => {
            let inner = Args::new(&args.name("similarity"), v, &["type"])?;
            inner.required("type")?;
            inner.word("type", &["bm25", "boolean"])?
        }
    };
    field.kept = TextOptions {
        longest: longest
            .and_then(|n| usize::try_from(n).ok())
            .unwrap_or(usize::MAX),
        norms: args.word("norms", &["include", "omit"])? != Some("omit"),
        frequencies: options != Some("docs"),
        positions: !matches!(options, Some("docs" | "freqs")),
        shown: args.boolean("store")?.unwrap_or(true),
        weighed: similarity != Some("boolean"),
    };
    Ok(field)
}
