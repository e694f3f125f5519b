//! Search filters (RFC 4515). Promises: a filter is parsed once, when the server starts; the names
//! of a login are inserted later as values, so they can never become part of its syntax.

use crate::ber::{OCTETS, SEQUENCE, put, put_nested};
use crate::template::{Names, Placeholders, Template};

/// Deepest nesting.
const DEPTH_MAX: usize = 32;

/// A filter.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Filter {
    All(Vec<Filter>),
    Any(Vec<Filter>),
    Not(Box<Filter>),
    /// A comparison (equal, at least, at most or approximate): the tag, the attribute and the
    /// value.
    Compares(u8, Vec<u8>, Template),
    Present(Vec<u8>),
    /// A substring match; the tag of each piece says whether it is the beginning, the end or in
    /// between.
    Pieces(Vec<u8>, Vec<(u8, Template)>),
    Extended {
        rule: Vec<u8>,
        attribute: Vec<u8>,
        value: Template,
        names_too: bool,
    },
}

const EQUAL: u8 = 0xa3;
const AT_LEAST: u8 = 0xa5;
const AT_MOST: u8 = 0xa6;
const ABOUT: u8 = 0xa8;
const INITIAL: u8 = 0x80;
const WITHIN: u8 = 0x81;
const FINAL: u8 = 0x82;

struct Parser<'a> {
    rest: &'a [u8],
    places: Placeholders,
}

impl Filter {
    /// Parses a filter.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn parse(text: &[u8], places: Placeholders) -> Result<Filter, String> {
        let mut parser = Parser { rest: text, places };
        let filter = parser.filter(0)?;
        match parser.rest {
            [] => Ok(filter),
            more => Err(format!(
                "something follows the filter: {}",
                String::from_utf8_lossy(more)
            )),
        }
    }

    /// Appends the filter with the names of one login.
    pub(crate) fn write(&self, names: &Names, out: &mut Vec<u8>) {
        match self {
            Filter::All(of) => {
                put_nested(out, 0xa0, |out| of.iter().for_each(|f| f.write(names, out)))
            }
            Filter::Any(of) => {
                put_nested(out, 0xa1, |out| of.iter().for_each(|f| f.write(names, out)))
            }
            Filter::Not(of) => put_nested(out, 0xa2, |out| of.write(names, out)),
            Filter::Compares(tag, attribute, value) => put_nested(out, *tag, |out| {
                put(out, OCTETS, attribute);
                put(out, OCTETS, &value.value(names));
            }),
            Filter::Present(attribute) => put(out, 0x87, attribute),
            Filter::Pieces(attribute, pieces) => put_nested(out, 0xa4, |out| {
                put(out, OCTETS, attribute);
                put_nested(out, SEQUENCE, |out| {
                    for (tag, piece) in pieces {
                        put(out, *tag, &piece.value(names));
                    }
                });
            }),
            Filter::Extended {
                rule,
                attribute,
                value,
                names_too,
            } => put_nested(out, 0xa9, |out| {
                if !rule.is_empty() {
                    put(out, 0x81, rule);
                }
                if !attribute.is_empty() {
                    put(out, 0x82, attribute);
                }
                put(out, 0x83, &value.value(names));
                if *names_too {
                    put(out, 0x84, &[0xff]);
                }
            }),
        }
    }
}

impl Parser<'_> {
    fn take(&mut self, wanted: u8) -> Result<(), String> {
        match self.rest.split_first() {
            Some((first, rest)) if *first == wanted => {
                self.rest = rest;
                Ok(())
            }
            _ => Err(format!(
                "the filter needs '{}' before '{}'",
                char::from(wanted),
                String::from_utf8_lossy(self.rest)
            )),
        }
    }

    fn filter(&mut self, depth: usize) -> Result<Filter, String> {
        if depth > DEPTH_MAX {
            return Err("the filter is nested too deeply".to_owned());
        }
        self.take(b'(')?;
        let filter = match self.rest.first() {
            Some(b'&') => Filter::All(self.list(depth)?),
            Some(b'|') => Filter::Any(self.list(depth)?),
            Some(b'!') => {
                self.take(b'!')?;
                Filter::Not(Box::new(self.filter(depth + 1)?))
            }
            _ => self.item()?,
        };
        self.take(b')')?;
        Ok(filter)
    }

    fn list(&mut self, depth: usize) -> Result<Vec<Filter>, String> {
        self.rest = self.rest.get(1..).unwrap_or_default();
        let mut all = Vec::new();
        while self.rest.first() == Some(&b'(') {
            all.push(self.filter(depth + 1)?);
        }
        Ok(all)
    }

    fn item(&mut self) -> Result<Filter, String> {
        let end = self.rest.iter().position(|b| matches!(b, b'(' | b')'));
        let (item, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        let shown = || String::from_utf8_lossy(item).into_owned();
        let Some(at) = item.iter().position(|b| *b == b'=') else {
            return Err(format!("'{}' in the filter compares nothing", shown()));
        };
        let (name, value) = item.split_at(at);
        let value = value.get(1..).unwrap_or_default();
        let (tag, name) = match name.split_last() {
            Some((b'>', name)) => (AT_LEAST, name),
            Some((b'<', name)) => (AT_MOST, name),
            Some((b'~', name)) => (ABOUT, name),
            Some((b':', name)) => return self.parse_extended(name, value),
            _ => (EQUAL, name),
        };
        let attribute = attribute(name)?;
        if tag == EQUAL && value == b"*" {
            return Ok(Filter::Present(attribute));
        }
        if tag == EQUAL && value.contains(&b'*') {
            return Ok(Filter::Pieces(attribute, self.pieces(value)?));
        }
        Ok(Filter::Compares(tag, attribute, self.value(value)?))
    }

    fn parse_extended(&self, name: &[u8], value: &[u8]) -> Result<Filter, String> {
        let mut parts = name.split(|b| *b == b':');
        let first = parts.next().unwrap_or_default();
        let mut rule = &[][..];
        let mut names_too = false;
        for part in parts {
            if part.eq_ignore_ascii_case(b"dn") && !names_too {
                names_too = true;
            } else if rule.is_empty() {
                rule = part;
            } else {
                return Err("a rule in the filter has too many parts".to_owned());
            }
        }
        Ok(Filter::Extended {
            rule: if rule.is_empty() {
                Vec::new()
            } else {
                attribute(rule)?
            },
            attribute: if first.is_empty() {
                Vec::new()
            } else {
                attribute(first)?
            },
            value: self.value(value)?,
            names_too,
        })
    }

    fn pieces(&self, value: &[u8]) -> Result<Vec<(u8, Template)>, String> {
        let all: Vec<&[u8]> = value.split(|b| *b == b'*').collect();
        let last = all.len() - 1;
        let mut pieces = Vec::new();
        for (i, piece) in all.into_iter().enumerate() {
            let tag = match i {
                0 => INITIAL,
                _ if i == last => FINAL,
                _ => WITHIN,
            };
            if !piece.is_empty() {
                pieces.push((tag, self.value(piece)?));
            }
        }
        match pieces.is_empty() {
            true => Err("a value in the filter is nothing but '*'".to_owned()),
            false => Ok(pieces),
        }
    }

    /// A value, in which `\2a` stands for a byte.
    fn value(&self, text: &[u8]) -> Result<Template, String> {
        let mut bytes = Vec::new();
        let mut rest = text;
        while let Some((first, after)) = rest.split_first() {
            if *first != b'\\' {
                bytes.push(*first);
                rest = after;
                continue;
            }
            let digits = after.get(..2).and_then(|d| std::str::from_utf8(d).ok());
            let byte = digits.and_then(|d| u8::from_str_radix(d, 16).ok());
            let Some(byte) = byte else {
                return Err("'\\' in the filter is not followed by two digits".to_owned());
            };
            bytes.push(byte);
            rest = after.get(2..).unwrap_or_default();
        }
        Template::parse(&bytes, self.places)
    }
}

