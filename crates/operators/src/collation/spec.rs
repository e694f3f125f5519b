//! The collation document: types, values, combinations and defaults. Knows the rules, not the
//! string order.

use super::locale;
use model::{Doc, DocBuf, MongoError, Number, Result, Value, bail, code};

/// The collator version MongoDB 8.2 writes into catalogs and accepts.
pub const VERSION: &str = "57.1";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CaseFirst {
    Upper,
    Lower,
    Off,
}

/// The fields as given: `None` when absent; null is the fixed default.
#[derive(Default)]
pub(super) struct Fields<'a> {
    locale: Option<&'a str>,
    case_level: Option<bool>,
    case_first: Option<CaseFirst>,
    strength: Option<i32>,
    numeric_ordering: Option<bool>,
    shifted: Option<bool>,
    max_space: Option<bool>,
    normalization: Option<bool>,
    backwards: Option<bool>,
    version: Option<&'a str>,
}

/// A complete collation other than the simple one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spec<'a> {
    pub(super) locale: &'a str,
    pub(super) case_level: bool,
    pub(super) case_first: CaseFirst,
    /// 1 to 5.
    pub(super) strength: i32,
    pub(super) numeric_ordering: bool,
    pub(super) shifted: bool,
    pub(super) max_space: bool,
    pub(super) normalization: bool,
    pub(super) backwards: bool,
}

impl<'a> Fields<'a> {
    /// Reads the fields in the given order. `path` names the document in messages.
    pub(super) fn parse(spec: Doc<'a>, path: &str) -> Result<Fields<'a>> {
        let mut f = Fields::default();
        for (i, (name, v)) in spec.iter().enumerate() {
            if spec.iter().take(i).any(|(earlier, _)| earlier == name) {
                bail!(
                    code::IDL_DUPLICATE_FIELD,
                    "BSON field '{path}.{name}' is a duplicate field"
                );
            }
            let at = SpecField { path, name };
            match name {
                "locale" => f.locale = at.string(&v)?,
                "caseLevel" => f.case_level = Some(at.bool(&v)?.unwrap_or(false)),
                "caseFirst" => {
                    f.case_first = Some(at.word(&v, CASE_FIRST)?.unwrap_or(CaseFirst::Off))
                }
                "strength" => f.strength = Some(at.strength(&v)?.unwrap_or(3)),
                "numericOrdering" => f.numeric_ordering = Some(at.bool(&v)?.unwrap_or(false)),
                "alternate" => f.shifted = Some(at.word(&v, ALTERNATE)?.unwrap_or(false)),
                "maxVariable" => f.max_space = Some(at.word(&v, MAX_VARIABLE)?.unwrap_or(false)),
                "normalization" => f.normalization = Some(at.bool(&v)?.unwrap_or(false)),
                // The only field that does not take null.
                "backwards" => match v {
                    Value::Bool(b) => f.backwards = Some(b),
                    _ => bail!(
                        code::TYPE_MISMATCH,
                        "Field 'backwards' should be a boolean value, but found: {}",
                        v.type_name()
                    ),
                },
                "version" => f.version = at.string(&v)?,
                _ => bail!(
                    code::IDL_FAILED_TO_PARSE,
                    "BSON field '{path}.{name}' is an unknown field"
                ),
            }
        }
        if f.locale.is_none() {
            bail!(
                code::IDL_MISSING_FIELD,
                "BSON field '{path}.locale' is missing but a required field"
            );
        }
        Ok(f)
    }

    /// The document with the fixed defaults written out.
    pub(super) fn write_defaults(&self) -> DocBuf {
        DocBuf::build(|w| {
            w.put("locale", self.locale.unwrap_or_default());
            w.put("caseLevel", self.case_level.unwrap_or(false));
            w.put(
                "caseFirst",
                word_of(CASE_FIRST, self.case_first.unwrap_or(CaseFirst::Off)),
            );
            w.put("strength", self.strength.unwrap_or(3));
            w.put("numericOrdering", self.numeric_ordering.unwrap_or(false));
            w.put(
                "alternate",
                word_of(ALTERNATE, self.shifted.unwrap_or(false)),
            );
            w.put(
                "maxVariable",
                word_of(MAX_VARIABLE, self.max_space.unwrap_or(false)),
            );
            w.put("normalization", self.normalization.unwrap_or(false));
            if let Some(b) = self.backwards {
                w.put("backwards", b);
            }
            if let Some(v) = self.version {
                w.put("version", v);
            }
        })
    }
}

impl<'a> Spec<'a> {
    /// Parses and completes; `None` for the simple collation, whose other fields only have to be
    /// well-typed.
    pub(super) fn parse(doc: Doc<'a>) -> Result<Option<Spec<'a>>> {
        let f = Fields::parse(doc, "collation")?;
        let name = f.locale.unwrap_or_default();
        if name.contains('\0') {
            bail!(
                code::BAD_VALUE,
                "Field 'locale' cannot contain null byte. Collation spec: {doc}"
            );
        }
        if name == locale::SIMPLE {
            return Ok(None);
        }
        if name.is_empty() {
            bail!(
                code::BAD_VALUE,
                "Field 'locale' cannot be the empty string in: {doc}"
            );
        }
        if !locale::is_valid(name) {
            let hint = locale::nearest(name)
                .map(|n| format!(". Did you mean '{n}'?"))
                .unwrap_or_default();
            bail!(code::BAD_VALUE, "Field 'locale' is invalid in: {doc}{hint}");
        }
        let own = locale::defaults(name);
        let spec = Spec {
            locale: name,
            case_level: f.case_level.unwrap_or(false),
            case_first: f.case_first.unwrap_or(if own.upper_first {
                CaseFirst::Upper
            } else {
                CaseFirst::Off
            }),
            strength: f.strength.unwrap_or(3),
            numeric_ordering: f.numeric_ordering.unwrap_or(false),
            shifted: f.shifted.unwrap_or(own.shifted),
            max_space: f.max_space.unwrap_or(false),
            normalization: f.normalization.unwrap_or(own.normalization),
            backwards: f.backwards.unwrap_or(own.backwards),
        };
        spec.check(doc, f.version)?;
        Ok(Some(spec))
    }

    fn check(&self, doc: Doc<'_>, version: Option<&str>) -> Result<()> {
        if self.strength == 0 {
            return Err(bad_word("0", "collation.strength"));
        }
        if let Some(v) = version.filter(|v| *v != VERSION) {
            bail!(
                code::INCOMPATIBLE_COLLATION_VERSION,
                "Requested collation version {v} but the only available collator version was \
                    {VERSION}. Requested collation spec: {doc}"
            );
        }
        if self.backwards && self.strength == 1 {
            bail!(
                code::BAD_VALUE,
                "'backwards' is invalid with 'strength' of 1 in: {doc}"
            );
        }
        if self.case_first != CaseFirst::Off && !self.case_level && self.strength <= 2 {
            bail!(
                code::BAD_VALUE,
                "'caseFirst' is invalid unless 'caseLevel' is on or 'strength' is greater than 2 \
                    in: {doc}"
            );
        }
        Ok(())
    }

    /// Every field, in the catalog's order.
    pub(super) fn full(&self) -> DocBuf {
        DocBuf::build(|w| {
            w.put("locale", self.locale);
            w.put("caseLevel", self.case_level);
            w.put("caseFirst", word_of(CASE_FIRST, self.case_first));
            w.put("strength", self.strength);
            w.put("numericOrdering", self.numeric_ordering);
            w.put("alternate", word_of(ALTERNATE, self.shifted));
            w.put("maxVariable", word_of(MAX_VARIABLE, self.max_space));
            w.put("normalization", self.normalization);
            w.put("backwards", self.backwards);
            w.put("version", VERSION);
        })
    }
}

type Words<T> = &'static [(&'static str, T)];
const CASE_FIRST: Words<CaseFirst> = &[
    ("upper", CaseFirst::Upper),
    ("lower", CaseFirst::Lower),
    ("off", CaseFirst::Off),
];
const ALTERNATE: Words<bool> = &[("non-ignorable", false), ("shifted", true)];
const MAX_VARIABLE: Words<bool> = &[("punct", false), ("space", true)];

