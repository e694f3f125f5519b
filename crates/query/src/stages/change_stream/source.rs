//! The source of a change stream: reads the log and shows the events of the stream. Promises: each
//! event once and in order; the log is not read for changes that do not concern the stream. Must
//! not know: sessions, cursors.

use super::event::{Event, TransactionPart, each_operation, show_events};
use super::spec::{Image, Spec, StreamStart, no_log};
use crate::exec::{
    BatchStream, CHANGE_TOKEN, ChangeHost, ChangeProgress, DocBatch, ExecContext, ResumeToken,
};
use model::{Doc, DocBuf, MongoError, Namespace, Result, Timestamp, Value, code};
use std::cell::OnceCell;
use std::sync::Arc;
use store::{LogReader, ReadView, Store, VisitResult, Watch};

/// Commits read between two checks of the interrupt.
const STEP_ROWS: usize = 64;
/// Steps after which a batch is returned even without events, so that the caller learns the
/// progress.
const STEPS_MAX: usize = 256;

pub(super) fn open(
    spec: Arc<Spec>,
    progress: Arc<ChangeProgress>,
    host: &ChangeHost<'_>,
) -> Result<Box<dyn BatchStream>> {
    let store = Arc::clone(host.store);
    let log = store.log().ok_or_else(no_log)?;
    log.renew()?;
    let (from, behind) = match spec.start {
        StreamStart::Now => (log.current().as_u64() + 1, None),
        StreamStart::At(t) => (t.as_u64(), None),
        StreamStart::Behind(token) => (token.time, Some(token)),
    };
    let from = Timestamp::from_u64(from);
    if from < log.oldest() {
        return Err(report_lost_history(from));
    }
    let watch = Arc::new(log.watch(spec.scope.namespace_hash()));
    let reader = store.read_log(from).ok_or_else(no_log)?.with_images();
    progress.open(Arc::clone(&watch), from);
    let source = Source {
        must_find: behind
            .filter(|t| t.event)
            .map(ResumeToken::without_fragment),
        behind: behind.map(|t| {
            if t.fragment > 0 {
                position_before(t)
            } else {
                t
            }
        }),
        image_ms: host.image_ms,
        spec,
        progress,
        store,
        watch,
        reader,
        chain: None,
        ended: false,
    };
    Ok(Box::new(source))
}

/// A position right before a whole event, so that its remaining fragments are shown.
fn position_before(token: ResumeToken) -> ResumeToken {
    match token.without_fragment() {
        t if t.invalidates => ResumeToken {
            invalidates: false,
            ..t
        },
        t if t.operation > 0 => ResumeToken {
            operation: t.operation - 1,
            invalidates: true,
            ..t
        },
        t => ResumeToken::before_time(Timestamp::from_u64(t.time)),
    }
}

fn report_lost_history(next: Timestamp) -> MongoError {
    MongoError::new(
        code::CHANGE_STREAM_HISTORY_LOST,
        format!(
            "Resume of change stream was not possible, as the resume point may no longer be in \
                the oplog: {next}"
        ),
    )
    .label("NonResumableChangeStreamError")
}

struct Source {
    spec: Arc<Spec>,
    progress: Arc<ChangeProgress>,
    store: Arc<Store>,
    watch: Arc<Watch>,
    reader: LogReader,
    /// A transaction logged in several entries, some of whose events were shown.
    chain: Option<Chain>,
    /// Events up to this one were shown before.
    behind: Option<ResumeToken>,
    /// The stream must contain this event, or it fails.
    must_find: Option<ResumeToken>,
    /// How long pre-images are kept, in milliseconds; `None` keeps them as long as the log.
    image_ms: Option<i64>,
    ended: bool,
}

/// The events of a transaction that was logged in several entries.
struct Chain {
    /// The last entry; its time is the time of all events.
    last: DocBuf,
    time: Timestamp,
    reader: LogReader,
    /// Operations shown so far.
    operations: u32,
}

impl BatchStream for Source {
    fn next_batch(&mut self, exec: &ExecContext<'_>, out: &mut DocBatch) -> Result<bool> {
        if self.ended {
            return Ok(false);
        }
        let log = self.store.log().ok_or_else(no_log)?;
        log.renew()?;
        // The visible end must be read first, and only then whether any change up to it concerns
        // the stream.
        let visible = log.visible().as_u64();
        let mut at_end = true;
        if self.chain.is_some() || self.watch.has_from(self.reader.next()) {
            at_end = self.read(exec, out)?;
        } else {
            self.reader.skip_to(Timestamp::from_u64(visible + 1));
        }
        self.progress.advance(self.reader.next(), at_end);
        Ok(true)
    }
}

