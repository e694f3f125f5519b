//! The languages of text search: their names, stemmers and stop words.

use rust_stemmers::{Algorithm, Stemmer};
use rustc_hash::FxHashSet;
use std::sync::LazyLock;

/// A supported language.
struct SupportedLanguage {
    name: &'static str,
    /// ISO 639-1.
    code: &'static str,
    algorithm: Algorithm,
}

const fn known(name: &'static str, code: &'static str, algorithm: Algorithm) -> SupportedLanguage {
    SupportedLanguage {
        name,
        code,
        algorithm,
    }
}

static LANGUAGES: [SupportedLanguage; 15] = [
    known("danish", "da", Algorithm::Danish),
    known("dutch", "nl", Algorithm::Dutch),
    known("english", "en", Algorithm::English),
    known("finnish", "fi", Algorithm::Finnish),
    known("french", "fr", Algorithm::French),
    known("german", "de", Algorithm::German),
    known("hungarian", "hu", Algorithm::Hungarian),
    known("italian", "it", Algorithm::Italian),
    known("norwegian", "nb", Algorithm::Norwegian),
    known("portuguese", "pt", Algorithm::Portuguese),
    known("romanian", "ro", Algorithm::Romanian),
    known("russian", "ru", Algorithm::Russian),
    known("spanish", "es", Algorithm::Spanish),
    known("swedish", "sv", Algorithm::Swedish),
    known("turkish", "tr", Algorithm::Turkish),
];

static STOP_WORDS: LazyLock<Vec<FxHashSet<&'static str>>> = LazyLock::new(|| {
    // The stemming library lists Norwegian under its macrolanguage code.
    let code = |k: &SupportedLanguage| if k.code == "nb" { "no" } else { k.code };
    LANGUAGES
        .iter()
        .map(|k| {
            stop_words::lookup(code(k))
                .unwrap_or(&[])
                .iter()
                .copied()
                .collect()
        })
        .collect()
});

/// A language of text search, or none: then words are neither stemmed nor filtered.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Language(Option<u8>);

impl Language {
    /// No stemming, no stop words.
    pub const NONE: Language = Language(None);

    /// Finds a language by name or ISO code, ignoring case.
    pub fn find(name: &str) -> Option<Language> {
        if name.eq_ignore_ascii_case("none") {
            return Some(Language::NONE);
        }
        let at = LANGUAGES
            .iter()
            .position(|k| k.name.eq_ignore_ascii_case(name) || k.code.eq_ignore_ascii_case(name))?;
        u8::try_from(at).ok().map(|at| Language(Some(at)))
    }

    fn known(self) -> Option<&'static SupportedLanguage> {
        LANGUAGES.get(usize::from(self.0?))
    }
    /// The English name in lower case.
    pub fn name(self) -> &'static str {
        self.known().map_or("none", |k| k.name)
    }
    pub(super) fn stemmer(self) -> Option<Stemmer> {
        self.known().map(|k| Stemmer::create(k.algorithm))
    }
    pub(super) fn is_stop_word(self, lowered: &str) -> bool {
        self.0
            .and_then(|at| STOP_WORDS.get(usize::from(at)))
            .is_some_and(|words| words.contains(lowered))
    }
    /// I and İ are the capitals of ı and i.
    pub(super) fn is_turkish(self) -> bool {
        self.name() == "turkish"
    }
    /// Apostrophes are part of words.
    pub(super) fn keeps_apostrophes(self) -> bool {
        self.name() == "english"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_language_has_its_words() {
        for k in &LANGUAGES {
            let l = Language::find(k.code).unwrap();
            assert_eq!(Language::find(&k.name.to_uppercase()), Some(l));
            assert!(
                STOP_WORDS[usize::from(l.0.unwrap())].len() > 40,
                "{}",
                k.name
            );
        }
        assert!(Language::find("en").unwrap().is_stop_word("the"));
        assert!(!Language::NONE.is_stop_word("the"));
        assert_eq!(Language::find("klingon"), None);
    }
}
