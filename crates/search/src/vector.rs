//! Vectors: reading them from documents, and their similarity. Scores are between 0 and 1. Must not
//! know: where vectors are stored.

use crate::graph::{Code, Coding};
use model::Value;

/// Binary subtype of a vector.
const SUBTYPE: u8 = 9;
/// Types of numbers, as coded in the binary form.
const FLOAT32: u8 = 0x27;
const INT8: u8 = 0x03;
const BITS: u8 = 0x10;

/// A field with vectors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VectorField {
    pub(crate) path: String,
    pub(crate) dimensions: usize,
    pub(crate) similarity: Similarity,
    pub(crate) quantization: Quantization,
}

/// How vectors are stored in memory for approximate searches. Results are compared in full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Quantization {
    #[default]
    None,
    /// A byte for each number.
    Scalar,
    /// A bit for each number.
    Binary,
}

/// The similarity function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Similarity {
    Cosine,
    Euclidean,
    DotProduct,
}

impl Similarity {
    /// True when the lengths of vectors are ignored.
    pub(crate) fn compares_directions(self) -> bool {
        self == Similarity::Cosine
    }
}

/// The stored form of a vector: the type of its numbers, then the numbers. `None` for anything but
/// a vector with this number of dimensions.
pub(crate) fn encode(v: &Value<'_>, dimensions: usize) -> Option<Vec<u8>> {
    let (bytes, found) = encode_any(v)?;
    (found == dimensions).then_some(bytes)
}

/// The stored form and the number of dimensions.
pub(crate) fn encode_any(v: &Value<'_>) -> Option<(Vec<u8>, usize)> {
    match v {
        Value::Array(list) if !list.is_empty() => {
            let mut bytes = vec![FLOAT32];
            let mut dimensions = 0;
            for v in list.iter() {
                let n = v.as_f64().filter(|n| n.is_finite())? as f32;
                bytes.extend_from_slice(&n.to_le_bytes());
                dimensions += 1;
            }
            Some((bytes, dimensions))
        }
        Value::Binary(b) if b.subtype == SUBTYPE => {
            let (kind, rest) = b.bytes.split_first()?;
            let (padding, data) = rest.split_first()?;
            let dimensions = match (*kind, *padding) {
                (FLOAT32, 0) if data.len() % 4 == 0 => data.len() / 4,
                (INT8, 0) => data.len(),
                (BITS, 0) => data.len() * 8,
                _ => return None,
            };
            let mut bytes = vec![*kind];
            bytes.extend_from_slice(data);
            (dimensions > 0).then_some((bytes, dimensions))
        }
        _ => None,
    }
}

/// The vector to which others are compared.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    kind: u8,
    numbers: Vec<f32>,
    bits: Vec<u8>,
    length: f32,
    similarity: Similarity,
}

impl Target {
    /// From the stored form.
    pub(crate) fn new(stored: &[u8], similarity: Similarity) -> Target {
        let (kind, data) = stored.split_first().unwrap_or((&0, &[]));
        let numbers: Vec<f32> = match *kind {
            BITS => Vec::new(),
            kind => numbers(kind, data).collect(),
        };
        Target {
            kind: *kind,
            length: numbers.iter().map(|n| n * n).sum::<f32>().sqrt(),
            bits: if *kind == BITS {
                data.to_vec()
            } else {
                Vec::new()
            },
            numbers,
            similarity,
        }
    }

    /// Its code in a graph.
    pub(crate) fn code(&self, coding: Coding) -> Code {
        match self.kind {
            BITS => coding.code_of_bits(&self.bits),
            _ => coding.code(&self.numbers),
        }
    }

    /// Whether it has no direction.
    pub(crate) fn is_zero(&self) -> bool {
        self.kind != BITS && self.length == 0.0
    }

    /// True for bit vectors, which are compared by the number of different bits.
    pub(crate) fn is_bits(&self) -> bool {
        self.kind == BITS
    }

