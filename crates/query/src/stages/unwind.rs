//! `$unwind: "$path"` or `{path, includeArrayIndex, preserveNullAndEmptyArrays}`: one document per array element.
//! A value that is no array counts as one element, without an index.
//! Errors: 15981 neither string nor object, 28808 path no string, 28809 preserve no boolean, 28810 index no name, 28811 unknown
//! field, 28812 no path, 28818 path without `$`, 28822 index with `$`, and those of field paths (16419 for a null byte).

use super::each::{Each, EachDocs, Emit};
use super::path::{checked_path, plain_at, write_with};
use super::{Kind, Stage, StageOp, Transform, one};
use crate::pipeline::{Docs, Place, Rt};
use model::{Doc, DocBuf, FieldPath, Result, Value, bail};
use operators::Cx;
use std::sync::Arc;

pub(super) static STAGES: &[StageOp] = &[StageOp {
    name: "$unwind",
    place: Place::ANYWHERE,
    parse: |_, _, arg| match arg {
        Value::String(path) => one(Unwind { path: parse_path(path)?, index: None, preserve: false }),
        Value::Document(spec) => one(parse_spec(spec)?),
        other => bail!(15981, "expected either a string or an object as specification for $unwind stage, got {}", other.type_name()),
    },
}];

fn parse_spec(spec: Doc<'_>) -> Result<Unwind> {
    let (mut path, mut index, mut preserve) = ("", None, false);
    for (name, v) in spec.iter() {
        match (name, v) {
            ("path", Value::String(s)) => path = s,
            ("path", v) => bail!(28808, "expected a string as the path for $unwind stage, got {}", v.type_name()),
            ("preserveNullAndEmptyArrays", Value::Bool(b)) => preserve = b,
            ("preserveNullAndEmptyArrays", v) => {
                bail!(28809, "expected a boolean for the preserveNullAndEmptyArrays option to $unwind stage, got {}", v.type_name())
            }
            ("includeArrayIndex", Value::String(s)) if !s.is_empty() => {
                if s.starts_with('$') {
                    bail!(28822, "includeArrayIndex option to $unwind stage should not be prefixed with a '$': {s}");
                }
                index = Some(checked_path(s)?);
            }
            ("includeArrayIndex", v) => bail!(28810, "expected a non-empty string for the includeArrayIndex option to $unwind stage, got {v:?}"),
            _ => bail!(28811, "unrecognized option to $unwind stage: {name}"),
        }
    }
    Ok(Unwind { path: parse_path(path)?, index, preserve })
}

fn parse_path(path: &str) -> Result<FieldPath> {
    if path.is_empty() {
        bail!(28812, "no path specified to $unwind stage");
    }
    let Some(path) = path.strip_prefix('$') else {
        bail!(28818, "path option to $unwind stage should be prefixed with a '$': {path}");
    };
    if path.contains('\0') {
        bail!(16419, "field path must not contain a null byte");
    }
    checked_path(path)
}

/// Unwinds one path.
pub(crate) struct Unwind {
    path: FieldPath,
    index: Option<FieldPath>,
    preserve: bool,
}

impl Unwind {
    fn emit(&self, out: &mut Emit<'_>, doc: Doc<'_>, v: Option<Value<'_>>, at: Option<usize>) {
        let at = at.map_or(Value::Null, |i| Value::Int64(i as i64));
        match (v, &self.index) {
            (None, None) => out.push(doc),
            (Some(v), None) => out.build(|w| write_with(w, doc, self.path.parts(), v)),
            (None, Some(index)) => out.build(|w| write_with(w, doc, index.parts(), at)),
            (Some(v), Some(index)) => {
                let set = DocBuf::build(|w| write_with(w, doc, self.path.parts(), v));
                out.build(|w| write_with(w, set.doc(), index.parts(), at));
            }
        }
    }
}

impl Each for Unwind {
    fn each<'a>(&'a self, cx: &Cx<'_, 'a>, doc: Doc<'a>, out: &mut Emit<'_>) -> Result<()> {
        match plain_at(doc, &self.path) {
            Value::Array(a) if a.is_empty() => {
                if self.preserve {
                    self.emit(out, doc, Some(Value::Missing), None);
                }
            }
            Value::Array(a) => {
                for (i, v) in a.iter().enumerate() {
                    if i % 1024 == 1023 {
                        cx.env.check_interrupt()?;
                    }
                    self.emit(out, doc, Some(v), Some(i));
                }
            }
            v if v.is_nullish() => {
                if self.preserve {
                    self.emit(out, doc, None, None);
                }
            }
            _ => self.emit(out, doc, None, None),
        }
        Ok(())
    }
}

impl Stage for Unwind {
    fn open(self: Arc<Self>, input: Box<dyn Docs>, _: &Rt<'_>) -> Result<Box<dyn Docs>> {
        Ok(EachDocs::open(self, input))
    }
    fn describe(&self) -> DocBuf {
        DocBuf::build(|w| {
            let mut u = w.doc("$unwind");
            u.put("path", format!("${}", self.path.as_str()).as_str());
            if self.preserve {
                u.put("preserveNullAndEmptyArrays", true);
            }
            if let Some(index) = &self.index {
                u.put("includeArrayIndex", index.as_str());
            }
        })
    }
    fn kind(&self) -> Kind<'_> {
        let index = self.index.as_ref().map(FieldPath::as_str);
        Kind::Transform(Transform::Unwind { path: self.path.as_str(), index })
    }
}
