//! Starting and stopping. Promises: after `stop` no thread of the server touches the handler's
//! connections.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};
use wire::DecodeOptions;

use super::config::Config;
use super::context::Context;
use super::driver;
use super::driver_state::DriverState;
use super::handler::Handler;
use super::inbox::bits;
use super::listen::{Listeners, accept_until};
use super::pool::Pool;
use super::set::PollSet;
use super::shared::Shared;
use super::stats::NetStats;
use super::turned_away::RejectedClients;
use super::watermark::Watermark;

/// Threads that share one poll set. Sharing balances the load by itself; with more threads the
/// kernel's lock on the set becomes a bottleneck.
const DRIVERS_PER_SET: usize = 4;

/// A running server. Dropping it stops it without grace.
pub struct Server<H: Handler> {
    shared: Arc<Shared<H>>,
    tcp_addresses: Vec<SocketAddr>,
    unix_path: Option<PathBuf>,
    stop_accepting: OwnedFd,
    acceptor: Option<JoinHandle<()>>,
    threads: Vec<JoinHandle<()>>,
}

fn stats_of<H: Handler>(shared: &Shared<H>) -> NetStats {
    let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let mut stats = NetStats {
        current_connections: get(&shared.context.current),
        total_connections: get(&shared.total),
        rejected_connections: get(&shared.rejected),
        spare_drivers: get(&shared.spares_started),
        ..NetStats::default()
    };
    for set in &shared.sets {
        stats.add(&set.counters);
    }
    stats
}

impl<H: Handler> Server<H> {
    /// Binds and starts serving.
    ///
    /// # Errors
    /// When an address cannot be bound or threads cannot be started.
    pub fn start(config: &Config, handler: H, watermark: Arc<Watermark>) -> std::io::Result<Self> {
        Self::start_on(Listeners::bind(config)?, config, handler, watermark)
    }

    /// Starts serving on sockets that are bound already; the addresses of `config` are not used.
    ///
    /// # Errors
    /// When threads cannot be started.
    pub fn start_on(
        listeners: Listeners,
        config: &Config,
        handler: H,
        watermark: Arc<Watermark>,
    ) -> std::io::Result<Self> {
        let drivers = match config.drivers {
            0 => std::thread::available_parallelism().map_or(2, usize::from),
            n => n,
        };
        let sets = (0..drivers.div_ceil(DRIVERS_PER_SET))
            .map(|_| PollSet::new())
            .collect::<Result<Vec<_>, _>>()?;
        for set in &sets {
            watermark.register(Arc::clone(&set.durable));
        }
        let decode = DecodeOptions {
            compressors: config.compressors,
        };
        let mut context = Context::new(handler, watermark, decode, Arc::clone(&config.memory));
        context.tls = config.tls.clone();
        context.patience = config.patience;
        let shared = Arc::new(Shared {
            context,
            sets,
            pool: Pool::new(
                "quarry-long",
                config.max_long_threads,
                Arc::clone(&config.memory),
            ),
            spare: Pool::new("quarry-spare", usize::MAX, Arc::clone(&config.memory)),
            spares_started: AtomicU64::new(0),
            total: AtomicU64::new(0),
            rejected: AtomicU64::new(0),
            max_connections: config.max_connections,
            turned_away: RejectedClients::new(config.turned_away_max)?,
            spares_per_set: 2 * drivers.min(DRIVERS_PER_SET),
            max_drivers_per_set: 3 * DRIVERS_PER_SET + config.max_long_threads,
        });
        let mut server = Self {
            shared,
            tcp_addresses: listeners.tcp_addresses(),
            unix_path: listeners.unix_path(),
            stop_accepting: eventfd(0, EventfdFlags::CLOEXEC)?,
            acceptor: None,
            threads: Vec::new(),
        };
        server.spawn_threads(drivers, listeners)?;
        Ok(server)
    }

