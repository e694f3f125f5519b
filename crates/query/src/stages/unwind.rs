//! `$unwind: "$path"` or `{path, includeArrayIndex, preserveNullAndEmptyArrays}`: one document per
//! array element. A value that is no array counts as one element, without an index. Errors: 15981
//! neither string nor object, 28808 path no string, 28809 preserve no boolean, 28810 index no name,
//! 28811 unknown field, 28812 no path, 28818 path without `$`, 28822 index with `$`, and those of
//! field paths (16419 for a null byte).

use crate::exec::{BatchStream, DocBatch, ExecContext};
use crate::path::{checked_path, plain_at, write_with};
use crate::stage::{ApiClass, Kind, Placement, Stage, StageNeeds, StageOp, Transform, one};
use model::{Doc, DocBuf, FieldPath, Result, Value, bail};
use operators::RequiredFields;
use std::sync::Arc;

pub(super) static STAGES: &[StageOp] = &[StageOp {
    name: "$unwind",
    api: ApiClass::Inside,
    needs: StageNeeds::Nothing,
    placement: Placement::ANYWHERE,
    parse: |_, _, arg| match arg {
        Value::String(path) => one(Unwind {
            path: parse_path(path)?,
            index: None,
            preserve: false,
        }),
        Value::Document(spec) => one(parse_spec(spec)?),
        other => bail!(
            15981,
            "expected either a string or an object as specification for $unwind stage, got {}",
            other.type_name()
        ),
    },
}];

fn parse_spec(spec: Doc<'_>) -> Result<Unwind> {
    let (mut path, mut index, mut preserve) = ("", None, false);
    for (name, v) in spec.iter() {
        match (name, v) {
            ("path", Value::String(s)) => path = s,
            ("path", v) => bail!(
                28808,
                "expected a string as the path for $unwind stage, got {}",
                v.type_name()
            ),
            ("preserveNullAndEmptyArrays", Value::Bool(b)) => preserve = b,
            ("preserveNullAndEmptyArrays", v) => {
                bail!(
                    28809,
                    "expected a boolean for the preserveNullAndEmptyArrays option to $unwind \
                        stage, got {}",
                    v.type_name()
                )
            }
            ("includeArrayIndex", Value::String(s)) if !s.is_empty() => {
                if s.starts_with('$') {
                    bail!(
                        28822,
                        "includeArrayIndex option to $unwind stage should not be prefixed with a \
                            '$': {s}"
                    );
                }
                index = Some(checked_path(s)?);
            }
            ("includeArrayIndex", v) => bail!(
                28810,
                "expected a non-empty string for the includeArrayIndex option to $unwind stage, \
                    got {v}"
            ),
            _ => bail!(28811, "unrecognized option to $unwind stage: {name}"),
        }
    }
    Ok(Unwind {
        path: parse_path(path)?,
        index,
        preserve,
    })
}

fn parse_path(path: &str) -> Result<FieldPath> {
    if path.is_empty() {
        bail!(28812, "no path specified to $unwind stage");
    }
    let Some(path) = path.strip_prefix('$') else {
        bail!(
            28818,
            "path option to $unwind stage should be prefixed with a '$': {path}"
        );
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
    fn emit(&self, out: &mut DocBatch, from: Origin<'_>, v: Option<Value<'_>>, at: Option<usize>) {
        let Origin { doc, meta } = from;
        let at = at.map_or(Value::Null, |i| Value::Int64(i as i64));
        match (v, &self.index) {
            (None, None) => out.push_with_meta(doc, meta),
            (Some(v), None) => out.build(meta, |w| write_with(w, doc, self.path.parts(), v)),
            (None, Some(index)) => out.build(meta, |w| write_with(w, doc, index.parts(), at)),
            (Some(v), Some(index)) => {
                let set = DocBuf::build(|w| write_with(w, doc, self.path.parts(), v));
                out.build(meta, |w| write_with(w, set.doc(), index.parts(), at));
            }
        }
    }

    /// Unwinds one document until the batch is full. Returns the position at which to go on; `None`
    /// if the document is done.
    fn unwind(
        &self,
        from: Origin<'_>,
        on: Option<Position>,
        out: &mut DocBatch,
    ) -> Option<Position> {
        match plain_at(from.doc, &self.path) {
            Value::Array(a) if a.is_empty() => {
                if self.preserve {
                    self.emit(out, from, Some(Value::Missing), None);
                }
            }
            Value::Array(a) => {
                let mut index = on.map_or(0, |on| on.index);
                let mut elements = on.map_or(a.elements(), |on| a.elements_from(on.rest_bytes));
                while let Some(e) = elements.next() {
                    self.emit(out, from, Some(e.value()), Some(index));
                    index += 1;
                    let rest_bytes = elements.rest_bytes();
                    if out.is_full() && rest_bytes > 0 {
                        return Some(Position { index, rest_bytes });
                    }
                }
            }
            v if v.is_nullish() => {
                if self.preserve {
                    self.emit(out, from, None, None);
                }
            }
            _ => self.emit(out, from, None, None),
        }
        None
    }
}

/// The input document of an output document.
#[derive(Clone, Copy)]
struct Origin<'d> {
    doc: Doc<'d>,
    meta: Option<Doc<'d>>,
}

/// A position inside an array.
#[derive(Clone, Copy)]
struct Position {
    index: usize,
    rest_bytes: usize,
}

/// A batch may end in the middle of an array, because the array may be long and its document large.
struct UnwindStream {
    stage: Arc<Unwind>,
    input: Box<dyn BatchStream>,
    inbox: DocBatch,
    /// The document of the input batch that is being unwound, and the position in its array.
    at: usize,
    on: Option<Position>,
    more: bool,
}

impl BatchStream for UnwindStream {
    fn next_batch(&mut self, exec: &ExecContext<'_>, out: &mut DocBatch) -> Result<bool> {
        if self.at >= self.inbox.len() {
            if !self.more {
                return Ok(false);
            }
            self.at = 0;
            self.inbox.clear();
            self.more = self.input.next_batch(exec, &mut self.inbox)?;
        }
        while self.at < self.inbox.len() && !out.is_full() {
            exec.env.check_interrupt()?;
            let from = Origin {
                doc: self.inbox.doc(self.at),
                meta: self.inbox.meta(self.at),
            };
            self.on = self.stage.unwind(from, self.on, out);
            if self.on.is_none() {
                self.at += 1;
            }
        }
        Ok(self.more || self.at < self.inbox.len())
    }
}

impl Stage for Unwind {
    fn open(
        self: Arc<Self>,
        input: Box<dyn BatchStream>,
        _: &ExecContext<'_>,
    ) -> Result<Box<dyn BatchStream>> {
        let inbox = DocBatch::new();
        Ok(Box::new(UnwindStream {
            stage: self,
            input,
            inbox,
            at: 0,
            on: None,
            more: true,
        }))
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
        Kind::Transform(Transform::Unwind {
            path: self.path.as_str(),
            index,
            preserve: self.preserve,
        })
    }
    fn reads(&self, reads: &mut RequiredFields) {
        reads.add_path(&self.path);
        if let Some(index) = &self.index {
            reads.add_path(index);
        }
    }
}
