//! The parsed form of a schema. Must not know: how it is parsed, how values are matched.

use crate::filter::element::TypeSet;
use crate::filter::regex::Pattern;
use model::{Decimal128, OwnedValue};

/// A parsed schema.
#[derive(Default)]
pub struct Schema {
    /// `type` or `bsonType`.
    pub(super) types: Option<TypeSet>,
    pub(super) numeric: Vec<Bound>,
    pub(super) multiple_of: Option<Decimal128>,
    pub(super) min_length: Option<u64>,
    pub(super) max_length: Option<u64>,
    pub(super) pattern: Option<Pattern>,
    pub(super) min_items: Option<u64>,
    pub(super) max_items: Option<u64>,
    pub(super) unique_items: bool,
    pub(super) items: Option<Items>,
    pub(super) additional_items: AdditionalRule,
    pub(super) min_properties: Option<u64>,
    pub(super) max_properties: Option<u64>,
    pub(super) required: Vec<String>,
    pub(super) properties: Vec<(String, Schema)>,
    pub(super) pattern_properties: Vec<(Pattern, Schema)>,
    pub(super) additional_properties: AdditionalRule,
    pub(super) dependencies: Vec<(String, Dependency)>,
    pub(super) allowed: Option<Vec<OwnedValue>>,
    pub(super) all_of: Vec<Schema>,
    pub(super) any_of: Option<Vec<Schema>>,
    pub(super) one_of: Option<Vec<Schema>>,
    pub(super) not: Option<Box<Schema>>,
    pub(super) encrypted: bool,
}

/// `minimum` or `maximum`.
pub(super) struct Bound {
    pub(super) is_minimum: bool,
    pub(super) exclusive: bool,
    pub(super) value: OwnedValue,
}

pub(super) enum Items {
    /// One schema for every element.
    Each(Box<Schema>),
    /// A schema for each position.
    Tuple(Vec<Schema>),
}

/// `additionalItems` and `additionalProperties`.
#[derive(Default)]
pub(super) enum AdditionalRule {
    #[default]
    Allowed,
    Forbidden,
    Schema(Box<Schema>),
}

pub(super) enum Dependency {
    Fields(Vec<String>),
    Schema(Box<Schema>),
}
