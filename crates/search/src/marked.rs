//! Terms that a query searches in texts, to be highlighted in found documents. Must not know: how
//! they are searched.

use crate::analysis::Token;
use crate::matching::TokenTest;

/// Something to highlight in the texts of a field.
#[derive(Clone, Debug)]
pub(crate) struct Mark {
    /// The field, with the name of its analyzer if it is a further one.
    pub(crate) key: String,
    pub(crate) what: HighlightTerm,
}

/// What to highlight.
#[derive(Clone, Debug)]
pub(crate) enum HighlightTerm {
    Token(String),
    Like(TokenTest),
    /// Words that contain this gram, in lower case.
    Piece(String),
    /// Tokens at their distances, with this slop.
    Phrase(Vec<Token>, u32),
}
