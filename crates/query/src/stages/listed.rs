//! Stages whose documents come from the host: server lists and statistics.

use crate::exec::{BatchStream, DocBatch, ExecContext, Host, ReadyBatch, ResolvedNamespace};
use crate::stage::{PipelineSource, Stage, StageContext};
use model::{DocBuf, Namespace, Result, bail, code};
use std::sync::Arc;

/// Asks the host.
type ListingQuery = Box<dyn Fn(&dyn Host) -> Result<Vec<DocBuf>> + Send + Sync>;

/// Such a stage.
pub(super) struct ListingStage {
    ask: ListingQuery,
    shown: DocBuf,
}

impl ListingStage {
    /// `ask` makes the documents when the pipeline starts; explain shows `shown`.
    pub(super) fn new(
        shown: DocBuf,
        ask: impl Fn(&dyn Host) -> Result<Vec<DocBuf>> + Send + Sync + 'static,
    ) -> ListingStage {
        ListingStage {
            ask: Box::new(ask),
            shown,
        }
    }
}

impl Stage for ListingStage {
    fn open(
        self: Arc<Self>,
        _: Box<dyn BatchStream>,
        exec: &ExecContext<'_>,
    ) -> Result<Box<dyn BatchStream>> {
        let mut docs = DocBatch::new();
        for d in (self.ask)(exec.host)? {
            docs.push(d.doc());
        }
        Ok(Box::new(ReadyBatch(docs)))
    }
    fn describe(&self) -> DocBuf {
        self.shown.clone()
    }
    fn makes_documents(&self) -> bool {
        true
    }
}

/// Refuses the stage except in `{aggregate: 1}` on the admin database (73).
pub(super) fn require_admin(scx: &StageContext<'_, '_>, name: &str) -> Result<()> {
    match &scx.options.target {
        PipelineSource::Database(db) if db == "admin" => Ok(()),
        _ => bail!(
            code::INVALID_NAMESPACE,
            "{name} must be run against the 'admin' database with {{aggregate: 1}}"
        ),
    }
}

/// The collection below views without stages. With any other view the view's stages would come
/// before this one, which is refused (40602).
pub(super) fn resolve_view(host: &dyn Host, mut ns: Namespace, stage: &str) -> Result<Namespace> {
    while let ResolvedNamespace::View { on, pipeline } = host.resolve(&ns)? {
        if !pipeline.doc().is_empty() {
            bail!(
                40602,
                "{stage} is only valid as the first stage in a pipeline, and {ns} is a view with \
                    stages of its own"
            );
        }
        ns = on;
    }
    Ok(ns)
}
