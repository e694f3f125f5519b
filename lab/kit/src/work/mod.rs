//! What one client does: draws its next call, and judges what came of it.
//!
//! Promises: the same stream draws the same calls; what is acknowledged is accounted for, so that
//! the end state can be checked.
//! Must not know: how a call is made, or how fast.

mod draw;
mod tables;

use std::sync::Arc;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use rand::Rng;

use crate::row::{Key, Row, Value};
use crate::seed::Stream;
use crate::target::{Call, Change, Outcome};
use crate::workload::{Assign, DocumentKind, Draw, Ids, Part, Placement, Role};

pub use tables::{Shape, TableMark, TableState};

/// Inserts may be so many batches ahead of the deletes that follow them.
const AHEAD_BATCHES: i64 = 8;

/// What a client should do next.
#[derive(Debug)]
pub enum Next {
    /// Make this call; it belongs to a part (of a mix).
    Call(Part, Call),
    /// Make both, one after the other: one operation.
    Pair(Part, Call, Call),
    /// Nothing yet.
    Wait,
    /// Its share is done.
    End,
}

/// What an outcome means for the tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effect {
    /// Rows that are there now and were not before.
    pub inserted: u64,
    /// Rows that were there.
    pub deleted: u64,
    /// Times that 1 was added to `k`.
    pub added: u64,
    /// Sum of `k` over inserted rows.
    pub sum_of_k: i64,
    /// Bytes of rows written, without the target's overhead.
    pub bytes: u64,
    /// Rows read.
    pub rows: u64,
    /// Inserts whose fate nobody knows.
    pub inserts_unknown: u64,
    /// Deletes whose fate nobody knows.
    pub deletes_unknown: u64,
    /// Additions whose fate nobody knows.
    pub adds_unknown: u64,
}

impl Effect {
    /// Both together.
    pub fn add(&mut self, other: &Self) {
        self.inserted += other.inserted;
        self.deleted += other.deleted;
        self.added += other.added;
        self.sum_of_k += other.sum_of_k;
        self.bytes += other.bytes;
        self.rows += other.rows;
        self.inserts_unknown += other.inserts_unknown;
        self.deletes_unknown += other.deletes_unknown;
        self.adds_unknown += other.adds_unknown;
    }
}

/// How much a client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quota {
    /// Its share of so many rows in all tables together.
    Rows(u64),
    /// Its share of so many calls.
    Calls(u64),
    /// Until it is stopped.
    Endless,
}

/// What is remembered of the call under way.
#[derive(Debug, Default)]
struct Pending {
    part: Option<Part>,
    ops: u64,
    bytes: u64,
    ks: Vec<i32>,
    /// Table, first number and count of an insert outside a quota.
    given: Option<(usize, u64, u64)>,
    /// Rows that must have been found.
    expected: u64,
    /// For [`Part::FillRandom`].
    is_new: bool,
    /// For [`Part::DeleteInsert`].
    puts_back: bool,
}

/// The work of one client.
#[derive(Debug)]
pub struct Work {
    role: Role,
    shape: Arc<Shape>,
    random: Stream,
    client: u32,
    clients: u32,
    batch: u64,
    next: u64,
    end: u64,
    rows: u64,
    starts: Vec<u64>,
    calls_left: Option<u64>,
    zipf: draw::Zipf,
    put_back: Option<(usize, u64)>,
    /// Table, number and reads left of a batch of neighbours.
    neighbours: Option<(usize, u64, u32)>,
    pending: Pending,
    /// A deleter takes nothing above what its step found.
    delete_limits: Vec<u64>,
    misses_allowed: bool,
}

impl Work {
    /// Client `client` of `clients` in its role. `misses_allowed`: rows may be deleted meanwhile,
    /// so a read may find nothing.
    pub fn new(
        (role, quota): (Role, Quota),
        shape: Arc<Shape>,
        random: Stream,
        (client, clients): (u32, u32),
        misses_allowed: bool,
    ) -> Self {
        let share = |rows: u64, number: u32| {
            (u128::from(rows) * u128::from(number) / u128::from(clients.max(1))) as u64
        };
        let rows = if let Quota::Rows(rows) = quota {
            rows
        } else {
            0
        };
        let calls_left = match quota {
            Quota::Calls(calls) => Some(share(calls, client + 1) - share(calls, client)),
            _ => None,
        };
        let visible = shape
            .tables
            .iter()
            .map(TableState::visible)
            .collect::<Vec<_>>();
        Self {
            batch: u64::from(role.batch.unwrap_or(shape.settings.batch)),
            next: share(rows, client),
            end: share(rows, client + 1),
            rows,
            starts: visible.clone(),
            delete_limits: visible,
            role,
            shape,
            random,
            client,
            clients,
            calls_left,
            zipf: draw::Zipf::default(),
            put_back: None,
            neighbours: None,
            pending: Pending::default(),
            misses_allowed,
        }
    }