    fn spawn_threads(&mut self, drivers: usize, listeners: Listeners) -> std::io::Result<()> {
        for at in 0..drivers {
            let at = at % self.shared.sets.len().max(1);
            let driver = Arc::new(DriverState::default());
            if let Some(set) = self.shared.sets.get(at) {
                set.drivers.lock().push(Arc::clone(&driver));
            }
            let shared = Arc::clone(&self.shared);
            self.threads.push(spawn("quarry-net", move || {
                driver::run(&shared, at, &driver)
            })?);
        }
        let shared = Arc::clone(&self.shared);
        self.threads
            .push(spawn("quarry-monitor", move || driver::monitor(&shared))?);
        let shared = Arc::clone(&self.shared);
        self.threads.push(spawn("quarry-refuse", move || {
            shared.turned_away.run(|| shared.context.is_finished());
        })?);
        let (shared, stop) = (Arc::clone(&self.shared), self.stop_accepting.try_clone()?);
        self.acceptor = Some(spawn("quarry-accept", move || {
            accept_until(&stop, &listeners, |stream, peer| {
                let accepted = std::panic::AssertUnwindSafe(|| shared.accept_stream(stream, peer));
                if std::panic::catch_unwind(accepted).is_err() {
                    shared.context.current.fetch_sub(1, Ordering::Relaxed);
                    shared
                        .context
                        .handler
                        .report_panic("(connect)", "while a connection was set up");
                }
            });
        })?);
        Ok(())
    }

    /// The TCP addresses really bound.
    pub fn tcp_addresses(&self) -> &[SocketAddr] {
        &self.tcp_addresses
    }

    /// The unix socket, if there is one.
    pub fn unix_path(&self) -> Option<&Path> {
        self.unix_path.as_deref()
    }

    /// The handler given to [`Server::start`].
    pub fn handler(&self) -> &H {
        &self.shared.context.handler
    }

    /// Counters since the start.
    pub fn stats(&self) -> NetStats {
        stats_of(&self.shared)
    }

    /// A function that returns [`Server::stats`] from any thread, and `None` once the server is
    /// gone.
    pub fn metrics(&self) -> impl Fn() -> Option<NetStats> + Send + Sync + use<H> {
        let shared = Arc::downgrade(&self.shared);
        move || shared.upgrade().map(|shared| stats_of(&shared))
    }

    /// Stops accepting, lets running requests finish and sends their replies, then closes
    /// everything.
    ///
    /// # Output
    /// True when every connection ended within `grace`.
    pub fn stop(mut self, grace: Duration) -> bool {
        self.shut_down(grace)
    }

    fn shut_down(&mut self, grace: Duration) -> bool {
        let _ = rustix::io::write(&self.stop_accepting, &1u64.to_ne_bytes());
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
        let shared = Arc::clone(&self.shared);
        shared.context.stop();
        shared.schedule_all(bits::LOOK);
        let clean = wait_until(Instant::now() + grace, || {
            shared.context.current.load(Ordering::Relaxed) == 0
        });
        if !clean {
            shared.schedule_all(bits::CLOSE);
            let last = Instant::now() + Duration::from_millis(200);
            wait_until(last, || shared.context.current.load(Ordering::Relaxed) == 0);
        }
        shared.context.finish();
        shared.turned_away.wake();
        shared.pool.stop();
        shared.spare.stop();
        for set in &shared.sets {
            shared.context.watermark.unregister(&set.durable);
        }
        for thread in self.threads.drain(..) {
            // A driver inside a request that ignores the hang-up would be waited for too long.
            let joined = wait_until(Instant::now() + Duration::from_secs(1), || {
                shared.sets.iter().for_each(|set| set.inbox.kick());
                thread.is_finished()
            });
            if joined {
                let _ = thread.join();
            }
        }
        clean
    }
}

impl<H: Handler> Drop for Server<H> {
    fn drop(&mut self) {
        if !self.threads.is_empty() {
            self.shut_down(Duration::ZERO);
        }
    }
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(body)
}

fn wait_until(deadline: Instant, mut done: impl FnMut() -> bool) -> bool {
    loop {
        if done() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}
