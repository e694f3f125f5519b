//! Documents in, orders, full forms and codes out; and the promise that sort keys order as
//! comparison does.

use super::{collator, normalize, normalize_typed, same};
use model::{Collate, DocBuf, Value, doc};
use proptest::prelude::*;
use std::cmp::Ordering::{self, Equal, Greater, Less};
use std::sync::Arc;

fn of(d: &DocBuf) -> Arc<dyn Collate> {
    match collator(d.doc()) {
        Ok(Some(c)) => c,
        Ok(None) => panic!("{d:?} is simple"),
        Err(e) => panic!("{d:?}: {e:?}"),
    }
}

fn key(c: &dyn Collate, s: &str) -> Vec<u8> {
    let mut out = Vec::new();
    c.sort_key(s, &mut out);
    out
}

fn check_orders(rows: &[(DocBuf, &str, &str, Ordering)]) {
    for (spec, a, b, wanted) in rows {
        let c = of(spec);
        assert_eq!(c.compare(a, b), *wanted, "{spec:?} {a:?} {b:?}");
        assert_eq!(
            key(&*c, a).cmp(&key(&*c, b)),
            *wanted,
            "{spec:?} {a:?} {b:?} by key"
        );
    }
}

#[test]
fn orders_by_options() {
    let en = |strength: i32| doc! { "locale": "en", "strength": strength };
    check_orders(&[
        (en(1), "a", "Á", Equal),
        (en(1), "ss", "ß", Equal),
        (en(2), "a", "A", Equal),
        (en(2), "a", "á", Less),
        (en(3), "a", "A", Less),
        (en(3), "A", "b", Less),
        (en(3), "a-b", "ab", Less),
        (en(5), "a", "a\u{1}", Less),
        (
            doc! { "locale": "en", "caseFirst": "upper" },
            "A",
            "a",
            Less,
        ),
        (
            doc! { "locale": "en", "caseFirst": "lower" },
            "a",
            "A",
            Less,
        ),
        (
            doc! { "locale": "en", "strength": 1i32, "caseLevel": true },
            "a",
            "A",
            Less,
        ),
        (
            doc! { "locale": "en", "strength": 1i32, "caseLevel": true },
            "a",
            "á",
            Equal,
        ),
        (doc! { "locale": "en" }, "10", "9", Less),
        (
            doc! { "locale": "en", "numericOrdering": true },
            "10",
            "9",
            Greater,
        ),
        (
            doc! { "locale": "en", "alternate": "shifted" },
            "a-b",
            "ab",
            Equal,
        ),
        (
            doc! { "locale": "en", "alternate": "shifted", "strength": 4i32 },
            "a-b",
            "ab",
            Less,
        ),
        (
            doc! { "locale": "en", "alternate": "shifted", "maxVariable": "space" },
            "a b",
            "ab",
            Equal,
        ),
        (
            doc! { "locale": "en", "alternate": "shifted", "maxVariable": "space" },
            "a-b",
            "ab",
            Less,
        ),
        (doc! { "locale": "fr" }, "coté", "côte", Less),
        (
            doc! { "locale": "fr", "backwards": true },
            "coté",
            "côte",
            Greater,
        ),
    ]);
}

#[test]
fn orders_by_locale() {
    check_orders(&[
        (doc! { "locale": "fr_CA" }, "coté", "côte", Greater),
        (
            doc! { "locale": "fr_CA", "backwards": false },
            "coté",
            "côte",
            Less,
        ),
        (
            doc! { "locale": "fr_CA@collation=eor" },
            "coté",
            "côte",
            Less,
        ),
        (
            doc! { "locale": "th", "strength": 1i32 },
            "a-b",
            "ab",
            Equal,
        ),
        (
            doc! { "locale": "th", "strength": 1i32, "alternate": "non-ignorable" },
            "a-b",
            "ab",
            Less,
        ),
        (doc! { "locale": "da" }, "A", "a", Less),
        (doc! { "locale": "da", "caseFirst": "off" }, "a", "A", Less),
        (doc! { "locale": "sv" }, "å", "z", Greater),
        (doc! { "locale": "sv", "strength": 1i32 }, "v", "w", Less),
        (
            doc! { "locale": "sv@collation=standard", "strength": 1i32 },
            "v",
            "w",
            Equal,
        ),
        (doc! { "locale": "nb" }, "å", "z", Greater),
        (doc! { "locale": "nn" }, "ø", "z", Greater),
        (doc! { "locale": "de_AT" }, "ä", "ad", Less),
        (
            doc! { "locale": "de@collation=phonebook" },
            "ä",
            "ad",
            Greater,
        ),
        (
            doc! { "locale": "de_AT@collation=phonebook" },
            "ä",
            "ad",
            Greater,
        ),
        (
            doc! { "locale": "es@collation=traditional" },
            "ch",
            "cz",
            Greater,
        ),
        (doc! { "locale": "tr", "strength": 1i32 }, "I", "ı", Equal),
        (doc! { "locale": "tr", "strength": 1i32 }, "I", "i", Less),
        (
            doc! { "locale": "en_US_POSIX", "strength": 1i32 },
            "ABC",
            "abc",
            Less,
        ),
        (doc! { "locale": "ja", "strength": 3i32 }, "あ", "ア", Equal),
        (doc! { "locale": "ja", "strength": 4i32 }, "あ", "ア", Less),
        (doc! { "locale": "zh", "strength": 2i32 }, "à", "a", Less),
        (doc! { "locale": "zh" }, "啊", "不", Less),
        (doc! { "locale": "zh_Hant" }, "一", "啊", Less),
        (doc! { "locale": "zh@collation=stroke" }, "一", "啊", Less),
        (doc! { "locale": "zh" }, "一", "啊", Greater),
    ]);
}

