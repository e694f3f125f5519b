//! What a query has looked for in texts, to be shown in those that are found. Must not know: how it
//! is looked for.

use crate::analysis::Token;
use crate::matching::TokenTest;

/// Something that is shown in the texts of a field.
#[derive(Clone, Debug)]
pub(crate) struct Mark {
    /// The field, with the name of its analyser where that is another.
    pub(crate) key: String,
    pub(crate) what: Marked,
}

/// What is shown.
#[derive(Clone, Debug)]
pub(crate) enum Marked {
    Token(String),
    Like(TokenTest),
    /// Words with this piece, in small letters.
    Piece(String),
    /// Tokens at their distances, give or take so many.
    Phrase(Vec<Token>, u32),
}
