//! Bank transfers: money moves between accounts, and the sum of all accounts never changes.
//!
//! Promises: a transaction of N writes changes N accounts. They form pairs, and in each pair one
//! account gives the amount that the other one gets; an unpaired account moves money between its
//! own balances. Each write also increments a counter in its account, so that lost and doubled
//! writes are detected even if the sum is right.

use std::collections::BTreeSet;

use rand::Rng;

use super::state::{Effect, Finding, ProgramState, Scale};
use crate::records::RecordsError;
use crate::records::{Column, Field, Mode, Outcome, Query, Record, RecordTable, Records, Set};
use crate::seed::{self, Stream};
use crate::text::random_text;

/// The initial money of each account.
const MONEY: i64 = 1_000;
/// Accounts in one call of the load.
const PIECE: u64 = 500;
/// Transactions of more writes than this take neighbouring accounts: with accounts drawn one by
/// one, any two transactions would share an account.
const SCATTERED_MAX: u64 = 100;
/// Counter of committed writes.
const WRITES: usize = 0;
/// Counter of states that a reader saw with a wrong sum.
const WRONG: usize = 1;

pub(super) const ROW_BYTES: u64 = 112;
pub(super) const TABLES: &[&RecordTable] = &[&ACCOUNTS];
pub(super) const PROCEDURES: &[&str] = &["transfer", "audit", "backup"];

static ACCOUNTS: RecordTable = RecordTable {
    name: "accounts",
    columns: &[
        ("id", Column::Int),
        ("owner", Column::Text(16)),
        ("balance", Column::Int),
        ("savings", Column::Int),
        ("moves", Column::Int),
        ("note", Column::Text(64)),
    ],
    key: &["id"],
    indexes: &[],
    only_flat: false,
};

/// A drawn procedure of a client.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Procedure {
    /// Moves an amount among these accounts, in ascending order.
    Transfer(Vec<i64>, i64),
    /// Lets the target add up all accounts in one consistent state.
    Audit,
    /// Reads all accounts in one consistent state, as a backup does, and adds them up itself.
    Backup,
}

pub(super) fn pieces(scale: Scale) -> u64 {
    scale.rows.div_ceil(PIECE)
}

pub(super) fn draw(scale: Scale, name: &str, random: &mut Stream, writes: u64) -> Procedure {
    let rows = scale.rows.max(1);
    let writes = writes.clamp(1, rows);
    let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    match name {
        "audit" => Procedure::Audit,
        "backup" => Procedure::Backup,
        _ if writes > SCATTERED_MAX => {
            let first = random.random_range(0..rows / writes) * writes + 1;
            let accounts = (first..first + writes).map(number).collect();
            Procedure::Transfer(accounts, random.random_range(1..=100))
        }
        _ => {
            // Always in the same order, so that two transactions cannot wait for each other.
            let mut accounts = BTreeSet::new();
            while (accounts.len() as u64) < writes {
                accounts.insert(number(random.random_range(1..=rows)));
            }
            Procedure::Transfer(accounts.into_iter().collect(), random.random_range(1..=100))
        }
    }
}

pub(super) async fn load<R: Records>(
    state: &ProgramState,
    records: &mut R,
    piece: u64,
) -> Outcome<u64> {
    let mut random = seed::stream(state.scale.seed, "load", "trx", piece as u32);
    let (first, end) = (
        piece * PIECE + 1,
        ((piece + 1) * PIECE).min(state.scale.rows),
    );
    let accounts: Vec<Record> = (first..=end)
        .map(|id| {
            Record(vec![
                ("id", Field::Int(i64::try_from(id).unwrap_or(i64::MAX))),
                ("owner", random_text(&mut random, 16, 100).into()),
                ("balance", MONEY.into()),
                ("savings", 0.into()),
                ("moves", 0.into()),
                ("note", random_text(&mut random, 64, 50).into()),
            ])
        })
        .collect();
    records.insert(&ACCOUNTS, &accounts).await?;
    Ok(accounts.len() as u64)
}