fn word_of<T: PartialEq>(words: Words<T>, of: T) -> &'static str {
    words.iter().find(|(_, v)| *v == of).map_or("", |(w, _)| w)
}

fn bad_word(given: &str, field: &str) -> MongoError {
    MongoError::new(
        code::BAD_VALUE,
        format!("Enumeration value '{given}' for field '{field}' is not a valid value"),
    )
}

/// The name of a field for messages.
struct SpecField<'p> {
    path: &'p str,
    name: &'p str,
}

impl SpecField<'_> {
    fn wrong(&self, v: &Value<'_>, wanted: &str) -> MongoError {
        let SpecField { path, name } = self;
        MongoError::type_mismatch(format!(
            "BSON field '{path}.{name}' is the wrong type '{}', expected {wanted}",
            v.type_name()
        ))
    }

    fn string<'v>(&self, v: &Value<'v>) -> Result<Option<&'v str>> {
        match v {
            Value::Null | Value::Undefined => Ok(None),
            Value::String(s) => Ok(Some(s)),
            _ => Err(self.wrong(v, "type 'string'")),
        }
    }

    fn bool(&self, v: &Value<'_>) -> Result<Option<bool>> {
        match v {
            Value::Null | Value::Undefined => Ok(None),
            Value::Bool(b) => Ok(Some(*b)),
            _ => Err(self.wrong(v, "type 'bool'")),
        }
    }

    fn word<T: Copy>(&self, v: &Value<'_>, words: Words<T>) -> Result<Option<T>> {
        let Some(given) = self.string(v)? else {
            return Ok(None);
        };
        match words.iter().find(|(w, _)| *w == given) {
            Some((_, value)) => Ok(Some(*value)),
            None => Err(bad_word(given, &format!("{}.{}", self.path, self.name))),
        }
    }

    /// 0 to 5: zero is accepted here and refused later, so that `{locale: "simple", strength: 0}`
    /// is valid as in MongoDB.
    fn strength(&self, v: &Value<'_>) -> Result<Option<i32>> {
        if matches!(v, Value::Null | Value::Undefined) {
            return Ok(None);
        }
        let Some(number) = Number::of(v) else {
            return Err(self.wrong(v, "types '[long, int, decimal, double]'"));
        };
        // Doubles lose their fraction, decimals are rounded to even; casts saturate and make NaN
        // zero.
        let n = match number {
            Number::Decimal(d) => d.to_f64().round_ties_even() as i32,
            other => other.to_f64() as i32,
        };
        if n > 5 {
            bail!(
                code::BAD_VALUE,
                "BSON field 'strength' value must be <= 5, actual value '{n}'"
            );
        }
        if n < 0 {
            bail!(
                code::BAD_VALUE,
                "BSON field 'strength' value must be >= 0, actual value '{n}'"
            );
        }
        Ok(Some(n))
    }
}
