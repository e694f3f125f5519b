//! The subject of a certificate as a user name: RFC 2253, the form of MongoDB's `$external` users.

/// Attributes by the bytes of their object identifier.
const NAMES: &[(&[u8], &str)] = &[
    (&[0x55, 4, 3], "CN"),
    (&[0x55, 4, 6], "C"),
    (&[0x55, 4, 7], "L"),
    (&[0x55, 4, 8], "ST"),
    (&[0x55, 4, 9], "STREET"),
    (&[0x55, 4, 10], "O"),
    (&[0x55, 4, 11], "OU"),
    (
        &[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 25],
        "DC",
    ),
    (
        &[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 1],
        "UID",
    ),
    (
        &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 1],
        "emailAddress",
    ),
];

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OID: u8 = 0x06;
const VERSION: u8 = 0xa0;

/// The first DER element: its tag, its content, the bytes after it.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = der.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (len, rest) = match first {
        0..=0x7f => (usize::from(*first), rest),
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            let len = digits.iter().fold(0usize, |n, d| n << 8 | usize::from(*d));
            (len, rest)
        }
        _ => return None,
    };
    let (content, after) = rest.split_at_checked(len)?;
    Some((*tag, content, after))
}

fn expect(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, content, after) = element(der)?;
    (found == tag).then_some((content, after))
}

/// A string of any of the types that names use.
fn text(tag: u8, content: &[u8]) -> Option<String> {
    match tag {
        // UTF8String, PrintableString, IA5String, NumericString.
        0x0c | 0x13 | 0x16 | 0x12 => String::from_utf8(content.to_vec()).ok(),
        // TeletexString, as Latin-1.
        0x14 => Some(content.iter().map(|b| char::from(*b)).collect()),
        // BMPString.
        0x1e => {
            let units: Vec<u16> = content
                .chunks_exact(2)
                .map(|c| u16::from_be_bytes([c[0], c[1]]))
                .collect();
            String::from_utf16(&units).ok()
        }
        _ => None,
    }
}

fn write_escaped(value: &str, out: &mut String) {
    let last = value.chars().count().saturating_sub(1);
    for (i, c) in value.chars().enumerate() {
        let special = matches!(c, ',' | '+' | '"' | '\\' | '<' | '>' | ';');
        let edge = (i == 0 && matches!(c, ' ' | '#')) || (i == last && c == ' ');
        if special || edge {
            out.push('\\');
        }
        out.push(c);
    }
}

/// An object identifier with dots between its base-128 numbers.
fn format_oid(oid: &[u8]) -> String {
    let mut numbers: Vec<u64> = Vec::new();
    let mut n = 0u64;
    for byte in oid {
        n = n << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            if numbers.is_empty() {
                let first = (n / 40).min(2);
                numbers.push(first);
                n -= first * 40;
            }
            numbers.push(std::mem::take(&mut n));
        }
    }
    let words: Vec<String> = numbers.iter().map(u64::to_string).collect();
    words.join(".")
}

/// The subject of a DER certificate, the most specific part first. `None` if the bytes are no
/// certificate or a part of the subject cannot be written.
pub fn subject(certificate: &[u8]) -> Option<String> {
    let (whole, _) = expect(certificate, SEQUENCE)?;
    let (mut signed, _) = expect(whole, SEQUENCE)?;
    if let Some((_, after)) = expect(signed, VERSION) {
        signed = after;
    }
    // Skips serial number, algorithm, issuer, validity.
    for _ in 0..4 {
        signed = element(signed)?.2;
    }
    let (mut name, _) = expect(signed, SEQUENCE)?;
    let mut parts = Vec::new();
    while !name.is_empty() {
        let (mut set, after) = expect(name, SET)?;
        name = after;
        let mut part = String::new();
        while !set.is_empty() {
            let (pair, after) = expect(set, SEQUENCE)?;
            set = after;
            let (oid, value) = expect(pair, OID)?;
            let (tag, content, _) = element(value)?;
            if !part.is_empty() {
                part.push('+');
            }
            match NAMES.iter().find(|(known, _)| *known == oid) {
                Some((_, name)) => part.push_str(name),
                None => part.push_str(&format_oid(oid)),
            }
            part.push('=');
            write_escaped(&text(tag, content)?, &mut part);
        }
        parts.push(part);
    }
    parts.reverse();
    (!parts.is_empty()).then(|| parts.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn der(tag: u8, content: &[u8]) -> Vec<u8> {
        [&[tag, u8::try_from(content.len()).unwrap()], content].concat()
    }

    fn certificate(name: &[u8]) -> Vec<u8> {
        let empty = der(SEQUENCE, &[]);
        let signed = [
            der(VERSION, &[2, 1, 2]),
            der(2, &[1]),
            empty.clone(),
            empty.clone(),
            empty,
            der(SEQUENCE, name),
        ];
        der(SEQUENCE, &der(SEQUENCE, &signed.concat()))
    }

    fn part(oid: &[u8], tag: u8, value: &[u8]) -> Vec<u8> {
        der(
            SET,
            &der(SEQUENCE, &[der(OID, oid), der(tag, value)].concat()),
        )
    }

    #[test]
    fn subjects_are_written_as_mongodb_writes_them() {
        let name = [
            part(&[0x55, 4, 6], 0x13, b"DE"),
            part(&[0x55, 4, 10], 0x0c, b"Acme, Inc"),
            part(&[0x55, 4, 3], 0x0c, "Zo\u{eb}".as_bytes()),
            part(&[0x2a, 3, 4], 0x0c, b" x"),
        ];
        let text = subject(&certificate(&name.concat()));
        assert_eq!(
            text.as_deref(),
            Some("1.2.3.4=\\ x,CN=Zo\u{eb},O=Acme\\, Inc,C=DE")
        );
    }

    #[test]
    fn what_is_no_certificate_has_no_subject() {
        let good = certificate(&part(&[0x55, 4, 3], 0x0c, b"x"));
        assert!(subject(&good).is_some());
        for len in 0..good.len() {
            assert_eq!(subject(&good[..len]), None, "{len}");
        }
        assert_eq!(subject(&certificate(&[])), None);
        assert_eq!(
            subject(&certificate(&part(&[0x55, 4, 3], 0x04, b"x"))),
            None
        );
    }
}
