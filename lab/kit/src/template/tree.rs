//! A value of any shape in a document.

use std::collections::BTreeMap;

/// The variables of a statement's `let`.
pub type Variables = BTreeMap<String, Tree>;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Tree {
    /// Nothing.
    Null,
    /// True or false.
    Bool(bool),
    /// 32 bits.
    Int(i32),
    /// 64 bits.
    Long(i64),
    /// A binary fraction.
    Double(f64),
    /// Milliseconds since 1970.
    Date(i64),
    /// Text.
    Text(String),
    /// Values in order.
    Array(Vec<Tree>),
    /// Named values in order.
    Object(Vec<(String, Tree)>),
}

impl Tree {
    /// An integer in the shortest type that holds it.
    pub fn integer(number: i64) -> Self {
        i32::try_from(number).map_or(Self::Long(number), Self::Int)
    }

    /// Bytes of the values, without names.
    pub fn logical_bytes(&self) -> usize {
        match self {
            Self::Null | Self::Bool(_) => 1,
            Self::Int(_) => 4,
            Self::Long(_) | Self::Double(_) | Self::Date(_) => 8,
            Self::Text(text) => text.len(),
            Self::Array(items) => items.iter().map(Self::logical_bytes).sum(),
            Self::Object(fields) => fields.iter().map(|(_, value)| value.logical_bytes()).sum(),
        }
    }
}
