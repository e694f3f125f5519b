//! `$bucketAuto: {groupBy, buckets, output, granularity}`: sorts by a value and cuts into buckets
//! of about equal size. Errors: 40240 no object, 40239 groupBy no expression, 40241 buckets no
//! number, 40242 no whole number, 40243 not positive, 40244 output no object, 40245 unknown field,
//! 40246 required field absent, 40261 granularity no string, 40257 unknown granularity; at run time
//! 40258 value no number, 40259 not finite, 40260 negative, each only with a granularity.

use super::accumulate::{Field, States, emit, parse_field};
use super::bucket::group_by;
use super::granularity::Granularity;
use crate::exec::{BatchStream, DocBatch, ExecContext, Run, SortBuffer, drain, memory_error};
use crate::stage::{ApiClass, Placement, Stage, StageContext, StageNeeds, StageOp, one};
use model::{Bump, Doc, DocBuf, Number, OwnedValue, Result, Value, bail, compare_with, doc};
use operators::expr::BoxExpr;
use std::cmp::Ordering;
use std::sync::Arc;

pub(super) static STAGES: &[StageOp] = &[StageOp {
    name: "$bucketAuto",
    api: ApiClass::Inside,
    needs: StageNeeds::Nothing,
    placement: Placement::ANYWHERE,
    parse: |scx, name, arg| one(parse(scx, name, arg)?),
}];

fn parse(scx: &mut StageContext<'_, '_>, name: &str, arg: Value<'_>) -> Result<BucketAuto> {
    let Value::Document(spec) = arg else {
        bail!(
            40240,
            "the argument to {name} must be an object, but found type: {}",
            arg.type_name()
        );
    };
    let (mut by, mut buckets, mut granularity) = (None, None, None);
    let mut output = doc! { "count": { "$sum": 1i32 } };
    for (field, v) in spec.iter() {
        match (field, v) {
            ("groupBy", v) => by = Some(group_by(scx, 40239, v)?),
            ("buckets", v) => buckets = Some(parse_buckets(v)?),
            ("output", Value::Document(d)) => output = d.to_buf(),
            ("output", v) => bail!(
                40244,
                "the {name} 'output' field must be an object, but found type: {}",
                v.type_name()
            ),
            ("granularity", Value::String(s)) => match Granularity::parse(s) {
                Some(g) => granularity = Some(g),
                None => bail!(40257, "Unknown rounding granularity '{s}'"),
            },
            ("granularity", v) => bail!(
                40261,
                "the {name} 'granularity' field must be a string, but found type: {}",
                v.type_name()
            ),
            _ => bail!(40245, "unrecognized option to {name}: {field}"),
        }
    }
    let (Some(by), Some(buckets)) = (by, buckets) else {
        bail!(
            40246,
            "{name} requires 'groupBy' and 'buckets' to be specified"
        );
    };
    let fields = output
        .doc()
        .iter()
        .map(|(n, v)| parse_field(scx.cx, n, v))
        .collect::<Result<Vec<_>>>()?;
    Ok(BucketAuto {
        by,
        buckets,
        granularity,
        fields,
        spec: spec.to_buf(),
    })
}

fn parse_buckets(v: Value<'_>) -> Result<i32> {
    if Number::of(&v).is_none() {
        bail!(
            40241,
            "the $bucketAuto 'buckets' field must be a numeric value, but found type: {}",
            v.type_name()
        );
    }
    let Some(n) = v.as_i64_exact().and_then(|n| i32::try_from(n).ok()) else {
        bail!(
            40242,
            "the $bucketAuto 'buckets' field must be representable as a 32-bit integer, but found \
                {v}"
        );
    };
    if n <= 0 {
        bail!(
            40243,
            "the $bucketAuto 'buckets' field must be greater than 0, but found: {n}"
        );
    }
    Ok(n)
}

struct BucketAuto {
    by: BoxExpr,
    buckets: i32,
    granularity: Option<Granularity>,
    fields: Vec<Field>,
    spec: DocBuf,
}

impl BucketAuto {
    fn key<'a>(
        &'a self,
        exec: &ExecContext<'a>,
        arena: &'a Bump,
        doc: Doc<'a>,
    ) -> Result<Value<'a>> {
        let v = match self.by.eval(&exec.cx(arena, doc))? {
            Value::Missing => Value::Null,
            v => v,
        };
        if self.granularity.is_some() {
            let Some(n) = Number::of(&v) else {
                bail!(
                    40258,
                    "$bucketAuto can specify a 'granularity' with numeric boundaries only, but \
                        found a value with type: {}",
                    v.type_name()
                );
            };
            if n.is_nan() {
                bail!(
                    40259,
                    "$bucketAuto can specify a 'granularity' with numeric boundaries only, but \
                        found a NaN"
                );
            }
            if n.to_f64() < 0.0 {
                bail!(
                    40260,
                    "$bucketAuto can specify a 'granularity' with non-negative numbers only, but \
                        found a negative number: {v}"
                );
            }
        }
        Ok(v)
    }
}

impl Stage for BucketAuto {
    fn open(
        self: Arc<Self>,
        input: Box<dyn BatchStream>,
        _: &ExecContext<'_>,
    ) -> Result<Box<dyn BatchStream>> {
        Ok(Box::new(BucketAutoStream {
            stage: self,
            input: Some(input),
            sorted: None,
            arena: Bump::new(),
        }))
    }
    fn describe(&self) -> DocBuf {
        doc! { "$bucketAuto": &self.spec }
    }
}

struct BucketAutoStream {
    stage: Arc<BucketAuto>,
    input: Option<Box<dyn BatchStream>>,
    sorted: Option<SortedInput>,
    arena: Bump,
}

