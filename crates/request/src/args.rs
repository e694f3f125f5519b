//! Arguments of commands: one declarative table per command, checked in one place.
//!
//! Promises: a command's `run` sees only arguments of the types its table names. Must not know:
//! what commands do.

use crate::Sequence;
use model::{Array, Doc, MongoError, Number, Result, Tag, Value, bail, code};
use smallvec::SmallVec;

/// Accepted BSON types of one argument.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Anything.
    Any,
    /// `true` or `false` only.
    Bool,
    /// `true`, `false` or any number.
    BoolLike,
    /// Any number; read with [`Args::int`] (truncated) or [`Args::value`].
    Number,
    /// Any number that fits 64 bits after truncation and is not below the first value; the second
    /// value is the error code otherwise.
    AtLeast(i64, i32),
    /// A string.
    Str,
    /// A document.
    Object,
    /// An array.
    Array,
    /// The name of a collection (73 when not a string, or empty).
    Collection,
    /// One of these types.
    OneOf(&'static [Tag]),
}

/// One row of a command's table.
#[derive(Clone, Copy, Debug)]
pub struct Arg {
    /// Field name.
    pub name: &'static str,
    /// Accepted types.
    pub kind: Kind,
    /// The command fails with 40414 without the argument.
    pub required: bool,
    /// Null is a wrong type; otherwise null counts as not given, as in most of MongoDB's parsers.
    pub strict_null: bool,
    /// The argument may be sent as a document sequence of the message.
    pub sequence: bool,
}

/// An optional argument.
pub const fn arg(name: &'static str, kind: Kind) -> Arg {
    Arg {
        name,
        kind,
        required: false,
        strict_null: false,
        sequence: false,
    }
}

impl Arg {
    /// Makes the argument required.
    pub const fn required(mut self) -> Arg {
        self.required = true;
        self
    }
    /// Allows the argument as a document sequence of the message.
    pub const fn sequence(mut self) -> Arg {
        self.sequence = true;
        self
    }
    /// Makes null a wrong type.
    pub const fn strict_null(mut self) -> Arg {
        self.strict_null = true;
        self
    }
}

const BOOL: &[Tag] = &[Tag::BOOL];
/// Types that count as true or false.
pub const BOOL_LIKE: &[Tag] = &[
    Tag::BOOL,
    Tag::INT64,
    Tag::INT32,
    Tag::DECIMAL128,
    Tag::DOUBLE,
];
const NUMBER: &[Tag] = &[Tag::INT64, Tag::INT32, Tag::DECIMAL128, Tag::DOUBLE];

impl Kind {
    fn tags(self) -> Option<&'static [Tag]> {
        Some(match self {
            Kind::Any | Kind::Collection => return None,
            Kind::Bool => BOOL,
            Kind::BoolLike => BOOL_LIKE,
            Kind::Number | Kind::AtLeast(..) => NUMBER,
            Kind::Str => &[Tag::STRING],
            Kind::Object => &[Tag::DOCUMENT],
            Kind::Array => &[Tag::ARRAY],
            Kind::OneOf(tags) => tags,
        })
    }
}

/// 14 TypeMismatch with MongoDB's message.
pub fn wrong_type(path: &str, value: &Value<'_>, expected: &[Tag]) -> MongoError {
    let given = value.type_name();
    MongoError::type_mismatch(match expected {
        [one] => format!(
            "BSON field '{path}' is the wrong type '{given}', expected type '{}'",
            one.name()
        ),
        many => {
            let names: Vec<&str> = many.iter().map(|t| t.name()).collect();
            format!(
                "BSON field '{path}' is the wrong type '{given}', expected types '[{}]'",
                names.join(", ")
            )
        }
    })
}

/// 40415 for a field that the table does not have.
pub fn unknown_field(path: &str) -> MongoError {
    MongoError::new(
        code::IDL_FAILED_TO_PARSE,
        format!("BSON field '{path}' is an unknown field"),
    )
}

/// 40414 for a missing required field.
pub fn missing_field(path: &str) -> MongoError {
    MongoError::new(
        code::IDL_MISSING_FIELD,
        format!("BSON field '{path}' is missing but a required field"),
    )
}

/// 40413 for a field given twice.
pub fn duplicate_field(path: &str) -> MongoError {
    MongoError::new(
        code::IDL_DUPLICATE_FIELD,
        format!("BSON field '{path}' is a duplicate field"),
    )
}

/// Checks one value against a row. Returns false for null, which counts as not given.
pub fn check_value(scope: &str, row: &Arg, value: &Value<'_>) -> Result<bool> {
    if let Some(tags) = row.kind.tags() {
        let tag = value.tag();
        if !tags.contains(&tag) {
            if !row.strict_null && matches!(tag, Tag::NULL | Tag::UNDEFINED) {
                return Ok(false);
            }
            return Err(wrong_type(&format!("{scope}.{}", row.name), value, tags));
        }
    }
    match row.kind {
        Kind::AtLeast(min, number) if to_i64(value).is_none_or(|n| n < min) => {
            bail!(
                number,
                "BSON field '{}' value must be >= {min}, actual value '{}'",
                row.name,
                show(value)
            )
        }
        Kind::Collection => collection_name(value).map(|_| true),
        _ => Ok(true),
    }
}

