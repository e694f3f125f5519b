//! `quarry backup`, `quarry restore`: the commands over a repository of backups
//! (docs/adr/0071-backup.md).
//!
//! Promises: a server that is backed up serves on; its data directory is not changed; what an
//! interrupted command has left is used or removed by the next one.
//! Must not know: how a repository keeps its files.

mod keep;
mod make;
mod progress;
mod restore;
mod source;

pub use keep::{ListArgs, PruneArgs, RetentionArgs, VerifyArgs};
pub use make::{MakeArgs, SourceArgs};
pub use progress::RateArgs;
pub use restore::RestoreArgs;

use crate::failure::Failure;
use clap::Subcommand;

/// What is done with a repository.
#[derive(Subcommand, Clone, Debug)]
pub enum BackupCommand {
    /// Back up a running server, or a data directory that no server runs on
    Make(MakeArgs),
    /// Show the backups
    List(ListArgs),
    /// Read backups back and compare everything with its digest
    Verify(VerifyArgs),
    /// Remove old backups and what only they needed
    Prune(PruneArgs),
}

/// Does what is asked for; `tell` is given lines for people.
///
/// # Errors
/// One line and an exit code.
pub fn run(command: &BackupCommand, tell: &mut dyn FnMut(&str)) -> Result<(), Failure> {
    match command {
        BackupCommand::Make(args) => make::run(args, tell),
        BackupCommand::List(args) => keep::list(args, tell),
        BackupCommand::Verify(args) => keep::verify(args, tell),
        BackupCommand::Prune(args) => keep::prune(args, tell),
    }
}

/// Restores; `tell` is given lines for people.
///
/// # Errors
/// One line and an exit code.
pub fn run_restore(args: &RestoreArgs, tell: &mut dyn FnMut(&str)) -> Result<(), Failure> {
    restore::run(args, tell)
}
