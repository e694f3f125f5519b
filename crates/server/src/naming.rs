//! By which address a client is told to reach this server, where no option says it.
//!
//! Drivers that are given one address ask for all of the set and go on with those alone, so the
//! address must be one that this client reaches. The address that its connection came in at is
//! one, unless somebody in between has changed it. That is to be expected in a container, of
//! connections from its gateway: they come through a port that the machine around publishes, and
//! the address of the container need not be known there. See ADR 0068.
//!
//! Must not know: options, TLS.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use crate::net::{PeerAddr, PeerInfo};

/// Files that say that this process is in a container.
const CONTAINER_MARKS: [&str; 2] = ["/.dockerenv", "/run/.containerenv"];
/// Routes of the kernel.
const ROUTES: &str = "/proc/net/route";

/// What is known of the machine.
#[derive(Clone, Debug, Default)]
pub struct Naming {
    /// The gateways of a container; nothing elsewhere.
    gateways: Vec<IpAddr>,
}

impl Naming {
    /// Of the machine this process runs on.
    pub fn of_machine() -> Naming {
        let is_container = CONTAINER_MARKS.iter().any(|mark| Path::new(mark).exists());
        let routes = std::fs::read_to_string(ROUTES);
        Naming {
            gateways: match routes {
                Ok(routes) if is_container => gateways(&routes),
                _ => Vec::new(),
            },
        }
    }

    /// The address, `host:port`, that a client has come in at; none when it would not reach that.
    pub fn name_by_address(&self, peer: &PeerInfo) -> Option<String> {
        let (PeerAddr::Tcp(client), Some(local)) = (&peer.address, peer.local) else {
            return None;
        };
        if self.gateways.contains(&client.ip().to_canonical()) {
            return None;
        }
        match local.ip().to_canonical() {
            IpAddr::V4(ip) => Some(format!("{ip}:{}", local.port())),
            // Means something together with an interface of this machine alone.
            IpAddr::V6(ip) if ip.is_unicast_link_local() => None,
            IpAddr::V6(ip) => Some(format!("[{ip}]:{}", local.port())),
        }
    }
}

/// The gateways of default routes in the kernel's table, whose addresses are hexadecimal numbers in
/// the order of this machine's bytes.
fn gateways(routes: &str) -> Vec<IpAddr> {
    let gateway = |line: &str| {
        let mut words = line.split_ascii_whitespace().skip(1);
        let (destination, gateway) = (words.next()?, words.next()?);
        let number = u32::from_str_radix(gateway, 16).ok()?;
        let is_default = destination == "00000000" && number != 0;
        is_default.then(|| IpAddr::V4(Ipv4Addr::from(number.to_ne_bytes())))
    };
    routes.lines().skip(1).filter_map(gateway).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gateways_are_those_of_default_routes() {
        let number = u32::from_ne_bytes([172, 17, 0, 1]);
        let routes = format!(
            "Iface\tDestination\tGateway \tFlags\tRefCnt\n\
             eth0\t00000000\t{number:08X}\t0003\t0\n\
             eth0\t000011AC\t00000000\t0001\t0\n\
             eth1\t00000000\tnone\n"
        );
        let expected: IpAddr = "172.17.0.1".parse().unwrap();
        assert_eq!(gateways(&routes), [expected]);
    }
}