/// The name of an attribute or a matching rule.
fn attribute(name: &[u8]) -> Result<Vec<u8>, String> {
    let allowed = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b';' | b'_');
    match !name.is_empty() && name.iter().all(allowed) {
        true => Ok(name.to_vec()),
        false => Err(format!(
            "'{}' in the filter is no name of an attribute",
            String::from_utf8_lossy(name)
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encode_filter(text: &str, user: &str) -> Vec<u8> {
        let filter = Filter::parse(text.as_bytes(), Placeholders::Users).unwrap();
        let names = Names {
            user: user.into(),
            ..Names::default()
        };
        let mut out = Vec::new();
        filter.write(&names, &mut out);
        out
    }

    #[test]
    fn filters_are_written_as_rfc_4511_has_them() {
        assert_eq!(encode_filter("(a=b)", ""), b"\xa3\x06\x04\x01a\x04\x01b");
        assert_eq!(encode_filter("(a=*)", ""), b"\x87\x01a");
        assert_eq!(encode_filter("(a>=b)", ""), b"\xa5\x06\x04\x01a\x04\x01b");
        assert_eq!(encode_filter("(a<=b)", ""), b"\xa6\x06\x04\x01a\x04\x01b");
        assert_eq!(encode_filter("(a~=b)", ""), b"\xa8\x06\x04\x01a\x04\x01b");
        assert_eq!(
            encode_filter("(&(a=b)(!(c=\\2a)))", ""),
            b"\xa0\x12\xa3\x06\x04\x01a\x04\x01b\xa2\x08\xa3\x06\x04\x01c\x04\x01*"
        );
        assert_eq!(
            encode_filter("(|(a=x*y*z)(b=*q))", ""),
            [
                &b"\xa1\x1a\xa4\x0e\x04\x01a\x30\x09\x80\x01x\x81\x01y\x82\x01z"[..],
                b"\xa4\x08\x04\x01b\x30\x03\x82\x01q"
            ]
            .concat()
        );
        assert_eq!(
            encode_filter("(m:1.2:=v)", ""),
            b"\xa9\x0b\x81\x031.2\x82\x01m\x83\x01v"
        );
        assert_eq!(
            encode_filter("(m:dn:=v)", ""),
            b"\xa9\x09\x82\x01m\x83\x01v\x84\x01\xff"
        );
    }

    #[test]
    fn a_name_is_a_value_whatever_is_in_it() {
        let name = "*)(uid=*))(|(uid=*\\2a{USER}\0";
        let out = encode_filter("(uid={USER})", name);
        let mut wanted = Vec::new();
        put_nested(&mut wanted, EQUAL, |out| {
            put(out, OCTETS, b"uid");
            put(out, OCTETS, name.as_bytes());
        });
        assert_eq!(out, wanted);
    }

    #[test]
    fn what_is_no_filter_is_refused() {
        let deep = format!("{}(a=b){}", "(!".repeat(40), ")".repeat(40));
        for text in [
            "",
            "a=b",
            "(a=b",
            "(a=b))",
            "(ab)",
            "(=b)",
            "(a b=c)",
            "(a=\\2)",
            "(a=\\zz)",
            "(a=**)",
            "(&(a=b)",
            "(a={0})",
            "(a:b:c:=d)",
            "(!)",
            &deep,
        ] {
            let parsed = Filter::parse(text.as_bytes(), Placeholders::Users);
            assert!(parsed.is_err(), "{text}: {parsed:?}");
        }
    }
}
