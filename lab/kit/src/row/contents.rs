//! Checks whether a row that a target returned is the row that the lab stored.
//!
//! Promises: text fields of the lab's own kinds contain a checksum of the text, the field's name
//! and the row's id. It replaces some random characters, so that neither size nor compressibility
//! changes. A row that lacks a field, is truncated, or has the contents of another row is detected.
//! Documents of workload files and records of programs have no checksums. Must not know: how a
//! target stores rows.

use std::cmp::Ordering;
use std::ops::Range;

use crate::row::{DocumentKind, FieldType, Key, Table, Value};
use crate::seed::mix;

/// The largest number of characters of a checksum. It is also at most a quarter of the text,
/// because half of the text may be a single repeated letter.
const CHECKSUM_MAX: usize = 8;
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const DIGITS: &[u8; 10] = b"0123456789";

/// A hash of the value of a text field.
pub fn hash_of(text: &str) -> u64 {
    hash_bytes(text.len() as u64, text.as_bytes())
}

fn hash_bytes(start: u64, bytes: &[u8]) -> u64 {
    const FACTOR: u64 = 0x517c_c1b7_2722_0a95;
    let mut out = start;
    let mut add = |word: u64| out = (out.rotate_left(5) ^ word).wrapping_mul(FACTOR);
    let (words, rest) = bytes.as_chunks::<8>();
    words.iter().for_each(|word| add(u64::from_le_bytes(*word)));
    rest.iter().for_each(|byte| add(u64::from(*byte)));
    mix(out)
}

/// The position of the checksum in a text; `None` if the text is too short.
fn place(kind: DocumentKind, text: &[u8]) -> Option<Range<usize>> {
    let length = CHECKSUM_MAX.min(text.len() / 4);
    let start = match kind {
        // The header of the text must stay readable.
        DocumentKind::Keyed => text.iter().position(|byte| *byte == b'>')? + 1,
        _ => 0,
    };
    (length > 0 && start + length <= text.len()).then_some(start..start + length)
}

fn checksum(kind: DocumentKind, name: &str, id: Option<&Key>, text: &[u8]) -> Option<[u8; 8]> {
    let place = place(kind, text)?;
    let mut hash = hash_bytes(text.len() as u64, name.as_bytes());
    hash = match id {
        Some(Key::Number(number)) => mix(hash ^ number.cast_unsigned()),
        Some(Key::Text(text)) => hash_bytes(hash, text.as_bytes()),
        None => hash,
    };
    let (before, after) = (text.get(..place.start)?, text.get(place.end..)?);
    hash = hash_bytes(hash_bytes(hash, before), after);
    let letters: &[u8] = match kind {
        DocumentKind::Sysbench => DIGITS,
        _ => LETTERS,
    };
    let mut out = [0; CHECKSUM_MAX];
    for letter in &mut out {
        let at = hash % letters.len() as u64;
        hash /= letters.len() as u64;
        *letter = letters.get(at as usize).copied().unwrap_or(b'a');
    }
    Some(out)
}

/// Writes the checksum of a field into it.
pub fn write_checksum(kind: DocumentKind, name: &str, id: Option<&Key>, value: &mut Value) {
    let Value::Text(text) = value else {
        return;
    };
    let mut bytes = std::mem::take(text).into_bytes();
    let checksum = checksum(kind, name, id, &bytes);
    if let (Some(checksum), Some(place)) = (checksum, place(kind, &bytes))
        && let Some(own) = bytes.get_mut(place)
    {
        own.iter_mut()
            .zip(checksum)
            .for_each(|(own, letter)| *own = letter);
    }
    // Texts of these kinds are ASCII.
    *text = String::from_utf8(bytes).unwrap_or_default();
}

/// A field as a driver returns it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FieldView<'a> {
    /// A whole number.
    Int(i64),
    /// A fraction.
    Double(f64),
    /// A date.
    Date(i64),
    /// Text.
    Text(&'a str),
    /// Anything else.
    Other,
}

impl<'a> From<&'a Value> for FieldView<'a> {
    fn from(value: &'a Value) -> Self {
        match value {
            Value::Int(number) => Self::Int(i64::from(*number)),
            Value::Long(number) => Self::Int(*number),
            Value::Double(number) => Self::Double(*number),
            Value::Date(ms) => Self::Date(*ms),
            Value::Text(text) => Self::Text(text),
            Value::Tree(_) => Self::Other,
        }
    }
}

