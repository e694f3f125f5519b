//! `$densify: {field, partitionByFields, range: {step, unit, bounds}}`: adds documents where the
//! values of a field have gaps. Bounds are "full" (least to greatest of all), "partition" (of each
//! partition) or `[lower, upper)`. Documents without the field pass through. Errors: strict field
//! codes, 5733401 step not positive, 5733402 bounds not ascending or of other types, 5733403 not
//! two of them, 5946802 other words, 5733406 a number and a date, 5733408 "partition" without
//! partitions, 5733409 numbers with a unit, 5733410 dates without one, 6586400 fractions of a unit,
//! 8993000 the field itself as partition; at run time 5733201 and 6053600 values that are no
//! numbers or dates, 5897900 too many documents.

use super::arithmetic;
use super::date_unit::DateUnit;
use super::fields::Fields;
use super::sort::Sort;
use crate::exec::{BatchStream, DocBatch, ExecContext, SortPattern, Spool, SpoolStream, drain};
use crate::path::{checked_path, plain_at, write_with};
use crate::stage::{ApiClass, Placement, Stage, StageContext, StageNeeds, StageOp};
use hashbrown::HashMap;
use model::{Doc, DocBuf, FieldPath, MongoError, Number, OwnedValue, Result, Value, bail, compare};
use operators::Env;
use std::cmp::Ordering;
use std::sync::Arc;

pub(super) static STAGES: &[StageOp] = &[StageOp {
    name: "$densify",
    api: ApiClass::Inside,
    needs: StageNeeds::Nothing,
    placement: Placement::ANYWHERE,
    parse,
}];

/// Most documents one stage adds.
const MAX_GENERATED: u64 = 500_000;

fn parse(
    _: &mut StageContext<'_, '_>,
    name: &'static str,
    arg: Value<'_>,
) -> Result<Vec<Arc<dyn Stage>>> {
    let Value::Document(spec) = arg else {
        bail!(
            5733400,
            "The {name} stage specification must be an object, found {}",
            arg.type_name()
        );
    };
    let f = Fields::new(name, spec, &["field", "partitionByFields", "range"])?;
    f.required("field")?;
    f.required("range")?;
    let field = checked_path(f.string("field")?.unwrap_or(""))?;
    let mut partitions = Vec::new();
    for v in f
        .array("partitionByFields")?
        .into_iter()
        .flat_map(|a| a.iter())
    {
        let Value::String(s) = v else {
            return f.wrong_type("partitionByFields", v, "string");
        };
        if s == field.as_str() {
            bail!(
                8993000,
                "BSON field '$densify.partitionByFields' contains the field that is being densified"
            );
        }
        partitions.push(checked_path(s)?);
    }
    let range = parse_range(
        f.document("range")?.unwrap_or(Doc::EMPTY),
        !partitions.is_empty(),
    )?;
    let mut order = DocBuf::new();
    // With "full" bounds documents of several partitions alternate in the order of the field;
    // otherwise one partition follows the other.
    if !matches!(range.bounds, Bounds::Full) {
        for p in &partitions {
            order.put(p.as_str(), 1i32);
        }
    }
    order.put(field.as_str(), 1i32);
    let sort = Sort::new(SortPattern::parse(order.doc())?);
    let shown = model::doc! { name: spec };
    Ok(vec![
        Arc::new(sort),
        Arc::new(Densify {
            field,
            partitions,
            range,
            shown,
        }),
    ])
}

enum Bounds {
    Full,
    Partition,
    Explicit(OwnedValue, OwnedValue),
}

struct Range {
    step: OwnedValue,
    unit: Option<DateUnit>,
    bounds: Bounds,
}

