//! The contracts of execution, which refer to each other: [`BatchStream`], the pull operator;
//! [`ExecContext`], which is passed to it at each call; [`Host`], everything a query needs from
//! outside, implemented over the store by the server and over memory by tests; [`ReadRequest`], a
//! read that is asked of it; [`Fold`], by which a blocking stage lets the read below it do its
//! work: on columns, and in parts whose results are combined.

use super::batch::DocBatch;
use super::changes::ChangeHost;
use super::match_filter::MatchFilter;
use super::request::{
    AllowedIndexes, CountOutput, GeoIndex, GroupEnd, MergeWrite, OnMatch, OutTarget, OutWriter,
    ResolvedNamespace,
};
use super::sort_pattern::SortPattern;
use cipher::Scratch;
use model::{Bump, Doc, DocBuf, FieldPath, MongoError, Namespace, Result, Value, code};
use operation::Operation;
use operators::columns::Paths;
use operators::vector::Rows;
use operators::{Cx, Env, Frame};
use std::any::Any;
use std::sync::Arc;

/// A query operator: each call gives a batch of documents.
pub trait BatchStream: Send {
    /// Appends documents to `out`, which comes cleared. `false` when there are no more after these;
    /// a `true` batch may be empty.
    ///
    /// # Errors
    /// Any error ends the stream.
    fn next_batch(&mut self, exec: &ExecContext<'_>, out: &mut DocBatch) -> Result<bool>;
}

impl<T: BatchStream + ?Sized> BatchStream for Box<T> {
    fn next_batch(&mut self, exec: &ExecContext<'_>, out: &mut DocBatch) -> Result<bool> {
        (**self).next_batch(exec, out)
    }
}

/// The execution context of a query: what its operators may use. Passed in at each call, so that a
/// cursor borrows nothing between commands.
#[derive(Clone, Copy)]
pub struct ExecContext<'r> {
    /// The operation.
    pub env: &'r Env,
    /// The server, as the query sees it.
    pub host: &'r dyn Host,
    /// Variables bound around the pipeline (`let` of `$lookup`).
    pub vars: Option<&'r Frame<'r, 'r>>,
    /// Blocking stages may use temporary files.
    pub allow_disk_use: bool,
}

impl<'r> ExecContext<'r> {
    /// The operation on whose behalf a stage writes.
    ///
    /// # Errors
    /// 1 where there is none.
    pub fn operation(&self) -> Result<&'r Arc<Operation>> {
        let operation = self.env.operation.as_ref();
        operation.ok_or_else(|| MongoError::internal("a stage writes without an operation"))
    }

    /// Without outer variables, temporary files allowed.
    pub fn new(env: &'r Env, host: &'r dyn Host) -> ExecContext<'r> {
        ExecContext {
            env,
            host,
            vars: None,
            allow_disk_use: true,
        }
    }

    /// Bytes a `$group` holds before it spills or fails.
    pub fn group_bytes_max(&self) -> usize {
        match self.allow_disk_use {
            true => self.host.spill_threshold_bytes(),
            false => self.host.memory_limit_bytes(),
        }
    }

    /// Whether a document matches a filter.
    ///
    /// # Errors
    /// Those of `$expr`.
    pub fn matches<'a>(
        &self,
        filter: &'a MatchFilter,
        doc: Doc<'a>,
        arena: &'a Bump,
    ) -> Result<bool>
    where
        'r: 'a,
    {
        filter.filter.matches_in(&self.cx(arena, doc), doc)
    }

    /// The context to evaluate expressions on a document in.
    pub fn cx<'a>(&self, arena: &'a Bump, doc: Doc<'a>) -> Cx<'r, 'a>
    where
        'r: 'a,
    {
        Cx {
            vars: self.vars,
            ..Cx::new(arena, Value::Document(doc), self.env)
        }
    }
}

/// A read of one collection. `filter`, `sort` and `limit` are offers: the pipeline does what the
/// host does not.
pub struct ReadRequest<'q> {
    /// The collection; never a view.
    pub ns: &'q Namespace,
    /// Documents to find; `None` is all.
    pub filter: Option<&'q Arc<MatchFilter>>,
    /// The wanted order of the documents.
    pub sort: Option<&'q SortPattern>,
    /// A filter with nothing but a `$near`: documents are wanted in order of distance. An offer,
    /// too.
    pub near: Option<&'q Arc<MatchFilter>>,
    /// No more than this many are needed, after filter and sort.
    pub limit: Option<u64>,
    /// One document for each value at this path is enough; more are allowed.
    pub distinct: Option<&'q str>,
    /// One document of each of these groups is enough; more are allowed.
    pub group_end: Option<&'q GroupEnd>,
    /// The only top-level fields that are used, besides those of the filter; `None` is all. A host
    /// that leaves the filter to the pipeline gives whole documents.
    pub fields: Option<&'q [String]>,
    /// The stage behind the filter: the host may give this stage's results instead of documents. An
    /// offer, too.
    pub fold: Option<&'q Arc<dyn Fold>>,
    /// The same for a stage that needs only the number of documents.
    pub number: Option<&'q CountOutput>,
    /// Documents come with record id and index key as metadata.
    pub row_metadata: bool,
}

