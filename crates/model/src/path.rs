//! Dotted field paths, split once.

/// A dotted path such as `a.b.0.c`, with its components.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FieldPath {
    text: String,
    parts: Vec<PathPart>,
}

/// One component of a path.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct PathPart {
    /// The component.
    pub name: String,
    /// Its value when it is an array index: digits without a leading zero (or just "0").
    pub index: Option<usize>,
}

impl FieldPath {
    /// Splits at dots. Empty components are kept; callers that refuse them use their own error
    /// code.
    pub fn new(text: &str) -> FieldPath {
        let parts = text
            .split('.')
            .map(|p| PathPart {
                name: p.to_owned(),
                index: array_index(p),
            })
            .collect();
        FieldPath {
            text: text.to_owned(),
            parts,
        }
    }
    /// The whole path.
    pub fn as_str(&self) -> &str {
        &self.text
    }
    /// The components; at least one.
    pub fn parts(&self) -> &[PathPart] {
        &self.parts
    }
    /// The first component.
    pub fn first(&self) -> &str {
        self.parts.first().map_or("", |p| p.name.as_str())
    }
    /// True when `self` is `other` or lies below it.
    pub fn is_at_or_below(&self, other: &FieldPath) -> bool {
        self.parts.len() >= other.parts.len()
            && self
                .parts
                .iter()
                .zip(&other.parts)
                .all(|(a, b)| a.name == b.name)
    }
}

/// The array index in a component.
pub fn array_index(part: &str) -> Option<usize> {
    let b = part.as_bytes();
    let plain = !b.is_empty() && b.iter().all(u8::is_ascii_digit) && (b.len() == 1 || b[0] != b'0');
    if plain { part.parse().ok() } else { None }
}

impl std::fmt::Debug for FieldPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_and_finds_indexes() {
        let p = FieldPath::new("a.0.01.b");
        let indexes: Vec<_> = p.parts().iter().map(|p| p.index).collect();
        assert_eq!(indexes, [None, Some(0), None, None]);
        assert!(FieldPath::new("a.b").is_at_or_below(&FieldPath::new("a")));
        assert!(!FieldPath::new("ab").is_at_or_below(&FieldPath::new("a")));
    }
}
