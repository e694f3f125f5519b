//! Configured searches in the form of RFC 4516 without the server: `base?attributes?scope?filter`.
//! Promises: percent escapes are decoded before names are inserted, never inside the inserted
//! names.

use crate::ber::{BOOLEAN, ENUMERATED, INTEGER, OCTETS, SEQUENCE, put, put_nested, put_number};
use crate::filter::Filter;
use crate::template::{Names, Placeholders, Template};

/// Most entries that a search requests.
pub(crate) const ENTRIES_MAX: u32 = 1000;

/// The scope of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Scope {
    Base,
    One,
    Whole,
}

/// A search.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Query {
    base: Template,
    scope: Scope,
    filter: Filter,
    /// The attribute whose values are wanted; `None` if the names of the entries are.
    pub(crate) attribute: Option<String>,
}

impl Query {
    /// Parses a search.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn parse(text: &str, places: Placeholders) -> Result<Query, String> {
        let mut parts = text.splitn(4, '?');
        let mut part = || decode_escapes(parts.next().unwrap_or_default());
        let (base, attributes, scope, filter) = (part()?, part()?, part()?, part()?);
        let attributes = String::from_utf8(attributes)
            .map_err(|_| "the attributes of the query are no text".to_owned())?;
        let attribute = match attributes.as_str() {
            "" => None,
            one if !one.contains(',') => Some(one.to_owned()),
            several => {
                return Err(format!(
                    "the query may ask for one attribute, given {several}"
                ));
            }
        };
        let scope = match String::from_utf8_lossy(&scope)
            .to_ascii_lowercase()
            .as_str()
        {
            "" | "base" => Scope::Base,
            "one" => Scope::One,
            "sub" => Scope::Whole,
            other => return Err(format!("the scope must be base, one or sub, given {other}")),
        };
        let filter = match filter.is_empty() {
            true => b"(objectClass=*)".to_vec(),
            false => filter,
        };
        Ok(Query {
            base: Template::parse(&base, places)?,
            scope,
            filter: Filter::parse(&filter, places)?,
            attribute,
        })
    }

    /// Appends the search request of one login.
    pub(crate) fn write(&self, names: &Names, seconds: u32, out: &mut Vec<u8>) {
        put_nested(out, 0x63, |out| {
            put(out, OCTETS, self.base.name(names).as_bytes());
            put(out, ENUMERATED, &[self.scope as u8]);
            // Aliases are not followed.
            put(out, ENUMERATED, &[0]);
            put_number(out, INTEGER, ENTRIES_MAX);
            put_number(out, INTEGER, seconds);
            put(out, BOOLEAN, &[0]);
            self.filter.write(names, out);
            put_nested(out, SEQUENCE, |out| {
                // RFC 4511: "1.1" requests no attribute.
                let wanted = self.attribute.as_deref().unwrap_or("1.1");
                put(out, OCTETS, wanted.as_bytes());
            });
        });
    }
}

/// Decodes escapes such as `%2c`.
fn decode_escapes(text: &str) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        if *first != b'%' {
            out.push(*first);
            rest = after;
            continue;
        }
        let digits = after.get(..2).and_then(|d| std::str::from_utf8(d).ok());
        let Some(byte) = digits.and_then(|d| u8::from_str_radix(d, 16).ok()) else {
            return Err(format!("'%' in '{text}' is not followed by two digits"));
        };
        out.push(byte);
        rest = after.get(2..).unwrap_or_default();
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_read_and_written() {
        let text = "ou=a%3fb,dc=x?memberOf?sub?(uid={0})";
        let q = Query::parse(text, Placeholders::Groups(1)).unwrap();
        assert_eq!(q.attribute.as_deref(), Some("memberOf"));
        let names = Names {
            groups: vec!["%41)".into()],
            ..Names::default()
        };
        let mut out = Vec::new();
        q.write(&names, 10, &mut out);
        let mut wanted = Vec::new();
        put_nested(&mut wanted, 0x63, |out| {
            put(out, OCTETS, b"ou=a?b,dc=x");
            out.extend_from_slice(
                b"\x0a\x01\x02\x0a\x01\x00\x02\x02\x03\xe8\x02\x01\x0a\x01\x01\x00",
            );
            out.extend_from_slice(b"\xa3\x0b\x04\x03uid\x04\x04%41)");
            out.extend_from_slice(b"\x30\x0a\x04\x08memberOf");
        });
        assert_eq!(out, wanted);
        let whole = Query::parse("{USER}", Placeholders::Users).unwrap();
        assert_eq!((whole.scope, whole.attribute), (Scope::Base, None));
    }

    #[test]
    fn wrong_queries_are_refused() {
        for (text, named) in [
            ("dc=x?a,b", "a,b"),
            ("dc=x??tree", "tree"),
            ("dc=%x", "'%'"),
            ("dc=x???uid=1", "'('"),
            ("dc={0}", "{0}"),
        ] {
            let e = Query::parse(text, Placeholders::Users).unwrap_err();
            assert!(e.contains(named), "{text}: {e}");
        }
    }
}
