//! Arguments of `find`, `aggregate`, `count`, `distinct`.

use super::{NUMBERS, doc_or_empty, hint};
use model::{Array, Doc, Result, Tag, Value, bail, code};
use request::args::{Arg, Args, Kind, arg, check_doc, collection_name, show};
use state::plan_filters::ShapeParts;

/// Table of `find`.
pub static FIND: &[Arg] = &[
    arg("filter", Kind::Object).strict_null(),
    arg("sort", Kind::Object),
    arg("projection", Kind::Object),
    arg("hint", Kind::Any),
    arg("skip", Kind::AtLeast(0, code::BAD_VALUE)),
    arg("limit", Kind::AtLeast(0, code::BAD_VALUE)),
    arg("batchSize", Kind::AtLeast(0, code::BAD_VALUE)),
    arg("singleBatch", Kind::Bool),
    arg("allowDiskUse", Kind::Bool),
    arg("collation", Kind::Object),
    arg("let", Kind::Object),
    arg("max", Kind::Object),
    arg("min", Kind::Object),
    arg("returnKey", Kind::Bool),
    arg("showRecordId", Kind::Bool),
    arg("tailable", Kind::Bool),
    arg("oplogReplay", Kind::Bool),
    arg("noCursorTimeout", Kind::Bool),
    arg("awaitData", Kind::Bool),
    arg("allowPartialResults", Kind::Bool),
    arg("mirrored", Kind::Bool),
    arg("term", Kind::OneOf(&[Tag::INT64])),
    arg("options", Kind::Number),
    arg("includeQueryStatsMetrics", Kind::Bool),
    arg("querySettings", Kind::Object),
    arg("$_requestResumeToken", Kind::Bool),
    arg("$_requestReshardingResumeToken", Kind::Bool),
    arg("$_resumeAfter", Kind::Object),
    arg("$_startAt", Kind::Object),
    arg("collectionUUID", Kind::OneOf(&[Tag::BINARY])),
];

/// The options of a tailing cursor.
#[derive(Clone, Copy, Debug, Default)]
pub struct CursorOptions {
    /// The cursor stays open at the end of a capped collection.
    pub tailable: bool,
    /// The cursor waits for data at the end.
    pub await_data: bool,
    /// The cursor never times out.
    pub no_timeout: bool,
}

/// Arguments of `find`.
#[derive(Clone, Debug)]
pub struct FindArgs<'a> {
    /// Collection or view.
    pub coll: &'a str,
    /// Filter.
    pub filter: Doc<'a>,
    /// Sort order; empty means natural order.
    pub sort: Doc<'a>,
    /// Projection; empty returns whole documents.
    pub projection: Doc<'a>,
    /// Index name or key pattern.
    pub hint: Option<Value<'a>>,
    /// Documents to skip.
    pub skip: u64,
    /// Most documents; `None` means no limit.
    pub limit: Option<u64>,
    /// Most documents in the first batch.
    pub batch_size: Option<i64>,
    /// Return only one batch.
    pub single_batch: bool,
    /// Blocking stages may use temporary files.
    pub allow_disk_use: Option<bool>,
    /// Collation.
    pub collation: Option<Doc<'a>>,
    /// Variables.
    pub let_vars: Doc<'a>,
    /// Lower bound of the hinted index.
    pub min: Doc<'a>,
    /// Upper bound of the hinted index.
    pub max: Doc<'a>,
    /// Return index keys instead of documents.
    pub return_key: bool,
    /// Add the record id to each document.
    pub show_record_id: bool,
    /// Cursor behaviour.
    pub cursor: CursorOptions,
}

