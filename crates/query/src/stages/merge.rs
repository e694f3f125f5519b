//! `$merge: "collection"` or `{into, on, let, whenMatched, whenNotMatched}`: writes each document
//! into a collection. Errors: 14 neither string nor object, 51178 bad `into`, 5786801 no `coll` in
//! it, 73 / 5786800 bad names, 31319 system collections, 31320 internal databases, 51186 / 51187 /
//! 51134 / 31465 bad `on`, 51191 / 2 bad whenMatched, 14 / 2 bad whenNotMatched, 51181 modes that
//! do not go together, 51199 / 51273 bad `let`, 72 stages not allowed in whenMatched; at run time
//! 51185 an array as an `on` value, 11000 for whenMatched "fail", and the host's.

use super::fields::Fields;
use super::variables::{LetClause, with_variables};
use crate::exec::{
    BatchStream, DocBatch, ExecContext, MergeWrite, OnMatch, ReadyBatch, WhenNotMatched, drain,
};
use crate::path::{checked_path, plain_at};
use crate::pipeline::Pipeline;
use crate::stage::{
    ApiClass, NeedsContext, ParseOptions, PipelineContext, Placement, RequiredPrivilege, Stage,
    StageContext, StageNeeds, StageOp, StageTable, one, single_field,
};
use model::{
    Array, Bump, Doc, DocBuf, DocWriter, ErrorKind, FieldPath, MongoError, Namespace, Result,
    Value, bail, code, namespace,
};
use std::cmp::Ordering;
use std::sync::Arc;

pub(super) static STAGES: &[StageOp] = &[StageOp {
    name: "$merge",
    api: ApiClass::Inside,
    needs: StageNeeds::Of(needs),
    placement: Placement::LAST,
    parse: |scx, name, arg| one(parse(scx, name, arg)?),
}];

/// What to do with a document that has a match.
enum MatchAction {
    Replace,
    KeepExisting,
    Merge,
    Fail,
    Pipeline(LetClause, Pipeline),
    /// A pipeline that is not allowed in updates: an error once there is a document to write.
    Refused(MongoError),
}

struct Merge {
    ns: Namespace,
    on: Vec<String>,
    on_paths: Vec<FieldPath>,
    matched: MatchAction,
    not_matched: WhenNotMatched,
    spec: DocBuf,
}

/// The argument as a document.
fn specification(name: &str, arg: Value<'_>) -> Result<DocBuf> {
    match arg {
        Value::String(into) => Ok(model::doc! { "into": into }),
        Value::Document(d) => Ok(d.to_buf()),
        other => bail!(
            code::TYPE_MISMATCH,
            "{name} only supports a string or object argument, not {}",
            other.type_name()
        ),
    }
}

fn fields<'a>(name: &'static str, spec: Doc<'a>) -> Result<Fields<'a>> {
    let f = Fields::new(
        name,
        spec,
        &[
            "into",
            "on",
            "let",
            "whenMatched",
            "whenNotMatched",
            "targetCollectionVersion",
            "allowMergeOnNullishValues",
        ],
    )?;
    if !spec.contains("into") {
        bail!(
            code::IDL_MISSING_FIELD,
            "BSON field '$merge.into' is missing but a required field"
        );
    }
    Ok(f)
}

fn needs(cx: &mut NeedsContext<'_>, name: &'static str, arg: Value<'_>) -> Result<()> {
    let spec = specification(name, arg)?;
    let f = fields(name, spec.doc())?;
    let short = matches!(arg, Value::String(_));
    let need = RequiredPrivilege::Write {
        ns: target(cx.options, f.get("into"), short)?,
        inserts: parse_not_matched(&f)? == WhenNotMatched::Insert,
        updates: !matches!(spec.doc().field("whenMatched"), Value::String("fail")),
        removes: false,
    };
    cx.add(need);
    Ok(())
}

