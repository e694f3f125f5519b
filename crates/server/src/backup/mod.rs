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
pub fn run(command: &BackupCommand, print_message: &mut dyn FnMut(&str)) -> Result<(), Failure> {
    // Shipping must keep up with the server; every other command runs at low priority.
    if !matches!(command, BackupCommand::Ship(_)) {
        ::backup::give_way();
    }
    match command {
        BackupCommand::Make(args) => make::run(args, print_message),
        BackupCommand::Ship(args) => ship::run(args, print_message),
        BackupCommand::List(args) => keep::list(args, print_message),
        BackupCommand::Verify(args) => keep::verify(args, print_message),
        BackupCommand::Prune(args) => keep::prune(args, print_message),
        BackupCommand::Drill(args) => drill::run(args, print_message),
    }
}

/// Restores; `tell` is given lines for people.
///
/// # Errors
/// One line and an exit code.
pub fn run_restore(args: &RestoreArgs, print_message: &mut dyn FnMut(&str)) -> Result<(), Failure> {
    restore::run(args, print_message)
}

/// Serves a backup until SIGTERM or SIGINT.
///
/// # Errors
/// One line and an exit code.
pub fn run_mount(args: &MountArgs, print_message: &mut dyn FnMut(&str)) -> Result<(), Failure> {
    mount::run(args, print_message)
}

/// Validates a data directory; `tell` is given lines for people.
///
/// # Errors
/// One line and an exit code.
pub fn run_validate(
    args: &ValidateArgs,
    print_message: &mut dyn FnMut(&str),
) -> Result<(), Failure> {
    check::run(args, print_message)
}

/// Repairs a data directory; `tell` is given lines for people.
///
/// # Errors
/// One line and an exit code.
pub fn run_repair(args: &RepairArgs, print_message: &mut dyn FnMut(&str)) -> Result<(), Failure> {
    repair::run(args, print_message)
}
