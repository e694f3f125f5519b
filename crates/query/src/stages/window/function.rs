//! The contract of a window function and the context of its parser. Must not know: which functions
//! there are.

use super::bounds::Bounds;
use super::partition::Partition;
use crate::exec::{ExecContext, SortPattern};
use model::{Doc, OwnedValue, Result, Value, bail};
use operators::RequiredFields;
use operators::expr::ParseCx;

/// A parsed window function.
pub(in crate::stages) trait WindowFn: Send + Sync {
    /// Its values, one for each document of the partition.
    ///
    /// # Errors
    /// The function's own.
    fn compute(&self, part: &Partition, exec: &ExecContext<'_>) -> Result<Vec<OwnedValue>>;

    /// Adds the fields that it uses, besides those of the order.
    fn reads(&self, reads: &mut RequiredFields);
}

/// The context for parsing a window function.
pub(in crate::stages) struct WindowContext<'c, 'e> {
    pub(in crate::stages) cx: &'c mut ParseCx<'e>,
    pub(in crate::stages) sort: Option<&'c SortPattern>,
    /// Whether `sortBy` was given. A `sortBy` without fields gives no order, but allows bounds by
    /// documents.
    pub(in crate::stages) has_sort_by: bool,
    /// The `window` argument, when given.
    pub(in crate::stages) window: Option<Doc<'c>>,
}

impl WindowContext<'_, '_> {
    /// The bounds; the whole partition when no window was given.
    ///
    /// # Errors
    /// Those of [`Bounds::parse`].
    pub(in crate::stages) fn bounds(&mut self) -> Result<Bounds> {
        match self.window {
            Some(w) => Bounds::parse(self.cx, w, self.sort, self.has_sort_by),
            None => Ok(Bounds::WHOLE),
        }
    }

    /// Refuses a window.
    ///
    /// # Errors
    /// `number`.
    pub(in crate::stages) fn no_window(&self, name: &str, number: i32) -> Result<()> {
        if self.window.is_some() {
            bail!(number, "{name} does not accept a 'window' field");
        }
        Ok(())
    }
}

/// Parses the argument of a window function; the name is for error messages.
pub(super) type Parse =
    fn(&mut WindowContext<'_, '_>, &'static str, Value<'_>) -> Result<Box<dyn WindowFn>>;