impl<'q> ReadRequest<'q> {
    /// Every document, whole and in any order.
    pub fn all(ns: &'q Namespace) -> ReadRequest<'q> {
        ReadRequest {
            ns,
            filter: None,
            sort: None,
            near: None,
            limit: None,
            distinct: None,
            group_end: None,
            fields: None,
            fold: None,
            number: None,
            row_metadata: false,
        }
    }
}

/// An open read, and which offers the host took.
pub struct OpenRead {
    /// The documents.
    pub docs: Box<dyn BatchStream>,
    /// All documents given match the filter.
    pub filtered: bool,
    /// They come in the wanted order.
    pub sorted: bool,
    /// There are no more than `limit`.
    pub limited: bool,
    /// They come in order of distance, within the limits of `near`.
    pub near: bool,
    /// They are the results of the fold, or of the stage that needs only a number.
    pub folded: bool,
}

/// A stage whose result can be combined from the results of parts of its input.
pub trait Fold: Send + Sync {
    /// The paths whose values the stage needs.
    fn paths(&self) -> &Arc<Paths>;

    /// The output is the same for every order of the documents.
    fn any_order(&self) -> bool;

    /// The result for an empty input.
    fn begin(&self) -> Box<dyn PartialResult>;

    /// Adds documents to the result.
    ///
    /// # Errors
    /// The stage's own.
    fn add(&self, to: &mut dyn PartialResult, rows: Rows<'_>, exec: &ExecContext<'_>)
    -> Result<()>;

    /// The result for the whole input, from the results of all parts in order.
    ///
    /// # Errors
    /// The stage's own.
    fn merge(
        &self,
        parts: Vec<Box<dyn PartialResult>>,
        exec: &ExecContext<'_>,
    ) -> Result<Box<dyn PartialResult>>;

    /// The stage's output from a result of [`Fold::merge`].
    ///
    /// # Errors
    /// The result is of another fold.
    fn finish(self: Arc<Self>, merged: Box<dyn PartialResult>) -> Result<Box<dyn BatchStream>>;

    /// The stage's output from documents, computed by the stage itself: it may use temporary files.
    ///
    /// # Errors
    /// The stage's own.
    fn fold_documents(
        self: Arc<Self>,
        docs: Box<dyn BatchStream>,
        exec: &ExecContext<'_>,
    ) -> Result<Box<dyn BatchStream>>;
}

/// The result of a part of the input.
pub trait PartialResult: Send + Any {
    /// Bytes held.
    fn memory_bytes(&self) -> usize;

    /// For the fold that made the result.
    fn as_any_mut(&mut self) -> &mut dyn Any;

    /// For the fold that made the result.
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

/// What a pipeline asks of the server. Object-safe. Every method may be called many times, and from
/// several threads at once.
pub trait Host: Sync {
    /// The object that a namespace names.
    ///
    /// # Errors
    /// Those of the catalog.
    fn resolve(&self, ns: &Namespace) -> Result<ResolvedNamespace>;

    /// Opens a read of a collection.
    ///
    /// # Errors
    /// Those of the store and of the filter.
    fn open(&self, exec: &ExecContext<'_>, read: &ReadRequest<'_>) -> Result<OpenRead>;

    /// Opens a read of the buckets of a time-series collection, as documents.
    ///
    /// # Errors
    /// Those of the store; 26 NamespaceNotFound for any other collection.
    fn open_buckets(&self, ns: &Namespace) -> Result<Box<dyn BatchStream>> {
        Err(MongoError::new(
            code::NAMESPACE_NOT_FOUND,
            format!("no time-series collection {ns}"),
        ))
    }

    /// Whether `field` of a collection can be looked up by value cheaply (an index with it first).
    fn can_look_up(&self, ns: &Namespace, field: &FieldPath) -> bool;

