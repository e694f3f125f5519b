//! From a filter document to nodes. Knows where each operator is allowed; the meaning of an operand
//! is defined in the operator's own file. Errors: 2 for unknown operators, misplaced ones and
//! filters nested too deep; 15 for paths too long.

use super::array;
use super::bitwise::{Bits, BitsOp};
use super::comparison::{Compare, CompareOp, In, is_operator_document};
use super::element::TypeSet;
use super::expression;
use super::geo::{Geo, LegacyDistances};
use super::json_schema::Schema;
use super::modulo::Mod;
use super::node::{Node, Test};
use super::regex::{Pattern, RegexSpec};
use super::script::Where;
use super::text::Text;
use crate::cx::NODE_WORK;
use crate::expr::ParseCx;
use model::{Collate, Doc, FieldPath, OwnedValue, Result, Value, bail, code};
use rustc_hash::FxHashMap;

/// The position of a filter document; some operators are allowed only at the top.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FilterLevel {
    /// The whole filter, or below `$and`, `$or`, `$nor`.
    Top,
    /// Below `$elemMatch`.
    ElemMatch,
}

/// Deepest nesting of filters.
const MAX_DEPTH: usize = 100;
/// Most components of a path: no document is nested more deeply.
const MAX_PATH_PARTS: usize = 255;

/// Parses a filter on documents.
pub(super) fn document(cx: &mut ParseCx<'_>, spec: Doc<'_>, place: FilterLevel) -> Result<Node> {
    deeper(cx, |cx| document_inner(cx, spec, place))
}

/// Parses one level of nesting further down.
fn deeper<T>(cx: &mut ParseCx<'_>, body: impl FnOnce(&mut ParseCx<'_>) -> Result<T>) -> Result<T> {
    if cx.filter_depth >= MAX_DEPTH {
        bail!(
            code::BAD_VALUE,
            "exceeded maximum query tree depth of {MAX_DEPTH}"
        );
    }
    cx.filter_depth += 1;
    let parsed = body(cx);
    cx.filter_depth -= 1;
    parsed
}

fn document_inner(cx: &mut ParseCx<'_>, spec: Doc<'_>, place: FilterLevel) -> Result<Node> {
    let mut nodes = Vec::new();
    for (name, v) in spec.iter() {
        cx.env.work(NODE_WORK)?;
        if matches!(name, "$and" | "$or" | "$nor") {
            nodes.push(logical(name, list(cx, name, v, place)?, cx.env.collate()));
        } else if name.starts_with('$') && !matches!(name, "$ref" | "$id" | "$db") {
            nodes.push(top_level(cx, name, v, place)?);
        } else {
            field(cx, name, v, &mut nodes)?;
        }
    }
    // Scripts and text matching cost more than any other predicate.
    nodes.sort_by_key(|n| matches!(n, Node::Text(_) | Node::Where(_)));
    Ok(Node::all(nodes))
}

fn top_level(cx: &mut ParseCx<'_>, name: &str, v: Value<'_>, place: FilterLevel) -> Result<Node> {
    let only_at_top = || -> Result<()> {
        if place != FilterLevel::Top {
            bail!(
                code::BAD_VALUE,
                "{name} can only be applied to the top-level document"
            );
        }
        Ok(())
    };
    match name {
        "$comment" => Ok(Node::AlwaysTrue),
        "$alwaysTrue" | "$alwaysFalse" => match v.as_i64_exact() {
            Some(1) if name == "$alwaysTrue" => Ok(Node::AlwaysTrue),
            Some(1) => Ok(Node::AlwaysFalse),
            _ => bail!(
                code::FAILED_TO_PARSE,
                "{name} must be an integer value of 1, not {}",
                v
            ),
        },
        "$expr" => {
            only_at_top()?;
            expression::parse(cx, v)
        }
        "$jsonSchema" => Ok(Node::JsonSchema(Box::new(Schema::parse(v)?))),
        "$text" => {
            only_at_top()?;
            Ok(Node::Text(Box::new(Text::parse(v)?)))
        }
        "$sampleRate" => {
            let Some(rate) = v.as_f64() else {
                bail!(
                    code::BAD_VALUE,
                    "argument to $sampleRate must be a numeric type"
                )
            };
            if !(0.0..=1.0).contains(&rate) {
                bail!(
                    code::BAD_VALUE,
                    "numeric argument to $sampleRate must be in [0, 1], not {rate}"
                );
            }
            Ok(Node::SampleRate(rate))
        }
        "$where" => {
            only_at_top()?;
            Ok(Node::Where(Box::new(Where::parse(
                v,
                cx.scripts_allowed,
                cx.env.scripts.is_some(),
            )?)))
        }
        _ => bail!(
            code::BAD_VALUE,
            "unknown top level operator: {name}. If you have a field name that starts with a '$' \
                symbol, consider using \
             $getField or $setField"
        ),
    }
}

