//! `$bitsAllSet $bitsAllClear $bitsAnySet $bitsAnyClear`: tests bits of integral numbers (two's
//! complement, sign extended) and of binary data (bit 0 is the lowest of the first byte). The
//! operand is a number, an array of bit positions or binary data. Errors: 9 for a mask that is
//! negative, not integral or too large; 2 for anything else.

use model::{Number, Result, Value, bail, code};

/// The kind of bit test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum BitsOp {
    AllSet,
    AllClear,
    AnySet,
    AnyClear,
}

/// A parsed bit test.
pub struct Bits {
    /// The kind of test.
    pub op: BitsOp,
    /// Bit positions.
    pub positions: Vec<u32>,
}

impl Bits {
    /// Parses the operand.
    ///
    /// # Errors
    /// 2 BadValue for a wrong type or position, 9 FailedToParse for a negative or fractional mask.
    pub(super) fn parse(op: BitsOp, name: &str, spec: Value<'_>) -> Result<Bits> {
        let positions = match spec {
            Value::Array(a) => a
                .iter()
                .map(|v| position(name, v))
                .collect::<Result<Vec<_>>>()?,
            Value::Binary(b) => bits_of(b.bytes),
            v if v.is_number() => {
                let mask = v.as_i64_exact().and_then(|n| u64::try_from(n).ok());
                let Some(mask) = mask else {
                    bail!(
                        code::FAILED_TO_PARSE,
                        "Expected a non-negative integer in {name}: {}",
                        v
                    )
                };
                bits_of(&mask.to_le_bytes())
            }
            v => bail!(
                code::BAD_VALUE,
                "{name} takes an Array, a number, or a BinData but received: {}",
                v.type_name()
            ),
        };
        Ok(Bits { op, positions })
    }

    pub(super) fn matches(&self, v: &Value<'_>) -> bool {
        match v {
            // The stored bytes are tested: for the old subtype they include the inner length.
            Value::Binary(b) => self.test(|p| {
                b.bytes
                    .get(p as usize / 8)
                    .is_some_and(|byte| byte >> (p % 8) & 1 == 1)
            }),
            v => match Number::of(v).and_then(Number::to_i64_exact) {
                Some(n) => self.test(|p| n >> p.min(63) & 1 == 1),
                None => false,
            },
        }
    }

    fn test(&self, is_set: impl Fn(u32) -> bool) -> bool {
        let mut positions = self.positions.iter();
        match self.op {
            BitsOp::AllSet => positions.all(|p| is_set(*p)),
            BitsOp::AllClear => !positions.any(|p| is_set(*p)),
            BitsOp::AnySet => positions.any(|p| is_set(*p)),
            BitsOp::AnyClear => !positions.all(|p| is_set(*p)),
        }
    }
}

fn position(name: &str, v: Value<'_>) -> Result<u32> {
    let exact = v
        .as_i64_exact()
        .and_then(|n| i32::try_from(n).ok())
        .and_then(|n| u32::try_from(n).ok());
    let Some(p) = exact else {
        bail!(
            code::BAD_VALUE,
            "bit positions of {name} must be non-negative 32-bit integers, not {}",
            v
        )
    };
    Ok(p)
}

fn bits_of(bytes: &[u8]) -> Vec<u32> {
    let mut out = Vec::new();
    for (i, byte) in (0u32..).zip(bytes) {
        out.extend(
            (0..8)
                .filter(|b| byte >> b & 1 == 1)
                .map(|b| i.saturating_mul(8).saturating_add(b)),
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::doc;

    #[test]
    fn masks_positions_and_signs() {
        let d = doc! { "n": 5i32, "p": [0i32, 200i32], "neg": -1i32, "half": 1.5, "s": "x",
        "bad": [-1i32] };
        let m = |op, f: &str| Bits::parse(op, "$bits", d.doc().field(f));
        assert!(m(BitsOp::AllSet, "n").unwrap().matches(&Value::Int32(13)));
        assert!(
            m(BitsOp::AnyClear, "n")
                .unwrap()
                .matches(&Value::Double(1.0))
        );
        // Positions beyond 63 read the sign bit.
        assert!(m(BitsOp::AllSet, "p").unwrap().matches(&Value::Int32(-1)));
        assert!(!m(BitsOp::AllSet, "p").unwrap().matches(&Value::Int32(1)));
        assert!(!m(BitsOp::AllClear, "n").unwrap().matches(&Value::Null));
        for (f, wanted) in [("neg", 9), ("half", 9), ("s", 2), ("bad", 2)] {
            assert_eq!(
                m(BitsOp::AllSet, f).err().map(|e| e.code()),
                Some(wanted),
                "{f}"
            );
        }
    }
}
