//! Which locales MongoDB accepts, their defaults, and their names in ICU4X. A locale is valid only
//! exactly as written here: other spellings of the same language are refused with a hint.

/// The locale that means comparison by bytes.
pub(super) const SIMPLE: &str = "simple";

#[rustfmt::skip]
const LOCALES: &[&str] = &[
    "af", "am", "ar", "as", "az", "be", "bg", "bn", "bo", "bs", "bs_Cyrl", "ca", "chr", "cs", "cy",
        "da", "de", "de_AT",
    "dsb", "dz", "ee", "el", "en", "en_US", "en_US_POSIX", "eo", "es", "et", "fa", "fa_AF", "fi",
        "fil", "fo", "fr",
    "fr_CA", "ga", "gl", "gu", "ha", "haw", "he", "hi", "hr", "hsb", "hu", "hy", "id", "ig", "is",
        "it", "ja", "ka", "kk",
    "kl", "km", "kn", "ko", "kok", "ky", "lb", "lkt", "ln", "lo", "lt", "lv", "mk", "ml", "mn",
        "mr", "ms", "mt", "my",
    "nb", "ne", "nl", "nn", "om", "or", "pa", "pl", "ps", "pt", "ro", "ru", "se", "si", "sk", "sl",
        "smn", "sq", "sr",
    "sr_Latn", "sv", "sw", "ta", "te", "th", "to", "tr", "ug", "uk", "ur", "vi", "wae", "yi", "yo",
        "zh", "zh_Hant", "zu",
];

/// `@collation=` values of the root locale, hence of every locale.
const COMMON_VARIANTS: &[&str] = &["search", "eor", "emoji"];

/// Further `@collation=` values by locale; the default value of a locale is not listed.
const VARIANTS: &[(&str, &[&str])] = &[
    ("ar", &["compat"]),
    ("bn", &["traditional"]),
    ("de", &["phonebook"]),
    ("de_AT", &["phonebook"]),
    ("es", &["traditional"]),
    ("fi", &["traditional"]),
    ("ja", &["unihan"]),
    ("kn", &["traditional"]),
    ("ko", &["searchjl", "unihan"]),
    ("ln", &["phonetic"]),
    ("si", &["dictionary"]),
    ("sv", &["standard"]),
    ("vi", &["traditional"]),
    (
        "zh",
        &[
            "big5han",
            "gb2312han",
            "standard",
            "stroke",
            "unihan",
            "zhuyin",
        ],
    ),
    (
        "zh_Hant",
        &[
            "big5han",
            "gb2312han",
            "pinyin",
            "standard",
            "unihan",
            "zhuyin",
        ],
    ),
];

/// Locales and variants with a tailoring that is not in ICU4X's data.
const WITHOUT_DATA: &[&str] = &["bo", "fa_AF", "haw", "kl", "lkt", "ln", "se", "smn", "yi"];
const VARIANTS_WITHOUT_DATA: &[&str] = &["big5han", "gb2312han", "phonetic", "search", "searchjl"];

/// Locales with normalization on by default.
#[rustfmt::skip]
const NORMALIZING: &[&str] = &[
    "as", "bn", "bo", "el", "fa", "fa_AF", "gu", "he", "hi", "ig", "km", "kn", "kok", "mr", "my",
        "or", "pa", "ps", "si",
    "ta", "te", "th", "vi", "yi", "yo",
];

/// Defaults that depend on the locale; all other fields have one default.
#[derive(Clone, Copy, Default)]
pub(super) struct Defaults {
    pub(super) upper_first: bool,
    pub(super) shifted: bool,
    pub(super) normalization: bool,
    pub(super) backwards: bool,
}

/// The language part and the `@collation=` value.
fn split(locale: &str) -> (&str, Option<&str>) {
    match locale.split_once('@') {
        Some((base, keyword)) => (base, Some(keyword.strip_prefix("collation=").unwrap_or(""))),
        None => (locale, None),
    }
}

/// Whether MongoDB accepts this locale; not for the simple locale.
pub(super) fn is_valid(locale: &str) -> bool {
    let (base, variant) = split(locale);
    LOCALES.contains(&base)
        && variant.is_none_or(|v| {
            COMMON_VARIANTS.contains(&v)
                || VARIANTS
                    .iter()
                    .any(|(l, own)| *l == base && own.contains(&v))
        })
}

