//! Shared by `$rankFusion` and `$scoreFusion`: their specification, what input pipelines may do,
//! the merging of documents of several pipelines by `_id`, and the output: by descending score,
//! equal scores by `_id`, with score and details as `$meta` values. Must not know: how a score is
//! computed.

use super::fields::Fields;
use super::join::key_of;
use crate::exec::{BatchStream, DocBatch, ExecContext, ReadyBatch};
use crate::stage::{
    NeedsContext, PipelineContext, PipelineSource, StageContext, StageTable, single_field,
};
use hashbrown::HashMap;
use model::{Array, Doc, DocBuf, DocWriter, Number, Result, Value, bail, code};
use std::cmp::Ordering;

/// Stages allowed in an input pipeline: they select and order documents, and change nothing.
const SELECTING: &[&str] = &[
    "$match",
    "$sort",
    "$limit",
    "$skip",
    "$sample",
    "$score",
    "$search",
    "$vectorSearch",
    "$geoNear",
];
const FUSIONS: &[&str] = &["$rankFusion", "$scoreFusion"];

/// Reads the specification of a fusion.
pub(super) fn specification<'a>(name: &'static str, arg: Value<'a>) -> Result<Fields<'a>> {
    let Value::Document(spec) = arg else {
        bail!(
            code::FAILED_TO_PARSE,
            "the {name} stage specification must be an object, but found {}",
            arg.type_name()
        );
    };
    Fields::new(name, spec, &["input", "combination", "scoreDetails"])
}

/// Refuses a fusion that is not the first stage.
pub(super) fn check_first(scx: &StageContext<'_, '_>, name: &str) -> Result<()> {
    if !scx.before.is_empty() {
        bail!(
            10170100,
            "{name} is only valid as the first stage in a pipeline"
        );
    }
    Ok(())
}

/// Refuses a fusion without pipelines or without a collection.
pub(super) fn check_inputs(
    scx: &StageContext<'_, '_>,
    name: &str,
    pipelines: Doc<'_>,
) -> Result<()> {
    if pipelines.is_empty() {
        bail!(code::BAD_VALUE, "{name} input pipelines must not be empty");
    }
    let PipelineSource::Collection(_) = &scx.options.target else {
        bail!(
            code::INVALID_NAMESPACE,
            "{name} is only valid on a collection"
        );
    };
    Ok(())
}

/// The input pipelines by their names.
pub(super) fn input_pipelines<'a>(f: &Fields<'a>, allowed: &[&str]) -> Result<Doc<'a>> {
    f.required("input")?;
    let input = Fields::new("input", f.document("input")?.unwrap_or(Doc::EMPTY), allowed)?;
    input.required("pipelines")?;
    Ok(input.document("pipelines")?.unwrap_or(Doc::EMPTY))
}

/// The stages of an input pipeline.
pub(super) fn input_stages<'a>(name: &str, input: &str, v: Value<'a>) -> Result<Array<'a>> {
    match v {
        Value::Array(stages) => Ok(stages),
        _ => bail!(
            code::TYPE_MISMATCH,
            "{name} input pipeline '{input}' must be an array, not {}",
            v.type_name()
        ),
    }
}

/// Adds the privileges that the input pipelines need.
pub(super) fn needs_of(
    cx: &mut NeedsContext<'_>,
    name: &'static str,
    arg: Value<'_>,
    allowed: &[&str],
) -> Result<()> {
    for (input, v) in input_pipelines(&specification(name, arg)?, allowed)?.iter() {
        let target = cx.options.target.clone();
        cx.inner(PipelineContext::Top, target, input_stages(name, input, v)?)?;
    }
    Ok(())
}

/// Checks that an input has only selecting stages, one of which orders, and no fusion.
pub(super) fn check_input(name: &str, stages: Array<'_>, table: StageTable) -> Result<()> {
    if stages.is_empty() {
        bail!(9834300, "{name} input pipelines must not be empty");
    }
    // Only `$rankFusion` needs an order.
    let mut ranked = name != "$rankFusion";
    for (i, v) in stages.iter().enumerate() {
        let Some((stage, _)) = v.as_doc().and_then(single_field) else {
            // The parser reports errors of shape.
            return Ok(());
        };
        if FUSIONS.contains(&stage) {
            match i {
                0 => bail!(
                    10473002,
                    "{stage} is not allowed as an input pipeline of {name}"
                ),
                _ => bail!(
                    10170100,
                    "{stage} is only valid as the first stage in a pipeline"
                ),
            }
        }
        if table.find(stage).is_none() {
            return Ok(());
        }
        let first_only = matches!(stage, "$search" | "$vectorSearch" | "$geoNear");
        if !SELECTING.contains(&stage) || first_only && i > 0 {
            bail!(
                9191103,
                "{stage} is not allowed in an input pipeline of {name}: it changes documents. \
                    Allowed are {}",
                SELECTING.join(", ")
            );
        }
        ranked |= stage == "$sort" || first_only;
    }
    if !ranked {
        bail!(
            9191100,
            "every input pipeline of {name} must rank: it must begin with $search, $vectorSearch \
                or $geoNear, or have a $sort"
        );
    }
    Ok(())
}

