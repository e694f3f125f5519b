//! Languages: their stemmers and stop words.

use rust_stemmers::Algorithm;

/// English stop words, as in Lucene.
pub(super) const STOP_WORDS: &[&str] = &[
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it",
    "no", "not", "of", "on", "or", "such", "that", "the", "their", "then", "there", "these",
    "they", "this", "to", "was", "will", "with",
];

/// The code of a language's stop words.
pub(super) fn stop_code(language: &str) -> Option<&'static str> {
    const CODES: &[(&str, &str)] = &[
        ("arabic", "ar"),
        ("danish", "da"),
        ("dutch", "nl"),
        ("finnish", "fi"),
        ("french", "fr"),
        ("german", "de"),
        ("greek", "el"),
        ("hungarian", "hu"),
        ("italian", "it"),
        ("norwegian", "no"),
        ("portuguese", "pt"),
        ("romanian", "ro"),
        ("russian", "ru"),
        ("spanish", "es"),
        ("swedish", "sv"),
        ("turkish", "tr"),
    ];
    let found = CODES.iter().find(|(name, _)| *name == language);
    found.map(|(_, code)| *code)
}

/// The stemmer of a language.
pub(super) fn stemmer(language: &str) -> Option<Algorithm> {
    Some(match language {
        "arabic" => Algorithm::Arabic,
        "danish" => Algorithm::Danish,
        "dutch" => Algorithm::Dutch,
        "english" => Algorithm::English,
        "finnish" => Algorithm::Finnish,
        "french" => Algorithm::French,
        "german" => Algorithm::German,
        "greek" => Algorithm::Greek,
        "hungarian" => Algorithm::Hungarian,
        "italian" => Algorithm::Italian,
        "norwegian" => Algorithm::Norwegian,
        "portuguese" => Algorithm::Portuguese,
        "romanian" => Algorithm::Romanian,
        "russian" => Algorithm::Russian,
        "spanish" => Algorithm::Spanish,
        "swedish" => Algorithm::Swedish,
        "turkish" => Algorithm::Turkish,
        _ => return None,
    })
}