fn list(cx: &mut ParseCx<'_>, name: &str, v: Value<'_>, place: FilterLevel) -> Result<Vec<Node>> {
    let Value::Array(items) = v else {
        bail!(code::BAD_VALUE, "{name} must be an array")
    };
    if items.is_empty() {
        bail!(code::BAD_VALUE, "{name} argument must be a non-empty array");
    }
    items
        .iter()
        .map(|item| match item {
            Value::Document(d) => document(cx, d, place),
            v => bail!(
                code::BAD_VALUE,
                "{name} argument's entries must be objects, not {}",
                v.type_name()
            ),
        })
        .collect()
}

fn logical(name: &str, nodes: Vec<Node>, collate: Option<&dyn Collate>) -> Node {
    if name == "$and" {
        return Node::all(nodes);
    }
    let mut nodes = join_equalities(nodes, collate);
    match name {
        "$nor" => Node::Nor(nodes),
        _ if nodes.len() > 1 => Node::Or(nodes),
        _ => nodes.pop().map_or(Node::AlwaysFalse, wrap_equality),
    }
}

/// Alternatives that compare the same path with constants become one `$in`: one search instead of
/// several comparisons, and bounds for an index.
fn join_equalities(nodes: Vec<Node>, collate: Option<&dyn Collate>) -> Vec<Node> {
    let mut out: Vec<Node> = Vec::new();
    let mut places: FxHashMap<String, usize> = FxHashMap::default();
    let mut joined: Vec<(usize, Vec<OwnedValue>)> = Vec::new();
    for n in nodes {
        let Node::Field {
            path,
            test:
                Test::Compare(Compare {
                    op: CompareOp::Eq,
                    value,
                    ..
                }),
        } = &n
        else {
            out.push(n);
            continue;
        };
        match places.get(path.as_str()) {
            Some(at) => joined[*at].1.push(value.clone()),
            None => {
                places.insert(path.as_str().to_owned(), joined.len());
                joined.push((out.len(), vec![value.clone()]));
                out.push(n);
            }
        }
    }
    for (at, values) in joined.into_iter().filter(|(_, v)| v.len() > 1) {
        if let Some(Node::Field { test, .. }) = out.get_mut(at) {
            *test = Test::In(In::of(values, Vec::new(), collate));
        }
    }
    out
}

/// The rest of `$or` when all alternatives were joined; a single equality stays an alternative,
/// because upserts distinguish it.
fn wrap_equality(n: Node) -> Node {
    match n {
        Node::Field {
            test: Test::In(_), ..
        } => n,
        n => Node::Or(vec![n]),
    }
}

/// One field of a filter: a value to equal, a regular expression, or operators.
fn field(cx: &mut ParseCx<'_>, name: &str, v: Value<'_>, nodes: &mut Vec<Node>) -> Result<()> {
    if name.bytes().filter(|b| *b == b'.').count() >= MAX_PATH_PARTS {
        bail!(
            code::OVERFLOW,
            "FieldPath is too long: at most {MAX_PATH_PARTS} components are allowed"
        );
    }
    let at = |test| Node::Field {
        path: FieldPath::new(name),
        test,
    };
    match v {
        Value::Document(d) if is_operator_document(d) => {
            operators(cx, d, name, &mut |parsed| nodes.push(to_node(name, parsed)))
        }
        Value::Regex(r) => {
            nodes.push(at(Test::Regex(Pattern::new(r.pattern, r.options)?)));
            Ok(())
        }
        v => {
            nodes.push(at(Test::Compare(Compare::new(CompareOp::Eq, v, name)?)));
            Ok(())
        }
    }
}

/// One parsed operator of a field, before it is known whether it applies to a path or to an
/// element.
enum ParsedOperator {
    Is(Test),
    Not(Vec<ParsedOperator>),
    Every(Vec<Test>),
}

fn to_node(path: &str, parsed: ParsedOperator) -> Node {
    let at = |test| Node::Field {
        path: FieldPath::new(path),
        test,
    };
    match parsed {
        ParsedOperator::Is(Test::Never) => Node::AlwaysFalse,
        ParsedOperator::Is(t) => at(t),
        ParsedOperator::Not(inner) => {
            Node::all(inner.into_iter().map(|p| to_node(path, p)).collect()).negate()
        }
        ParsedOperator::Every(tests) if tests.is_empty() => Node::AlwaysFalse,
        ParsedOperator::Every(tests) => Node::all(tests.into_iter().map(at).collect()),
    }
}

