//! The paths to read from documents, as a tree of names, so that each document is read in one pass.
//! Must not know: what the values are for.

use super::column::Column;
use model::path::PathPart;
use model::{Doc, DocWriter, FieldPath, Tag};

/// Most names at one level; a path with a further name gets no column.
const NAMES_MAX: usize = 64;

/// Paths with the number of their column.
#[derive(Default, Clone)]
pub struct Paths {
    roots: Vec<Name>,
    list: Vec<FieldPath>,
}

/// One component of paths.
#[derive(Clone)]
pub(super) struct Name {
    pub(super) name: Box<str>,
    /// The column of the path that ends here.
    pub(super) column: Option<usize>,
    pub(super) below: Vec<Name>,
}

impl Paths {
    /// The column of a path, which is added when it is new; `None` when there are too many paths.
    pub fn add(&mut self, path: &FieldPath) -> Option<usize> {
        if let Some(at) = self.list.iter().position(|p| p == path) {
            return Some(at);
        }
        let column = self.list.len();
        add_below(&mut self.roots, path.parts(), column)?;
        self.list.push(path.clone());
        Some(column)
    }

    /// The paths, in the order of their columns.
    pub fn list(&self) -> &[FieldPath] {
        &self.list
    }

    /// The tree of names.
    pub(super) fn roots(&self) -> &[Name] {
        &self.roots
    }

    /// Number of columns.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// True without paths.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Appends the values of a document, one to each column.
    ///
    /// # Output
    /// False when a path leads through an array: then the appended values must not be used.
    pub fn take(&self, doc: Doc<'_>, columns: &mut [Column]) -> bool {
        let whole = walk(&self.roots, doc, columns);
        let most = columns.iter().map(Column::len).max().unwrap_or(0);
        let even = columns.iter().all(|c| c.len() == most);
        debug_assert!(even, "one value in each column");
        whole
    }

    /// Writes a document in which each path has the value of a row.
    pub(super) fn write(&self, w: &mut DocWriter<'_>, columns: &[Column], row: usize) {
        write_below(&self.roots, w, columns, row);
    }
}

fn add_below(names: &mut Vec<Name>, parts: &[PathPart], column: usize) -> Option<()> {
    let (head, rest) = parts.split_first()?;
    let at = match names.iter().position(|n| *n.name == *head.name) {
        Some(at) => at,
        None if names.len() == NAMES_MAX => return None,
        None => {
            names.push(Name {
                name: head.name.as_str().into(),
                column: None,
                below: Vec::new(),
            });
            names.len() - 1
        }
    };
    let name = names.get_mut(at)?;
    if rest.is_empty() {
        name.column = Some(column);
        return Some(());
    }
    add_below(&mut name.below, rest, column)
}

fn walk(names: &[Name], doc: Doc<'_>, columns: &mut [Column]) -> bool {
    let (mut found, mut left, mut whole) = (0u64, names.len(), true);
    for e in doc.elements() {
        if left == 0 {
            break;
        }
        let named = |n: &&Name| n.name.as_bytes() == e.name;
        let Some((i, name)) = names.iter().enumerate().find(|(_, n)| named(n)) else {
            continue;
        };
        // Of several fields of one name the first counts.
        if found & 1 << i != 0 {
            continue;
        }
        found |= 1 << i;
        left -= 1;
        if let Some(column) = name.column.and_then(|c| columns.get_mut(c)) {
            column.push_raw(e.tag, e.payload);
        }
        if name.below.is_empty() {
            continue;
        }
        let below = match e.tag {
            Tag::DOCUMENT => Doc::from_prefix(e.payload),
            _ => Doc::EMPTY,
        };
        whole &= e.tag != Tag::ARRAY;
        whole &= walk(&name.below, below, columns);
    }
    if left > 0 {
        let absent = names
            .iter()
            .enumerate()
            .filter(|(i, _)| found & 1 << i == 0);
        absent.for_each(|(_, name)| miss(name, columns));
    }
    whole
}

/// Appends missing values for a name and all names below it.
fn miss(name: &Name, columns: &mut [Column]) {
    if let Some(column) = name.column.and_then(|c| columns.get_mut(c)) {
        column.push_raw(Tag::MISSING, &[]);
    }
    name.below.iter().for_each(|n| miss(n, columns));
}

fn write_below(names: &[Name], w: &mut DocWriter<'_>, columns: &[Column], row: usize) {
    for name in names {
        // A name below a path is part of that path's value.
        match name.column.and_then(|c| columns.get(c)) {
            Some(column) => {
                let mut word = [0; 8];
                let (tag, payload) = column.payload(row, &mut word);
                if tag != Tag::MISSING {
                    w.put_raw(name.name.as_bytes(), tag, payload);
                }
            }
            None => write_below(&name.below, &mut w.doc(&name.name), columns, row),
        }
    }
}
