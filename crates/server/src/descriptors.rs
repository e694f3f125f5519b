//! How the open files that the process may have are divided among its parts.
//!
//! Promises: connections never take the files that the engine, its journal and the log need; the
//! limit is raised as high as the system allows. Must not know: sockets, the engine.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files of the server itself: journals, what a compaction writes, the log, the audit, listeners,
/// poll sets.
const OWN: u64 = 64;
/// One in this many files is reserved for what grows with the load: spill files of sorts,
/// compactions, metrics.
const SHARE_OF_OPERATIONS: u64 = 8;
/// Most clients beyond the limit that wait for the error that refuses them.
const TURNED_AWAY_MAX: u64 = 64;
/// A start with room for fewer connections than this fails.
const CONNECTIONS_MIN: u64 = 8;

/// How the files are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptors {
    /// Files that the process may open.
    pub limit: u64,
    /// Connections that fit.
    pub connections: u64,
    /// Clients beyond the limit that may wait for the error that refuses them.
    pub turned_away: u64,
}

/// Raises the soft limit of open files to the hard one.
///
/// # Output
/// The limit that holds now.
pub fn raise_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let wanted = Rlimit {
        current: limit.maximum,
        ..limit
    };
    let raised = setrlimit(Resource::Nofile, wanted).is_ok();
    let now = if raised { limit.maximum } else { limit.current };
    now.unwrap_or(u64::MAX)
}

impl Descriptors {
    /// Divides `limit` files, of which the engine keeps `engine` open.
    ///
    /// # Errors
    /// One line: there are too few.
    pub fn share(limit: u64, engine: u64) -> Result<Descriptors, String> {
        let turned_away = (limit / 16).min(TURNED_AWAY_MAX);
        let kept = OWN + turned_away + limit / SHARE_OF_OPERATIONS + engine;
        let connections = limit.saturating_sub(kept);
        if connections < CONNECTIONS_MIN {
            return Err(format!(
                "this process may open {limit} files, which leaves {connections} for \
                 connections, and at least {CONNECTIONS_MIN} are needed: raise the limit (ulimit \
                 -n, or LimitNOFILE of systemd); 64000 are recommended"
            ));
        }
        Ok(Descriptors {
            limit,
            connections,
            turned_away,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_get_what_the_engine_and_the_server_leave() {
        let share = |limit, engine| Descriptors::share(limit, engine).map(|d| d.connections);
        assert_eq!(share(65_536, 4096), Ok(65_536 - 64 - 64 - 8192 - 4096));
        assert_eq!(share(1024, 512), Ok(1024 - 64 - 64 - 128 - 512));
        assert_eq!(share(256, 128), Ok(16));
        for (limit, engine) in [(128, 64), (0, 0), (10, 64)] {
            let refused = share(limit, engine).unwrap_err();
            assert!(refused.contains("ulimit -n"), "{refused}");
        }
        assert!(share(u64::MAX, 1 << 20).is_ok());
    }
}