fn to_test(parsed: ParsedOperator) -> Test {
    match parsed {
        ParsedOperator::Is(t) => t,
        ParsedOperator::Not(inner) => Test::Not(Box::new(Test::All(
            inner.into_iter().map(to_test).collect(),
        ))),
        ParsedOperator::Every(tests) if tests.is_empty() => Test::Never,
        ParsedOperator::Every(tests) => Test::All(tests),
    }
}

/// Parses the operand of `$elemMatch`.
///
/// # Errors
/// 2 BadValue unless it is a document.
fn elem_match(cx: &mut ParseCx<'_>, spec: Value<'_>) -> Result<Test> {
    let Value::Document(d) = spec else {
        bail!(code::BAD_VALUE, "$elemMatch needs an Object")
    };
    if array::is_value_form(d) {
        return Ok(Test::ElemMatchValue(element_tests(cx, d)?));
    }
    Ok(Test::ElemMatchObject(Box::new(document(
        cx,
        d,
        FilterLevel::ElemMatch,
    )?)))
}

/// Operators that apply to an element itself.
pub(super) fn element_tests(cx: &mut ParseCx<'_>, spec: Doc<'_>) -> Result<Vec<Test>> {
    let mut tests = Vec::new();
    operators(cx, spec, "", &mut |parsed| tests.push(to_test(parsed)))?;
    Ok(tests)
}

fn operators(
    cx: &mut ParseCx<'_>,
    spec: Doc<'_>,
    path: &str,
    push: &mut dyn FnMut(ParsedOperator),
) -> Result<()> {
    let mut regex = RegexSpec::default();
    let mut distances = LegacyDistances::default();
    let is_near = |name: &str| matches!(name, "$near" | "$nearSphere" | "$geoNear");
    let has_near = spec.iter().any(|(name, _)| is_near(name));
    if has_near {
        for (name, v) in spec
            .iter()
            .filter(|(n, _)| matches!(*n, "$minDistance" | "$maxDistance"))
        {
            distances.set(name, &v)?;
        }
    }
    let is_region = |name: &str| matches!(name, "$geoWithin" | "$within" | "$geoIntersects");
    if let Some((name, _)) = spec.iter().find(|(name, _)| is_region(name))
        && spec.count() > 1
    {
        bail!(
            code::BAD_VALUE,
            "{name} stands alone in the document of its field, other tests go into an $and"
        );
    }
    for (name, v) in spec.iter() {
        cx.env.work(NODE_WORK)?;
        match name {
            "$minDistance" | "$maxDistance" if has_near => {}
            name if is_near(name) => {
                if cx.near_refused {
                    bail!(
                        5_626_500,
                        "{name} is not allowed in this context, as the result cannot be ordered by \
                            distance"
                    );
                }
                let mut geo = Geo::parse(name, v)?;
                if let Geo::Near(near) = &mut geo {
                    near.limit(distances);
                }
                push(ParsedOperator::Is(Test::Geo(Box::new(geo))));
            }
            "$regex" => regex.set_regex(v)?,
            "$options" => regex.set_options(v)?,
            "$comment" => {}
            _ => push(operator(cx, name, v, path)?),
        }
    }
    if let Some(p) = regex.finish()? {
        push(ParsedOperator::Is(Test::Regex(p)));
    }
    Ok(())
}

