//! The address by which a client is told to reach this server, if no option sets it.
//!
//! A driver that is given one address asks for all members of the set and then uses the addresses
//! in the reply, so the client must be able to reach those. The local address of its connection
//! works, unless it was translated on the way. Translation is expected in a container for
//! connections from its gateway: they come through a port that the host publishes, and the
//! container's address may be unreachable from outside. See ADR 0068.
//!
//! Must not know: options, TLS.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use crate::net::{PeerAddr, PeerInfo};

/// Files that exist in containers only.
const CONTAINER_MARKS: [&str; 2] = ["/.dockerenv", "/run/.containerenv"];
/// The kernel's table of routes.
const ROUTES: &str = "/proc/net/route";

/// What is known of the machine for naming this server.
#[derive(Clone, Debug, Default)]
pub struct Naming {
    /// The gateways of a container; empty outside of one.
    gateways: Vec<IpAddr>,
}

impl Naming {
    /// Reads them from the machine this process runs on.
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

    /// The local address, `host:port`, of the client's connection; `None` if the client may not
    /// reach that address.
    pub fn name_by_address(&self, peer: &PeerInfo) -> Option<String> {
        let (PeerAddr::Tcp(client), Some(local)) = (&peer.address, peer.local) else {
            return None;
        };
        if self.gateways.contains(&client.ip().to_canonical()) {
            return None;
        }
        match local.ip().to_canonical() {
            IpAddr::V4(ip) => Some(format!("{ip}:{}", local.port())),
            // A link-local address has a meaning only together with an interface of this machine.
            IpAddr::V6(ip) if ip.is_unicast_link_local() => None,
            IpAddr::V6(ip) => Some(format!("[{ip}]:{}", local.port())),
        }
    }
}

/// The gateways of default routes in the kernel's table, whose addresses are hexadecimal numbers in
/// native byte order.
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
