//! From a BSON specification to nodes: literals, field paths, variables, objects, arrays,
//! operators.

use super::node::{BoxExpr, Constant, Expr, find_failure, fold};
use super::path::{self, CurrentPath, SearchMeta, VarPath};
use super::state::ParseCx;
use super::user_variable::{check_user_variable, check_variable};
use crate::cx::{NODE_WORK, bytes_of};
use crate::{Cx, Env};
use model::{Array, Doc, FieldPath, MongoError, Result, Value, bail, code};

/// Deepest nesting of expressions.
const MAX_DEPTH: usize = 200;

/// Parses any expression.
///
/// # Errors
/// 168 InvalidPipelineOperator for an unknown operator, 16872 / 17276 for bad paths and variables,
/// and the operators' own.
pub fn parse(cx: &mut ParseCx<'_>, spec: Value<'_>) -> Result<BoxExpr> {
    if cx.depth >= MAX_DEPTH {
        bail!(
            code::OVERFLOW,
            "expression is nested deeper than {MAX_DEPTH} levels"
        );
    }
    cx.env.work(NODE_WORK)?;
    cx.depth += 1;
    let parsed = parse_inner(cx, spec);
    cx.depth -= 1;
    let folded = fold(parsed?, cx.env);
    match (cx.depth == 0)
        .then(|| find_failure(folded.as_ref()))
        .flatten()
    {
        Some(error) => Err(error),
        None => Ok(folded),
    }
}

fn parse_inner(cx: &mut ParseCx<'_>, spec: Value<'_>) -> Result<BoxExpr> {
    match spec {
        Value::String(s) if s.starts_with('$') => parse_path(cx, s),
        Value::Document(d) => match d.first() {
            Some((name, arg)) if name.starts_with('$') => {
                if d.count() > 1 {
                    bail!(
                        15983,
                        "an expression specification must contain exactly one field, the name of \
                            the expression. \
                         Found {} fields in {d}",
                        d.count()
                    );
                }
                let Some(op) = (cx.operator)(name) else {
                    bail!(
                        code::INVALID_PIPELINE_OPERATOR,
                        "Unrecognized expression '{name}'"
                    );
                };
                (op.parse)(cx, op.name, arg)
            }
            _ => parse_object(cx, d),
        },
        Value::Array(a) => {
            let items = a.iter().map(|v| parse(cx, v)).collect::<Result<Vec<_>>>()?;
            Ok(Box::new(ArrayExpr(items)))
        }
        v => Ok(Constant::new_boxed(v)),
    }
}

/// Parses an object literal whose values are expressions. Fields whose value is missing are not in
/// the result.
///
/// # Errors
/// 16410-family for dollar-prefixed and dotted names.
pub fn parse_object(cx: &mut ParseCx<'_>, d: Doc<'_>) -> Result<BoxExpr> {
    let mut fields = Vec::new();
    for (name, v) in d.iter() {
        check_field_name(name)?;
        if fields.iter().any(|(n, _): &(String, BoxExpr)| n == name) {
            bail!(
                16406,
                "duplicate field name specified in object literal: {d}"
            );
        }
        fields.push((name.to_owned(), parse(cx, v)?));
    }
    Ok(Box::new(ObjectExpr(fields)))
}

/// Checks a name in an object literal or path.
fn check_field_name(name: &str) -> Result<()> {
    if name.is_empty() {
        bail!(15998, "FieldPath field names may not be empty strings");
    }
    if name.starts_with('$') {
        bail!(
            16410,
            "FieldPath field names may not start with '$'. Consider using $getField or $setField"
        );
    }
    if name.contains('\0') {
        bail!(16411, "FieldPath field names may not contain '\\0'");
    }
    if name.contains('.') {
        bail!(
            16412,
            "FieldPath field names may not contain '.'. Consider using $getField or $setField"
        );
    }
    Ok(())
}

/// Parses a path and checks it by the rules of projections and expressions.
pub(crate) fn check_path(path: &str) -> Result<FieldPath> {
    if path.is_empty() {
        bail!(40352, "FieldPath cannot be constructed with empty string");
    }
    if path.ends_with('.') {
        bail!(40353, "FieldPath must not end with a '.'");
    }
    let parsed = FieldPath::new(path);
    if parsed.parts().len() > 200 {
        bail!(code::OVERFLOW, "FieldPath is too long");
    }
    for p in parsed.parts() {
        check_field_name(&p.name)?;
    }
    Ok(parsed)
}

