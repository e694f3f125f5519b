//! Calls that change rows: the values that they store, and the record kept of them.

use std::time::Instant;

use super::client::{ClientAction, ClientWork};
use super::versions::SampledWrite;
use crate::row::Value;
use crate::row::contents::{hash_of, write_checksum};
use crate::target::{Call, Change};
use crate::workload::{Ids, Operation};

impl ClientWork {
    pub(super) fn update(&mut self, table: usize, number: u64, change: Change) -> Call {
        self.pending.bytes = match &change {
            Change::Inc => 4,
            Change::Set(_, Value::Text(text)) => text.len() as u64,
            Change::Set(..) => 8,
        };
        let id = self.dataset.key(number);
        Call::Update { table, id, change }
    }

    /// Sets a field, with its checksum.
    pub(super) fn set_field(
        &mut self,
        table: usize,
        number: u64,
        field: &'static str,
        mut value: Value,
    ) -> Call {
        self.write_checksums(number, [(field, &mut value)]);
        let fields = [(field, value)];
        self.writes(table, number, &fields);
        let [(field, value)] = fields;
        self.update(table, number, Change::Set(field, value))
    }

    pub(super) fn write_checksums<'a>(
        &self,
        number: u64,
        fields: impl IntoIterator<Item = (&'static str, &'a mut Value)>,
    ) {
        let id = (self.dataset.ids != Ids::Target).then(|| self.dataset.key(number));
        for (name, value) in fields {
            write_checksum(self.dataset.kind, name, id.as_ref(), value);
        }
    }

    /// Remembers the values that the drawn call stores, if its row is in the sample.
    pub(super) fn writes(&mut self, table: usize, number: u64, fields: &[(&'static str, Value)]) {
        if !self.dataset.versions.watches(table, number) {
            return;
        }
        let hash = |(name, value): &(&'static str, Value)| match value {
            Value::Text(text) => Some((*name, hash_of(text))),
            _ => None,
        };
        self.pending.written = Some(SampledWrite {
            table,
            number,
            begun: Instant::now(),
            fields: fields.iter().filter_map(hash).collect(),
        });
    }

    pub(super) fn read_write_field(&mut self) -> ClientAction {
        let table = self.draw_table();
        let number = self.draw_number(table);
        let (field, value) = self
            .dataset
            .kind
            .fresh_field(&mut self.random, self.dataset.settings.payload);
        let update = self.set_field(table, number, field, value);
        let id = self.dataset.key(number);
        ClientAction::Pair(Operation::ReadWriteField, Call::Get { table, id }, update)
    }
}
