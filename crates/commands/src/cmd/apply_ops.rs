//! `applyOps`: applies log entries again. Each entry is applied and logged individually, as if a
//! client had made the change.

use crate::cmd::create::create_needs;
use crate::cmd::drop::rename_needs;
use access::uuid::new_uuid;
use auth::{Action, Target};
use context::command::Command;
use context::crud::measurements::{delete_named, find_named, insert_missing};
use context::ctx::Ctx;
use context::ddl::collection::check_writable;
use context::ddl::{names, timeseries};
use context::read::View;
use model::{Array, Doc, DocBuf, MongoError, Namespace, Result, Tag, Value, bail, code};
use operation::split_set_aside;
use request::Outcome;
use request::args::{Args, Kind, arg, wrong_type};
use request::asked::RightsRequest;
use request::spec::{Durability, Privilege, flag};
use state::service::Service;
use std::sync::Arc;
use store::{CatalogWriter, Change, Collection, IndexBuild, ModifyOutcome, Writer};

pub(crate) static COMMANDS: &[Command] = &[Command::new(
    "applyOps",
    "applies entries of a log",
    Privilege::Asked(needs),
    flag::ADMIN | flag::LENIENT | flag::WRITE | flag::WRITE_CONCERN | flag::LONG | flag::RESUMABLE,
    &[
        arg("alwaysUpsert", Kind::Bool),
        arg("count", Kind::Number),
        arg("partialTxn", Kind::Bool),
        arg("prepare", Kind::Bool),
        arg("preCondition", Kind::Array),
    ],
    run,
)
.value(Kind::Any)
.durability(Durability::Everything)];

/// Needs the right to `applyOps` and the rights of each of its operations.
fn needs(asked: &RightsRequest<'_, '_>) -> Result<()> {
    asked.needs(Target::Cluster, &[Action::ApplyOps])?;
    let all = operations(asked.value)?;
    all.iter().try_for_each(|op| op.needs(asked))
}