#[test]
fn refusals() {
    let rows: &[(DocBuf, i32)] = &[
        (doc! {}, 40414),
        (doc! { "strength": 2i32 }, 40414),
        (doc! { "locale": (Value::Null) }, 40414),
        (doc! { "locale": 1i32 }, 14),
        (doc! { "locale": "en", "locale": "en" }, 40413),
        (doc! { "locale": "en", "other": 1i32 }, 40415),
        (doc! { "locale": "" }, 2),
        (doc! { "locale": "en\0" }, 2),
        (doc! { "locale": "invalid_locale_xyz" }, 2),
        (doc! { "locale": "EN" }, 2),
        (doc! { "locale": "en", "strength": 0i32 }, 2),
        (doc! { "locale": "en", "strength": 6i32 }, 2),
        (doc! { "locale": "en", "strength": (-1i32) }, 2),
        (doc! { "locale": "en", "strength": (f64::NAN) }, 2),
        (doc! { "locale": "en", "strength": (i64::MAX) }, 2),
        (doc! { "locale": "en", "strength": "3" }, 14),
        (doc! { "locale": "simple", "strength": 6i32 }, 2),
        (doc! { "locale": "en", "caseLevel": 1i32 }, 14),
        (doc! { "locale": "en", "caseFirst": "UPPER" }, 2),
        (doc! { "locale": "en", "caseFirst": true }, 14),
        (
            doc! { "locale": "en", "caseFirst": "upper", "strength": 2i32 },
            2,
        ),
        (doc! { "locale": "da", "strength": 1i32 }, 2),
        (doc! { "locale": "en", "alternate": "blanked" }, 2),
        (doc! { "locale": "en", "maxVariable": "symbol" }, 2),
        (doc! { "locale": "en", "numericOrdering": 1.0 }, 14),
        (doc! { "locale": "en", "normalization": "on" }, 14),
        (doc! { "locale": "en", "backwards": (Value::Null) }, 14),
        (
            doc! { "locale": "en", "backwards": true, "strength": 1i32 },
            2,
        ),
        (doc! { "locale": "fr_CA", "strength": 1i32 }, 2),
        (doc! { "locale": "en", "version": "58.0" }, 161),
        (doc! { "locale": "en", "version": 1i32 }, 14),
        (doc! { "locale": "en@collation=search" }, 238),
        (doc! { "locale": "se" }, 238),
    ];
    for (spec, wanted) in rows {
        assert_eq!(
            collator(spec.doc()).err().map(|e| e.code()),
            Some(*wanted),
            "{spec:?}"
        );
        assert_eq!(
            normalize(spec.doc()).err().map(|e| e.code()),
            Some(*wanted),
            "{spec:?}"
        );
    }
    let message = |d: DocBuf| {
        normalize(d.doc())
            .err()
            .map(|e| e.message().to_owned())
            .unwrap_or_default()
    };
    assert_eq!(
        message(doc! { "locale": "en-US" }),
        "Field 'locale' is invalid in: { locale: \"en-US\" }. Did you mean 'en_US'?"
    );
    assert_eq!(
        normalize_typed(doc! { "locale": 1i32 }.doc(), "create.collation")
            .err()
            .map(|e| e.message().to_owned())
            .as_deref(),
        Some(
            "BSON field 'create.collation.locale' is the wrong type 'int', expected type 'string'"
        )
    );
}

#[test]
fn the_simple_collation_is_no_collator_whatever_else_it_names() {
    for d in [
        doc! { "locale": "simple" },
        doc! { "locale": "simple", "strength": 1i32, "backwards": true, "version": "x" },
    ] {
        assert!(matches!(collator(d.doc()), Ok(None)), "{d:?}");
        assert_eq!(normalize(d.doc()).ok(), Some(doc! { "locale": "simple" }));
    }
}

