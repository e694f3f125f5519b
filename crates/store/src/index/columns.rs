//! A column index (docs/adr/0103-column-segments.md): the paths that its segments have. It has no
//! entries. Must not know: what segments hold.

use super::{EntryKind, Index};
use crate::format::segment::WriteNumber;
use model::{FieldPath, Result};

/// The field that stands for all top-level fields.
const ALL_PATHS: &str = "$**";

impl Index {
    /// Whether it is a column index: it has no entries, but segments of columns.
    pub fn is_columns(&self) -> bool {
        matches!(self.form, EntryKind::Columns)
    }

    /// The paths of its segments; `None` for all top-level fields.
    pub fn column_paths(&self) -> Option<impl Iterator<Item = &FieldPath>> {
        let all = self.fields.iter().any(|f| f.path.as_str() == ALL_PATHS);
        (!all).then(|| self.fields.iter().map(|f| &f.path))
    }

    /// The path of the column that contains the values at a path: the path itself, or one above it;
    /// `None` without such a column. Each segment has `_id`.
    pub fn column_over(&self, path: &FieldPath) -> Option<FieldPath> {
        let first = || FieldPath::new(path.first());
        let Some(mut paths) = self.column_paths() else {
            return Some(first());
        };
        let is_over = |p: &&FieldPath| {
            let both = p.parts().iter().zip(path.parts());
            p.parts().len() <= path.parts().len() && both.clone().all(|(a, b)| a.name == b.name)
        };
        if path.first() == "_id" {
            return Some(first());
        }
        let all: Vec<&FieldPath> = paths.by_ref().filter(is_over).collect();
        all.into_iter().max_by_key(|p| p.parts().len()).cloned()
    }

    /// The number of the next write; `new_run` gives the number of the server run when it is not
    /// known yet.
    ///
    /// # Errors
    /// Those of `new_run`.
    pub(crate) fn next_touch(&self, new_run: &dyn Fn() -> Result<u32>) -> Result<WriteNumber> {
        self.state.touches.next(new_run)
    }
}
