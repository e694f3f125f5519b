//! Updates, upserts and deletes the documents that a selector finds. Each document is matched again
//! under its lock.

use super::args::{DeleteOp, Mods, UpdateOp};
use super::done::WriteOutcome;
use super::selector::{Selector, SuspendedStatement};
use super::touched;
use crate::rules::document_id::with_id;
use crate::rules::validator::Validator;
use model::{Bump, Doc, DocBuf, Result, Value, bail, code};
use operators::Env;
use operators::expr::ParseCx;
use operators::filter::Filter;
use operators::update::{Update, UpdateCx, UpdateResult, upsert_base};
use state::capped;
use state::service::Service;
use std::sync::Arc;
use store::{Change, ChangedPaths, CommitPos, ModifyOutcome, RetryImage, StatementLog};

/// Attempts of an upsert while other writers insert the same key.
const UPSERT_TRIES: usize = 5;

fn pos_of(m: ModifyOutcome) -> CommitPos {
    match m {
        ModifyOutcome::Replaced(p) | ModifyOutcome::Deleted(p) => p,
        ModifyOutcome::Absent | ModifyOutcome::Kept => CommitPos::default(),
    }
}

/// Deletes one or all matching documents.
///
/// # Errors
/// Those of the filter and the store; 2 BadValue for a hint that matches no index.
pub(crate) fn delete(
    service: &Service,
    t: &Selector<'_>,
    op: &DeleteOp<'_>,
    sort: Doc<'_>,
    keep: bool,
    mut log: Option<StatementLog<'_>>,
    middle: &mut Option<SuspendedStatement>,
) -> Result<WriteOutcome> {
    let filter = &t.filter.filter;
    let by_id = t.key_by_id();
    if op.multi && by_id.is_none() {
        return delete_many(t, filter, middle);
    }
    let mut done = WriteOutcome::default();
    loop {
        let key = match &by_id {
            Some(key) => Some(key.clone()),
            None => t.first_key(service, sort)?,
        };
        let Some(key) = key else { return Ok(done) };
        t.env.check_interrupt()?;
        let (mut old, mut found) = (None, false);
        let mut arena = Bump::new();
        let decide = &mut |doc: Doc<'_>| {
            found = true;
            arena.reset();
            if !filter.matches(doc, &arena, t.env)? {
                return Ok(Change::Keep);
            }
            if keep {
                old = Some(doc.to_buf());
            }
            Ok(Change::Delete)
        };
        let modified = t.modify(&key, decide, log.as_mut())?;
        if by_id.is_some() {
            t.count_id_search(found);
        }
        if let ModifyOutcome::Deleted(pos) = modified {
            return Ok(WriteOutcome {
                matched: 1,
                pos,
                before: old,
                ..done
            });
        }
        // Another writer has changed the document: try the next matching document, unless the
        // filter allows only this `_id`.
        if by_id.is_some() {
            return Ok(done);
        }
        done.before = None;
    }
}

fn delete_many(
    t: &Selector<'_>,
    filter: &Filter,
    middle: &mut Option<SuspendedStatement>,
) -> Result<WriteOutcome> {
    let mut arena = Bump::new();
    t.each_batch(middle, &mut |keys, done, worked| {
        t.env.check_interrupt()?;
        let decide = &mut |_: usize, doc: Doc<'_>| {
            arena.reset();
            Ok(if filter.matches(doc, &arena, t.env)? {
                Change::Delete
            } else {
                Change::Keep
            })
        };
        t.modify_many(keys, decide, &mut |n, m| {
            if let ModifyOutcome::Deleted(pos) = m {
                done.matched += 1;
                done.pos = done.pos.max(pos);
            }
            worked(n + 1);
        })
    })
}

/// A parsed change.
pub struct UpdateSpec {
    update: Update,
    /// How the log finds out which fields changed; `None` when it records the whole document.
    touched: Option<Arc<ChangedPaths>>,
    validator: Option<Validator>,
}

