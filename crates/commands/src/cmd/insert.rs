//! `insert`.

use auth::{Action, Target};
use context::command::Command;
use context::crud::statement::report_retried;
use context::crud::write_batch::{FLAGS, check_batch, write_errors};
use context::ctx::Ctx;
use context::ddl::collection::{check_writable, create_implicitly};
use context::ddl::identity::check_uuid;
use context::ddl::names;
use context::ddl::timeseries::Series;
use context::retry::StatementIds;
use context::rules::document_id::{check_id, new_object_id};
use context::rules::validator::Validator;
use model::bucket::{self, SeriesOptions};
use model::{
    Doc, DocBuf, MongoError, Namespace, ObjectId, Result, Tag, Timestamp, Value, bail, code,
};
use operation::split_set_aside;
use request::Outcome;
use request::args::{Arg, Kind, arg};
use request::asked::RightsRequest;
use request::spec::{Durability, LatencyKind, OpClass, Privilege};
use state::capped;
use state::service::is_collection_gone;
use std::borrow::Cow;
use std::sync::Arc;
use store::{BucketView, Collection, CommitPos, InsertOutcome, ReadView, RetryImage};

static ARGS: &[Arg] = &[
    arg("documents", Kind::Array).required().sequence(),
    arg("ordered", Kind::Bool),
    arg("bypassDocumentValidation", Kind::BoolLike),
    arg("stmtId", Kind::Number),
    arg("stmtIds", Kind::Array),
    arg("encryptionInformation", Kind::Object),
    arg("bypassEmptyTsReplacement", Kind::Bool),
    arg("collectionUUID", Kind::OneOf(&[Tag::BINARY])),
    arg("isTimeseriesNamespace", Kind::Bool),
];

pub(crate) static COMMANDS: &[Command] = &[Command::new(
    "insert",
    "inserts documents",
    Privilege::Asked(needs),
    FLAGS,
    ARGS,
    run,
)
.value(Kind::Collection)
.class(OpClass::Insert)
.durability(Durability::OwnWrites)
.kind(LatencyKind::Write)];

/// The progress of an `insert`.
#[derive(Default)]
struct InsertProgress {
    /// How many documents were written or refused, counted from the first.
    ended: usize,
    count: usize,
    /// Documents that an earlier attempt of the command has written.
    known: usize,
    errors: Vec<(usize, MongoError)>,
    pos: CommitPos,
}

impl InsertProgress {
    /// Adds the results of the documents at these positions.
    fn add(&mut self, done: InsertOutcome, positions: &[usize], documents: usize) {
        let position = |at: usize| positions.get(at).copied().unwrap_or(documents);
        self.count += done.count;
        self.pos = self.pos.max(done.pos);
        let refused = done.errors.into_iter();
        self.errors.extend(refused.map(|(at, e)| (position(at), e)));
        self.ended = position(done.seen);
    }
}

/// Documents in their stored form, with their positions in the command.
#[derive(Default)]
struct PreparedDocuments<'a> {
    documents: Vec<Cow<'a, [u8]>>,
    positions: Vec<usize>,
    /// Their statement numbers in the session.
    ids: StatementIds,
    /// Documents that cannot be stored, with their errors.
    refused: Vec<(usize, MongoError)>,
    /// Positions of documents that an earlier attempt of the command has written.
    known: Vec<usize>,
}

fn needs(asked: &RightsRequest<'_, '_>) -> Result<()> {
    let target = Target::Collection(asked.db, asked.collection()?);
    asked.needs_to_write(target, &[Action::Insert])
}

fn run(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let mut written = cx.progress.take_or_default::<InsertProgress>();
    let result = insert_all(cx, &mut written);
    let (written, ()) = cx.progress.settle(written, result)?;
    reply(cx, &written);
    Ok(Outcome::Reply)
}

