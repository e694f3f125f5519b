//! Which values are indexed at which paths. Must not know: how a definition is written.

use crate::analysis::Analyzer;
use std::collections::BTreeMap;

/// How a path and the paths below it are indexed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mapping {
    /// Fields without a mapping are indexed by the types of their values.
    pub(crate) dynamic: bool,
    pub(crate) kinds: Vec<FieldKind>,
    pub(crate) fields: BTreeMap<String, Mapping>,
    /// The mapping of the documents of an array, which are indexed separately.
    pub(crate) elements: Option<Box<Mapping>>,
}

/// How values of a field are indexed.
#[derive(Clone, Debug)]
pub(crate) enum FieldKind {
    String(StringField),
    Token {
        lowercase: bool,
    },
    Autocomplete(Analyzer),
    Number(NumberField),
    Date,
    Boolean,
    ObjectId,
    Uuid,
    /// Points; with `shapes` lines and areas, too.
    Geo {
        shapes: bool,
    },
    /// Number of the vector field.
    Vector(usize),
}

/// Analyzers of a string field, and what is stored of its texts.
#[derive(Clone, Debug)]
pub(crate) struct StringField {
    pub(crate) index: Analyzer,
    pub(crate) search: Analyzer,
    /// Further analyzers of the same text, by name.
    pub(crate) multi: Vec<(String, StringField)>,
    pub(crate) kept: TextOptions,
}

/// What is stored of the texts of a string field.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextOptions {
    /// Most characters of a text; longer ones are not indexed.
    pub(crate) longest: usize,
    /// Whether short texts count for more.
    pub(crate) norms: bool,
    /// Whether the frequency of a term in a text is stored.
    pub(crate) frequencies: bool,
    /// Whether its positions are stored.
    pub(crate) positions: bool,
    /// Whether texts can be highlighted.
    pub(crate) shown: bool,
    /// Whether terms are weighted by BM25; else all have the same weight.
    pub(crate) weighed: bool,
}

impl Default for TextOptions {
    fn default() -> TextOptions {
        TextOptions {
            longest: usize::MAX,
            norms: true,
            frequencies: true,
            positions: true,
            shown: true,
            weighed: true,
        }
    }
}

/// Which numbers of a field are indexed, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NumberField {
    /// Fractions are dropped.
    pub(crate) whole: bool,
    pub(crate) integers: bool,
    pub(crate) doubles: bool,
}

impl Default for NumberField {
    fn default() -> NumberField {
        NumberField {
            whole: false,
            integers: true,
            doubles: true,
        }
    }
}

impl StringField {
    /// The same analyzer for indexing and searching, with everything stored.
    pub(crate) fn of(analyzer: &Analyzer) -> StringField {
        StringField {
            index: analyzer.clone(),
            search: analyzer.clone(),
            multi: Vec::new(),
            kept: TextOptions::default(),
        }
    }
}

impl FieldKind {
    /// Whether documents can be sorted by the field.
    pub(crate) fn is_sorted(&self) -> bool {
        matches!(
            self,
            FieldKind::Token { .. }
                | FieldKind::Number(_)
                | FieldKind::Date
                | FieldKind::Boolean
                | FieldKind::ObjectId
                | FieldKind::Uuid
        )
    }
}

impl Mapping {
    /// The mapping of a path below this one, created if it does not exist.
    pub(crate) fn at(&mut self, path: &str) -> &mut Mapping {
        path.split('.').fold(self, |at, part| {
            at.fields.entry(part.to_owned()).or_default()
        })
    }

    /// The mapping of array elements at a path below this one.
    pub(crate) fn elements_at(&self, path: &str) -> Option<&Mapping> {
        let (first, rest) = path.split_once('.').unwrap_or((path, ""));
        let next = self.fields.get(first)?;
        let elements = next.elements.as_deref();
        if rest.is_empty() {
            return elements;
        }
        let within = elements.and_then(|e| e.elements_at(rest));
        within.or_else(|| next.elements_at(rest))
    }

    /// True when elements of any array are indexed separately.
    pub(crate) fn has_elements(&self) -> bool {
        self.elements.is_some() || self.fields.values().any(Mapping::has_elements)
    }
}
