//! One client's work: draws its next call.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};

use rand::Rng;

use super::tables::{Dataset, TableState};
use super::versions::SampledWrite;
use crate::draw::{KeyDistribution, Zipf};
use crate::program::ProgramCall;
use crate::row::{Key, Value};
use crate::seed::Stream;
use crate::share::Share;
use crate::target::{Call, Change};
use crate::workload::{Assign, DocumentKind, Ids, Operation, Placement, Role};

/// The next action of a client.
#[derive(Debug)]
pub enum ClientAction {
    /// Make this call. The first value is its operation, drawn if the role is a mix.
    Call(Operation, Call),
    /// Make both calls, one after the other; together they are one operation.
    Pair(Operation, Call, Call),
    /// Make no call yet.
    Wait,
    /// The client's share is done.
    End,
}

/// How much a client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quota {
    /// Its share of this number of rows in all tables together.
    Rows(u64),
    /// Its share of this number of calls.
    Calls(u64),
    /// Until it is stopped.
    Endless,
}

/// Facts about the call under way, needed when it ends.
#[derive(Debug, Default)]
pub(super) struct PendingCall {
    pub(super) operation: Option<Operation>,
    pub(super) ops: u64,
    pub(super) bytes: u64,
    pub(super) ks: Vec<i32>,
    /// Table, first row number and count of an insert without a quota.
    pub(super) given: Option<(usize, u64, u64)>,
    /// Rows that the call must find.
    pub(super) expected: u64,
    /// For [`Operation::FillRandom`].
    pub(super) is_new: bool,
    /// For [`Operation::DeleteInsert`].
    pub(super) is_reinsert: bool,
    /// For statements: documents that the statement inserts, and whether it deletes its rows.
    pub(super) statement: (u64, bool),
    /// Values that the call stores in a sampled row.
    pub(super) written: Option<SampledWrite>,
    /// Rows that a read returns at most.
    pub(super) rows_max: Option<u64>,
}

/// The state of a loading client before its last batch.
#[derive(Debug)]
pub(super) struct BatchCheckpoint {
    pub(super) random: Stream,
    pub(super) next: u64,
}

/// The work of one client.
#[derive(Debug)]
pub struct ClientWork {
    pub(super) role: Role,
    pub(super) dataset: Arc<Dataset>,
    pub(super) random: Stream,
    pub(super) client: u32,
    pub(super) clients: u32,
    pub(super) batch: u64,
    pub(super) next: u64,
    pub(super) end: u64,
    pub(super) rows: u64,
    pub(super) starts: Vec<u64>,
    pub(super) calls_left: Option<u64>,
    pub(super) zipf: Zipf,
    pub(super) to_reinsert: Option<(usize, u64)>,
    /// Table, row number and remaining reads of a batch of neighbours.
    pub(super) neighbours: Option<(usize, u64, u32)>,
    pub(super) pending: PendingCall,
    /// For each table, the highest row number when the step began. Deletes take no row above it.
    pub(super) delete_limits: Vec<u64>,
    pub(super) misses_allowed: bool,
    /// Statements drawn.
    pub(super) sequence: u64,
    /// For loads: the state before the last batch.
    pub(super) before: Option<BatchCheckpoint>,
}

impl ClientWork {
    /// A client in its role. With `misses_allowed` a read may find nothing, because other clients
    /// may delete rows meanwhile.
    pub fn new(
        role: Role,
        quota: Quota,
        dataset: Arc<Dataset>,
        random: Stream,
        place: Share,
        misses_allowed: bool,
    ) -> Self {
        let Share {
            number: client,
            of: clients,
        } = place;
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
        let visible = dataset
            .tables
            .iter()
            .map(TableState::visible)
            .collect::<Vec<_>>();
        Self {
            batch: u64::from(role.batch.unwrap_or(dataset.settings.batch)),
            next: share(rows, client),
            end: share(rows, client + 1),
            rows,
            starts: visible.clone(),
            delete_limits: visible,
            role,
            dataset,
            random,
            client,
            clients,
            calls_left,
            zipf: Zipf::default(),
            to_reinsert: None,
            neighbours: None,
            pending: PendingCall::default(),
            misses_allowed,
            sequence: 0,
            before: None,
        }
    }

    /// Draws the next call before the clock starts, so that generating rows is not part of its
    /// latency.
    pub fn draw(&mut self) -> ClientAction {
        match &mut self.calls_left {
            Some(0) => return ClientAction::End,
            Some(left) => *left -= 1,
            None => {}
        }
        let operation = match self.role.operation {
            Operation::Mix if self.to_reinsert.is_some() => Operation::DeleteInsert,
            Operation::Mix => self.draw_operation(),
            operation => operation,
        };
        self.pending = PendingCall {
            operation: Some(operation),
            ops: 1,
            expected: 1,
            ..PendingCall::default()
        };
        let call = self.draw_call(operation);
        if let ClientAction::Call(_, call) = &call {
            self.pending.ops = call.ops();
        }
        call
    }

