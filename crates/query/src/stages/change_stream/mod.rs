//! `$changeStream`: the changes of a collection, a database or the deployment as events, from the
//! log. `$changeStreamSplitLargeEvent`: splits an event that is too large for a reply into
//! fragments. Errors: those of `spec`, 40573 on a server without a log, 166 for a view or
//! time-series collection, 286 when the log no longer reaches back to the resume point, 280 when
//! the resume token is not in the stream, 47 when a required document is missing.

mod description;
mod event;
mod source;
mod spec;
mod split;

use crate::exec::{BatchStream, ChangeProgress, ExecContext, ResolvedNamespace};
use crate::stage::{ApiClass, Placement, Stage, StageContext, StageNeeds, StageOp, one};
use model::{DocBuf, Namespace, Result, Value, bail, code};
use spec::{Scope, Spec, StreamStart, needs, no_log};
use std::sync::Arc;

pub(super) static STAGES: &[StageOp] = &[
    StageOp {
        name: "$changeStream",
        api: ApiClass::Of(is_in_api),
        needs: StageNeeds::OfSource(needs),
        placement: Placement {
            first: true,
            in_facet: false,
            on_database: true,
            changes: true,
            ..Placement::ANYWHERE
        },
        parse,
    },
    StageOp {
        name: "$changeStreamSplitLargeEvent",
        api: ApiClass::Inside,
        needs: StageNeeds::Nothing,
        placement: Placement {
            in_facet: false,
            in_lookup: false,
            in_union: false,
            last: true,
            ..Placement::EACH
        },
        parse: split::parse,
    },
];

/// Version 1 of the stable API has only the events that all releases know.
fn is_in_api(arg: Value<'_>) -> bool {
    !arg.as_doc()
        .is_some_and(|d| d.contains("showExpandedEvents"))
}

/// A change stream that is not open yet.
struct ChangeStage {
    spec: Arc<Spec>,
    progress: Arc<ChangeProgress>,
}

fn parse(
    cx: &mut StageContext<'_, '_>,
    name: &'static str,
    arg: Value<'_>,
) -> Result<Vec<Arc<dyn Stage>>> {
    let spec = Spec::parse(name, arg, cx.options)?;
    let behind = match spec.start {
        StreamStart::Behind(token) => Some(token),
        StreamStart::Now | StreamStart::At(_) => None,
    };
    one(ChangeStage {
        progress: Arc::new(ChangeProgress::new(behind)),
        spec: Arc::new(spec),
    })
}

impl Stage for ChangeStage {
    fn check(&self, exec: &ExecContext<'_>) -> Result<()> {
        let store = exec.host.changes().ok_or_else(no_log)?.store;
        let Scope::Collection { db, coll } = &self.spec.scope else {
            return Ok(());
        };
        let ns = Namespace::new(db, coll)?;
        let view = matches!(exec.host.resolve(&ns)?, ResolvedNamespace::View { .. });
        let series = store.collection(&ns)?;
        let series = series.is_some_and(|c| c.options().doc().contains("timeseries"));
        if view || series {
            bail!(
                code::COMMAND_NOT_SUPPORTED_ON_VIEW,
                "Namespace {ns} is a {}, not a collection",
                if view {
                    "view"
                } else {
                    "timeseries collection"
                }
            );
        }
        Ok(())
    }

    fn open(
        self: Arc<Self>,
        _: Box<dyn BatchStream>,
        exec: &ExecContext<'_>,
    ) -> Result<Box<dyn BatchStream>> {
        let host = exec.host.changes().ok_or_else(no_log)?;
        source::open(self.spec.clone(), self.progress.clone(), &host)
    }

    fn describe(&self) -> DocBuf {
        model::doc! { "$changeStream": self.spec.given.doc() }
    }

    fn makes_documents(&self) -> bool {
        true
    }

    fn changes(&self) -> Option<&Arc<ChangeProgress>> {
        Some(&self.progress)
    }
}
