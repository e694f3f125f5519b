//! Work of which there is one in a database, however many servers write it.
//!
//! Promises: a job belongs to one living server; when that server has gone, another takes the job.
//! A server that was suspended may believe for a moment that it still has its job, so each job must
//! be right when two servers do it. Must not know: what the jobs are.

use crate::commit::{WriteUnit, commit};
use crate::error;
use crate::format::meta;
use crate::peers::{Peer, alive_until, now_ms};
use crate::store::Store;
use crate::write::session::SessionId;
use crate::write::session_sweep::SeenSessions;
use model::Result;
use storage::{Reader, Table, WriteBatch};

impl Store {
    /// This server among those that write the database; `None` where one writes alone.
    pub fn peer(&self) -> Option<Peer> {
        self.joined.as_ref().map(|joined| joined.peer)
    }

    /// Whether a server is alive: it has said so within the last ten seconds.
    ///
    /// # Errors
    /// Engine failures.
    pub fn is_alive(&self, peer: Peer) -> Result<bool> {
        let engine = self.shared.engine.as_ref();
        Ok(alive_until(engine, peer)? > now_ms(engine))
    }

    /// Says that this server is alive. To be called every second; does nothing where one server
    /// writes alone.
    ///
    /// # Errors
    /// Engine failures.
    pub fn say_alive(&self) -> Result<()> {
        match self.peer() {
            Some(peer) => self.shared.say_alive(peer),
            None => Ok(()),
        }
    }

    /// Removes the rows of servers that went a while ago.
    ///
    /// # Errors
    /// Engine failures.
    pub fn forget_gone_peers(&self) -> Result<()> {
        match self.peer() {
            Some(_) => self.shared.forget_gone_peers(),
            None => Ok(()),
        }
    }

    /// Whether this server has a job of which there is one in the database. It takes the job when
    /// no living server has it. Always true where one server writes alone.
    ///
    /// # Cost
    /// Beside other servers a read or two.
    ///
    /// # Errors
    /// Engine failures.
    pub fn take_job(&self, job: &str) -> Result<bool> {
        let Some(peer) = self.peer() else {
            return Ok(true);
        };
        let engine = self.shared.engine.as_ref();
        let key = meta::job(job);
        let mut holder = None;
        engine
            .get_with(Table::Meta, &key, &mut |row| holder = Peer::decode(row))
            .map_err(error::storage)?;
        let now = now_ms(engine);
        let is_free = |reader: &dyn Reader, holder: Option<Peer>| match holder {
            Some(holder) => alive_until(reader, holder).map(|until| until <= now),
            None => Ok(true),
        };
        if holder == Some(peer) {
            return Ok(true);
        }
        // A server that does not count as alive would lose the job at once.
        if !is_free(engine, holder)? || alive_until(engine, peer)? <= now {
            return Ok(false);
        }
        let unit = engine.begin().map_err(error::storage)?;
        holder = None;
        unit.get_with(Table::Meta, &key, &mut |row| holder = Peer::decode(row))
            .map_err(error::storage)?;
        if !is_free(&unit, holder)? {
            return Ok(false);
        }
        let mut batch = WriteBatch::new();
        batch.put(Table::Meta, &key, &peer.0.to_be_bytes());
        match commit(engine, WriteUnit::new(&batch).commit_through(Some(unit))) {
            // Another server was faster.
            Err(e) if error::is_conflict(&e) => Ok(false),
            taken => taken.map(|_| true),
        }
    }

    /// Where several servers write: makes sure that the transaction with this number of a session
    /// is committed already or never will be, whichever server has it. Afterwards the session's
    /// record tells which.
    ///
    /// # Errors
    /// Engine failures.
    pub fn fence_transaction(&self, session: SessionId, number: i64) -> Result<()> {
        match self.peer() {
            Some(_) => self.shared.fence_transaction(session, number),
            None => Ok(()),
        }
    }

    /// Removes the records of sessions that no server has used since the last call with `seen`, and
    /// that `is_open` does not name. For the one server that has this job.
    ///
    /// # Output
    /// The number of sessions removed.
    ///
    /// # Errors
    /// Engine failures.
    pub fn sweep_unused_sessions(
        &self,
        seen: &mut SeenSessions,
        is_open: &dyn Fn(&[u8; 16]) -> bool,
    ) -> Result<usize> {
        self.shared.sweep_unused_sessions(seen, is_open)
    }
}
