//! One search index: it is built from its collection and then follows the log, in turns. Between
//! turns it holds no resource of the engine except the snapshot from which it is built.

use super::changed::each_id;
use memory::Charge;
use model::{Doc, MongoError, Namespace, Result, Timestamp};
use search::{Index, IndexLocation, WRITER_BYTES, Writer};
use state::search::{IndexHandle, SearchDefinition, Status};
use state::service::Service;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::{Collection, Lifetime, LogConsumer, NamespaceHash, ReadView, Scan, VisitResult, Watch};

/// Documents read in one turn of building.
const BUILD_DOCS: usize = 1024;
/// Log entries read in one turn of following.
const LOG_ROWS: usize = 256;
/// How many documents may change before the next commit.
const COMMIT_DOCS: usize = 20_000;
/// Interval between commits while documents change.
const COMMIT_EVERY: Duration = Duration::from_millis(500);
/// Interval at which the position is committed when nothing changes, so that the log need not keep
/// older entries.
const POSITION_EVERY: Duration = Duration::from_secs(300);
/// Idle time after which the writer is closed.
const WRITER_IDLE: Duration = Duration::from_secs(2);
/// Vectors added to a graph in one turn.
const GRAPH_VECTORS: usize = 64;
/// Pause before a failed step is tried again.
const AGAIN: Duration = Duration::from_secs(30);

/// An index and its progress.
pub(super) struct Follower {
    coll: Arc<Collection>,
    definition: SearchDefinition,
    checked: search::Definition,
    live: Arc<IndexHandle>,
    folder: Option<PathBuf>,
    work: FeedState,
    writer: Option<OpenWriter>,
    graphs: GraphRoom,
}

/// The memory of an index's graphs for approximate vector search.
#[derive(Default)]
struct GraphRoom {
    charge: Option<Charge>,
    /// When to ask for memory again after a refusal.
    again: Option<Instant>,
}

enum FeedState {
    /// Build the index from the start.
    Begin,
    Build(Box<InitialScan>),
    Follow(Box<LogReplay>),
    /// Pause after an error, until this time.
    Rest(Instant),
}

struct InitialScan {
    index: Arc<Index>,
    scan: Scan,
    /// The scan reads the state of this time.
    at: Timestamp,
    /// Keeps the log entries from this time on.
    consumer: LogConsumer,
}

struct LogReplay {
    index: Arc<Index>,
    consumer: LogConsumer,
    /// `None` without a log, which does not happen.
    watch: Option<Watch>,
    /// Documents written since the last commit.
    uncommitted: usize,
    committed: Instant,
    /// The position of the last commit.
    committed_at: Timestamp,
    /// The index has contained, at some moment, all changes of the collection.
    caught_up: bool,
}

/// A writer and the memory that it may use.
struct OpenWriter {
    writer: Writer,
    _charge: Charge,
    used: Instant,
}

/// The folder of an index; each version has its own.
pub(super) fn folder_name(definition: &SearchDefinition) -> String {
    format!("{}-{}", definition.id(), definition.version())
}

/// The prefix of the names of the log consumers that feed search indexes.
pub(super) const CONSUMERS: &str = "search/";

/// The name of the log consumer that feeds the index in a folder.
pub(super) fn consumer_name(folder: &str) -> String {
    format!("{CONSUMERS}{folder}")
}

/// The key of a document in an index: its encoded `_id` without the identifier of the collection.
fn id_of(record_key: &[u8]) -> &[u8] {
    record_key.get(4..).unwrap_or_default()
}

impl Follower {
    pub(super) fn new(
        service: &Service,
        coll: &Arc<Collection>,
        definition: SearchDefinition,
        live: Arc<IndexHandle>,
    ) -> Result<Follower> {
        let folder = service.config.search_folder.as_ref();
        let folder = folder.map(|all| all.join(folder_name(&definition)));
        let mut follower = Follower {
            coll: coll.clone(),
            checked: definition.parse()?,
            definition,
            live,
            folder,
            work: FeedState::Begin,
            writer: None,
            graphs: GraphRoom::default(),
        };
        follower.resume(service)?;
        Ok(follower)
    }