impl UpdateSpec {
    /// # Errors
    /// Those of the update's operators.
    pub fn parse(env: &Env, mods: &Mods<'_>, validator: Option<Validator>) -> Result<UpdateSpec> {
        let mut cx = ParseCx::new(env);
        let update = match mods {
            Mods::Update { doc, array_filters } => {
                let filters = DocBuf::build(|w| {
                    let mut a = w.array("f");
                    for f in array_filters {
                        a.push(*f);
                    }
                });
                let filters = if array_filters.is_empty() {
                    None
                } else {
                    Some(filters.doc().field("f"))
                };
                Update::parse(&mut cx, Value::Document(*doc), filters)?
            }
            Mods::Pipeline { stages, .. } => Update::parse(&mut cx, Value::Array(*stages), None)?,
        };
        let touched = match mods {
            _ if update.is_replacement() => None,
            Mods::Pipeline { .. } => Some(ChangedPaths::Anything),
            Mods::Update { doc, .. } => Some(ChangedPaths::Paths(touched::paths(*doc))),
        };
        Ok(UpdateSpec {
            update,
            touched: touched.map(Arc::new),
            validator,
        })
    }

    /// The change that stores `new`; no change when it is `None`.
    fn change(&self, new: Option<DocBuf>) -> Change {
        match (new, &self.touched) {
            (None, _) => Change::Keep,
            (Some(new), None) => Change::Replace(new.into_bytes()),
            (Some(new), Some(touched)) => Change::Update(new.into_bytes(), Arc::clone(touched)),
        }
    }

    /// Whether a document that matches `filter` would change.
    ///
    /// # Errors
    /// Those of the update's operators.
    pub fn changes_document(&self, filter: &Filter, env: &Env, doc: Doc<'_>) -> Result<bool> {
        let arena = Bump::new();
        let position = filter.matches_with_position(doc, &arena, env)?.1;
        let cx = UpdateCx {
            arena: &arena,
            env,
            inserting: false,
            position,
        };
        Ok(matches!(
            self.update.apply(doc, &cx)?,
            UpdateResult::Changed(_)
        ))
    }

    /// The new document, or `None` when nothing changes.
    fn apply(
        &self,
        t: &Selector<'_>,
        doc: Doc<'_>,
        arena: &Bump,
        inserting: bool,
        position: Option<usize>,
    ) -> Result<Option<DocBuf>> {
        let cx = UpdateCx {
            arena,
            env: t.env,
            inserting,
            position,
        };
        match self.update.apply(doc, &cx)? {
            UpdateResult::Unchanged => Ok(None),
            UpdateResult::Changed(new) => {
                if let Some(v) = self
                    .validator
                    .as_ref()
                    .filter(|v| inserting || !v.moderate() || v.accepts(doc))
                {
                    v.check(new)?;
                }
                Ok(Some(new.to_buf()))
            }
        }
    }
}

/// Changes one or all matching documents, or inserts a document when none matches and an upsert is
/// requested.
///
/// # Errors
/// Those of filter, update, validator and store; 9 FailedToParse for a replacement of many.
pub(crate) fn update(
    service: &Service,
    t: &Selector<'_>,
    changer: &UpdateSpec,
    op: &UpdateOp<'_>,
    keep: bool,
    mut log: Option<StatementLog<'_>>,
    middle: &mut Option<SuspendedStatement>,
) -> Result<WriteOutcome> {
    if op.multi && changer.update.is_replacement() {
        bail!(
            code::FAILED_TO_PARSE,
            "multi update is not supported for replacement-style update"
        );
    }
    let mut done = WriteOutcome::default();
    let by_id = t.key_by_id();
    if op.multi && by_id.is_none() {
        done = update_many(t, changer, middle)?;
    } else {
        loop {
            let key = match &by_id {
                Some(key) => Some(key.clone()),
                None => t.first_key(service, op.sort)?,
            };
            let Some(key) = key else { break };
            t.env.check_interrupt()?;
            let found = change(t, changer, &key, keep, &mut done, log.as_mut())?;
            if by_id.is_some() {
                t.count_id_search(found);
            }
            if by_id.is_some() || done.matched > 0 {
                break;
            }
        }
    }
    if done.matched > 0 || !op.upsert {
        return Ok(done);
    }
    for _ in 0..UPSERT_TRIES {
        match upsert(service, t, changer, &mut done, log.as_mut()) {
            // Another writer has inserted a document with that key in the meantime; it may match
            // now.
            Err(e) if e.code() == code::DUPLICATE_KEY && t.transaction.is_none() => {
                let Some(key) = t.first_key(service, op.sort)? else {
                    return Err(e);
                };
                change(t, changer, &key, keep, &mut done, log.as_mut())?;
                if done.matched > 0 {
                    return Ok(done);
                }
            }
            other => return other.map(|()| done),
        }
    }
    upsert(service, t, changer, &mut done, log.as_mut()).map(|()| done)
}

