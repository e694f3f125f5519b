//! The interface of pipelines to the server (`query::exec::Host`), implemented over the store.

use super::look_up;
use super::out::Out;
use super::stats::to_signed;
use crate::ddl::collection::create_implicitly;
use crate::ddl::session_records;
use crate::ddl::{names, system_views};
use crate::rules::document_id::with_id;
use crate::rules::validator::Validator;
use access::user::NO_USER;
use cipher::Scratch;
use model::{Doc, DocBuf, FieldPath, MongoError, Namespace, Result, Value, bail, code};
use operation::{ConnectionId, split_set_aside};
use operators::expr::ParseCx;
use query::exec::{
    BatchStream, ChangeHost, DocBatch, ExecContext, GeoIndex, Host, MatchFilter, MergeWrite,
    OnMatch, OpenRead, OutTarget, OutWriter, ReadRequest, ResolvedNamespace, WhenNotMatched,
};
use query::physical::{BucketStream, ReadOptions, each_match, open_read};
use query::plan::AllowedIndexes;
use query::plan::{PlanRequest, plan_read};
use state::service::Service;
use std::sync::Arc;
use store::{Change, Collection, ReadView, Usage};

/// The limit of a blocking stage when no other one was set.
const STAGE_BYTES: usize = 100 << 20;

/// The interface of pipelines to the server.
#[derive(Clone)]
pub struct StoreHost {
    service: Arc<Service>,
    /// The collation of the operation as the client specified it.
    collation: Option<DocBuf>,
    hint: Option<query::plan::Hint>,
    /// Writes of the pipeline bypass validators.
    bypass_validation: bool,
    /// The digest of the user who runs the pipeline.
    viewer: [u8; 32],
    /// The state that the pipeline reads.
    view: ReadView,
    /// The only indexes that may be used, and the collection they belong to.
    allowed: Option<(Namespace, AllowedIndexes)>,
    /// Plans may be taken from the cache and stored in it.
    remember: bool,
    /// The limit of a blocking stage that the parameter sets, when it was first needed.
    stage_limit: std::sync::OnceLock<usize>,
}

impl StoreHost {
    /// The host of one operation.
    pub fn new(
        service: Arc<Service>,
        collation: Option<DocBuf>,
        hint: Option<query::plan::Hint>,
    ) -> StoreHost {
        let (view, stage_limit) = (ReadView::LATEST, std::sync::OnceLock::new());
        StoreHost {
            service,
            collation,
            hint,
            bypass_validation: false,
            viewer: *NO_USER,
            view,
            allowed: None,
            remember: true,
            stage_limit,
        }
    }

    /// The same host without the plan cache, for explain.
    pub fn leaving_no_trace(self) -> StoreHost {
        StoreHost {
            remember: false,
            ..self
        }
    }

    /// The same host for the user with this digest.
    pub fn with_viewer(self, viewer: [u8; 32]) -> StoreHost {
        StoreHost { viewer, ..self }
    }

    /// The same host, reading another state than the latest.
    pub fn with_view(self, view: ReadView) -> StoreHost {
        StoreHost { view, ..self }
    }

    /// The same host, whose writes may bypass validators.
    pub fn bypassing_validation(self, bypass: bool) -> StoreHost {
        StoreHost {
            bypass_validation: bypass,
            ..self
        }
    }

    /// The same host, restricted to these indexes of a collection.
    pub fn with_allowed_indexes(
        self,
        ns: Option<&Namespace>,
        allowed: Option<AllowedIndexes>,
    ) -> StoreHost {
        let allowed = ns.cloned().zip(allowed);
        StoreHost { allowed, ..self }
    }

    /// The validator of a collection that the pipeline writes to.
    fn validator(&self, by: ConnectionId, coll: &Collection) -> Result<Option<Validator>> {
        Validator::of(&self.service, by, coll, self.bypass_validation)
    }