/// The sorted documents, read one by one, and the progress of cutting them into buckets.
struct SortedInput {
    run: Run,
    inbox: DocBatch,
    at: usize,
    more: bool,
    per_bucket: u64,
    number: i32,
    /// The first document of the next bucket, which was read already.
    next: Option<(OwnedValue, DocBuf)>,
    previous_max: Option<OwnedValue>,
}

impl BucketAutoStream {
    fn read(&self, mut input: Box<dyn BatchStream>, exec: &ExecContext<'_>) -> Result<SortedInput> {
        let (stage, budget) = (&self.stage, exec.host.memory_limit_bytes());
        let (mut rows, mut run, mut n) = (SortBuffer::default(), Run::new(usize::MAX), 0u64);
        let mut arena = Bump::new();
        drain(input.as_mut(), exec, |doc, _| {
            rows.push_keyed(stage.key(exec, &arena, doc)?, doc, exec.env.collate());
            arena.reset();
            n += 1;
            let short = rows.len_bytes() > budget / 4
                && exec.allow_disk_use
                && exec.env.is_short_of_memory();
            if short || rows.len_bytes() > budget {
                if !exec.allow_disk_use {
                    return Err(memory_error("$bucketAuto", budget));
                }
                rows.sort();
                run.spill(&mut rows, exec)?;
            }
            Ok(())
        })?;
        rows.sort();
        run.finish(rows);
        let per_bucket = ((n as f64 / f64::from(stage.buckets)).round() as u64).max(1);
        Ok(SortedInput {
            run,
            inbox: DocBatch::new(),
            at: 0,
            more: true,
            per_bucket,
            number: 0,
            next: None,
            previous_max: None,
        })
    }

    /// The next document in order, with its value.
    fn take(
        &self,
        s: &mut SortedInput,
        exec: &ExecContext<'_>,
    ) -> Result<Option<(OwnedValue, DocBuf)>> {
        while s.at >= s.inbox.len() {
            if !s.more {
                return Ok(None);
            }
            s.inbox.clear();
            s.at = 0;
            s.more = s.run.next_batch(&mut s.inbox)?;
        }
        let doc = s.inbox.doc(s.at);
        s.at += 1;
        let key = self.stage.key(exec, &self.arena, doc)?.to_owned_value();
        Ok(Some((key, doc.to_buf())))
    }

    /// Fills and returns one bucket: its bounds and accumulators.
    fn bucket(
        &self,
        s: &mut SortedInput,
        exec: &ExecContext<'_>,
    ) -> Result<Option<(OwnedValue, OwnedValue, States)>> {
        let first = match s.next.take() {
            Some(first) => Some(first),
            None => self.take(s, exec)?,
        };
        let Some((first_key, first_doc)) = first else {
            return Ok(None);
        };
        s.number += 1;
        let stage = &self.stage;
        let collate = exec.env.collate();
        let mut states = States::start(&stage.fields, &exec.cx(&self.arena, Doc::EMPTY))?;
        let add = |states: &mut States, doc: &DocBuf| {
            let arena = Bump::new();
            exec.env.check_interrupt()?;
            states
                .add(&stage.fields, &exec.cx(&arena, doc.doc()))
                .map(|_| ())
        };
        let min = match (&stage.granularity, s.previous_max.take()) {
            (Some(_), Some(max)) => max,
            (Some(g), None) => g.round_down(&first_key.get()),
            (None, _) => first_key.clone(),
        };
        let mut max = first_key;
        add(&mut states, &first_doc)?;
        let mut filled = 1;
        while filled < s.per_bucket || s.number == stage.buckets {
            let Some((key, doc)) = self.take(s, exec)? else {
                break;
            };
            add(&mut states, &doc)?;
            max = key;
            filled += 1;
        }
        let mut next = self.take(s, exec)?;
        let rounded = stage.granularity.as_ref().map(|g| g.round_up(&max.get()));
        while let Some((key, doc)) = &next {
            // Equal values, and values below the rounded boundary, belong to this bucket.
            let order = compare_with(
                &rounded.as_ref().map_or(max.get(), |r| r.get()),
                &key.get(),
                collate,
            );
            let belongs = if rounded.is_some() {
                order == Ordering::Greater
            } else {
                order == Ordering::Equal
            };
            if !belongs {
                break;
            }
            add(&mut states, doc)?;
            next = self.take(s, exec)?;
        }
        max = match (&stage.granularity, rounded, &next) {
            (Some(g), Some(r), Some((key, _))) if r.get().as_f64() == Some(0.0) => {
                g.round_down(&key.get())
            }
            (Some(_), Some(r), _) => r,
            (_, _, Some((key, _))) => key.clone(),
            _ => max,
        };
        s.previous_max = Some(max.clone());
        s.next = next;
        Ok(Some((min, max, states)))
    }
}

impl BatchStream for BucketAutoStream {
    fn next_batch(&mut self, exec: &ExecContext<'_>, out: &mut DocBatch) -> Result<bool> {
        let mut sorted = match (self.sorted.take(), self.input.take()) {
            (Some(s), _) => s,
            (None, Some(input)) => self.read(input, exec)?,
            (None, None) => return Ok(false),
        };
        while !out.is_full() {
            exec.env.check_interrupt()?;
            let Some((min, max, states)) = self.bucket(&mut sorted, exec)? else {
                return Ok(false);
            };
            states.room_to_write(exec.env)?;
            emit(out, |w| {
                w.doc("_id").put("min", min.get()).put("max", max.get());
                states.write(&self.stage.fields, &exec.cx(&self.arena, Doc::EMPTY), w)
            })?;
        }
        self.arena.reset();
        self.sorted = Some(sorted);
        Ok(true)
    }
}
