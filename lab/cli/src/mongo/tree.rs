//! Values of workload files as BSON.

use lab_kit::template::Tree;
use mongodb::bson::{Bson, DateTime, Document};

/// A value of a workload file.
pub(super) fn tree_bson(tree: &Tree) -> Bson {
    match tree {
        Tree::Null => Bson::Null,
        Tree::Bool(value) => Bson::Boolean(*value),
        Tree::Int(number) => Bson::Int32(*number),
        Tree::Long(number) => Bson::Int64(*number),
        Tree::Double(number) => Bson::Double(*number),
        Tree::Date(ms) => Bson::DateTime(DateTime::from_millis(*ms)),
        Tree::Text(text) => Bson::String(text.clone()),
        Tree::Array(items) => Bson::Array(items.iter().map(tree_bson).collect()),
        Tree::Object(_) => Bson::Document(tree_document(tree)),
    }
}

/// The tree as a document; empty if it is not an object.
pub(super) fn tree_document(tree: &Tree) -> Document {
    let fields = match tree {
        Tree::Object(fields) => fields.as_slice(),
        _ => &[],
    };
    fields
        .iter()
        .map(|(name, value)| (name.clone(), tree_bson(value)))
        .collect()
}
