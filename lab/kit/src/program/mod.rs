//! Programs: transactions of several statements, with their own tables and checks of the data that
//! they leave.
//!
//! Promises: a commit is counted before its caller hears of it, so that the checks at the end miss
//! nothing. A transaction that the target aborts with a transient error begins again within the
//! same call. Must not know: targets.

mod kind;
mod linkbench;
#[cfg(test)]
mod memory;
mod state;
#[cfg(test)]
mod tests;
mod tpcc;
mod trx;

pub use kind::Program;
pub use state::{Finding, ProgramState, Scale};

use std::sync::{Arc, Mutex, PoisonError};

use crate::records::{Mode, Outcome, RecordTable, Records, RecordsError};
use crate::seed::Stream;

/// A drawn procedure.
#[derive(Clone, Debug, PartialEq)]
enum Procedure {
    /// Stores a piece of the initial data.
    Load(u64),
    Trx(trx::Procedure),
    Tpcc(tpcc::Procedure),
    Linkbench(linkbench::Procedure),
    /// Checks the data at the end.
    Check,
}

/// A call of a program.
#[derive(Clone, Debug)]
pub struct ProgramCall {
    state: Arc<ProgramState>,
    procedure: Procedure,
    findings: Arc<Mutex<Vec<Finding>>>,
}

impl PartialEq for ProgramCall {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.state, &other.state) && self.procedure == other.procedure
    }
}

/// The work of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallWork {
    /// Transactions, or records of a load.
    pub ops: u64,
    /// Records seen.
    pub rows: u64,
}

impl Program {
    /// The tables of the program; `embeds`: records may contain other records.
    pub fn tables(self, embeds: bool) -> Vec<&'static RecordTable> {
        let all: &[&'static RecordTable] = match self {
            Self::Trx => trx::TABLES,
            Self::Tpcc => tpcc::TABLES,
            Self::Linkbench => linkbench::TABLES,
        };
        let fits = |table: &&&RecordTable| !(embeds && table.only_flat);
        all.iter().filter(fits).copied().collect()
    }

    /// The names of the procedures of its clients.
    pub fn procedures(self) -> &'static [&'static str] {
        match self {
            Self::Trx => trx::PROCEDURES,
            Self::Tpcc => tpcc::PROCEDURES,
            Self::Linkbench => linkbench::PROCEDURES,
        }
    }

    /// The approximate size of a record of the largest table, in bytes.
    pub fn row_bytes(self) -> u64 {
        match self {
            Self::Trx => trx::ROW_BYTES,
            Self::Tpcc => tpcc::ROW_BYTES,
            Self::Linkbench => linkbench::ROW_BYTES,
        }
    }
}

impl ProgramCall {
    /// The next piece of the load; `None` if all pieces have been given out.
    pub fn load(state: &Arc<ProgramState>) -> Option<Self> {
        let pieces = match state.program {
            Program::Trx => trx::pieces(state.scale),
            Program::Tpcc => tpcc::pieces(state.scale),
            Program::Linkbench => linkbench::pieces(state.scale),
        };
        let piece = state.next_piece()?;
        (piece < pieces).then(|| Self::of(state, Procedure::Load(piece)))
    }

    /// Draws procedure `number` of the program; `batch` is the number of its writes, if the program
    /// uses one.
    pub fn draw(
        state: &Arc<ProgramState>,
        number: usize,
        random: &mut Stream,
        batch: u64,
    ) -> Option<Self> {
        let name = state.program.procedures().get(number)?;
        let procedure = match state.program {
            Program::Trx => Procedure::Trx(trx::draw(state.scale, name, random, batch)),
            Program::Tpcc => Procedure::Tpcc(tpcc::draw(state.scale, name, random)),
            Program::Linkbench => Procedure::Linkbench(linkbench::draw(state.scale, name, random)),
        };
        Some(Self::of(state, procedure))
    }

    /// A call that checks the data, and the place where it will store its findings.
    pub fn check(state: &Arc<ProgramState>) -> (Self, Arc<Mutex<Vec<Finding>>>) {
        let call = Self::of(state, Procedure::Check);
        let findings = call.findings.clone();
        (call, findings)
    }

    fn of(state: &Arc<ProgramState>, procedure: Procedure) -> Self {
        Self {
            state: state.clone(),
            procedure,
            findings: Arc::default(),
        }
    }

    /// Runs the call.
    ///
    /// # Errors
    /// The target refuses, does not answer, or returns impossible data.
    pub async fn run<R: Records>(&self, records: &mut R) -> Outcome<CallWork> {
        if self.procedure == Procedure::Check {
            let found = self.check_data(records).await?;
            *self.findings.lock().unwrap_or_else(PoisonError::into_inner) = found;
            return Ok(CallWork { ops: 1, rows: 0 });
        }
        let under_way = self.state.begin();
        let ran = self.repeat(records).await;
        if !matches!(ran, Err(RecordsError::Lost(_))) {
            under_way.end();
        }
        ran
    }

    /// Stores a piece of the load, or runs one transaction, which is repeated while the target
    /// reports that another attempt may succeed.
    async fn repeat<R: Records>(&self, records: &mut R) -> Outcome<CallWork> {
        if let Procedure::Load(piece) = self.procedure {
            return self.store(records, piece).await;
        }
        let mode = match &self.procedure {
            Procedure::Trx(procedure) => procedure.mode(),
            _ => Mode::Write,
        };
        loop {
            let error = match self.attempt(records, mode).await {
                Ok(ran) => return Ok(ran),
                Err(error) => error,
            };
            match error {
                RecordsError::Again(_) => {
                    records.abort().await;
                    self.state.count_repeat();
                }
                RecordsError::Failed { .. } => {
                    records.abort().await;
                    return Err(error);
                }
                RecordsError::Lost(_) => return Err(error),
            }
        }
    }

    async fn attempt<R: Records>(&self, records: &mut R, mode: Mode) -> Outcome<CallWork> {
        records.begin(mode).await?;
        let done = match &self.procedure {
            Procedure::Trx(procedure) => procedure.run(&self.state, records).await?,
            Procedure::Tpcc(procedure) => procedure.run(records).await?,
            Procedure::Linkbench(procedure) => procedure.run(records).await?,
            Procedure::Load(_) | Procedure::Check => state::Effect::default(),
        };
        if done.turned_back {
            records.abort().await;
        } else {
            records.commit().await?;
        }
        self.state.count(&done.counts);
        Ok(CallWork {
            ops: 1,
            rows: done.rows,
        })
    }

    async fn store<R: Records>(&self, records: &mut R, piece: u64) -> Outcome<CallWork> {
        let stored = match self.state.program {
            Program::Trx => trx::load(&self.state, records, piece).await?,
            Program::Tpcc => tpcc::load(&self.state, records, piece).await?,
            Program::Linkbench => linkbench::load(&self.state, records, piece).await?,
        };
        Ok(CallWork {
            ops: stored,
            rows: 0,
        })
    }

    async fn check_data<R: Records>(&self, records: &mut R) -> Outcome<Vec<Finding>> {
        match self.state.program {
            Program::Trx => trx::check(&self.state, records).await,
            Program::Tpcc => tpcc::check(&self.state, records).await,
            Program::Linkbench => linkbench::check(&self.state, records).await,
        }
    }
}