fn insert_all(cx: &mut Ctx<'_, '_>, written: &mut InsertProgress) -> Result<()> {
    let ns = names::own_or_buckets(cx)?;
    let documents = cx.args.documents("insert", "documents")?;
    check_batch(documents.len())?;
    let ordered = cx.args.bool("ordered", true) || cx.transaction.is_some();
    if !cx.request.waited {
        cx.service.counters.add(
            OpClass::Insert,
            i64::try_from(documents.len()).unwrap_or(0) - 1,
        );
    }
    if let Some(series) = names::series_of_buckets(cx.service, &ReadView::LATEST, &ns)? {
        return restore(cx, &series, &documents, ordered, written);
    }
    let coll = collection(cx, &ns)?;
    let ready = ready(cx, &coll, &documents, ordered, written.ended)?;
    let docs: Vec<Doc<'_>> = ready
        .documents
        .iter()
        .map(|d| Doc::from_prefix(d))
        .collect();
    cx.operation.check()?;
    let mut done = InsertOutcome::default();
    let mut result = insert_into(cx, &coll, &docs, ordered, &ready.ids, &mut done);
    let none = written.ended == 0 && coll.inserts_at_once(&docs);
    if is_collection_gone(&result) && none && cx.transaction.is_none() {
        let service = cx.service;
        result = service.retry_replaced(|| {
            let coll = collection(cx, &ns)?;
            done = InsertOutcome::default();
            insert_into(cx, &coll, &docs, ordered, &ready.ids, &mut done)
        });
    }
    match split_set_aside(result) {
        Ok(result) => result?,
        Err(again) => {
            written.add(done, &ready.positions, documents.len());
            let ended = |at: &usize| *at < written.ended;
            written.known += ready.known.iter().filter(|at| ended(at)).count();
            let refused = ready.refused.into_iter().filter(|(at, _)| ended(at));
            written.errors.extend(refused);
            return Err(again);
        }
    }
    let stopped = ordered && !done.errors.is_empty();
    written.add(done, &ready.positions, documents.len());
    if !stopped {
        written.errors.extend(ready.refused);
    }
    written.known += ready.known.len();
    written.errors.sort_by_key(|(i, _)| *i);
    written.ended = documents.len();
    match cx.transaction {
        // All documents have ended, so another run would only repeat this step.
        None => capped::end_insert(cx.service, coll.writer(&cx.operation)),
        Some(_) => Ok(()),
    }
}

/// Prepares the documents from position `from` on; with `ordered`, only those before the first one
/// that cannot be stored.
fn ready<'a>(
    cx: &mut Ctx<'_, '_>,
    coll: &Arc<Collection>,
    documents: &[Doc<'a>],
    ordered: bool,
    from: usize,
) -> Result<PreparedDocuments<'a>> {
    let bypass = cx.args.bool("bypassDocumentValidation", false);
    let form = DocumentRules {
        validate: Validator::of(cx.service, cx.operation.connection(), coll, bypass)?,
        series: Series::of(coll),
    };
    let ids = cx
        .retry
        .as_mut()
        .map(|r| r.ids(&cx.args, documents.len()))
        .transpose()?
        .unwrap_or_default();
    let mut ready = PreparedDocuments {
        documents: Vec::with_capacity(documents.len()),
        positions: Vec::with_capacity(documents.len()),
        ..PreparedDocuments::default()
    };
    for (i, d) in documents.iter().enumerate().skip(from) {
        let id = ids.get(i).copied();
        if let (Some(r), Some(id)) = (&mut cx.retry, id)
            && r.find_effect(id).is_some()
        {
            ready.known.push(i);
            continue;
        }
        match prepare(cx, *d, i).and_then(|p| form.apply(p)) {
            Ok(p) => {
                ready.documents.push(p);
                ready.positions.push(i);
                ready.ids.extend(id);
            }
            Err(e) => {
                ready.refused.push((i, e));
                if ordered {
                    break;
                }
            }
        }
    }
    Ok(ready)
}

