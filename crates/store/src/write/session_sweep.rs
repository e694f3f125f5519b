//! Removes the records of sessions that nobody uses. Must not know: how long a session lasts.

use crate::catalog::Shared;
use crate::commit::WriteUnit;
use crate::error;
use crate::format::meta;
use crate::write::session::SessionId;
use model::Result;
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::Hasher;
use storage::{CursorOpts, KeyRange, Reader, Table, WriteBatch};

/// Records read at a time by a sweep.
const SWEEP_ROWS: usize = 1024;

/// The records of sessions, as the last sweep has seen them.
#[derive(Default)]
pub struct SeenSessions(FxHashMap<SessionId, SeenSession>);

/// All rows of one session.
#[derive(Default)]
struct SeenSession {
    keys: Vec<Vec<u8>>,
    hash: FxHasher,
}

impl SeenSession {
    fn add(&mut self, key: &[u8], row: &[u8]) {
        self.keys.push(key.to_vec());
        self.hash_row(row);
    }

    fn hash_row(&mut self, row: &[u8]) {
        self.hash.write(row);
        self.hash.write_usize(row.len());
    }

    /// The same rows, read again.
    fn read(&self, reader: &dyn Reader) -> Result<SeenSession> {
        let mut now = SeenSession::default();
        for key in &self.keys {
            reader
                .get_with(Table::Meta, key, &mut |row| now.add(key, row))
                .map_err(error::storage)?;
        }
        Ok(now)
    }
}

impl PartialEq for SeenSession {
    fn eq(&self, other: &SeenSession) -> bool {
        self.keys == other.keys && self.hash.finish() == other.hash.finish()
    }
}

impl Shared {
    /// Removes the records of sessions that are not alive: sessions of an earlier run of the server
    /// that nobody has used since.
    ///
    /// # Output
    /// The number of rows removed.
    ///
    /// # Cost
    /// A scan of the keys of all records.
    ///
    /// # Errors
    /// Engine failures.
    pub(crate) fn sweep_sessions(&self, alive: &dyn Fn(&SessionId) -> bool) -> Result<usize> {
        let range = KeyRange {
            lower: meta::SESSIONS.0,
            upper: meta::SESSIONS.1,
        };
        let opts = CursorOpts {
            keys_only: true,
            fill_cache: false,
            ..CursorOpts::default()
        };
        let mut cursor = self
            .engine
            .cursor(Table::Meta, range, opts)
            .map_err(error::storage)?;
        let (mut batch, mut more) = (WriteBatch::new(), true);
        let mut removed = 0;
        while more {
            batch.clear();
            let mut look = |key: &[u8], _: &[u8]| {
                if meta::session_of(key).is_none_or(|id| !alive(&id)) {
                    batch.delete(Table::Meta, key);
                }
                true
            };
            more = cursor
                .visit(SWEEP_ROWS, &mut look)
                .map_err(error::storage)?;
            removed += batch.len();
            self.commit(WriteUnit::new(&batch))?;
        }
        Ok(removed)
    }

    /// See [`crate::Store::sweep_unused_sessions`].
    pub(crate) fn sweep_unused_sessions(
        &self,
        seen: &mut SeenSessions,
        is_open: &dyn Fn(&SessionId) -> bool,
    ) -> Result<usize> {
        let mut now = self.read_sessions()?;
        let mut removed = 0;
        for (id, before) in &seen.0 {
            if !is_open(id) && now.0.get(id) == Some(before) && self.remove_session(before)? {
                now.0.remove(id);
                removed += 1;
            }
        }
        *seen = now;
        Ok(removed)
    }

    fn read_sessions(&self) -> Result<SeenSessions> {
        let (lower, upper) = meta::SESSIONS;
        let opts = CursorOpts {
            fill_cache: false,
            ..CursorOpts::default()
        };
        let mut cursor = self
            .engine
            .cursor(Table::Meta, KeyRange { lower, upper }, opts)
            .map_err(error::storage)?;
        let mut all = SeenSessions::default();
        let each = &mut |key: &[u8], row: &[u8]| {
            if let Some(id) = meta::session_of(key) {
                all.0.entry(id).or_default().add(key, row);
            }
            true
        };
        while cursor.visit(SWEEP_ROWS, each).map_err(error::storage)? {}
        Ok(all)
    }

    /// Removes the rows of a session, unless they have changed; false when they have.
    fn remove_session(&self, seen: &SeenSession) -> Result<bool> {
        let unit = self.engine.begin().map_err(error::storage)?;
        if seen.read(&unit)? != *seen {
            return Ok(false);
        }
        let mut batch = WriteBatch::new();
        for key in &seen.keys {
            batch.delete(Table::Meta, key);
        }
        match self.commit(WriteUnit::new(&batch).commit_through(Some(unit))) {
            Err(e) if error::is_conflict(&e) => Ok(false),
            removed => removed.map(|_| true),
        }
    }
}
