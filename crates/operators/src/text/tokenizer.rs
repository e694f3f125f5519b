//! From text to terms: split at delimiters, drop stop words, stem, fold case and diacritical marks,
//! in this order (stemmers and lists of stop words use marks).

use super::fold;
use super::language::Language;
use icu_properties::CodePointSetData;
use icu_properties::props::{
    Dash, Hyphen, PatternSyntax, QuotationMark, TerminalPunctuation, WhiteSpace,
};
use rust_stemmers::Stemmer;

/// Which terms that differ only in case or marks are different.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sensitivity {
    /// Upper case differs from lower case.
    pub case: bool,
    /// Letters with marks differ from letters without.
    pub diacritics: bool,
}

impl Sensitivity {
    /// The sensitivity of index entries.
    pub const NONE: Sensitivity = Sensitivity {
        case: false,
        diacritics: false,
    };

    /// Whether it is finer than that of index entries.
    pub fn is_any(self) -> bool {
        self.case || self.diacritics
    }
}

/// Splits text of one language into terms.
pub struct Tokenizer {
    language: Language,
    stemmer: Option<Stemmer>,
    lowered: String,
    folded: String,
}

impl Tokenizer {
    /// For a language.
    pub fn new(language: Language) -> Tokenizer {
        Tokenizer {
            language,
            stemmer: language.stemmer(),
            lowered: String::new(),
            folded: String::new(),
        }
    }

    /// Calls `each` for each term of `text` that is no stop word; `each` returns false to stop.
    pub fn terms(&mut self, text: &str, how: Sensitivity, each: &mut dyn FnMut(&str) -> bool) {
        let apostrophes = self.language.keeps_apostrophes();
        for word in text
            .split(|c| is_delimiter(c) && !(apostrophes && c == '\''))
            .filter(|w| !w.is_empty())
        {
            self.lowered.clear();
            fold::lower(word, self.language, &mut self.lowered);
            if self.language.is_stop_word(&self.lowered) {
                continue;
            }
            let word = if how.case {
                word
            } else {
                self.lowered.as_str()
            };
            let stem = match &self.stemmer {
                Some(s) => s.stem(word),
                None => word.into(),
            };
            let on = if how.diacritics || stem.is_ascii() {
                each(&stem)
            } else {
                self.folded.clear();
                fold::strip(&stem, &mut self.folded);
                self.folded.is_empty() || each(&self.folded)
            };
            if !on {
                return;
            }
        }
    }
}

fn is_delimiter(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_punctuation() && c != '_' || matches!(c, '\0' | '\t'..='\r' | ' ');
    }
    CodePointSetData::new::<WhiteSpace>().contains(c)
        || CodePointSetData::new::<PatternSyntax>().contains(c)
        || CodePointSetData::new::<TerminalPunctuation>().contains(c)
        || CodePointSetData::new::<QuotationMark>().contains(c)
        || CodePointSetData::new::<Dash>().contains(c)
        || CodePointSetData::new::<Hyphen>().contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(language: &str, text: &str, how: Sensitivity) -> Vec<String> {
        let mut out = Vec::new();
        Tokenizer::new(Language::find(language).unwrap()).terms(text, how, &mut |t| {
            out.push(t.to_owned());
            true
        });
        out
    }

    #[test]
    fn words_are_split_stopped_stemmed_and_folded() {
        let plain = |language, text| terms(language, text, Sensitivity::NONE);
        assert_eq!(
            plain("english", "The Running dogs, don't-stop (crème brûlée)!"),
            ["run", "dog", "stop", "creme", "brulee"]
        );
        assert_eq!(
            plain("none", "The Running dogs"),
            ["the", "running", "dogs"]
        );
        assert_eq!(
            plain("french", "l'amour des châteaux"),
            ["amour", "chateau"]
        );
        assert_eq!(
            plain("none", "snake_case a.b c/d\u{a0}e—f„g“ 日本。語"),
            [
                "snake_case",
                "a",
                "b",
                "c",
                "d",
                "e",
                "f",
                "g",
                "日本",
                "語"
            ]
        );
        assert_eq!(plain("english", ""), Vec::<String>::new());
        assert_eq!(plain("none", "\u{301} x"), ["x"], "a mark alone is no term");
    }

    #[test]
    fn sensitive_terms_keep_case_or_marks() {
        let case = Sensitivity {
            case: true,
            diacritics: false,
        };
        let marks = Sensitivity {
            case: false,
            diacritics: true,
        };
        assert_eq!(terms("english", "Cafés The", case), ["Cafe"]);
        assert_eq!(terms("english", "Cafés The", marks), ["café"]);
    }

    #[test]
    fn the_tokenizer_stops_on_request() {
        let mut n = 0;
        Tokenizer::new(Language::NONE).terms("a b c", Sensitivity::NONE, &mut |_| {
            n += 1;
            n < 2
        });
        assert_eq!(n, 2);
    }
}
