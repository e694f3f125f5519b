//! Filters (`find`'s query language): parsed once, matched on raw documents without building trees.
//! Promises: matching allocates nothing on the common path; a planner can inspect the parsed form.
//! Must not know: indexes, plans, where documents come from.

mod absent;
mod array;
mod bitwise;
mod comparison;
mod element;
mod eval;
mod expression;
mod failure;
mod geo;
mod json_schema;
mod modulo;
mod node;
mod parse;
mod reads;
mod regex;
mod script;
mod text;
mod walk;

pub use absent::counts_as_null;
pub use bitwise::{Bits, BitsOp};
pub use comparison::{Compare, CompareOp, In};
pub use element::TypeSet;
pub use eval::Position;
pub(crate) use eval::element_matches;
pub use failure::explain_failure;
pub use geo::{
    Covering, EARTH_RADIUS_M, Geo, Near, Region, Shape, SpherePoint, Surface,
    check_measured_on_sphere, check_on_plane, check_on_sphere, failure_on_sphere, is_point_cell,
    stored_cells,
};
pub use json_schema::Schema;
pub use modulo::Mod;
pub(crate) use modulo::truncate;
pub use node::{Node, Test};
pub use regex::Pattern;
pub use script::Where;
pub use text::Text;

use crate::expr::ParseCx;
use crate::{Cx, Env};
use model::{Bump, Doc, FieldPath, Result, Value};

/// A parsed filter.
pub struct Filter {
    root: Node,
    /// True when the filter contains a `$text`.
    has_text: bool,
}

impl Filter {
    /// Parses a filter document.
    ///
    /// # Errors
    /// 2 BadValue for most mistakes; 9 FailedToParse, 14 TypeMismatch, 168 InvalidPipelineOperator
    /// and location codes listed with the operators; 15 Overflow when nested too deep.
    pub fn parse(cx: &mut ParseCx<'_>, spec: Doc<'_>) -> Result<Filter> {
        let root = parse::document(cx, spec, parse::FilterLevel::Top)?;
        let root = absent::apply_profile(cx.env.profile, root);
        let has_text = parse::check_ordering_predicates(&root)?;
        Ok(Filter { root, has_text })
    }

    /// Parses a filter where results cannot be ordered by distance: `$match`, array filters,
    /// `$pull`, projections.
    ///
    /// # Errors
    /// The errors of [`Filter::parse`], and 5626500 for `$near` and `$nearSphere`.
    pub fn parse_without_near(cx: &mut ParseCx<'_>, spec: Doc<'_>) -> Result<Filter> {
        let filter =
            parse::refusing_near(cx, |cx| parse::document(cx, spec, parse::FilterLevel::Top))?;
        let filter = absent::apply_profile(cx.env.profile, filter);
        let has_text = parse::check_ordering_predicates(&filter)?;
        Ok(Filter {
            root: filter,
            has_text,
        })
    }

    /// Parses a condition on one array element (`$pull`, array filters): operators apply to the
    /// element itself.
    ///
    /// # Errors
    /// The errors of [`Filter::parse`].
    pub(crate) fn parse_element_tests(cx: &mut ParseCx<'_>, spec: Doc<'_>) -> Result<Vec<Test>> {
        parse::refusing_near(cx, |cx| parse::element_tests(cx, spec))
    }

    /// The filter that matches everything.
    pub fn always_true() -> Filter {
        Filter {
            root: Node::AlwaysTrue,
            has_text: false,
        }
    }