/// The collection that a value names.
///
/// # Errors
/// 73 InvalidNamespace.
pub fn collection_name<'a>(value: &Value<'a>) -> Result<&'a str> {
    let bad = |what: String| Err(MongoError::new(code::INVALID_NAMESPACE, what));
    match value {
        Value::String("") => {
            bad("Invalid namespace specified: the collection name is empty".to_owned())
        }
        Value::String(s) if s.contains('\0') => {
            bad("namespaces cannot have embedded null characters".to_owned())
        }
        Value::String(s) => Ok(s),
        other => bad(format!(
            "collection name has invalid type {}, expected string",
            other.type_name()
        )),
    }
}

/// A value as messages show it.
pub fn show(value: &Value<'_>) -> String {
    value.to_string()
}

/// A number converted to a 64-bit integer as MongoDB's lenient conversion does it: out of range is
/// clamped, doubles are truncated, decimals are rounded half to even, NaN is 0. `None` for a value
/// that is not a number.
pub fn to_i64(value: &Value<'_>) -> Option<i64> {
    Number::of(value).map(Number::to_i64_lenient)
}

/// A number truncated toward zero and clamped to 32 bits.
pub fn to_i32(value: &Value<'_>) -> Option<i32> {
    Some(to_i64(value)?.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32)
}

/// Checks a nested document against a table.
///
/// # Errors
/// 40415 IDLFailedToParse, 40414 IDLMissingField, 40413 IDLDuplicateField, 14 TypeMismatch and the
/// codes of ranges.
pub fn check_doc<'a>(scope: &str, table: &'static [Arg], doc: Doc<'a>) -> Result<Args<'a>> {
    let mut args = Args::new(&[]);
    for (name, value) in doc.iter() {
        args.take(scope, table, name, value)?;
    }
    args.finish(scope, table)?;
    Ok(args)
}

/// Checked arguments.
#[derive(Clone, Debug)]
pub struct Args<'a> {
    values: SmallVec<[(&'static str, Value<'a>, bool); 8]>,
    sequences: &'a [Sequence<'a>],
}

