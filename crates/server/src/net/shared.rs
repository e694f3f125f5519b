//! What all threads of one server share: the poll sets, the thread pools, the counts of
//! connections.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::conn::Conn;
use super::context::Context;
use super::handler::{ConnHandle, Handler, PeerAddr, PeerInfo};
use super::inbox::bits;
use super::pool::Pool;
use super::set::PollSet;
use super::tls::Channel;
use super::turned_away::RejectedClients;

pub(super) struct Shared<H: Handler> {
    pub(super) context: Context<H>,
    pub(super) sets: Vec<PollSet<Conn<H>>>,
    /// Threads of long requests.
    pub(super) pool: Arc<Pool>,
    /// Threads of spare drivers.
    pub(super) spare: Arc<Pool>,
    pub(super) spares_started: AtomicU64,
    /// Connections ever accepted.
    pub(super) total: AtomicU64,
    /// Clients not let in because there were too many.
    pub(super) rejected: AtomicU64,
    pub(super) max_connections: u64,
    pub(super) turned_away: RejectedClients,
    /// Most lasting spare drivers of a set.
    pub(super) spares_per_set: usize,
    /// Spare drivers included.
    pub(super) max_drivers_per_set: usize,
}

impl<H: Handler> Shared<H> {
    pub(super) fn accept_stream(&self, stream: OwnedFd, address: PeerAddr) {
        let context = &self.context;
        if context.current.load(Ordering::Relaxed) >= self.max_connections {
            self.rejected.fetch_add(1, Ordering::Relaxed);
            context.handler.report_refusal(&address);
            self.turned_away.take(stream);
            return;
        }
        let connection_id = self.total.fetch_add(1, Ordering::Relaxed) + 1;
        let at = usize::try_from(connection_id).unwrap_or(0) % self.sets.len().max(1);
        let Some(set) = self.sets.get(at) else { return };
        context.current.fetch_add(1, Ordering::Relaxed);
        let local = rustix::net::getsockname(&stream).ok();
        let local = local.and_then(|a| std::net::SocketAddr::try_from(a).ok());
        let is_unix = matches!(address, PeerAddr::Unix(_));
        let mut first_look = None;
        let added = set.insert(|token| {
            let hung_up = Arc::new(AtomicBool::new(false));
            let handle = ConnHandle {
                inbox: Arc::clone(&set.inbox),
                token,
                hung_up: Arc::clone(&hung_up),
            };
            let user = context.handler.connect(&PeerInfo {
                connection_id,
                address,
                local,
                handle,
            });
            first_look = context.handler.must_log_in(&user).then_some(token);
            let channel = Channel::new(context.tls.as_ref().filter(|_| !is_unix));
            Conn::new(
                stream,
                token,
                hung_up,
                user,
                channel,
                context.memory.charge(),
            )
        });
        if let Some(token) = first_look {
            // The time for the first byte of the client begins now.
            set.inbox.push(token, bits::LOOK);
        }
        if let Err((error, token)) = added {
            context.handler.report_panic("(accept)", &error.to_string());
            set.inbox.push(token, bits::CLOSE);
        }
    }

    /// Gives every connection a reason to run.
    pub(super) fn schedule_all(&self, why: u8) {
        for set in &self.sets {
            set.inbox
                .push_all(set.tokens().into_iter().map(|token| (token, why)));
        }
    }
}