    /// Documents that may have one of `values` (or an array holding one) at `field`. It may give
    /// other documents, too; the caller checks. Called only after [`Host::can_look_up`] returned
    /// true.
    ///
    /// # Errors
    /// Those of the store.
    fn look_up(
        &self,
        exec: &ExecContext<'_>,
        ns: &Namespace,
        field: &FieldPath,
        values: &[Value<'_>],
    ) -> Result<Box<dyn BatchStream>>;

    /// All documents, in the order in which [`Host::look_up`] gives them; `None` if there are more
    /// than `most`, or if the host has no such order.
    ///
    /// # Errors
    /// Those of the store.
    fn look_up_all(
        &self,
        _exec: &ExecContext<'_>,
        _ns: &Namespace,
        _field: &FieldPath,
        _most: u64,
    ) -> Result<Option<Box<dyn BatchStream>>> {
        Ok(None)
    }

    /// The geospatial indexes of a collection: the field and the kind.
    ///
    /// # Errors
    /// Those of the catalog.
    fn geo_indexes(&self, ns: &Namespace) -> Result<Vec<(String, GeoIndex)>>;

    /// Begins `$out`.
    ///
    /// # Errors
    /// 166 CommandNotSupportedOnView on a view, 17152 on a capped collection, 20 / 7406103 /
    /// 7268700 for unfit time-series options.
    fn begin_out(&self, exec: &ExecContext<'_>, target: &OutTarget) -> Result<Box<dyn OutWriter>>;

    /// Checks before `$merge` writes: the target may be written, and `on` has a unique index.
    ///
    /// # Errors
    /// 166 CommandNotSupportedOnView on a view, 51183 without a unique index.
    fn check_merge(&self, ns: &Namespace, on: &[String]) -> Result<()>;

    /// Writes one document of `$merge`.
    ///
    /// # Errors
    /// 13113 MergeStageNoMatchingDocument, 11000 DuplicateKey, 121 DocumentValidationFailure, and
    /// those of `matched`.
    fn merge(
        &self,
        exec: &ExecContext<'_>,
        write: &MergeWrite<'_>,
        matched: &OnMatch<'_>,
    ) -> Result<()>;

    /// The documents of `$collStats`; `spec` is its checked argument.
    ///
    /// # Errors
    /// 26 NamespaceNotFound where the asked part needs the collection.
    fn coll_stats(&self, ns: &Namespace, spec: Doc<'_>) -> Result<Vec<DocBuf>>;

    /// The documents of `$indexStats`, one per index.
    ///
    /// # Errors
    /// Those of the store.
    fn index_stats(&self, ns: &Namespace) -> Result<Vec<DocBuf>>;

    /// The documents of `$planCacheStats`.
    ///
    /// # Errors
    /// Those of the plan cache.
    fn plan_cache_stats(&self, ns: &Namespace) -> Result<Vec<DocBuf>>;

    /// The documents of a stage that lists something of the server: `$currentOp`, `$listSessions`,
    /// `$listLocalSessions`, `$listClusterCatalog`, `$querySettings`; `spec` is its checked
    /// argument, `db` where it runs.
    ///
    /// # Errors
    /// The stage's own.
    fn list(&self, stage: &str, db: &str, spec: Doc<'_>) -> Result<Vec<DocBuf>>;

    /// Takes a snapshot of all data and gives the documents of `$backupCursor` about its files,
    /// which are kept until the stream is dropped.
    ///
    /// # Errors
    /// 115 CommandNotSupported without such files.
    fn open_backup(&self) -> Result<Box<dyn BatchStream>> {
        Err(MongoError::new(
            code::COMMAND_NOT_SUPPORTED,
            "there are no files to copy here",
        ))
    }

    /// The documents of `$search`, `$searchMeta` or `$vectorSearch`; `spec` is the argument.
    ///
    /// # Errors
    /// 31082 SearchNotEnabled on a server without search; 8 UnknownError and others for the
    /// argument.
    fn search(
        &self,
        _exec: &ExecContext<'_>,
        _ns: &Namespace,
        stage: &str,
        _spec: Doc<'_>,
    ) -> Result<Box<dyn BatchStream>> {
        Err(MongoError::new(
            code::SEARCH_NOT_ENABLED,
            format!("{stage} is not available here"),
        ))
    }

    /// The documents of `$listSearchIndexes`; `spec` is its checked argument.
    ///
    /// # Errors
    /// 9 FailedToParse for an argument with both an id and a name.
    fn search_indexes(&self, _ns: &Namespace, _spec: Doc<'_>) -> Result<Vec<DocBuf>> {
        Ok(Vec::new())
    }

    /// The index [`Host::look_up`] would use, for explain.
    fn look_up_index(&self, _ns: &Namespace, _field: &FieldPath) -> Option<String> {
        None
    }

    /// The operation's collation as the client wrote it, for explain.
    fn collation(&self) -> Option<DocBuf> {
        None
    }

    /// The only indexes of a collection that the operation may use, for explain.
    fn allowed_indexes(&self, _ns: &Namespace) -> Option<AllowedIndexes> {
        None
    }

    /// The log of changes and the retention of pre-images; `None` on a server without a log.
    fn changes(&self) -> Option<ChangeHost<'_>> {
        None
    }

    /// Bytes one blocking stage may hold before it spills or fails.
    fn memory_limit_bytes(&self) -> usize {
        100 * 1024 * 1024
    }

    /// Bytes one blocking stage that may use temporary files holds before it does; at least
    /// [`Host::memory_limit_bytes`], more where the server has memory to spare.
    fn spill_threshold_bytes(&self) -> usize {
        self.memory_limit_bytes()
    }

    /// A fresh temporary file that vanishes when dropped.
    ///
    /// # Errors
    /// 39 FileStreamFailed.
    fn spill_file(&self) -> Result<Scratch>;
}
