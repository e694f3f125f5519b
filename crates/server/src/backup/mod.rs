//! `quarry backup`, `quarry restore`, `quarry mount`: the commands over a repository of backups
//! (docs/adr/0071-backup.md, docs/adr/0072-point-in-time.md); `quarry validate`, which checks a
//! data directory, such as a restored one; and `quarry repair` (docs/adr/0091-repair.md) for data
//! without a backup.
//!
//! Promises: a server goes on serving while it is backed up; its data directory is not changed; the
//! next command uses or removes what an interrupted one has left. Must not know: how a repository
//! keeps its files.

mod aside;
mod bucket;
mod check;
mod drill;
mod keep;
mod location;
mod make;
mod mount;
mod progress;
mod repair;
mod replay;
mod restore;
mod salvaged;
mod seal;
mod ship;
mod sign;
mod source;

pub use check::{OpenArgs, ValidateArgs};
pub use drill::DrillArgs;
pub use keep::{ListArgs, PruneArgs, RetentionArgs, VerifyArgs};
pub use make::{MakeArgs, SourceArgs};
pub use mount::MountArgs;
pub use progress::RateArgs;
pub use repair::RepairArgs;
pub use restore::RestoreArgs;
pub use ship::ShipArgs;

use crate::failure::Failure;
use clap::Subcommand;

/// The subcommands of `quarry backup`.
#[derive(Subcommand, Clone, Debug)]
pub enum BackupCommand {
    /// Back up a running server, or a data directory on which no server runs
    Make(MakeArgs),
    /// Copy the log of a running server into a repository as it grows, for `quarry restore --to`
    Ship(Box<ShipArgs>),
    /// List the backups and the shipped log
    List(ListArgs),
    /// Read backups and compare every piece with its digest
    Verify(VerifyArgs),
    /// Remove old backups, and the pieces and log that no other backup needs
    Prune(PruneArgs),
    /// Restore a backup into a new folder, validate its data, and remove the folder
    Drill(Box<DrillArgs>),
}

/// Runs the subcommand; `tell` is given lines for people.
///
/// # Errors
/// One line and an exit code.
pub fn run(command: &BackupCommand, tell: &mut dyn FnMut(&str)) -> Result<(), Failure> {
    // Shipping must keep up with the server; every other command runs at low priority.
    if !matches!(command, BackupCommand::Ship(_)) {
        ::backup::give_way();
    }
    match command {
        BackupCommand::Make(args) => make::run(args, tell),
        BackupCommand::Ship(args) => ship::run(args, tell),
        BackupCommand::List(args) => keep::list(args, tell),
        BackupCommand::Verify(args) => keep::verify(args, tell),
        BackupCommand::Prune(args) => keep::prune(args, tell),
        BackupCommand::Drill(args) => drill::run(args, tell),
    }
}

/// Restores; `tell` is given lines for people.
///
/// # Errors
/// One line and an exit code.
pub fn run_restore(args: &RestoreArgs, tell: &mut dyn FnMut(&str)) -> Result<(), Failure> {
    restore::run(args, tell)
}

/// Serves a backup until SIGTERM or SIGINT.
///
/// # Errors
/// One line and an exit code.
pub fn run_mount(args: &MountArgs, tell: &mut dyn FnMut(&str)) -> Result<(), Failure> {
    mount::run(args, tell)
}

/// Validates a data directory; `tell` is given lines for people.
///
/// # Errors
/// One line and an exit code.
pub fn run_validate(args: &ValidateArgs, tell: &mut dyn FnMut(&str)) -> Result<(), Failure> {
    check::run(args, tell)
}

/// Repairs a data directory; `tell` is given lines for people.
///
/// # Errors
/// One line and an exit code.
pub fn run_repair(args: &RepairArgs, tell: &mut dyn FnMut(&str)) -> Result<(), Failure> {
    repair::run(args, tell)
}