    /// Continues from the last commit, if there is one and the log still contains all entries since
    /// then.
    fn resume(&mut self, service: &Service) -> Result<()> {
        let Some(log) = service.store.feed() else {
            return Ok(());
        };
        let Some(folder) = &self.folder else {
            return Ok(());
        };
        let Some((index, position)) = Index::open(&self.checked, folder) else {
            return Ok(());
        };
        let at = Timestamp::from_u64(position);
        if at > log.visible() || next_after(at) < log.oldest() {
            return Ok(());
        }
        let index = Arc::new(index);
        let consumer = self.consume_from(service, at)?;
        let following = follow(service, &self.coll, index.clone(), consumer, at);
        self.work = FeedState::Follow(Box::new(following));
        self.live.set_status(Status::Building);
        self.live.show(Some(index), at);
        Ok(())
    }

    pub(crate) fn uuid(&self) -> [u8; 16] {
        self.coll.uuid()
    }

    pub(super) fn ns(&self) -> &Namespace {
        self.coll.ns()
    }

    pub(crate) fn collection(&self) -> &Collection {
        &self.coll
    }

    pub(super) fn definition(&self) -> &SearchDefinition {
        &self.definition
    }

    /// True when the index was created from this definition.
    pub(super) fn is_of(&self, definition: &SearchDefinition) -> bool {
        self.definition == *definition
    }

    /// Replaces the handle of the collection, which may have been renamed.
    pub(super) fn replace_collection(&mut self, service: &Service, coll: &Arc<Collection>) {
        if Arc::ptr_eq(&self.coll, coll) {
            return;
        }
        self.coll = coll.clone();
        match &mut self.work {
            // The watch has to follow the new name.
            FeedState::Follow(f) => f.watch = watch(service, coll),
            // The scan used the old handle.
            FeedState::Build(_) => self.work = FeedState::Begin,
            FeedState::Begin | FeedState::Rest(_) => {}
        }
    }

    /// The name of its log consumer.
    fn consumer_name(&self) -> String {
        consumer_name(&folder_name(&self.definition))
    }

    /// A log consumer that has read everything up to `at`.
    fn consume_from(&self, service: &Service, at: Timestamp) -> Result<LogConsumer> {
        let lifetime = match self.folder {
            Some(_) => Lifetime::Durable,
            None => Lifetime::Process,
        };
        let (store, name) = (&service.store, self.consumer_name());
        let consumer = store.consume_log(&name, next_after(at), lifetime)?;
        consumer.ok_or_else(|| MongoError::internal("a search index needs the log"))
    }

    pub(super) fn record_failure(&mut self, e: &MongoError) {
        self.writer = None;
        self.live.fail(e.message());
        self.work = FeedState::Rest(Instant::now() + AGAIN);
    }

    pub(super) fn remove_files(&self, service: &Service) {
        self.live.show(None, Timestamp::from_u64(0));
        if let Err(e) = service.store.end_log_consumer(&self.consumer_name()) {
            let message = format!("a search index is still noted: {}", e.message());
            service.log('W', "INDEX", &message);
        }
        if let Some(folder) = &self.folder
            && folder.exists()
            && let Err(e) = std::fs::remove_dir_all(folder)
        {
            let message = format!("files of a search index could not be removed: {e}");
            service.log('W', "INDEX", &message);
        }
    }

    /// Does one step of work; false when there was nothing to do.
    pub(super) fn work(&mut self, service: &Arc<Service>) -> Result<bool> {
        // A dropped or renamed collection is marked before the new one can be written to. The next
        // turn of the feeder finds the new state of the collection.
        if self.coll.is_dropped() {
            return Ok(false);
        }
        let result = match &mut self.work {
            FeedState::Begin => self.begin(service).map(|()| true),
            FeedState::Build(_) => self.build(service).map(|()| true),
            FeedState::Follow(_) => self.follow(service),
            FeedState::Rest(until) if *until <= Instant::now() => {
                self.work = FeedState::Begin;
                Ok(true)
            }
            FeedState::Rest(_) => Ok(false),
        };
        match result {
            Err(e) if e.is_collection_gone() => Ok(false),
            result => result,
        }
    }

