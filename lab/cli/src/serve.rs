//! `quarry-lab target`: starts a server to measure, which runs until it is told to stop.

use std::path::PathBuf;

use clap::Subcommand;

use crate::errors::LabError;

/// Servers that the lab can start.
#[derive(Debug, Subcommand)]
pub(crate) enum Server {
    /// Start the MariaDB that is installed on this machine
    #[command(
        after_help = "Example:\n  quarry-lab target mariadb --dir data/mariadb --engine rocksdb \
            --cache-mb 512"
    )]
    Mariadb {
        /// Data directory; created if it does not exist, and emptied if the lab created it
        #[arg(long, value_name = "DIR")]
        dir: PathBuf,
        /// Storage engine: innodb or rocksdb (MyRocks, Debian's mariadb-plugin-rocksdb)
        #[arg(long, default_value = "innodb", value_parser = ["innodb", "rocksdb"])]
        engine: String,
        /// Memory for the engine's cache, in MiB
        #[arg(long, value_name = "N", default_value_t = 256)]
        cache_mb: u64,
        /// What a commit does with the engine's log: none (nothing; the server writes and flushes
        /// it every second), lazy (writes it; the server flushes it every second) or sync (writes
        /// and flushes it)
        #[arg(long, default_value = "lazy", value_parser = ["none", "lazy", "sync"])]
        durability: String,
        /// Page size of InnoDB in KiB: 4, 8, 16, 32 or 64
        #[arg(long, default_value_t = 16)]
        page_kb: u32,
        /// Write the binary log
        #[arg(long)]
        change_log: bool,
        /// Dirty pages that InnoDB flushes together with a page: 0 none, 1 contiguous ones of the
        /// extent, 2 all of the extent
        #[arg(long, default_value_t = 0)]
        flush_neighbors: u8,
        /// Library of a memory allocator that the server preloads, such as libjemalloc.so.2
        #[arg(long, value_name = "PATH")]
        allocator: Option<PathBuf>,
        /// Start with the data in the directory instead of emptying it
        #[arg(long)]
        keep: bool,
    },
}

/// Starts a server, prints its address, and waits until the user or the system ends it.
#[cfg(feature = "mysql")]
pub(crate) fn serve(server: &Server) -> Result<(), LabError> {
    use std::io::Write;

    let Server::Mariadb {
        dir,
        engine,
        cache_mb,
        durability,
        page_kb,
        change_log,
        flush_neighbors,
        allocator,
        keep,
    } = server;
    let settings = lab_sql::server::Settings {
        directory: dir.clone(),
        engine: engine.clone(),
        cache_mb: *cache_mb,
        durability: durability.clone(),
        page_kb: *page_kb,
        change_log: *change_log,
        flush_neighbors: *flush_neighbors,
        allocator: allocator.clone(),
        keep: *keep,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut server = lab_sql::server::MariaDb::start(&settings)?;
        print_line!("{}", server.address());
        std::io::stdout().flush()?;
        note_line!(
            "process {}, settings in {}; Ctrl-C stops it",
            server.pid(),
            server.settings_file().display()
        );
        tokio::select! {
            () = crate::interrupt::wait_interrupt() => {}
            reason = server.wait_for_end() => note_line!("the server ended unexpectedly: {reason}"),
        }
        server.stop();
        Ok(())
    })
}

/// This build cannot start servers.
#[cfg(not(feature = "mysql"))]
pub(crate) fn serve(_: &Server) -> Result<(), LabError> {
    Err(LabError::Nothing {
        lacks: "the feature mysql, with which this program must be built,".to_owned(),
    })
}