fn parse_path(cx: &mut ParseCx<'_>, s: &str) -> Result<BoxExpr> {
    let Some(var) = s.strip_prefix("$$") else {
        let path = s.strip_prefix('$').unwrap_or(s);
        if path.is_empty() {
            bail!(16872, "'$' by itself is not a valid FieldPath");
        }
        let path = check_path(path)?;
        if let Some(id) = cx.scope.find("CURRENT") {
            return Ok(Box::new(VarPath {
                id: Some(id),
                path: Some(path),
            }));
        }
        return Ok(Box::new(CurrentPath(path)));
    };
    if var.is_empty() {
        bail!(
            code::FAILED_TO_PARSE,
            "'$$' by itself is not a valid FieldPath"
        );
    }
    let (name, rest) = var
        .split_once('.')
        .map_or((var, None), |(n, r)| (n, Some(r)));
    check_variable(name)?;
    if rest == Some("") {
        bail!(40353, "FieldPath must not end with a '.'");
    }
    let path = rest.map(check_path).transpose()?;
    let with_path = |v: Value<'_>| -> Result<BoxExpr> {
        let arena = model::Bump::new();
        let found = path
            .as_ref()
            .map_or(v, |p| path::walk(v.copy_into(&arena), p.parts(), &arena));
        Ok(Constant::new_boxed(found))
    };
    if let Some(id) = cx.scope.find(name) {
        return Ok(Box::new(VarPath { id: Some(id), path }));
    }
    if let Some((_, v)) = cx.env.let_vars.iter().find(|(n, _)| n == name) {
        return with_path(v.get());
    }
    match name {
        "ROOT" => Ok(Box::new(VarPath { id: None, path })),
        "CURRENT" => Ok(match path {
            Some(path) => Box::new(CurrentPath(path)),
            None => Box::new(VarPath {
                id: None,
                path: None,
            }),
        }),
        "REMOVE" => Ok(Constant::new_boxed(Value::Missing)),
        "NOW" if !cx.env.has_now => bail!(
            51144,
            "Builtin variable '$$NOW' is not available in this command"
        ),
        "NOW" => with_path(Value::Date(cx.env.now_ms)),
        "CLUSTER_TIME" => match cx.env.cluster_time {
            Some(_) if !cx.env.has_now => bail!(
                51144,
                "Builtin variable '$$CLUSTER_TIME' is not available in this command"
            ),
            Some(t) => with_path(Value::Timestamp(t)),
            None => bail!(
                10071200,
                "system variable $$CLUSTER_TIME is not available: the server is not part of a \
                    replica set"
            ),
        },
        "SEARCH_META" => Ok(Box::new(SearchMeta(path))),
        "USER_ROLES" => with_path(Value::Array(Array::EMPTY)),
        _ => bail!(17276, "Use of undefined variable: {name}"),
    }
}

/// Adds the variables of a command's `let` to the operation; each may use those before it.
///
/// # Errors
/// 14 `let` is no object, 9 a name not allowed for user variables, 4890500 a value that depends on
/// a document, and the errors of the expressions.
pub fn define_let(env: &mut Env, spec: Value<'_>) -> Result<()> {
    let variables = match spec {
        Value::Missing => return Ok(()),
        Value::Document(d) => d,
        v => bail!(
            code::TYPE_MISMATCH,
            "'let' must be an object, found: {}",
            v.type_name()
        ),
    };
    for (name, v) in variables.iter() {
        if matches!(
            name,
            "NOW" | "CLUSTER_TIME" | "JS_SCOPE" | "IS_MR" | "USER_ROLES"
        ) {
            bail!(4738901, "'let' may not define the system variable '{name}'");
        }
        check_user_variable(name)?;
        if let Value::String(s) = v
            && let Some(system) = s.strip_prefix("$$")
            && matches!(
                system.split('.').next(),
                Some("NOW" | "CLUSTER_TIME" | "JS_SCOPE" | "IS_MR" | "USER_ROLES")
            )
        {
            bail!(
                51144,
                "'let' cannot use the system variable $${system}: it has no value yet"
            );
        }
        let arena = model::Bump::new();
        let e = parse(&mut ParseCx::new(env), v)?;
        if reads_document(e.as_ref()) {
            bail!(
                4890500,
                "Command let Expression does not evaluate to a constant: {name}"
            );
        }
        let value = e
            .eval(&Cx::new(&arena, Value::Missing, env))?
            .to_owned_value();
        env.let_vars.push((name.to_owned(), value));
    }
    Ok(())
}

