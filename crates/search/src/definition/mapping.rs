//! What is indexed at which paths. Must not know: how a definition is written.

use crate::analysis::Analyzer;
use std::collections::BTreeMap;

/// What is indexed at a path and below it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mapping {
    /// Fields that are not named are indexed by their types.
    pub(crate) dynamic: bool,
    pub(crate) kinds: Vec<FieldKind>,
    pub(crate) fields: BTreeMap<String, Mapping>,
    /// What is indexed of each document of an array, apart from the others.
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
    /// Points; where it is said, lines and areas too.
    Geo {
        shapes: bool,
    },
    /// Number of the vector field.
    Vector(usize),
}

/// Analysers of a string field and what is kept of its texts.
#[derive(Clone, Debug)]
pub(crate) struct StringField {
    pub(crate) index: Analyzer,
    pub(crate) search: Analyzer,
    /// Further analysers of the same text, by name.
    pub(crate) multi: Vec<(String, StringField)>,
    pub(crate) kept: TextOptions,
}

/// What is kept of the texts of a string field.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextOptions {
    /// Longer texts are not indexed, characters.
    pub(crate) longest: usize,
    /// Short texts count for more.
    pub(crate) norms: bool,
    /// How often a term is in a text.
    pub(crate) frequencies: bool,
    /// Where it is.
    pub(crate) positions: bool,
    /// Texts can be shown as highlights.
    pub(crate) shown: bool,
    /// Terms are weighed by BM25, else all the same.
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

/// Which numbers of a field are indexed, and as what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NumberField {
    /// Without their fractions.
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
    /// Analysed the same when indexed and when searched, all kept.
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
    /// True when documents can be sorted by it.
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
    /// The mapping of a path below, made where there is none.
    pub(crate) fn at(&mut self, path: &str) -> &mut Mapping {
        path.split('.').fold(self, |at, part| {
            at.fields.entry(part.to_owned()).or_default()
        })
    }

    /// What is indexed of the elements at a path below.
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

    /// True when elements of arrays are indexed apart anywhere.
    pub(crate) fn has_elements(&self) -> bool {
        self.elements.is_some() || self.fields.values().any(Mapping::has_elements)
    }
}
