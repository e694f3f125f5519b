//! The few stages used in recorded expression cases: `$documents`, `$project`, `$addFields`,
//! `$set`.

use model::{Bump, Doc, DocBuf, MongoError, Result, Value};
use operators::expr::{BoxExpr, ParseCx, define_let, parse};
use operators::{Cx, Env};

/// `$$NOW` of these runs.
const NOW_MS: i64 = 1_767_225_600_000;

/// Runs an aggregation over `collection`; `None` when this harness does not support it.
pub(crate) fn run(command: Doc<'_>, collection: &[DocBuf]) -> Option<Result<Vec<DocBuf>>> {
    if command
        .iter()
        .any(|(k, _)| !matches!(k, "aggregate" | "pipeline" | "cursor" | "let"))
    {
        return None;
    }
    let stages: Vec<(&str, Value<'_>)> = command
        .field("pipeline")
        .as_array()?
        .iter()
        .map(|s| s.as_doc()?.first())
        .collect::<Option<_>>()?;
    let known = |name: &str| matches!(name, "$documents" | "$project" | "$addFields" | "$set");
    if stages.is_empty()
        || !stages
            .iter()
            .all(|(name, spec)| known(name) && is_plain(name, spec))
    {
        return None;
    }
    let mut env = Env::new(NOW_MS, 7);
    Some(
        define_let(&mut env, command.field("let"))
            .and_then(|()| run_stages(&stages, collection, &env)),
    )
}

/// Projections without dotted names and without nested specifications.
fn is_plain(stage: &str, spec: &Value<'_>) -> bool {
    stage == "$documents"
        || spec.as_doc().is_some_and(|d| {
            d.iter().all(|(name, v)| {
                let nested = v
                    .as_doc()
                    .is_some_and(|d| d.first().is_none_or(|(k, _)| !k.starts_with('$')));
                !name.contains('.') && !name.starts_with('$') && !nested
            })
        })
}

fn run_stages(
    stages: &[(&str, Value<'_>)],
    collection: &[DocBuf],
    env: &Env,
) -> Result<Vec<DocBuf>> {
    // All stages are parsed before any document is read, as in the server.
    let mut parsed: Vec<(&str, Vec<(String, Column)>)> = Vec::new();
    let mut docs = collection.to_vec();
    for (name, spec) in stages {
        match *name {
            "$documents" => docs = documents(*spec, env)?,
            _ => parsed.push((*name, columns(name, spec, env)?)),
        }
    }
    for (name, columns) in &parsed {
        docs = docs
            .iter()
            .map(|d| apply(name == &"$project", columns, d, env))
            .collect::<Result<_>>()?;
    }
    Ok(docs)
}

enum Column {
    Keep(bool),
    Computed(BoxExpr),
}

fn documents(spec: Value<'_>, env: &Env) -> Result<Vec<DocBuf>> {
    let e = parse(&mut ParseCx::new(env), spec)?;
    let arena = Bump::new();
    let v = e.eval(&Cx::new(&arena, Value::Missing, env))?;
    let docs = v
        .as_array()
        .ok_or_else(|| MongoError::new(5_858_203, "$documents needs an array"))?;
    Ok(docs
        .iter()
        .filter_map(|d| d.as_doc())
        .map(DocBuf::from_doc)
        .collect())
}

fn columns(stage: &str, spec: &Value<'_>, env: &Env) -> Result<Vec<(String, Column)>> {
    let Value::Document(spec) = spec else {
        return Err(MongoError::failed_to_parse("a document is needed"));
    };
    let mut out = Vec::new();
    for (name, v) in spec.iter() {
        let column = match v {
            Value::Bool(_)
            | Value::Int32(_)
            | Value::Int64(_)
            | Value::Double(_)
            | Value::Decimal128(_)
                if stage == "$project" =>
            {
                Column::Keep(v.truthy())
            }
            v => Column::Computed(parse(&mut ParseCx::new(env), v)?),
        };
        out.push((name.to_owned(), column));
    }
    Ok(out)
}

fn apply(project: bool, columns: &[(String, Column)], input: &DocBuf, env: &Env) -> Result<DocBuf> {
    let arena = Bump::new();
    let doc = input.doc();
    let cx = Cx::new(&arena, Value::Document(doc), env);
    let of = |name: &str| columns.iter().find(|(n, _)| n == name).map(|(_, c)| c);
    let excludes = !columns.iter().any(|(n, c)| {
        matches!(c, Column::Keep(true) if n != "_id") || matches!(c, Column::Computed(_))
    });
    let mut out = DocBuf::new();
    for (name, v) in doc.iter() {
        match of(name) {
            Some(Column::Keep(true)) => out.put(name, v),
            // A field that is added again keeps its position; a projected field goes to the end.
            Some(Column::Computed(e)) if !project => out.put(name, e.eval(&cx)?),
            None if !project || excludes || name == "_id" => out.put(name, v),
            _ => &mut out,
        };
    }
    for (name, column) in columns {
        if let Column::Computed(e) = column {
            if !project && doc.contains(name) {
                continue;
            }
            out.put(name, e.eval(&cx)?);
        }
    }
    Ok(out)
}
