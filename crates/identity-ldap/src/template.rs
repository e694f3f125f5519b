//! Texts with placeholders that a login fills: `{USER}`, `{PROVIDED_USER}`, `{0}`. Promises:
//! placeholders are recognized when the text is parsed, never in what is inserted.

/// A part of a text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Part {
    Text(Vec<u8>),
    /// A capture group of the matching pattern.
    Group(usize),
    /// The user's name in the directory.
    User,
    /// The name that the client has sent.
    Provided,
}

/// A text with placeholders.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Template(pub(crate) Vec<Part>);

/// The values for the placeholders of a login.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    pub(crate) user: String,
    pub(crate) provided: String,
    pub(crate) groups: Vec<String>,
}

/// Which placeholders a text may have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Placeholders {
    /// `{0}` up to, but not including, the number of groups of a pattern.
    Groups(usize),
    /// `{USER}` and `{PROVIDED_USER}`.
    Users,
}

impl Template {
    /// Parses a text.
    ///
    /// # Errors
    /// What is wrong with a placeholder.
    pub(crate) fn parse(text: &[u8], places: Placeholders) -> Result<Template, String> {
        let mut parts = Vec::new();
        let mut plain = Vec::new();
        let mut rest = text;
        while let Some((first, after)) = rest.split_first() {
            if *first != b'{' {
                plain.push(*first);
                rest = after;
                continue;
            }
            let Some(end) = after.iter().position(|b| *b == b'}') else {
                return Err("a '{' is not followed by '}'".to_owned());
            };
            let (name, after) = after.split_at(end);
            let name = String::from_utf8_lossy(name);
            let part = match (places, &*name) {
                (Placeholders::Users, "USER") => Part::User,
                (Placeholders::Users, "PROVIDED_USER") => Part::Provided,
                (Placeholders::Groups(count), number) => match number.parse::<usize>() {
                    Ok(n) if n < count => Part::Group(n),
                    _ => return Err(format!("{{{name}}} is no group of the pattern")),
                },
                _ => {
                    return Err(format!(
                        "{{{name}}} is neither {{USER}} nor {{PROVIDED_USER}}"
                    ));
                }
            };
            if !plain.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut plain)));
            }
            parts.push(part);
            rest = after.get(1..).unwrap_or_default();
        }
        if !plain.is_empty() {
            parts.push(Part::Text(plain));
        }
        Ok(Template(parts))
    }

    /// The text with its placeholders filled, as a value: nothing is escaped.
    pub(crate) fn value(&self, names: &Names) -> Vec<u8> {
        let mut out = Vec::new();
        for part in &self.0 {
            out.extend_from_slice(part.fill(names));
        }
        out
    }

    /// The text as a distinguished name. Inserted values are escaped (RFC 4514), unless the text is
    /// a single placeholder: then the value is the whole name.
    pub(crate) fn name(&self, names: &Names) -> String {
        let alone = self.0.len() == 1;
        let mut out = Vec::new();
        for part in &self.0 {
            let text = part.fill(names);
            match part {
                Part::Text(_) => out.extend_from_slice(text),
                _ if alone => out.extend_from_slice(text),
                _ => escape(text, &mut out),
            }
        }
        String::from_utf8_lossy(&out).into_owned()
    }
}

impl Part {
    fn fill<'a>(&'a self, names: &'a Names) -> &'a [u8] {
        match self {
            Part::Text(text) => text,
            Part::Group(n) => names.groups.get(*n).map_or(&[], |g| g.as_bytes()),
            Part::User => names.user.as_bytes(),
            Part::Provided => names.provided.as_bytes(),
        }
    }
}

/// Escapes a value within a distinguished name (RFC 4514, 2.4).
fn escape(value: &[u8], out: &mut Vec<u8>) {
    let last = value.len().saturating_sub(1);
    for (i, b) in value.iter().enumerate() {
        let edge = (i == 0 && matches!(b, b' ' | b'#')) || (i == last && *b == b' ');
        match b {
            b',' | b'+' | b'"' | b'\\' | b'<' | b'>' | b';' | b'=' => out.extend([b'\\', *b]),
            _ if edge => out.extend([b'\\', *b]),
            0..=0x1f | 0x7f => out.extend(format!("\\{b:02x}").bytes()),
            _ => out.push(*b),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Names {
        Names {
            user: "cn=u".into(),
            provided: "p".into(),
            groups: vec![text.into()],
        }
    }

    #[test]
    fn what_fills_a_place_is_no_syntax() {
        let t = Template::parse(b"cn={0},dc=x", Placeholders::Groups(1)).unwrap();
        for (given, wanted) in [
            ("ann", "cn=ann,dc=x"),
            ("a,dc=evil", "cn=a\\,dc\\=evil,dc=x"),
            ("a+b=\"c\"\\<>;", "cn=a\\+b\\=\\\"c\\\"\\\\\\<\\>\\;,dc=x"),
            (" #a ", "cn=\\ #a\\ ,dc=x"),
            ("#a", "cn=\\#a,dc=x"),
            ("a\0\n", "cn=a\\00\\0a,dc=x"),
            ("{0}{USER}", "cn={0}{USER},dc=x"),
        ] {
            assert_eq!(t.name(&names(given)), wanted, "{given}");
        }
        let whole = Template::parse(b"{0}", Placeholders::Groups(1)).unwrap();
        assert_eq!(whole.name(&names("cn=a,dc=x")), "cn=a,dc=x");
        assert_eq!(whole.value(&names("*)(")), b"*)(");
    }

    #[test]
    fn places_that_do_not_exist_are_refused() {
        for (text, places) in [
            ("{1}", Placeholders::Groups(1)),
            ("{USER}", Placeholders::Groups(1)),
            ("{0", Placeholders::Groups(1)),
            ("{0}", Placeholders::Users),
            ("{user}", Placeholders::Users),
            ("{", Placeholders::Users),
        ] {
            assert!(Template::parse(text.as_bytes(), places).is_err(), "{text}");
        }
        let both = Template::parse(b"a{USER}b{PROVIDED_USER}", Placeholders::Users).unwrap();
        assert_eq!(both.value(&names("")), b"acn=ubp");
    }
}