    /// Whether the document matches.
    ///
    /// # Errors
    /// The errors of `$expr`'s expression; 51156 for regular expressions that take too long.
    ///
    /// # Cost
    /// Linear in the document for each predicate, worst case.
    pub fn matches<'a>(&'a self, doc: Doc<'a>, arena: &'a Bump, env: &Env) -> Result<bool> {
        eval::node(
            &self.root,
            doc,
            &Cx::new(arena, Value::Document(doc), env),
            None,
        )
    }

    /// Like [`Filter::matches`], with variables in scope (`let` of `$lookup`).
    ///
    /// # Errors
    /// The errors of [`Filter::matches`].
    pub fn matches_in<'a>(&'a self, cx: &Cx<'_, 'a>, doc: Doc<'a>) -> Result<bool> {
        eval::node(
            &self.root,
            doc,
            &Cx {
                root: Value::Document(doc),
                ..*cx
            },
            None,
        )
    }

    /// Matches and returns the index of the array element that matched: the value of the positional
    /// `$`.
    ///
    /// # Errors
    /// The errors of [`Filter::matches`].
    pub fn matches_with_position<'a>(
        &'a self,
        doc: Doc<'a>,
        arena: &'a Bump,
        env: &Env,
    ) -> Result<(bool, Option<usize>)> {
        let position = Position::default();
        let matched = eval::node(
            &self.root,
            doc,
            &Cx::new(arena, Value::Document(doc), env),
            Some(&position),
        )?;
        Ok((matched, position.get().filter(|_| matched)))
    }

    /// True when every document matches.
    pub fn is_always_true(&self) -> bool {
        matches!(self.root, Node::AlwaysTrue)
    }

    /// The parsed form.
    pub fn root(&self) -> &Node {
        &self.root
    }

    /// The `$near` by whose distance the result is ordered, and its path.
    pub fn near(&self) -> Option<(&FieldPath, &Near)> {
        let mut found = None;
        self.root.visit(&mut |n| {
            if let Node::Field {
                path,
                test: Test::Geo(g),
            } = n
                && let Geo::Near(near) = g.as_ref()
            {
                found = Some((path, near));
            }
        });
        found
    }

    /// The `$text` in the filter.
    pub fn text(&self) -> Option<&Text> {
        let mut found = None;
        if !self.has_text {
            return found;
        }
        self.root.visit(&mut |n| {
            if let Node::Text(t) = n {
                found = Some(t.as_ref());
            }
        });
        found
    }

    /// The value that `_id` must equal, if the filter requires one.
    pub fn id_equality(&self) -> Option<Value<'_>> {
        equality(&self.root, "_id")
    }

    /// The value that a field must equal, if the filter requires one.
    pub fn equality(&self, path: &FieldPath) -> Option<Value<'_>> {
        equality(&self.root, path.as_str())
    }
}

impl Node {
    /// Whether the document matches.
    ///
    /// # Errors
    /// The errors of [`Filter::matches`].
    pub(crate) fn matches<'a>(&'a self, cx: &Cx<'_, 'a>, doc: Doc<'a>) -> Result<bool> {
        eval::node(self, doc, cx, None)
    }
}

impl Test {
    /// Whether a value that is no array passes.
    ///
    /// # Errors
    /// The errors of [`Filter::matches`].
    pub(crate) fn passes<'a>(&'a self, cx: &Cx<'_, 'a>, v: Value<'a>) -> Result<bool> {
        eval::test(self, v, cx, None)
    }
}

fn equality<'n>(n: &'n Node, field: &str) -> Option<Value<'n>> {
    match n {
        Node::Field {
            path,
            test: Test::Compare(c),
        } if c.op == CompareOp::Eq && path.as_str() == field => Some(c.value.get()),
        Node::And(v) => v.iter().find_map(|n| equality(n, field)),
        _ => None,
    }
}

/// Calls `visit` for every value that an equality at `path` compares: elements of arrays, then the
/// arrays; `Missing` where a document lacks the field.
pub fn values_at<'a>(doc: Doc<'a>, path: &FieldPath, visit: &mut dyn FnMut(Value<'a>)) {
    let _ = walk::walk_doc(
        doc,
        path.parts(),
        walk::Leaf::Traverse,
        None,
        &mut |v, _| {
            visit(v);
            std::ops::ControlFlow::Continue(())
        },
    );
}

#[cfg(test)]
mod tests;
