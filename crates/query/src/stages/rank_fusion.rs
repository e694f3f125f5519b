//! `$rankFusion: {input: {pipelines}, combination: {weights}, scoreDetails}`: reciprocal rank
//! fusion. Each input pipeline ranks documents of the collection; a document's score is the sum of
//! weight / (60 + rank). Scores are `$meta` values. Errors: 9 no object, strict field codes, 2 no
//! pipelines, 9834300 an empty one, 9191100 one that does not rank, 9191103 one that changes
//! documents, 10473002 / 10170100 fusions inside or not first, 9460300 / 9460301 / 9967500 / 13118
//! bad weights.

use super::facet::check_name;
use super::fields::Fields;
use super::join::key_of;
use crate::exec::{BatchStream, DocBatch, ExecContext, ReadyBatch, SortPattern, drain};
use crate::pipeline::Pipeline;
use crate::stage::{
    ApiClass, Inside, Kind, NeedsContext, PipelineSource, Placement, Stage, StageContext,
    StageNeeds, StageOp, StageTable, one, single_field,
};
use hashbrown::HashMap;
use model::{Array, Doc, DocBuf, Number, Result, Value, bail, code};
use std::cmp::Ordering;
use std::sync::Arc;

pub(super) static STAGES: &[StageOp] = &[StageOp {
    name: "$rankFusion",
    api: ApiClass::Inside,
    needs: StageNeeds::Of(needs),
    placement: Placement::ANYWHERE,
    parse: |scx, name, arg| one(parse(scx, name, arg)?),
}];

/// Constant of reciprocal rank fusion.
const RANK_CONSTANT: f64 = 60.0;
/// Stages an input pipeline may have: they select and order, and change nothing.
const SELECTING: &[&str] = &[
    "$match",
    "$sort",
    "$limit",
    "$skip",
    "$sample",
    "$search",
    "$vectorSearch",
    "$geoNear",
];
const FUSIONS: &[&str] = &["$rankFusion", "$scoreFusion"];

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

fn needs(cx: &mut NeedsContext<'_>, name: &'static str, arg: Value<'_>) -> Result<()> {
    for (input, v) in input_pipelines(&specification(name, arg)?, &["pipelines"])?.iter() {
        let target = cx.options.target.clone();
        cx.inner(Inside::Top, target, input_stages(name, input, v)?)?;
    }
    Ok(())
}

fn parse(scx: &mut StageContext<'_, '_>, name: &'static str, arg: Value<'_>) -> Result<RankFusion> {
    if !scx.before.is_empty() {
        bail!(
            10170100,
            "{name} is only valid as the first stage in a pipeline"
        );
    }
    let f = specification(name, arg)?;
    let pipelines = input_pipelines(&f, &["pipelines"])?;
    let details = f.boolean("scoreDetails")?.unwrap_or(false);
    let weights = f
        .document("combination")?
        .map(parse_combination)
        .transpose()?
        .unwrap_or(Doc::EMPTY);
    if pipelines.is_empty() {
        bail!(code::BAD_VALUE, "{name} input pipelines must not be empty");
    }
    let PipelineSource::Collection(_) = &scx.options.target else {
        bail!(
            code::INVALID_NAMESPACE,
            "{name} is only valid on a collection"
        );
    };
    let mut inputs: Vec<Input> = Vec::new();
    for (input_name, v) in pipelines.iter() {
        check_name(input_name)?;
        let stages = input_stages(name, input_name, v)?;
        check_input(name, stages, scx.options.stages)?;
        let options = scx.options.inner(Inside::Top, scx.options.target.clone())?;
        let pipeline = Pipeline::parse(scx.cx, stages, &options)?;
        let order = pipeline.stages().iter().rev().find_map(|s| match s.kind() {
            Kind::Sort { pattern, .. } => Some(pattern.clone()),
            _ => None,
        });
        inputs.push(Input {
            name: input_name.to_owned(),
            pipeline,
            order,
            weight: 1.0,
        });
    }
    apply_weights(&mut inputs, weights)?;
    Ok(RankFusion {
        inputs,
        details,
        spec: arg.as_doc().unwrap_or(Doc::EMPTY).to_buf(),
    })
}

