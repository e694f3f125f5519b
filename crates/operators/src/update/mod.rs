//! Update operators: a document and a specification give the new document's bytes.
