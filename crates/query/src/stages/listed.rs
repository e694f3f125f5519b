//! Stages whose documents come ready from the host: server lists and statistics.

use super::Stage;
use crate::pipeline::{Batch, Docs, Host, Ready, Rt};
use model::{DocBuf, Result};
use std::sync::Arc;

/// Asks the host.
type Ask = Box<dyn Fn(&dyn Host) -> Result<Vec<DocBuf>> + Send + Sync>;

/// Such a stage.
pub(super) struct Listed {
    ask: Ask,
    shown: DocBuf,
}

impl Listed {
    /// `ask` makes the documents when the pipeline starts; `shown` is what explain shows.
    pub(super) fn new(shown: DocBuf, ask: impl Fn(&dyn Host) -> Result<Vec<DocBuf>> + Send + Sync + 'static) -> Listed {
        Listed { ask: Box::new(ask), shown }
    }
}

impl Stage for Listed {
    fn open(self: Arc<Self>, _: Box<dyn Docs>, rt: &Rt<'_>) -> Result<Box<dyn Docs>> {
        let mut docs = Batch::new();
        for d in (self.ask)(rt.host)? {
            docs.push(d.doc());
        }
        Ok(Box::new(Ready(docs)))
    }
    fn describe(&self) -> DocBuf {
        self.shown.clone()
    }
    fn makes_documents(&self) -> bool {
        true
    }
}