    /// The operation's options for reads of a collection.
    fn read_options(&self, ns: &Namespace) -> ReadOptions<'_> {
        let allowed = self.allowed.as_ref().filter(|(of, _)| of == ns);
        ReadOptions {
            hint: self.hint.as_ref(),
            collation: self.collation.as_ref().map(DocBuf::doc),
            view: Some(&self.view),
            allowed: allowed.map(|(_, list)| list),
            remember: self.remember,
        }
    }

    /// The options for lookups: the hint only applies to the collection that the pipeline reads.
    fn look_up_options(&self, ns: &Namespace) -> ReadOptions<'_> {
        ReadOptions {
            hint: None,
            allowed: None,
            ..self.read_options(ns)
        }
    }

    /// The collection or view of that name in the state that the pipeline reads.
    fn collection(&self, ns: &Namespace) -> Result<Option<Arc<Collection>>> {
        self.service.store.collection_in(&self.view, ns)
    }

    fn writable(&self, ns: &Namespace) -> Result<Option<Arc<Collection>>> {
        // Writes use the latest state.
        let c = self.service.store.collection(ns)?;
        if c.as_ref()
            .is_some_and(|c| c.is_view() || names::is_timeseries(c))
        {
            bail!(
                code::COMMAND_NOT_SUPPORTED_ON_VIEW,
                "Namespace {ns} is a view or time-series collection, not a collection"
            );
        }
        Ok(c)
    }
}

/// How long the images of documents before changes are kept, from the cluster parameter
/// `changeStreamOptions`; `None` keeps them as long as the log.
fn image_ms(service: &Service) -> Option<i64> {
    let options = service
        .state
        .cluster_parameters
        .get("changeStreamOptions")?;
    let images = options.doc().field("preAndPostImages").as_doc()?;
    let seconds = images.field("expireAfterSeconds").as_i64_exact()?;
    Some(seconds.saturating_mul(1000))
}

/// Whether a view has the collation of the operation; a missing one is the simple collation.
fn same_collation(view: Option<Doc<'_>>, operation: Option<Doc<'_>>) -> bool {
    match (view, operation) {
        (None, None) => true,
        (Some(v), Some(o)) => operators::collation::same(v, o),
        _ => false,
    }
}

/// Whether an index ensures that at most one document has the same values in these fields.
fn guards(i: &store::Index, on: &[String]) -> bool {
    let named = |f: &store::IndexField| on.iter().any(|o| o == f.path.as_str());
    i.is_unique()
        && i.is_keyed()
        && i.is_ready()
        && !i.is_partial()
        && i.fields().len() == on.len()
        && i.fields().iter().all(named)
}

/// A sparse index does not find null values.
fn check_nullish(coll: &Collection, write: &MergeWrite<'_>) -> Result<()> {
    let Some((name, _)) = write.on.iter().find(|(_, v)| v.is_nullish()) else {
        return Ok(());
    };
    let on: Vec<String> = write.on.iter().map(|(n, _)| (*n).to_owned()).collect();
    if coll
        .indexes()
        .iter()
        .any(|i| i.is_sparse() && guards(i, &on))
    {
        bail!(
            51132,
            "$merge write error: 'on' field '{name}' cannot be missing, null or undefined: its \
                unique index is sparse"
        );
    }
    Ok(())
}

impl StoreHost {
    /// The environment of the search for the document to merge with.
    fn merge_env(&self, exec: &ExecContext<'_>) -> Result<operators::Env> {
        let mut env = operators::Env::new(self.service.clock.now_ms(), rand::random());
        env.profile = self.service.config.profile;
        env.operation.clone_from(&exec.env.operation);
        if let Some(c) = &self.collation {
            env.collation = self.service.collator(c.doc())?;
        }
        Ok(env)
    }

