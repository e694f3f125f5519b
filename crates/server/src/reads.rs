//! Reads on a server that does not hold the database: they are executed here, over the same cluster
//! (docs/adr/0107-reads-by-every-server.md), instead of being forwarded to the holder.
//!
//! Promises: a client is answered here only with the rights of the user that, according to the
//! holder, has logged in on its connection; until reads can be executed here, all are forwarded.
//! Must not know: which commands are reads, how connections are forwarded.

use crate::background;
use crate::clock::ServerClock;
use crate::config::Settings;
use crate::engines;
use crate::forward::{HolderQuery, LocalClient, LocalHandler, LocalHandlerSlot};
use crate::memory::MemoryShares;
use crate::net::PeerAddr;
use crate::output::print_error;
use crate::service_parts::{service_config, set_parameters};
use commands::{
    Clock, Connection, Link, ReadService, Request, Sequence, Service, StoreHooks, registry,
};
use logs::{Entry, Log, component, id};
use model::Doc;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use store::Store;

/// Pause after the first failed attempt to start, and the longest pause.
const PAUSE: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(4);
/// Reads get this fraction (one in so many) of the memory; the rest is for the time when this
/// server holds the database.
const MEMORY_PARTS: u64 = 4;

/// Executes reads on this server, as soon as it can.
pub(crate) struct LocalReads {
    slot: LocalHandlerSlot,
    /// This server holds the database now: stop trying to start.
    ended: Arc<AtomicBool>,
}

impl LocalReads {
    /// Starts on a thread of its own, as soon as a holder announces its changes.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(crate) fn start(settings: &Settings, log: &Arc<Log>) -> std::io::Result<LocalReads> {
        let (slot, ended) = (
            LocalHandlerSlot::default(),
            Arc::new(AtomicBool::new(false)),
        );
        let (settings, log) = (settings.clone(), Arc::clone(log));
        let (found, gone) = (Arc::clone(&slot), Arc::clone(&ended));
        let thread = std::thread::Builder::new().name("quarry-reads".to_owned());
        thread.spawn(move || {
            let mut pause = PAUSE;
            while !gone.load(Ordering::Acquire) {
                match begin(&settings, &log) {
                    Ok(readers) => {
                        let text = "this server executes reads over the holder's data";
                        let entry = Entry::info(id::MESSAGE, component::STORAGE, "reads", text);
                        log.write(&entry);
                        // It is set here only.
                        let _ = found.set(Arc::new(readers));
                        return;
                    }
                    Err(why) => {
                        if pause == PAUSE {
                            let text =
                                format!("this server forwards reads to the holder for now: {why}");
                            let entry =
                                Entry::info(id::MESSAGE, component::STORAGE, "reads", &text);
                            log.write(&entry);
                        }
                        std::thread::sleep(pause);
                    }
                }
                pause = (pause * 2).min(PAUSE_MAX);
            }
        })?;
        Ok(LocalReads { slot, ended })
    }

    /// Whoever executes reads; empty until it can.
    pub(crate) fn slot(&self) -> LocalHandlerSlot {
        Arc::clone(&self.slot)
    }

    /// This server holds the database now. Connections that are answered here stay so.
    pub(crate) fn end_waiting(&self) {
        self.ended.store(true, Ordering::Release);
    }
}

/// A service that reads what the holder writes, from the holder's present position on.
fn begin(settings: &Settings, log: &Arc<Log>) -> Result<Readers, String> {
    let text = |e: &dyn std::fmt::Display| e.to_string();
    let follower = engines::follow(&settings.engine())?;
    let moment = follower.moment().map_err(|e| text(&e))?;
    let engine: Arc<dyn storage::Engine> = Arc::clone(&follower) as Arc<dyn storage::Engine>;
    let clock: Arc<dyn Clock> = Arc::new(ServerClock::of(&engine));
    let hooks = StoreHooks::new(Arc::clone(&clock)).with_profile(settings.profile);
    let store = Store::follow(engine, Arc::new(hooks), &moment).map_err(|e| text(&e))?;
    let bytes = settings.memory_bytes;
    let memory = Arc::new(MemoryShares::of(bytes / MEMORY_PARTS).budget(bytes));
    let config = service_config(settings, memory, Arc::clone(log));
    let service = Service::new(config, clock, Arc::new(store));
    set_parameters(settings, &service)?;
    service.access.end_localhost_exception();
    service.state.load(&service.store).map_err(|e| text(&e))?;
    let service = service.into_shared();
    background::start_for_reading(&service).map_err(|e| text(&e))?;
    let dispatcher = registry::reading_dispatcher(service);
    Ok(Readers(Arc::new(ReadService::new(dispatcher, follower))))
}