fn operator(cx: &mut ParseCx<'_>, name: &str, v: Value<'_>, path: &str) -> Result<ParsedOperator> {
    let compare = |op| {
        Ok(ParsedOperator::Is(Test::Compare(Compare::new(
            op, v, path,
        )?)))
    };
    let bits = |op| Ok(ParsedOperator::Is(Test::Bits(Bits::parse(op, name, v)?)));
    match name {
        "$eq" => compare(CompareOp::Eq),
        "$gt" => compare(CompareOp::Gt),
        "$gte" => compare(CompareOp::Gte),
        "$lt" => compare(CompareOp::Lt),
        "$lte" => compare(CompareOp::Lte),
        "$ne" => {
            if matches!(v, Value::Regex(_)) {
                bail!(code::BAD_VALUE, "Can't have regex as arg to $ne.");
            }
            Ok(ParsedOperator::Not(vec![ParsedOperator::Is(
                Test::Compare(Compare::new(CompareOp::Eq, v, path)?),
            )]))
        }
        "$in" => Ok(ParsedOperator::Is(Test::In(In::parse(
            name,
            v,
            cx.env.collate(),
        )?))),
        "$nin" => Ok(ParsedOperator::Not(vec![ParsedOperator::Is(Test::In(
            In::parse(name, v, cx.env.collate())?,
        ))])),
        "$not" => not(cx, v, path),
        "$exists" => {
            let exists = ParsedOperator::Is(Test::Exists);
            Ok(if v.truthy() {
                exists
            } else {
                ParsedOperator::Not(vec![exists])
            })
        }
        "$type" => Ok(ParsedOperator::Is(Test::Type(TypeSet::parse(v)?))),
        "$mod" => Ok(ParsedOperator::Is(Test::Mod(Mod::parse(v)?))),
        "$size" => Ok(ParsedOperator::Is(array::size(v)?)),
        "$all" => {
            let tests = array::all(v, path, &mut |inner| elem_match(cx, inner))?;
            Ok(ParsedOperator::Every(tests))
        }
        "$elemMatch" => Ok(ParsedOperator::Is(deeper(cx, |cx| elem_match(cx, v))?)),
        "$geoWithin" | "$within" | "$geoIntersects" => Ok(ParsedOperator::Is(Test::Geo(Box::new(
            Geo::parse(name, v)?,
        )))),
        "$bitsAllSet" => bits(BitsOp::AllSet),
        "$bitsAllClear" => bits(BitsOp::AllClear),
        "$bitsAnySet" => bits(BitsOp::AnySet),
        "$bitsAnyClear" => bits(BitsOp::AnyClear),
        _ => bail!(code::BAD_VALUE, "unknown operator: {name}"),
    }
}

fn not(cx: &mut ParseCx<'_>, v: Value<'_>, path: &str) -> Result<ParsedOperator> {
    match v {
        Value::Regex(r) => Ok(ParsedOperator::Not(vec![ParsedOperator::Is(Test::Regex(
            Pattern::new(r.pattern, r.options)?,
        ))])),
        Value::Document(d) => {
            if d.is_empty() {
                bail!(code::BAD_VALUE, "$not cannot be empty");
            }
            let mut inner = Vec::new();
            let parsed = deeper(cx, |cx| operators(cx, d, path, &mut |p| inner.push(p)));
            parsed.map(|()| ParsedOperator::Not(inner))
        }
        _ => bail!(code::BAD_VALUE, "$not needs a regex or a document"),
    }
}

/// Parses where `$near` is refused.
pub(super) fn refusing_near<T>(
    cx: &mut ParseCx<'_>,
    body: impl FnOnce(&mut ParseCx<'_>) -> Result<T>,
) -> Result<T> {
    let before = std::mem::replace(&mut cx.near_refused, true);
    let parsed = body(cx);
    cx.near_refused = before;
    parsed
}

/// `$near` and `$text` are allowed only once in total, and not below `$or`, `$nor` or `$not`.
///
/// # Output
/// Whether the filter contains a `$text`.
///
/// # Errors
/// 2 BadValue.
pub(super) fn check_ordering_predicates(root: &Node) -> Result<bool> {
    let (mut near, mut text, mut misplaced) = (0, 0, false);
    count(root, false, &mut |is_near, below_negation_or_choice| {
        *(if is_near { &mut near } else { &mut text }) += 1;
        misplaced |= below_negation_or_choice;
    });
    if near + text > 1 {
        bail!(
            code::BAD_VALUE,
            "Too many geoNear or text expressions: at most one of them is allowed"
        );
    }
    if misplaced {
        bail!(
            code::BAD_VALUE,
            "geoNear and text expressions must not stand below $nor, $not or (geoNear) $or"
        );
    }
    Ok(text > 0)
}

fn count(n: &Node, misplaced: bool, each: &mut dyn FnMut(bool, bool)) {
    match n {
        Node::And(v) => v.iter().for_each(|n| count(n, misplaced, each)),
        Node::Or(v) => v.iter().for_each(|n| {
            // `$text` below `$or` depends on indexes and is checked elsewhere.
            count(n, misplaced, &mut |is_near, bad| {
                each(is_near, bad || is_near)
            });
        }),
        Node::Nor(v) => v.iter().for_each(|n| count(n, true, each)),
        Node::Not(n) => count(n, true, each),
        Node::Text(_) => each(false, misplaced),
        Node::Field {
            test: Test::Geo(g), ..
        } if matches!(g.as_ref(), Geo::Near(_)) => each(true, misplaced),
        _ => {}
    }
}
