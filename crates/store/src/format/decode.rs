//! Decodes components of keys: their length, and a value that encodes to the same bytes. Numbers
//! lose their type (keys of equal numbers are equal) and symbols become strings; all other values
//! are restored.

use super::keys;
use model::{Binary, DocBuf, DocWriter, ObjectId, OwnedValue, Regex, Timestamp, Value};

/// Reads the ascending component `bytes` begins with.
///
/// # Output
/// The value and the component's length; `None` for bytes that are no component.
pub fn component(bytes: &[u8]) -> Option<(OwnedValue, usize)> {
    let mut out = DocBuf::new();
    let mut len = None;
    out.append(|w| len = read(bytes, "", w));
    Some((out.doc().field("").to_owned_value(), len?))
}

/// As [`component`], for either direction of a field.
pub fn decode_directed(bytes: &[u8], descending: bool) -> Option<(OwnedValue, usize)> {
    if !descending {
        return component(bytes);
    }
    let turned: Vec<u8> = bytes.iter().map(|b| !b).collect();
    component(&turned)
}

/// The length of the component `bytes` begins with.
pub fn component_len(bytes: &[u8], descending: bool) -> Option<usize> {
    decode_directed(bytes, descending).map(|(_, len)| len)
}

/// Writes the value of the ascending component at the beginning of `bytes`; returns its length.
pub fn write(bytes: &[u8], name: &str, w: &mut DocWriter<'_>) -> Option<usize> {
    read(bytes, name, w)
}

/// The whole number of an ascending component.
pub fn read_whole_number(bytes: &[u8]) -> Option<i64> {
    let (&class, rest) = bytes.split_first()?;
    if class == keys::ZERO {
        return Some(0);
    }
    let negative = class < keys::ZERO;
    let len = usize::from(class.abs_diff(keys::ZERO)).checked_sub(1)?;
    let turned = |b: &u8| if negative { !b } else { *b };
    let whole = rest
        .get(..len)
        .filter(|_| (1..=8).contains(&len))?
        .iter()
        .fold(0i128, |n, b| n << 8 | i128::from(turned(b)));
    i64::try_from(if negative { -whole } else { whole }).ok()
}

fn read(b: &[u8], name: &str, w: &mut DocWriter<'_>) -> Option<usize> {
    let (&class, rest) = b.split_first()?;
    let simple = match class {
        keys::MIN_KEY => Some(Value::MinKey),
        keys::UNDEFINED => Some(Value::Undefined),
        keys::NULL => Some(Value::Null),
        keys::NAN => Some(Value::Double(f64::NAN)),
        keys::ZERO => Some(Value::Int32(0)),
        keys::FALSE => Some(Value::Bool(false)),
        keys::TRUE => Some(Value::Bool(true)),
        keys::MAX_KEY => Some(Value::MaxKey),
        _ => None,
    };
    if let Some(v) = simple {
        w.put(name, v);
        return Some(1);
    }
    match class {
        keys::OBJECT => {
            let mut inner = w.doc(name);
            Some(1 + fields(rest, &mut inner)?)
        }
        keys::ARRAY => array(rest, name, w),
        keys::STRING | keys::CODE | keys::REGEX | keys::CODE_WITH_SCOPE => {
            of_text(class, rest, name, w)
        }
        keys::BINARY | keys::OBJECT_ID | keys::DATE | keys::TIMESTAMP | keys::DB_POINTER => {
            of_fixed(class, rest, name, w)
        }
        _ => number(class, rest, name, w),
    }
}

fn array(b: &[u8], name: &str, w: &mut DocWriter<'_>) -> Option<usize> {
    let mut list = DocBuf::new();
    let mut at = 0;
    let mut ok = true;
    let mut n = 0usize;
    while *b.get(at)? != 0 {
        list.append(|w| match read(&b[at..], &n.to_string(), w) {
            Some(len) => at += len,
            None => ok = false,
        });
        if !ok {
            return None;
        }
        n += 1;
    }
    w.put(name, list.doc().as_array());
    Some(1 + at + 1)
}

