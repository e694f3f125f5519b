//! `$regex` with `$options`, and regular expressions in place of values. PCRE2 in UTF mode; options
//! `i m s x u`. Matches strings and symbols by the pattern, and equal regular expressions as
//! values. Errors: 2 (not a string, `$options` without `$regex`, embedded null in the pattern, too
//! long), 51074 and 51075 (options given twice), 51091 (does not compile), 51108 (unknown option,
//! also a null byte).

use crate::regex::{Refusal, Regex};
use model::{Result, Value, bail, code};

/// A compiled pattern.
pub struct Pattern {
    source: String,
    options: String,
    compiled: Box<Regex>,
    shortcut: Shortcut,
}

/// What is known about matches without running the pattern.
enum Shortcut {
    /// The text must begin with this; the flag says whether that is sufficient.
    Prefix(String, bool),
    /// The text must contain this, and that is sufficient.
    Holds(Box<memchr::memmem::Finder<'static>>),
    /// Nothing is known.
    None,
}

impl Pattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// 2 BadValue for a null byte in the pattern, 51091 for an invalid pattern, 51108 for an
    /// invalid option.
    pub fn new(source: &str, options: &str) -> Result<Pattern> {
        if source.contains('\0') {
            bail!(
                code::BAD_VALUE,
                "Regular expression cannot contain an embedded null byte"
            );
        }
        if options.contains('\0') {
            bail!(
                51108,
                "Regular expression options string cannot contain an embedded null byte"
            );
        }
        let compiled = match Regex::new(source, options) {
            Ok(compiled) => Box::new(compiled),
            Err(Refusal::Option(o)) => bail!(51108, "invalid flag in regex options: {o}"),
            Err(Refusal::Pattern(why)) => bail!(51091, "Regular expression is invalid: {why}"),
        };
        let mut pattern = Pattern {
            source: source.to_owned(),
            options: options.to_owned(),
            compiled,
            shortcut: Shortcut::None,
        };
        pattern.shortcut = match pattern.literal_prefix() {
            Some((prefix, exact)) => Shortcut::Prefix(prefix.to_owned(), exact),
            None if pattern.is_literal() => {
                Shortcut::Holds(Box::new(memchr::memmem::Finder::new(source).into_owned()))
            }
            None => Shortcut::None,
        };
        Ok(pattern)
    }

    /// The original pattern.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The original options.
    pub fn options(&self) -> &str {
        &self.options
    }

    /// The literal that every match begins with, when the pattern is a plain prefix (`^abc`, no
    /// options): used as an index bound.
    pub fn literal_prefix(&self) -> Option<(&str, bool)> {
        if !self.options.chars().all(|c| c == 'u' || c == 's') {
            return None;
        }
        let body = self
            .source
            .strip_prefix('^')
            .or_else(|| self.source.strip_prefix("\\A"))?;
        if body.contains('|') {
            return None;
        }
        let end = body.find(is_special).unwrap_or(body.len());
        // A quantifier makes the character before it optional.
        let optional = body[end..].starts_with(['*', '?', '{']);
        let cut = if optional {
            body[..end].char_indices().last().map_or(0, |(i, _)| i)
        } else {
            end
        };
        let exact = end == body.len() || &body[end..] == ".*";
        (cut > 0).then(|| (&body[..cut], exact))
    }

    /// True when the pattern is found in a text.
    ///
    /// # Errors
    /// 51156 when the match reaches a limit.
    pub fn is_match(&self, text: &str) -> Result<bool> {
        match &self.shortcut {
            Shortcut::Prefix(prefix, exact) => Ok(
                text.starts_with(prefix.as_str()) && (*exact || self.compiled.is_match(text)?)
            ),
            Shortcut::Holds(finder) => Ok(finder.find(text.as_bytes()).is_some()),
            Shortcut::None => self.compiled.is_match(text),
        }
    }

    /// True when every character stands for itself.
    fn is_literal(&self) -> bool {
        self.options.chars().all(|c| matches!(c, 'u' | 's' | 'm'))
            && !self.source.contains(is_special)
    }

    pub(super) fn matches(&self, v: &Value<'_>) -> Result<bool> {
        match v {
            Value::String(s) | Value::Symbol(s) => self.is_match(s),
            Value::Regex(r) => Ok(r.pattern == self.source && r.options == self.options),
            _ => Ok(false),
        }
    }
}

fn is_special(c: char) -> bool {
    ".^$*+?()[]{}|\\#".contains(c)
}

/// `$regex` and `$options` of one field.
#[derive(Default)]
pub(super) struct RegexSpec<'a> {
    regex: Option<&'a str>,
    options: Option<&'a str>,
    options_of_regex: bool,
}

impl<'a> RegexSpec<'a> {
    pub(super) fn set_regex(&mut self, v: Value<'a>) -> Result<()> {
        match v {
            Value::String(s) => self.regex = Some(s),
            Value::Regex(r) => {
                self.regex = Some(r.pattern);
                if !r.options.is_empty() {
                    if self.options.is_some_and(|o| !o.is_empty()) {
                        bail!(51074, "options set in both $regex and $options");
                    }
                    self.options = Some(r.options);
                    self.options_of_regex = true;
                }
            }
            _ => bail!(code::BAD_VALUE, "$regex has to be a string"),
        }
        Ok(())
    }

    pub(super) fn set_options(&mut self, v: Value<'a>) -> Result<()> {
        let Value::String(s) = v else {
            bail!(code::BAD_VALUE, "$options has to be a string")
        };
        if self.options_of_regex {
            bail!(51075, "options set in both $regex and $options");
        }
        self.options = Some(s);
        Ok(())
    }

    /// The pattern, when either of the two was given.
    pub(super) fn finish(self) -> Result<Option<Pattern>> {
        match (self.regex, self.options) {
            (None, None) => Ok(None),
            (None, Some(_)) => bail!(code::BAD_VALUE, "$options needs a $regex"),
            (Some(r), o) => Pattern::new(r, o.unwrap_or("")).map(Some),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_and_errors() {
        assert!(Pattern::new("^AB", "i").unwrap().is_match("abc").unwrap());
        assert!(!Pattern::new("a.b", "").unwrap().is_match("a\nb").unwrap());
        assert!(Pattern::new("a.b", "s").unwrap().is_match("a\nb").unwrap());
        for (p, o, wanted) in [("[", "", 51091), ("a", "z", 51108), ("a\0", "", 2)] {
            assert_eq!(
                Pattern::new(p, o).err().map(|e| e.code()),
                Some(wanted),
                "{p:?} {o:?}"
            );
        }
    }

    #[test]
    fn prefixes() {
        for (p, wanted) in [
            ("^abc", Some(("abc", true))),
            ("^ab*", Some(("a", false))),
            ("^abc.*", Some(("abc", true))),
            ("^a|b", None),
            ("abc", None),
        ] {
            assert_eq!(Pattern::new(p, "").unwrap().literal_prefix(), wanted, "{p}");
        }
    }

    #[test]
    fn runaway_patterns_end() {
        let p = Pattern::new("(a+)+$", "").unwrap();
        let text = format!("{}b", "a".repeat(5000));
        assert_eq!(p.is_match(&text).err().map(|e| e.code()), Some(51156));
    }
}
