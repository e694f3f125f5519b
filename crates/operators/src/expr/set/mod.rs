//! Set expressions: arrays as sets. Elements are equal when they compare equal (numbers across
//! types, strings by the operation's collation); results contain the first of equal elements, in
//! input order.

crate::expr_family!(
    all_elements_true,
    any_element_true,
    set_difference,
    set_equals,
    set_intersection,
    set_is_subset,
    set_union,
);

use model::{Array, Collate, Value};

/// A set of values, equal as MongoDB compares them.
pub(crate) struct Members<'c> {
    keys: rustc_hash::FxHashSet<Vec<u8>>,
    collate: Option<&'c dyn Collate>,
    scratch: Vec<u8>,
}

impl<'c> Members<'c> {
    /// The empty set.
    pub(crate) fn new(collate: Option<&'c dyn Collate>) -> Members<'c> {
        Members {
            keys: rustc_hash::FxHashSet::default(),
            collate,
            scratch: Vec::new(),
        }
    }
    /// The elements of an array.
    pub(crate) fn of(array: Array<'_>, collate: Option<&'c dyn Collate>) -> Members<'c> {
        let mut members = Members::new(collate);
        for v in array.iter() {
            members.insert(&v);
        }
        members
    }
    fn key(&mut self, v: &Value<'_>) {
        self.scratch.clear();
        model::compare::equality_key(v, self.collate, &mut self.scratch);
    }
    /// Adds a value; false when the set has an equal one.
    pub(crate) fn insert(&mut self, v: &Value<'_>) -> bool {
        self.key(v);
        !self.keys.contains(&self.scratch) && self.keys.insert(self.scratch.clone())
    }
    /// True when the set has an equal value.
    pub(crate) fn contains(&mut self, v: &Value<'_>) -> bool {
        self.key(v);
        self.keys.contains(&self.scratch)
    }
    /// Number of distinct values.
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }
}
