//! JSON text to values: the input of `$toObject` and `$toArray`. Strict JSON; of two fields with
//! the same name the later value is kept, at the position of the first. Extended JSON is not
//! interpreted.
//!
//! Must not know: expressions.

use model::MAX_DEPTH;
use model::{ArrayWriter, Doc, DocBuf, DocWriter, Value};
use rustc_hash::{FxHashMap, FxHashSet};
use std::borrow::Cow;

/// The value of a text that is a JSON object or array, in a document under the empty name.
///
/// # Errors
/// A sentence that describes the error in the text.
pub(super) fn parse(text: &str) -> Result<DocBuf, String> {
    let mut p = Parser {
        text,
        at: 0,
        depth: 0,
        has_twins: false,
    };
    p.skip_space();
    if !matches!(p.peek(), Some(b'{' | b'[')) {
        return Err(match p.peek() {
            None => "Unexpected end of the text".to_owned(),
            Some(_) => "Unexpected standalone value".to_owned(),
        });
    }
    let mut failure = None;
    let parsed = DocBuf::build(|w| failure = p.field(w, "").err());
    if let Some(why) = failure {
        return Err(why);
    }
    p.skip_space();
    if p.at < text.len() {
        return Err(format!("Unexpected text at byte {}", p.at));
    }
    Ok(if p.has_twins {
        DocBuf::build(|w| keep_last(parsed.doc(), w))
    } else {
        parsed
    })
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
    /// Some object has two fields with the same name.
    has_twins: bool,
}