impl Source {
    /// Reads until the batch is full or the end of the log; true at the end.
    fn read(&mut self, exec: &ExecContext<'_>, out: &mut DocBatch) -> Result<bool> {
        let images = Images {
            store: &self.store,
            spec: &self.spec,
            oldest_ms: self.image_ms.map(|ms| exec.env.now_ms.saturating_sub(ms)),
            now: OnceCell::new(),
        };
        let mut shown = EventWriter {
            images,
            behind: self.behind,
            must_find: &mut self.must_find,
            ended: &mut self.ended,
            failure: None,
            out,
        };
        for _ in 0..STEPS_MAX {
            exec.env.check_interrupt()?;
            let chain = &mut self.chain;
            let read = match chain {
                Some(going) => {
                    if going.read(&mut shown)? {
                        *chain = None;
                    }
                    VisitResult::More
                }
                None => {
                    self.reader
                        .visit(
                            STEP_ROWS,
                            &mut |time, entry| match TransactionPart::of(entry) {
                                TransactionPart::No => shown.entry(time, entry),
                                TransactionPart::Before => true,
                                TransactionPart::Last(before) => {
                                    *chain = Chain::of(shown.images.store, time, entry, before);
                                    false
                                }
                            },
                        )?
                }
            };
            if let Some(e) = shown.failure.take() {
                return Err(e);
            }
            match read {
                VisitResult::Lost => return Err(report_lost_history(self.reader.next())),
                VisitResult::End => {
                    let next = self.reader.next().as_u64();
                    if shown.must_find.is_some_and(|t| t.time < next) {
                        return Err(not_found());
                    }
                    return Ok(true);
                }
                VisitResult::More if shown.is_full() => return Ok(false),
                VisitResult::More => {}
            }
        }
        Ok(false)
    }
}

impl Chain {
    fn of(store: &Store, time: Timestamp, last: Doc<'_>, before: u64) -> Option<Chain> {
        let first = Timestamp::from_u64(time.as_u64().saturating_sub(before));
        Some(Chain {
            last: last.to_buf(),
            time,
            reader: store.read_log(first)?.with_images(),
            operations: 0,
        })
    }

    /// Shows the events of the next entries until the batch is full; true after the last entry.
    fn read(&mut self, shown: &mut EventWriter<'_>) -> Result<bool> {
        let (last, at, operations) = (self.last.doc(), self.time, &mut self.operations);
        let mut over = false;
        let read = self.reader.visit(STEP_ROWS, &mut |time, entry| {
            over = time >= at;
            let list = entry.field("o").as_doc().unwrap_or(Doc::EMPTY);
            let spec = shown.images.spec;
            each_operation(spec, at, last, list, &mut *operations, &mut |event| {
                shown.event(&event);
            });
            if over {
                shown.pass_time(at)
            } else {
                !shown.is_full()
            }
        })?;
        if read == VisitResult::Lost {
            return Err(report_lost_history(self.reader.next()));
        }
        Ok(over)
    }
}

/// Receives events, filters those that were shown before, and writes them to the batch.
struct EventWriter<'s> {
    images: Images<'s>,
    behind: Option<ResumeToken>,
    must_find: &'s mut Option<ResumeToken>,
    ended: &'s mut bool,
    failure: Option<MongoError>,
    out: &'s mut DocBatch,
}

impl EventWriter<'_> {
    fn is_full(&self) -> bool {
        self.failure.is_some() || *self.ended || self.out.is_full()
    }

    fn event(&mut self, event: &Event<'_>) {
        if *self.ended || self.failure.is_some() {
            return;
        }
        if self.must_find.is_some_and(|t| t == event.token) {
            *self.must_find = None;
        }
        if self.behind.is_some_and(|b| event.token <= b) {
            return;
        }
        match self.images.push(event, self.out) {
            Ok(()) => *self.ended = event.ends,
            Err(e) => self.failure = Some(e),
        }
    }

    /// Shows the events of an entry; false if no further event can be taken now.
    fn entry(&mut self, time: Timestamp, entry: Doc<'_>) -> bool {
        let spec = self.images.spec;
        show_events(spec, time, entry, &mut |event| self.event(&event));
        self.pass_time(time)
    }

    /// Notes that all events of a time were shown; false if no further event can be taken now.
    fn pass_time(&mut self, time: Timestamp) -> bool {
        // The log has passed the time of the resume token without finding its event.
        if self.must_find.is_some_and(|t| t.time <= time.as_u64()) {
            self.failure = Some(not_found());
        }
        !self.is_full()
    }
}

