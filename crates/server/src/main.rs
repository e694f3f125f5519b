//! The binary `quarry`: parses the command line and starts what it asks for.

use clap::{Parser, Subcommand};
use server::config::ServeArgs;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: memory::Counting<tikv_jemallocator::Jemalloc> =
    memory::Counting(tikv_jemallocator::Jemalloc);

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
    Serve(Box<ServeArgs>),
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Serve(args) => match server::serve::run(&args) {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => {
                eprintln!("quarry: {}", failure.message);
                ExitCode::from(failure.code)
            }
        },
    }
}
