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

const fn new_language(
    name: &'static str,
    code: &'static str,
    algorithm: Algorithm,
) -> SupportedLanguage {
    SupportedLanguage {
        name,
        code,
        algorithm,
    }
}

static LANGUAGES: [SupportedLanguage; 15] = [
    new_language("danish", "da", Algorithm::Danish),
    new_language("dutch", "nl", Algorithm::Dutch),
    new_language("english", "en", Algorithm::English),
    new_language("finnish", "fi", Algorithm::Finnish),
    new_language("french", "fr", Algorithm::French),
    new_language("german", "de", Algorithm::German),
    new_language("hungarian", "hu", Algorithm::Hungarian),
    new_language("italian", "it", Algorithm::Italian),
    new_language("norwegian", "nb", Algorithm::Norwegian),
    new_language("portuguese", "pt", Algorithm::Portuguese),
    new_language("romanian", "ro", Algorithm::Romanian),
    new_language("russian", "ru", Algorithm::Russian),
    new_language("spanish", "es", Algorithm::Spanish),
    new_language("swedish", "sv", Algorithm::Swedish),
    new_language("turkish", "tr", Algorithm::Turkish),
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

    fn supported_language(self) -> Option<&'static SupportedLanguage> {
        LANGUAGES.get(usize::from(self.0?))
    }
    /// The English name in lower case.
    pub fn name(self) -> &'static str {
        self.supported_language().map_or("none", |k| k.name)
    }
    pub(super) fn stemmer(self) -> Option<Stemmer> {
        self.supported_language()
            .map(|k| Stemmer::create(k.algorithm))
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
