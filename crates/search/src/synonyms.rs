//! Synonyms: where a definition reads them, and words with their synonyms. They are read from a
//! collection for each search, so that changes apply at once. Must not know: collections.

use crate::analysis::{Analyzer, Token};
use crate::args::Args;
use crate::error::invalid;
use model::{Doc, DocBuf, Result, Value};
use std::collections::BTreeMap;

/// A synonym mapping of a definition.
#[derive(Clone, Debug)]
pub(crate) struct SynonymMapping {
    pub(crate) name: String,
    pub(crate) collection: String,
    pub(crate) analyzer: Analyzer,
}

/// Documents of synonym collections, by collection name.
pub(crate) type Sources = BTreeMap<String, Vec<DocBuf>>;

/// Words and their synonyms.
#[derive(Debug, Default)]
pub(crate) struct Synonyms {
    by_words: BTreeMap<Vec<String>, Vec<Vec<Token>>>,
    /// Number of words of the longest entry.
    longest: usize,
}

impl Synonyms {
    /// Parses the documents of a collection.
    ///
    /// # Errors
    /// 8 UnknownError for a document that has neither of the two forms.
    pub(crate) fn read(docs: &[DocBuf], analyzer: &Analyzer) -> Result<Synonyms> {
        let mut all = Synonyms::default();
        for doc in docs {
            all.add(doc.doc(), analyzer)?;
        }
        Ok(all)
    }

    fn add(&mut self, doc: Doc<'_>, analyzer: &Analyzer) -> Result<()> {
        let args = Args {
            path: format!("synonyms with _id {}", doc.field("_id")),
            doc,
        };
        args.required("mappingType")?;
        let explicit = args.word("mappingType", &["equivalent", "explicit"])? == Some("explicit");
        let synonyms = args.strings("synonyms")?;
        let inputs = match explicit {
            true => args.strings("input")?,
            false => synonyms.clone(),
        };
        let outputs: Vec<Vec<Token>> = synonyms.iter().map(|s| analyzer.tokens(s)).collect();
        for input in inputs {
            let words: Vec<String> = analyzer.tokens(input).into_iter().map(|t| t.text).collect();
            self.longest = self.longest.max(words.len());
            if !words.is_empty() {
                let known = self.by_words.entry(words).or_default();
                known.extend(outputs.iter().filter(|o| !o.is_empty()).cloned());
            }
        }
        Ok(())
    }

    /// The synonyms of the longest known prefix of the tokens, and its number of tokens.
    pub(crate) fn find(&self, tokens: &[Token]) -> Option<(usize, &[Vec<Token>])> {
        (1..=self.longest.min(tokens.len())).rev().find_map(|n| {
            let words = tokens.get(..n)?.iter().map(|t| t.text.clone()).collect();
            let found: &Vec<String> = &words;
            Some((n, self.by_words.get(found)?.as_slice()))
        })
    }
}

/// Names of synonym mappings that a specification uses.
pub(crate) fn names_in(spec: Doc<'_>, found: &mut Vec<String>) {
    for (name, v) in spec.iter() {
        match v {
            Value::String(s) if name == "synonyms" => found.push(s.to_owned()),
            Value::Document(d) => names_in(d, found),
            Value::Array(list) => list.iter().for_each(|v| {
                if let Value::Document(d) = v {
                    names_in(d, found);
                }
            }),
            _ => {}
        }
    }
}

/// The mapping with that name.
pub(crate) fn mapping_of<'m>(
    all: &'m [SynonymMapping],
    path: &str,
    name: &str,
) -> Result<&'m SynonymMapping> {
    all.iter().find(|m| m.name == name).ok_or_else(|| {
        let known: Vec<&str> = all.iter().map(|m| m.name.as_str()).collect();
        invalid(format!(
            "\"{path}.synonyms\": the index has no synonyms \"{name}\", only [{}]",
            known.join(", ")
        ))
    })
}
