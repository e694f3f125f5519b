//! A database in a TiKV cluster.

use super::kind::{Cluster, EngineKind, EngineOptions, OpenedEngine};
use logs::{Entry, Severity, component, id};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use storage::{Follower, StorageError};

pub(super) static KIND: EngineKind = EngineKind {
    follow: Some(follow),
    check,
    ..EngineKind::new("tikv", open)
};

/// The cluster, the database in it, and how long versions are kept.
fn config(tikv: &Cluster<'_>) -> engine_tikv::Config {
    let mut config = engine_tikv::Config::at(tikv.pd.to_vec(), tikv.prefix);
    let seconds = Some(tikv.keep_seconds).filter(|s| *s > 0);
    config.keep_versions = seconds.map(std::time::Duration::from_secs);
    config.tls = tikv.tls.map(|files| engine_tikv::TlsFiles {
        ca: files.ca.clone(),
        certificate: files.certificate.clone(),
        key: files.key.clone(),
    });
    config
}

/// Checks that the files for TLS can be used.
fn check(options: &EngineOptions<'_>) -> Result<(), String> {
    let config = options.tikv.as_ref().map(config);
    match config.and_then(|config| config.tls) {
        Some(files) => files.check(),
        None => Ok(()),
    }
}

/// Reads a database in a cluster that another server holds.
fn follow(options: &EngineOptions<'_>) -> Result<Arc<dyn Follower>, String> {
    let tikv = options.tikv.ok_or("storage engine tikv needs --tikvPd")?;
    match engine_tikv::TikvReader::connect(&config(&tikv)) {
        Ok(reader) => Ok(Arc::new(reader)),
        Err(e) => Err(crate::failure::with_cause(&e)),
    }
}

/// How long a standby waits before it tries again to reach a cluster that does not answer.
const OUTAGE_PAUSE: std::time::Duration = std::time::Duration::from_secs(1);

/// Logs that the cluster does not answer.
fn report_outage(tikv: &Cluster<'_>, error: &StorageError) {
    let Some(log) = tikv.log else {
        return;
    };
    let message = format!(
        "the cluster at {} does not answer: {}; trying again",
        tikv.pd.join(","),
        crate::failure::with_cause(error)
    );
    let entry = Entry::info(id::MESSAGE, component::STORAGE, "engine", &message);
    log.write(&entry.severity(Severity::Warning));
}

/// Whether opening failed because the cluster did not answer, or answered so late that the lease
/// had expired or belonged to another server.
fn is_of_outage(error: &StorageError) -> bool {
    matches!(
        error,
        StorageError::Io { .. }
            | StorageError::Busy(_)
            | StorageError::Unreachable(_)
            | StorageError::ReadOnly { .. }
            | StorageError::Undetermined
    )
}

/// A flag that is set when this process is told to end.
fn watch_signals() -> Result<Arc<AtomicBool>, String> {
    let told = Arc::new(AtomicBool::new(false));
    for signal in [
        signal_hook::consts::SIGTERM,
        signal_hook::consts::SIGINT,
        signal_hook::consts::SIGHUP,
    ] {
        signal_hook::flag::register(signal, Arc::clone(&told))
            .map_err(|e| format!("cannot wait for signals: {e}"))?;
    }
    Ok(told)
}

/// Opens a database in a cluster: beside other servers that write it, or alone. Then a standby
/// waits while another server holds it, until this process is told to end.
fn open(options: &EngineOptions<'_>) -> Result<OpenedEngine, String> {
    let tikv = options.tikv.ok_or("storage engine tikv needs --tikvPd")?;
    let mut config = config(&tikv);
    let host = rustix::system::uname();
    let host = host.nodename().to_string_lossy();
    config.name = format!("process {} of {host}", std::process::id());
    config.address = tikv.address.unwrap_or_default().to_owned();
    config.awaited = options.awaited.cloned();
    let waits = tikv.standby || tikv.joins;
    let told = waits.then(watch_signals).transpose()?;
    if tikv.standby {
        config.standby = told.clone();
        // With other servers waiting for the lease, one of them may have taken it; a server without
        // others can still renew it.
        config.patience = std::time::Duration::ZERO;
    }
    let ended = || told.as_ref().is_some_and(|told| told.load(Relaxed));
    let opened = loop {
        let opened = match tikv.joins {
            true => engine_tikv::TikvMember::join(&config).map(OpenedEngine::of_several),
            false => engine_tikv::TikvEngine::open(&config).map(OpenedEngine::of),
        };
        match opened {
            // Waits through an outage of the cluster, however long it is.
            Err(e) if is_of_outage(&e) && waits && !ended() => {
                report_outage(&tikv, &e);
                std::thread::sleep(OUTAGE_PAUSE);
            }
            opened => break opened,
        }
    };
    match opened {
        Ok(opened) => Ok(OpenedEngine {
            remark: Some(remark(&tikv)),
            ..opened
        }),
        Err(StorageError::Locked { .. }) if ended() => {
            Err("ended while another server held the database".to_owned())
        }
        Err(e @ StorageError::Locked { .. }) => Err(format!("{e}; {}", advice(&tikv))),
        Err(e) => {
            let cause = std::error::Error::source(&e).map(|c| format!(" ({c})"));
            let (pd, cause) = (tikv.pd.join(","), cause.unwrap_or_default());
            Err(format!("cannot open {} at {pd}: {e}{cause}", tikv.prefix))
        }
    }
}

/// What the log says of the cluster at the start.
fn remark(tikv: &Cluster<'_>) -> String {
    let role = match tikv.address {
        _ if tikv.joins => "writes it beside others",
        Some(_) => "holds it, and other servers forward their requests to it",
        None => "is the only one that serves it",
    };
    format!(
        "tikv is {} of the cluster at {}{}; this server {role}, and every commit is durable, \
         whatever write concern asks for",
        tikv.prefix,
        tikv.pd.join(","),
        tikv.tls.map_or("", |_| ", reached over TLS"),
    )
}

/// What can be done when another server has the database.
fn advice(tikv: &Cluster<'_>) -> &'static str {
    match tikv.joins {
        true => {
            "a server with --tikvWrites here joins only such servers: stop the one that holds the \
             database, or choose another --tikvPrefix"
        }
        false => {
            "stop that server, start this one with --tikvStandby to take over when it is gone, or \
             choose another --tikvPrefix"
        }
    }
}