/// Components that begin with escaped text.
fn of_text(class: u8, rest: &[u8], name: &str, w: &mut DocWriter<'_>) -> Option<usize> {
    let (first, len) = text(rest)?;
    match class {
        keys::STRING => w.put(name, Value::String(&first)),
        keys::CODE => w.put(name, Value::Code(&first)),
        keys::REGEX => {
            let (options, more) = text(rest.get(len..)?)?;
            w.put(
                name,
                Value::Regex(Regex {
                    pattern: &first,
                    options: &options,
                }),
            );
            return Some(1 + len + more);
        }
        _ => {
            let mut scope = DocBuf::new();
            let mut more = None;
            scope.append(|w| more = fields(&rest[len..], w));
            w.put(name, Value::CodeWithScope(&first, scope.doc().as_bytes()));
            return Some(1 + len + more?);
        }
    };
    Some(1 + len)
}

/// Components of fixed length, or with their length in front.
fn of_fixed(class: u8, rest: &[u8], name: &str, w: &mut DocWriter<'_>) -> Option<usize> {
    let eight = || rest.first_chunk::<8>().map(|b| u64::from_be_bytes(*b));
    match class {
        keys::BINARY => {
            let len = u32::from_be_bytes(*rest.first_chunk()?) as usize;
            let subtype = *rest.get(4)?;
            w.put(
                name,
                Value::Binary(Binary {
                    subtype,
                    bytes: rest.get(5..5 + len)?,
                }),
            );
            Some(1 + 5 + len)
        }
        keys::OBJECT_ID => {
            w.put(name, ObjectId(*rest.first_chunk()?));
            Some(13)
        }
        keys::DATE => {
            w.put(name, Value::Date((eight()? ^ (1 << 63)) as i64));
            Some(9)
        }
        keys::TIMESTAMP => {
            w.put(name, Value::Timestamp(Timestamp::from_u64(eight()?)));
            Some(9)
        }
        _ => {
            let len = u32::from_be_bytes(*rest.first_chunk()?) as usize;
            let ns = std::str::from_utf8(rest.get(4..4 + len)?).ok()?;
            w.put(
                name,
                Value::DbPointer(ns, ObjectId(*rest.get(4 + len..)?.first_chunk()?)),
            );
            Some(1 + 4 + len + 12)
        }
    }
}

fn fields(b: &[u8], w: &mut DocWriter<'_>) -> Option<usize> {
    let mut at = 0;
    while *b.get(at)? != 0 {
        let (name, len) = text(b.get(at + 1..)?)?;
        at += 1 + len;
        at += read(b.get(at..)?, &name, w)?;
    }
    Some(at + 1)
}

/// Escaped bytes up to their end, and how many bytes that was.
fn text(b: &[u8]) -> Option<(String, usize)> {
    let mut out = Vec::new();
    let mut at = 0;
    loop {
        let byte = *b.get(at)?;
        at += 1;
        if byte == 0 {
            if b.get(at) != Some(&0xFF) {
                // The sort key of a collation may not be valid text.
                return Some((String::from_utf8(out).unwrap_or_default(), at));
            }
            at += 1;
        }
        out.push(byte);
    }
}

