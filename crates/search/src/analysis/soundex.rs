//! Names by their sound: Daitch-Mokotoff codes of six digits, several for a spelling with several
//! pronunciations.

use super::fold::fold_accents;

/// Digits of a code.
const DIGITS: usize = 6;

/// A spelling and its codes at the beginning, before a vowel, and elsewhere; `|` separates
/// alternatives.
type Rule = (&'static str, &'static str, &'static str, &'static str);

/// The longest matching spelling is used.
const RULES: &[Rule] = &[
    ("schtsch", "2", "4", "4"),
    ("schtsh", "2", "4", "4"),
    ("schtch", "2", "4", "4"),
    ("shtch", "2", "4", "4"),
    ("shtsh", "2", "4", "4"),
    ("stsch", "2", "4", "4"),
    ("ttsch", "4", "4", "4"),
    ("zhdzh", "2", "4", "4"),
    ("shch", "2", "4", "4"),
    ("scht", "2", "43", "43"),
    ("schd", "2", "43", "43"),
    ("stch", "2", "4", "4"),
    ("strz", "2", "4", "4"),
    ("strs", "2", "4", "4"),
    ("stsh", "2", "4", "4"),
    ("szcz", "2", "4", "4"),
    ("szcs", "2", "4", "4"),
    ("tsch", "4", "4", "4"),
    ("ttch", "4", "4", "4"),
    ("ttsz", "4", "4", "4"),
    ("zdzh", "2", "4", "4"),
    ("zsch", "4", "4", "4"),
    ("chs", "5", "54", "54"),
    ("csz", "4", "4", "4"),
    ("czs", "4", "4", "4"),
    ("drz", "4", "4", "4"),
    ("drs", "4", "4", "4"),
    ("dsh", "4", "4", "4"),
    ("dsz", "4", "4", "4"),
    ("dzh", "4", "4", "4"),
    ("dzs", "4", "4", "4"),
    ("sch", "4", "4", "4"),
    ("sht", "2", "43", "43"),
    ("szt", "2", "43", "43"),
    ("shd", "2", "43", "43"),
    ("szd", "2", "43", "43"),
    ("tch", "4", "4", "4"),
    ("trz", "4", "4", "4"),
    ("trs", "4", "4", "4"),
    ("tsh", "4", "4", "4"),
    ("tts", "4", "4", "4"),
    ("ttz", "4", "4", "4"),
    ("tzs", "4", "4", "4"),
    ("tsz", "4", "4", "4"),
    ("zdz", "2", "4", "4"),
    ("zhd", "2", "43", "43"),
    ("zsh", "4", "4", "4"),
    ("ai", "0", "1", ""),
    ("aj", "0", "1", ""),
    ("ay", "0", "1", ""),
    ("au", "0", "7", ""),
    ("ch", "5|4", "5|4", "5|4"),
    ("ck", "5|45", "5|45", "5|45"),
    ("cz", "4", "4", "4"),
    ("cs", "4", "4", "4"),
    ("ds", "4", "4", "4"),
    ("dz", "4", "4", "4"),
    ("dt", "3", "3", "3"),
    ("ei", "0", "1", ""),
    ("ej", "0", "1", ""),
    ("ey", "0", "1", ""),
    ("eu", "1", "1", ""),
    ("fb", "7", "7", "7"),
    ("ia", "1", "", ""),
    ("ie", "1", "", ""),
    ("io", "1", "", ""),
    ("iu", "1", "", ""),
    ("ks", "5", "54", "54"),
    ("kh", "5", "5", "5"),
    ("mn", "66", "66", "66"),
    ("nm", "66", "66", "66"),
    ("oi", "0", "1", ""),
    ("oj", "0", "1", ""),
    ("oy", "0", "1", ""),
    ("pf", "7", "7", "7"),
    ("ph", "7", "7", "7"),
    ("rz", "94|4", "94|4", "94|4"),
    ("rs", "94|4", "94|4", "94|4"),
    ("sz", "4", "4", "4"),
    ("sh", "4", "4", "4"),
    ("st", "2", "43", "43"),
    ("sc", "2", "4", "4"),
    ("sd", "2", "43", "43"),
    ("th", "3", "3", "3"),
    ("ts", "4", "4", "4"),
    ("tc", "4", "4", "4"),
    ("tz", "4", "4", "4"),
    ("ui", "0", "1", ""),
    ("uj", "0", "1", ""),
    ("uy", "0", "1", ""),
    ("ue", "0", "1", ""),
    ("zd", "2", "43", "43"),
    ("zh", "4", "4", "4"),
    ("zs", "4", "4", "4"),
    ("a", "0", "", ""),
    ("b", "7", "7", "7"),
    ("c", "5|4", "5|4", "5|4"),
    ("d", "3", "3", "3"),
    ("e", "0", "", ""),
    ("f", "7", "7", "7"),
    ("g", "5", "5", "5"),
    ("h", "5", "5", ""),
    ("i", "0", "", ""),
    ("j", "1|4", "|4", "|4"),
    ("k", "5", "5", "5"),
    ("l", "8", "8", "8"),
    ("m", "6", "6", "6"),
    ("n", "6", "6", "6"),
    ("o", "0", "", ""),
    ("p", "7", "7", "7"),
    ("q", "5", "5", "5"),
    ("r", "9", "9", "9"),
    ("s", "4", "4", "4"),
    ("t", "3", "3", "3"),
    ("u", "0", "", ""),
    ("v", "7", "7", "7"),
    ("w", "7", "7", "7"),
    ("x", "5", "54", "54"),
    ("y", "1", "", ""),
    ("z", "4", "4", "4"),
];

