//! Commit order and watermark under a scheduler: the real `src/net/watermark.rs` and the engine's
//! `commits.rs`, compiled over locks that shuttle controls, with drivers that work as in
//! `src/net/driver.rs`. A reply that is never sent ends the test as a deadlock.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use shuttle::thread;

#[path = "../../../engines/rocksdb/src/commits.rs"]
#[allow(dead_code)]
mod commits;
#[path = "../../src/net/watermark.rs"]
#[allow(dead_code, unreachable_pub)]
mod watermark;

use commits::{Commits, FlushError, FlushNotice, Log, OfferResult};
use inbox::{Inbox, Token};
use watermark::{DurableWaiters, Verdict, Watermark};

/// `net::sync` and `engine_rocksdb::sync` over shuttle, with parking_lot's interface.
#[path = "shuttled.rs"]
pub(crate) mod sync;

/// `net::inbox` without sockets: a queue and a kick.
pub(crate) mod inbox {
    use super::sync::{Condvar, Mutex};

    #[allow(dead_code)]
    pub(crate) mod bits {
        pub(crate) const LOOK: u8 = 1 << 4;
    }

    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub(crate) struct Token(pub(crate) u64);

    #[derive(Debug)]
    pub(crate) struct Inbox {
        queue: Mutex<Queue>,
        kicked: Condvar,
    }

    #[derive(Debug, Default)]
    struct Queue {
        items: Vec<Token>,
        kicks: usize,
        finished: bool,
    }

    shuttle::thread_local! {
        /// As in the server: a thread that serves the set needs no kick.
        static SERVES: std::cell::Cell<bool> = std::cell::Cell::new(false);
    }

    impl Inbox {
        pub(crate) fn new() -> Self {
            Self {
                queue: Mutex::new(Queue::default()),
                kicked: Condvar::new(),
            }
        }

        pub(crate) fn serve(&self) {
            SERVES.with(|serves| serves.set(true));
        }

        pub(crate) fn push_released(&self, items: Vec<(Token, u8)>) {
            let mut queue = self.queue.lock();
            queue
                .items
                .extend(items.into_iter().map(|(token, _)| token));
            if !SERVES.with(std::cell::Cell::get) {
                queue.kicks += 1;
                self.kicked.notify_one();
            }
        }

        pub(crate) fn pop(&self) -> Option<Token> {
            self.queue.lock().items.pop()
        }

        pub(crate) fn finish(&self) {
            self.queue.lock().finished = true;
            self.kicked.notify_all();
        }

        /// Sleeps until a kick; false when the server stops.
        pub(crate) fn wait(&self) -> bool {
            let mut queue = self.queue.lock();
            while queue.kicks == 0 && !queue.finished {
                self.kicked.wait(&mut queue);
            }
            queue.kicks = queue.kicks.saturating_sub(1);
            !queue.finished
        }
    }
}

use sync::{AtomicU64, Mutex, Ordering};

/// An engine with its hooks, and the replies that the clients have received.
struct Server {
    committed: AtomicU64,
    device: AtomicU64,
    watermark: Arc<Watermark>,
    waiters: Arc<DurableWaiters>,
    inbox: Arc<Inbox>,
    answered: Mutex<BTreeSet<u64>>,
    given_up: Mutex<BTreeSet<u64>>,
    syncs: AtomicU64,
    fails_at: Option<u64>,
}

struct Journal(Arc<Server>);

impl Log for Journal {
    type Error = ();

    fn last(&self) -> u64 {
        self.0.committed.load(Ordering::SeqCst)
    }

    fn sync(&self, target: u64) -> Result<(), FlushError<()>> {
        thread::yield_now();
        if self.0.fails_at == Some(self.0.syncs.fetch_add(1, Ordering::SeqCst) + 1) {
            return Err(FlushError {
                error: (),
                lasting: false,
            });
        }
        self.0.device.fetch_max(target, Ordering::SeqCst);
        Ok(())
    }

