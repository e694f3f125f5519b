//! Letters that are treated as equal.

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// Letters that are not a plain letter with a mark.
const PLAIN: &[(char, &str)] = &[
    ('\u{df}', "ss"),
    ('\u{e6}', "ae"),
    ('\u{c6}', "AE"),
    ('\u{f8}', "o"),
    ('\u{d8}', "O"),
    ('\u{153}', "oe"),
    ('\u{152}', "OE"),
    ('\u{142}', "l"),
    ('\u{141}', "L"),
    ('\u{111}', "d"),
    ('\u{110}', "D"),
    ('\u{f0}', "d"),
    ('\u{d0}', "D"),
    ('\u{fe}', "th"),
    ('\u{de}', "TH"),
    ('\u{127}', "h"),
    ('\u{126}', "H"),
    ('\u{131}', "i"),
];

/// Removes accents.
pub(super) fn fold_accents(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.nfkd().filter(|c| !is_combining_mark(*c)) {
        match PLAIN.iter().find(|(from, _)| *from == c) {
            Some((_, to)) => out.push_str(to),
            None => out.push(c),
        }
    }
    out
}

/// Lower case, with letters that have the same capital made equal.
pub(super) fn fold_case(text: &str) -> String {
    let fold = |c: char| match c {
        // Its capital is also that of another letter.
        '\u{131}' => vec![c],
        c => c.to_uppercase().flat_map(char::to_lowercase).collect(),
    };
    text.chars().flat_map(fold).collect()
}