    /// Draws the next call, so that making up rows is not part of its latency.
    pub fn draw(&mut self) -> Next {
        match &mut self.calls_left {
            Some(0) => return Next::End,
            Some(left) => *left -= 1,
            None => {}
        }
        let part = match self.role.part {
            Part::Mix if self.put_back.is_some() => Part::DeleteInsert,
            Part::Mix => self.draw_part(),
            part => part,
        };
        self.pending = Pending {
            part: Some(part),
            ops: 1,
            expected: 1,
            ..Pending::default()
        };
        let call = self.draw_call(part);
        if let Next::Call(_, call) = &call {
            self.pending.ops = call.ops();
        }
        call
    }

    /// Whether a row is deleted and waits to be put back: the client should not stop now.
    pub fn owes(&self) -> bool {
        self.put_back.is_some()
    }

    fn draw_part(&mut self) -> Part {
        let total: f64 = self.role.mix.iter().map(|(_, weight)| weight).sum();
        let mut left = self.random.random::<f64>() * total;
        for (part, weight) in &self.role.mix {
            left -= weight;
            if left < 0.0 {
                return *part;
            }
        }
        self.role.mix.last().map_or(Part::Point, |(part, _)| *part)
    }

    fn draw_call(&mut self, part: Part) -> Next {
        let limit = self.role.limit.unwrap_or(self.shape.settings.limit);
        let call = match part {
            Part::Insert => return self.insert(),
            Part::DeleteOldest => return self.delete_oldest(),
            Part::DeleteInsert => self.delete_insert(),
            Part::Hot => {
                let (table, number) = self.draw_hot();
                self.update(table, number, Change::Inc)
            }
            Part::IndexRange => return self.index_range(limit),
            Part::ReadWriteField => return self.read_write_field(),
            Part::Scan => self.scan(limit),
            Part::FillRandom => self.fill_random(),
            _ => {
                let table = self.draw_table();
                self.draw_simple(part, table, limit)
            }
        };
        if let (true, Call::Update { table, id, .. }) = (self.role.prefetch, &call) {
            let (table, id) = (*table, id.clone());
            return Next::Pair(part, Call::Get { table, id }, call);
        }
        Next::Call(part, call)
    }

    /// Parts that take one drawn row.
    fn draw_simple(&mut self, part: Part, table: usize, limit: u32) -> Call {
        let kind = self.shape.kind;
        match part {
            Part::Points => {
                self.pending.expected = u64::from(limit);
                let ids: Vec<Key> = (0..limit)
                    .map(|_| {
                        let number = self.draw_number(table);
                        self.shape.key(number)
                    })
                    .collect();
                Call::GetMany { table, ids }
            }
            Part::Range => {
                self.pending.expected = 0;
                let number = self.draw_number(table);
                let from = self.shape.key(number);
                // YCSB draws the length with the skewed id; the other sources have it fixed.
                let limit = if self.role.draw == Draw::Uniform {
                    limit
                } else {
                    self.random.random_range(1..=limit.max(1))
                };
                Call::Range {
                    table,
                    from,
                    limit,
                    reverse: self.role.reverse,
                }
            }
            Part::UpdateInc => {
                let number = self.draw_number(table);
                self.update(table, number, Change::Inc)
            }
            Part::UpdateSet => {
                let (field, value) =
                    kind.fresh_field(&mut self.random, self.shape.settings.payload);
                let number = self.draw_number(table);
                self.update(table, number, Change::Set(field, value))
            }
            Part::ReadModifyWrite => {
                let number = self.draw_own(table);
                let id = self.shape.key(number);
                Call::ReadModifyWrite { table, id }
            }
            Part::Commutative => {
                let number = self.draw_number(table);
                let id = self.shape.key(number);
                Call::Add { table, id }
            }
            Part::Blind => {
                let number = self.draw_number(table);
                self.pending.expected = 0;
                let row = self.row(table, number);
                Call::Put { table, row }
            }
            // Actions never reach a client; finding a row is the least that a part can mean.
            _ => self.point(table),
        }
    }