impl<'a> FindArgs<'a> {
    /// Parses arguments that were checked against [`FIND`].
    ///
    /// # Errors
    /// 9 FailedToParse, 2 BadValue for options that exclude one another.
    pub fn of(coll: &'a str, a: &Args<'a>) -> Result<FindArgs<'a>> {
        let positive = |name: &'static str| a.int(name).and_then(|n| u64::try_from(n).ok());
        let args = FindArgs {
            coll,
            filter: doc_or_empty(a.value("filter")),
            sort: doc_or_empty(a.value("sort")),
            projection: doc_or_empty(a.value("projection")),
            hint: hint(a.value("hint"))?,
            skip: positive("skip").unwrap_or(0),
            limit: positive("limit").filter(|n| *n > 0),
            batch_size: a.int("batchSize"),
            single_batch: a.bool("singleBatch", false),
            allow_disk_use: a.has("allowDiskUse").then(|| a.bool("allowDiskUse", true)),
            collation: a.doc("collation"),
            let_vars: doc_or_empty(a.value("let")),
            min: doc_or_empty(a.value("min")),
            max: doc_or_empty(a.value("max")),
            return_key: a.bool("returnKey", false),
            show_record_id: a.bool("showRecordId", false),
            cursor: CursorOptions {
                tailable: a.bool("tailable", false),
                await_data: a.bool("awaitData", false),
                no_timeout: a.bool("noCursorTimeout", false),
            },
        };
        args.check()?;
        Ok(args)
    }

    fn check(&self) -> Result<()> {
        if self.cursor.await_data && !self.cursor.tailable {
            bail!(
                code::FAILED_TO_PARSE,
                "Cannot set 'awaitData' without also setting 'tailable'"
            );
        }
        if self.cursor.tailable {
            let natural_up =
                self.sort.count() == 1 && self.sort.field("$natural").as_i64_exact() == Some(1);
            if !self.sort.is_empty() && !natural_up {
                bail!(
                    code::BAD_VALUE,
                    "cannot use tailable option with a sort other than {{$natural: 1}}, given {}",
                    self.sort
                );
            }
            if self.single_batch {
                bail!(
                    code::BAD_VALUE,
                    "cannot use tailable option with the 'singleBatch' option"
                );
            }
        }
        if self.sort.contains("$natural") && self.sort.count() > 1 {
            bail!(
                code::BAD_VALUE,
                "$natural sort cannot be set with other sort fields, given {}",
                self.sort
            );
        }
        if (!self.min.is_empty() || !self.max.is_empty()) && self.hint.is_none() {
            bail!(
                51_173,
                "When using min()/max() a hint of which index to use must be provided"
            );
        }
        if !self.min.is_empty()
            && !self.max.is_empty()
            && !self
                .min
                .iter()
                .map(|(n, _)| n)
                .eq(self.max.iter().map(|(n, _)| n))
        {
            bail!(51_176, "min and max must have the same field names");
        }
        Ok(())
    }
}

/// Table of `aggregate`.
pub static AGGREGATE: &[Arg] = &[
    arg("pipeline", Kind::Array).required().strict_null(),
    arg("cursor", Kind::Object).strict_null(),
    arg("explain", Kind::Bool).strict_null(),
    arg("allowDiskUse", Kind::Bool).strict_null(),
    arg("bypassDocumentValidation", Kind::BoolLike),
    arg("collation", Kind::Object),
    arg("hint", Kind::Any),
    arg("let", Kind::Object),
    arg("needsMerge", Kind::Bool),
    arg("fromMongos", Kind::Bool),
    arg("fromRouter", Kind::Bool),
    arg("exchange", Kind::Object),
    arg("runtimeConstants", Kind::Object),
    arg("collectionUUID", Kind::OneOf(&[Tag::BINARY])),
    arg("includeQueryStatsMetrics", Kind::Bool),
    arg("querySettings", Kind::Object),
    arg("resultsSorted", Kind::Bool),
    arg("isMapReduceCommand", Kind::Bool),
    arg("$_requestReshardingResumeToken", Kind::Bool),
    arg("$_isClusterQueryWithoutShardKeyCmd", Kind::Bool),
];

/// Arguments of `aggregate`.
#[derive(Clone, Debug)]
pub struct AggregateArgs<'a> {
    /// Collection or view; `None` for a pipeline over a database (`{aggregate: 1}`).
    pub coll: Option<&'a str>,
    /// Stages.
    pub pipeline: Array<'a>,
    /// Most documents in the first batch.
    pub batch_size: Option<i64>,
    /// Explain instead of running.
    pub explain: bool,
    /// Blocking stages may use temporary files.
    pub allow_disk_use: Option<bool>,
    /// Bypass validators.
    pub bypass_validation: bool,
    /// Collation.
    pub collation: Option<Doc<'a>>,
    /// Index name or key pattern.
    pub hint: Option<Value<'a>>,
    /// Variables.
    pub let_vars: Doc<'a>,
}