/// A scalar, or the start of a container.
enum Token<'t> {
    Value(Value<'t>),
    String(Cow<'t, str>),
    Object,
    Array,
}

impl<'t> Parser<'t> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn unexpected_message(&self) -> String {
        match self
            .text
            .get(self.at..)
            .and_then(|rest| rest.chars().next())
        {
            Some(c) => format!("Unexpected character '{c}' at byte {}", self.at),
            None => "Unexpected end of the text".to_owned(),
        }
    }

    /// Consumes `wanted` and the white space after it.
    fn take(&mut self, wanted: u8) -> Result<(), String> {
        if self.peek() != Some(wanted) {
            return Err(self.unexpected_message());
        }
        self.at += 1;
        self.skip_space();
        Ok(())
    }

    /// Consumes `wanted` if it is next; returns whether it was.
    fn took(&mut self, wanted: u8) -> bool {
        self.take(wanted).is_ok()
    }

    fn token(&mut self) -> Result<Token<'t>, String> {
        let literals = [
            ("null", Value::Null),
            ("true", Value::Bool(true)),
            ("false", Value::Bool(false)),
        ];
        let rest = self.text.get(self.at..).unwrap_or("");
        if let Some((word, v)) = literals.iter().find(|(word, _)| rest.starts_with(word)) {
            self.at += word.len();
            return Ok(Token::Value(*v));
        }
        Ok(match self.peek() {
            Some(b'{') => Token::Object,
            Some(b'[') => Token::Array,
            Some(b'"') => Token::String(self.string()?),
            Some(b'-' | b'0'..=b'9') => Token::Value(self.number()?),
            _ => return Err(self.unexpected_message()),
        })
    }

    fn field(&mut self, w: &mut DocWriter<'_>, name: &str) -> Result<(), String> {
        match self.token()? {
            Token::Value(v) => _ = w.put(name, v),
            Token::String(s) => _ = w.put(name, s.as_ref()),
            Token::Object => self.object(&mut w.doc(name))?,
            Token::Array => self.array(&mut w.array(name))?,
        }
        self.skip_space();
        Ok(())
    }

    fn element(&mut self, w: &mut ArrayWriter<'_>) -> Result<(), String> {
        match self.token()? {
            Token::Value(v) => _ = w.push(v),
            Token::String(s) => _ = w.push(s.as_ref()),
            Token::Object => self.object(&mut w.doc())?,
            Token::Array => self.array(&mut ArrayWriter::array(w))?,
        }
        self.skip_space();
        Ok(())
    }

    fn enter(&mut self, bracket: u8) -> Result<(), String> {
        self.depth += 1;
        if self.depth >= MAX_DEPTH {
            return Err(format!("Nested deeper than {} levels", MAX_DEPTH - 1));
        }
        self.take(bracket)
    }

    fn object(&mut self, w: &mut DocWriter<'_>) -> Result<(), String> {
        self.enter(b'{')?;
        let mut names = FxHashSet::default();
        if self.peek() != Some(b'}') {
            loop {
                if self.peek() != Some(b'"') {
                    return Err(self.unexpected_message());
                }
                let name = self.string()?;
                if name.contains('\0') {
                    return Err("Illegal embedded null byte".to_owned());
                }
                self.skip_space();
                self.take(b':')?;
                self.field(w, &name)?;
                self.has_twins |= !names.insert(name);
                if !self.took(b',') {
                    break;
                }
            }
        }
        self.depth -= 1;
        self.take(b'}')
    }

    fn array(&mut self, w: &mut ArrayWriter<'_>) -> Result<(), String> {
        self.enter(b'[')?;
        if self.peek() != Some(b']') {
            loop {
                self.element(w)?;
                if !self.took(b',') {
                    break;
                }
            }
        }
        self.depth -= 1;
        self.take(b']')
    }

    /// Consumes the digits that come next; returns their number.
    fn digits(&mut self) -> usize {
        let from = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        self.at - from
    }

    /// An int where it fits, else a long, else a double; a number with a point or an exponent is a
    /// double.
    fn number(&mut self) -> Result<Value<'t>, String> {
        let from = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        let leading_zero = self.peek() == Some(b'0');
        let digits = self.digits();
        if digits == 0 || leading_zero && digits > 1 {
            return Err(self.unexpected_message());
        }
        let mut is_whole = true;
        if self.peek() == Some(b'.') {
            self.at += 1;
            is_whole = false;
            if self.digits() == 0 {
                return Err(self.unexpected_message());
            }
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            is_whole = false;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            if self.digits() == 0 {
                return Err(self.unexpected_message());
            }
        }
        let text = self.text.get(from..self.at).unwrap_or("");
        if is_whole && let Ok(n) = text.parse::<i64>() {
            return Ok(i32::try_from(n).map_or(Value::Int64(n), Value::Int32));
        }
        match text.parse::<f64>() {
            Ok(x) if x.is_finite() => Ok(Value::Double(x)),
            _ => Err(format!("The number {text} is out of range")),
        }
    }

    /// A string, after its opening quote.
    fn string(&mut self) -> Result<Cow<'t, str>, String> {
        self.at += 1;
        let from = self.at;
        let mut made: Option<String> = None;
        let mut plain_from = from;
        loop {
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => {
                    let out = made.get_or_insert_default();
                    out.push_str(self.text.get(plain_from..self.at).unwrap_or(""));
                    self.at += 1;
                    let c = self.escape()?;
                    out.push(c);
                    plain_from = self.at;
                }
                Some(0..0x20) | None => return Err(self.unexpected_message()),
                Some(_) => self.at += 1,
            }
        }
        let plain = self.text.get(plain_from..self.at).unwrap_or("");
        self.at += 1;
        Ok(match made {
            None => Cow::Borrowed(plain),
            Some(mut out) => {
                out.push_str(plain);
                Cow::Owned(out)
            }
        })
    }

    /// The character of an escape, after the backslash.
    fn escape(&mut self) -> Result<char, String> {
        let c = match self.peek() {
            Some(c @ (b'"' | b'\\' | b'/')) => c.into(),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.at += 1;
                return self.unicode();
            }
            _ => return Err(self.unexpected_message()),
        };
        self.at += 1;
        Ok(c)
    }

    /// Four hexadecimal digits.
    fn unit(&mut self) -> Result<u32, String> {
        let digits = self.text.get(self.at..self.at + 4).unwrap_or("");
        if digits.len() != 4 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(self.unexpected_message());
        }
        self.at += 4;
        u32::from_str_radix(digits, 16).map_err(|e| e.to_string())
    }

    /// The character of `\u`, which may be a pair of two escapes.
    fn unicode(&mut self) -> Result<char, String> {
        let high = self.unit()?;
        let code = if (0xD800..0xDC00).contains(&high) {
            if !self.text.get(self.at..).unwrap_or("").starts_with("\\u") {
                return Err("Half of a surrogate pair".to_owned());
            }
            self.at += 2;
            let low = self.unit()?;
            if !(0xDC00..0xE000).contains(&low) {
                return Err("Half of a surrogate pair".to_owned());
            }
            0x1_0000 + ((high - 0xD800) << 10) + (low - 0xDC00)
        } else {
            high
        };
        char::from_u32(code).ok_or_else(|| "Half of a surrogate pair".to_owned())
    }
}