    /// A drawn row; where reads come in batches, the neighbour of the one before.
    fn point(&mut self, table: usize) -> Call {
        let batch = self.role.read_batch.unwrap_or(1).max(1);
        let (table, number, left) = match self.neighbours.take() {
            Some(next) => next,
            None => (table, self.draw_number(table), batch),
        };
        let (first, count) = self.existing(table);
        if left > 1 && number + 1 < first + count {
            self.neighbours = Some((table, number + 1, left - 1));
        }
        let id = self.shape.key(number);
        Call::Get { table, id }
    }

    fn update(&mut self, table: usize, number: u64, change: Change) -> Call {
        self.pending.bytes = match &change {
            Change::Inc => 4,
            Change::Set(_, Value::Text(text)) => text.len() as u64,
            Change::Set(..) => 8,
        };
        let id = self.shape.key(number);
        Call::Update { table, id, change }
    }

    fn read_write_field(&mut self) -> Next {
        let table = self.draw_table();
        let number = self.draw_number(table);
        let (field, value) = self
            .shape
            .kind
            .fresh_field(&mut self.random, self.shape.settings.payload);
        let update = self.update(table, number, Change::Set(field, value));
        let id = self.shape.key(number);
        Next::Pair(Part::ReadWriteField, Call::Get { table, id }, update)
    }

    fn draw_table(&mut self) -> usize {
        let tables = self.shape.tables.len();
        match self.shape.settings.placement {
            Placement::PerClient => self.client as usize % tables.max(1),
            Placement::Shared if tables > 1 => self.random.random_range(0..tables),
            Placement::Shared => 0,
        }
    }

    /// The numbers that exist: the first and how many.
    fn existing(&self, table: usize) -> (u64, u64) {
        let Some(state) = self.shape.tables.get(table) else {
            return (1, 1);
        };
        let visible = state.visible();
        let last = self
            .role
            .within
            .map_or(visible, |within| visible.min(within));
        let first = state.oldest().min(last.max(1));
        (first, (last + 1).saturating_sub(first).max(1))
    }

    fn draw_number(&mut self, table: usize) -> u64 {
        let (first, count) = self.existing(table);
        first
            + match self.role.draw {
                Draw::Uniform => self.random.random_range(0..count),
                Draw::Zipf => draw::scatter(self.zipf.draw(&mut self.random, count), count),
                Draw::Latest => count - 1 - self.zipf.draw(&mut self.random, count),
            }
    }

    /// A row that no other client of this role takes.
    fn draw_own(&mut self, table: usize) -> u64 {
        let (first, count) = self.existing(table);
        let (client, clients) = (u64::from(self.client), u64::from(self.clients.max(1)));
        let own = (count + clients - 1 - client % clients) / clients;
        first + (self.random.random_range(0..own.max(1)) * clients + client).min(count - 1)
    }

    fn draw_hot(&mut self) -> (usize, u64) {
        let settings = &self.shape.settings;
        let which = match settings.assign {
            Assign::Pinned => self.client % settings.hot_rows.max(1),
            Assign::Any => self.random.random_range(0..settings.hot_rows.max(1)),
        };
        let tables = self.shape.tables.len().max(1);
        (
            which as usize % tables,
            1 + (which as usize / tables) as u64,
        )
    }

    fn row(&mut self, table: usize, number: u64) -> Row {
        let table_rows = self
            .shape
            .settings
            .rows_of(u32::try_from(table).unwrap_or(u32::MAX));
        let (kind, payload) = (self.shape.kind, self.shape.settings.payload);
        let now = jiff::Timestamp::now().as_millisecond();
        let fields = kind.draw(&mut self.random, number, table_rows.max(1), payload, now);
        let id = (self.shape.ids != Ids::Target).then(|| self.shape.key(number));
        let row = Row { id, fields };
        self.pending.bytes += row.logical_bytes();
        row
    }

    fn insert(&mut self) -> Next {
        let paired = self.shape.paired.load(Ordering::Relaxed);
        let ahead = self.shape.ahead.load(Ordering::Relaxed);
        if paired && ahead > AHEAD_BATCHES * i64::try_from(self.batch).unwrap_or(1) {
            return Next::Wait;
        }
        let (table, first, count) = if self.rows > 0 {
            let Some(span) = self.take_share() else {
                return Next::End;
            };
            span
        } else {
            let table = self.draw_table();
            let count = if self.role.part == Part::Mix {
                1
            } else {
                self.batch
            };
            let Some(state) = self.shape.tables.get(table) else {
                return Next::End;
            };
            let first = state.give(count);
            self.pending.given = Some((table, first, count));
            (table, first, count)
        };
        let mut rows = Vec::with_capacity(usize::try_from(count).unwrap_or(0));
        for number in first..first + count {
            let row = self.row(table, number);
            self.pending.ks.extend(row.k());
            rows.push(row);
        }
        Next::Call(Part::Insert, Call::Insert { table, rows })
    }

