//! `quarry-lab target`: a server of its own to measure, until it is told to stop.

use crate::cli::Server;
use crate::errors::LabError;

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
        println!("{}", server.address());
        std::io::stdout().flush()?;
        eprintln!(
            "process {}, settings in {}; Ctrl-C stops it",
            server.pid(),
            server.settings_file().display()
        );
        tokio::select! {
            () = crate::interrupt::interrupted() => {}
            reason = server.wait_for_end() => eprintln!("the server ended by itself: {reason}"),
        }
        server.stop();
        Ok(())
    })
}

/// This build cannot.
#[cfg(not(feature = "mysql"))]
pub(crate) fn serve(_: &Server) -> Result<(), LabError> {
    Err(LabError::Nothing {
        lacks: "the feature mysql, with which this program must be built,".to_owned(),
    })
}
