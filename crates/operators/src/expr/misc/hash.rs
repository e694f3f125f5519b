//! `$hash` and `$hexHash` (8.3): `{input, algorithm}`; the hash of a string or of binary data, as
//! binary data or in upper-case hexadecimal digits. Null for nullish input. Errors: 9 no document
//! or an argument missing or unknown, 10754000 for another type, 10754001 for an algorithm that is
//! no string, 10754002 for an unknown algorithm.

use super::xxh64::xxh64;
use crate::Cx;
use crate::expr::{BoxExpr, Expr, Operator, ParseCx, parse};
use md5::{Digest, Md5};
use model::{Binary, Result, Value, bail, code};
use sha2::Sha256;
use smallvec::SmallVec;

pub(super) static OPERATORS: &[Operator] = &[
    Operator {
        name: "$hash",
        parse: |cx, name, spec| parse_hash(cx, name, spec, false),
    },
    Operator {
        name: "$hexHash",
        parse: |cx, name, spec| parse_hash(cx, name, spec, true),
    },
];

struct Hash {
    name: &'static str,
    input: BoxExpr,
    algorithm: BoxExpr,
    /// The result is hexadecimal text.
    hex: bool,
}

fn parse_hash(
    cx: &mut ParseCx<'_>,
    name: &'static str,
    spec: Value<'_>,
    hex: bool,
) -> Result<BoxExpr> {
    let Value::Document(d) = spec else {
        bail!(
            code::FAILED_TO_PARSE,
            "{name} takes an object of input and algorithm, not {}",
            spec.type_name()
        );
    };
    if let Some((unknown, _)) = d.iter().find(|(n, _)| !["input", "algorithm"].contains(n)) {
        bail!(
            code::FAILED_TO_PARSE,
            "{name} takes no argument '{unknown}'"
        );
    }
    let (Some(input), Some(algorithm)) = (d.get("input"), d.get("algorithm")) else {
        bail!(
            code::FAILED_TO_PARSE,
            "{name} needs 'input' and 'algorithm'"
        );
    };
    Ok(Box::new(Hash {
        name,
        input: parse(cx, input)?,
        algorithm: parse(cx, algorithm)?,
        hex,
    }))
}

impl Expr for Hash {
    fn eval<'a>(&'a self, cx: &Cx<'_, 'a>) -> Result<Value<'a>> {
        let (input, algorithm) = (self.input.eval(cx)?, self.algorithm.eval(cx)?);
        let bytes = match input {
            Value::String(s) => s.as_bytes(),
            Value::Binary(b) => b.bytes,
            v if v.is_nullish() => return Ok(Value::Null),
            v => bail!(
                10754000,
                "{} takes a string or binary data, found {}",
                self.name,
                v.type_name()
            ),
        };
        cx.env.work(bytes.len() / 64)?;
        let hash: SmallVec<[u8; 32]> = match algorithm {
            Value::String("md5") => SmallVec::from_slice(&Md5::digest(bytes)),
            Value::String("sha256") => SmallVec::from_slice(&Sha256::digest(bytes)),
            Value::String("xxh64") => SmallVec::from_slice(&xxh64(bytes).to_be_bytes()),
            v if v.as_str().is_none() => bail!(
                10754001,
                "{} takes the name of an algorithm, given {}",
                self.name,
                v
            ),
            v => bail!(
                10754002,
                "{} knows the algorithms md5, sha256 and xxh64, given {}",
                self.name,
                v
            ),
        };
        if self.hex {
            let digits: String = hash.iter().map(|byte| format!("{byte:02X}")).collect();
            return Ok(Value::String(cx.arena.alloc_str(&digits)));
        }
        Ok(Value::Binary(Binary {
            subtype: 0,
            bytes: cx.arena.alloc_slice_copy(&hash),
        }))
    }
    fn visit<'e>(&'e self, each: &mut dyn FnMut(&'e dyn Expr)) {
        each(self.input.as_ref());
        each(self.algorithm.as_ref());
    }
}

#[cfg(test)]
mod tests {
    use crate::Profile;

    #[test]
    fn table() {
        crate::expr::check::table_of(
            Profile::V8_2,
            &[
                (
                    "{'$hexHash': {'input': '$a', 'algorithm': 'md5'}}",
                    "{'a': 'hello'}",
                    "'5D41402ABC4B2A76B9719D911017C592'",
                ),
                (
                    "{'$hexHash': {'input': 'report.pdf', 'algorithm': 'sha256'}}",
                    "{}",
                    "'6466E450A16B77B865C5829D6B6C56D9F892956475642DBEB9CCC4340FE01B15'",
                ),
                (
                    "{'$hexHash': {'input': 'abc', 'algorithm': 'xxh64'}}",
                    "{}",
                    "'44BC2CF5AD770999'",
                ),
                (
                    "{'$hash': {'input': '$none', 'algorithm': 'md5'}}",
                    "{}",
                    "null",
                ),
                (
                    "{'$hash': {'input': 1, 'algorithm': 'md5'}}",
                    "{}",
                    "!10754000",
                ),
                (
                    "{'$hash': {'input': 'a', 'algorithm': 'md4'}}",
                    "{}",
                    "!10754002",
                ),
                (
                    "{'$hash': {'input': 'a', 'algorithm': 'MD5'}}",
                    "{}",
                    "!10754002",
                ),
                (
                    "{'$hash': {'input': 'a', 'algorithm': null}}",
                    "{}",
                    "!10754001",
                ),
                (
                    "{'$hash': {'input': 'a', 'algorithm': [5]}}",
                    "{}",
                    "!10754001",
                ),
                ("{'$hash': {'input': 'a'}}", "{}", "!9"),
                ("{'$hash': 1}", "{}", "!9"),
                (
                    "{'$subtype': {'$hash': {'input': '', 'algorithm': 'xxh64'}}}",
                    "{}",
                    "0",
                ),
            ],
        );
    }
}