/// The defaults of a valid locale.
pub(super) fn defaults(locale: &str) -> Defaults {
    let (base, variant) = split(locale);
    match variant {
        Some("eor" | "emoji" | "standard") => Defaults::default(),
        Some("search" | "searchjl") => Defaults {
            normalization: true,
            ..Defaults::default()
        },
        _ => Defaults {
            upper_first: matches!(base, "da" | "mt"),
            shifted: base == "th",
            normalization: NORMALIZING.contains(&base),
            backwards: base == "fr_CA",
        },
    }
}

/// ICU4X's tag of a valid locale; `None` when its data has no such order.
pub(super) fn tag(locale: &str) -> Option<String> {
    let (base, variant) = split(locale);
    // These variants belong to the root locale, whatever the language.
    let of_root = matches!(variant, Some("eor" | "emoji"));
    if variant.is_some_and(|v| VARIANTS_WITHOUT_DATA.contains(&v))
        || (WITHOUT_DATA.contains(&base) && !of_root)
    {
        return None;
    }
    let base = if base == "zh_Hant" && variant.is_some() {
        "zh"
    } else {
        base
    };
    let kind = match (base, variant) {
        // The former standard for Swedish, which treats w as a variant of v; for Chinese it is the
        // order of the root.
        ("sv", Some("standard")) => "trad",
        (_, Some("standard")) => return Some("und".into()),
        (_, Some("phonebook")) => "phonebk",
        (_, Some("traditional")) => "trad",
        (_, Some("dictionary")) => "dict",
        (_, Some(other)) => other,
        (_, None) => return Some(base.replace('_', "-")),
    };
    Some(format!("{}-u-co-{kind}", base.replace('_', "-")))
}

/// The valid locale that an invalid one most likely means: with the usual case, then with parts
/// dropped from the end.
pub(super) fn nearest(locale: &str) -> Option<String> {
    let (base, variant) = split(locale);
    let mut parts: Vec<String> = base
        .split(['_', '-'])
        .take(4)
        .enumerate()
        .map(|(i, p)| set_case(i, p))
        .collect();
    while !parts.is_empty() {
        let found = parts.join("_");
        if LOCALES.contains(&found.as_str()) {
            let whole = variant.map(|v| format!("{found}@collation={}", v.to_ascii_lowercase()));
            return Some(whole.filter(|w| is_valid(w)).unwrap_or(found));
        }
        parts.pop();
    }
    None
}

/// Language in lower case, script capitalized, region and variant in upper case.
fn set_case(position: usize, part: &str) -> String {
    if position == 0 {
        return part.to_ascii_lowercase();
    }
    match part.split_at_checked(1) {
        Some((head, tail)) if part.len() == 4 => {
            head.to_ascii_uppercase() + &tail.to_ascii_lowercase()
        }
        _ => part.to_ascii_uppercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_exact_spelling_is_valid() {
        for good in [
            "en",
            "en_US_POSIX",
            "de@collation=phonebook",
            "sv@collation=standard",
            "fr@collation=eor",
        ] {
            assert!(is_valid(good), "{good}");
        }
        for bad in [
            "EN",
            "en-US",
            "en_GB",
            "de@collation=",
            "de@phonebook",
            "fr@collation=phonebook",
            "zh@collation=pinyin",
            "root",
        ] {
            assert!(!is_valid(bad), "{bad}");
        }
    }

    #[test]
    fn hints() {
        for (given, hint) in [
            ("EN", Some("en")),
            ("en-us", Some("en_US")),
            ("en_GB", Some("en")),
            ("zh_hant_TW", Some("zh_Hant")),
            ("DE@collation=phonebook", Some("de@collation=phonebook")),
            ("de@collation=nope", Some("de")),
            ("invalid_locale_xyz", None),
            ("é", None),
        ] {
            assert_eq!(nearest(given).as_deref(), hint, "{given}");
        }
    }

    #[test]
    fn every_valid_locale_has_a_parsable_tag_or_is_listed_as_lacking() {
        for base in LOCALES {
            let own = VARIANTS
                .iter()
                .find(|(l, _)| l == base)
                .map_or(&[][..], |(_, v)| v);
            let whole = own
                .iter()
                .chain(COMMON_VARIANTS)
                .map(|v| format!("{base}@collation={v}"))
                .chain([(*base).to_owned()]);
            for l in whole {
                let lacks = VARIANTS_WITHOUT_DATA.iter().any(|v| l.ends_with(v))
                    || WITHOUT_DATA.contains(&l.as_str());
                let tag = tag(&l);
                assert_eq!(tag.is_none(), lacks, "{l}");
                assert!(
                    tag.is_none_or(|t| t.parse::<icu_locale_core::Locale>().is_ok()),
                    "{l}"
                );
            }
        }
    }
}