fn parse_range(spec: Doc<'_>, partitioned: bool) -> Result<Range> {
    let f = Fields::new("range", spec, &["step", "unit", "bounds"])?;
    let step = f.required("step")?;
    let Some(n) = Number::of(&step) else {
        return f.wrong_type("step", step, "number");
    };
    if n.to_f64() <= 0.0 || n.is_nan() {
        bail!(
            5733401,
            "the step parameter in a range statement must be a strictly positive numeric value, \
                not {step}"
        );
    }
    let unit = f.string("unit")?.map(DateUnit::parse).transpose()?;
    if unit.is_some() && step.as_i64_exact().is_none() {
        bail!(
            6586400,
            "The step parameter in a range statement must be a whole number when densifying a date \
                range, not {step}"
        );
    }
    let bounds = match f.required("bounds")? {
        Value::String("full") => Bounds::Full,
        Value::String("partition") if !partitioned => {
            bail!(
                5733408,
                "one may not specify the bounds as 'partition' without specifying a non-empty \
                    array of partitionByFields. You may have meant to specify 'full' bounds"
            )
        }
        Value::String("partition") => Bounds::Partition,
        Value::String(s) => bail!(
            5946802,
            "Bounds string must either be 'full' or 'partition', not '{s}'"
        ),
        Value::Array(a) => {
            let [lower, upper] = two(a)?;
            check_bounds(lower.get(), upper.get(), unit)?;
            Bounds::Explicit(lower, upper)
        }
        v => bail!(
            5733402,
            "the bounds in a range statement must be the string 'full', 'partition', or an \
                ascending array of two numbers or two dates, not {v}"
        ),
    };
    Ok(Range {
        step: step.to_owned_value(),
        unit,
        bounds,
    })
}

fn two(a: model::Array<'_>) -> Result<[OwnedValue; 2]> {
    let mut items = a.iter();
    match (items.next(), items.next(), items.next()) {
        (Some(l), Some(u), None) => Ok([l.to_owned_value(), u.to_owned_value()]),
        _ => bail!(
            5733403,
            "a bounding array in a range statement must have exactly two elements, not {}",
            a.len()
        ),
    }
}

fn check_bounds(lower: Value<'_>, upper: Value<'_>, unit: Option<DateUnit>) -> Result<()> {
    let number = |v: &Value<'_>| Number::of(v).is_some();
    let date = |v: &Value<'_>| matches!(v, Value::Date(_));
    if !number(&lower) && !date(&lower) || compare(&lower, &upper) == Ordering::Greater {
        bail!(
            5733402,
            "a bounding array must be an ascending array of either two dates or two numbers, not \
                [{lower}, {upper}]"
        );
    }
    if number(&lower) && unit.is_some() {
        bail!(5733409, "numeric bounds may not have unit parameter");
    }
    if number(&lower) != number(&upper) || date(&lower) != date(&upper) {
        bail!(
            5733406,
            "a bounding array must contain either both dates or both numeric types, not \
                [{lower}, {upper}]"
        );
    }
    if date(&lower) && unit.is_none() {
        bail!(5733410, "date bounds require a unit");
    }
    Ok(())
}

struct Densify {
    field: FieldPath,
    partitions: Vec<FieldPath>,
    range: Range,
    shown: DocBuf,
}

impl Stage for Densify {
    fn open(
        self: Arc<Self>,
        input: Box<dyn BatchStream>,
        _: &ExecContext<'_>,
    ) -> Result<Box<dyn BatchStream>> {
        Ok(Box::new(DensifyStream {
            stage: self,
            input: Some(input),
            output: None,
        }))
    }
    fn describe(&self) -> DocBuf {
        self.shown.clone()
    }
}

impl Range {
    /// A lower limit of the number of steps from one number to another; infinite if a step does not
    /// increase the number. It detects too many documents before any is made.
    fn steps(&self, from: Value<'_>, until: Value<'_>) -> f64 {
        let of = |v: &Value<'_>| Number::of(v).map(Number::to_f64);
        let (Some(from), Some(until), Some(step), None) =
            (of(&from), of(&until), of(&self.step.get()), self.unit)
        else {
            return 0.0;
        };
        if from.is_nan() || from == f64::NEG_INFINITY {
            return if from.is_nan() && until.is_nan() || from == until {
                0.0
            } else {
                f64::INFINITY
            };
        }
        // The error of repeated rounding is far below one percent.
        (until - from) / step * 0.99 - 10.0
    }

