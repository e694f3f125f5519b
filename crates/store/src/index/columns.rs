//! A column index (docs/adr/0103-column-segments.md): which paths its segments have. It has no
//! entries. Must not know: what segments hold.

use super::{Form, Index};
use crate::format::segment::Touch;
use model::{FieldPath, Result};

/// The field that stands for all top-level fields.
const ALL_PATHS: &str = "$**";

impl Index {
    /// It is a column index: no entries, but segments of columns.
    pub fn is_columns(&self) -> bool {
        matches!(self.form, Form::Columns)
    }

    /// The paths its segments have; `None` for all top-level fields.
    pub fn column_paths(&self) -> Option<impl Iterator<Item = &FieldPath>> {
        let all = self.fields.iter().any(|f| f.path.as_str() == ALL_PATHS);
        (!all).then(|| self.fields.iter().map(|f| &f.path))
    }

    /// Whether its segments may have a path: each has `_id`.
    pub fn has_column(&self, path: &FieldPath) -> bool {
        match self.column_paths() {
            Some(mut paths) => path.as_str() == "_id" || paths.any(|p| p == path),
            None => path.parts().len() == 1,
        }
    }

    /// The number of the next write; `new_run` gives that of the run when there is none yet.
    ///
    /// # Errors
    /// Those of `new_run`.
    pub(crate) fn next_touch(&self, new_run: &dyn Fn() -> Result<u32>) -> Result<Touch> {
        self.state.touches.next(new_run)
    }
}
