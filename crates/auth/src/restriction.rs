//! The addresses from which a user may log in (`authenticationRestrictions`).

use model::{Array, Doc, DocWriter, MongoError, Result, Value, bail, code};
use std::net::IpAddr;

/// A range of addresses: `10.0.0.0/8`, or one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    net: IpAddr,
    bits: u8,
}

/// The address; an IPv4 address mapped to IPv6 becomes IPv4 again.
fn unmap_ipv4(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(ip, IpAddr::V4),
        IpAddr::V4(_) => ip,
    }
}

impl Range {
    /// Parses a range; `None` if the text is invalid.
    pub fn parse(text: &str) -> Option<Range> {
        let (net, bits) = match text.split_once('/') {
            Some((net, bits)) => (net, Some(bits)),
            None => (text, None),
        };
        let net: IpAddr = net.parse().ok()?;
        let most = if net.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            Some(b) if b.bytes().all(|c| c.is_ascii_digit()) => b.parse().ok()?,
            Some(_) => return None,
            None => most,
        };
        (bits <= most).then_some(Range { net, bits })
    }

    /// Whether the address is in the range.
    pub fn contains(&self, ip: IpAddr) -> bool {
        match (self.net, unmap_ipv4(ip)) {
            (IpAddr::V4(net), IpAddr::V4(ip)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                u32::from(net) & mask == u32::from(ip) & mask
            }
            (IpAddr::V6(net), IpAddr::V6(ip)) => {
                let mask = u128::MAX
                    .checked_shl(128 - u32::from(self.bits))
                    .unwrap_or(0);
                u128::from(net) & mask == u128::from(ip) & mask
            }
            _ => false,
        }
    }
}

/// One entry: each list that is given must have a range with the address.
#[derive(Clone, Debug, Default, PartialEq)]
struct Entry {
    client: Option<Vec<(String, Range)>>,
    server: Option<Vec<(String, Range)>>,
}

/// The restrictions of a user or role: at least one of the entries must allow the client.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Restrictions(Vec<Entry>);

impl Restrictions {
    /// Whether there are no restrictions, so that every address is allowed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a client from `client`, connected to the server's address `server`, may log in. A
    /// client without an address (a unix socket) is in no range.
    pub fn allow(&self, client: Option<IpAddr>, server: Option<IpAddr>) -> bool {
        let meets = |ranges: &Option<Vec<(String, Range)>>, ip: Option<IpAddr>| {
            ranges.as_ref().is_none_or(|all| {
                ip.is_some_and(|ip| all.iter().any(|(_, range)| range.contains(ip)))
            })
        };
        self.0.is_empty()
            || self
                .0
                .iter()
                .any(|e| meets(&e.client, client) && meets(&e.server, server))
    }

    /// Writes the entries into the array `name`.
    pub fn write(&self, name: &str, w: &mut DocWriter<'_>) {
        let mut list = w.array(name);
        for e in &self.0 {
            let mut one = list.doc();
            for (field, ranges) in [("clientSource", &e.client), ("serverAddress", &e.server)] {
                if let Some(ranges) = ranges {
                    let mut out = one.array(field);
                    for (text, _) in ranges {
                        out.push(text.as_str());
                    }
                }
            }
        }
    }
}

fn ranges(doc: Doc<'_>, field: &str) -> Result<Option<Vec<(String, Range)>>> {
    let texts: Vec<Value<'_>> = match doc.field(field) {
        Value::Missing => return Ok(None),
        Value::Array(list) => list.iter().collect(),
        one => vec![one],
    };
    let one = |v: &Value<'_>| {
        let text = v.as_str().ok_or_else(|| {
            MongoError::new(
                code::UNSUPPORTED_FORMAT,
                format!("'{field}' holds strings, given {}", v.type_name()),
            )
        })?;
        let range = Range::parse(text).ok_or_else(|| {
            MongoError::new(
                code::UNSUPPORTED_FORMAT,
                format!("'{text}' in '{field}' is neither an address nor a range like 10.0.0.0/8"),
            )
        })?;
        Ok((text.to_owned(), range))
    };
    texts.iter().map(one).collect::<Result<_>>().map(Some)
}

/// Restrictions in a command's argument.
///
/// # Errors
/// 12 UnsupportedFormat, 9 FailedToParse.
pub fn parse_restrictions(list: Array<'_>) -> Result<Restrictions> {
    let mut all = Vec::new();
    for value in list.iter() {
        let Value::Document(doc) = value else {
            bail!(
                code::UNSUPPORTED_FORMAT,
                "restrictions are documents, given {}",
                value.type_name()
            );
        };
        let known = |n: &str| matches!(n, "clientSource" | "serverAddress");
        if let Some((other, _)) = doc.iter().find(|(n, _)| !known(n)) {
            bail!(
                code::FAILED_TO_PARSE,
                "a restriction has no field '{other}'"
            );
        }
        all.push(Entry {
            client: ranges(doc, "clientSource")?,
            server: ranges(doc, "serverAddress")?,
        });
    }
    Ok(Restrictions(all))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{DocBuf, doc};

    #[test]
    fn ranges_hold_what_they_say() {
        for (range, ip, inside) in [
            ("10.0.0.0/8", "10.200.3.4", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("0.0.0.0/0", "1.2.3.4", true),
            ("127.0.0.1", "127.0.0.1", true),
            ("127.0.0.1", "127.0.0.2", false),
            ("127.0.0.0/8", "::ffff:127.0.0.1", true),
            ("::1", "::1", true),
            ("2001:db8::/32", "2001:db8:1::1", true),
            ("2001:db8::/32", "2001:db9::1", false),
            ("::/0", "1.2.3.4", false),
        ] {
            let found = Range::parse(range).unwrap().contains(ip.parse().unwrap());
            assert_eq!(found, inside, "{range} {ip}");
        }
        for bad in [
            "",
            "x",
            "10.0.0.0/33",
            "10.0.0.0/-1",
            "10.0.0.0/+8",
            "10.0.0/8",
            "::/129",
        ] {
            assert_eq!(Range::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn one_restriction_must_allow_the_client() {
        let d = doc! { "r": [
            { "clientSource": ["10.0.0.0/8", "::1"], "serverAddress": ["127.0.0.1"] },
            { "clientSource": ["192.168.0.1"] },
        ] };
        let r = parse_restrictions(d.doc().field("r").as_array().unwrap()).unwrap();
        let ip = |s: &str| Some(s.parse().unwrap());
        assert!(r.allow(ip("10.1.1.1"), ip("127.0.0.1")));
        assert!(!r.allow(ip("10.1.1.1"), ip("127.0.0.2")));
        assert!(r.allow(ip("192.168.0.1"), None));
        assert!(!r.allow(None, None) && Restrictions::default().allow(None, None));
        assert_eq!(DocBuf::build(|w| r.write("r", w)), d);
        for bad in [
            doc! { "r": [ 1i32 ] },
            doc! { "r": [ { "clientSource": ["nowhere"] } ] },
            doc! { "r": [ { "clientSource": [1i32] } ] },
            doc! { "r": [ { "other": ["10.0.0.1"] } ] },
        ] {
            assert!(parse_restrictions(bad.doc().field("r").as_array().unwrap()).is_err());
        }
    }
}
