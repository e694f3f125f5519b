//! `path` of an operator: one field, several, one with a further analyzer, or all that match a
//! pattern.

use super::build::Build;
use crate::args::Args;
use crate::definition::StringField;
use crate::error::invalid;
use crate::schema::MULTI;
use model::{Result, Value};

/// A field with analyzed texts.
pub(crate) struct TextPath {
    /// The key of its terms.
    pub(crate) key: String,
    pub(crate) field: StringField,
}

enum PathSpec<'d> {
    Plain(&'d str),
    Multi(&'d str, &'d str),
    Wildcard(&'d str),
}

/// The text fields an operator names; other fields are ignored.
pub(crate) fn texts(b: &Build<'_>, args: &Args<'_>) -> Result<Vec<TextPath>> {
    let mut found = Vec::new();
    let definition = b.index.definition();
    let mut add = |path: &str, multi: Option<&str>| -> Result<()> {
        let key = b.key(path)?;
        let field = definition.string_at(&key, multi)?;
        found.extend(field.map(|field| TextPath {
            key: match multi {
                Some(name) => format!("{key}{MULTI}{name}"),
                None => key,
            },
            field,
        }));
        Ok(())
    };
    for spec in specs(args)? {
        match spec {
            PathSpec::Plain(path) => add(path, None)?,
            PathSpec::Multi(path, multi) => add(path, Some(multi))?,
            PathSpec::Wildcard(pattern) => {
                let matching = like(args, pattern)?;
                let paths = b.paths("")?;
                let mut wanted = paths.iter().filter(|p| matching.is_match(p));
                wanted.try_for_each(|path| add(path, None))?;
            }
        }
    }
    Ok(found)
}

/// The keys of the fields named by an operator that takes no patterns.
pub(crate) fn read_field_keys(b: &Build<'_>, args: &Args<'_>) -> Result<Vec<String>> {
    let specs = specs(args)?.into_iter();
    specs
        .map(|spec| match spec {
            PathSpec::Plain(path) => b.key(path),
            _ => Err(invalid(format!(
                "\"{}\" must be a string or an array of strings",
                args.name("path")
            ))),
        })
        .collect()
}

fn specs<'d>(args: &Args<'d>) -> Result<Vec<PathSpec<'d>>> {
    let v = args.required("path")?;
    let found = match v {
        Value::Array(list) => list
            .iter()
            .map(|v| spec_of(args, v))
            .collect::<Result<Vec<_>>>()?,
        v => vec![spec_of(args, v)?],
    };
    if found.is_empty() {
        return Err(invalid(format!(
            "\"{}\" cannot be empty",
            args.name("path")
        )));
    }
    Ok(found)
}

fn spec_of<'d>(args: &Args<'d>, v: Value<'d>) -> Result<PathSpec<'d>> {
    match v {
        Value::String("") => Err(invalid(format!(
            "\"{}\" cannot be empty",
            args.name("path")
        ))),
        Value::String(path) => Ok(PathSpec::Plain(path)),
        Value::Document(_) => {
            let inner = Args::new(&args.name("path"), v, &["value", "multi", "wildcard"])?;
            match (
                inner.string("value")?,
                inner.string("multi")?,
                inner.string("wildcard")?,
            ) {
                (Some(path), Some(multi), None) => Ok(PathSpec::Multi(path, multi)),
                (Some(path), None, None) => Ok(PathSpec::Plain(path)),
                (None, None, Some(pattern)) => Ok(PathSpec::Wildcard(pattern)),
                _ => Err(invalid(format!(
                    "\"{}\" must have a value, with multi or without, or a wildcard",
                    inner.path
                ))),
            }
        }
        v => Err(args.wrong_type("path", "a string or a document", v)),
    }
}

/// The regular expression of a path pattern: `*` matches any characters.
fn like(args: &Args<'_>, pattern: &str) -> Result<regex::Regex> {
    let parts: Vec<String> = pattern.split('*').map(regex::escape).collect();
    let compiled = regex::Regex::new(&format!("^{}$", parts.join(".*")));
    compiled.map_err(|_| {
        invalid(format!(
            "\"{}.wildcard\" cannot be used: {pattern}",
            args.name("path")
        ))
    })
}
