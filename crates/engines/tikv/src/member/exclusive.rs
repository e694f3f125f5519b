//! Exclusive units: the turn of a member at a change of what all keep in memory. Promises: an
//! exclusive commit conflicts with every unit that was in progress; others begin again after it.
//! Must not know: what is changed.

use std::time::Instant;

use storage::Result;
use storage::emulate::FixedView;

use super::TikvMember;
use crate::cluster::{RETRY_FOR, millis};
use crate::error::{is_conflict, unreachable_error};
use crate::lease_row::millis_of;
use crate::turn::drain_time;
use crate::turn_renewal::{HOLD, TurnRenewal};
use crate::turn_row::TurnRow;
use crate::unit::{MemberUnit, TakenTurn};

impl TikvMember {
    /// Takes the turn of this member, and begins a unit.
    pub(super) fn begin_turn(&self) -> Result<MemberUnit<'_>> {
        let guard = self.turn.take();
        let drain = drain_time(guard.conflicts());
        let turn = TakenTurn {
            renewal: self.take_turn_row()?,
            guard,
        };
        std::thread::sleep(drain);
        let unit = self.begin_unit(true, &[])?;
        Ok(MemberUnit {
            turn: Some(turn),
            ..unit
        })
    }

    /// Writes the row that makes others wait.
    fn take_turn_row(&self) -> Result<TurnRenewal> {
        let (cluster, membership) = (&self.commits.cluster, &self.commits.membership);
        let key = self.commits.layout.turn();
        let mut until = Instant::now() + RETRY_FOR;
        loop {
            self.turn.give_way();
            let mut unit = self.begin_unit(true, &[])?;
            let taken_ms = millis(unit.view.pos().0);
            let row = TurnRow {
                holder: membership.holder(),
                next_ms: 0,
                until_ms: taken_ms.saturating_add(millis_of(HOLD)),
            };
            let change = [(key.clone(), Some(row.encode()))];
            match cluster.commit(&mut unit.txn, &change) {
                Ok(_) => return TurnRenewal::start(cluster, key, row, taken_ms),
                Err(e) => {
                    // Another member takes its turn, or the answer was lost: then it is ours.
                    let _ = cluster.roll_back(&mut unit.txn);
                    if is_conflict(&e) {
                        // The cluster answers; others are faster.
                        self.turn.note_other();
                        until = Instant::now() + RETRY_FOR;
                    } else if Instant::now() >= until {
                        return Err(unreachable_error("taking a turn", e));
                    }
                }
            }
        }
    }
}
