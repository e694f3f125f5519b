//! `window: {documents: [lo, hi]}` or `{range: [lo, hi], unit}`: the documents in the window of a
//! document. Errors: 9 for bad shapes, 5339900 lower above upper, 5339901 documents without sortBy,
//! 5339902 range without one sort field, 8947401 a descending one; at run time 5429413 a date
//! without unit, 5429414 a sort value that is no number, 5429513 one that is no date.

use super::partition::Partition;
use crate::exec::{ExecContext, SortBy, SortPattern};
use crate::path::plain_at;
use crate::stages::date_unit::DateUnit;
use model::{Doc, FieldPath, OwnedValue, Result, Value, bail, code, compare};
use operators::expr::{self, ParseCx};
use std::cmp::Ordering;

/// One end of a window.
#[derive(Clone, Debug)]
pub(in crate::stages) enum Bound<T> {
    /// The end of the partition.
    Unbounded,
    /// This distance from the current document.
    At(T),
}

/// Both ends.
#[derive(Clone, Debug)]
pub(in crate::stages) enum Bounds {
    /// Positions relative to the current document.
    Documents(Bound<i64>, Bound<i64>),
    /// Sort values relative to the current document's.
    Range(Box<Range>),
}

/// A range window.
#[derive(Clone, Debug)]
pub(in crate::stages) struct Range {
    lower: Bound<OwnedValue>,
    upper: Bound<OwnedValue>,
    by: FieldPath,
    unit: Option<DateUnit>,
}

impl Bounds {
    /// The whole partition.
    pub(in crate::stages) const WHOLE: Bounds =
        Bounds::Documents(Bound::Unbounded, Bound::Unbounded);

    /// Whether every window begins at the start of the partition.
    pub(in crate::stages) fn begins_with_partition(&self) -> bool {
        match self {
            Bounds::Documents(lower, _) => matches!(lower, Bound::Unbounded),
            Bounds::Range(range) => matches!(range.lower, Bound::Unbounded),
        }
    }

    /// Parses the `window` argument.
    ///
    /// # Errors
    /// See the head of this file.
    pub(in crate::stages) fn parse(
        cx: &mut ParseCx<'_>,
        spec: Doc<'_>,
        sort: Option<&SortPattern>,
        has_sort_by: bool,
    ) -> Result<Bounds> {
        let (documents, range, unit) = (spec.get("documents"), spec.get("range"), spec.get("unit"));
        if documents.is_some() && range.is_some() {
            bail!(
                code::FAILED_TO_PARSE,
                "Window bounds can specify either 'documents' or 'range', not both"
            );
        }
        if let Some((other, _)) = spec
            .iter()
            .find(|(n, _)| !matches!(*n, "documents" | "range" | "unit"))
        {
            bail!(
                code::FAILED_TO_PARSE,
                "'window' field can only contain 'documents' or 'range' with an optional 'unit', \
                    not '{other}'"
            );
        }
        if range.is_none() && unit.is_some() {
            bail!(
                code::FAILED_TO_PARSE,
                "Window bounds can only specify 'unit' with range-based bounds"
            );
        }
        match (documents, range) {
            (Some(d), _) => Bounds::parse_documents(cx, d, has_sort_by),
            (None, Some(r)) => Bounds::parse_range(cx, r, unit, sort),
            (None, None) => Ok(Bounds::WHOLE),
        }
    }

