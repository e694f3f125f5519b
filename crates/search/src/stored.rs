//! `storedSource`: which fields of a document a search returns on request. The fields are read from
//! the document itself; the definition only names them. Must not know: queries.

use crate::args::Args;
use crate::error::invalid;
use model::{Array, Doc, DocBuf, DocWriter, Result, Value};

/// Deepest nesting that is read.
const DEPTH_MAX: usize = 100;

/// Which fields are returned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum StoredSource {
    /// `storedSource` is not defined.
    #[default]
    Undefined,
    All,
    Include(Vec<String>),
    Exclude(Vec<String>),
}

impl StoredSource {
    /// Reads `storedSource`.
    ///
    /// # Errors
    /// 8 UnknownError for anything but a boolean, `{include: [...]}` or `{exclude: [...]}`.
    pub(crate) fn parse(v: Option<Value<'_>>) -> Result<StoredSource> {
        let (args, v) = match v {
            None | Some(Value::Bool(false)) => return Ok(StoredSource::Undefined),
            Some(Value::Bool(true)) => return Ok(StoredSource::All),
            Some(v) => (Args::new("storedSource", v, &["include", "exclude"])?, v),
        };
        match (args.get("include"), args.get("exclude")) {
            (Some(_), None) => Ok(StoredSource::Include(paths(&args, "include")?)),
            (None, Some(_)) => Ok(StoredSource::Exclude(paths(&args, "exclude")?)),
            _ => Err(invalid(format!(
                "\"storedSource\" must have exactly one of include, exclude, not {v}"
            ))),
        }
    }

    /// The returned fields of a document; `_id` always.
    pub(crate) fn cut(&self, doc: Doc<'_>) -> DocBuf {
        DocBuf::build(|w| self.put("", doc, 0, w))
    }

    fn put(&self, path: &str, doc: Doc<'_>, depth: usize, w: &mut DocWriter<'_>) {
        for (name, v) in doc.iter() {
            let at = match path {
                "" => name.to_owned(),
                path => format!("{path}.{name}"),
            };
            match self.wants(&at) {
                Inclusion::Yes => _ = w.put(name, v),
                Inclusion::No => {}
                Inclusion::Within => match v {
                    Value::Document(d) if depth < DEPTH_MAX => {
                        self.put(&at, d, depth + 1, &mut w.doc(name));
                    }
                    Value::Array(list) if depth < DEPTH_MAX => {
                        let list = DocBuf::build(|w| self.put_each(&at, list, depth + 1, w));
                        w.put(name, list.doc().field("v"));
                    }
                    // The value has no fields below it.
                    v if matches!(self, StoredSource::Exclude(_)) => _ = w.put(name, v),
                    _ => {}
                },
            }
        }
    }

    /// `{v: [...]}`: the documents of an array.
    fn put_each(&self, path: &str, list: Array<'_>, depth: usize, w: &mut DocWriter<'_>) {
        let mut all = w.array("v");
        for v in list.iter() {
            match v {
                Value::Document(d) => self.put(path, d, depth, &mut all.doc()),
                v if matches!(self, StoredSource::Exclude(_)) => _ = all.push(v),
                _ => {}
            }
        }
    }

    fn wants(&self, at: &str) -> Inclusion {
        let below = |outer: &str, inner: &str| {
            let rest = inner.strip_prefix(outer);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        if at == "_id" {
            return Inclusion::Yes;
        }
        match self {
            StoredSource::All | StoredSource::Undefined => Inclusion::Yes,
            StoredSource::Include(list) if list.iter().any(|p| below(p, at)) => Inclusion::Yes,
            StoredSource::Exclude(list) if list.iter().any(|p| below(p, at)) => Inclusion::No,
            StoredSource::Include(list) | StoredSource::Exclude(list)
                if list.iter().any(|p| below(at, p)) =>
            {
                Inclusion::Within
            }
            StoredSource::Include(_) => Inclusion::No,
            StoredSource::Exclude(_) => Inclusion::Yes,
        }
    }
}

enum Inclusion {
    Yes,
    No,
    /// Some of the fields below.
    Within,
}

fn paths(args: &Args<'_>, field: &str) -> Result<Vec<String>> {
    let v = args.required(field)?;
    let Value::Array(_) = v else {
        return Err(args.wrong_type(field, "an array of strings", v));
    };
    let paths = args.strings(field)?;
    Ok(paths.into_iter().map(str::to_owned).collect())
}
