//! The role of a server in a pair: a primary that is followed, or the standby that follows it. The
//! role is kept in a setting of the store, so that a restart does not change it.
//!
//! Promises: on a server without a partner, a request costs one load. Must not know: replies, the
//! program that follows the primary, its progress.

use super::connections::{Connections, CurrentOp};
use model::{DocBuf, MongoError, ObjectId, Result, Value, bail, code, doc};
use operation::Link;
use parking_lot::Mutex;
use request::spec::flag;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use store::Store;

const SETTING: &str = "pair";
/// How long running writes may take to end when the server steps down.
const STEP_DOWN: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// The role of a server in a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Takes writes; its changes are followed.
    Primary,
    /// Only the program that follows the primary writes to it.
    Standby,
}

impl Role {
    /// The name of the role in the protocol.
    pub fn name(self) -> &'static str {
        match self {
            Role::Primary => "primary",
            Role::Standby => "standby",
        }
    }

    fn parse(name: &str) -> Option<Role> {
        { [Role::Primary, Role::Standby].into_iter() }.find(|role| role.name() == name)
    }
}

/// A pair, as one of its servers sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The role of this server.
    pub role: Role,
    /// The address of this server, `HOST:PORT`, as clients reach it.
    pub me: String,
    /// The address of the other server.
    pub peer: String,
    /// The term, raised with each change of the primary: of two servers, drivers trust the one with
    /// the higher term.
    pub term: i64,
}

impl Part {
    /// The address of the primary.
    pub fn primary(&self) -> &str {
        match self.role {
            Role::Primary => &self.me,
            Role::Standby => &self.peer,
        }
    }

    /// The identity of the primary's election; later ones are greater.
    pub fn election_id(&self) -> ObjectId {
        election_id(self.term)
    }

    fn document(&self) -> DocBuf {
        doc! { "role": self.role.name(), "me": self.me.as_str(), "peer": self.peer.as_str(),
        "term": self.term }
    }

    fn parse(row: &DocBuf) -> Result<Part> {
        let row = row.doc();
        let text = |name: &str| match row.field(name) {
            Value::String(s) => Ok(s.to_owned()),
            v => bail!(code::BAD_VALUE, "the part in a pair has {name} {v}"),
        };
        let role = text("role")?;
        let Some(role) = Role::parse(&role) else {
            bail!(
                code::BAD_VALUE,
                "the role in a pair is primary or standby, given {role}"
            );
        };
        let Value::Int64(term) = row.field("term") else {
            bail!(code::BAD_VALUE, "the part in a pair has no term");
        };
        Ok(Part {
            role,
            me: text("me")?,
            peer: text("peer")?,
            term,
        })
    }
}

/// The identity of the election of a term.
pub fn election_id(term: i64) -> ObjectId {
    let mut id = [0u8; 12];
    id[0] = 0x7f;
    id[1..4].copy_from_slice(&[0xff; 3]);
    id[4..].copy_from_slice(&term.to_be_bytes());
    ObjectId(id)
}

/// The pair that this server belongs to, if any.
#[derive(Default)]
pub struct Pair {
    is_paired: AtomicBool,
    is_standby: AtomicBool,
    part: Mutex<Option<Part>>,
    /// Connections that wait for a change of what `hello` reports.
    waiting: Mutex<Vec<Weak<dyn Link>>>,
}

impl Pair {
    /// Reads the role that an earlier run has stored.
    ///
    /// # Errors
    /// Engine failures; 2 BadValue for a row that is not understood.
    pub fn load(&self, store: &Store) -> Result<()> {
        if let Some(row) = store.setting(SETTING)?
            && row.doc().contains("role")
        {
            self.note(Some(Part::parse(&row)?));
        }
        Ok(())
    }

    fn note(&self, part: Option<Part>) {
        let mut kept = self.part.lock();
        let is_standby = part.as_ref().is_some_and(|p| p.role == Role::Standby);
        self.is_standby.store(is_standby, Ordering::Release);
        self.is_paired.store(part.is_some(), Ordering::Release);
        *kept = part;
    }

    /// True while clients may not write.
    pub fn is_standby(&self) -> bool {
        self.is_standby.load(Ordering::Acquire)
    }

    /// The role of this server, if it belongs to a pair.
    pub fn part(&self) -> Option<Part> {
        if !self.is_paired.load(Ordering::Acquire) {
            return None;
        }
        self.part.lock().clone()
    }

    /// Sets the role of this server, or removes it.
    ///
    /// # Errors
    /// Engine failures, after which nothing has changed.
    pub fn set(&self, store: &Store, part: Option<Part>) -> Result<()> {
        if *self.part.lock() == part {
            return Ok(());
        }
        let row = part.as_ref().map_or_else(DocBuf::new, Part::document);
        store.set_setting(SETTING, &row)?;
        self.note(part);
        Ok(())
    }

    /// Has a connection woken when what `hello` reports changes.
    pub fn wake_later(&self, link: &Arc<dyn Link>) {
        let mut waiting = self.waiting.lock();
        waiting.retain(|known| {
            let same = known.upgrade().map(|known| Arc::ptr_eq(&known, link));
            same == Some(false)
        });
        waiting.push(Arc::downgrade(link));
    }

    /// Wakes the connections that wait.
    pub fn wake_all(&self) {
        let waiting = std::mem::take(&mut *self.waiting.lock());
        waiting
            .iter()
            .filter_map(Weak::upgrade)
            .for_each(|link| link.wake());
    }
}

/// Whether a reading operation may store its results. It searches the text of the command, which
/// was checked when it arrived.
fn may_store(op: &CurrentOp) -> bool {
    let has = |word: &[u8]| op.body.windows(word.len()).any(|part| part == word);
    let is_one = matches!(op.command.name, "aggregate" | "mapReduce");
    is_one && (op.body.is_empty() || [&b"$out"[..], b"$merge", b"out\0"].iter().any(|w| has(w)))
}

/// Ends the running writes and waits until they have ended, so that no write happens afterwards.
///
/// # Errors
/// 262 ExceededTimeLimit when one does not end in time.
pub fn end_writers(connections: &Connections, own: i64) -> Result<()> {
    let began = Instant::now();
    loop {
        let mut left = 0;
        for conn in connections.list() {
            let op = conn.op.lock();
            let Some(op) = op.as_ref().filter(|_| conn.id != own) else {
                continue;
            };
            let ends = op.command.is(flag::WRITE) || op.command.is(flag::ENDS_TRANSACTION);
            if ends || may_store(op) {
                left += 1;
                op.operation.kill(MongoError::new(
                    code::INTERRUPTED_DUE_TO_REPL_STATE_CHANGE,
                    "operation was interrupted: the server became a standby",
                ));
            }
        }
        if left == 0 {
            return Ok(());
        }
        if began.elapsed() > STEP_DOWN {
            bail!(
                code::EXCEEDED_TIME_LIMIT,
                "{left} writes did not end within {} s",
                STEP_DOWN.as_secs()
            );
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_elections_are_greater() {
        let ids = [1, 2, 255, 256, 1 << 40].map(|term| election_id(term).0);
        assert!(ids.is_sorted());
        assert_eq!(ids[0][..5], [0x7f, 0xff, 0xff, 0xff, 0]);
    }

    #[test]
    fn a_part_is_read_as_it_was_kept() {
        let part = Part {
            role: Role::Standby,
            me: "a:1".to_owned(),
            peer: "b:2".to_owned(),
            term: 3,
        };
        assert_eq!(Part::parse(&part.document()).unwrap(), part);
        assert_eq!(part.primary(), "b:2");
    }
}
