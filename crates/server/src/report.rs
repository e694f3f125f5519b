//! Log lines of the server itself: its start and end, signals, stalls. Must not know: how lines are
//! written.

use crate::config::Settings;
use crate::descriptors::Descriptors;
use logs::{Entry, Severity, component, id};
use std::collections::BTreeMap;
use storage::Engine;

/// mongod's name for the thread that starts the server.
const START: &str = "initandlisten";
/// A limit of open files below this gets a warning.
const FILES_MIN: u64 = 64_000;

fn of_start(id: u32, message: &str) -> Entry {
    Entry::info(id, component::CONTROL, START, message)
}

/// Lines about the process, its machine and its options.
pub fn describe_start(settings: &Settings) -> Vec<Entry> {
    let uname = rustix::system::uname();
    let host = uname.nodename().to_string_lossy().into_owned();
    let (os, release) = (
        uname.sysname().to_string_lossy().into_owned(),
        uname.release().to_string_lossy().into_owned(),
    );
    let path = settings.dbpath.display().to_string();
    let memory_mb = i64::try_from(settings.memory_bytes >> 20).unwrap_or(i64::MAX);
    vec![
        of_start(id::STARTING, "Quarry starting").attr(|w| {
            w.put("pid", i64::from(std::process::id()))
                .put("port", i32::from(settings.port))
                .put("dbPath", path.as_str())
                .put("architecture", "64-bit")
                .put("host", host.as_str());
        }),
        of_start(id::BUILD_INFO, "Build Info").attr(|w| {
            w.doc("buildInfo")
                .put("version", commands::Release::of(settings.profile).version)
                .put("quarryVersion", env!("CARGO_PKG_VERSION"))
                .put("storageEngine", settings.storage_engine.as_str())
                .put("debug", cfg!(debug_assertions));
        }),
        of_start(id::OPERATING_SYSTEM, "Operating System").attr(|w| {
            w.doc("os")
                .put("name", os.as_str())
                .put("version", release.as_str());
        }),
        of_start(id::OPTIONS, "Options set by command line").attr(|w| {
            w.put("options", &settings.given).put("memoryMB", memory_mb);
        }),
    ]
}

/// Warnings about how the server is configured.
pub fn warnings(settings: &Settings, files: Descriptors) -> Vec<Entry> {
    let mut all = Vec::new();
    if !settings.without_effect.is_empty() {
        let names = settings.without_effect.join(", ");
        let message = format!("Options of mongod that have no effect here: {names}");
        all.push(of_start(id::OPTIONS, &message));
    }
    if !settings.auth {
        all.push(of_start(
            id::NO_ACCESS_CONTROL,
            "Access control is not enabled for the database. Read and write access to data and \
             configuration is unrestricted",
        ));
        if settings.listens_beyond_localhost() {
            let bound = settings.bind_ip.join(",");
            let message = format!(
                "This server is bound to {bound} without access control: everybody who reaches \
                 it can read and write all data"
            );
            all.push(of_start(id::OPEN_TO_ALL, &message));
        }
    }
    if settings.elsewhere.plain_without_tls {
        all.push(of_start(
            id::OPTIONS,
            "Passwords of PLAIN are taken over connections without TLS: everybody between a \
             client and this server can read them",
        ));
    }
    let available = crate::memory::available_bytes();
    if settings.memory_bytes > available {
        let message = format!(
            "memory {} MiB is more than this process may use, {} MiB: the system will kill it, \
             or the machine will swap, before the limit is reached",
            settings.memory_bytes >> 20,
            available >> 20
        );
        all.push(of_start(id::OPTIONS, &message).severity(Severity::Warning));
    }
    if files.limit < FILES_MIN {
        let message = format!(
            "At most {} files may be open, which leaves {} for connections; {FILES_MIN} are \
             recommended",
            files.limit, files.connections
        );
        all.push(of_start(id::FEW_FILES, &message));
    }
    if settings.connections_given && u64::from(settings.connections_max) > files.connections {
        let message = format!(
            "maxConns {} is too high: only {} connections are allowed at a time, because at most \
             {} files may be open",
            settings.connections_max, files.connections, files.limit
        );
        all.push(of_start(id::FEW_FILES, &message));
    }
    all.into_iter().map(Entry::of_start).collect()
}

