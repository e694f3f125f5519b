//! Regular expressions: PCRE2 in UTF mode, with the options of MongoDB and a bound on the work of
//! one match, so that a hostile pattern ends with an error instead of blocking a thread.

use model::MongoError;
use pcre2::bytes::{CaptureLocations, RegexBuilder};
use std::sync::OnceLock;

/// Bounds of the work of one match: about a second of backtracking at worst.
const LIMITS: &str = "(*LIMIT_MATCH=10000000)(*LIMIT_DEPTH=250000)(*LIMIT_HEAP=64000)";

/// Most bytes of a pattern.
const MAX_PATTERN_BYTES: usize = 16_384;

/// A compiled pattern.
pub struct Regex {
    source: Source,
    /// For ASCII texts, where each byte is a character: PCRE2 then need not check the text as UTF-8
    /// at each start of a search.
    bytes: Option<CompiledPattern>,
    /// For all texts; compiled on first use when `bytes` exists.
    utf: OnceLock<Result<CompiledPattern, Refusal>>,
}

struct Source {
    pattern: String,
    options: String,
}

/// A pattern compiled for one kind of text.
pub struct CompiledPattern(pcre2::bytes::Regex);

/// Why a pattern is refused; each caller has its own error codes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// An option letter other than `i m s x u`.
    Option(char),
    /// It does not compile; the message of PCRE2.
    Pattern(String),
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Refusal::Option(letter) => write!(f, "unknown option '{letter}'"),
            Refusal::Pattern(why) => f.write_str(why),
        }
    }
}

impl Regex {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn new(pattern: &str, options: &str) -> Result<Regex, Refusal> {
        if pattern.len() > MAX_PATTERN_BYTES {
            return Err(Refusal::Pattern(format!(
                "it has {} bytes, {MAX_PATTERN_BYTES} are allowed",
                pattern.len()
            )));
        }
        let source = Source {
            pattern: pattern.to_owned(),
            options: options.to_owned(),
        };
        let utf = OnceLock::new();
        let bytes = match means_the_same_on_bytes(pattern) {
            true => Some(source.compile(false)?),
            false => None,
        };
        if bytes.is_none() {
            let _ = utf.set(Ok(source.compile(true)?));
        }
        Ok(Regex { source, bytes, utf })
    }

    /// The compiled form for a text.
    ///
    /// # Errors
    /// 51091 in theory: a pattern that compiles for bytes also compiles for characters.
    pub fn compile_for(&self, text: &str) -> model::Result<&CompiledPattern> {
        match &self.bytes {
            Some(bytes) if text.is_ascii() => Ok(bytes),
            _ => match self.utf.get_or_init(|| self.source.compile(true)) {
                Ok(utf) => Ok(utf),
                Err(why) => Err(MongoError::new(
                    51091,
                    format!("Regular expression is invalid: {why}"),
                )),
            },
        }
    }

    /// True when the pattern is found in a text.
    ///
    /// # Errors
    /// 51156 when a match reaches a limit.
    pub fn is_match(&self, text: &str) -> model::Result<bool> {
        self.compile_for(text)?
            .0
            .is_match(text.as_bytes())
            .map_err(match_error)
    }
}

/// Whether a pattern finds the same matches in an ASCII text read as bytes: it names no characters
/// by number or property.
fn means_the_same_on_bytes(pattern: &str) -> bool {
    let special = ["(*", "\\x{", "\\o{", "\\N", "\\p", "\\P", "\\X", "\\C"];
    pattern.is_ascii() && !special.iter().any(|s| pattern.contains(s))
}

impl Source {
    fn compile(&self, utf: bool) -> Result<CompiledPattern, Refusal> {
        let mut builder = RegexBuilder::new();
        builder.utf(utf).jit_if_available(true);
        for option in self.options.chars() {
            match option {
                'i' => builder.caseless(true),
                'm' => builder.multi_line(true),
                's' => builder.dotall(true),
                'x' => builder.extended(true),
                'u' => &mut builder,
                other => return Err(Refusal::Option(other)),
            };
        }
        // Limits at the start of the pattern cannot be raised by later ones.
        match builder.build(&format!("{LIMITS}{}", self.pattern)) {
            Ok(regex) => Ok(CompiledPattern(regex)),
            Err(e) => Err(Refusal::Pattern(e.to_string())),
        }
    }
}

impl CompiledPattern {
    /// Space for the positions of a match.
    pub fn places(&self) -> CaptureLocations {
        self.0.capture_locations()
    }

    /// Finds the first match at or after byte `from`; its position and those of its groups are in
    /// `places`.
    ///
    /// # Errors
    /// 51156 when a match reaches a limit.
    pub fn find_at(
        &self,
        places: &mut CaptureLocations,
        text: &str,
        from: usize,
    ) -> model::Result<bool> {
        self.0
            .captures_read_at(places, text.as_bytes(), from)
            .map(|m| m.is_some())
            .map_err(match_error)
    }
}

fn match_error(e: pcre2::Error) -> MongoError {
    MongoError::new(
        51156,
        format!("Error occurred while executing the regular expression: {e}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_and_refusals() {
        assert_eq!(
            Regex::new("^a.c$", "imsxu").unwrap().is_match("x\nA\nC"),
            Ok(true)
        );
        assert_eq!(Regex::new("a", "I").err(), Some(Refusal::Option('I')));
        assert!(Regex::new(&"a".repeat(MAX_PATTERN_BYTES), "").is_ok());
        assert!(Regex::new(&"a".repeat(MAX_PATTERN_BYTES + 1), "").is_err());
        assert!(matches!(
            Regex::new("(", "").err(),
            Some(Refusal::Pattern(_))
        ));
    }

    #[test]
    fn patterns_find_the_same_in_both_kinds_of_text() {
        for (pattern, options, text, wanted) in [
            ("^a.c$", "", "abc", true),
            ("^a.c$", "", "aéc", true),
            ("k", "i", "\u{212a}", true),
            ("[^a]", "", "a", false),
            ("[^a]", "", "é", true),
            ("é?b", "", "b", true),
            (r"\x{e9}", "", "é", true),
            (r"\w", "", "é", false),
        ] {
            assert_eq!(
                Regex::new(pattern, options).unwrap().is_match(text),
                Ok(wanted),
                "{pattern} in {text}"
            );
        }
    }

    #[test]
    fn hostile_patterns_end() {
        let text = "a".repeat(5000);
        assert!(
            Regex::new("^(a+a+)+$", "")
                .unwrap()
                .is_match(&format!("{text}b"))
                .is_err()
        );
        // A pattern cannot raise the limit.
        let raised = Regex::new("(*LIMIT_MATCH=4000000000)^(a+a+)+$", "").unwrap();
        assert!(raised.is_match(&format!("{text}b")).is_err());
    }
}
