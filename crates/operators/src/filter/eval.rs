//! Matching: a node against a document, a test against a value.

use super::comparison::Compare;
use super::node::{Node, Test};
use super::walk::{Leaf, walk_doc};
use crate::Cx;
use model::{Doc, Element, FieldPath, Result, Tag, Value};
use std::cell::Cell;
use std::ops::ControlFlow;

/// From this document size on a predicate is counted as work.
const LARGE_BYTES: usize = 1 << 14;

/// Records the array index of a match.
#[derive(Default)]
pub struct Position(Cell<Option<usize>>);

impl Position {
    /// The index, when the match was found in an array.
    pub fn get(&self) -> Option<usize> {
        self.0.get()
    }
    fn set(&self, index: usize) {
        self.0.set(Some(index));
    }
}

pub(super) fn node<'a>(
    n: &'a Node,
    doc: Doc<'a>,
    cx: &Cx<'_, 'a>,
    position: Option<&Position>,
) -> Result<bool> {
    match n {
        Node::AlwaysTrue => Ok(true),
        Node::AlwaysFalse => Ok(false),
        Node::And(nodes) => {
            let mut last: Option<(&FieldPath, Option<Element<'a>>)> = None;
            for n in nodes {
                if let Node::Field {
                    path,
                    test: Test::Compare(c),
                } = n
                    && let [only] = path.parts()
                {
                    // Several conditions on one field often follow each other.
                    let e = match last {
                        Some((p, e)) if p == path => e,
                        _ => doc.get_element(&only.name),
                    };
                    last = Some((path, e));
                    match compare_field(c, e, cx) {
                        Some(true) => continue,
                        Some(false) => return Ok(false),
                        None => {}
                    }
                }
                if !node(n, doc, cx, position)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        // A match in one of several branches sets no position.
        Node::Or(nodes) => any(nodes, doc, cx, position.filter(|_| nodes.len() == 1)),
        Node::Nor(nodes) => Ok(!any(nodes, doc, cx, None)?),
        Node::Not(n) => Ok(!node(n, doc, cx, None)?),
        Node::Field { path, test } => field(path, test, doc, cx, position),
        Node::Expr(e) => {
            // An expression may take long on one document.
            cx.env.check_interrupt()?;
            Ok(e.eval(&Cx {
                root: Value::Document(doc),
                ..*cx
            })?
            .truthy())
        }
        Node::Where(w) => w.matches(doc, cx),
        Node::JsonSchema(s) => s.matches(Value::Document(doc)),
        Node::Text(t) => {
            cx.env.check_interrupt()?;
            t.matches(doc)
        }
        Node::SampleRate(rate) => Ok(cx.env.random_f64() < *rate),
    }
}

fn any<'a>(
    nodes: &'a [Node],
    doc: Doc<'a>,
    cx: &Cx<'_, 'a>,
    position: Option<&Position>,
) -> Result<bool> {
    for n in nodes {
        if node(n, doc, cx, position)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Compares with a field that is no array; `None` when its elements must be compared.
#[inline]
fn compare_field(c: &Compare, e: Option<Element<'_>>, cx: &Cx<'_, '_>) -> Option<bool> {
    match e {
        None => Some(c.matches(&Value::Missing, cx.collate())),
        Some(e) if e.tag == Tag::ARRAY => None,
        Some(e) => Some(c.matches_element(&e, cx.collate())),
    }
}

fn field<'a>(
    path: &FieldPath,
    t: &'a Test,
    doc: Doc<'a>,
    cx: &Cx<'_, 'a>,
    position: Option<&Position>,
) -> Result<bool> {
    if doc.len_bytes() > LARGE_BYTES {
        cx.env.work(doc.len_bytes() / 64)?;
    }
    if let (Test::Compare(c), [only]) = (t, path.parts())
        && let Some(passed) = compare_field(c, doc.get_element(&only.name), cx)
    {
        return Ok(passed);
    }
    if t.finds_absent() && super::absent::is_absent_in_array(doc, path.parts()) {
        return Ok(true);
    }
    let leaf = if t.wants_whole_array() {
        Leaf::Whole
    } else {
        Leaf::Traverse
    };
    let parts = path.parts();
    let mut outcome = Ok(false);
    let mut see = |passed: Result<bool>, index: Option<usize>| match passed {
        Ok(false) => ControlFlow::Continue(()),
        Ok(true) => {
            if let (Some(p), Some(i)) = (position, index) {
                p.set(i);
            }
            outcome = Ok(true);
            ControlFlow::Break(())
        }
        Err(e) => {
            outcome = Err(e);
            ControlFlow::Break(())
        }
    };
    let _ = match t {
        // Decoded once, not for each element.
        Test::Compare(c) => {
            let (rhs, collate) = (c.value.get(), cx.collate());
            walk_doc(doc, parts, leaf, None, &mut |v, index| {
                see(
                    Ok(super::comparison::matches(c.op, &v, &rhs, collate)),
                    index,
                )
            })
        }
        t => walk_doc(doc, parts, leaf, None, &mut |v, index| {
            see(test(t, v, cx, position), index)
        }),
    };
    outcome
}

pub(super) fn test<'a>(
    t: &'a Test,
    v: Value<'a>,
    cx: &Cx<'_, 'a>,
    position: Option<&Position>,
) -> Result<bool> {
    match t {
        Test::Compare(c) => Ok(c.matches(&v, cx.collate())),
        Test::In(list) => list.matches(&v, cx.collate()),
        Test::Exists => Ok(!v.is_missing()),
        Test::Type(set) => Ok(set.contains(&v)),
        Test::Regex(p) => p.matches(&v),
        Test::Mod(m) => Ok(m.matches(&v)),
        Test::Size(n) => Ok(v
            .as_array()
            .is_some_and(|a| i64::try_from(a.len()) == Ok(*n))),
        Test::Bits(b) => Ok(b.matches(&v)),
        Test::ElemMatchObject(inner) => {
            let Value::Array(a) = v else { return Ok(false) };
            for (i, item) in a.iter().enumerate() {
                let doc = match item {
                    Value::Document(d) => d,
                    Value::Array(a) => a.as_doc(),
                    _ => continue,
                };
                if node(inner, doc, cx, None)? {
                    if let Some(p) = position {
                        p.set(i);
                    }
                    return Ok(true);
                }
            }
            Ok(false)
        }
        Test::ElemMatchValue(tests) => {
            let Value::Array(a) = v else { return Ok(false) };
            for (i, item) in a.iter().enumerate() {
                if element_matches(tests, item, cx)? {
                    if let Some(p) = position {
                        p.set(i);
                    }
                    return Ok(true);
                }
            }
            Ok(false)
        }
        Test::All(tests) => element_matches(tests, v, cx),
        Test::Not(inner) => Ok(!test(inner, v, cx, None)?),
        Test::Geo(g) => Ok(g.matches(&v)),
        Test::Never => Ok(false),
    }
}

/// Whether one value passes tests on elements.
pub(crate) fn element_matches<'a>(
    tests: &'a [Test],
    v: Value<'a>,
    cx: &Cx<'_, 'a>,
) -> Result<bool> {
    for t in tests {
        if !test(t, v, cx, None)? {
            return Ok(false);
        }
    }
    Ok(true)
}
