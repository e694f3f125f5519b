//! `$setWindowFields: {partitionBy, sortBy, output: {field: {function, window}}}`: documents come
//! out by partition and in order, with a field per window function. Errors: 9 for no object and
//! malformed functions, strict field codes, 14 a partition by an array, 292 a partition past the
//! memory budget, and those of the window functions.

use super::fields::Fields;
use super::window::{self, Partition, WindowContext, WindowFn};
use crate::exec::{
    BatchStream, DocBatch, ExecContext, Run, SortBuffer, SortPattern, drain, memory_error,
};
use crate::path::{checked_path, write_with};
use crate::stage::{
    ApiClass, Kind, Placement, Stage, StageContext, StageNeeds, StageOp, Transform, one,
};
use model::{Bump, Doc, DocBuf, FieldPath, OwnedValue, Result, Value, bail, code, compare_with};
use operators::RequiredFields;
use operators::expr::{self, BoxExpr};
use std::cmp::Ordering;
use std::sync::Arc;

pub(super) static STAGES: &[StageOp] = &[StageOp {
    name: "$setWindowFields",
    api: ApiClass::Inside,
    needs: StageNeeds::Nothing,
    placement: Placement::ANYWHERE,
    parse: |scx, name, arg| one(parse(scx, name, arg)?),
}];

fn parse(
    scx: &mut StageContext<'_, '_>,
    name: &'static str,
    arg: Value<'_>,
) -> Result<SetWindowFields> {
    let Value::Document(spec) = arg else {
        bail!(
            code::FAILED_TO_PARSE,
            "the {name} stage specification must be an object, found {}",
            arg.type_name()
        );
    };
    let f = Fields::new(name, spec, &["partitionBy", "sortBy", "output"])?;
    f.required("output")?;
    let output = f.document("output")?.unwrap_or(Doc::EMPTY);
    let by = match f.get("partitionBy") {
        Value::Missing => None,
        v => Some(expr::parse(scx.cx, v)?),
    };
    let sort_by = f.document("sortBy")?;
    let has_sort_by = sort_by.is_some();
    let by_something = sort_by.filter(|d| !d.is_empty());
    let sort = by_something.map(SortPattern::parse).transpose()?;
    let mut fields = Vec::new();
    for (field, v) in output.iter() {
        let Value::Document(function) = v else {
            bail!(
                code::FAILED_TO_PARSE,
                "The field '{field}' must be an object, not {}",
                v.type_name()
            );
        };
        fields.push((
            checked_path(field)?,
            parse_function(
                &mut WindowContext {
                    cx: scx.cx,
                    sort: sort.as_ref(),
                    has_sort_by,
                    window: None,
                },
                field,
                function,
            )?,
        ));
    }
    Ok(SetWindowFields {
        by,
        sort,
        fields,
        is_own: true,
        shown: model::doc! { name: spec },
    })
}

/// `{$function: argument, window: {...}}`.
fn parse_function<'c>(
    wcx: &mut WindowContext<'c, '_>,
    field: &str,
    spec: Doc<'c>,
) -> Result<Box<dyn WindowFn>> {
    let mut function = None;
    for (name, v) in spec.iter() {
        match (name, v) {
            ("window", Value::Document(d)) => wcx.window = Some(d),
            ("window", v) => bail!(
                code::FAILED_TO_PARSE,
                "'window' field must be an object, not {}",
                v.type_name()
            ),
            (n, v) if n.starts_with('$') && function.is_none() => function = Some((n, v)),
            (n, _) => bail!(
                match function {
                    Some(("$rank" | "$denseRank" | "$documentNumber", _)) => 5371601,
                    _ => code::FAILED_TO_PARSE,
                },
                "the field '{field}' must have one window function and 'window', not also '{n}'"
            ),
        }
    }
    let Some((name, arg)) = function else {
        bail!(
            code::FAILED_TO_PARSE,
            "Expected a $-prefixed window function in the field '{field}'"
        );
    };
    window::parse(wcx, name, arg)
}