impl FieldView<'_> {
    /// Compares two values of one field.
    pub fn order(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Int(one) | Self::Date(one), Self::Int(two) | Self::Date(two)) => one.cmp(two),
            (Self::Double(one), Self::Double(two)) => one.total_cmp(two),
            (Self::Text(one), Self::Text(two)) => one.as_bytes().cmp(two.as_bytes()),
            _ => Ordering::Equal,
        }
    }
}

/// The expected contents of a table's rows.
#[derive(Clone, Debug)]
pub struct Contents {
    kind: DocumentKind,
    fields: Vec<(&'static str, FieldType)>,
    names: Vec<&'static str>,
    has_ids: bool,
}

impl Contents {
    /// The expected contents of the rows of `table`.
    pub fn of(table: &Table) -> Self {
        let mut fields = table.kind.fields();
        let names = fields.iter().map(|(name, _)| *name).collect();
        // Some rows omit an empty pad.
        if table.payload == 0 {
            fields.retain(|(_, of_type)| *of_type != FieldType::Text(0));
        }
        Self {
            kind: table.kind,
            fields,
            names,
            has_ids: !table.target_makes_ids,
        }
    }

    /// Names of all fields of the kind in order.
    pub fn names(&self) -> &[&'static str] {
        &self.names
    }

    /// Checks a row with all its fields, in any order.
    ///
    /// # Errors
    /// The error in the row.
    pub fn check<'a>(
        &self,
        id: Option<&Key>,
        fields: impl Iterator<Item = (&'a str, FieldView<'a>)>,
    ) -> Result<(), String> {
        let id = id.filter(|_| self.has_ids);
        let mut seen: u32 = 0;
        for (name, view) in fields {
            let mut known = self.fields.iter().enumerate();
            let Some((at, (_, of_type))) = known.find(|(_, (known, _))| *known == name) else {
                continue;
            };
            seen |= 1 << at.min(31);
            self.check_field(name, *of_type, id, view)?;
        }
        let mut missing = self.fields.iter().enumerate();
        match missing.find(|(at, _)| seen & (1 << at.min(&31)) == 0) {
            Some((_, (name, _))) => Err(format!("its field '{name}' is missing")),
            None => Ok(()),
        }
    }