fn parse_combination(d: Doc<'_>) -> Result<Doc<'_>> {
    let f = Fields::new("combination", d, &["weights"])?;
    f.required("weights")?;
    Ok(f.document("weights")?.unwrap_or(Doc::EMPTY))
}

/// Only selecting stages, of which one orders, and no fusion inside.
pub(super) fn check_input(name: &str, stages: Array<'_>, table: StageTable) -> Result<()> {
    if stages.is_empty() {
        bail!(9834300, "{name} input pipelines must not be empty");
    }
    // Only ranks need an order.
    let mut ranked = name != "$rankFusion";
    for (i, v) in stages.iter().enumerate() {
        let Some((stage, _)) = v.as_doc().and_then(single_field) else {
            // Shape errors are the parser's.
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

fn apply_weights(inputs: &mut [Input], weights: Doc<'_>) -> Result<()> {
    let names: Vec<String> = inputs.iter().map(|i| i.name.clone()).collect();
    let each = weights_of("$rankFusion", &names, weights)?;
    inputs.iter_mut().zip(each).for_each(|(i, w)| i.weight = w);
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

struct Input {
    name: String,
    pipeline: Pipeline,
    order: Option<Arc<SortPattern>>,
    weight: f64,
}

struct RankFusion {
    inputs: Vec<Input>,
    details: bool,
    spec: DocBuf,
}

/// A document and its rank in each input.
struct Fused {
    doc: DocBuf,
    ranks: Vec<Option<i64>>,
    score: f64,
}

impl Stage for RankFusion {
    fn open(
        self: Arc<Self>,
        _: Box<dyn BatchStream>,
        exec: &ExecContext<'_>,
    ) -> Result<Box<dyn BatchStream>> {
        let mut by_id: HashMap<Vec<u8>, usize> = HashMap::new();
        let mut fused: Vec<Fused> = Vec::new();
        for (i, input) in self.inputs.iter().enumerate() {
            self.rank(i, input, exec, &mut by_id, &mut fused)?;
        }
        fused.sort_by(|a, b| {
            let by_score = b.score.partial_cmp(&a.score).unwrap_or(Ordering::Equal);
            by_score
                .then_with(|| model::compare(&a.doc.doc().field("_id"), &b.doc.doc().field("_id")))
        });
        let mut out = DocBatch::new();
        for f in &fused {
            out.push_with_meta(f.doc.doc(), Some(self.meta(f).doc()));
        }
        Ok(Box::new(ReadyBatch(out)))
    }
    fn describe(&self) -> DocBuf {
        model::doc! { "$rankFusion": &self.spec }
    }
    fn makes_documents(&self) -> bool {
        true
    }
    fn provides_meta(&self) -> &'static [&'static str] {
        if self.details {
            &["score", "scoreDetails"]
        } else {
            &["score"]
        }
    }
}

impl RankFusion {
    /// Runs one input; documents with equal sort keys share a rank.
    fn rank(
        &self,
        i: usize,
        input: &Input,
        exec: &ExecContext<'_>,
        by_id: &mut HashMap<Vec<u8>, usize>,
        fused: &mut Vec<Fused>,
    ) -> Result<()> {
        let (mut position, mut rank, mut id) = (0i64, 0i64, Vec::new());
        let mut previous: Option<Vec<u8>> = None;
        let mut docs = input.pipeline.open(exec)?;
        drain(docs.as_mut(), exec, |doc, meta| {
            position += 1;
            let mut key = Vec::new();
            if let Some(order) = &input.order {
                order.key_into(doc, meta, exec.env, &mut key)?;
            }
            let tied = match (&input.order, &previous) {
                (Some(_), Some(p)) => *p == key,
                _ => false,
            };
            if !tied {
                rank = position;
            }
            previous = Some(key);
            key_of(doc.field("_id"), exec, &mut id);
            let at = *by_id.entry(id.clone()).or_insert_with(|| {
                fused.push(Fused {
                    doc: doc.to_buf(),
                    ranks: vec![None; self.inputs.len()],
                    score: 0.0,
                });
                fused.len() - 1
            });
            if let Some(f) = fused.get_mut(at) {
                if let Some(slot) = f.ranks.get_mut(i) {
                    *slot = Some(rank);
                }
                f.score += input.weight * (1.0 / (RANK_CONSTANT + rank as f64));
            }
            Ok(())
        })
    }

    fn meta(&self, f: &Fused) -> DocBuf {
        DocBuf::build(|w| {
            w.put("score", f.score);
            if !self.details {
                return;
            }
            let mut d = w.doc("scoreDetails");
            d.put("value", f.score);
            d.put(
                "description",
                "value output by reciprocal rank fusion algorithm, the sum of \
                weight * (1 / (60 + rank)) over the input pipelines the document is in, from:",
            );
            let mut list = d.array("details");
            for (input, rank) in self.inputs.iter().zip(&f.ranks) {
                let mut one = list.doc();
                one.put("inputPipelineName", input.name.as_str());
                match rank {
                    Some(rank) => {
                        one.put("rank", rank_value(*rank))
                            .put("weight", input.weight);
                        one.array("details");
                    }
                    None => {
                        one.put("rank", "NA");
                    }
                }
            }
        })
    }
}

fn rank_value(rank: i64) -> Value<'static> {
    i32::try_from(rank).map_or(Value::Int64(rank), Value::Int32)
}