    /// The value one step later.
    fn step_on(&self, v: Value<'_>, env: &Env) -> Result<OwnedValue> {
        match self.unit {
            Some(unit) => unit.add(v, self.step.get().as_i64_exact().unwrap_or(1), env),
            None => arithmetic::add(v, self.step.get(), env),
        }
    }
}

fn too_many(generated: u64) -> MongoError {
    MongoError::new(
        5897900,
        format!(
            "Generated {generated} documents in $densify, which is over the limit of \
                {MAX_GENERATED}"
        ),
    )
}

/// The state of one partition.
struct Partition {
    /// The next value of the grid for which no document exists yet.
    next: OwnedValue,
    /// The partition's fields.
    fields: DocBuf,
}

struct DensifyStream {
    stage: Arc<Densify>,
    input: Option<Box<dyn BatchStream>>,
    output: Option<SpoolStream>,
}

impl BatchStream for DensifyStream {
    fn next_batch(&mut self, exec: &ExecContext<'_>, out: &mut DocBatch) -> Result<bool> {
        let output = match (&mut self.output, self.input.take()) {
            (Some(output), _) => output,
            (none, Some(mut input)) => {
                let mut run = DensifyRun {
                    stage: &self.stage,
                    exec,
                    out: Spool::default(),
                    generated: 0,
                    parts: HashMap::new(),
                    order: Vec::new(),
                };
                run.fill_all(input.as_mut())?;
                none.insert(run.out.finish()?.reader()?)
            }
            (None, None) => return Ok(false),
        };
        output.next_batch(exec, out)
    }
}

/// One run over the sorted input.
struct DensifyRun<'f> {
    stage: &'f Densify,
    exec: &'f ExecContext<'f>,
    out: Spool,
    generated: u64,
    parts: HashMap<Vec<u8>, Partition>,
    /// Keys of partitions in the order of their first document.
    order: Vec<Vec<u8>>,
}