impl<'a> Args<'a> {
    /// Arguments without values.
    pub fn new(sequences: &'a [Sequence<'a>]) -> Args<'a> {
        Args {
            values: SmallVec::new(),
            sequences,
        }
    }

    /// The arguments of a command inside another command, checked by its table. Fields that the
    /// table does not have are left out, as in MongoDB's `explain`.
    ///
    /// # Errors
    /// 40413 IDLDuplicateField, 14 TypeMismatch and the codes of ranges.
    pub fn of_inner(name: &str, table: &'static [Arg], inner: Doc<'a>) -> Result<Args<'a>> {
        let mut args = Args::new(&[]);
        for (field, value) in inner.iter().skip(1) {
            if table.iter().any(|a| a.name == field) {
                args.take(name, table, field, value)?;
            }
        }
        Ok(args)
    }

    /// Checks and keeps one field; 40415 when the table does not have it.
    pub fn take(
        &mut self,
        scope: &str,
        table: &'static [Arg],
        name: &str,
        value: Value<'a>,
    ) -> Result<()> {
        let Some(row) = table.iter().find(|r| r.name == name) else {
            return Err(unknown_field(&format!("{scope}.{name}")));
        };
        if self.values.iter().any(|(n, ..)| *n == row.name) {
            return Err(duplicate_field(&format!("{scope}.{name}")));
        }
        let present = check_value(scope, row, &value)?;
        self.values.push((row.name, value, present));
        Ok(())
    }

    /// Checks the value of the command's first field, whichever name or alias the field has, and
    /// keeps it.
    ///
    /// # Errors
    /// 14 TypeMismatch, 40414 for a missing one.
    pub fn take_own(&mut self, name: &'static str, kind: Kind, value: Value<'a>) -> Result<()> {
        let row = Arg {
            name,
            kind,
            required: true,
            strict_null: false,
            sequence: false,
        };
        if !check_value(name, &row, &value)? {
            return Err(missing_field(&format!("{name}.{name}")));
        }
        self.push_own(name, value);
        Ok(())
    }

    /// Keeps the value of the command's first field.
    pub(crate) fn push_own(&mut self, name: &'static str, value: Value<'a>) {
        self.values.push((name, value, true));
    }

    /// Checks the sequences and the required arguments; called after the last field.
    pub fn finish(&mut self, scope: &str, table: &'static [Arg]) -> Result<()> {
        for (i, s) in self.sequences.iter().enumerate() {
            let path = || format!("{scope}.{}", s.name);
            let Some(row) = table.iter().find(|r| r.name == s.name && r.sequence) else {
                return Err(unknown_field(&path()));
            };
            let twice = self.sequences.iter().take(i).any(|o| o.name == s.name);
            if twice || self.values.iter().any(|(n, ..)| *n == row.name) {
                return Err(duplicate_field(&path()));
            }
        }
        for row in table.iter().filter(|r| r.required) {
            let given = self
                .values
                .iter()
                .any(|(n, _, present)| *n == row.name && *present);
            if !given && !self.sequences.iter().any(|s| s.name == row.name) {
                return Err(missing_field(&format!("{scope}.{}", row.name)));
            }
        }
        Ok(())
    }

    /// The value; `Missing` when not given, or when it is null and null means not given.
    pub fn value(&self, name: &str) -> Value<'a> {
        self.values
            .iter()
            .find(|(n, _, present)| *n == name && *present)
            .map_or(Value::Missing, |(_, v, _)| *v)
    }
    /// The value as it was given; may be null.
    pub fn raw_value(&self, name: &str) -> Value<'a> {
        self.values
            .iter()
            .find(|(n, ..)| *n == name)
            .map_or(Value::Missing, |(_, v, _)| *v)
    }
    /// True when the argument was given.
    pub fn has(&self, name: &str) -> bool {
        !self.value(name).is_missing()
    }
    /// A boolean or a number's truth value; the default when not given.
    pub fn bool(&self, name: &str, default: bool) -> bool {
        match self.value(name) {
            Value::Missing => default,
            v => v.truthy(),
        }
    }
    /// A number truncated to 64 bits.
    pub fn int(&self, name: &str) -> Option<i64> {
        to_i64(&self.value(name))
    }
    /// A string.
    pub fn str(&self, name: &str) -> Option<&'a str> {
        self.value(name).as_str()
    }
    /// A document.
    pub fn doc(&self, name: &str) -> Option<Doc<'a>> {
        self.value(name).as_doc()
    }
    /// An array.
    pub fn array(&self, name: &str) -> Option<Array<'a>> {
        self.value(name).as_array()
    }
    /// The documents of an argument, sent as an array of the body or as a sequence of the message.
    ///
    /// # Errors
    /// 14 TypeMismatch when an element of the array is not a document.
    pub fn documents(&self, scope: &str, name: &str) -> Result<Vec<Doc<'a>>> {
        if let Some(s) = self.sequences.iter().find(|s| s.name == name) {
            return Ok(s.iter().collect());
        }
        let Some(array) = self.array(name) else {
            return Ok(Vec::new());
        };
        let one = |(i, v): (usize, Value<'a>)| {
            v.as_doc()
                .ok_or_else(|| wrong_type(&format!("{scope}.{name}.{i}"), &v, &[Tag::DOCUMENT]))
        };
        array.iter().enumerate().map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::doc;

    static TABLE: &[Arg] = &[
        arg("list", Kind::Array).required(),
        arg("flag", Kind::Bool),
        arg("loose", Kind::BoolLike),
        arg("size", Kind::AtLeast(1, 51024)),
        arg("strict", Kind::Str).strict_null(),
    ];

    #[test]
    fn codes_and_words() {
        let check = |d: model::DocBuf| check_doc("x", TABLE, d.doc()).map(|_| ()).unwrap_err();
        let e = check(doc! { "list": "no" });
        assert_eq!(
            (e.code(), e.message()),
            (
                14,
                "BSON field 'x.list' is the wrong type 'string', expected type 'array'"
            )
        );
        let e = check(doc! { "list": [], "loose": "no" });
        assert_eq!(
            e.message(),
            "BSON field 'x.loose' is the wrong type 'string', expected types '[bool, long, int, \
                decimal, double]'"
        );
        assert_eq!(check(doc! { "flag": true }).code(), 40414);
        assert_eq!(check(doc! { "list": Value::Null }).code(), 40414);
        assert_eq!(check(doc! { "list": [], "list": [] }).code(), 40413);
        assert_eq!(check(doc! { "list": [], "other": 1i32 }).code(), 40415);
        assert_eq!(check(doc! { "list": [], "flag": 1i32 }).code(), 14);
        assert_eq!(check(doc! { "list": [], "size": 0i32 }).code(), 51024);
        assert_eq!(check(doc! { "list": [], "strict": Value::Null }).code(), 14);
        let d = doc! { "list": [1i32], "flag": Value::Null, "loose": 2.0, "size": 7.9 };
        let args = check_doc("x", TABLE, d.doc()).unwrap();
        for (text, n) in [
            ("0.5", 0),
            ("1.5", 2),
            ("2.5", 2),
            ("-1.5", -2),
            ("0.50001", 1),
            ("1E-6176", 0),
            ("12E1", 120),
            ("7", 7),
        ] {
            assert_eq!(
                to_i64(&Value::from(model::Decimal128::parse(text).unwrap())),
                Some(n),
                "{text}"
            );
        }
        assert!(!args.has("flag") && args.bool("loose", false) && args.int("size") == Some(7));
    }
}
