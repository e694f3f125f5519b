//! `$exists` (any truthy operand) and `$type` (names, numbers, "number", arrays of them). A type is
//! searched among the elements of an array and compared with the array itself. Errors of `$type`: 2
//! unknown name or number, 9 empty array, 14 operand of another type.

use model::{Result, Tag, Value, bail, code};

/// A set of types.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct TypeSet {
    bits: u32,
    /// Written as "number", which JSON schema distinguishes from the four types.
    pub all_numbers: bool,
}

fn bit(tag: Tag) -> u32 {
    match tag.0 {
        0xFF => 1 << 30,
        0x7F => 1 << 31,
        n => 1 << (n & 31),
    }
}

impl TypeSet {
    /// Adds one type.
    pub fn insert(&mut self, tag: Tag) {
        self.bits |= bit(tag);
    }

    /// Adds the four numeric types.
    pub fn insert_numbers(&mut self) {
        self.all_numbers = true;
        for t in [Tag::INT32, Tag::INT64, Tag::DOUBLE, Tag::DECIMAL128] {
            self.insert(t);
        }
    }

    /// True when the value has one of the types; a missing value has none.
    pub fn contains(&self, v: &Value<'_>) -> bool {
        !v.is_missing() && self.bits & bit(v.tag()) != 0
    }

    /// Adds the type with this name.
    ///
    /// # Errors
    /// 2 BadValue for an unknown name.
    pub fn insert_name(&mut self, name: &str) -> Result<()> {
        if name == "number" {
            self.insert_numbers();
            return Ok(());
        }
        let Some(tag) = Tag::from_name(name) else {
            bail!(code::BAD_VALUE, "Unknown type name alias: {name}")
        };
        self.insert(tag);
        Ok(())
    }

    /// Parses the operand of `$type`.
    ///
    /// # Errors
    /// 2 BadValue, 9 FailedToParse, 14 TypeMismatch.
    pub(super) fn parse(spec: Value<'_>) -> Result<TypeSet> {
        let mut set = TypeSet::default();
        match spec {
            Value::Array(a) => {
                if a.is_empty() {
                    bail!(code::FAILED_TO_PARSE, "$type must match at least one type");
                }
                a.iter().try_for_each(|v| set.insert_spec(v))?;
            }
            v => set.insert_spec(v)?,
        }
        Ok(set)
    }

    fn insert_spec(&mut self, v: Value<'_>) -> Result<()> {
        match v {
            Value::String(s) => self.insert_name(s),
            v if v.is_number() => {
                let tag = v.as_i64_exact().and_then(|n| match n {
                    -1 => Some(Tag::MIN_KEY),
                    127 => Some(Tag::MAX_KEY),
                    1..=19 => u8::try_from(n).ok().map(Tag),
                    _ => None,
                });
                let Some(tag) = tag else {
                    bail!(code::BAD_VALUE, "Invalid numerical type code: {}", v)
                };
                self.insert(tag);
                Ok(())
            }
            v => bail!(
                code::TYPE_MISMATCH,
                "type must be represented as a number or a string, not {}",
                v.type_name()
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::doc;

    #[test]
    fn names_numbers_and_errors() {
        let d = doc! { "ok": ["number", "string", -1i32], "empty": [], "bad": "x", "half": 1.5,
        "wrong": true };
        let set = TypeSet::parse(d.doc().field("ok")).unwrap();
        for (v, wanted) in [
            (Value::Int32(1), true),
            (Value::MinKey, true),
            (Value::MaxKey, false),
            (Value::Missing, false),
            (Value::Null, false),
            (Value::String(""), true),
        ] {
            assert_eq!(set.contains(&v), wanted, "{v:?}");
        }
        for (field, wanted) in [("empty", 9), ("bad", 2), ("half", 2), ("wrong", 14)] {
            assert_eq!(
                TypeSet::parse(d.doc().field(field)).unwrap_err().code(),
                wanted,
                "{field}"
            );
        }
    }
}