fn update_many(
    t: &Selector<'_>,
    changer: &UpdateSpec,
    middle: &mut Option<SuspendedStatement>,
) -> Result<WriteOutcome> {
    let mut arena = Bump::new();
    let mut matched = Vec::new();
    t.each_batch(middle, &mut |keys, done, worked| {
        t.env.check_interrupt()?;
        matched.clear();
        matched.resize(keys.len(), false);
        let matched = std::cell::RefCell::new(&mut matched);
        let decide = &mut |n: usize, doc: Doc<'_>| {
            arena.reset();
            let (fits, position) = t.filter.filter.matches_with_position(doc, &arena, t.env)?;
            matched.borrow_mut()[n] = fits;
            let new = if fits {
                changer.apply(t, doc, &arena, false, position)?
            } else {
                None
            };
            Ok(changer.change(new))
        };
        t.modify_many(keys, decide, &mut |n, m| {
            done.matched += i64::from(m != ModifyOutcome::Absent && matched.borrow()[n]);
            done.modified += i64::from(matches!(m, ModifyOutcome::Replaced(_)));
            done.pos = done.pos.max(pos_of(m));
            worked(n + 1);
        })
    })
}

fn change(
    t: &Selector<'_>,
    changer: &UpdateSpec,
    key: &[u8],
    keep: bool,
    done: &mut WriteOutcome,
    log: Option<&mut StatementLog<'_>>,
) -> Result<bool> {
    let (mut matched, mut found) = (false, false);
    let (mut before, mut after) = (None, None);
    let mut arena = Bump::new();
    let decide = &mut |doc: Doc<'_>| {
        found = true;
        arena.reset();
        let (fits, position) = t.filter.filter.matches_with_position(doc, &arena, t.env)?;
        matched = fits;
        if !fits {
            return Ok(Change::Keep);
        }
        let new = changer.apply(t, doc, &arena, false, position)?;
        if keep {
            before = Some(doc.to_buf());
            after = Some(new.clone().unwrap_or_else(|| doc.to_buf()));
        }
        Ok(changer.change(new))
    };
    let m = t.modify(key, decide, log)?;
    if m != ModifyOutcome::Absent && matched {
        done.matched += 1;
        done.before = before;
        done.after = after;
    }
    if matches!(m, ModifyOutcome::Replaced(_)) {
        done.modified += 1;
        done.pos = done.pos.max(pos_of(m));
    }
    Ok(found)
}

fn upsert(
    service: &Service,
    t: &Selector<'_>,
    changer: &UpdateSpec,
    done: &mut WriteOutcome,
    log: Option<&mut StatementLog<'_>>,
) -> Result<()> {
    let base = upsert_base(&t.filter.filter, changer.update.is_replacement())?;
    let arena = Bump::new();
    let new = changer.apply(t, base.doc(), &arena, true, None)?;
    let new = match new {
        Some(n) => n,
        None => {
            if let Some(v) = &changer.validator {
                v.check(base.doc())?;
            }
            base
        }
    };
    let new = with_id(new.doc(), service.clock.now_ms())?;
    let mut log = log.map(|n| StatementLog {
        record: &mut *n.record,
        ids: n.ids,
        keep: if n.keep == RetryImage::Fact {
            RetryImage::Id
        } else {
            n.keep
        },
    });
    let inserted = match t.transaction {
        Some(transaction) => t.writer().insert_in(&[new.doc()], true, transaction)?,
        None => t.writer().insert_logged(&[new.doc()], true, log.as_mut())?,
    };
    if t.transaction.is_none() {
        capped::end_insert(service, t.writer())?;
    }
    if let Some((_, e)) = inserted.errors.into_iter().next() {
        return Err(e);
    }
    done.pos = done.pos.max(inserted.pos);
    done.upserted = Some(new.doc().field("_id").to_owned_value());
    done.after = Some(new);
    Ok(())
}
