//! Field paths in expressions: `"$a.b"` and `"$$var.a.b"`. Arrays on a path are mapped over.

use super::node::Expr;
use crate::{Cx, VarId};
use model::path::PathPart;
use model::{Array, Bump, FieldPath, Result, Value};

/// `"$a.b"`: a path into the document.
pub struct CurrentPath(pub FieldPath);

impl Expr for CurrentPath {
    fn eval<'a>(&'a self, cx: &Cx<'_, 'a>) -> Result<Value<'a>> {
        Ok(walk(cx.root, self.0.parts(), cx.arena))
    }
    fn is_volatile(&self) -> bool {
        true
    }
    fn field_path(&self) -> Option<&FieldPath> {
        Some(&self.0)
    }
}

/// A path into a variable: `"$$var"` or `"$$var.a.b"`.
pub struct VarPath {
    /// The variable; `None` is ROOT.
    pub id: Option<VarId>,
    /// The path below it.
    pub path: Option<FieldPath>,
}

impl Expr for VarPath {
    fn eval<'a>(&'a self, cx: &Cx<'_, 'a>) -> Result<Value<'a>> {
        let base = self.id.map_or(cx.root, |id| cx.var(id));
        Ok(match &self.path {
            None => base,
            Some(p) => walk(base, p.parts(), cx.arena),
        })
    }
    fn is_volatile(&self) -> bool {
        true
    }
    /// The value of a variable is computed outside of this node.
    fn reads_more(&self) -> bool {
        self.id.is_none()
    }
}

/// `"$$SEARCH_META"` or `"$$SEARCH_META.a.b"`: metadata of all results of a search; missing without
/// a search.
pub(crate) struct SearchMeta(pub(crate) Option<FieldPath>);

impl Expr for SearchMeta {
    fn eval<'a>(&'a self, cx: &Cx<'_, 'a>) -> Result<Value<'a>> {
        let said = cx.meta.map_or(Value::Missing, |m| m.field("SEARCH_META"));
        Ok(match &self.0 {
            None => said,
            Some(p) => walk(said, p.parts(), cx.arena),
        })
    }
    fn is_volatile(&self) -> bool {
        true
    }
}

/// The value at a path. Arrays on the path are mapped over (elements that are not documents add
/// nothing); numeric components are field names here, never indexes.
pub fn walk<'a>(v: Value<'a>, path: &[PathPart], arena: &'a Bump) -> Value<'a> {
    let Some((head, rest)) = path.split_first() else {
        return v;
    };
    match v {
        Value::Document(d) => match d.get(&head.name) {
            Some(inner) => walk(inner, rest, arena),
            None => Value::Missing,
        },
        Value::Array(a) => Value::Array(Array::build_in(arena, |w| {
            for item in a.iter() {
                // Arrays directly inside arrays are skipped.
                let found = match item {
                    Value::Document(_) => walk(item, path, arena),
                    _ => Value::Missing,
                };
                if !found.is_missing() {
                    w.push(found);
                }
            }
        })),
        _ => Value::Missing,
    }
}