/// Computes window functions over its input.
pub(super) struct SetWindowFields {
    by: Option<BoxExpr>,
    sort: Option<SortPattern>,
    fields: Vec<(FieldPath, Box<dyn WindowFn>)>,
    /// It was written as `$setWindowFields`, not made by another stage.
    is_own: bool,
    shown: DocBuf,
}

impl SetWindowFields {
    /// A stage made from another one.
    pub(super) fn new(
        by: Option<BoxExpr>,
        sort: Option<SortPattern>,
        fields: Vec<(FieldPath, Box<dyn WindowFn>)>,
        shown: DocBuf,
    ) -> SetWindowFields {
        SetWindowFields {
            by,
            sort,
            fields,
            is_own: false,
            shown,
        }
    }

    fn partition_of<'a>(
        &'a self,
        exec: &ExecContext<'a>,
        arena: &'a Bump,
        doc: Doc<'a>,
    ) -> Result<Value<'a>> {
        let Some(by) = &self.by else {
            return Ok(Value::Null);
        };
        match by.eval(&exec.cx(arena, doc))? {
            Value::Missing => Ok(Value::Null),
            Value::Array(_) => bail!(
                code::TYPE_MISMATCH,
                "An expression used to partition cannot evaluate to value of type array"
            ),
            v => Ok(v),
        }
    }
}

impl Stage for SetWindowFields {
    fn open(
        self: Arc<Self>,
        input: Box<dyn BatchStream>,
        _: &ExecContext<'_>,
    ) -> Result<Box<dyn BatchStream>> {
        // The order: the partition's value first, then the sort components on the document below.
        let mut order = DocBuf::new();
        if self.by.is_some() {
            order.put("p", 1i32);
        }
        for (path, v) in self.sort.iter().flat_map(|s| s.spec().iter()) {
            order.put(&format!("d.{path}"), v);
        }
        let order = (!order.doc().is_empty())
            .then(|| SortPattern::parse(order.doc()))
            .transpose()?;
        Ok(Box::new(WindowStream {
            stage: self,
            input: Some(input),
            order,
            source: Source::default(),
            next_partition: None,
            ready: None,
            at: 0,
            arena: Bump::new(),
        }))
    }
    fn describe(&self) -> DocBuf {
        self.shown.clone()
    }
    fn kind(&self) -> Kind<'_> {
        match self.is_own {
            true => Kind::Transform(Transform::SetWindowFields),
            false => Kind::Other,
        }
    }
    fn reads(&self, reads: &mut RequiredFields) {
        if let Some(by) = &self.by {
            by.reads(reads);
        }
        if let Some(sort) = &self.sort {
            sort.reads(reads);
        }
        for (path, function) in &self.fields {
            reads.add_path(path);
            function.reads(reads);
        }
    }
}

/// The wrapped documents `{p: partition, d: document}` in order.
#[derive(Default)]
struct Source {
    run: Option<Run>,
    inbox: DocBatch,
    at: usize,
    more: bool,
}

/// A partition and the values of its new fields, one column for each field.
struct ComputedPartition {
    docs: DocBatch,
    columns: Vec<Vec<OwnedValue>>,
}

struct WindowStream {
    stage: Arc<SetWindowFields>,
    input: Option<Box<dyn BatchStream>>,
    order: Option<SortPattern>,
    source: Source,
    /// The first document of the next partition, which was read already.
    next_partition: Option<(OwnedValue, DocBuf)>,
    /// The partition whose documents are being given.
    ready: Option<ComputedPartition>,
    at: usize,
    arena: Bump,
}