impl DensifyRun<'_> {
    fn fill_all(&mut self, input: &mut dyn BatchStream) -> Result<()> {
        let (mut least, mut greatest): (Option<OwnedValue>, Option<OwnedValue>) = (None, None);
        let mut current: Option<Vec<u8>> = None;
        let exec = self.exec;
        drain(input, exec, |doc, meta| {
            let v = plain_at(doc, &self.stage.field);
            if v.is_nullish() {
                return self.out.push(doc, meta, exec);
            }
            self.check(&v)?;
            let key = self.key(doc);
            if !matches!(self.stage.range.bounds, Bounds::Full)
                && current.as_ref().is_some_and(|c| *c != key)
            {
                self.end_partition(current.as_deref(), greatest.as_ref())?;
            }
            if current.as_ref() != Some(&key) && !matches!(self.stage.range.bounds, Bounds::Full) {
                greatest = None;
            }
            current = Some(key.clone());
            let least = least.get_or_insert_with(|| v.to_owned_value()).clone();
            self.fill_before(&key, doc, &v, &least)?;
            greatest = Some(v.to_owned_value());
            self.out.push(doc, meta, exec)
        })?;
        match &self.stage.range.bounds {
            Bounds::Full => {
                let Some(greatest) = greatest else {
                    return Ok(());
                };
                for key in std::mem::take(&mut self.order) {
                    self.fill_up_to(&key, greatest.get(), true)?;
                }
                Ok(())
            }
            Bounds::Explicit(lower, _) if current.is_none() && self.stage.partitions.is_empty() => {
                // The input is empty: the whole range is added.
                let key = Vec::new();
                self.parts.insert(
                    key.clone(),
                    Partition {
                        next: lower.clone(),
                        fields: DocBuf::new(),
                    },
                );
                self.end_partition(Some(&key), None)
            }
            _ => self.end_partition(current.as_deref(), greatest.as_ref()),
        }
    }

    fn check(&self, v: &Value<'_>) -> Result<()> {
        let dates = self.stage.range.unit.is_some();
        match v {
            Value::Date(_) if dates => Ok(()),
            Value::Date(_) => bail!(
                6053600,
                "Encountered a date in $densify without a unit: {v}"
            ),
            v if Number::of(v).is_some() && !dates => Ok(()),
            v if Number::of(v).is_some() => bail!(
                6053600,
                "Encountered a number in $densify with a unit of time: {v}"
            ),
            v => bail!(
                5733201,
                "Densify field type must be numeric or a date, but found {}",
                v.type_name()
            ),
        }
    }

    fn key(&self, doc: Doc<'_>) -> Vec<u8> {
        let mut key = Vec::new();
        for p in &self.stage.partitions {
            compare::equality_key(&plain_at(doc, p), self.exec.env.collate(), &mut key);
        }
        key
    }

    /// Adds the documents that are missing before a document, and moves the grid past its value.
    fn fill_before(
        &mut self,
        key: &[u8],
        doc: Doc<'_>,
        v: &Value<'_>,
        least: &OwnedValue,
    ) -> Result<()> {
        let mut fields = DocBuf::new();
        for p in &self.stage.partitions {
            fields = DocBuf::build(|w| write_with(w, fields.doc(), p.parts(), plain_at(doc, p)));
        }
        if let Some(part) = self.parts.get_mut(key) {
            // Partition values can be equal without being identical: added documents copy those of
            // the document after them.
            part.fields = fields;
        } else {
            let next = match &self.stage.range.bounds {
                Bounds::Full => least.clone(),
                Bounds::Partition => v.to_owned_value(),
                Bounds::Explicit(lower, _) => lower.clone(),
            };
            self.parts.insert(key.to_vec(), Partition { next, fields });
            self.order.push(key.to_vec());
        }
        if let Bounds::Explicit(_, upper) = &self.stage.range.bounds {
            let until = if compare(v, &upper.get()) == Ordering::Less {
                *v
            } else {
                upper.get()
            };
            let until = until.to_owned_value();
            return self.fill_up_to(key, until.get(), false);
        }
        self.fill_up_to(key, *v, false)
    }

    fn end_partition(&mut self, key: Option<&[u8]>, greatest: Option<&OwnedValue>) -> Result<()> {
        let Some(key) = key else { return Ok(()) };
        match &self.stage.range.bounds {
            Bounds::Explicit(_, upper) => {
                let upper = upper.clone();
                self.fill_up_to(key, upper.get(), false)
            }
            _ => match greatest {
                Some(v) => self.fill_up_to(key, v.get(), true),
                None => Ok(()),
            },
        }
    }

    /// Adds documents of the grid up to a value. A value that is itself on the grid is skipped, or
    /// added if `inclusive`.
    fn fill_up_to(&mut self, key: &[u8], until: Value<'_>, inclusive: bool) -> Result<()> {
        let (stage, exec) = (self.stage, self.exec);
        let Some(part) = self.parts.get_mut(key) else {
            return Ok(());
        };
        if stage.range.steps(part.next.get(), until) > (MAX_GENERATED - self.generated) as f64 {
            return Err(too_many(MAX_GENERATED + 1));
        }
        loop {
            let order = compare(&part.next.get(), &until);
            if order == Ordering::Less || inclusive && order == Ordering::Equal {
                self.generated += 1;
                if self.generated > MAX_GENERATED {
                    return Err(too_many(self.generated));
                }
                let doc = DocBuf::build(|w| {
                    write_with(w, part.fields.doc(), stage.field.parts(), part.next.get())
                });
                self.out.push(doc.doc(), None, exec)?;
            }
            match order {
                Ordering::Less => part.next = stage.range.step_on(part.next.get(), exec.env)?,
                // The grid continues from the document's own value and so takes over its type.
                Ordering::Equal => {
                    part.next = stage.range.step_on(until, exec.env)?;
                    return Ok(());
                }
                Ordering::Greater => return Ok(()),
            }
            exec.env.check_interrupt()?;
        }
    }
}