fn reads_document(e: &dyn Expr) -> bool {
    let mut found = e.field_path().is_some();
    e.visit(&mut |child| found = found || reads_document(child));
    found
}

/// Parses operands: an array is a list of operands, any other value a single operand.
///
/// # Errors
/// For a wrong number of operands: 16020 when exactly one number is allowed, 28667 when a range is.
pub fn parse_args(
    cx: &mut ParseCx<'_>,
    name: &str,
    spec: Value<'_>,
    min: usize,
    max: usize,
) -> Result<Vec<BoxExpr>> {
    let args = match spec {
        Value::Array(a) => a.iter().map(|v| parse(cx, v)).collect::<Result<Vec<_>>>()?,
        other => vec![parse(cx, other)?],
    };
    if args.len() < min || args.len() > max {
        if min == max {
            bail!(
                16020,
                "Expression {name} takes exactly {min} arguments. {} were passed in.",
                args.len()
            );
        }
        bail!(
            28667,
            "Expression {name} takes at least {min} arguments, and at most {max}, but {} were \
                passed in.",
            args.len()
        );
    }
    Ok(args)
}

/// Parses an expression that must be constant and returns its value.
///
/// # Errors
/// `code` when it is not constant.
pub fn parse_constant(
    cx: &mut ParseCx<'_>,
    spec: Value<'_>,
    code: i32,
    what: &str,
) -> Result<model::OwnedValue> {
    let e = parse(cx, spec)?;
    let v = e
        .constant()
        .ok_or_else(|| MongoError::new(code, format!("{what} must be a constant")))?;
    Ok(v.to_owned_value())
}

/// `[e1, e2]`: missing elements become null.
struct ArrayExpr(Vec<BoxExpr>);

impl Expr for ArrayExpr {
    fn eval<'a>(&'a self, cx: &Cx<'_, 'a>) -> Result<Value<'a>> {
        let mut values = smallvec::SmallVec::<[Value<'a>; 8]>::new();
        for e in &self.0 {
            values.push(e.eval(cx)?);
            cx.spend(0)?;
        }
        cx.array(&values)
    }
    fn visit<'e>(&'e self, each: &mut dyn FnMut(&'e dyn Expr)) {
        self.0.iter().for_each(|e| each(e.as_ref()));
    }
}

/// `{a: e1, b: e2}`.
struct ObjectExpr(Vec<(String, BoxExpr)>);