/// An incomplete code.
#[derive(Clone, PartialEq, Eq)]
struct PartialCode {
    code: String,
    /// The code of the last spelling.
    last: Option<&'static str>,
}

/// The codes of a word; none for a word without letters.
pub(super) fn codes(word: &str) -> Vec<String> {
    let letters: String = fold_accents(word)
        .to_lowercase()
        .chars()
        .filter(char::is_ascii_lowercase)
        .collect();
    let mut ways = vec![PartialCode {
        code: String::new(),
        last: None,
    }];
    let (mut at, mut before) = (0, ' ');
    while let Some(rest) = letters.get(at..).filter(|rest| !rest.is_empty()) {
        let Some(rule) = RULES.iter().find(|rule| rest.starts_with(rule.0)) else {
            break;
        };
        let behind = rest.get(rule.0.len()..).unwrap_or_default();
        let sound = if at == 0 {
            rule.1
        } else if behind.starts_with(['a', 'e', 'i', 'o', 'u']) {
            rule.2
        } else {
            rule.3
        };
        let first = rest.chars().next().unwrap_or(' ');
        // These two are pronounced separately.
        let apart = matches!((before, first), ('m', 'n') | ('n', 'm'));
        let mut next: Vec<PartialCode> = Vec::new();
        for way in &ways {
            for one in sound.split('|') {
                let mut way = way.clone();
                let same = way.last.is_some_and(|last| last.ends_with(one));
                if !same || apart {
                    way.code.push_str(one);
                    way.code.truncate(DIGITS);
                }
                way.last = Some(one);
                if !next.contains(&way) {
                    next.push(way);
                }
            }
        }
        ways = next;
        before = rule.0.chars().last().unwrap_or(' ');
        at += rule.0.len();
    }
    let mut codes: Vec<String> = Vec::new();
    for way in ways.iter().filter(|_| !letters.is_empty()) {
        let code = format!("{:0<DIGITS$}", way.code);
        if !codes.contains(&code) {
            codes.push(code);
        }
    }
    codes
}

#[cfg(test)]
mod tests {
    use super::codes;

    #[test]
    fn names_have_the_codes_that_are_published() {
        for (name, wanted) in [
            ("Lewinsky", "876450"),
            ("Levinski", "876450"),
            ("Moskowitz", "645740"),
            ("Szlamawicz", "486740"),
            ("Shlamovitz", "486740"),
        ] {
            assert_eq!(codes(name), [wanted], "{name}");
        }
        assert_eq!(codes("Peters"), ["739400", "734000"]);
        assert!(codes("12").is_empty());
    }
}