    fn begin(&mut self, service: &Arc<Service>) -> Result<()> {
        (self.writer, self.graphs) = (None, GraphRoom::default());
        self.live.show(None, Timestamp::from_u64(0));
        self.live.set_status(Status::Building);
        let place = match &self.folder {
            Some(folder) => IndexLocation::Folder(folder),
            None => IndexLocation::Memory,
        };
        let index = Arc::new(Index::create(self.checked.clone(), place)?);
        let Some((at, view)) = service.store.snapshot_at()? else {
            return Err(MongoError::internal("a search index needs the log"));
        };
        let consumer = self.consume_from(service, at)?;
        let scan = self.coll.scan(&view, false);
        self.work = FeedState::Build(Box::new(InitialScan {
            index,
            scan,
            at,
            consumer,
        }));
        Ok(())
    }

    fn build(&mut self, service: &Arc<Service>) -> Result<()> {
        let FeedState::Build(building) = &mut self.work else {
            return Ok(());
        };
        let (index, at) = (building.index.clone(), building.at);
        let Some(open) = open_writer(&mut self.writer, service, &index)? else {
            return Ok(());
        };
        let mut failed = None;
        let more = building.scan.visit(BUILD_DOCS, &mut |row| {
            failed = open.writer.add(id_of(row.key), row.doc).err();
            failed.is_none()
        })?;
        if let Some(e) = failed {
            return Err(e);
        }
        building.scan.pause();
        if more {
            return Ok(());
        }
        commit(&building.consumer, open, at)?;
        if let FeedState::Build(built) = std::mem::replace(&mut self.work, FeedState::Begin) {
            let following = follow(service, &self.coll, index, built.consumer, at);
            self.work = FeedState::Follow(Box::new(following));
        }
        Ok(())
    }

    /// Applies new changes; false when there were none.
    fn follow(&mut self, service: &Arc<Service>) -> Result<bool> {
        let (FeedState::Follow(f), Some(log)) = (&mut self.work, service.store.feed()) else {
            return Ok(false);
        };
        // First read the visible end of the log, then check whether the collection was changed up
        // to there.
        let (visible, start) = (log.visible(), f.consumer.next());
        if self.coll.is_dropped() {
            return Ok(false);
        }
        if f.watch.as_ref().is_some_and(|w| !w.has_from(start)) {
            f.consumer.skip_to(next_after(visible));
        }
        let (mut ids, uuid) = (BTreeSet::new(), self.coll.uuid());
        let (mut key, coll) = (Vec::new(), &self.coll);
        let read = f.consumer.visit(LOG_ROWS, &mut |_, entry: Doc<'_>| {
            each_id(entry, &uuid, &mut |id| {
                coll.record_key(&id, &mut key);
                ids.insert(id_of(&key).to_vec());
            });
            true
        })?;
        f.consumer.pause();
        if read == VisitResult::Lost {
            let ns = self.coll.ns();
            let message = format!("search index of {ns}: the log no longer reaches back to it");
            service.log('W', "INDEX", &message);
            self.work = FeedState::Begin;
            return Ok(true);
        }
        if !ids.is_empty() && !take_over(&mut self.writer, service, coll, f, &ids)? {
            // The same entries are read again in the next turn.
            f.consumer.go_back_to(start);
            return Ok(false);
        }
        let end = read == VisitResult::End;
        self.settle(service, end)?;
        if !end || !ids.is_empty() {
            return Ok(true);
        }
        self.build_graphs(service)
    }

    /// Builds graphs for vector search while there are no changes to apply.
    fn build_graphs(&mut self, service: &Service) -> Result<bool> {
        let FeedState::Follow(f) = &mut self.work else {
            return Ok(false);
        };
        let room = &mut self.graphs;
        if f.uncommitted > 0 || room.again.is_some_and(|again| Instant::now() < again) {
            return Ok(false);
        }
        let charge = room
            .charge
            .get_or_insert_with(|| service.config.memory.charge());
        let mut refused = false;
        let more = f.index.build_graphs(GRAPH_VECTORS, &mut |bytes| {
            refused = charge.try_set(bytes).is_err();
            !refused
        })?;
        room.again = refused.then(|| Instant::now() + AGAIN);
        Ok(more)
    }

    /// Commits when a commit is due, and updates the reported position.
    fn settle(&mut self, service: &Service, end: bool) -> Result<()> {
        let FeedState::Follow(f) = &mut self.work else {
            return Ok(());
        };
        let at = time_before(f.consumer.next());
        let since = f.committed.elapsed();
        let due = end || since >= COMMIT_EVERY || f.uncommitted >= COMMIT_DOCS;
        let note = self.folder.is_some() && since >= POSITION_EVERY && at > f.committed_at;
        if f.uncommitted > 0 && due || note {
            let Some(open) = open_writer(&mut self.writer, service, &f.index)? else {
                return Ok(());
            };
            commit(&f.consumer, open, at)?;
            (f.uncommitted, f.committed, f.committed_at) = (0, Instant::now(), at);
        }
        if end && f.uncommitted == 0 {
            if !f.caught_up {
                f.caught_up = true;
                self.live.show(Some(f.index.clone()), at);
                self.live.set_status(Status::Ready);
            }
            self.live.set_position(at);
            f.consumer.record_position(next_after(at));
        }
        let is_idle = |w: &mut OpenWriter| w.used.elapsed() >= WRITER_IDLE;
        if f.uncommitted == 0
            && let Some(idle) = self.writer.take_if(is_idle)
        {
            idle.writer.finish()?;
        }
        Ok(())
    }
}

