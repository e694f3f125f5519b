//! Removes case and diacritical marks from letters.

use super::language::Language;
use icu_normalizer::{ComposingNormalizerBorrowed, DecomposingNormalizerBorrowed};
use icu_properties::CodePointSetData;
use icu_properties::props::Diacritic;

/// Appends `text` in lower case.
pub(super) fn lower(text: &str, language: Language, out: &mut String) {
    if text.is_ascii() && !language.is_turkish() {
        out.extend(text.chars().map(|c| c.to_ascii_lowercase()));
        return;
    }
    for c in text.chars() {
        match c {
            'I' if language.is_turkish() => out.push('ı'),
            'İ' if language.is_turkish() => out.push('i'),
            c => out.extend(c.to_lowercase()),
        }
    }
}

/// Appends `text` without diacritical marks.
pub(super) fn strip(text: &str, out: &mut String) {
    if text.is_ascii() {
        // The two ASCII marks, ^ and `, never occur inside a word, but may inside a phrase.
        out.extend(text.chars().filter(|c| !matches!(c, '^' | '`')));
        return;
    }
    let marks = CodePointSetData::new::<Diacritic>();
    let decomposed = DecomposingNormalizerBorrowed::new_nfd();
    let bare = decomposed
        .normalize_iter(text.chars())
        .filter(|c| !marks.contains(*c));
    out.extend(ComposingNormalizerBorrowed::new_nfc().normalize_iter(bare));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lower_and_strip(text: &str, language: &str) -> String {
        let (mut small, mut bare) = (String::new(), String::new());
        lower(text, Language::find(language).unwrap(), &mut small);
        strip(&small, &mut bare);
        bare
    }

    #[test]
    fn folds() {
        assert_eq!(lower_and_strip("CAFÉ", "none"), "cafe");
        assert_eq!(lower_and_strip("Ёлка й", "ru"), "елка и");
        assert_eq!(lower_and_strip("한국", "none"), "한국");
        assert_eq!(lower_and_strip("IŞIK İzmir", "tr"), "ısık izmir");
        assert_eq!(lower_and_strip("Straße", "de"), "straße");
        assert_eq!(lower_and_strip("a^b", "en"), "ab");
    }
}