/// Lines that say that clients can connect and that the member of a set is primary.
pub fn describe_listeners(addresses: &[String], settings: &Settings) -> Vec<Entry> {
    let entry = |id, message| Entry::info(id, component::NETWORK, "listener", message);
    let mut all: Vec<Entry> = addresses
        .iter()
        .map(|a| {
            entry(id::LISTENING_ON, "Listening on").attr(|w| {
                w.put("address", a.as_str());
            })
        })
        .collect();
    all.push(
        entry(id::WAITING_FOR_CONNECTIONS, "Waiting for connections").attr(|w| {
            let tls = settings.tls.is_some();
            w.put("port", i32::from(settings.port))
                .put("ssl", if tls { "on" } else { "off" });
        }),
    );
    if settings.replica_set.is_some() {
        let message = "Transition to primary complete; database writes are now permitted";
        all.push(
            Entry::info(id::PRIMARY, component::REPLICATION, START, message).attr(|w| {
                w.put("term", 1i64);
            }),
        );
    }
    all
}

/// Lines about a signal that ends the process.
pub fn signal(number: i32, name: &str) -> [Entry; 2] {
    let entry = |id, message| Entry::info(id, component::CONTROL, "SignalHandler", message);
    [
        entry(id::SIGNAL, "Received signal").attr(|w| {
            w.put("signal", number).put("error", name);
        }),
        entry(id::TERMINATES, "will terminate after current cmd ends"),
    ]
}

/// Lines about the end of the process.
pub fn describe_end(code: u8) -> [Entry; 2] {
    let entry = |id, message| {
        Entry::info(id, component::CONTROL, "SignalHandler", message).attr(|w| {
            w.put("exitCode", i32::from(code));
        })
    };
    [
        entry(id::NOW_EXITING, "Now exiting"),
        entry(id::SHUTTING_DOWN, "Shutting down"),
    ]
}

/// Compares an engine's counters of trouble with their last values and logs those that have grown.
#[derive(Debug, Default)]
pub struct FaultMonitor {
    seen: BTreeMap<&'static str, i64>,
}

/// Counters of an engine that grow when clients have to wait for it: the name, the message, and
/// other metrics for the log line.
const SIGNS: &[(&str, &str, &[&str])] = &[
    (
        "stall_stops",
        "Writers were stopped: compaction is behind",
        &[],
    ),
    (
        "journal_failing",
        "The journal cannot be flushed; acknowledged writes wait",
        &[],
    ),
    (
        "space_short",
        "The device is nearly full: below reserve_bytes free, growing writes are refused",
        &["free_bytes", "reserve_bytes"],
    ),
    (
        "compaction_met_damage",
        "A compaction cannot read a damaged file, which the engine's log names: reads of it \
         fail, and the space of overwritten versions is not freed",
        &["background_errors"],
    ),
];

impl FaultMonitor {
    /// Log lines for the counters that have grown since the last look.
    pub fn collect_changes(&mut self, engine: &dyn Engine) -> Vec<Entry> {
        let mut numbers = BTreeMap::new();
        engine.stats(&mut |name, value| {
            numbers.insert(name.to_owned(), value);
        });
        self.compare(&numbers)
    }

    fn compare(&mut self, numbers: &BTreeMap<String, i64>) -> Vec<Entry> {
        let mut found = Vec::new();
        for (name, message, facts) in SIGNS {
            let Some(value) = numbers.get(*name).copied() else {
                continue;
            };
            let before = self.seen.insert(name, value).unwrap_or(0);
            if value > before {
                let entry = Entry::info(id::STALL, component::STORAGE, "housekeeping", message);
                found.push(entry.severity(Severity::Warning).attr(|w| {
                    w.put(name, value);
                    for fact in *facts {
                        if let Some(value) = numbers.get(*fact) {
                            w.put(fact, *value);
                        }
                    }
                }));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_device_is_reported_once_with_free_and_required_bytes() {
        let numbers = |short: i64| {
            [
                ("free_bytes", 207),
                ("reserve_bytes", 400),
                ("space_short", short),
            ]
            .map(|(name, value)| (name.to_owned(), value))
            .into()
        };
        let mut trouble = FaultMonitor::default();
        assert!(trouble.compare(&numbers(0)).is_empty());
        let told = trouble.compare(&numbers(1));
        let lines: Vec<String> = told.iter().map(|e| format!("{e:?}")).collect();
        assert!(
            lines.len() == 1 && lines[0].contains("free_bytes: 207, reserve_bytes: 400"),
            "{lines:?}"
        );
        assert!(trouble.compare(&numbers(1)).is_empty());
    }
}