fn parse(scx: &mut StageContext<'_, '_>, name: &'static str, arg: Value<'_>) -> Result<Merge> {
    let spec = specification(name, arg)?;
    let spec = spec.doc();
    let f = fields(name, spec)?;
    let ns = target(scx.options, f.get("into"), matches!(arg, Value::String(_)))?;
    let on = parse_on(spec.field("on"))?;
    let not_matched = parse_not_matched(&f)?;
    let vars = f.document("let")?;
    let matched = parse_matched(scx, spec, vars)?;
    let goes = match matched {
        MatchAction::KeepExisting | MatchAction::Fail => not_matched == WhenNotMatched::Insert,
        _ => true,
    };
    if !goes {
        bail!(
            51181,
            "Combination of {name} modes 'whenMatched: {}' and 'whenNotMatched: {}' is not \
                supported",
            f.get("whenMatched"),
            f.get("whenNotMatched")
        );
    }
    let on_paths = on.iter().map(|p| checked_path(p)).collect::<Result<_>>()?;
    Ok(Merge {
        ns,
        on,
        on_paths,
        matched,
        not_matched,
        spec: model::doc! { name: arg },
    })
}

fn target(options: &ParseOptions, into: Value<'_>, short: bool) -> Result<Namespace> {
    let own = options.target.db();
    let (db, coll) = match into {
        Value::String(coll) => (own, coll),
        Value::Document(d) => {
            let f = Fields::new("into", d, &["db", "coll"])?;
            if f.get("coll").is_missing() {
                bail!(
                    5786801,
                    "$merge 'into' must specify a collection, given {d}"
                );
            }
            (
                f.string("db")?.filter(|db| !db.is_empty()).unwrap_or(own),
                f.string("coll")?.unwrap_or(""),
            )
        }
        v => bail!(
            51178,
            "$merge 'into' field must be either a string or an object, but found {}",
            v.type_name()
        ),
    };
    if coll.is_empty() && !short {
        bail!(
            5786800,
            "$merge 'into' must name a collection, '{db}.' does not"
        );
    }
    namespace::check_db(db)?;
    if matches!(db, "admin" | "config" | "local") {
        bail!(31320, "Cannot $merge to internal database: {db}");
    }
    if coll.starts_with("system.") {
        bail!(31319, "Cannot $merge to special collection: {coll}");
    }
    Namespace::new(db, coll)
}

fn parse_on(v: Value<'_>) -> Result<Vec<String>> {
    let on = match v {
        Value::Missing => vec!["_id".to_owned()],
        Value::String(s) => vec![s.to_owned()],
        Value::Array(a) => {
            let mut on: Vec<String> = Vec::new();
            for v in a.iter() {
                let Value::String(s) = v else {
                    bail!(
                        51134,
                        "$merge 'on' array elements must be strings, but found {}",
                        v.type_name()
                    );
                };
                if on.iter().any(|o| o == s) {
                    bail!(31465, "Found a duplicate field '{s}' in $merge 'on'");
                }
                on.push(s.to_owned());
            }
            on
        }
        v => bail!(
            51186,
            "$merge 'on' field must be either a string or an array of strings, but found {}",
            v.type_name()
        ),
    };
    if on.is_empty() {
        bail!(
            51187,
            "If explicitly specifying $merge 'on', must include at least one field"
        );
    }
    Ok(on)
}

fn parse_not_matched(f: &Fields<'_>) -> Result<WhenNotMatched> {
    Ok(match f.string("whenNotMatched")? {
        None | Some("insert") => WhenNotMatched::Insert,
        Some("discard") => WhenNotMatched::Discard,
        Some("fail") => WhenNotMatched::Fail,
        Some(other) => bail!(
            code::BAD_VALUE,
            "Enumeration value '{other}' for field '$merge.whenNotMatched' is not valid. Allowed \
                are insert, discard, fail"
        ),
    })
}