fn not_found() -> MongoError {
    MongoError::new(
        code::CHANGE_STREAM_FATAL_ERROR,
        "cannot resume stream; the resume token was not found",
    )
    .label("NonResumableChangeStreamError")
}

/// The pre-images and post-images of events.
struct Images<'s> {
    store: &'s Store,
    spec: &'s Spec,
    /// Older pre-images count as expired.
    oldest_ms: Option<i64>,
    /// The view in which documents are looked up; taken when it is needed.
    now: OnceCell<Option<ReadView>>,
}

impl Images<'_> {
    /// The state now, where others write the data, too; `None` means the newest state of this
    /// process.
    fn now(&self) -> Result<Option<&ReadView>> {
        if self.now.get().is_none() {
            let _ = self.now.set(self.store.begin_moment()?);
        }
        Ok(self.now.get().and_then(Option::as_ref))
    }

    fn push(&self, event: &Event<'_>, out: &mut DocBatch) -> Result<()> {
        let changed = matches!(event.kind, "update" | "replace" | "delete");
        let before = match self.spec.before {
            Image::Off => None,
            _ if !changed => None,
            mode => Some(self.require_image(mode, event, self.find_before(event))?),
        };
        let after = match self.spec.after {
            Image::Lookup if event.kind == "update" => Some(self.look_up(event)?),
            Image::WhenAvailable | Image::Required if event.kind == "update" => {
                let made = self
                    .find_before(event)
                    .and_then(|old| apply_update(old, event));
                Some(self.require_post_image(event, made)?)
            }
            _ => None,
        };
        let meta = model::doc! { CHANGE_TOKEN: event.token.to_data().as_str() };
        out.build(Some(meta.doc()), |w| {
            let after = after.as_ref().map(|d| d.as_ref().map(DocBuf::doc));
            event.write(w, self.spec, after, before);
        });
        Ok(())
    }

    /// The pre-image, if it was stored and has not expired.
    fn find_before<'e>(&self, event: &Event<'e>) -> Option<Doc<'e>> {
        let wall = match event.entry.field("wall") {
            Value::Date(ms) => ms,
            _ => i64::MIN,
        };
        let kept = self.oldest_ms.is_none_or(|oldest| wall >= oldest);
        event.operation.field("preImage").as_doc().filter(|_| kept)
    }

    fn require_image<'d>(
        &self,
        mode: Image,
        event: &Event<'_>,
        found: Option<Doc<'d>>,
    ) -> Result<Option<Doc<'d>>> {
        if found.is_none() && mode == Image::Required {
            return Err(missing_image_error("pre", event));
        }
        Ok(found)
    }

    fn require_post_image(
        &self,
        event: &Event<'_>,
        made: Option<DocBuf>,
    ) -> Result<Option<DocBuf>> {
        if made.is_none() && self.spec.after == Image::Required {
            return Err(missing_image_error("post", event));
        }
        Ok(made)
    }

    /// The document as it is now, unless the collection was replaced by another one.
    fn look_up(&self, event: &Event<'_>) -> Result<Option<DocBuf>> {
        let ns = Namespace::new(event.db, event.coll)?;
        let now = self.now()?;
        let coll = match now {
            Some(now) => self.store.collection_in(now, &ns)?,
            None => self.store.collection(&ns)?,
        };
        let Some(coll) = coll else {
            return Ok(None);
        };
        let same =
            matches!(event.operation.field("ui"), Value::Binary(b) if b.bytes == coll.uuid());
        let mut found = None;
        if let (true, Some(key)) = (same, event.operation.field("o2").as_doc()) {
            let view = now.unwrap_or(&ReadView::LATEST);
            coll.get_with(view, &key.field("_id"), &mut |doc| {
                found = Some(doc.to_buf());
            })?;
        }
        Ok(found)
    }
}

fn apply_update(old: Doc<'_>, event: &Event<'_>) -> Option<DocBuf> {
    let o = event.operation.field("o").as_doc()?;
    store::apply_diff(old, o.field("diff").as_doc()?)
}

fn missing_image_error(which: &str, event: &Event<'_>) -> MongoError {
    let message = format!(
        "Change stream was configured to require a {which}-image for all update, delete and \
            replace events, but the {which}-image was not found for event: {{ _data: {} }}",
        event.token.to_data()
    );
    MongoError::new(code::NO_MATCHING_DOCUMENT, message).label("NonResumableChangeStreamError")
}