impl<'a> AggregateArgs<'a> {
    /// Parses the value of the command's first field and arguments that were checked against
    /// [`AGGREGATE`]. With `inner` the command is inside `explain` and needs no cursor.
    ///
    /// # Errors
    /// 73 InvalidNamespace for an invalid collection, 9 FailedToParse without `cursor`, with a hint
    /// of a wrong type, and for explain with a write concern; 14 TypeMismatch, 2 BadValue.
    pub fn of(
        own: Value<'a>,
        a: &Args<'a>,
        inner: bool,
        write_concern: bool,
    ) -> Result<AggregateArgs<'a>> {
        static CURSOR: &[Arg] = &[arg("batchSize", Kind::AtLeast(0, code::BAD_VALUE))];
        let coll = match own {
            // Read as a double, so that a decimal just below 1 counts as 1.
            v if v.is_number() => match v.as_f64() {
                Some(1.0) => None,
                _ => bail!(
                    code::BAD_VALUE,
                    "Invalid command format: the 'aggregate' field must specify a collection name \
                        or 1, given {}",
                    show(&v)
                ),
            },
            v => Some(collection_name(&v)?),
        };
        let explain = a.bool("explain", false);
        let batch_size = match a.doc("cursor") {
            Some(d) => check_doc("aggregate.cursor", CURSOR, d)?.int("batchSize"),
            None if explain || inner => None,
            None => bail!(
                code::FAILED_TO_PARSE,
                "The 'cursor' option is required, except for aggregate with the explain argument"
            ),
        };
        if explain && write_concern {
            bail!(
                code::FAILED_TO_PARSE,
                "Aggregation explain does not support the 'writeConcern' option"
            );
        }
        Ok(AggregateArgs {
            coll,
            pipeline: a.array("pipeline").unwrap_or(Array::EMPTY),
            batch_size,
            explain,
            allow_disk_use: a.has("allowDiskUse").then(|| a.bool("allowDiskUse", true)),
            bypass_validation: a.bool("bypassDocumentValidation", false),
            collation: a.doc("collation"),
            hint: hint(a.value("hint"))?,
            let_vars: doc_or_empty(a.value("let")),
        })
    }
}

/// Table of `count`.
pub static COUNT: &[Arg] = &[
    arg("query", Kind::Object),
    arg("limit", Kind::Any),
    arg("skip", Kind::OneOf(NUMBERS)),
    arg("hint", Kind::Any),
    arg("collation", Kind::Object),
    arg("fields", Kind::Any),
    arg("mirrored", Kind::Bool),
    arg("encryptionInformation", Kind::Object),
    arg("querySettings", Kind::Object),
    arg("includeQueryStatsMetrics", Kind::Bool),
    arg("collectionUUID", Kind::OneOf(&[Tag::BINARY])),
];

/// Arguments of `count`.
#[derive(Clone, Debug)]
pub struct CountArgs<'a> {
    /// Collection or view.
    pub coll: &'a str,
    /// Filter.
    pub query: Doc<'a>,
    /// Most documents counted, which is the absolute value of a negative limit.
    pub limit: Option<u64>,
    /// Documents to skip.
    pub skip: u64,
    /// Index name or key pattern.
    pub hint: Option<Value<'a>>,
    /// Collation.
    pub collation: Option<Doc<'a>>,
}

impl<'a> CountArgs<'a> {
    /// Parses arguments that were checked against [`COUNT`].
    ///
    /// # Errors
    /// 9 FailedToParse, 2 BadValue for a negative skip; those of the limit.
    pub fn of(coll: &'a str, a: &Args<'a>) -> Result<CountArgs<'a>> {
        let skip = a.int("skip").unwrap_or(0);
        let Ok(skip) = u64::try_from(skip) else {
            bail!(
                code::BAD_VALUE,
                "BSON field 'skip' value must be >= 0, actual value '{skip}'"
            );
        };
        Ok(CountArgs {
            coll,
            query: doc_or_empty(a.value("query")),
            limit: count_limit(a.value("limit"))?,
            skip,
            hint: hint(a.value("hint"))?,
            collation: a.doc("collation"),
        })
    }
}