fn number(class: u8, rest: &[u8], name: &str, w: &mut DocWriter<'_>) -> Option<usize> {
    let negative = class < keys::ZERO;
    let m = class.abs_diff(keys::ZERO);
    if m == keys::INFINITE {
        w.put(
            name,
            if negative {
                f64::NEG_INFINITY
            } else {
                f64::INFINITY
            },
        );
        return Some(1);
    }
    // The longest number: whole part, mark, fraction, mark, residual.
    let mut payload = [0u8; 8 + 1 + 8 + 1 + 18];
    let have = rest.len().min(payload.len());
    for (to, from) in payload.iter_mut().zip(rest) {
        *to = if negative { !from } else { *from };
    }
    let payload = payload.get(..have)?;
    let residual = |at: usize| {
        Some(if *payload.get(at)? == 1 {
            at + 1 + 18
        } else {
            at + 1
        })
    };
    let eight = |at: usize| Some(u64::from_be_bytes(*payload.get(at..)?.first_chunk()?));
    let sign = if negative { -1.0 } else { 1.0 };
    if m == keys::SMALL || m == keys::LARGE {
        w.put(name, sign * f64::from_bits(eight(0)?));
        return Some(1 + residual(8)?);
    }
    let len = usize::from(m)
        .checked_sub(1)
        .filter(|n| (1..=8).contains(n))?;
    let whole = payload
        .get(..len)?
        .iter()
        .fold(0u64, |n, b| n << 8 | u64::from(*b));
    if *payload.get(len)? == 1 {
        let fraction = eight(len + 1)? as f64 / 18_446_744_073_709_551_616.0;
        w.put(name, sign * (whole as f64 + fraction));
        return Some(1 + residual(len + 9)?);
    }
    let signed = if negative {
        -i128::from(whole)
    } else {
        i128::from(whole)
    };
    match (i32::try_from(signed), i64::try_from(signed)) {
        (Ok(n), _) => w.put(name, n),
        (_, Ok(n)) => w.put(name, n),
        _ => w.put(name, sign * whole as f64),
    };
    Some(1 + len + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::doc;

    #[test]
    fn components_come_back() {
        let d = doc! {
            "0": Value::MinKey, "1": Value::Null, "2": 0i32, "3": -7i32, "4": 70_000i32,
                "5": i64::MIN, "6": 1.5, "7": -0.25,
            "8": 1e300, "9": f64::INFINITY, "10": "a\0b", "11": "", "12": { "a": 1i32,
                "b": { "c": "x" } }, "13": [1i32, "a", [2i32]],
            "14": true, "15": Value::Date(-5), "16": ObjectId([3; 12]),
                "17": Value::Binary(Binary { subtype: 4, bytes: b"ab" }),
            "18": Value::Regex(Regex { pattern: "^a", options: "i" }), "19": Value::Code("f"),
                "20": Value::MaxKey,
            "21": Value::Timestamp(Timestamp::from_u64(77)), "22": [], "23": -1234567.5,
                "24": Value::Undefined
        };
        for (name, v) in d.doc().iter() {
            for descending in [false, true] {
                let mut key = Vec::new();
                keys::encode_directed(&v, descending, None, &mut key);
                let len = key.len();
                key.extend_from_slice(&[keys::END, 9, 9, 2]);
                let (back, read) =
                    decode_directed(&key, descending).unwrap_or_else(|| panic!("{name}: {v:?}"));
                assert_eq!(read, len, "{v:?}");
                assert!(
                    model::compare(&back.get(), &v).is_eq(),
                    "{v:?} came back as {:?}",
                    back.get()
                );
                assert_eq!(back.get().type_name(), v.type_name());
            }
        }
        for cut in [
            &[keys::STRING, b'a'][..],
            &[keys::DATE, 1],
            &[0x42, 1],
            &[0x00],
            &[],
        ] {
            assert!(component(cut).is_none(), "{cut:?}");
        }
    }

    #[test]
    fn decimals_beyond_doubles_have_a_length() {
        for t in [
            "0.1",
            "1.5",
            "9007199254740993.5",
            "1E+400",
            "-1E-400",
            "18446744073709551615.5",
            "NaN",
        ] {
            let mut key = Vec::new();
            keys::encode(
                &Value::Decimal128(model::Decimal128::parse(t).unwrap()),
                None,
                &mut key,
            );
            let len = key.len();
            key.push(keys::END);
            assert_eq!(component_len(&key, false), Some(len), "{t}");
        }
    }
}