    fn merge_one(
        &self,
        exec: &ExecContext<'_>,
        write: &MergeWrite<'_>,
        matched: &OnMatch<'_>,
    ) -> Result<()> {
        let operation = exec.operation()?;
        let coll = match self.writable(write.ns)? {
            Some(c) => c,
            None => {
                let made = create_implicitly(&self.service, operation, write.ns, None)?;
                // The next run finds the collection.
                operation.writes().checkpoint();
                made
            }
        };
        check_nullish(&coll, write)?;
        let collation = self.collation.as_ref().map(DocBuf::doc);
        let env = self.merge_env(exec)?;
        let spec = DocBuf::build(|w| {
            for (name, v) in write.on {
                let mut one = w.doc(name);
                one.put("$eq", if v.is_missing() { Value::Null } else { *v });
            }
        });
        let filter = MatchFilter::parse(&mut ParseCx::new(&env), spec.doc())?;
        let plan = plan_read(
            &coll,
            &PlanRequest {
                filter: Some(&filter),
                collation,
                ..PlanRequest::default()
            },
        )?;
        let mut key = None;
        each_match(&coll, &plan, Some(&filter), &env, &mut |row| {
            key = Some(row.key.to_vec());
            Ok(false)
        })?;
        let validator = self.validator(operation.connection(), &coll)?;
        let valid = |d: Doc<'_>| validator.as_ref().map_or(Ok(()), |v| v.check(d));
        let writer = coll.writer(operation);
        if let Some(key) = key {
            writer.modify(&key, &mut |old| {
                Ok(match matched(old)? {
                    Some(new) if new.doc() != old => {
                        let (id, was) = (new.doc().field("_id"), old.field("_id"));
                        if !model::compare(&id, &was).is_eq() {
                            bail!(
                                code::IMMUTABLE_FIELD,
                                "$merge cannot change the immutable field \
                                '_id' of a matched document from {was} to {id}"
                            );
                        }
                        valid(new.doc())?;
                        Change::Replace(new.into_bytes())
                    }
                    _ => Change::Keep,
                })
            })?;
            return Ok(());
        }
        match write.not_matched {
            WhenNotMatched::Discard => Ok(()),
            WhenNotMatched::Fail => bail!(
                13113,
                "$merge could not find a matching document in the target collection for at least \
                    one document in the source collection"
            ),
            WhenNotMatched::Insert => {
                let doc = with_id(write.doc, self.service.clock.now_ms())?;
                valid(doc.doc())?;
                match writer.insert(&[doc.doc()], true)?.errors.pop() {
                    Some((_, e)) => Err(e),
                    None => state::capped::end_insert(&self.service, writer),
                }
            }
        }
    }
}

impl StoreHost {
    /// Bytes of a blocking stage by the parameter.
    fn stage_limit(&self) -> usize {
        *self.stage_limit.get_or_init(|| {
            let parameters = &self.service.state.parameters;
            let limit = parameters.int("internalQueryMaxBlockingSortMemoryUsageBytes");
            usize::try_from(limit).unwrap_or(usize::MAX)
        })
    }
}

impl Host for StoreHost {
    fn resolve(&self, ns: &Namespace) -> Result<ResolvedNamespace> {
        let Some(c) = self.collection(ns)? else {
            if system_views::is_there(&self.service, &self.view, ns)?
                || session_records::is_theirs(ns)
            {
                return Ok(ResolvedNamespace::Collection);
            }
            let series = names::series_of_buckets(&self.service, &self.view, ns)?;
            return Ok(
                series.map_or(ResolvedNamespace::Missing, |c| ResolvedNamespace::Buckets {
                    on: c.ns().clone(),
                }),
            );
        };
        if !c.is_view() {
            return Ok(ResolvedNamespace::Collection);
        }
        let options = c.options();
        let d = options.doc();
        if !same_collation(
            d.field("collation").as_doc(),
            self.collation.as_ref().map(DocBuf::doc),
        ) {
            bail!(
                code::OPTION_NOT_SUPPORTED_ON_VIEW,
                "Cannot override the default collation of view {ns}"
            );
        }
        let on = Namespace::new(ns.db(), d.field("viewOn").as_str().unwrap_or_default())?;
        let pipeline = d
            .field("pipeline")
            .as_array()
            .unwrap_or(model::Array::EMPTY);
        Ok(ResolvedNamespace::View {
            on,
            pipeline: pipeline.as_doc().to_buf(),
        })
    }

