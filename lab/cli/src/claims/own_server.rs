//! Servers that the lab starts for single runs: MariaDB with the setting that a claim is about.

use std::path::{Path, PathBuf};

use super::arguments::{ClaimsArguments, OwnServer};
use crate::errors::LabError;

/// A server with the lab's usual settings, except at most one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ServerVariant {
    pub(super) kind: OwnServer,
    differ: Option<String>,
    first: bool,
}

impl ServerVariant {
    /// A server with the lab's usual settings.
    pub(super) fn plain(kind: OwnServer) -> Self {
        Self {
            kind,
            differ: None,
            first: false,
        }
    }

    /// The server for one side of a difference; `None` if this kind of server does not have it.
    pub(super) fn of(kind: OwnServer, differ: &str, first: bool) -> Option<Self> {
        let both = [
            "change-log",
            "journal",
            "durability",
            "allocator",
            "interface",
        ];
        let innodb = ["page-size", "flush-neighbors"];
        let can = both.contains(&differ) || kind == OwnServer::Innodb && innodb.contains(&differ);
        can.then(|| Self {
            kind,
            differ: Some(differ.to_owned()),
            first,
        })
    }

    /// The name of the server and of its folder.
    pub(super) fn name(&self) -> String {
        match &self.differ {
            None => self.kind.name().to_owned(),
            Some(differ) => format!(
                "{}-{differ}-{}",
                self.kind.name(),
                if self.first { 1 } else { 2 }
            ),
        }
    }

    /// Starts the server under `folder`, with the data from an earlier start if there was one.
    #[cfg(feature = "mysql")]
    pub(super) fn start(
        &self,
        arguments: &ClaimsArguments,
        folder: &Path,
    ) -> Result<RunningServer, LabError> {
        let directory = folder.join(self.name());
        let mut settings = lab_sql::server::Settings {
            keep: directory.join("data").exists(),
            directory,
            engine: if self.kind == OwnServer::Innodb {
                "innodb"
            } else {
                "rocksdb"
            }
            .to_owned(),
            cache_mb: arguments.own_cache_mb,
            durability: "lazy".to_owned(),
            page_kb: 16,
            change_log: false,
            flush_neighbors: 0,
            allocator: None,
        };
        let choose = |first: &str, second: &str| {
            if self.first {
                first.to_owned()
            } else {
                second.to_owned()
            }
        };
        match self.differ.as_deref() {
            Some("change-log") => settings.change_log = self.first,
            Some("journal") => settings.durability = choose("none", "lazy"),
            Some("durability") => settings.durability = choose("sync", "lazy"),
            Some("allocator") if self.first => settings.allocator = allocator(arguments),
            Some("page-size") => settings.page_kb = if self.first { 4 } else { 8 },
            Some("flush-neighbors") => settings.flush_neighbors = u8::from(self.first),
            _ => {}
        }
        let server = lab_sql::server::MariaDb::start(&settings)?;
        let interface = if self.differ.as_deref() == Some("interface") {
            choose("&interface=handler", "&interface=select")
        } else {
            String::new()
        };
        Ok(RunningServer {
            address: server.address() + &interface,
            restart_command: server.restart_command()?,
            _server: server,
        })
    }

    /// This build cannot start servers.
    #[cfg(not(feature = "mysql"))]
    pub(super) fn start(&self, _: &ClaimsArguments, _: &Path) -> Result<RunningServer, LabError> {
        Err(LabError::Nothing {
            lacks: "the feature mysql, with which this program must be built,".to_owned(),
        })
    }
}

/// A running server, which is stopped when this is dropped.
pub(super) struct RunningServer {
    pub(super) address: String,
    /// The command that restarts the server, for runs that measure restarts.
    pub(super) restart_command: String,
    #[cfg(feature = "mysql")]
    _server: lab_sql::server::MariaDb,
}

/// The memory allocator to compare with the system's, if one is installed.
pub(super) fn allocator(arguments: &ClaimsArguments) -> Option<PathBuf> {
    let found = || {
        let folders = [
            "/usr/lib/x86_64-linux-gnu",
            "/usr/lib/aarch64-linux-gnu",
            "/usr/lib64",
            "/usr/lib",
            "/usr/local/lib",
        ];
        let names = [
            "libjemalloc.so.2",
            "libtcmalloc_minimal.so.4",
            "libtcmalloc.so.4",
        ];
        let paths = names.iter().flat_map(|name| {
            folders
                .iter()
                .map(move |folder| Path::new(folder).join(name))
        });
        paths.into_iter().find(|path| path.is_file())
    };
    arguments.own_allocator.clone().or_else(found)
}