/// The limit of a `count`, which has its own parser: a whole number of 64 bits. A negative number
/// counts as its absolute value, and 0 means no limit.
///
/// # Errors
/// 2 BadValue for a value that is not a number and for the smallest integer, 9 FailedToParse for a
/// number that is not an integer or does not fit.
fn count_limit(v: Value<'_>) -> Result<Option<u64>> {
    if v.is_missing() {
        return Ok(None);
    }
    if !v.is_number() {
        bail!(
            code::BAD_VALUE,
            "limit must be a number, not {}",
            v.type_name()
        );
    }
    match v.as_i64_exact() {
        None => bail!(
            code::FAILED_TO_PARSE,
            "limit must be a whole number of 64 bits, given {}",
            show(&v)
        ),
        Some(i64::MIN) => bail!(code::BAD_VALUE, "limit must be greater than {}", i64::MIN),
        Some(n) => Ok(Some(n.unsigned_abs()).filter(|n| *n > 0)),
    }
}

/// Table of `distinct`.
pub static DISTINCT: &[Arg] = &[
    arg("key", Kind::Str).required(),
    arg("query", Kind::Object),
    arg("collation", Kind::Object),
    arg("hint", Kind::Any),
    arg("querySettings", Kind::Object),
    arg("includeQueryStatsMetrics", Kind::Bool),
    arg("collectionUUID", Kind::OneOf(&[Tag::BINARY])),
];

/// Arguments of `distinct`.
#[derive(Clone, Debug)]
pub struct DistinctArgs<'a> {
    /// Collection or view.
    pub coll: &'a str,
    /// The path whose values are returned.
    pub key: &'a str,
    /// Filter.
    pub query: Doc<'a>,
    /// Collation.
    pub collation: Option<Doc<'a>>,
    /// Index name or key pattern.
    pub hint: Option<Value<'a>>,
}

impl<'a> DistinctArgs<'a> {
    /// Parses arguments that were checked against [`DISTINCT`].
    ///
    /// # Errors
    /// 9 FailedToParse.
    pub fn of(coll: &'a str, a: &Args<'a>) -> Result<DistinctArgs<'a>> {
        Ok(DistinctArgs {
            coll,
            key: a.str("key").unwrap_or(""),
            query: doc_or_empty(a.value("query")),
            collation: a.doc("collation"),
            hint: hint(a.value("hint"))?,
        })
    }
}

impl FindArgs<'_> {
    /// The parts that determine the query's shape.
    pub fn shape(&self) -> ShapeParts<'_> {
        ShapeParts {
            query: self.filter,
            sort: self.sort,
            projection: self.projection,
            collation: self.collation.unwrap_or(Doc::EMPTY),
        }
    }
}

impl CountArgs<'_> {
    /// The parts that determine the query's shape.
    pub fn shape(&self) -> ShapeParts<'_> {
        ShapeParts::of(self.query, self.collation)
    }
}

impl DistinctArgs<'_> {
    /// The parts that determine the query's shape.
    pub fn shape(&self) -> ShapeParts<'_> {
        ShapeParts::of(self.query, self.collation)
    }
}

impl AggregateArgs<'_> {
    /// The parts that determine the shape of the query at the start of the pipeline: its `$match`
    /// and the `$sort` after it.
    pub fn shape(&self) -> ShapeParts<'_> {
        let mut shape = ShapeParts::of(Doc::EMPTY, self.collation);
        let mut stages = self.pipeline.iter().filter_map(|s| s.as_doc()?.first());
        let mut next = stages.next();
        if let Some(("$match", Value::Document(query))) = next {
            shape.query = query;
            next = stages.next();
        }
        if let Some(("$sort", Value::Document(sort))) = next {
            shape.sort = sort;
        }
        shape
    }
}
