//! What guards the data besides access: the audit, and the key that the data is encrypted with.

use crate::config::Settings;
use crate::output::print_error;
use cipher::DataKey;
use commands::Service;
use commands::state::audit::AuditSettings;
use logs::{Audit, Entry, Log, Severity, component, id};
use std::sync::Arc;
use std::time::Duration;

/// As mongod when it gives up on its storage; here on the audit, too.
pub(crate) const CODE_JOURNAL: u8 = 14;
/// How long the last lines of the log may take.
pub(crate) const LOG_FLUSH: Duration = Duration::from_secs(2);

/// Has `rotateEncryptionKey` seal the data key by what the key file holds then, or by a new key in
/// Vault.
pub(crate) fn enable_key_rotation(
    settings: &Settings,
    service: &Service,
    data: Option<Arc<DataKey>>,
) {
    let (Some(data), Some(source)) = (data, settings.encryption_key.clone()) else {
        return;
    };
    let directory = settings.dbpath.clone();
    let rotate = move || {
        let master = source.next_key()?;
        cipher::reseal(&directory, &data, &master).map_err(|e| e.to_string())
    };
    // Nobody else sets it.
    let _ = service.state.rotate_encryption_key.set(Box::new(rotate));
}

/// Starts the audit, where one is asked for. The process ends when an event cannot be written: what
/// it tells of would go on unseen.
///
/// # Errors
/// One line.
pub(crate) fn start_audit(
    settings: &Settings,
    service: &Service,
    log: &Arc<Log>,
) -> Result<(), String> {
    let Some(audit) = settings.audit.clone() else {
        return Ok(());
    };
    let log = Arc::clone(log);
    let failed = move |why: &str| {
        let message = format!("{why}; ending at once, because nothing may go on unseen");
        print_error(format_args!("quarry: {message}"));
        let entry = Entry::info(id::MESSAGE, component::ACCESS, "audit", &message);
        log.write(&entry.severity(Severity::Fatal));
        log.flush(LOG_FLUSH);
        // As after a kill: what was acknowledged is in the journal.
        signal_hook::low_level::exit(i32::from(CODE_JOURNAL));
    };
    let settings = AuditSettings {
        to: Arc::new(Audit::open(audit.target, failed)?),
        filter: audit.filter,
        runtime: audit.runtime,
    };
    service
        .start_audit(settings)
        .map_err(|e| format!("the audit cannot be started: {}", e.message()))
}
