//! Calls that are statements of a workload file.

use rand::Rng;

use super::client::{ClientAction, ClientWork};
use crate::draw::KeyDistribution;
use crate::row::Key;
use crate::seed::Stream;
use crate::target::Call;
use crate::template::{DrawContext, Tree, Variables, draw_existing};
use crate::workload::Operation;

impl ClientWork {
    pub(super) fn statement(&mut self, operation: Operation, number: u16) -> ClientAction {
        let statements = self.role.compiled.clone();
        let Some(statement) = statements.get(usize::from(number)) else {
            return ClientAction::End;
        };
        let table = self.draw_table();
        let (first, count) = self.existing_rows(table);
        let table_number = u32::try_from(table).unwrap_or(u32::MAX);
        let rows = self.dataset.settings.rows_of(table_number);
        let (dataset, zipf) = (self.dataset.clone(), &mut self.zipf);
        let mut existing = |random: &mut Stream, draw: KeyDistribution| {
            let row = draw_existing(random, draw, zipf, first, count);
            match dataset.key(dataset.number(table, row)) {
                Key::Number(number) => Tree::Long(number),
                Key::Text(text) => Tree::Text(text),
            }
        };
        // Documents that statements create have random row numbers.
        let fresh = self.random.random_range(1..=i64::MAX as u64);
        self.sequence += 1;
        let call = statement.draw(
            table,
            &mut DrawContext {
                random: &mut self.random,
                number: fresh,
                rows,
                client: self.client,
                sequence: self.sequence,
                now_ms: jiff::Timestamp::now().as_millisecond(),
                variables: &Variables::new(),
                existing: &mut existing,
            },
        );
        self.pending.expected = statement.expected_rows();
        self.pending.statement = (call.inserts, call.deletes);
        ClientAction::Call(operation, Call::Statement(Box::new(call)))
    }
}