impl Expr for ObjectExpr {
    fn eval<'a>(&'a self, cx: &Cx<'_, 'a>) -> Result<Value<'a>> {
        let mut values = smallvec::SmallVec::<[Value<'a>; 8]>::new();
        let mut bytes = 0;
        for (name, e) in &self.0 {
            let v = e.eval(cx)?;
            bytes += bytes_of(&v) + name.len() + 2;
            values.push(v);
        }
        cx.spend(bytes)?;
        Ok(Value::Document(Doc::build_in(cx.arena, |w| {
            for ((name, _), v) in self.0.iter().zip(&values) {
                w.put(name, *v);
            }
        })))
    }
    fn visit<'e>(&'e self, each: &mut dyn FnMut(&'e dyn Expr)) {
        self.0.iter().for_each(|(_, e)| each(e.as_ref()));
    }
    fn fields(&self) -> Option<&[(String, BoxExpr)]> {
        Some(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Bump, doc};

    fn run(spec: &model::DocBuf, root: &model::DocBuf) -> String {
        let env = Env::new(0, 1);
        let arena = Bump::new();
        let e = parse(&mut ParseCx::new(&env), spec.doc().field("e")).unwrap();
        let v = e
            .eval(&Cx::new(&arena, Value::Document(root.doc()), &env))
            .unwrap();
        format!("{v:?}")
    }

    #[test]
    fn paths_map_over_arrays_and_objects_nest() {
        let root = doc! { "a": [{ "b": 1i32 }, { "b": 2i32 }, 3i32], "c": "x" };
        assert_eq!(run(&doc! { "e": "$a.b" }, &root), "Array([ 1, 2 ])");
        assert_eq!(
            run(&doc! { "e": { "x": "$c", "y": "$none" } }, &root),
            r#"Document({ x: "x" })"#
        );
        assert_eq!(
            run(&doc! { "e": ["$none", 1i32] }, &root),
            "Array([ null, 1 ])"
        );
        assert_eq!(run(&doc! { "e": "$$ROOT.c" }, &root), r#"String("x")"#);
    }

    #[test]
    fn let_variables_are_constants_of_the_command() {
        let define = |spec: model::DocBuf| {
            let mut env = Env::new(0, 1);
            define_let(&mut env, spec.doc().field("let")).map(|()| env)
        };
        let env = define(doc! { "let": { "x": 1i32, "y": { "$add": ["$$x", 1i32] } } })
            .ok()
            .unwrap();
        assert!(matches!(env.let_vars[1].1.get(), Value::Int32(2)));
        let fails = |spec| define(spec).err().map(|e| e.code());
        assert_eq!(fails(doc! { "let": 1i32 }), Some(14));
        assert_eq!(fails(doc! { "let": { "ROOT": 1i32 } }), Some(9));
        assert_eq!(
            fails(doc! { "let": { "x": { "$add": ["$a", 1i32] } } }),
            Some(4890500)
        );
        assert_eq!(fails(doc! {}), None);
    }

    #[test]
    fn paths_and_object_literals_have_their_codes() {
        let env = Env::new(0, 1);
        let fails = |d: model::DocBuf| {
            parse(&mut ParseCx::new(&env), d.doc().field("e"))
                .err()
                .map(|e| e.code())
        };
        assert_eq!(fails(doc! { "e": "$a." }), Some(40353));
        assert_eq!(fails(doc! { "e": "$a..b" }), Some(15998));
        assert_eq!(fails(doc! { "e": "$.a" }), Some(15998));
        assert_eq!(fails(doc! { "e": "$a.$b" }), Some(16410));
        assert_eq!(fails(doc! { "e": "$$" }), Some(9));
        assert_eq!(fails(doc! { "e": "$$9a" }), Some(9));
        assert_eq!(fails(doc! { "e": { "a.b": 1i32 } }), Some(16412));
        assert_eq!(fails(doc! { "e": { "": 1i32 } }), Some(15998));
        assert_eq!(fails(doc! { "e": { "a": 1i32, "$b": 1i32 } }), Some(16410));
        assert_eq!(
            fails(doc! { "e": { "$add": [1i32], "b": 1i32 } }),
            Some(15983)
        );
        assert_eq!(fails(doc! { "e": { "a": 1i32, "a": 2i32 } }), Some(16406));
    }

    #[test]
    fn parse_errors_come_before_failures_of_constants() {
        let env = Env::new(0, 1);
        let fails = |d: model::DocBuf| {
            parse(&mut ParseCx::new(&env), d.doc().field("e"))
                .err()
                .map(|e| e.code())
        };
        assert_eq!(
            fails(doc! { "e": { "$add": [{ "$divide": [1i32, 0i32] }, "$a"] } }),
            Some(2)
        );
        assert_eq!(
            fails(doc! { "e": { "$add": [{ "$divide": [1i32, 0i32] }, { "$nope": 1i32 }] } }),
            Some(168)
        );
    }

    #[test]
    fn unknown_operators_and_variables_have_their_codes() {
        let env = Env::new(0, 1);
        let fails = |d: model::DocBuf| {
            parse(&mut ParseCx::new(&env), d.doc().field("e"))
                .err()
                .map(|e| e.code())
        };
        assert_eq!(fails(doc! { "e": { "$nope": 1i32 } }), Some(168));
        assert_eq!(fails(doc! { "e": "$$nope" }), Some(17276));
        assert_eq!(fails(doc! { "e": "$" }), Some(16872));
    }
}