    /// The next batch of this client's share: table, first number, count. A batch never spans two
    /// tables.
    fn take_share(&mut self) -> Option<(usize, u64, u64)> {
        if self.next >= self.end {
            return None;
        }
        let tables = self.shape.tables.len();
        let table = (0..tables).find(|table| self.shape.end_of(self.rows, *table) > self.next)?;
        let begin = if table == 0 {
            0
        } else {
            self.shape.end_of(self.rows, table - 1)
        };
        let end = self.end.min(self.shape.end_of(self.rows, table));
        let count = self.batch.min(end - self.next);
        let first = self.starts.get(table)? + (self.next - begin) + 1;
        self.next += count;
        Some((table, first, count))
    }

    fn delete_oldest(&mut self) -> Next {
        let paired = self.shape.paired.load(Ordering::Relaxed);
        let batch = i64::try_from(self.batch).unwrap_or(i64::MAX);
        if paired && self.shape.ahead.load(Ordering::Relaxed) < batch {
            return Next::Wait;
        }
        let table = self.draw_table();
        let limit = self.delete_limits.get(table).copied().unwrap_or(0);
        let Some(state) = self.shape.tables.get(table) else {
            return Next::End;
        };
        // One row always stays, so that readers have something to draw.
        let numbers = state.take_oldest(self.batch, limit.saturating_sub(1));
        if numbers.is_empty() {
            // Endless inserters go on; without rows to delete their pair must not hold them up.
            self.shape.paired.store(false, Ordering::Relaxed);
            return Next::End;
        }
        let ids = numbers.map(|number| self.shape.key(number)).collect();
        Next::Call(Part::DeleteOldest, Call::Delete { table, ids })
    }

    fn delete_insert(&mut self) -> Call {
        if let Some((table, number)) = self.put_back.take() {
            let row = self.row(table, number);
            self.pending.ks.extend(row.k());
            self.pending.puts_back = true;
            return Call::Insert {
                table,
                rows: vec![row],
            };
        }
        let table = self.draw_table();
        let number = self.draw_own(table);
        self.put_back = Some((table, number));
        Call::Delete {
            table,
            ids: vec![self.shape.key(number)],
        }
    }

    fn fill_random(&mut self) -> Call {
        let table = self.draw_table();
        let rows = self
            .shape
            .settings
            .rows_of(u32::try_from(table).unwrap_or(u32::MAX))
            .max(1);
        let number = self.random.random_range(1..=rows);
        let state = self.shape.tables.get(table);
        self.pending.is_new = state
            .and_then(|state| state.mark(number, rows))
            .unwrap_or(false);
        self.pending.expected = 0;
        let row = self.row(table, number);
        Call::Put { table, row }
    }

    fn scan(&mut self, limit: u32) -> Call {
        let table = self.draw_table();
        let (first, count) = self.existing(table);
        let length = u64::from(limit).min(count);
        let from = first + self.random.random_range(0..=count - length);
        let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        let to = number(from + length - 1);
        Call::Scan {
            table,
            from: number(from),
            to,
            n: to,
        }
    }

    fn index_range(&mut self, limit: u32) -> Next {
        let table = self.draw_table();
        let indexes = self
            .shape
            .indexes
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if indexes.is_empty() {
            return Next::End;
        }
        let index = self.random.random_range(0..indexes.len());
        // The modern form starts at a drawn value of the first field, the classic one at a drawn
        // tuple.
        let all = self.shape.kind == DocumentKind::PurchaseClassic;
        let keys = indexes
            .get(index)
            .map(|index| index.keys.as_slice())
            .unwrap_or_default();
        let taken = if all { keys.len() } else { 1 };
        let rows = self.shape.settings.rows.max(1);
        let from = keys
            .iter()
            .take(taken)
            .map(|key| draw_field(self.shape.kind, key, &mut self.random, rows))
            .collect();
        self.pending.expected = 0;
        Next::Call(
            Part::IndexRange,
            Call::IndexRange {
                table,
                index,
                from,
                limit,
            },
        )
    }

    /// What the call just drawn would mean if its answer never came.
    pub fn at_stake(&self) -> Effect {
        let unknown = Effect::default();
        let Some(part) = self.pending.part else {
            return unknown;
        };
        let ops = self.pending.ops;
        match part {
            _ if self.is_delete(part, &self.pending) => Effect {
                deletes_unknown: ops,
                ..unknown
            },
            Part::Insert | Part::DeleteInsert => Effect {
                inserts_unknown: ops,
                ..unknown
            },
            Part::FillRandom => Effect {
                inserts_unknown: u64::from(self.pending.is_new),
                ..unknown
            },
            part if part.adds_to_k() => Effect {
                adds_unknown: ops,
                ..unknown
            },
            _ => unknown,
        }
    }

