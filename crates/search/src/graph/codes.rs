//! Vectors as codes: one byte per number with a scale per vector, or one sign bit per number.

/// How vectors are coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Coding {
    pub(crate) dimensions: usize,
    pub(crate) kind: CodeKind,
    /// Only directions are compared; lengths are ignored.
    pub(crate) directions: bool,
}

/// How a number is coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CodeKind {
    /// As a byte.
    Byte,
    /// As its sign.
    Sign,
    /// Vectors consist of bits already.
    Bit,
}

/// The code of a vector.
#[derive(Clone, Debug)]
pub(crate) struct Code {
    bytes: Vec<u8>,
    scale: f32,
    /// The squared length of the vector.
    length: f32,
}

/// The codes of all nodes.
pub(super) struct Codes {
    coding: Coding,
    pub(super) bytes: Vec<u8>,
    pub(super) scales: Vec<f32>,
    pub(super) lengths: Vec<f32>,
}

/// A borrowed code.
#[derive(Clone, Copy)]
pub(super) struct CodeRef<'c> {
    bytes: &'c [u8],
    scale: f32,
    length: f32,
}

impl Coding {
    /// Bytes per code.
    pub(crate) fn bytes(self) -> usize {
        match self.kind {
            CodeKind::Byte => self.dimensions,
            CodeKind::Sign | CodeKind::Bit => self.dimensions.div_ceil(8),
        }
    }

    /// The code of a vector of numbers.
    pub(crate) fn code(self, numbers: &[f32]) -> Code {
        let mut length: f32 = numbers.iter().map(|n| n * n).sum();
        if self.kind == CodeKind::Sign {
            let mut bytes = vec![0u8; self.bytes()];
            for (n, v) in numbers.iter().enumerate() {
                if let Some(byte) = bytes.get_mut(n / 8).filter(|_| *v > 0.0) {
                    *byte |= 1 << (n % 8);
                }
            }
            return Code {
                bytes,
                scale: 1.0,
                length,
            };
        }
        let most = numbers.iter().fold(0f32, |most, n| most.max(n.abs()));
        let step = if most > 0.0 { most / 127.0 } else { 1.0 };
        let byte = |n: &f32| (n / step).round() as i8 as u8;
        let bytes = numbers.iter().map(byte).collect();
        let mut scale = step;
        if self.directions && length > 0.0 {
            scale /= length.sqrt();
            length = 1.0;
        }
        Code {
            bytes,
            scale,
            length,
        }
    }

    /// The code of a vector of bits.
    pub(crate) fn code_of_bits(self, bits: &[u8]) -> Code {
        Code {
            bytes: bits.to_vec(),
            scale: 1.0,
            length: 0.0,
        }
    }
}

impl Code {
    pub(super) fn as_ref(&self) -> CodeRef<'_> {
        CodeRef {
            bytes: &self.bytes,
            scale: self.scale,
            length: self.length,
        }
    }
}

impl Codes {
    pub(super) fn new(coding: Coding) -> Codes {
        Codes {
            coding,
            bytes: Vec::new(),
            scales: Vec::new(),
            lengths: Vec::new(),
        }
    }

    pub(super) fn coding(&self) -> Coding {
        self.coding
    }

    pub(super) fn len(&self) -> usize {
        self.scales.len()
    }

    pub(super) fn push(&mut self, code: &Code) {
        self.bytes.extend_from_slice(&code.bytes);
        self.scales.push(code.scale);
        self.lengths.push(code.length);
    }

    pub(super) fn at(&self, node: u32) -> CodeRef<'_> {
        let (n, bytes) = (node as usize, self.coding.bytes());
        CodeRef {
            bytes: self
                .bytes
                .get(n * bytes..(n + 1) * bytes)
                .unwrap_or_default(),
            scale: self.scales.get(n).copied().unwrap_or(0.0),
            length: self.lengths.get(n).copied().unwrap_or(0.0),
        }
    }

    /// The distance of two vectors: squared, or the number of different bits.
    pub(super) fn distance(&self, a: CodeRef<'_>, b: CodeRef<'_>) -> f32 {
        match self.coding.kind {
            CodeKind::Byte => (a.length + b.length - 2.0 * product(a, b)).max(0.0),
            CodeKind::Sign | CodeKind::Bit => differing(a.bytes, b.bytes) as f32,
        }
    }
}

fn product(a: CodeRef<'_>, b: CodeRef<'_>) -> f32 {
    let mut sum = 0i32;
    for (x, y) in a.bytes.iter().zip(b.bytes) {
        sum += i32::from(*x as i8) * i32::from(*y as i8);
    }
    sum as f32 * a.scale * b.scale
}

fn differing(a: &[u8], b: &[u8]) -> u32 {
    let (mut left, mut right) = (a.chunks_exact(8), b.chunks_exact(8));
    let word = |c: &[u8]| c.first_chunk::<8>().map_or(0, |c| u64::from_le_bytes(*c));
    let whole: u32 = left
        .by_ref()
        .zip(right.by_ref())
        .map(|(a, b)| (word(a) ^ word(b)).count_ones())
        .sum();
    let rest = left.remainder().iter().zip(right.remainder());
    whole + rest.map(|(a, b)| (a ^ b).count_ones()).sum::<u32>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn coding(kind: CodeKind, directions: bool) -> Coding {
        Coding {
            dimensions: 3,
            kind,
            directions,
        }
    }

    #[test]
    fn distances_of_codes_are_nearly_those_of_vectors() {
        let (a, b) = ([1.0, 0.5, -2.0], [0.0, 1.5, 4.0]);
        let codes = Codes::new(coding(CodeKind::Byte, false));
        let code = |v: &[f32]| codes.coding.code(v);
        let found = codes.distance(code(&a).as_ref(), code(&b).as_ref());
        assert!((found - 38.0).abs() < 0.5, "{found}");
        let codes = Codes::new(coding(CodeKind::Byte, true));
        let code = |v: &[f32]| codes.coding.code(v);
        // 2 - 2 cos(angle).
        let cosine = -7.25 / (5.25f32.sqrt() * 18.25f32.sqrt());
        let found = codes.distance(code(&a).as_ref(), code(&b).as_ref());
        assert!((found - (2.0 - 2.0 * cosine)).abs() < 0.03, "{found}");
        let codes = Codes::new(coding(CodeKind::Sign, true));
        let code = |v: &[f32]| codes.coding.code(v);
        assert_eq!(codes.distance(code(&a).as_ref(), code(&b).as_ref()), 2.0);
    }

    #[test]
    fn bits_that_differ_are_counted() {
        assert_eq!(differing(&[0xff; 9], &[0x0f; 9]), 36);
    }
}