/// Parses the operations of a list.
///
/// # Errors
/// 14 TypeMismatch for another type, and those of [`Operation::parse`].
fn operations(value: Value<'_>) -> Result<Vec<Operation<'_>>> {
    let Value::Array(list) = value else {
        return Err(wrong_type("applyOps.applyOps", &value, &[Tag::ARRAY]));
    };
    list.iter()
        .enumerate()
        .map(|(n, op)| match op {
            Value::Document(d) => Operation::parse(d),
            v => Err(wrong_type(&format!("applyOps.{n}"), &v, &[Tag::DOCUMENT])),
        })
        .collect()
}

fn run(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    check_options(&cx.args)?;
    let checked = operations(cx.value())?;
    cx.reported.writes_somewhere();
    let mut done = cx.progress.take_or_default::<ApplyProgress>();
    let result = apply_all(cx, &checked, &mut done);
    let (ApplyProgress { results, .. }, result) =
        cx.progress.settle(done, split_set_aside(result))?;
    if let Err(e) = result {
        let extra = DocBuf::build(|w| {
            w.put("applied", i32::try_from(results.len()).unwrap_or(i32::MAX));
            let mut list = w.array("results");
            results.iter().for_each(|r| _ = list.push(*r));
        });
        return Err(e.extra(extra));
    }
    let applied = i32::try_from(results.len()).unwrap_or(i32::MAX);
    cx.reply.put("applied", applied);
    let mut list = cx.reply.array("results");
    results.iter().for_each(|r| _ = list.push(*r));
    Ok(Outcome::Reply)
}

/// Refuses options that only log entries have, and conditions, which are no longer supported.
///
/// # Errors
/// 31056 `partialTxn`, 2 `prepare`, 6711600 `preCondition`.
fn check_options(args: &Args<'_>) -> Result<()> {
    if args.has("partialTxn") {
        bail!(31_056, "applyOps does not take 'partialTxn'");
    }
    if args.has("prepare") {
        bail!(code::BAD_VALUE, "applyOps does not take 'prepare'");
    }
    if args.has("preCondition") {
        bail!(6_711_600, "applyOps does not take 'preCondition'");
    }
    Ok(())
}

/// The progress of an `applyOps` over its runs.
#[derive(Default)]
struct ApplyProgress {
    /// Whether each operation that has ended was applied.
    results: Vec<bool>,
    /// How many steps of the next operation have ended.
    steps: usize,
    /// The index that the next step of that operation builds.
    building: Option<IndexBuild>,
}

/// Applies operations in order, beginning with the first that has not ended, until one fails.
fn apply_all(cx: &Ctx<'_, '_>, all: &[Operation<'_>], done: &mut ApplyProgress) -> Result<()> {
    while done.results.len() < all.len() {
        cx.operation.check()?;
        let rest = &all[done.results.len()..];
        let result = split_set_aside(match MeasurementRun::first_of(cx, rest) {
            Some(together) => together.apply(cx, done),
            None => apply_one(cx, &rest[0], done),
        })?;
        (done.steps, done.building) = (0, None);
        cx.operation.writes().checkpoint();
        result?;
    }
    Ok(())
}

fn apply_one(cx: &Ctx<'_, '_>, op: &Operation<'_>, done: &mut ApplyProgress) -> Result<()> {
    let mut steps = Steps { cx, done, at: 0 };
    let result = split_set_aside(op.apply(&mut steps))?;
    done.results.push(result.is_ok());
    result
}

/// Successive operations that all insert measurements into one time series, or all delete
/// measurements from it: they are looked up and written together.
struct MeasurementRun<'o> {
    coll: Arc<Collection>,
    inserts: bool,
    docs: Vec<Doc<'o>>,
}

impl<'o> MeasurementRun<'o> {
    /// The run at the start of a list. Operations that would be refused are left out and handled
    /// individually.
    fn first_of(cx: &Ctx<'_, '_>, list: &'o [Operation<'_>]) -> Option<MeasurementRun<'o>> {
        let first = list.first().filter(|one| matches!(one.op, "i" | "d"))?;
        let ns = Namespace::parse(first.ns).ok()?;
        let coll = cx.service.store.collection(&ns).ok()??;
        if !coll.is_series() || check_writable(&coll).is_err() {
            return None;
        }
        let alike = |one: &&Operation<'_>| {
            one.op == first.op && one.ns == first.ns && one.o.contains("_id")
        };
        let docs: Vec<Doc<'o>> = list.iter().take_while(alike).map(|one| one.o).collect();
        (!docs.is_empty()).then_some(MeasurementRun {
            coll,
            inserts: first.op == "i",
            docs,
        })
    }

    /// A run that has begun to write ends in the current run of the command.
    fn apply(&self, cx: &Ctx<'_, '_>, done: &mut ApplyProgress) -> Result<()> {
        let writer = self.coll.writer(&cx.operation);
        let ended = match self.inserts {
            true => insert_missing(writer, &self.docs),
            false => delete_named(writer, &self.docs),
        };
        let (applied, result) = match ended {
            Ok(ended) => (ended.number, ended.failure.map_or(Ok(()), Err)),
            Err(e) => (0, Err(e)),
        };
        let result = split_set_aside(result)?;
        done.results.extend(std::iter::repeat_n(true, applied));
        done.results.extend(result.is_err().then_some(false));
        result
    }
}

/// The steps of one operation. A step may be run again until it has ended.
struct Steps<'s, 'c, 'r> {
    cx: &'s Ctx<'c, 'r>,
    done: &'s mut ApplyProgress,
    at: usize,
}

impl Steps<'_, '_, '_> {
    fn service(&self) -> &Service {
        self.cx.service
    }

    /// Runs a step unless it has ended in an earlier run.
    fn step(
        &mut self,
        run: impl FnOnce(&Ctx<'_, '_>, &mut Option<IndexBuild>) -> Result<()>,
    ) -> Result<()> {
        self.at += 1;
        if self.at > self.done.steps {
            run(self.cx, &mut self.done.building)?;
            self.done.steps = self.at;
            self.cx.operation.writes().checkpoint();
        }
        Ok(())
    }

    /// Builds an index unless one with its name exists.
    fn index(&mut self, ns: &Namespace, spec: DocBuf) -> Result<()> {
        self.step(|cx, building| {
            let coll = find_collection(cx.service, ns)?;
            let name = spec
                .doc()
                .field("name")
                .as_str()
                .unwrap_or_default()
                .to_owned();
            let same = |old: Doc<'_>| Ok(old.field("name").as_str() == Some(&name));
            let go_on = || cx.operation.check();
            let on_progress = || cx.operation.writes().checkpoint();
            coll.writer(&cx.operation)
                .create_index_with_progress(spec, &same, building, &on_progress, &go_on)
                .map(|_| ())
        })
    }
}

/// A checked entry.
struct Operation<'a> {
    op: &'a str,
    ns: &'a str,
    /// Whether it is a log entry, which belongs to a point in time. The data may already be in a
    /// later state: if a document or collection no longer exists, a later entry has deleted it.
    logged: bool,
    /// The identity of the collection that the operation belongs to.
    id: Option<[u8; 16]>,
    o: Doc<'a>,
    o2: Doc<'a>,
}