    /// After its delete the row of a delete-and-insert waits to be put back.
    fn is_delete(&self, part: Part, pending: &Pending) -> bool {
        part == Part::DeleteOldest || (part == Part::DeleteInsert && !pending.puts_back)
    }

    /// Judges an outcome: a read that found too little is a failure, unless rows may be missing.
    /// Accounts for what was done.
    pub fn settle(&mut self, outcome: Outcome) -> (Outcome, Effect) {
        let pending = std::mem::take(&mut self.pending);
        let Some(part) = pending.part else {
            return (outcome, Effect::default());
        };
        let misses = self.misses_allowed || self.shape.sparse.load(Ordering::Relaxed);
        let outcome = match outcome {
            Outcome::Done { rows, .. }
                if rows < pending.expected && !misses && !is_write_of_rows(part) =>
            {
                let message = format!(
                    "{part:?} found {rows} documents, expected {}",
                    pending.expected
                );
                Outcome::failed("document not found", message)
            }
            other => other,
        };
        let effect = self.effect(part, &pending, &outcome);
        (outcome, effect)
    }

    fn effect(&mut self, part: Part, pending: &Pending, outcome: &Outcome) -> Effect {
        let (done, rows, unknown) = match outcome {
            Outcome::Done { ops, rows } => (*ops, *rows, 0),
            Outcome::Failed { done, .. } => (*done, 0, 0),
            Outcome::Lost { unknown, .. } => (0, 0, *unknown),
        };
        let mut out = Effect {
            bytes: if done > 0 { pending.bytes } else { 0 },
            ..Effect::default()
        };
        match part {
            _ if self.is_delete(part, pending) => {
                (out.deleted, out.deletes_unknown) = (done, unknown)
            }
            Part::Insert | Part::DeleteInsert => {
                (out.inserted, out.inserts_unknown) = (done, unknown);
                let stored = pending
                    .ks
                    .iter()
                    .take(usize::try_from(done).unwrap_or(usize::MAX));
                out.sum_of_k = stored.map(|k| i64::from(*k)).sum();
                if let (Some((table, first, count)), true) = (pending.given, done == pending.ops)
                    && let Some(state) = self.shape.tables.get(table)
                {
                    state.acknowledge(first, count);
                }
            }
            Part::FillRandom => {
                (out.inserted, out.inserts_unknown) = (
                    u64::from(pending.is_new) * done,
                    u64::from(pending.is_new) * unknown,
                );
            }
            part if part.adds_to_k() => (out.added, out.adds_unknown) = (done.min(rows), unknown),
            _ => out.rows = rows,
        }
        let change =
            i64::try_from(out.inserted).unwrap_or(0) - i64::try_from(out.deleted).unwrap_or(0);
        if self.shape.paired.load(Ordering::Relaxed) {
            self.shape.ahead.fetch_add(change, Ordering::Relaxed);
        }
        out
    }
}

/// Writes whose reply counts rows in another way than reads do.
fn is_write_of_rows(part: Part) -> bool {
    matches!(part, Part::Insert | Part::DeleteOldest | Part::DeleteInsert)
}

/// A value that the field of an index may have.
fn draw_field(kind: DocumentKind, name: &str, random: &mut Stream, rows: u64) -> Value {
    match (kind, name) {
        (_, "cashregisterid") => Value::Int(random.random_range(0..1_000)),
        (_, "customerid") => Value::Int(random.random_range(0..100_000)),
        (_, "product" | "productid") => Value::Int(random.random_range(0..10_000)),
        (DocumentKind::PurchaseClassic, "price") => Value::Double(random.random::<f64>() * 1_005.0),
        (_, "price") => Value::Int(random.random_range(0..500)),
        (DocumentKind::PurchaseClassic, "dateandtime") => {
            Value::Long(random.random_range(0..=jiff::Timestamp::now().as_millisecond()))
        }
        (_, "dateandtime") => {
            Value::Date(random.random_range(0..=jiff::Timestamp::now().as_millisecond()))
        }
        _ => Value::Int(random.random_range(1..=i32::try_from(rows).unwrap_or(i32::MAX).max(1))),
    }
}

/// The id of a row as a number, if it is one.
pub fn number_of(id: &Key) -> Option<i64> {
    match id {
        Key::Number(number) => Some(*number),
        Key::Text(_) => None,
    }
}

#[cfg(test)]
mod tests;