/// Inserts that tools make into the buckets of a time-series collection: each document is a bucket,
/// and its measurements are inserted.
fn restore(
    cx: &mut Ctx<'_, '_>,
    series: &Arc<Collection>,
    buckets: &[Doc<'_>],
    ordered: bool,
    written: &mut InsertProgress,
) -> Result<()> {
    if cx.transaction.is_some() {
        bail!(
            code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION,
            "Cannot insert into a time-series collection in a multi-document transaction: {}",
            series.ns()
        );
    }
    let options = series.options();
    let form = SeriesOptions::of(options.doc())
        .ok_or_else(|| MongoError::internal("a time-series collection without its options"))?;
    let all_ids = cx
        .retry
        .as_mut()
        .map(|r| r.ids(&cx.args, buckets.len()))
        .transpose()?
        .unwrap_or_default();
    for (i, bucket) in buckets.iter().enumerate().skip(written.ended) {
        cx.operation.check()?;
        let mut ids = StatementIds::new();
        if let (Some(r), Some(id)) = (&mut cx.retry, all_ids.get(i)) {
            if r.find_effect(*id).is_some() {
                written.known += 1;
                written.ended = i + 1;
                continue;
            }
            ids.push(*id);
        }
        let inserted = read_bucket(cx, *bucket, &form).and_then(|bucket| {
            // The statement is the bucket; it is recorded with the bucket's first measurement.
            let mut log = cx.retry.as_mut().map(|r| r.log(&ids, RetryImage::Fact));
            let mut inserted = series
                .writer(&cx.operation)
                .restore_bucket(&bucket, log.as_mut())?;
            match inserted.errors.pop() {
                None => Ok(inserted.pos),
                Some((_, e)) => Err(e),
            }
        });
        match split_set_aside(inserted)? {
            Ok(pos) => {
                written.count += 1;
                written.pos = written.pos.max(pos);
            }
            Err(e) => {
                written.errors.push((i, e));
                if ordered {
                    break;
                }
            }
        }
        written.ended = i + 1;
    }
    written.ended = buckets.len();
    Ok(())
}

/// A bucket in the format of tools.
fn read_bucket(cx: &Ctx<'_, '_>, bucket: Doc<'_>, form: &SeriesOptions) -> Result<BucketView> {
    let Value::ObjectId(id) = bucket.field("_id") else {
        bail!(
            code::BAD_VALUE,
            "the _id of a bucket must be an ObjectId, given {}",
            bucket.field("_id").type_name()
        );
    };
    let mut unpacked = bucket::unpack(bucket, form)?;
    let without_id = unpacked.measurements.iter_mut();
    for m in without_id.filter(|m| !m.doc().contains("_id")) {
        m.put("_id", ObjectId(new_object_id(cx.now_ms())));
    }
    let control = bucket.field("control").as_doc();
    let min = control.and_then(|c| c.field("min").as_doc());
    let start_ms = match min.map(|m| m.field(&form.time)) {
        Some(Value::Date(ms)) => ms,
        _ => id.timestamp_ms(),
    };
    let mut rest = [0; 8];
    rest.copy_from_slice(&id.0[4..]);
    Ok(BucketView {
        start_ms,
        rest,
        meta: unpacked.meta,
        measurements: unpacked.measurements,
    })
}

fn reply(cx: &mut Ctx<'_, '_>, written: &InsertProgress) {
    let InsertProgress { errors, known, .. } = written;
    if !cx.is_unacknowledged() {
        let n = i32::try_from(written.count + known).unwrap_or(i32::MAX);
        cx.reply.put("n", n);
        write_errors(&mut cx.reply, errors);
        report_retried(cx);
    }
    if written.pos != CommitPos::default() {
        cx.reported.own_write(written.pos);
    }
    cx.failed |= cx.transaction.is_some() && !errors.is_empty();
    // A refused document reports what others wrote, a retry what its first attempt wrote.
    if !errors.is_empty() || *known > 0 {
        cx.reported.add_other_data();
    }
}

fn insert_into(
    cx: &mut Ctx<'_, '_>,
    coll: &Arc<Collection>,
    docs: &[Doc<'_>],
    ordered: bool,
    ids: &StatementIds,
    done: &mut InsertOutcome,
) -> Result<()> {
    if let Some(transaction) = &cx.transaction {
        *done = coll
            .writer(&cx.operation)
            .insert_in(docs, true, transaction)?;
        return Ok(());
    }
    let mut log = cx.retry.as_mut().map(|r| r.log(ids, RetryImage::Fact));
    let on_progress = || cx.operation.writes().checkpoint();
    let writer = coll.writer(&cx.operation);
    writer.insert_with_progress(docs, ordered, log.as_mut(), done, &on_progress)
}

/// The requirements of a collection for its documents.
struct DocumentRules {
    validate: Option<Validator>,
    series: Option<Series>,
}

impl DocumentRules {
    /// Validates a document, and orders the fields of a measurement.
    fn apply<'a>(&self, document: Cow<'a, [u8]>) -> Result<Cow<'a, [u8]>> {
        if let Some(s) = &self.series {
            let arranged = s.arrange(Doc::from_prefix(&document))?;
            return Ok(Cow::Owned(arranged.into_bytes()));
        }
        if let Some(v) = &self.validate {
            v.check(Doc::from_prefix(&document))?;
        }
        Ok(document)
    }
}