    fn open(&self, exec: &ExecContext<'_>, read: &ReadRequest<'_>) -> Result<OpenRead> {
        let Some(coll) = self.collection(read.ns)? else {
            let made = if read.ns.coll() == system_views::NAME {
                system_views::documents(&self.service, &self.view, read.ns.db())?
            } else if session_records::is_theirs(read.ns) {
                session_records::documents(&self.service)?
            } else {
                Vec::new()
            };
            let mut batch = DocBatch::new();
            for one in &made {
                batch.push(one.doc());
            }
            return Ok(OpenRead {
                docs: Box::new(query::exec::ReadyBatch(batch)),
                filtered: false,
                sorted: false,
                limited: false,
                near: false,
                folded: false,
            });
        };
        open_read(coll, read, &self.read_options(read.ns), exec.env)
    }

    fn open_buckets(&self, ns: &Namespace) -> Result<Box<dyn BatchStream>> {
        let coll = self.collection(ns)?;
        let stream = coll.and_then(|c| BucketStream::open(&c, &self.view));
        match stream {
            Some(stream) => Ok(Box::new(stream)),
            None => Err(names::not_found(ns)),
        }
    }

    fn allowed_indexes(&self, ns: &Namespace) -> Option<AllowedIndexes> {
        self.read_options(ns).allowed.cloned()
    }

