//! Options of the port for metrics.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use clap::Args;

use super::document::list;

/// Options of the command line.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Metrics")]
pub struct MetricsArgs {
    /// Port that serves metrics over HTTP: /metrics for Prometheus, / for browsers; 0 takes any
    /// free port [default: no metrics]
    #[arg(long = "metricsPort", value_name = "N")]
    pub metrics_port: Option<u16>,
    /// Address on which --metricsPort listens; one that other machines reach needs
    /// --metricsTokenFile or --allowOpenAccess [default: 127.0.0.1]
    #[arg(long = "metricsBindIp", value_name = "A")]
    pub metrics_bind_ip: Option<IpAddr>,
    /// File with a token of at least 16 characters, readable by its owner only; requests for
    /// metrics must carry it as a bearer token or as the password of any user
    #[arg(long = "metricsTokenFile", value_name = "FILE")]
    pub metrics_token_file: Option<PathBuf>,
    /// Host names by which browsers and collectors may address --metricsPort, separated by commas;
    /// IP addresses, localhost and this machine's own name are always allowed
    #[arg(long = "metricsHosts", value_name = "LIST")]
    pub metrics_hosts: Option<String>,
}

/// The port for metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metrics {
    /// Where it listens.
    pub ip: IpAddr,
    /// Its port; 0 takes any free one.
    pub port: u16,
    /// The token that requests must bring; `None` lets every request in.
    pub token: Option<String>,
    /// Names of the machine that requests may be addressed to, besides its own.
    pub hosts: Vec<String>,
}

/// Shortest token: someone who guesses it sees the metrics.
const TOKEN_CHARS_MIN: usize = 16;

impl Metrics {
    /// Merges the command line and the file; `None` if no port is asked for. With `open` everybody
    /// may see all data anyway, so the port needs no token.
    ///
    /// # Errors
    /// One line.
    pub(super) fn of(
        args: &MetricsArgs,
        file: MetricsArgs,
        open: bool,
    ) -> Result<Option<Self>, String> {
        let bind_ip = args.metrics_bind_ip.or(file.metrics_bind_ip);
        let token_file = args.metrics_token_file.as_ref();
        let token_file = token_file.or(file.metrics_token_file.as_ref());
        let hosts = args.metrics_hosts.as_ref().or(file.metrics_hosts.as_ref());
        let Some(port) = args.metrics_port.or(file.metrics_port) else {
            let given = [
                ("metricsBindIp", bind_ip.is_some()),
                ("metricsTokenFile", token_file.is_some()),
                ("metricsHosts", hosts.is_some()),
            ];
            let alone = given.iter().find(|(_, is_given)| *is_given);
            return match alone {
                Some((name, _)) => Err(format!("{name} needs metricsPort")),
                None => Ok(None),
            };
        };
        let ip = bind_ip.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let token = token_file.map(|path| read_token(path)).transpose()?;
        if !ip.is_loopback() && token.is_none() && !open {
            return Err(format!(
                "metricsBindIp {ip} lets other machines see metrics and names of collections: give \
                 --metricsTokenFile, or say --allowOpenAccess if everybody may see and change all"
            ));
        }
        Ok(Some(Metrics {
            ip,
            port,
            token,
            hosts: hosts.map_or_else(Vec::new, |hosts| list(hosts)),
        }))
    }
}

/// The token: the first line of the file, which its owner alone may read.
fn read_token(path: &Path) -> Result<String, String> {
    use std::os::unix::fs::PermissionsExt;
    let shown = path.display();
    let failed = |e| format!("cannot read the token file {shown}: {e}");
    let text = std::fs::read_to_string(path).map_err(failed)?;
    let mode = std::fs::metadata(path)
        .map_err(failed)?
        .permissions()
        .mode();
    if mode & 0o077 != 0 {
        return Err(format!(
            "the token file {shown} may be read by others than its owner; chmod 600 it"
        ));
    }
    let token = text.lines().next().unwrap_or("").trim();
    let is_plain = token.chars().all(|c| c.is_ascii_graphic());
    if token.len() < TOKEN_CHARS_MIN || !is_plain {
        return Err(format!(
            "the token file {shown} must hold {TOKEN_CHARS_MIN} characters or more, without \
             spaces, such as openssl rand -hex 32 prints"
        ));
    }
    Ok(token.to_owned())
}