fn parse_matched(
    scx: &mut StageContext<'_, '_>,
    spec: Doc<'_>,
    vars: Option<Doc<'_>>,
) -> Result<MatchAction> {
    let stages = match spec.field("whenMatched") {
        Value::Missing => return no_let(vars, MatchAction::Merge),
        Value::String("merge") => return no_let(vars, MatchAction::Merge),
        Value::String("replace") => return no_let(vars, MatchAction::Replace),
        Value::String("keepExisting") => return no_let(vars, MatchAction::KeepExisting),
        Value::String("fail") => return no_let(vars, MatchAction::Fail),
        Value::String(other) => bail!(
            code::BAD_VALUE,
            "Enumeration value '{other}' for field '$merge.whenMatched' is not valid. Allowed are \
                replace, keepExisting, merge, fail and a pipeline"
        ),
        Value::Array(a) => a,
        v => bail!(
            51191,
            "$merge 'whenMatched' field must be either a string or an array, but found {}",
            v.type_name()
        ),
    };
    if let Err(e) = check_update_stages(stages, scx.options.stages) {
        return Ok(MatchAction::Refused(e));
    }
    let new = vars.map_or(Value::Missing, |v| v.field("new"));
    if !matches!(new, Value::Missing | Value::String("$$ROOT")) {
        bail!(
            51273,
            "'let' may not define a value for the reserved 'new' variable other than '$$ROOT'"
        );
    }
    let all = DocBuf::build(|w| {
        w.put("new", "$$ROOT");
        for (name, v) in vars
            .into_iter()
            .flat_map(|d| d.iter())
            .filter(|(n, _)| *n != "new")
        {
            w.put(name, v);
        }
    });
    let options = scx
        .options
        .inner(PipelineContext::Update, scx.options.target.clone())?;
    let used = |name: &str| names_variable(Value::Array(stages), name);
    let (vars, pipeline) = LetClause::parse(scx.cx, all.doc(), |cx| {
        Pipeline::parse(cx, stages, &options)
    })?;
    let must_exist = all.doc().iter().map(|(name, _)| used(name)).collect();
    Ok(MatchAction::Pipeline(vars.must_exist(must_exist), pipeline))
}

fn no_let(vars: Option<Doc<'_>>, mode: MatchAction) -> Result<MatchAction> {
    if vars.is_some() {
        bail!(
            51199,
            "Cannot use 'let' variables with a 'whenMatched' mode that is no pipeline"
        );
    }
    Ok(mode)
}

/// Checks that an update has only stages that change one document; `$fill` only with values.
fn check_update_stages(stages: Array<'_>, table: StageTable) -> Result<()> {
    const ALLOWED: &[&str] = &[
        "$addFields",
        "$set",
        "$project",
        "$unset",
        "$replaceRoot",
        "$replaceWith",
    ];
    for v in stages.iter() {
        if let Some((name, arg)) = v.as_doc().and_then(single_field)
            && table.find(name).is_some()
            && !ALLOWED.contains(&name)
            && !(name == "$fill" && super::fill::is_by_value(arg))
        {
            bail!(
                code::INVALID_OPTIONS,
                "{name} is not allowed to be used within an update. Allowed are {}",
                ALLOWED.join(", ")
            );
        }
    }
    Ok(())
}

fn names_variable(v: Value<'_>, name: &str) -> bool {
    match v {
        Value::String(s) => s
            .strip_prefix("$$")
            .is_some_and(|s| s == name || s.strip_prefix(name).is_some_and(|r| r.starts_with('.'))),
        Value::Document(d) => d.iter().any(|(_, v)| names_variable(v, name)),
        Value::Array(a) => a.iter().any(|v| names_variable(v, name)),
        _ => false,
    }
}

impl Stage for Merge {
    fn open(
        self: Arc<Self>,
        input: Box<dyn BatchStream>,
        _: &ExecContext<'_>,
    ) -> Result<Box<dyn BatchStream>> {
        Ok(Box::new(MergeStream {
            stage: self,
            input,
            arena: Bump::new(),
            read: DocBatch::new(),
            taken: 0,
            read_all: false,
            write: DocBatch::new(),
            written: 0,
            first_error: Ok(()),
        }))
    }
    fn check(&self, exec: &ExecContext<'_>) -> Result<()> {
        exec.host.check_merge(&self.ns, &self.on)
    }
    fn describe(&self) -> DocBuf {
        self.spec.clone()
    }
    fn is_writer(&self) -> bool {
        true
    }
}

/// If it is called again after [`ErrorKind::SetAside`], it continues with the same document.
struct MergeStream {
    stage: Arc<Merge>,
    input: Box<dyn BatchStream>,
    arena: Bump,
    /// The documents read last, and how many of them were taken.
    read: DocBatch,
    taken: usize,
    read_all: bool,
    /// The documents to write, and how many of them were written.
    write: DocBatch,
    written: usize,
    first_error: Result<()>,
}