/// Writes the document with one field per name.
fn keep_last(d: Doc<'_>, w: &mut DocWriter<'_>) {
    let mut last: FxHashMap<&str, Value<'_>> = d.iter().collect();
    for (name, _) in d.iter() {
        let Some(v) = last.remove(name) else {
            continue;
        };
        match v {
            Value::Document(inner) => keep_last(inner, &mut w.doc(name)),
            Value::Array(inner) => keep_last_of(inner, &mut w.array(name)),
            v => _ = w.put(name, v),
        }
    }
}

fn keep_last_of(a: model::Array<'_>, w: &mut ArrayWriter<'_>) {
    for v in a.iter() {
        match v {
            Value::Document(inner) => keep_last(inner, &mut w.doc()),
            Value::Array(inner) => keep_last_of(inner, &mut ArrayWriter::array(w)),
            v => _ = w.push(v),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    fn format_parsed(text: &str) -> String {
        match parse(text) {
            Ok(d) => d.doc().field("").to_string(),
            Err(why) => format!("error: {why}"),
        }
    }

    #[test]
    fn json_is_read_as_it_is_written() {
        for (text, wanted) in [
            ("[]", "[]"),
            (" { } ", "{}"),
            (r#"{"a": 1, "b": 2, "a": 3}"#, "{ a: 3, b: 2 }"),
            (r#"[{"a": {"x": 1, "x": 2}}]"#, "[ { a: { x: 2 } } ]"),
            (
                r#"{"n": [4294967296, 1.2e+3, -0, 2.0]}"#,
                "{ n: [ 4294967296, 1200.0, 0, 2.0 ] }",
            ),
            (
                r#"{"n": 18446744073709551615}"#,
                "{ n: 1.8446744073709552e19 }",
            ),
            (r#"["\u00e9\n\/\ud83d\ude00"]"#, "[ \"é\\n/😀\" ]"),
            (r#"{"$oid": "x"}"#, r#"{ $oid: "x" }"#),
        ] {
            assert_eq!(format_parsed(text), wanted, "{text}");
        }
    }

    #[test]
    fn what_is_no_json_object_or_array_is_refused() {
        for text in [
            "",
            "123",
            "\"s\"",
            "null",
            "tru",
            "{",
            "[1,]",
            "{\"a\":1,}",
            "[1,,2]",
            "{a: 1}",
            "[1] [2]",
            "{\"a\" 1}",
            "[01]",
            "[1.]",
            "[.5]",
            "[1e]",
            "[\"\\x\"]",
            "[\"\\ud800\"]",
            "[\"a\nb\"]",
            "{\"f\\u0000\": 1}",
            "[1e999]",
            "[NaN]",
            "[+1]",
            "['a']",
            "[tru]",
        ] {
            assert!(parse(text).is_err(), "{text}: {}", format_parsed(text));
        }
        let nested = |n: usize| format!("{}1{}", "[".repeat(n), "]".repeat(n));
        assert!(parse(&nested(200)).is_ok());
        assert!(parse(&nested(201)).is_err());
    }
}
