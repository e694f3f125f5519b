//! Reads ahead for stages that consume their whole input before they give output: once an input
//! turns out to be long, a second thread reads it while this one works on earlier batches.
//! Documents keep their order, so results do not change. Must not know which stages use it.

use super::batch::DocBatch;
use super::host::{BatchStream, ExecContext};
use super::permits::Permit;
use model::{Doc, MongoError, Result};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Batches that the calling thread reads alone; only a longer input is worth a second thread.
const ALONE: usize = 16;
/// Batches are handed over in groups, because waking a thread costs as much as filling a batch.
const GROUP: usize = 8;
/// Most groups that wait to be worked on.
const GROUPS: usize = 3;
/// A group also ends at this many bytes.
const GROUP_BYTES: usize = 1 << 20;

/// Calls `each` on every document of `docs`, in order, and `between` after each batch.
///
/// # Errors
/// Those of `docs`, `each` and `between`, and the operation's interrupt.
///
/// # Cost
/// At most 24 batches (6 MiB) wait in memory.
pub(crate) fn drain_ahead<S>(
    docs: &mut dyn BatchStream,
    exec: &ExecContext<'_>,
    state: &mut S,
    mut each: impl FnMut(&mut S, Doc<'_>, Option<Doc<'_>>) -> Result<()>,
    mut between: impl FnMut(&mut S) -> Result<()>,
) -> Result<()> {
    let mut work = |state: &mut S, batch: &DocBatch| {
        for (doc, meta) in batch.iter_meta() {
            each(state, doc, meta)?;
        }
        between(state)
    };
    let mut batch = DocBatch::new();
    let mut alone = 0;
    loop {
        exec.env.check_interrupt()?;
        batch.clear();
        let more = docs.next_batch(exec, &mut batch)?;
        // Empty batches are not counted: with them reading is the work, which a second thread does
        // not share.
        alone += usize::from(!batch.is_empty());
        work(state, &batch)?;
        if !more {
            return Ok(());
        }
        if alone == ALONE
            && let Some(permit) = Permit::take()
        {
            return run_ahead(docs, exec, permit, |batch| work(state, batch));
        }
    }
}

type Group = Result<Vec<DocBatch>>;

fn run_ahead(
    docs: &mut dyn BatchStream,
    exec: &ExecContext<'_>,
    permit: Permit,
    mut work: impl FnMut(&DocBatch) -> Result<()>,
) -> Result<()> {
    let (full_in, full_out) = sync_channel::<Group>(GROUPS);
    let (empty_in, empty_out) = sync_channel::<Vec<DocBatch>>(GROUPS + 2);
    std::thread::scope(|scope| {
        let reader = scope.spawn(move || {
            let _permit = permit;
            let _account = exec.env.operation.as_ref().map(|op| op.join());
            read(docs, exec, &full_in, &empty_out);
        });
        let mut ended = Ok(());
        while let Ok(group) = full_out.recv() {
            ended = exec.env.check_interrupt().and(group).and_then(|group| {
                group.iter().try_for_each(&mut work)?;
                // If the reader has ended, nobody needs the buffers.
                let _ = empty_in.try_send(group);
                Ok(())
            });
            if ended.is_err() {
                break;
            }
        }
        // This makes the reader's next send fail, and the reader ends.
        drop(full_out);
        match reader.join() {
            Ok(()) => ended,
            Err(_) => ended.and(Err(MongoError::internal(
                "reading ahead ended unexpectedly",
            ))),
        }
    })
}

fn read(
    docs: &mut dyn BatchStream,
    exec: &ExecContext<'_>,
    full: &SyncSender<Group>,
    empty: &Receiver<Vec<DocBatch>>,
) {
    loop {
        let mut group = empty.try_recv().unwrap_or_default();
        let mut filled = 0;
        let mut bytes = 0;
        let mut more = Ok(true);
        while filled < GROUP && bytes < GROUP_BYTES && matches!(more, Ok(true)) {
            if group.len() == filled {
                group.push(DocBatch::new());
            }
            let Some(batch) = group.get_mut(filled) else {
                break;
            };
            batch.clear();
            more = exec
                .env
                .check_interrupt()
                .and_then(|()| docs.next_batch(exec, batch));
            if !batch.is_empty() && more.is_ok() {
                filled += 1;
                bytes += batch.len_bytes();
            }
        }
        group.truncate(filled);
        // Documents before an error are handed over first, as without a second thread.
        let done = full.send(Ok(group)).is_err();
        match more {
            Ok(true) if !done => {}
            Err(e) if !done => {
                let _ = full.send(Err(e));
                return;
            }
            _ => return,
        }
    }
}