    /// Checks that a field has one of its possible values.
    ///
    /// # Errors
    /// The field has another value.
    pub fn check_version(
        allowed: &[(&'static str, Vec<u64>)],
        name: &str,
        view: FieldView<'_>,
    ) -> Result<(), String> {
        let Some((_, hashes)) = allowed.iter().find(|(known, _)| *known == name) else {
            return Ok(());
        };
        match view {
            FieldView::Text(text) if hashes.contains(&hash_of(text)) => Ok(()),
            _ => Err(format!(
                "its field '{name}' does not hold what was acknowledged last"
            )),
        }
    }

    fn check_field(
        &self,
        name: &str,
        of_type: FieldType,
        id: Option<&Key>,
        view: FieldView<'_>,
    ) -> Result<(), String> {
        let text = match (of_type, view) {
            (FieldType::Text(_), FieldView::Text(text)) => text,
            (FieldType::Double, FieldView::Double(_))
            | (
                FieldType::Int | FieldType::Long | FieldType::Date,
                FieldView::Int(_) | FieldView::Date(_),
            ) => return Ok(()),
            _ => return Err(format!("its field '{name}' has another type")),
        };
        let bytes = text.as_bytes();
        let Some(place) = place(self.kind, bytes) else {
            return Ok(());
        };
        let expected = checksum(self.kind, name, id, bytes).unwrap_or_default();
        let found = bytes.get(place).unwrap_or_default();
        if expected.starts_with(found) {
            return Ok(());
        }
        Err(format!(
            "its field '{name}' holds what the lab never stored there"
        ))
    }
}

/// Checks that the ids of rows come in order.
#[derive(Clone, Debug)]
pub struct OrderChecker {
    last: Key,
    reverse: bool,
    is_first: bool,
}

impl OrderChecker {
    /// Ids from `from` on.
    pub fn from(from: Key, reverse: bool) -> Self {
        Self {
            last: from,
            reverse,
            is_first: true,
        }
    }

    /// Takes the next id.
    ///
    /// # Errors
    /// The id is equal to the previous one or out of order.
    pub fn take(&mut self, id: Key) -> Result<(), String> {
        let mut order = id.cmp(&self.last);
        if self.reverse {
            order = order.reverse();
        }
        let fits = order == Ordering::Greater || self.is_first && order == Ordering::Equal;
        if !fits {
            return Err(format!("_id {id} came after {}", self.last));
        }
        (self.last, self.is_first) = (id, false);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::stream;

    fn table(kind: DocumentKind) -> Table {
        Table {
            name: "t".to_owned(),
            kind,
            target_makes_ids: false,
            ids_in_no_order: false,
            payload: 24,
            capped_bytes: None,
        }
    }

    fn draw_row(kind: DocumentKind, number: u64) -> (Key, Vec<(&'static str, Value)>) {
        let id = kind.key(number);
        let mut random = stream(9, "load", "insert", number as u32);
        let mut fields = kind.draw(&mut random, number, 100, 24, 0);
        for (name, value) in &mut fields {
            write_checksum(kind, name, Some(&id), value);
        }
        (id, fields)
    }

    fn check_row(
        kind: DocumentKind,
        id: &Key,
        fields: &[(&'static str, Value)],
    ) -> Result<(), String> {
        let views = fields.iter().map(|(name, value)| (*name, value.into()));
        Contents::of(&table(kind)).check(Some(id), views)
    }

    #[test]
    fn rows_of_every_kind_are_verified_and_wrong_ones_fail() {
        for kind in [
            DocumentKind::Purchase,
            DocumentKind::PurchaseClassic,
            DocumentKind::Sysbench,
            DocumentKind::Keyed,
            DocumentKind::Numbered,
            DocumentKind::Ycsb,
            DocumentKind::Small,
        ] {
            let (id, mut fields) = draw_row(kind, 7);
            assert_eq!(check_row(kind, &id, &fields), Ok(()), "{kind:?}");
            let mut random = stream(3, "run", "update-set", 0);
            let (name, mut value) = kind.fresh_field(&mut random, 24);
            write_checksum(kind, name, Some(&id), &mut value);
            let at = fields.iter().position(|(known, _)| *known == name);
            fields[at.unwrap()].1 = value;
            assert_eq!(
                check_row(kind, &id, &fields),
                Ok(()),
                "{kind:?} after a change"
            );
            for missing in 0..fields.len() {
                let mut fewer = fields.clone();
                fewer.remove(missing);
                assert!(check_row(kind, &id, &fewer).is_err(), "{kind:?} {missing}");
            }
            let (other, _) = draw_row(kind, 8);
            assert!(
                check_row(kind, &other, &fields).is_err(),
                "{kind:?}: the contents of another row"
            );
            let cut = |value: &Value| match value {
                Value::Text(text) => Value::Text(text[..text.len() - 1].to_owned()),
                _ => Value::Text("x".to_owned()),
            };
            for at in 0..fields.len() {
                let mut changed = fields.clone();
                changed[at].1 = cut(&changed[at].1);
                assert!(check_row(kind, &id, &changed).is_err(), "{kind:?} {at}");
            }
        }
    }

    #[test]
    fn sizes_and_published_shapes_stay() {
        let kind = DocumentKind::Sysbench;
        let (_, fields) = draw_row(kind, 3);
        let Value::Text(c) = &fields[1].1 else {
            panic!("{fields:?}");
        };
        let groups: Vec<&str> = c.split('-').collect();
        assert!(
            groups.len() == 10
                && groups
                    .iter()
                    .all(|group| group.len() == 11 && group.bytes().all(|b| b.is_ascii_digit())),
            "{c}"
        );
        let (_, fields) = draw_row(DocumentKind::Keyed, 3);
        let Value::Text(body) = &fields[0].1 else {
            panic!("{fields:?}");
        };
        assert!(
            body.starts_with("<3 ") && body.ends_with("x<end>"),
            "{body}"
        );
    }

    #[test]
    fn ids_in_order_and_others() {
        let take = |reverse: bool, ids: &[i64]| {
            let mut order = OrderChecker::from(Key::Number(5), reverse);
            ids.iter().try_for_each(|id| order.take(Key::Number(*id)))
        };
        assert!(take(false, &[5, 6, 9]).is_ok() && take(true, &[4, 2]).is_ok());
        for (reverse, ids) in [
            (false, &[4][..]),
            (false, &[6, 6]),
            (false, &[7, 6]),
            (true, &[6]),
            (true, &[3, 4]),
        ] {
            assert!(take(reverse, ids).is_err(), "{ids:?}");
        }
    }
}