#[test]
fn full_forms() {
    let full = |locale: &str,
                upper: &str,
                strength: i32,
                alternate: &str,
                normalization: bool,
                backwards: bool| {
        doc! {
            "locale": locale, "caseLevel": false, "caseFirst": upper, "strength": strength,
                "numericOrdering": false,
            "alternate": alternate, "maxVariable": "punct", "normalization": normalization,
                "backwards": backwards, "version": "57.1"
        }
    };
    let (ni, sh) = ("non-ignorable", "shifted");
    let rows = [
        (
            doc! { "strength": 2i64, "locale": "en" },
            full("en", "off", 2, ni, false, false),
        ),
        (
            doc! { "locale": "en", "strength": 2.9, "caseFirst": (Value::Null), "version": "57.1" },
            full("en", "off", 2, ni, false, false),
        ),
        (
            doc! { "locale": "da" },
            full("da", "upper", 3, ni, false, false),
        ),
        (
            doc! { "locale": "da", "caseFirst": (Value::Null) },
            full("da", "off", 3, ni, false, false),
        ),
        (
            doc! { "locale": "th" },
            full("th", "off", 3, sh, true, false),
        ),
        (
            doc! { "locale": "fr_CA" },
            full("fr_CA", "off", 3, ni, false, true),
        ),
        (
            doc! { "locale": "vi" },
            full("vi", "off", 3, ni, true, false),
        ),
        (
            doc! { "locale": "th@collation=eor" },
            full("th@collation=eor", "off", 3, ni, false, false),
        ),
    ];
    for (given, wanted) in &rows {
        assert_eq!(
            normalize(given.doc()).ok().as_ref(),
            Some(wanted),
            "{given:?}"
        );
        assert_eq!(
            normalize(wanted.doc()).ok().as_ref(),
            Some(wanted),
            "the full form stays itself"
        );
        assert!(same(given.doc(), wanted.doc()));
    }
    let typed = |d: DocBuf| normalize_typed(d.doc(), "create.collation").ok();
    assert_eq!(
        typed(doc! { "locale": "da" }),
        Some(full("da", "off", 3, ni, false, false))
    );
    assert_eq!(
        typed(doc! { "locale": "fr_CA" }),
        Some(full("fr_CA", "off", 3, ni, false, true))
    );
    assert!(!same(
        doc! { "locale": "en" }.doc(),
        doc! { "locale": "fr" }.doc()
    ));
}

#[test]
fn sort_keys_are_appended() {
    let c = of(&doc! { "locale": "en" });
    let mut out = vec![7, 7];
    c.sort_key("a", &mut out);
    assert_eq!(out.split_at(2), (&[7u8, 7][..], &key(&*c, "a")[..]));
}

fn specs() -> Vec<DocBuf> {
    let mut all = Vec::new();
    for strength in 1..=5i32 {
        for locale in [
            "en",
            "sv",
            "ja",
            "zh",
            "tr",
            "lt",
            "en_US_POSIX",
            "vi",
            "ko",
            "de@collation=phonebook",
        ] {
            all.push(doc! { "locale": locale, "strength": strength });
        }
        for (level, numeric, alternate) in [
            (true, false, "non-ignorable"),
            (true, true, "shifted"),
            (false, true, "shifted"),
        ] {
            all.push(
                doc! { "locale": "en", "strength": strength, "caseLevel": level,
                "numericOrdering": numeric, "alternate": alternate },
            );
            all.push(
                doc! { "locale": "th", "strength": strength, "caseLevel": level,
                "maxVariable": "space", "alternate": alternate },
            );
        }
        if strength >= 2 {
            all.push(doc! { "locale": "fr", "strength": strength, "backwards": true });
            all.push(doc! { "locale": "fr_CA", "strength": strength });
        }
        for first in ["upper", "lower"] {
            all.push(
                doc! { "locale": "en", "strength": strength, "caseLevel": true,
                "caseFirst": first },
            );
            if strength >= 3 {
                all.push(doc! { "locale": "en", "strength": strength, "caseFirst": first });
            }
        }
    }
    all
}

/// Mostly strings that are equal on some level, and now and then any string.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[aAáÁàbBoÖö0-9 _\\-]{0,8}",
        2 => "[cCeéêôtçßsﬁſıİiI\u{301}\u{323}\u{308}あアｱ\u{0}\u{1}\u{fffe}\
            啊一가각ㄱ\u{1100}\u{1161}]{0,6}",
        1 => ".{0,6}",
        1 => any::<String>(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn sort_keys_order_as_comparison(a in text(), b in text()) {
        for spec in specs() {
            let c = of(&spec);
            prop_assert_eq!(c.compare(&a, &b), key(&*c, &a).cmp(&key(&*c, &b)), "{:?}", spec);
        }
    }
}