    fn parse_documents(cx: &mut ParseCx<'_>, v: Value<'_>, has_sort_by: bool) -> Result<Bounds> {
        let [lower, upper] = pair(v)?;
        let int = |v: Value<'_>| match v.as_i64_exact() {
            Some(n) => Ok(n),
            None => bail!(
                code::FAILED_TO_PARSE,
                "Numeric document-based bounds must be an integer, not {v}"
            ),
        };
        let (lower, upper) = (bound(cx, lower, int, 0)?, bound(cx, upper, int, 0)?);
        if let (Bound::At(l), Bound::At(u)) = (&lower, &upper)
            && l > u
        {
            bail!(
                5339900,
                "Lower bound must not exceed upper bound: [{l}, {u}]"
            );
        }
        if !has_sort_by && !matches!((&lower, &upper), (Bound::Unbounded, Bound::Unbounded)) {
            bail!(5339901, "Document-based bounds require a sortBy");
        }
        Ok(Bounds::Documents(lower, upper))
    }

    fn parse_range(
        cx: &mut ParseCx<'_>,
        v: Value<'_>,
        unit: Option<Value<'_>>,
        sort: Option<&SortPattern>,
    ) -> Result<Bounds> {
        let [lower, upper] = pair(v)?;
        let unit = match unit {
            None => None,
            Some(Value::String(s)) => Some(DateUnit::parse(s)?),
            Some(v) => bail!(
                code::FAILED_TO_PARSE,
                "'unit' must be a string, not {}",
                v.type_name()
            ),
        };
        let number = |v: Value<'_>| {
            if unit.is_some() && v.as_i64_exact().is_none() {
                bail!(
                    code::FAILED_TO_PARSE,
                    "With 'unit', range-based bounds must be an integer, not {v}"
                );
            }
            match model::Number::of(&v) {
                Some(_) => Ok(v.to_owned_value()),
                None => bail!(
                    code::FAILED_TO_PARSE,
                    "Range-based bounds expression must be a number, not {v}"
                ),
            }
        };
        let here = Value::Int32(0).to_owned_value();
        let (lower, upper) = (
            bound(cx, lower, number, here.clone())?,
            bound(cx, upper, number, here)?,
        );
        if let (Bound::At(l), Bound::At(u)) = (&lower, &upper)
            && compare(&l.get(), &u.get()) == Ordering::Greater
        {
            bail!(
                5339900,
                "Lower bound must not exceed upper bound: [{l}, {u}]"
            );
        }
        let by = match sort.map(SortPattern::parts) {
            Some([part]) if !part.ascending => bail!(
                8947401,
                "Range-based bounds require sortBy an ascending field"
            ),
            Some([part]) => match &part.by {
                SortBy::Path(path) => path.clone(),
                SortBy::Meta(_) => bail!(
                    5339902,
                    "Range-based bounds require sortBy a single ascending field"
                ),
            },
            _ => bail!(
                5339902,
                "Range-based bounds require sortBy a single ascending field"
            ),
        };
        Ok(Bounds::Range(Box::new(Range {
            lower,
            upper,
            by,
            unit,
        })))
    }

    /// For every document of a partition, the half-open range of positions in its window.
    ///
    /// # Errors
    /// Sort values of other types than the bounds'.
    pub(in crate::stages) fn spans(
        &self,
        part: &Partition,
        exec: &ExecContext<'_>,
    ) -> Result<Vec<(usize, usize)>> {
        let n = part.docs.len();
        match self {
            Bounds::Documents(lower, upper) => Ok((0..n)
                .map(|i| {
                    let at =
                        |offset: i64| (i as i64).saturating_add(offset).clamp(0, n as i64) as usize;
                    let start = match lower {
                        Bound::Unbounded => 0,
                        Bound::At(l) => at(*l),
                    };
                    let end = match upper {
                        Bound::Unbounded => n,
                        Bound::At(u) => at(u.saturating_add(1)),
                    };
                    (start, end.max(start))
                })
                .collect()),
            Bounds::Range(range) => range.spans(part, exec),
        }
    }
}

impl Range {
    fn spans(&self, part: &Partition, exec: &ExecContext<'_>) -> Result<Vec<(usize, usize)>> {
        let keys: Vec<Value<'_>> = part.docs.iter().map(|d| plain_at(d, &self.by)).collect();
        for key in &keys {
            match (self.unit, key) {
                (Some(_), Value::Date(_))
                | (
                    None,
                    Value::Int32(_) | Value::Int64(_) | Value::Double(_) | Value::Decimal128(_),
                ) => {}
                (None, Value::Date(_)) => bail!(
                    5429413,
                    "For windows that involve date or time ranges, a unit must be provided"
                ),
                (Some(_), v) => bail!(
                    5429513,
                    "Invalid range: Expected the sortBy field to be a Date, but it was {}",
                    v.type_name()
                ),
                (None, v) => bail!(
                    5429414,
                    "Invalid range: Expected the sortBy field to be a number, but it was {}",
                    v.type_name()
                ),
            }
        }
        let n = keys.len();
        let (mut start, mut end) = (0, 0);
        let mut spans = Vec::with_capacity(n);
        for key in &keys {
            if let Bound::At(l) = &self.lower {
                let from = self.shift_key(key, &l.get(), exec)?;
                while keys
                    .get(start)
                    .is_some_and(|k| compare(k, &from.get()) == Ordering::Less)
                {
                    start += 1;
                }
            }
            match &self.upper {
                Bound::Unbounded => end = n,
                Bound::At(u) => {
                    let to = self.shift_key(key, &u.get(), exec)?;
                    while keys
                        .get(end)
                        .is_some_and(|k| compare(k, &to.get()) != Ordering::Greater)
                    {
                        end += 1;
                    }
                }
            }
            spans.push((start, end.max(start)));
        }
        Ok(spans)
    }

    fn shift_key(
        &self,
        key: &Value<'_>,
        by: &Value<'_>,
        exec: &ExecContext<'_>,
    ) -> Result<OwnedValue> {
        match self.unit {
            Some(unit) => unit.add(*key, by.as_i64_exact().unwrap_or(0), exec.env),
            None => crate::stages::arithmetic::add(*key, *by, exec.env),
        }
    }
}

fn pair<'a>(v: Value<'a>) -> Result<[Value<'a>; 2]> {
    if let Value::Array(a) = v {
        let mut items = a.iter();
        if let (Some(lower), Some(upper), None) = (items.next(), items.next(), items.next()) {
            return Ok([lower, upper]);
        }
    }
    bail!(
        code::FAILED_TO_PARSE,
        "Window bounds must be a 2-element array: {v}"
    )
}

fn bound<T>(
    cx: &mut ParseCx<'_>,
    v: Value<'_>,
    number: impl Fn(Value<'_>) -> Result<T>,
    current: T,
) -> Result<Bound<T>> {
    match v {
        Value::String("unbounded") => Ok(Bound::Unbounded),
        Value::String("current") => Ok(Bound::At(current)),
        Value::String(s) => bail!(
            code::FAILED_TO_PARSE,
            "Window bounds must be 'unbounded', 'current', or a number, not '{s}'"
        ),
        v => {
            let constant =
                expr::parse_constant(cx, v, code::FAILED_TO_PARSE, "Window bounds expression")?;
            Ok(Bound::At(number(constant.get())?))
        }
    }
}
