//! Named fields arranged by path.

use super::find::ElemMatch;
use crate::RequiredFields;
use crate::expr::BoxExpr;
use model::path::PathPart;
use model::{MongoError, Result};

/// The projection of one field.
pub(super) enum Field {
    /// Kept (inclusion) or dropped (exclusion).
    Named,
    /// Computed from the original document.
    Computed(BoxExpr),
    /// `$elemMatch` of `find`.
    ElemMatch(ElemMatch),
    /// `$slice` of `find`: kept in both modes, cut afterwards.
    Sliced,
    /// Fields named below it.
    Below(Tree),
}

/// The fields named at one level, in the order of the specification.
#[derive(Default)]
pub(super) struct Tree {
    fields: Vec<(String, Field)>,
    has_computed: bool,
}

impl Tree {
    pub(super) fn fields(&self) -> &[(String, Field)] {
        &self.fields
    }

    pub(super) fn get(&self, name: &[u8]) -> Option<&Field> {
        self.fields
            .iter()
            .find(|(n, _)| n.as_bytes() == name)
            .map(|(_, f)| f)
    }

    /// True when the tree has only plain names at the top level.
    pub(super) fn is_flat(&self) -> bool {
        self.fields.iter().all(|(_, f)| matches!(f, Field::Named))
    }

    /// True when a field of the tree is computed.
    pub(super) fn has_computed(&self) -> bool {
        self.has_computed
    }

    /// Puts a field at a path.
    ///
    /// # Errors
    /// 31249 when a parent path is already set, 31250 when this path or one below it is.
    pub(super) fn insert(&mut self, path: &[PathPart], field: Field) -> Result<()> {
        let Some((head, rest)) = path.split_first() else {
            return Ok(());
        };
        self.has_computed |= matches!(field, Field::Computed(_) | Field::ElemMatch(_));
        let known = self.fields.iter().position(|(n, _)| *n == head.name);
        let at = match known {
            Some(_) if rest.is_empty() => {
                return Err(MongoError::new(
                    31250,
                    format!("Path collision at {}", head.name),
                ));
            }
            Some(i) => i,
            None if rest.is_empty() => {
                self.fields.push((head.name.clone(), field));
                return Ok(());
            }
            None => {
                self.fields
                    .push((head.name.clone(), Field::Below(Tree::default())));
                self.fields.len() - 1
            }
        };
        match self.fields.get_mut(at) {
            Some((_, Field::Below(t))) => t.insert(rest, field),
            _ => {
                let remaining: Vec<&str> = rest.iter().map(|p| p.name.as_str()).collect();
                Err(MongoError::new(
                    31249,
                    format!(
                        "Path collision at {} remaining portion {}",
                        head.name,
                        remaining.join(".")
                    ),
                ))
            }
        }
    }

    /// Removes a plainly named top-level field.
    pub(super) fn remove(&mut self, name: &str) {
        self.fields
            .retain(|(n, f)| n != name || !matches!(f, Field::Named));
    }

    /// Adds the fields that this level and the levels below read; with `replaced` also the computed
    /// fields themselves, whose position matters. A name with fields below it is read, because
    /// documents there get new fields.
    pub(super) fn reads(&self, replaced: bool, reads: &mut RequiredFields) {
        for (name, f) in &self.fields {
            match f {
                Field::Named | Field::Sliced | Field::ElemMatch(_) => reads.add_field(name),
                Field::Computed(e) => {
                    e.reads(reads);
                    if replaced {
                        reads.add_field(name);
                    }
                }
                Field::Below(tree) => {
                    reads.add_field(name);
                    tree.reads_expressions(reads);
                }
            }
        }
    }

    fn reads_expressions(&self, reads: &mut RequiredFields) {
        for (_, f) in &self.fields {
            match f {
                Field::Computed(e) => e.reads(reads),
                Field::Below(tree) => tree.reads_expressions(reads),
                Field::Named | Field::Sliced | Field::ElemMatch(_) => {}
            }
        }
    }

    /// Every plainly named path.
    pub(super) fn paths(&self, above: &str, out: &mut Vec<String>) {
        for (name, f) in &self.fields {
            let path = if above.is_empty() {
                name.clone()
            } else {
                format!("{above}.{name}")
            };
            match f {
                Field::Below(t) => t.paths(&path, out),
                _ => out.push(path),
            }
        }
    }
}
