//! Stems of English words by Porter's algorithm of 1980, with the two rules that he added later
//! (`bli`, `logi`).

const STEP_2: &[(&str, &str)] = &[
    ("ational", "ate"),
    ("tional", "tion"),
    ("enci", "ence"),
    ("anci", "ance"),
    ("izer", "ize"),
    ("bli", "ble"),
    ("alli", "al"),
    ("entli", "ent"),
    ("eli", "e"),
    ("ousli", "ous"),
    ("ization", "ize"),
    ("ation", "ate"),
    ("ator", "ate"),
    ("alism", "al"),
    ("iveness", "ive"),
    ("fulness", "ful"),
    ("ousness", "ous"),
    ("aliti", "al"),
    ("iviti", "ive"),
    ("biliti", "ble"),
    ("logi", "log"),
];
const STEP_3: &[(&str, &str)] = &[
    ("icate", "ic"),
    ("ative", ""),
    ("alize", "al"),
    ("iciti", "ic"),
    ("ical", "ic"),
    ("ful", ""),
    ("ness", ""),
];
const STEP_4: &[&str] = &[
    "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "sion",
    "tion", "ou", "ism", "ate", "iti", "ous", "ive", "ize",
];

/// The stem of a word in lower case; other texts do not change.
pub(super) fn stem(word: &str) -> String {
    if word.len() <= 2 || !word.bytes().all(|b| b.is_ascii_lowercase()) {
        return word.to_owned();
    }
    let mut w = word.to_owned();
    plurals(&mut w);
    participles(&mut w);
    if let Some(rest) = w.strip_suffix('y').filter(|rest| has_vowel(rest)) {
        w = format!("{rest}i");
    }
    replace_ending(&mut w, STEP_2);
    replace_ending(&mut w, STEP_3);
    drop_ending(&mut w);
    drop_last(&mut w);
    w
}

/// Whether each letter is a consonant.
fn consonants(word: &str) -> Vec<bool> {
    let mut all: Vec<bool> = Vec::with_capacity(word.len());
    for c in word.chars() {
        let is = match c {
            'a' | 'e' | 'i' | 'o' | 'u' => false,
            'y' => !all.last().copied().unwrap_or(false),
            _ => true,
        };
        all.push(is);
    }
    all
}

/// How many groups of vowels are followed by consonants.
fn measure(stem: &str) -> usize {
    let all = consonants(stem);
    all.windows(2).filter(|w| *w == [false, true]).count()
}

fn has_vowel(stem: &str) -> bool {
    consonants(stem).contains(&false)
}

/// Whether it ends with the same consonant twice.
fn is_doubled(word: &str) -> bool {
    let mut last = word.chars().rev();
    let (a, b) = (last.next(), last.next());
    a.is_some() && a == b && consonants(word).last() == Some(&true)
}

/// Whether it ends with consonant, vowel, consonant, the last not w, x or y.
fn is_short(word: &str) -> bool {
    consonants(word).ends_with(&[true, false, true]) && !word.ends_with(['w', 'x', 'y'])
}

fn plurals(w: &mut String) {
    if !w.ends_with('s') {
        return;
    }
    if w.ends_with("sses") || w.ends_with("ies") {
        w.truncate(w.len() - 2);
    } else if !w.ends_with("ss") {
        w.truncate(w.len() - 1);
    }
}

fn participles(w: &mut String) {
    if let Some(stem) = w.strip_suffix("eed") {
        if measure(stem) > 0 {
            w.truncate(w.len() - 1);
        }
        return;
    }
    let stem = w.strip_suffix("ed").or_else(|| w.strip_suffix("ing"));
    let Some(stem) = stem.filter(|stem| has_vowel(stem)) else {
        return;
    };
    w.truncate(stem.len());
    if w.ends_with("at") || w.ends_with("bl") || w.ends_with("iz") {
        w.push('e');
    } else if is_doubled(w) {
        if !w.ends_with(['l', 's', 'z']) {
            w.truncate(w.len() - 1);
        }
    } else if measure(w) == 1 && is_short(w) {
        w.push('e');
    }
}

/// Replaces the first matching ending, if the rest before it is long enough.
fn replace_ending(w: &mut String, endings: &[(&str, &str)]) {
    let found = endings
        .iter()
        .find_map(|(from, to)| Some((w.strip_suffix(from)?, to)));
    if let Some((stem, to)) = found.filter(|(stem, _)| measure(stem) > 0) {
        *w = format!("{stem}{to}");
    }
}

fn drop_ending(w: &mut String) {
    let found = STEP_4.iter().find(|ending| w.ends_with(**ending));
    let Some(ending) = found else {
        return;
    };
    // The letter before `ion` is kept.
    let cut = match *ending {
        "sion" | "tion" => 3,
        other => other.len(),
    };
    let rest = w.len() - cut;
    if w.get(..rest).is_some_and(|stem| measure(stem) > 1) {
        w.truncate(rest);
    }
}

fn drop_last(w: &mut String) {
    let m = measure(w);
    if let Some(stem) = w.strip_suffix('e') {
        let before = measure(stem);
        if before > 1 || before == 1 && !is_short(stem) {
            w.truncate(w.len() - 1);
        }
    }
    if w.ends_with('l') && is_doubled(w) && m > 1 {
        w.truncate(w.len() - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::stem;

    #[test]
    fn words_have_the_stems_that_porter_gives() {
        for (word, wanted) in [
            ("caresses", "caress"),
            ("ponies", "poni"),
            ("ties", "ti"),
            ("cats", "cat"),
            ("feed", "feed"),
            ("agreed", "agre"),
            ("plastered", "plaster"),
            ("bled", "bled"),
            ("motoring", "motor"),
            ("sing", "sing"),
            ("conflated", "conflat"),
            ("troubled", "troubl"),
            ("sized", "size"),
            ("hopping", "hop"),
            ("falling", "fall"),
            ("hissing", "hiss"),
            ("failing", "fail"),
            ("filing", "file"),
            ("happy", "happi"),
            ("sky", "sky"),
            ("relational", "relat"),
            ("conditional", "condit"),
            ("rational", "ration"),
            ("digitizer", "digit"),
            ("operator", "oper"),
            ("feudalism", "feudal"),
            ("decisiveness", "decis"),
            ("hopefulness", "hope"),
            ("triplicate", "triplic"),
            ("formative", "form"),
            ("electrical", "electr"),
            ("goodness", "good"),
            ("revival", "reviv"),
            ("allowance", "allow"),
            ("adjustable", "adjust"),
            ("replacement", "replac"),
            ("adoption", "adopt"),
            ("homologou", "homolog"),
            ("effective", "effect"),
            ("probate", "probat"),
            ("rate", "rate"),
            ("cease", "ceas"),
            ("controll", "control"),
            ("roll", "roll"),
            ("generalizations", "gener"),
            ("oscillators", "oscil"),
            ("running", "run"),
        ] {
            assert_eq!(stem(word), wanted, "{word}");
        }
        assert_eq!(stem("is"), "is");
        assert_eq!(stem("h\u{e4}user"), "h\u{e4}user");
    }
}
