//! The settings that the network is started with. Must not know: how any of it is done.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use memory::Budget;
use wire::CompressorSet;

use super::tls::Tls;

/// Where to listen, and the limits of resources.
#[derive(Debug, Clone)]
pub struct Config {
    /// Addresses to listen on (`--bind_ip`).
    pub bind_ip: Vec<String>,
    /// Also listen on the IPv6 addresses among them (`--ipv6`).
    pub ipv6: bool,
    /// TCP port, also in the name of the unix socket; 0 takes any free one.
    pub port: u16,
    /// Folder of the unix socket (`--unixSocketPrefix`); `None` for `--nounixsocket`.
    pub unix_socket_prefix: Option<PathBuf>,
    /// Connections at a time; more are answered with an error and closed (`--maxConns`).
    pub max_connections: u64,
    /// Clients beyond the limit that may wait for that error; more are closed without one.
    pub turned_away_max: usize,
    /// How long a client that has not logged in may take for a message that it has begun, and any
    /// client for the TLS handshake.
    pub patience: Duration,
    /// Threads that serve sockets and run short requests; 0 takes one per processor.
    pub drivers: usize,
    /// Threads that long requests may use at the same time.
    pub max_long_threads: usize,
    /// What clients may compress with (`--networkMessageCompressors`).
    pub compressors: CompressorSet,
    /// Memory of messages being received and sent.
    pub memory: Arc<Budget>,
    /// TLS; `None` serves plain connections only.
    pub tls: Option<Arc<Tls>>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            bind_ip: vec!["127.0.0.1".to_owned()],
            ipv6: false,
            port: 27017,
            unix_socket_prefix: Some(std::env::temp_dir()),
            max_connections: 1_000_000,
            turned_away_max: 64,
            patience: Duration::from_secs(30),
            drivers: 0,
            max_long_threads: 512,
            compressors: CompressorSet::default(),
            memory: Arc::new(Budget::unlimited()),
            tls: None,
        }
    }
}