    fn announce(&self, outcome: FlushNotice) {
        match outcome {
            FlushNotice::Durable(pos) => self.0.watermark.advance(pos),
            FlushNotice::Failed(pos) => self.0.watermark.fail(pos),
            FlushNotice::Lost => self.0.watermark.fail(u64::MAX),
        }
    }
}

impl Server {
    /// `conn.rs`: what to do with a held reply now.
    fn check_reply(&self, pos: u64) {
        match self.watermark.verdict(pos) {
            Verdict::Send => {
                assert!(
                    self.device.load(Ordering::SeqCst) >= pos,
                    "answered before it is durable"
                );
                self.answered.lock().insert(pos);
            }
            Verdict::GiveUp => {
                self.given_up.lock().insert(pos);
            }
            Verdict::Wait => {}
        }
    }

    /// `exchange.rs`: applies a write and holds its reply back, unless it is durable already.
    fn request(&self) {
        let pos = self.committed.fetch_add(1, Ordering::SeqCst) + 1;
        self.waiters.add(pos, Token(pos));
        // The watermark may have moved before the waiter was added.
        self.check_reply(pos);
    }

    /// `driver.rs`: handles requests, then released replies, then flushes once, then sleeps.
    fn drive(&self, commits: &Commits<Journal>, requests: u32) {
        self.inbox.serve();
        let (mut left, mut flush_again) = (requests, false);
        loop {
            while let Some(Token(pos)) = self.inbox.pop() {
                self.check_reply(pos);
            }
            if left > 0 {
                left -= 1;
                self.request();
            }
            let position = match self.waiters.furthest() {
                Some(position) => Some(position),
                None => flush_again.then_some(0),
            };
            if let Some(position) = position
                && let OfferResult::Flushed { more } = commits.offer(position)
            {
                flush_again = more;
                continue;
            }
            flush_again = false;
            if left == 0 && !self.inbox.wait() {
                return;
            }
        }
    }
}

fn play(fails_at: Option<u64>) {
    let inbox = Arc::new(Inbox::new());
    let watermark = Watermark::new();
    let waiters = Arc::new(DurableWaiters::new(Arc::clone(&inbox)));
    watermark.register(Arc::clone(&waiters));
    let server = Arc::new(Server {
        committed: AtomicU64::new(0),
        device: AtomicU64::new(0),
        watermark,
        waiters,
        inbox,
        answered: Mutex::default(),
        given_up: Mutex::default(),
        syncs: AtomicU64::new(0),
        fails_at,
    });
    let commits = Arc::new(Commits::new(Journal(Arc::clone(&server)), 0));
    let run = Arc::clone(&commits);
    let interval = thread::spawn(move || run.run(Duration::from_secs(1)));
    let drivers: Vec<_> = (0..2)
        .map(|_| {
            let (server, commits) = (Arc::clone(&server), Arc::clone(&commits));
            thread::spawn(move || server.drive(&commits, 3))
        })
        .collect();
    // A thread that blocks for its own write, as when a collection is dropped.
    let blocking = {
        let commits = Arc::clone(&commits);
        let server = Arc::clone(&server);
        thread::spawn(move || {
            let pos = server.committed.fetch_add(1, Ordering::SeqCst) + 1;
            if commits.wait(pos).is_ok() {
                assert!(server.device.load(Ordering::SeqCst) >= pos);
            }
        })
    };
    blocking.join().unwrap();
    // All six replies leave without any further event; otherwise shuttle reports a deadlock.
    let told = || server.answered.lock().len() + server.given_up.lock().len();
    while told() < 6 {
        thread::yield_now();
    }
    server.inbox.finish();
    for driver in drivers {
        driver.join().unwrap();
    }
    commits.stop();
    interval.join().unwrap();
    assert!(fails_at.is_some() || server.given_up.lock().is_empty());
}

#[test]
fn every_held_reply_is_sent_and_none_before_it_is_durable() {
    shuttle::check_random(|| play(None), 3000);
}

#[test]
fn replies_of_a_failed_flush_are_dropped_and_later_ones_are_sent() {
    for at in 1..=3 {
        shuttle::check_random(move || play(Some(at)), 1000);
    }
}
