//! `$out`: writes a temporary collection, which replaces the target in one step at the end. Readers
//! see the old or the new collection; after a failure the old one is unchanged.

use crate::ddl::temporary::TemporaryCollection;
use crate::ddl::{names, timeseries};
use crate::rules::document_id::with_id;
use crate::rules::validator::Validator;
use model::{Doc, DocBuf, MongoError, Namespace, Result, bail, code};
use operation::Operation;
use query::exec::{DocBatch, OutTarget, OutWriter};
use state::service::Service;
use std::sync::Arc;
use store::{Collection, InsertOutcome};

/// A replacement that is being written.
pub(super) struct Out {
    service: Arc<Service>,
    target: Namespace,
    /// The options and indexes of the target at the start.
    before: Option<Shape>,
    fresh: TemporaryCollection,
    operation: Arc<Operation>,
    validator: Option<Validator>,
}

/// The properties of the target that must not change while `$out` runs.
#[derive(PartialEq)]
struct Shape {
    options: Arc<DocBuf>,
    indexes: Vec<DocBuf>,
}

impl Shape {
    fn of(c: &Collection) -> Shape {
        let indexes = c.indexes();
        Shape {
            options: c.options(),
            indexes: indexes
                .iter()
                .filter(|i| i.is_ready())
                .map(|i| i.spec().to_buf())
                .collect(),
        }
    }
}

impl Out {
    /// Begins the replacement: creates a collection with the options and indexes of the target.
    ///
    /// # Errors
    /// 166 CommandNotSupportedOnView on a view, 17152 on a capped collection, 7268700 / 7406103 for
    /// time-series options that conflict, 73 InvalidNamespace, 2 BadValue, 72 InvalidOptions.
    pub(super) fn begin(
        service: &Arc<Service>,
        operation: &Arc<Operation>,
        target: &OutTarget,
        bypass_validation: bool,
    ) -> Result<Out> {
        let existing = service.store.collection(&target.ns)?;
        let wanted = target
            .timeseries
            .as_ref()
            .map(|t| timeseries::create(t.doc()))
            .transpose()?;
        if let Some(c) = &existing {
            check_existing(c, &target.ns, wanted.as_ref())?;
        }
        names::check_may_create(&target.ns)?;
        let options = match (&existing, &wanted) {
            (Some(c), _) => c.options().as_ref().clone(),
            (None, Some(t)) => model::doc! { "timeseries": t },
            (None, None) => DocBuf::new(),
        };
        let mut fresh = TemporaryCollection::create(service, operation, &target.ns, options)?;
        let catalog = service.store.writer(operation);
        if existing.is_none() {
            fresh.change(|fresh| timeseries::add_own_index(&catalog, fresh))?;
        }
        let before = existing.as_deref().map(Shape::of);
        for spec in before.iter().flat_map(|b| &b.indexes) {
            fresh.change(|fresh| catalog.create_first_index(fresh, spec))?;
        }
        fresh.renew()?;
        let validator = match &existing {
            Some(c) => Validator::of(service, operation.connection(), c, bypass_validation)?,
            None => None,
        };
        Ok(Out {
            service: service.clone(),
            target: target.ns.clone(),
            before,
            fresh,
            operation: Arc::clone(operation),
            validator,
        })
    }
}

fn check_existing(c: &Collection, ns: &Namespace, wanted: Option<&DocBuf>) -> Result<()> {
    let options = c.options();
    let series = options.doc().field("timeseries").as_doc();
    match (series, wanted) {
        (None, Some(_)) => bail!(
            7_268_700,
            "Cannot create a time-series collection from a non time-series collection or view: {ns}"
        ),
        (Some(there), Some(wanted)) if there != wanted.doc() => {
            bail!(
                7_406_103,
                "Time-series options given must match the existing time-series collection {ns}. \
                    Given: {wanted}, there: {there}"
            )
        }
        _ => {}
    }
    if c.is_view() {
        bail!(
            code::COMMAND_NOT_SUPPORTED_ON_VIEW,
            "Namespace {ns} is a view, not a collection"
        );
    }
    if names::is_capped(c) {
        bail!(
            17152,
            "namespace '{ns}' is capped so it can't be used for $out"
        );
    }
    Ok(())
}

impl OutWriter for Out {
    fn write(&mut self, docs: &DocBatch) -> Result<()> {
        let now = self.service.clock.now_ms();
        let series = timeseries::Series::of(self.fresh.coll());
        let mut owned: Vec<DocBuf> = Vec::with_capacity(docs.len());
        for d in docs.iter() {
            let d = with_id(d, now)?;
            if let Some(v) = &self.validator {
                v.check(d.doc())?;
            }
            owned.push(match &series {
                Some(s) => s.arrange(d.doc())?,
                None => d,
            });
        }
        let views: Vec<Doc<'_>> = owned.iter().map(DocBuf::doc).collect();
        let (mut at, operation) = (0, &self.operation);
        self.fresh.change(|fresh| {
            let mut done = InsertOutcome::default();
            let rest = views.get(at..).unwrap_or_default();
            let writer = fresh.writer(operation);
            let inserted = writer.insert_with_progress(rest, true, None, &mut done, &|| {});
            at += done.seen;
            inserted?;
            done.errors.pop().map_or(Ok(()), |(_, e)| Err(e))
        })
    }

    fn commit(&mut self) -> Result<()> {
        // The documents written so far are not visible yet, and the stream keeps them for the next
        // run.
        self.operation.writes().checkpoint();
        let (service, target, before) = (&self.service, &self.target, &self.before);
        let check = || {
            let now = service.store.collection(target)?;
            if now.as_deref().map(Shape::of) != *before || now.is_some_and(|c| c.is_view()) {
                bail!(
                    code::COMMAND_FAILED,
                    "options or indexes of the target collection {target} changed while processing \
                        $out"
                );
            }
            Ok(())
        };
        self.fresh.rename(&self.operation, target, &check)?;
        if let Some(c) = self.service.store.collection(&self.target)? {
            self.service.audit_created(self.operation.connection(), &c);
            self.service.ttl.track(&c);
        }
        self.service.forget(
            &self.target,
            &MongoError::new(
                code::QUERY_PLAN_KILLED,
                format!("collection replaced by $out: {}", self.target),
            ),
        );
        Ok(())
    }
}
