//! The servers that write one database beside each other: which of them are alive.
//!
//! Promises: a server that says every second that it is alive counts as alive; one that has ended
//! or is suspended does not, ten seconds later. Nothing that is stored depends on this. Must not
//! know: what it is asked for.

use crate::catalog::Shared;
use crate::commit::WriteUnit;
use crate::error;
use crate::format::meta;
use model::Result;
use std::time::{SystemTime, UNIX_EPOCH};
use storage::{CursorOpts, Engine, KeyRange, Reader, Table, WriteBatch};

/// How long a server counts as alive after it has said so.
const ALIVE_MS: u64 = 10_000;
/// A server says it again this long before it would count as gone.
const RENEWED_BEFORE_MS: u64 = 7_000;
/// The row of a server that has gone is kept this long.
const KEPT_MS: u64 = 60_000;

/// A server among those that write one database, for as long as its store is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Peer(pub(crate) u64);

impl Peer {
    /// A server that has not existed before.
    pub(crate) fn new() -> Peer {
        Peer(rand::random())
    }

    /// Its name in texts, such as the names of settings.
    pub fn name(self) -> String {
        format!("{:016x}", self.0)
    }

    /// The server with this name.
    pub fn parse(name: &str) -> Option<Peer> {
        let is_whole = name.len() == 16;
        let number = u64::from_str_radix(name, 16).ok().filter(|_| is_whole)?;
        Some(Peer(number))
    }

    pub(crate) fn decode(row: &[u8]) -> Option<Peer> {
        row.try_into().ok().map(u64::from_be_bytes).map(Peer)
    }
}

/// Milliseconds since 1970, by the clock that the servers share, if the engine has one.
pub(crate) fn now_ms(engine: &dyn Engine) -> u64 {
    engine.shared_time_ms().unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
    })
}

/// The time until which a server counts as alive; 0 when it has no row.
pub(crate) fn alive_until(reader: &dyn Reader, peer: Peer) -> Result<u64> {
    let mut until = 0;
    let each = &mut |row: &[u8]| until = row.try_into().map_or(0, u64::from_be_bytes);
    reader
        .get_with(Table::Meta, &meta::peer(peer.0), each)
        .map_err(error::storage)?;
    Ok(until)
}

impl Shared {
    /// Says that a server is alive, if it has not said so during the last seconds.
    ///
    /// # Errors
    /// Engine failures.
    pub(crate) fn say_alive(&self, peer: Peer) -> Result<()> {
        let engine = self.engine.as_ref();
        let now = now_ms(engine);
        if alive_until(engine, peer)? > now + RENEWED_BEFORE_MS {
            return Ok(());
        }
        let mut batch = WriteBatch::new();
        let until = (now + ALIVE_MS).to_be_bytes();
        batch.put(Table::Meta, &meta::peer(peer.0), &until);
        self.commit(WriteUnit::new(&batch)).map(|_| ())
    }

    /// Makes a server count as gone at once, because it ends.
    ///
    /// # Errors
    /// Engine failures.
    pub(crate) fn forget_peer(&self, peer: Peer) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.delete(Table::Meta, &meta::peer(peer.0));
        self.commit(WriteUnit::new(&batch)).map(|_| ())
    }

    /// Removes the rows of servers that went a while ago. One of them that was only suspended
    /// writes its row again.
    ///
    /// # Errors
    /// Engine failures.
    pub(crate) fn forget_gone_peers(&self) -> Result<()> {
        let (lower, upper) = meta::PEERS;
        let now = now_ms(self.engine.as_ref());
        let mut batch = WriteBatch::new();
        let mut cursor = self
            .engine
            .cursor(
                Table::Meta,
                KeyRange { lower, upper },
                CursorOpts::default(),
            )
            .map_err(error::storage)?;
        let each = &mut |key: &[u8], row: &[u8]| {
            if row.try_into().map_or(0, u64::from_be_bytes) + KEPT_MS <= now {
                batch.delete(Table::Meta, key);
            }
            true
        };
        while cursor.visit(1024, each).map_err(error::storage)? {}
        self.commit(WriteUnit::new(&batch)).map(|_| ())
    }
}