/// Documents written at a time. After an error the other documents of the batch are still written.
const WRITE_BATCH_DOCS: usize = 1000;
const WRITE_BATCH_BYTES: usize = 16 * 1024 * 1024;

impl BatchStream for MergeStream {
    fn next_batch(&mut self, exec: &ExecContext<'_>, _: &mut DocBatch) -> Result<bool> {
        loop {
            let full = self.take_documents(exec)?;
            let last = self.read_all && !full;
            if full || last {
                self.write_batch(exec)?;
            }
            if last {
                return Ok(false);
            }
            if !full {
                exec.env.check_interrupt()?;
                self.read.clear();
                self.taken = 0;
                self.read_all = !self.input.next_batch(exec, &mut self.read)?;
            }
        }
    }
}

impl MergeStream {
    /// Moves documents from `read` to `write`; true if there are enough to write.
    fn take_documents(&mut self, exec: &ExecContext<'_>) -> Result<bool> {
        let out = &mut self.write;
        loop {
            if out.len() >= WRITE_BATCH_DOCS || out.len_bytes() >= WRITE_BATCH_BYTES {
                return Ok(true);
            }
            if self.taken == self.read.len() {
                return Ok(false);
            }
            let doc = self.read.doc(self.taken);
            let no_id = self.stage.on == ["_id"] && !doc.contains("_id");
            let fresh = no_id.then(|| with_new_id(exec, doc));
            let doc = fresh.as_ref().map_or(doc, |d| d.doc());
            self.stage.on_values(doc)?;
            out.push(doc);
            self.taken += 1;
        }
    }

    /// Writes the batch as far as possible; the first error is returned.
    fn write_batch(&mut self, exec: &ExecContext<'_>) -> Result<()> {
        while self.written < self.write.len() {
            exec.env.check_interrupt()?;
            let doc = self.write.doc(self.written);
            let result = self.stage.write(exec, &self.arena, doc);
            self.arena.reset();
            if result.as_ref().is_err_and(|e| e.is(ErrorKind::SetAside)) {
                return result;
            }
            self.written += 1;
            if self.first_error.is_ok() {
                self.first_error = result;
            }
        }
        self.write.clear();
        self.written = 0;
        std::mem::replace(&mut self.first_error, Ok(()))
    }
}