/// The collection, created if it does not exist.
fn collection(cx: &Ctx<'_, '_>, ns: &Namespace) -> Result<Arc<Collection>> {
    let transaction = cx.transaction.as_deref();
    if let Some(c) = cx
        .service
        .store
        .collection_to_write(&cx.operation, ns, transaction)?
    {
        check_uuid(cx, ns, Some(c.uuid()))?;
        if c.is_view() {
            bail!(
                code::COMMAND_NOT_SUPPORTED_ON_VIEW,
                "Namespace {ns} is a view, not a collection"
            );
        }
        check_writable(&c)?;
        return Ok(c);
    }
    check_uuid(cx, ns, None)?;
    create_implicitly(cx.service, &cx.operation, ns, transaction)
}

/// The document in its stored form, with a leading `_id` and with empty timestamps filled in. It is
/// borrowed if it needs no change.
fn prepare<'a>(cx: &Ctx<'_, '_>, d: Doc<'a>, i: usize) -> Result<Cow<'a, [u8]>> {
    if d.len_bytes() > model::bson::MAX_DOCUMENT_BYTES {
        bail!(
            code::BSON_OBJECT_TOO_LARGE,
            "object to insert too large. size in bytes: {}, max size: {}",
            d.len_bytes(),
            model::bson::MAX_DOCUMENT_BYTES
        );
    }
    if model::is_deeper_than(d, model::MAX_STORED_DEPTH) {
        bail!(
            code::OVERFLOW,
            "cannot insert document because it exceeds {} levels of nesting",
            model::MAX_STORED_DEPTH
        );
    }
    let id = d.field("_id");
    check_id(&id)?;
    let fill = !cx.args.bool("bypassEmptyTsReplacement", false);
    let empty_time = |name: &str, v: &Value<'_>| {
        fill && name != "_id" && matches!(v, Value::Timestamp(t) if t.as_u64() == 0)
    };
    let first = d.first().is_some_and(|(name, _)| name == "_id");
    if first && !d.iter().any(|(n, v)| empty_time(n, &v)) {
        return Ok(Cow::Borrowed(d.as_bytes()));
    }
    let now = Timestamp {
        time: u32::try_from(cx.now_ms() / 1000).unwrap_or(0),
        increment: u32::try_from(i).unwrap_or(0).saturating_add(1),
    };
    Ok(Cow::Owned(
        DocBuf::build(|w| {
            match id {
                Value::Missing => w.put("_id", ObjectId(new_object_id(cx.now_ms()))),
                id => w.put("_id", id),
            };
            let mut seen = false;
            for (name, v) in d.iter() {
                if name == "_id" && !std::mem::replace(&mut seen, true) {
                    continue;
                }
                if empty_time(name, &v) {
                    w.put(name, now);
                } else {
                    w.put(name, v);
                }
            }
        })
        .into_bytes(),
    ))
}