impl BatchStream for WindowStream {
    fn next_batch(&mut self, exec: &ExecContext<'_>, out: &mut DocBatch) -> Result<bool> {
        if let Some(mut input) = self.input.take() {
            self.read(input.as_mut(), exec)?;
        }
        while self.ready.as_ref().is_none_or(|r| self.at >= r.docs.len()) {
            exec.env.check_interrupt()?;
            if !self.compute_next(exec)? {
                return Ok(false);
            }
        }
        let Some(ready) = &self.ready else {
            return Ok(false);
        };
        while self.at < ready.docs.len() && !out.is_full() {
            let mut doc = ready.docs.doc(self.at).to_buf();
            for ((path, _), column) in self.stage.fields.iter().zip(&ready.columns) {
                let v = column.get(self.at).map_or(Value::Missing, |v| v.get());
                doc = DocBuf::build(|w| write_with(w, doc.doc(), path.parts(), v));
            }
            out.push(doc.doc());
            self.at += 1;
        }
        Ok(true)
    }
}

impl WindowStream {
    fn read(&mut self, input: &mut dyn BatchStream, exec: &ExecContext<'_>) -> Result<()> {
        let budget = exec.host.memory_limit_bytes();
        let (mut rows, mut run) = (SortBuffer::default(), Run::new(usize::MAX));
        let (stage, order, arena) = (&self.stage, self.order.as_ref(), &mut self.arena);
        drain(input, exec, |doc, meta| {
            let partition = stage.partition_of(exec, arena, doc)?;
            let wrapped = model::doc! { "p": partition, "d": doc };
            match order {
                Some(order) => rows.push(order, wrapped.doc(), meta, exec.env)?,
                None => rows.push_keyed(Value::Null, wrapped.doc(), None),
            }
            arena.reset();
            let short = rows.len_bytes() > budget / 4
                && exec.allow_disk_use
                && exec.env.is_short_of_memory();
            if short || rows.len_bytes() > budget {
                if !exec.allow_disk_use {
                    return Err(memory_error("$setWindowFields", budget));
                }
                if order.is_some() {
                    rows.sort();
                }
                run.spill(&mut rows, exec)?;
            }
            Ok(())
        })?;
        if order.is_some() {
            rows.sort();
        }
        run.finish(rows);
        self.source = Source {
            run: Some(run),
            more: true,
            ..Source::default()
        };
        Ok(())
    }

    /// The next document, without its wrapper.
    fn take(&mut self) -> Result<Option<(OwnedValue, DocBuf)>> {
        let s = &mut self.source;
        while s.at >= s.inbox.len() {
            let Some(run) = s.run.as_mut().filter(|_| s.more) else {
                return Ok(None);
            };
            s.inbox.clear();
            s.at = 0;
            s.more = match &self.order {
                Some(_) => run.next_batch(&mut s.inbox)?,
                None => run.next_unordered(&mut s.inbox)?,
            };
        }
        let wrapped = s.inbox.doc(s.at);
        s.at += 1;
        let doc = wrapped.field("d").as_doc().unwrap_or(Doc::EMPTY).to_buf();
        Ok(Some((wrapped.field("p").to_owned_value(), doc)))
    }

    /// Reads one partition and computes its fields; `false` if there is none left.
    fn compute_next(&mut self, exec: &ExecContext<'_>) -> Result<bool> {
        let budget = exec.host.memory_limit_bytes();
        self.ready = None;
        let first = match self.next_partition.take() {
            Some(first) => Some(first),
            None => self.take()?,
        };
        let Some((partition, doc)) = first else {
            return Ok(false);
        };
        let mut part = Partition {
            docs: DocBatch::new(),
        };
        part.docs.push(doc.doc());
        while let Some((p, doc)) = self.take()? {
            if compare_with(&p.get(), &partition.get(), exec.env.collate()) != Ordering::Equal {
                self.next_partition = Some((p, doc));
                break;
            }
            part.docs.push(doc.doc());
            if part.docs.capacity_bytes() > budget {
                return Err(memory_error("$setWindowFields", budget));
            }
            exec.env.work(1 + doc.doc().len_bytes() / 64)?;
        }
        let stage = self.stage.clone();
        let columns = stage
            .fields
            .iter()
            .map(|(_, f)| f.compute(&part, exec))
            .collect::<Result<Vec<_>>>()?;
        self.at = 0;
        self.ready = Some(ComputedPartition {
            docs: part.docs,
            columns,
        });
        Ok(true)
    }
}
