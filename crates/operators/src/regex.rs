//! Regular expressions: PCRE2 in UTF mode, with the options of MongoDB and a bound on the work of one match, so that a
//! hostile pattern ends with an error instead of holding a thread.

use model::MongoError;
use pcre2::bytes::{CaptureLocations, RegexBuilder};

/// Work of one match before it is given up: about a second of backtracking at the worst.
const LIMITS: &str = "(*LIMIT_MATCH=10000000)(*LIMIT_DEPTH=250000)(*LIMIT_HEAP=64000)";

/// Longest pattern.
const MAX_PATTERN_BYTES: usize = 16_384;

/// A compiled pattern.
pub struct Regex(pcre2::bytes::Regex);

/// Why a pattern is refused; every user has error codes of its own.
#[derive(Debug, PartialEq, Eq)]
pub enum Refusal {
    /// An option letter other than `i m s x u`.
    Option(char),
    /// It does not compile; what PCRE2 says.
    Pattern(String),
}

impl Regex {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn new(pattern: &str, options: &str) -> Result<Regex, Refusal> {
        if pattern.len() > MAX_PATTERN_BYTES {
            return Err(Refusal::Pattern(format!("it has {} bytes, {MAX_PATTERN_BYTES} are allowed", pattern.len())));
        }
        let mut builder = RegexBuilder::new();
        builder.utf(true).jit_if_available(true);
        for option in options.chars() {
            match option {
                'i' => builder.caseless(true),
                'm' => builder.multi_line(true),
                's' => builder.dotall(true),
                'x' => builder.extended(true),
                'u' => &mut builder,
                other => return Err(Refusal::Option(other)),
            };
        }
        // Limits given first cannot be raised by later ones in the pattern itself.
        match builder.build(&format!("{LIMITS}{pattern}")) {
            Ok(regex) => Ok(Regex(regex)),
            Err(e) => Err(Refusal::Pattern(e.to_string())),
        }
    }

    /// True when the pattern is found in a text.
    ///
    /// # Errors
    /// 51156 when a match runs into a limit.
    pub fn is_match(&self, text: &str) -> model::Result<bool> {
        self.0.is_match(text.as_bytes()).map_err(given_up)
    }

    /// Room for the places of a match.
    pub fn places(&self) -> CaptureLocations {
        self.0.capture_locations()
    }

    /// Finds the first match at or after byte `from`; its place and those of its groups are in `places`.
    ///
    /// # Errors
    /// 51156 when a match runs into a limit.
    pub fn find_at(&self, places: &mut CaptureLocations, text: &str, from: usize) -> model::Result<bool> {
        self.0.captures_read_at(places, text.as_bytes(), from).map(|m| m.is_some()).map_err(given_up)
    }
}

fn given_up(e: pcre2::Error) -> MongoError {
    MongoError::new(51156, format!("Error occurred while executing the regular expression: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_and_refusals() {
        assert_eq!(Regex::new("^a.c$", "imsxu").unwrap().is_match("x\nA\nC"), Ok(true));
        assert_eq!(Regex::new("a", "I").err(), Some(Refusal::Option('I')));
        assert!(Regex::new(&"a".repeat(MAX_PATTERN_BYTES), "").is_ok());
        assert!(Regex::new(&"a".repeat(MAX_PATTERN_BYTES + 1), "").is_err());
        assert!(matches!(Regex::new("(", "").err(), Some(Refusal::Pattern(_))));
    }

    #[test]
    fn hostile_patterns_end() {
        let text = "a".repeat(5000);
        assert!(Regex::new("^(a+a+)+$", "").unwrap().is_match(&format!("{text}b")).is_err());
        // A pattern cannot raise the limit.
        let raised = Regex::new("(*LIMIT_MATCH=4000000000)^(a+a+)+$", "").unwrap();
        assert!(raised.is_match(&format!("{text}b")).is_err());
    }
}
