//! The binary `quarry`: parses the command line and starts what it asks for.

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use server::backup::{self, BackupCommand, MountArgs, RepairArgs, RestoreArgs, ValidateArgs};
use server::command_line::{CommandLine, version_of_mongod};
use server::config::{OptionFields, ServeArgs};
use server::convert::{self, ConvertArgs};
use server::failure::Failure;
#[cfg(feature = "follow")]
use server::follow::{self, FollowArgs};
use server::output::{print_error, print_line};
use server::process;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: memory::CountingAllocator<tikv_jemallocator::Jemalloc> =
    memory::CountingAllocator(tikv_jemallocator::Jemalloc);

/// Of `quarry serve`.
const EXAMPLES: &str = "Examples:
  quarry serve --dbpath /data                         for clients on this machine
  quarry serve --dbpath /data --bind_ip 0.0.0.0 --auth --advertise db.example.com
                                                      for other machines, with logins
  quarry serve --config /etc/quarry.yaml              with a file in mongod's layout
  quarry serve --dbpath /data --memory 4G --metricsPort 9100 --logpath /var/log/quarry.log --fork";

/// Status of wrong options, as everywhere.
const WRONG_OPTIONS: u8 = 2;

/// A MongoDB-compatible document database on write-optimized storage engines.
#[derive(Parser)]
#[command(name = "quarry", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve a data directory to MongoDB clients
    #[command(after_help = EXAMPLES)]
    Serve(Box<ServeArgs>),
    /// Copy a data directory to another storage engine, and verify the copy
    Convert(Box<ConvertArgs>),
    /// Make, list, verify and remove backups, and ship the log
    #[command(subcommand)]
    Backup(BackupCommand),
    /// Restore a backup into an empty directory
    Restore(Box<RestoreArgs>),
    /// Serve a backup, read-only
    Mount(MountArgs),
    /// Migrate without downtime: copy a running source, apply its changes, cut over
    #[cfg(feature = "follow")]
    Follow(Box<FollowArgs>),
    /// Check a data directory on which no server runs: checksums, documents, index entries,
    /// counters
    Validate(Box<ValidateArgs>),
    /// Repair a damaged data directory; documents that cannot stay are moved to a folder beside it
    Repair(Box<RepairArgs>),
}

/// Prints a line for people to standard output.
fn print_message(line: &str) {
    print_line(format_args!("quarry: {line}"));
}

fn end(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            print_error(format_args!("quarry: {}", failure.message));
            ExitCode::from(failure.code)
        }
    }
}

fn main() -> ExitCode {
    let line = match CommandLine::of(std::env::args_os()) {
        Ok(line) if line.asks_version_of_mongod() => {
            print_line(format_args!("{}", version_of_mongod()));
            return ExitCode::SUCCESS;
        }
        Ok(line) => line,
        Err(why) => {
            print_error(format_args!("quarry: {why}"));
            return ExitCode::from(WRONG_OPTIONS);
        }
    };
    let mut command = Cli::command();
    let matches = command.try_get_matches_from_mut(&line.words);
    let parsed = matches.and_then(|m| Ok((Cli::from_arg_matches(&m)?, m)));
    let (cli, matches) = match parsed {
        Ok(both) => both,
        // Help and version go to standard output.
        Err(e) if !e.use_stderr() => e.exit(),
        Err(e) => {
            let text = e.to_string();
            let lines = text.lines().filter(|line| !line.trim().is_empty());
            lines.for_each(|line| print_error(format_args!("{line}")));
            return ExitCode::from(WRONG_OPTIONS);
        }
    };
    process::keep_files_private();
    match cli.command {
        Command::Serve(mut args) => {
            args.without_effect = line.without_effect;
            args.as_mongod = line.as_mongod;
            let serve = command.find_subcommand("serve");
            if let (Some(serve), Some(matches)) = (serve, matches.subcommand_matches("serve")) {
                args.given = OptionFields::of(serve, matches);
            }
            match server::serve::run(&args) {
                Ok(()) => ExitCode::SUCCESS,
                Err(failure) => {
                    print_error(format_args!("quarry: {}", failure.message));
                    ExitCode::from(failure.code)
                }
            }
        }
        Command::Convert(args) => match convert::run(&args, &mut print_message) {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => {
                print_error(format_args!("quarry: {}", failure.message));
                ExitCode::from(failure.code)
            }
        },
        Command::Backup(command) => end(backup::run(&command, &mut print_message)),
        Command::Restore(args) => end(backup::run_restore(&args, &mut print_message)),
        Command::Mount(args) => end(backup::run_mount(&args, &mut print_message)),
        #[cfg(feature = "follow")]
        Command::Follow(args) => end(follow::run(&args, &mut print_message)),
        Command::Validate(args) => end(backup::run_validate(&args, &mut print_message)),
        Command::Repair(args) => end(backup::run_repair(&args, &mut print_message)),
    }
}