    fn changes(&self) -> Option<ChangeHost<'_>> {
        self.service.store.log()?;
        Some(ChangeHost {
            store: &self.service.store,
            image_ms: image_ms(&self.service),
        })
    }

    fn can_look_up(&self, ns: &Namespace, field: &FieldPath) -> bool {
        self.look_up_index(ns, field).is_some()
    }

    fn look_up_index(&self, ns: &Namespace, field: &FieldPath) -> Option<String> {
        let c = self.collection(ns).ok()??;
        look_up::index(&c, &self.view, field)
    }

    fn look_up_all(
        &self,
        exec: &ExecContext<'_>,
        ns: &Namespace,
        field: &FieldPath,
        most: u64,
    ) -> Result<Option<Box<dyn BatchStream>>> {
        match self.collection(ns)?.filter(|c| c.count() <= most) {
            Some(c) => look_up::open_all(c, &self.look_up_options(ns), field, exec),
            None => Ok(None),
        }
    }

    fn collation(&self) -> Option<DocBuf> {
        self.collation.clone()
    }

    fn look_up(
        &self,
        exec: &ExecContext<'_>,
        ns: &Namespace,
        field: &FieldPath,
        values: &[Value<'_>],
    ) -> Result<Box<dyn BatchStream>> {
        let Some(coll) = self.collection(ns)? else {
            return Ok(Box::new(query::exec::EmptyStream));
        };
        look_up::open(coll, &self.look_up_options(ns), field, values, exec)
    }

    fn geo_indexes(&self, ns: &Namespace) -> Result<Vec<(String, GeoIndex)>> {
        let Some(coll) = self.collection(ns)? else {
            return Ok(Vec::new());
        };
        let indexes = coll.indexes();
        let kinds = indexes
            .iter()
            .filter(|i| i.is_ready() && !i.is_hidden())
            .flat_map(|i| i.key_pattern().iter());
        Ok(kinds
            .filter_map(|(field, v)| match v {
                Value::String("2d") => Some((field.to_owned(), GeoIndex::Flat)),
                Value::String("2dsphere") => Some((field.to_owned(), GeoIndex::Sphere)),
                _ => None,
            })
            .collect())
    }

    fn begin_out(&self, exec: &ExecContext<'_>, target: &OutTarget) -> Result<Box<dyn OutWriter>> {
        Ok(Box::new(Out::begin(
            &self.service,
            exec.operation()?,
            target,
            self.bypass_validation,
        )?))
    }

    fn check_merge(&self, ns: &Namespace, on: &[String]) -> Result<()> {
        let c = self.writable(ns)?;
        let is_id = matches!(on, [one] if one == "_id");
        let covered = match &c {
            None => is_id,
            Some(c) if is_id => {
                let options = c.options();
                let of_index = options.doc().field("collation").as_doc();
                same_collation(of_index, self.collation.as_ref().map(DocBuf::doc))
            }
            Some(c) => c.indexes().iter().any(|i| {
                guards(i, on)
                    && same_collation(i.collation(), self.collation.as_ref().map(DocBuf::doc))
            }),
        };
        if !covered {
            bail!(
                51183,
                "Cannot find index to verify that join fields will be unique: {}",
                on.join(", ")
            );
        }
        Ok(())
    }

    fn merge(
        &self,
        exec: &ExecContext<'_>,
        write: &MergeWrite<'_>,
        matched: &OnMatch<'_>,
    ) -> Result<()> {
        let result = split_set_aside(self.merge_one(exec, write, matched))?;
        // The stream continues after this document, whether or not the merge succeeded.
        exec.operation()?.writes().checkpoint();
        result
    }

    fn coll_stats(&self, ns: &Namespace, spec: Doc<'_>) -> Result<Vec<DocBuf>> {
        super::stats::stage(&self.service, ns, spec)
    }

    fn index_stats(&self, ns: &Namespace) -> Result<Vec<DocBuf>> {
        let Some(c) = self.collection(ns)? else {
            return Ok(Vec::new());
        };
        if c.is_view() {
            return Ok(Vec::new());
        }
        let host = self.service.config.host.as_str();
        let one = |name: &str, key: Doc<'_>, spec: Doc<'_>, usage: &Usage| {
            model::doc! {
                "name": name, "key": key, "host": host,
                "accesses": { "ops": to_signed(usage.count()),
                    "since": Value::Date(usage.since_ms()) },
                "spec": spec
            }
        };
        let options = c.options();
        let id = crate::ddl::describe::id_index(options.doc());
        let mut all = Vec::new();
        // Buckets cannot be found by the ids of their measurements.
        if !c.is_series() {
            let key = model::doc! { "_id": 1i32 };
            all.push(one("_id_", key.doc(), id.doc(), c.id_usage()));
        }
        for i in c.indexes().iter() {
            all.push(one(i.name(), i.key_pattern(), i.spec(), i.usage()));
        }
        Ok(all)
    }

    fn plan_cache_stats(&self, ns: &Namespace) -> Result<Vec<DocBuf>> {
        super::lists::cached_plans(&self.service, ns)
    }

    fn list(&self, stage: &str, db: &str, spec: Doc<'_>) -> Result<Vec<DocBuf>> {
        super::lists::list(&self.service, stage, db, spec, &self.viewer)
    }

    fn open_backup(&self) -> Result<Box<dyn BatchStream>> {
        super::backup::open(&self.service)
    }

    fn search(
        &self,
        exec: &ExecContext<'_>,
        ns: &Namespace,
        stage: &str,
        spec: Doc<'_>,
    ) -> Result<Box<dyn BatchStream>> {
        let (coll, view) = (self.collection(ns)?, self.view.clone());
        super::search::open(&self.service, coll, view, exec, stage, spec)
    }

    fn search_indexes(&self, ns: &Namespace, spec: Doc<'_>) -> Result<Vec<DocBuf>> {
        super::search::list(&self.service, self.collection(ns)?.as_ref(), spec)
    }

    fn memory_limit_bytes(&self) -> usize {
        self.service.config.memory.stage_bytes(self.stage_limit())
    }

    fn spill_threshold_bytes(&self) -> usize {
        // Another limit than the default one was set, and is kept.
        let most = match self.stage_limit() {
            STAGE_BYTES => usize::MAX,
            limit => limit,
        };
        self.service.config.memory.stage_bytes(most)
    }

    fn spill_file(&self) -> Result<Scratch> {
        let file = tempfile::tempfile().map_err(|e| {
            MongoError::new(
                code::FILE_STREAM_FAILED,
                format!("cannot make a temporary file: {e}"),
            )
        })?;
        Ok(match self.service.config.seals_files {
            true => Scratch::new_sealed(file),
            false => Scratch::unencrypted(file),
        })
    }
}