impl Merge {
    /// The values by which a document is matched.
    fn on_values<'a>(&'a self, doc: Doc<'a>) -> Result<Vec<(&'a str, Value<'a>)>> {
        let mut on = Vec::with_capacity(self.on.len());
        for (name, path) in self.on.iter().zip(&self.on_paths) {
            let v = plain_at(doc, path);
            if matches!(v, Value::Array(_)) {
                bail!(
                    51185,
                    "$merge write error: 'on' field '{name}' cannot be an array"
                );
            }
            on.push((name.as_str(), v));
        }
        Ok(on)
    }

    /// The error for a match that `whenMatched: "fail"` forbids: a duplicate key.
    fn match_error(&self, on: &[(&str, Value<'_>)]) -> MongoError {
        let values = DocBuf::build(|w| {
            on.iter().for_each(|(k, v)| {
                w.put(k, *v);
            })
        });
        let message = format!(
            "E11000 duplicate key error collection: {} dup key: {}: $merge found a matching \
                document, and whenMatched is fail",
            self.ns,
            values.doc()
        );
        MongoError::new(code::DUPLICATE_KEY, message).extra(DocBuf::build(|w| {
            w.put(
                "keyPattern",
                &DocBuf::build(|w| {
                    on.iter().for_each(|(k, _)| {
                        w.put(k, 1i32);
                    })
                }),
            );
            w.put("keyValue", &values);
        }))
    }

    fn write(&self, exec: &ExecContext<'_>, arena: &Bump, doc: Doc<'_>) -> Result<()> {
        let on = self.on_values(doc)?;
        // An update of single fields inserts a document with its fields in the order of their
        // names.
        let sorted = matches!(self.matched, MatchAction::Merge | MatchAction::KeepExisting)
            .then(|| sorted_by_name(&with_nulls(doc, &on)));
        let inserted = sorted.as_ref().map_or(doc, |d| d.doc());
        let write = MergeWrite {
            ns: &self.ns,
            on: &on,
            doc: inserted,
            not_matched: self.not_matched,
        };
        let merge = |matched: &OnMatch<'_>| exec.host.merge(exec, &write, matched);
        match &self.matched {
            MatchAction::KeepExisting => merge(&|_| Ok(None)),
            MatchAction::Refused(e) => Err(e.clone()),
            MatchAction::Fail => merge(&|_| Err(self.match_error(&on))),
            MatchAction::Replace => merge(&|old| Ok(Some(replace_document(old, doc)))),
            MatchAction::Merge => merge(&|old| Ok(Some(merge_fields(old, inserted)))),
            MatchAction::Pipeline(vars, pipeline) => {
                with_variables(vars, exec, arena, doc, |exec| {
                    exec.host.merge(exec, &write, &|old| {
                        let mut one = DocBatch::new();
                        one.push(old);
                        let mut docs = pipeline.open_over(exec, Box::new(ReadyBatch(one)))?;
                        let mut new = None;
                        drain(docs.as_mut(), exec, |d, _| {
                            new = Some(replace_document(old, d));
                            Ok(())
                        })?;
                        Ok(new)
                    })
                })
            }
        }
    }
}

/// The document with a new `_id` in front.
fn with_new_id(exec: &ExecContext<'_>, doc: Doc<'_>) -> DocBuf {
    let mut id = [0u8; 12];
    let seconds = u32::try_from(exec.env.now_ms / 1000).unwrap_or(0);
    id[..4].copy_from_slice(&seconds.to_be_bytes());
    id[4..].copy_from_slice(&exec.env.random_u64().to_be_bytes());
    DocBuf::build(|w| {
        w.put("_id", model::ObjectId(id)).put_all(doc);
    })
}

/// The new document; it keeps the old `_id` if it has none.
fn replace_document(old: Doc<'_>, new: Doc<'_>) -> DocBuf {
    if new.contains("_id") {
        return new.to_buf();
    }
    DocBuf::build(|w| {
        w.put("_id", old.field("_id")).put_all(new);
    })
}

/// The old document with the fields of the new one set; fields it lacks are appended.
fn merge_fields(old: Doc<'_>, new: Doc<'_>) -> DocBuf {
    DocBuf::build(|w| {
        for e in old.elements() {
            match new.get_element(e.name_str()) {
                Some(n) => w.put_element(&n),
                None => w.put_element(&e),
            };
        }
        for e in new.elements().filter(|e| !old.contains(e.name_str())) {
            w.put_element(&e);
        }
    })
}

/// The missing `on` fields as nulls, and the document.
struct KeyedDocument<'d> {
    doc: Doc<'d>,
    nulls: DocBuf,
}

fn with_nulls<'d>(doc: Doc<'d>, on: &[(&str, Value<'_>)]) -> KeyedDocument<'d> {
    let nulls = DocBuf::build(|w| {
        for (name, _) in on
            .iter()
            .filter(|(n, v)| v.is_missing() && !n.contains('.'))
        {
            w.put(name, Value::Null);
        }
    });
    KeyedDocument { doc, nulls }
}

/// `_id`, the `on` fields that are null, then the other fields by name; numeric names by value.
fn sorted_by_name(of: &KeyedDocument<'_>) -> DocBuf {
    let nulls = of.nulls.doc();
    let mut fields: Vec<_> = nulls.elements().chain(of.doc.elements()).collect();
    fields.sort_by(|a, b| {
        let place = |n: &[u8]| match n {
            b"_id" => 0,
            n if nulls.contains(std::str::from_utf8(n).unwrap_or_default()) => 1,
            _ => 2,
        };
        place(a.name)
            .cmp(&place(b.name))
            .then_with(|| compare_names(a.name_str(), b.name_str()))
    });
    DocBuf::build(|w: &mut DocWriter<'_>| {
        for e in &fields {
            w.put_element(e);
        }
    })
}

fn compare_names(a: &str, b: &str) -> Ordering {
    match (a.parse::<u64>(), b.parse::<u64>()) {
        (Ok(x), Ok(y)) => x.cmp(&y),
        _ => a.cmp(b),
    }
}