impl Procedure {
    pub(super) fn mode(&self) -> Mode {
        match self {
            Self::Transfer(..) => Mode::Write,
            Self::Audit | Self::Backup => Mode::Snapshot,
        }
    }

    pub(super) async fn run<R: Records>(
        &self,
        state: &ProgramState,
        records: &mut R,
    ) -> Outcome<Effect> {
        let (rows, sum) = match self {
            Self::Transfer(accounts, money) => return transfer(records, accounts, *money).await,
            Self::Audit => {
                let (rows, balance) = records.count_and_sum(&ACCOUNTS, &[], "balance").await?;
                let (_, savings) = records.count_and_sum(&ACCOUNTS, &[], "savings").await?;
                (rows, balance + savings)
            }
            Self::Backup => {
                let (mut rows, mut sum) = (0, 0);
                let mut see = |account: Record| {
                    rows += 1;
                    sum += account.int("balance") + account.int("savings");
                };
                let all = Query::of(&ACCOUNTS, &[]);
                records.scan(all, &mut see).await?;
                (rows, sum)
            }
        };
        let expected = i64::try_from(state.scale.rows).unwrap_or(i64::MAX);
        if (rows, sum) != (expected, expected * MONEY) {
            state.count(&[(WRONG, 1)]);
            let message = format!(
                "a reader saw {rows} accounts with {sum}, expected {expected} with {}",
                expected * MONEY
            );
            return Err(RecordsError::failure("wrong sum", message));
        }
        Ok(Effect {
            rows: u64::try_from(rows).unwrap_or(0),
            ..Effect::default()
        })
    }
}

async fn transfer<R: Records>(records: &mut R, accounts: &[i64], money: i64) -> Outcome<Effect> {
    for pair in accounts.chunks(2) {
        for (at, account) in pair.iter().enumerate() {
            let changes: &[(&'static str, Set)] = match (pair.len(), at) {
                (1, _) => &[("balance", Set::Add(-money)), ("savings", Set::Add(money))],
                (_, 0) => &[("balance", Set::Add(-money))],
                _ => &[("balance", Set::Add(money))],
            };
            let mut changes = changes.to_vec();
            changes.push(("moves", Set::Add(1)));
            let key = [("id", Field::Int(*account))];
            records.change(&ACCOUNTS, &key, &changes).await?;
        }
    }
    Ok(Effect {
        counts: vec![(WRITES, i64::try_from(accounts.len()).unwrap_or(i64::MAX))],
        ..Effect::default()
    })
}

pub(super) async fn check<R: Records>(
    state: &ProgramState,
    records: &mut R,
) -> Outcome<Vec<Finding>> {
    let accounts = i64::try_from(state.scale.rows).unwrap_or(i64::MAX);
    let (found, balance) = records.count_and_sum(&ACCOUNTS, &[], "balance").await?;
    let (_, savings) = records.count_and_sum(&ACCOUNTS, &[], "savings").await?;
    let (_, moves) = records.count_and_sum(&ACCOUNTS, &[], "moves").await?;
    let written = state.counter(WRITES);
    let mut writes = Finding::in_range(
        "writes in accounts equal writes of acknowledged transactions",
        // A transaction without a reply was done as a whole or not at all.
        written..=written.saturating_add(state.unknown() * accounts),
        moves,
    );
    if state.unknown() == 0 {
        writes.expected = written..=written;
    }
    writes.remark = format!("{} were begun again after a conflict", state.repeat_count());
    Ok(vec![
        Finding::equal("accounts", accounts, found),
        Finding::equal(
            "the sum of all accounts",
            accounts * MONEY,
            balance + savings,
        ),
        writes,
        Finding::equal(
            "states with another sum, seen by readers",
            0,
            state.counter(WRONG),
        ),
    ])
}
