//! Tokens, and the grams made of them.

/// A term and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) text: String,
    /// Number of tokens before it.
    pub(crate) position: u32,
    /// Byte offsets of its start and end in the original text.
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// Protected from stemmers.
    pub(crate) fixed: bool,
}

/// A piece of a text and its byte offset.
pub(super) type Piece = (usize, String);

/// Which grams of a text are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GramAnchor {
    All,
    Beginnings,
    Ends,
}

/// All grams with a number of characters in a range.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grams {
    pub(super) min: usize,
    pub(super) max: usize,
    pub(super) cut: GramAnchor,
    /// Texts that are too short or too long are kept, too.
    pub(super) with_others: bool,
}

impl Grams {
    pub(super) fn of(&self, text: &str) -> Vec<Piece> {
        let chars: Vec<(usize, char)> = text.char_indices().collect();
        let starts = match self.cut {
            GramAnchor::Beginnings => 0..chars.len().min(1),
            _ => 0..chars.len(),
        };
        let mut found = Vec::new();
        for start in starts {
            let rest = chars.get(start..).unwrap_or_default();
            for len in self.min..=self.max.min(rest.len()) {
                if self.cut == GramAnchor::Ends && len != rest.len() {
                    continue;
                }
                let piece = rest.get(..len).unwrap_or_default();
                let begin = piece.first().map_or(0, |(at, _)| *at);
                found.push((begin, piece.iter().map(|(_, c)| *c).collect()));
            }
        }
        if self.with_others && (chars.len() < self.min || chars.len() > self.max) {
            found.push((0, text.to_owned()));
        }
        found
    }
}

/// Replaces each token by those that `parts` makes of it: if they have several positions, later
/// tokens are moved.
pub(super) fn replace_each(tokens: &mut Vec<Token>, parts: &dyn Fn(&Token) -> Vec<Token>) {
    let mut shift = 0;
    let mut last = None;
    let mut all = Vec::with_capacity(tokens.len());
    for token in tokens.drain(..) {
        let own = token.position;
        let made = parts(&token);
        // Several tokens at one position move the rest only once.
        let wide = made.iter().map(|t| t.position - own).max().unwrap_or(0);
        if last.is_some_and(|(at, _)| at != own) {
            shift += last.map_or(0, |(_, wide)| wide);
            last = None;
        }
        let widest: u32 = last.map_or(wide, |(_, before)| wide.max(before));
        last = Some((own, widest));
        all.extend(made.into_iter().map(|t| Token {
            position: t.position + shift,
            ..t
        }));
    }
    *tokens = all;
}