    /// The similarity of a stored vector; `None` when the two cannot be compared.
    pub(crate) fn score(&self, stored: &[u8]) -> Option<f32> {
        let (kind, data) = stored.split_first()?;
        if *kind != self.kind {
            return None;
        }
        if *kind == BITS {
            let differing: u32 = data
                .iter()
                .zip(&self.bits)
                .map(|(a, b)| (a ^ b).count_ones())
                .sum();
            let all = self.bits.len() as f32 * 8.0;
            return Some((all - differing as f32) / all);
        }
        let [dot, square, distance] = match *kind {
            INT8 => sums(&self.numbers, data.iter().map(|b| f32::from(*b as i8))),
            _ => {
                let words = data.chunks_exact(4).filter_map(|c| c.first_chunk::<4>());
                sums(&self.numbers, words.map(|c| f32::from_le_bytes(*c)))
            }
        };
        match self.similarity {
            Similarity::Cosine if square == 0.0 || self.length == 0.0 => None,
            Similarity::Cosine => Some((1.0 + dot / (self.length * square.sqrt())) / 2.0),
            Similarity::Euclidean => Some(1.0 / (1.0 + distance)),
            // Byte vectors are not normalized: their dot product is scaled to the range of the
            // type.
            Similarity::DotProduct if *kind == INT8 => {
                Some(0.5 + dot / (self.numbers.len() as f32 * 32_768.0))
            }
            Similarity::DotProduct => Some(((1.0 + dot) / 2.0).max(0.0)),
        }
    }
}

/// The dot product of two vectors, the squared length of the second and their squared distance.
fn sums(a: &[f32], b: impl Iterator<Item = f32>) -> [f32; 3] {
    let (mut dot, mut square, mut distance) = (0f32, 0f32, 0f32);
    for (a, b) in a.iter().zip(b) {
        dot += a * b;
        square += b * b;
        distance += (a - b) * (a - b);
    }
    [dot, square, distance]
}

fn numbers(kind: u8, data: &[u8]) -> Box<dyn Iterator<Item = f32> + '_> {
    match kind {
        INT8 => Box::new(data.iter().map(|b| f32::from(*b as i8))),
        _ => Box::new(
            data.chunks_exact(4)
                .filter_map(|c| c.first_chunk::<4>())
                .map(|c| f32::from_le_bytes(*c)),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Binary, DocBuf};

    fn store_vector(numbers: &[f64]) -> Vec<u8> {
        let list = DocBuf::build(|w| {
            let mut list = w.array("v");
            numbers.iter().for_each(|n| _ = list.push(*n));
        });
        encode(&list.doc().field("v"), numbers.len()).expect("a vector")
    }

    #[test]
    fn scores_are_those_of_the_three_formulas() {
        let score = |similarity, a: &[f64], b: &[f64]| {
            Target::new(&store_vector(a), similarity)
                .score(&store_vector(b))
                .expect("a score")
        };
        let near = |a: f32, b: f32| assert!((a - b).abs() < 1e-6, "{a} is not {b}");
        near(score(Similarity::Cosine, &[1.0, 0.0], &[0.0, 3.0]), 0.5);
        near(score(Similarity::Cosine, &[1.0, 0.0], &[3.0, 4.0]), 0.8);
        near(score(Similarity::Euclidean, &[1.0, 0.0], &[1.0, 2.0]), 0.2);
        near(score(Similarity::DotProduct, &[1.0, 0.0], &[0.6, 0.8]), 0.8);
    }

    #[test]
    fn binary_vectors_are_read_by_their_kind() {
        let binary = |bytes: &'static [u8]| Value::Binary(Binary { subtype: 9, bytes });
        let (bits, dimensions) = encode_any(&binary(&[BITS, 0, 0b1111_0000])).expect("bits");
        assert_eq!(dimensions, 8);
        let target = Target::new(&bits, Similarity::Euclidean);
        assert_eq!(target.score(&[BITS, 0b1110_0001]), Some(0.75));
        let (bytes, dimensions) = encode_any(&binary(&[INT8, 0, 3, 0xfc])).expect("bytes");
        assert_eq!(dimensions, 2);
        let target = Target::new(&bytes, Similarity::Cosine);
        assert_eq!(target.score(&[INT8, 3, 0xfc]), Some(1.0));
        assert!(encode_any(&binary(&[BITS, 3, 0xff])).is_none(), "padding");
        assert!(encode_any(&Value::Int32(1)).is_none());
    }
}
