//! Gives commands access to this process: the network's counters, the device, a folder for the
//! files of a backup.

use crate::command_handler::CommandHandler;
use crate::config::Settings;
use crate::net::{NetStats, Server};
use crate::space::disk_bytes;
use commands::Service;
use state::Network;

/// Lets commands read the counters of the network and of the device.
pub(crate) fn link(settings: &Settings, service: &Service, server: &Server<CommandHandler>) {
    let asked = server.metrics();
    let network = move || asked().map(copy_stats).unwrap_or_default();
    // It is set here only.
    let _ = service.state.network.set(Box::new(network));
    if settings.has_directory() {
        let path = settings.dbpath.clone();
        let disk = move || disk_bytes(&path);
        let _ = service.state.disk_bytes.set(Box::new(disk));
    }
}

/// Lets backup cursors keep their files beside the data.
///
/// # Errors
/// One line: what an earlier run has left cannot be removed.
pub(crate) fn keep_backups(settings: &Settings, service: &Service) -> Result<(), String> {
    if !settings.has_directory() {
        return Ok(());
    }
    let data = settings.dbpath.canonicalize();
    let data = data.map_err(|e| format!("cannot read {}: {e}", settings.dbpath.display()))?;
    service.state.backups.keep_in(&data)
}

/// Blocks the writes of users on a backup that is served read-only. What the server itself writes
/// goes to the folder of links, and is removed with it.
///
/// # Errors
/// One line.
pub(crate) fn block_writes(settings: &Settings, service: &Service) -> Result<(), String> {
    // A block that was active when the backup was made stays, with its own reason.
    if !settings.mounted || service.state.user_writes.are_blocked() {
        return Ok(());
    }
    let blocked = service
        .state
        .user_writes
        .set(&service.store, true, "Unspecified");
    blocked.map_err(|e| format!("cannot block writes: {e}"))
}

fn copy_stats(n: NetStats) -> Network {
    Network {
        bytes_in: n.bytes_in,
        bytes_out: n.bytes_out,
        requests: n.requests,
        rejected_connections: n.rejected_connections,
        open_connections: n.current_connections,
    }
}