struct Readers(Arc<ReadService>);

impl LocalHandler for Readers {
    fn connect(&self, peer: &PeerAddr, socket: OwnedFd) -> Box<dyn LocalClient> {
        let link: Arc<dyn Link> = Arc::new(Socket(socket));
        let connection = self
            .0
            .dispatcher()
            .connect_linked(&peer.to_string(), Some(link));
        Box::new(Client {
            reading: Arc::clone(&self.0),
            connection,
            user: User::Unknown,
            next_id: 0,
        })
    }
}

/// A client's socket. Its `wake` does nothing: a waiting operation polls.
struct Socket(OwnedFd);

impl Link for Socket {
    fn wake(&self) {}

    fn is_gone(&self) -> bool {
        let mut watched = [PollFd::new(&self.0, PollFlags::RDHUP)];
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let gone = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        let asked = poll(&mut watched, Some(&now));
        asked.is_ok() && watched.iter().any(|w| w.revents().intersects(gone))
    }
}

/// The user of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum User {
    /// Not known: a login or logout may have happened since the holder was asked.
    Unknown,
    /// A user whose reads are executed here.
    Here,
    /// No user, or one whose reads must be forwarded.
    Elsewhere,
}

struct Client {
    reading: Arc<ReadService>,
    connection: Connection,
    user: User,
    next_id: i32,
}

impl Client {
    /// Whether reads of the connection's user are executed here; asks the holder if that is not
    /// known.
    fn knows_user(&mut self, holder: &mut HolderQuery<'_>) -> std::io::Result<bool> {
        if !self.reading.service().access.is_enabled() {
            return Ok(true);
        }
        if self.user == User::Unknown {
            let question = ReadService::user_query();
            let message = wire::MessageBuilder::new(self.next_id()).body(question.as_bytes());
            let reply = holder(&message.build())?;
            let mut scratch = Vec::new();
            let decoded = wire::decode(&reply, &wire::DecodeOptions::default(), &mut scratch);
            let is_here = decoded.is_ok_and(|told| {
                let told = Doc::from_prefix(told.body);
                self.reading.log_in(&mut self.connection, told)
            });
            self.user = match is_here {
                true => User::Here,
                false => User::Elsewhere,
            };
        }
        Ok(self.user == User::Here)
    }

    fn forget_user(&mut self) {
        self.user = User::Unknown;
        self.reading.forget_user(&mut self.connection);
    }

    fn next_id(&mut self) -> i32 {
        self.next_id = self.next_id.wrapping_add(1);
        self.next_id
    }

    /// The reply as a message; `None` if the request has to be forwarded.
    fn reply(&mut self, request: &Request<'_>, context: &wire::ReplyContext) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        let reserved = wire::begin_reply(&mut out, context);
        let (reading, connection) = (&self.reading, &mut self.connection);
        let run = AssertUnwindSafe(|| reading.answer(connection, request, &mut out));
        let answered = catch_unwind(run).unwrap_or_else(|_| {
            let name = request.body.first().map_or("", |(name, _)| name);
            print_error(format_args!("quarry: a read panicked: {name}"));
            false
        });
        if !answered {
            return None;
        }
        let id = self.next_id();
        let done = wire::finish_reply(&mut out, reserved, context, id, false, &mut Vec::new());
        done.ok().map(|()| out)
    }
}

impl LocalClient for Client {
    fn answer(
        &mut self,
        message: &[u8],
        holder: &mut HolderQuery<'_>,
    ) -> std::io::Result<Option<Vec<u8>>> {
        let mut scratch = Vec::new();
        let decoded = wire::decode(message, &wire::DecodeOptions::default(), &mut scratch);
        let Ok(decoded) = decoded else {
            self.forget_forwarded();
            return Ok(None);
        };
        let sequences: Vec<Sequence<'_>> = decoded
            .sequences
            .iter()
            .map(|s| Sequence {
                name: s.name,
                documents: s.documents,
            })
            .collect();
        let request = Request {
            sequences: &sequences,
            legacy_db: decoded.legacy_database(),
            more_to_come: decoded.reply.suppressed,
            validated: true,
            ..Request::new(Doc::from_prefix(decoded.body))
        };
        if ReadService::may_change_user(&request) {
            self.forget_user();
        }
        if self.reading.is_for(&request) && self.knows_user(holder)? {
            return Ok(self.reply(&request, &decoded.reply));
        }
        self.reading.hand_on(&mut self.connection, &request);
        Ok(None)
    }

    fn forget_forwarded(&mut self) {
        self.forget_user();
    }
}