/// The weights of input pipelines, 1 where none is given.
pub(super) fn weights_of(stage: &str, inputs: &[String], weights: Doc<'_>) -> Result<Vec<f64>> {
    let known = inputs.len();
    if weights.count() > known {
        bail!(
            9460301,
            "{stage} has {} weights for {known} input pipelines",
            weights.count()
        );
    }
    let mut all = vec![1.0; known];
    for (name, v) in weights.iter() {
        let at = inputs.iter().position(|i| i == name);
        let Some(slot) = at.and_then(|at| all.get_mut(at)) else {
            bail!(
                9967500,
                "{stage} has a weight for '{name}', which is no input pipeline"
            );
        };
        let Some(n) = Number::of(&v) else {
            bail!(
                13118,
                "{stage} weight of '{name}' must be a number, not {}",
                v.type_name()
            );
        };
        if n.is_nan() || n.to_f64() < 0.0 {
            bail!(
                9460300,
                "{stage} weight of '{name}' must be non-negative, not {v}"
            );
        }
        *slot = n.to_f64();
    }
    Ok(all)
}

/// The `$meta` values that a fusion provides.
pub(super) fn provided_metadata(details: bool) -> &'static [&'static str] {
    match details {
        true => &["score", "scoreDetails"],
        false => &["score"],
    }
}

/// `{score, scoreDetails: {value, description, ...}}`; `fill` writes the other details, if they are
/// wanted.
pub(super) fn meta_of(
    score: f64,
    description: Option<&str>,
    fill: impl FnOnce(&mut DocWriter<'_>),
) -> DocBuf {
    DocBuf::build(|w| {
        w.put("score", score);
        if let Some(description) = description {
            let mut details = w.doc("scoreDetails");
            details.put("value", score).put("description", description);
            fill(&mut details);
        }
    })
}

/// A document and the data of each input about it.
pub(super) struct FusedDocument<T> {
    pub(super) doc: DocBuf,
    pub(super) by_input: Vec<Option<T>>,
    pub(super) score: f64,
}

/// The documents of all inputs.
pub(super) struct Fusion<T> {
    inputs: usize,
    places: HashMap<Vec<u8>, usize>,
    pub(super) documents: Vec<FusedDocument<T>>,
    key: Vec<u8>,
}

impl<T: Clone> Fusion<T> {
    /// For this number of inputs.
    pub(super) fn new(inputs: usize) -> Fusion<T> {
        Fusion {
            inputs,
            places: HashMap::new(),
            documents: Vec::new(),
            key: Vec::new(),
        }
    }

    /// Notes the data of input number `n` about a document, and adds `worth` to its score.
    pub(super) fn note(
        &mut self,
        n: usize,
        doc: Doc<'_>,
        exec: &ExecContext<'_>,
        said: T,
        worth: f64,
    ) {
        key_of(doc.field("_id"), exec, &mut self.key);
        let at = match self.places.get(&self.key) {
            Some(at) => *at,
            None => {
                self.places.insert(self.key.clone(), self.documents.len());
                self.documents.push(FusedDocument {
                    doc: doc.to_buf(),
                    by_input: vec![None; self.inputs],
                    score: 0.0,
                });
                self.documents.len() - 1
            }
        };
        if let Some(fused) = self.documents.get_mut(at) {
            fused.score += worth;
            if let Some(slot) = fused.by_input.get_mut(n) {
                *slot = Some(said);
            }
        }
    }

    /// All documents, the best first, with their metadata.
    pub(super) fn finish(
        mut self,
        meta: impl Fn(&FusedDocument<T>) -> DocBuf,
    ) -> Box<dyn BatchStream> {
        self.documents.sort_by(|a, b| {
            let by_score = b.score.partial_cmp(&a.score).unwrap_or(Ordering::Equal);
            by_score
                .then_with(|| model::compare(&a.doc.doc().field("_id"), &b.doc.doc().field("_id")))
        });
        let mut out = DocBatch::new();
        for f in &self.documents {
            out.push_with_meta(f.doc.doc(), Some(meta(f).doc()));
        }
        Box::new(ReadyBatch(out))
    }
}
