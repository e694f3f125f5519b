//! The parsed form of a filter: a tree that the planner may inspect. Knows only the structure;
//! parsing and matching are in the operators' files and in `eval`.

use super::bitwise::Bits;
use super::comparison::{Compare, In};
use super::element::TypeSet;
use super::geo::Geo;
use super::json_schema::Schema;
use super::modulo::Mod;
use super::regex::Pattern;
use super::script::Where;
use super::text::Text;
use crate::expr::BoxExpr;
use model::FieldPath;

/// A predicate on a whole document.
pub enum Node {
    /// Matches everything.
    AlwaysTrue,
    /// Matches nothing.
    AlwaysFalse,
    /// All nodes match; never empty.
    And(Vec<Node>),
    /// Any node matches.
    Or(Vec<Node>),
    /// No node matches.
    Nor(Vec<Node>),
    /// The node does not match (`$ne`, `$nin`, `$not`, `$exists: false`).
    Not(Box<Node>),
    /// Some value at the path passes the test; arrays on the path and at its end are traversed.
    Field {
        /// The path.
        path: FieldPath,
        /// The test of its values.
        test: Test,
    },
    /// `$expr`.
    Expr(BoxExpr),
    /// `$jsonSchema`.
    JsonSchema(Box<Schema>),
    /// `$sampleRate`: passes with this probability.
    SampleRate(f64),
    /// `$where`.
    Where(Box<Where>),
    /// `$text`: only an index can answer it.
    Text(Box<Text>),
}

/// A predicate on one value.
pub enum Test {
    /// `$eq`, `$gt`, `$gte`, `$lt`, `$lte`.
    Compare(Compare),
    /// `$in`.
    In(In),
    /// `$exists: true`.
    Exists,
    /// `$type`.
    Type(TypeSet),
    /// `$regex`, or a regular expression in place of a value.
    Regex(Pattern),
    /// `$mod`.
    Mod(Mod),
    /// `$size`.
    Size(i64),
    /// `$bitsAllSet` and its siblings.
    Bits(Bits),
    /// `$elemMatch` with a filter on documents.
    ElemMatchObject(Box<Node>),
    /// `$elemMatch` with tests on the element itself.
    ElemMatchValue(Vec<Test>),
    /// All tests pass for the same value (only below `$elemMatch`).
    All(Vec<Test>),
    /// The test fails (only below `$elemMatch`).
    Not(Box<Test>),
    /// `$geoWithin`, `$geoIntersects`, `$near`, `$nearSphere`.
    Geo(Box<Geo>),
    /// Matches nothing (only below `$elemMatch`).
    Never,
}

impl Test {
    /// True when absence inside arrays on the path matches.
    pub fn finds_absent(&self) -> bool {
        match self {
            Test::Compare(c) => c.finds_absent,
            Test::In(i) => i.finds_absent,
            _ => false,
        }
    }

    /// True when the test reads an array as a whole instead of its elements.
    pub(super) fn wants_whole_array(&self) -> bool {
        matches!(
            self,
            Test::Size(_) | Test::ElemMatchObject(_) | Test::ElemMatchValue(_)
        )
    }
}

impl Node {
    /// The conjunction of nodes, flattened.
    pub(super) fn all(mut nodes: Vec<Node>) -> Node {
        nodes.retain(|n| !matches!(n, Node::AlwaysTrue));
        match nodes.len() {
            0 => Node::AlwaysTrue,
            1 => nodes.pop().unwrap_or(Node::AlwaysTrue),
            _ => Node::And(nodes),
        }
    }

    /// The negation.
    pub(super) fn negate(self) -> Node {
        match self {
            Node::AlwaysTrue => Node::AlwaysFalse,
            Node::AlwaysFalse => Node::AlwaysTrue,
            n => Node::Not(Box::new(n)),
        }
    }

    /// Calls `each` for this node and each node below it, except for document filters of
    /// `$elemMatch`.
    pub fn visit<'n>(&'n self, each: &mut dyn FnMut(&'n Node)) {
        each(self);
        match self {
            Node::And(v) | Node::Or(v) | Node::Nor(v) => v.iter().for_each(|n| n.visit(each)),
            Node::Not(n) => n.visit(each),
            _ => {}
        }
    }
}
