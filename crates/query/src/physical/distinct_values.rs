//! The distinct values at a path; of arrays, each element counts as a value.

use model::path::PathPart;
use model::{Collate, FieldPath, OwnedValue, Result, Value, bail};
use rustc_hash::FxHashSet;

/// The values found so far.
#[derive(Default)]
pub(super) struct DistinctValues {
    seen: FxHashSet<Vec<u8>>,
    list: Vec<OwnedValue>,
    bytes: usize,
}

impl DistinctValues {
    /// Collects the values of a document; true when one of them is new.
    ///
    /// # Errors
    /// 17217 when they become too large for a reply.
    pub(super) fn collect(
        &mut self,
        doc: Value<'_>,
        path: &FieldPath,
        collate: Option<&dyn Collate>,
    ) -> Result<bool> {
        let before = self.list.len();
        self.collect_at(doc, path.parts(), collate)?;
        Ok(self.list.len() > before)
    }

    /// Collects the value at the path of a document without an array on the path.
    ///
    /// # Errors
    /// As [`DistinctValues::collect`].
    pub(super) fn collect_value(
        &mut self,
        v: Value<'_>,
        collate: Option<&dyn Collate>,
    ) -> Result<()> {
        self.collect_at(v, &[], collate)
    }

    /// Adds the values found in later documents.
    ///
    /// # Errors
    /// As [`DistinctValues::collect`].
    pub(super) fn merge(
        &mut self,
        later: &DistinctValues,
        collate: Option<&dyn Collate>,
    ) -> Result<()> {
        let mut values = later.list.iter();
        values.try_for_each(|v| self.add(v.get(), collate))
    }

    /// The values, sorted.
    pub(super) fn sort(&mut self, collate: Option<&dyn Collate>) -> &[OwnedValue] {
        self.list
            .sort_by(|a, b| model::compare_with(&a.get(), &b.get(), collate));
        &self.list
    }

    /// Descends into arrays on the path, and into an array at its end once.
    fn collect_at(
        &mut self,
        v: Value<'_>,
        path: &[PathPart],
        collate: Option<&dyn Collate>,
    ) -> Result<()> {
        let Some((head, rest)) = path.split_first() else {
            return match v {
                Value::Array(a) => a.iter().try_for_each(|v| self.add(v, collate)),
                v => self.add(v, collate),
            };
        };
        match v {
            Value::Document(d) => self.collect_at(d.field(&head.name), rest, collate),
            Value::Array(a) => {
                if let Some(i) = head.index
                    && let Some(v) = a.get(i)
                {
                    self.collect_at(v, rest, collate)?;
                }
                a.iter()
                    .filter(|v| matches!(v, Value::Document(_)))
                    .try_for_each(|v| self.collect_at(v, path, collate))
            }
            _ => Ok(()),
        }
    }

    fn add(&mut self, v: Value<'_>, collate: Option<&dyn Collate>) -> Result<()> {
        if v.is_missing() {
            return Ok(());
        }
        let mut key = Vec::new();
        model::compare::equality_key(&v, collate, &mut key);
        if self.seen.insert(key) {
            self.bytes += v.payload_bytes() + 8;
            if self.bytes > model::bson::MAX_DOCUMENT_BYTES {
                bail!(17217, "distinct too big, 16mb cap");
            }
            self.list.push(v.to_owned_value());
        }
        Ok(())
    }
}