/// Replaces the index entries of changed documents by the current documents; false when the step
/// has to be repeated.
fn take_over(
    slot: &mut Option<OpenWriter>,
    service: &Service,
    coll: &Collection,
    f: &mut LogReplay,
    ids: &BTreeSet<Vec<u8>>,
) -> Result<bool> {
    let Some(open) = open_writer(slot, service, &f.index)? else {
        return Ok(false);
    };
    open.used = Instant::now();
    ids.iter().for_each(|id| open.writer.remove(id));
    f.uncommitted += ids.len();
    let wanted: Vec<&[u8]> = ids.iter().map(Vec::as_slice).collect();
    let mut failed = None;
    let read = coll.get_encoded(&ReadView::LATEST, &wanted, &mut |row| {
        failed = open.writer.add(id_of(row.key), row.doc).err();
        failed.is_none()
    });
    match read {
        Err(e) if e.is_collection_gone() => return Ok(false),
        read => read?,
    };
    failed.map_or(Ok(true), Err)
}

/// Commits the index at position `at` and saves the consumer's position.
fn commit(consumer: &LogConsumer, open: &mut OpenWriter, at: Timestamp) -> Result<()> {
    open.used = Instant::now();
    let writer = &mut open.writer;
    consumer.save(next_after(at), &mut |_| writer.commit(at.as_u64()))
}

/// Opens the writer; `None` when the process has too little memory left.
fn open_writer<'w>(
    slot: &'w mut Option<OpenWriter>,
    service: &Service,
    index: &Arc<Index>,
) -> Result<Option<&'w mut OpenWriter>> {
    if slot.is_none() {
        let charge = service.config.memory.charge();
        if charge.try_set(WRITER_BYTES).is_err() {
            return Ok(None);
        }
        *slot = Some(OpenWriter {
            writer: index.writer()?,
            _charge: charge,
            used: Instant::now(),
        });
    }
    Ok(slot.as_mut())
}

fn watch(service: &Service, coll: &Collection) -> Option<Watch> {
    let ns = coll.ns();
    let log = service.store.feed()?;
    Some(log.watch(NamespaceHash::hash(ns.db(), Some(ns.coll()))))
}

fn follow(
    service: &Service,
    coll: &Collection,
    index: Arc<Index>,
    consumer: LogConsumer,
    at: Timestamp,
) -> LogReplay {
    LogReplay {
        index,
        consumer,
        watch: watch(service, coll),
        uncommitted: 0,
        committed: Instant::now(),
        committed_at: at,
        caught_up: false,
    }
}

fn next_after(at: Timestamp) -> Timestamp {
    Timestamp::from_u64(at.as_u64().saturating_add(1))
}

fn time_before(at: Timestamp) -> Timestamp {
    Timestamp::from_u64(at.as_u64().saturating_sub(1))
}
