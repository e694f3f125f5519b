//! The command inside `explain`: its arguments and its filter.

use context::ctx::Ctx;
use context::ddl::names;
use model::{Doc, DocBuf, Namespace, Result, Tag, Value};
use operators::Env;
use operators::expr::ParseCx;
use query::exec::MatchFilter;
use query::find::Find;
use query::plan::Hint;
use request::args::{Arg, Args, missing_field, wrong_type};

/// The arguments of the inner command, checked against its table.
pub(super) fn arguments<'a>(name: &str, table: &'static [Arg], inner: Doc<'a>) -> Result<Args<'a>> {
    let args = Args::of_inner(name, table, inner)?;
    for a in table.iter().filter(|a| a.required) {
        if !inner.contains(a.name) {
            return Err(missing_field(&format!("{name}.{}", a.name)));
        }
    }
    Ok(args)
}

pub(super) fn own_namespace(cx: &Ctx<'_, '_>, name: &str, own: Value<'_>) -> Result<Namespace> {
    match own {
        Value::String(s) => names::raw(cx, Namespace::new(cx.db, s)?),
        v => Err(wrong_type(&format!("{name}.{name}"), &v, &[Tag::STRING])),
    }
}

/// A find with only a filter and a hint.
pub(super) fn plain_find(
    filter: Doc<'_>,
    hint: Option<Value<'_>>,
    env: &Env,
    collation: Option<DocBuf>,
) -> Result<Find> {
    let filter = MatchFilter::parse(&mut ParseCx::of_query(env), filter)?;
    Ok(Find {
        hint: Hint::parse(hint.unwrap_or_default())?,
        collation,
        ..Find::all(filter)
    })
}