/// A command in a log entry.
enum LoggedCommand<'a> {
    ApplyOps(Vec<Operation<'a>>),
    DropDatabase(&'a str),
    Rename {
        from: Namespace,
        to: Namespace,
        drops: bool,
    },
    Create(Namespace, Option<View<'a>>),
    Drop(Namespace),
    CreateIndex(Namespace),
    CommitIndexes(Namespace, Value<'a>),
    DropIndex(Namespace, &'a str),
    Nothing,
}

fn missing_field_error(what: &str) -> MongoError {
    MongoError::new(
        code::NO_SUCH_KEY,
        format!("an operation of applyOps does not contain required field {what}"),
    )
}

impl<'a> Operation<'a> {
    /// # Errors
    /// 4 NoSuchKey without `op`, 14 TypeMismatch for a wrong type, 20 IllegalOperation without a
    /// namespace, 2 BadValue for an unknown operation, 40414 IDLMissingField without `o`.
    fn parse(d: Doc<'a>) -> Result<Operation<'a>> {
        let op = match d.field("op") {
            Value::Missing => return Err(missing_field_error("\"op\"")),
            Value::String(op) => op,
            v => return Err(wrong_type("applyOps.op", &v, &[Tag::STRING])),
        };
        let ns = d.field("ns").as_str().unwrap_or("");
        if op.is_empty() || ns.is_empty() && op != "n" {
            bail!(
                code::ILLEGAL_OPERATION,
                "an operation of applyOps needs a type and a namespace, given op '{op}', ns '{ns}'"
            );
        }
        if !matches!(op, "i" | "u" | "d" | "c" | "n") {
            bail!(code::BAD_VALUE, "Unrecognized opType '{op}' in applyOps");
        }
        let o = match d.field("o") {
            Value::Document(o) => o,
            Value::Missing => bail!(
                40_414,
                "BSON field 'OplogEntryBase.o' is missing but a required field"
            ),
            v => return Err(wrong_type("applyOps.o", &v, &[Tag::DOCUMENT])),
        };
        Ok(Operation {
            op,
            ns,
            logged: matches!(d.field("ts"), Value::Timestamp(_)),
            id: request::generic::uuid(&d.field("ui")).ok(),
            o,
            o2: d.field("o2").as_doc().unwrap_or(Doc::EMPTY),
        })
    }

    fn apply(&self, steps: &mut Steps<'_, '_, '_>) -> Result<()> {
        match self.op {
            "n" => Ok(()),
            "c" => self.run_command(steps),
            _ => steps.step(|cx, _| self.document(cx)),
        }
    }

    fn document(&self, cx: &Ctx<'_, '_>) -> Result<()> {
        let ns = Namespace::parse(self.ns)?;
        let coll = cx.service.store.collection(&ns)?.filter(|c| !c.is_view());
        if coll.is_none() && self.logged {
            return Ok(());
        }
        let coll = coll.ok_or_else(|| {
            MongoError::new(
                code::NAMESPACE_NOT_FOUND,
                format!("cannot apply an operation on {ns}: there is no such collection"),
            )
        })?;
        check_writable(&coll)?;
        let from = if self.op == "u" { self.o2 } else { self.o };
        let id = match from.field("_id") {
            Value::Missing => return Err(missing_field_error("_id")),
            id => id,
        };
        if coll.is_series() {
            return self.measurement(coll.writer(&cx.operation));
        }
        let mut key = Vec::new();
        coll.record_key(&id, &mut key);
        let writer = coll.writer(&cx.operation);
        match self.op {
            "i" => insert(writer, &key, self.o),
            "d" => writer.modify(&key, &mut |_| Ok(Change::Delete)).map(|_| ()),
            _ => self.update(writer, &key),
        }
    }

    /// Applies a change of a measurement. When several have the `_id`, the first is used; a
    /// measurement that exists is not inserted again.
    fn measurement(&self, coll: Writer<'_>) -> Result<()> {
        match self.op {
            "i" => insert_missing(coll, &[self.o])?.failure.map_or(Ok(()), Err),
            "d" => delete_named(coll, &[self.o])?.failure.map_or(Ok(()), Err),
            _ => {
                let key = find_named(coll, self.o2)?;
                self.update(coll, &key.unwrap_or_default())
            }
        }
    }

    fn update(&self, coll: Writer<'_>, key: &[u8]) -> Result<()> {
        let diff = self
            .o
            .field("diff")
            .as_doc()
            .filter(|_| self.o.contains("$v"));
        if diff.is_none() && self.o.first().is_some_and(|(n, _)| n.starts_with('$')) {
            bail!(
                code::FAILED_TO_PARSE,
                "an update of applyOps is a whole document or a difference with $v: 2"
            );
        }
        let made = coll.modify(key, &mut |old| {
            let new = match diff {
                // A field that is incompatible with the difference stays: a later log entry has
                // changed it.
                Some(diff) => match store::apply_what_fits(old, diff) {
                    (new, fits) if fits || self.logged => new,
                    _ => bail!(code::BAD_VALUE, "the difference does not fit the document"),
                },
                None => self.o.to_buf(),
            };
            Ok(Change::Update(
                new.into_bytes(),
                Arc::new(store::ChangedPaths::Anything),
            ))
        })?;
        if made == ModifyOutcome::Absent && !self.logged {
            bail!(
                code::UNKNOWN_ERROR,
                "failed to apply an update: no document with {}",
                self.o2
            );
        }
        Ok(())
    }

    /// The command of a command entry.
    ///
    /// # Errors
    /// 4 NoSuchKey without a command, 14 TypeMismatch, 73 InvalidNamespace for its arguments, 238
    /// NotImplemented for a command that is not implemented.
    fn command(&self) -> Result<LoggedCommand<'a>> {
        let (db, _) = self.ns.split_once('.').unwrap_or((self.ns, ""));
        let Some((name, value)) = self.o.first() else {
            return Err(missing_field_error("a command"));
        };
        let own = || Namespace::new(db, value.as_str().unwrap_or(""));
        Ok(match name {
            "applyOps" => LoggedCommand::ApplyOps(operations(value)?),
            "dropDatabase" => {
                model::namespace::check_db(db)?;
                LoggedCommand::DropDatabase(db)
            }
            "renameCollection" => LoggedCommand::Rename {
                from: Namespace::parse(value.as_str().unwrap_or(""))?,
                to: Namespace::parse(self.o.field("to").as_str().unwrap_or(""))?,
                drops: self.o.field("dropTarget").truthy(),
            },
            "create" => LoggedCommand::Create(own()?, self.view()?),
            "drop" => LoggedCommand::Drop(own()?),
            "createIndexes" => LoggedCommand::CreateIndex(own()?),
            "commitIndexBuild" => LoggedCommand::CommitIndexes(own()?, self.o.field("indexes")),
            "dropIndexes" => {
                LoggedCommand::DropIndex(own()?, self.o.field("index").as_str().unwrap_or(""))
            }
            // The entry of the build's commit contains everything that is needed.
            "startIndexBuild" | "abortIndexBuild" => LoggedCommand::Nothing,
            other => bail!(
                code::NOT_IMPLEMENTED,
                "command '{other}' in applyOps is known but not built yet"
            ),
        })
    }

    /// The view that a `create` defines; `None` for a collection.
    fn view(&self) -> Result<Option<View<'a>>> {
        let source = match self.o.field("viewOn") {
            Value::Missing => return Ok(None),
            Value::String(source) => source,
            v => return Err(wrong_type("create.viewOn", &v, &[Tag::STRING])),
        };
        let pipeline = match self.o.field("pipeline") {
            Value::Missing => Array::EMPTY,
            Value::Array(pipeline) => pipeline,
            v => return Err(wrong_type("create.pipeline", &v, &[Tag::ARRAY])),
        };
        Ok(Some(View { source, pipeline }))
    }

    fn run_command(&self, steps: &mut Steps<'_, '_, '_>) -> Result<()> {
        match self.command()? {
            LoggedCommand::ApplyOps(all) => all.iter().try_for_each(|op| op.apply(steps)),
            LoggedCommand::DropDatabase(db) => steps.step(|cx, _| drop_database(cx, db)),
            LoggedCommand::Rename { from, to, drops } => {
                steps.step(|cx, _| catalog(cx).rename_collection(&from, &to, drops))
            }
            LoggedCommand::Create(ns, _) => steps.step(|cx, _| self.create(cx, &ns)),
            LoggedCommand::Drop(ns) => {
                steps.step(|cx, _| catalog(cx).drop_collection(&ns).map(|_| ()))
            }
            LoggedCommand::CreateIndex(ns) => steps.index(&ns, copy_specification(self.o)),
            LoggedCommand::CommitIndexes(ns, indexes) => {
                find_collection(steps.service(), &ns)?;
                let all = indexes.as_array().unwrap_or(Array::EMPTY);
                all.iter()
                    .filter_map(|i| i.as_doc())
                    .try_for_each(|i| steps.index(&ns, i.to_buf()))
            }
            LoggedCommand::DropIndex(ns, index) => steps.step(|cx, _| {
                let coll = find_collection(cx.service, &ns)?;
                coll.writer(&cx.operation).drop_index(index).map(|_| ())
            }),
            LoggedCommand::Nothing => Ok(()),
        }
    }

    /// Checks the rights that applying the operation needs.
    fn needs(&self, asked: &RightsRequest<'_, '_>) -> Result<()> {
        let on = |actions: &[Action]| asked.needs_at(&Namespace::parse(self.ns)?, actions);
        match self.op {
            "n" => Ok(()),
            "i" => on(&[Action::Insert]),
            "u" => on(&[Action::Update, Action::Insert]),
            "d" => on(&[Action::Remove]),
            _ => self.command_needs(asked),
        }
    }

    fn command_needs(&self, asked: &RightsRequest<'_, '_>) -> Result<()> {
        match self.command()? {
            LoggedCommand::ApplyOps(all) => all.iter().try_for_each(|op| op.needs(asked)),
            LoggedCommand::DropDatabase(db) => {
                asked.needs(Target::Database(db), &[Action::DropDatabase])
            }
            LoggedCommand::Rename { from, to, drops } => rename_needs(asked, &from, &to, drops),
            LoggedCommand::Create(ns, view) => create_needs(asked, &ns, view),
            LoggedCommand::Drop(ns) => asked.needs_at(&ns, &[Action::DropCollection]),
            LoggedCommand::CreateIndex(ns) => asked.needs_at(&ns, &[Action::CreateIndex]),
            LoggedCommand::DropIndex(ns, _) => asked.needs_at(&ns, &[Action::DropIndex]),
            LoggedCommand::CommitIndexes(..) | LoggedCommand::Nothing => {
                asked.needs(Target::Any, &[Action::Internal])
            }
        }
    }

    /// Creates the collection with its original identity. An existing collection is accepted if it
    /// has this identity, or if the entry has no identity.
    fn create(&self, cx: &Ctx<'_, '_>, ns: &Namespace) -> Result<()> {
        let service = cx.service;
        names::check_may_create(ns)?;
        let there = service.store.collection(ns)?;
        if there.is_some_and(|c| self.id.is_none_or(|id| id == c.uuid())) {
            return Ok(());
        }
        let options = DocBuf::build(|w| {
            for e in self.o.elements().skip(1) {
                if e.name != b"idIndex" {
                    w.put_element(&e);
                }
            }
        });
        let id = self.id.unwrap_or_else(new_uuid);
        let made = catalog(cx).create_collection(ns, options, id)?;
        timeseries::add_own_index(&catalog(cx), &made)?;
        service.ttl.track(&made);
        Ok(())
    }
}

/// Writes the catalog for the operation.
fn catalog<'c>(cx: &'c Ctx<'_, '_>) -> CatalogWriter<'c> {
    cx.service.store.writer(&cx.operation)
}

/// Drops the collections one by one; a second run continues with the remaining ones.
fn drop_database(cx: &Ctx<'_, '_>, db: &str) -> Result<()> {
    let catalog = catalog(cx);
    let all = catalog.list_collections(db)?;
    for entry in &all {
        catalog.drop_collection(&Namespace::new(db, &entry.name)?)?;
        cx.operation.writes().checkpoint();
    }
    if all.is_empty() {
        return Ok(());
    }
    catalog.note_database_dropped(db)
}

fn find_collection(service: &Service, ns: &Namespace) -> Result<Arc<Collection>> {
    service
        .store
        .collection(ns)?
        .ok_or_else(|| MongoError::new(code::NAMESPACE_NOT_FOUND, format!("ns not found {ns}")))
}

/// The specification of an index: all fields except the one that names the collection.
fn copy_specification(o: Doc<'_>) -> DocBuf {
    DocBuf::build(|w| {
        for e in o.elements().skip(1) {
            w.put_element(&e);
        }
    })
}

/// Applying an entry twice must do no harm, so an existing document is replaced.
fn insert(coll: Writer<'_>, key: &[u8], doc: Doc<'_>) -> Result<()> {
    let inserted = coll.insert(&[doc], true)?;
    let Some((_, e)) = inserted.errors.into_iter().next() else {
        return Ok(());
    };
    let replaced = coll.modify(key, &mut |_| Ok(Change::Replace(doc.as_bytes().to_vec())))?;
    if replaced == ModifyOutcome::Absent {
        return Err(e);
    }
    Ok(())
}
