//! What a document must satisfy to be stored: its `_id`, and the validator of its collection. Must
//! not know: statements, replies.

pub(crate) mod constraint;
pub(crate) mod document_id;
pub(crate) mod validator;
