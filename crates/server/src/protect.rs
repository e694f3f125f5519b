//! What protects the data besides access control: the audit, and the key that encrypts the data.

use crate::config::Settings;
use crate::output::print_error;
use cipher::DataKey;
use commands::Service;
use logs::{Audit, Entry, Log, Severity, component, id};
use state::audit::AuditSettings;
use std::sync::Arc;
use std::time::Duration;

/// Exit code after a failure of the journal, as mongod's; also after a failure of the audit.
pub(crate) const CODE_JOURNAL: u8 = 14;
/// Longest time for writing the last lines of the log.
pub(crate) const LOG_FLUSH: Duration = Duration::from_secs(2);

/// Makes `rotateEncryptionKey` re-encrypt the data key with the master key that the key file then
/// holds, or with a new key in Vault.
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
    // It is set here only.
    let _ = service.state.rotate_encryption_key.set(Box::new(rotate));
}

/// Starts the audit, if one is asked for. The process exits when an event cannot be written,
/// because the audited action would go unrecorded.
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
        let message = format!("{why}; ending at once, because no operation may go unaudited");
        print_error(format_args!("quarry: {message}"));
        let entry = Entry::info(id::MESSAGE, component::ACCESS, "audit", &message);
        log.write(&entry.severity(Severity::Fatal));
        log.flush(LOG_FLUSH);
        // This is like a kill: acknowledged writes are in the journal.
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