    /// Takes back the last batch of a load, which was not stored: the next call draws it again.
    /// Returns whether there was such a batch.
    pub fn take_back(&mut self) -> bool {
        let Some(before) = self.before.take() else {
            return false;
        };
        (self.random, self.next) = (before.random, before.next);
        true
    }

    /// Whether the client has deleted a row that it must insert again before it may stop.
    pub fn must_reinsert(&self) -> bool {
        self.to_reinsert.is_some()
    }

    /// Statements drawn so far.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    fn draw_operation(&mut self) -> Operation {
        let total: f64 = self.role.mix.iter().map(|(_, weight)| weight).sum();
        let mut left = self.random.random::<f64>() * total;
        for (operation, weight) in &self.role.mix {
            left -= weight;
            if left < 0.0 {
                return *operation;
            }
        }
        self.role
            .mix
            .last()
            .map_or(Operation::Point, |(operation, _)| *operation)
    }

    fn draw_call(&mut self, operation: Operation) -> ClientAction {
        let limit = self.role.limit.unwrap_or(self.dataset.settings.limit);
        let call = match operation {
            Operation::Insert => return self.insert(),
            Operation::DeleteOldest => return self.delete_oldest(),
            Operation::DeleteInsert => self.delete_insert(),
            Operation::Hot => {
                let (table, number) = self.draw_hot();
                self.update(table, number, Change::Inc)
            }
            Operation::IndexRange => return self.index_range(limit),
            Operation::ReadWriteField => return self.read_write_field(),
            Operation::Scan => self.scan(limit),
            Operation::Statement(number) => return self.statement(operation, number),
            Operation::FillRandom => self.fill_random(),
            Operation::Load | Operation::Procedure(_) => return self.program(operation),
            _ => {
                let table = self.draw_table();
                self.draw_simple(operation, table, limit)
            }
        };
        if let (true, Call::Update { table, id, .. }) = (self.role.prefetch, &call) {
            let (table, id) = (*table, id.clone());
            return ClientAction::Pair(operation, Call::Get { table, id }, call);
        }
        ClientAction::Call(operation, call)
    }

    /// Draws a call of an operation that needs one row.
    fn draw_simple(&mut self, operation: Operation, table: usize, limit: u32) -> Call {
        let kind = self.dataset.kind;
        match operation {
            Operation::Points => {
                let ids: Vec<Key> = (0..limit)
                    .map(|_| {
                        let number = self.draw_number(table);
                        self.dataset.key(number)
                    })
                    .collect();
                // Some targets return a row only once if its id is listed twice.
                let distinct: BTreeSet<&Key> = ids.iter().collect();
                self.pending.expected = distinct.len() as u64;
                self.pending.rows_max = Some(ids.len() as u64);
                Call::GetMany { table, ids }
            }
            Operation::Range => {
                let number = self.draw_number(table);
                let from = self.dataset.key(number);
                // YCSB draws the length of the range with the skewed id; the other sources fix it.
                let limit = if self.role.draw == KeyDistribution::Uniform {
                    limit
                } else {
                    self.random.random_range(1..=limit.max(1))
                };
                self.pending.expected = self.rows_in_range(table, number, limit);
                self.pending.rows_max = Some(u64::from(limit));
                Call::Range {
                    table,
                    from,
                    limit,
                    reverse: self.role.reverse,
                }
            }
            Operation::UpdateInc => {
                let number = self.draw_number(table);
                self.update(table, number, Change::Inc)
            }
            Operation::UpdateSet => {
                let (field, value) =
                    kind.fresh_field(&mut self.random, self.dataset.settings.payload);
                let number = self.draw_number(table);
                self.set_field(table, number, field, value)
            }
            Operation::ReadModifyWrite => {
                let number = self.draw_own(table);
                self.dataset.versions.forget(table, number);
                let id = self.dataset.key(number);
                Call::ReadModifyWrite { table, id }
            }
            Operation::Commutative => {
                let number = self.draw_number(table);
                let id = self.dataset.key(number);
                Call::Add { table, id }
            }
            Operation::Blind => {
                let number = self.draw_number(table);
                self.pending.expected = 0;
                let row = self.row(table, number);
                self.writes(table, number, &row.fields);
                Call::Put { table, row }
            }
            // Clients never get actions; a point read is a harmless substitute.
            _ => self.point(table),
        }
    }

    /// The next call of a program.
    fn program(&mut self, operation: Operation) -> ClientAction {
        self.pending.expected = 0;
        let drawn = self
            .dataset
            .program
            .as_ref()
            .and_then(|state| match operation {
                Operation::Procedure(number) => {
                    ProgramCall::draw(state, usize::from(number), &mut self.random, self.batch)
                }
                _ => ProgramCall::load(state),
            });
        drawn.map_or(ClientAction::End, |call| {
            ClientAction::Call(operation, Call::Program(Box::new(call)))
        })
    }

    /// Reads a drawn row. With batches of reads, the following reads take its neighbours.
    fn point(&mut self, table: usize) -> Call {
        let batch = self.role.read_batch.unwrap_or(1).max(1);
        let (table, number, left) = match self.neighbours.take() {
            Some(next) => next,
            None => (table, self.draw_number(table), batch),
        };
        let (first, count) = self.existing_rows(table);
        let end = self.dataset.last_gapless_row(table, first + count - 1);
        if left > 1 && number < end {
            self.neighbours = Some((table, number + 1, left - 1));
        }
        let id = self.dataset.key(number);
        Call::Get { table, id }
    }

    /// The least number of rows that a range from `number` on must return: rows that exist whatever
    /// other clients insert meanwhile.
    fn rows_in_range(&self, table: usize, number: u64, limit: u32) -> u64 {
        let is_in_order = self.dataset.ids == Ids::Lab && !self.dataset.kind.has_text_keys();
        let (first, count) = self.existing_rows(table);
        let last = self.dataset.last_gapless_row(table, first + count - 1);
        let rows = match (is_in_order, self.role.reverse) {
            (false, _) => u64::from(self.dataset.ids != Ids::Target),
            (true, true) => number.min(last).saturating_sub(first) + 1,
            (true, false) => (last + 1).saturating_sub(number),
        };
        rows.clamp(u64::from(rows > 0), u64::from(limit))
    }

    pub(super) fn draw_table(&mut self) -> usize {
        let tables = self.dataset.tables.len();
        match self.dataset.settings.placement {
            Placement::PerClient => self.client as usize % tables.max(1),
            Placement::Shared if tables > 1 => self.random.random_range(0..tables),
            Placement::Shared => 0,
        }
    }

    /// The existing row numbers: the first and their count.
    pub(super) fn existing_rows(&self, table: usize) -> (u64, u64) {
        let Some(state) = self.dataset.tables.get(table) else {
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

    pub(super) fn draw_number(&mut self, table: usize) -> u64 {
        let (first, count) = self.existing_rows(table);
        let draw = self.role.draw;
        let row = first + draw.row(&mut self.random, &mut self.zipf, count);
        self.dataset.number(table, row)
    }

    /// Draws a row that no other client of this role draws.
    pub(super) fn draw_own(&mut self, table: usize) -> u64 {
        let (first, count) = self.existing_rows(table);
        let (client, clients) = (u64::from(self.client), u64::from(self.clients.max(1)));
        let own = (count + clients - 1 - client % clients) / clients;
        let at = self.random.random_range(0..own.max(1)) * clients + client;
        self.dataset.number(table, first + at.min(count - 1))
    }

    fn draw_hot(&mut self) -> (usize, u64) {
        let settings = &self.dataset.settings;
        let which = match settings.assign {
            Assign::Pinned => self.client % settings.hot_rows.max(1),
            Assign::Any => self.random.random_range(0..settings.hot_rows.max(1)),
        };
        let tables = self.dataset.tables.len().max(1);
        (
            which as usize % tables,
            1 + (which as usize / tables) as u64,
        )
    }

    fn scan(&mut self, limit: u32) -> Call {
        let table = self.draw_table();
        let (first, count) = self.existing_rows(table);
        let end = self.dataset.last_gapless_row(table, first + count - 1);
        let count = (end + 1).saturating_sub(first).max(1);
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

    fn index_range(&mut self, limit: u32) -> ClientAction {
        let table = self.draw_table();
        let indexes = self
            .dataset
            .indexes
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if indexes.is_empty() {
            return ClientAction::End;
        }
        let index = self.random.random_range(0..indexes.len());
        // The modern benchmark starts at a drawn value of the first field, the classic one at a
        // drawn tuple.
        let all = self.dataset.kind == DocumentKind::PurchaseClassic;
        let keys = indexes
            .get(index)
            .map(|index| index.keys.as_slice())
            .unwrap_or_default();
        let taken = if all { keys.len() } else { 1 };
        let rows = self.dataset.settings.rows.max(1);
        let from = keys
            .iter()
            .take(taken)
            .map(|key| draw_field(self.dataset.kind, key, &mut self.random, rows))
            .collect();
        self.pending.expected = 0;
        self.pending.rows_max = Some(u64::from(limit));
        ClientAction::Call(
            Operation::IndexRange,
            Call::IndexRange {
                table,
                index,
                from,
                limit,
            },
        )
    }
}

/// Draws a value from the range of an indexed field.
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

/// The id of a row if it is a number.
pub fn number_of(id: &Key) -> Option<i64> {
    match id {
        Key::Number(number) => Some(*number),
        Key::Text(_) => None,
    }
}
