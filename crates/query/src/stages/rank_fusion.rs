//! `$rankFusion: {input: {pipelines}, combination: {weights}, scoreDetails}`: reciprocal rank
//! fusion. Each input pipeline ranks documents of the collection; a document's score is the sum of
//! weight / (60 + rank). Scores are `$meta` values. Errors: 9 no object, strict field codes, 2 no
//! pipelines, 9834300 an empty one, 9191100 one that does not rank, 9191103 one that changes
//! documents, 10473002 / 10170100 fusions inside or not first, 9460300 / 9460301 / 9967500 / 13118
//! bad weights.

use super::facet::check_name;
use super::fields::Fields;
use super::fusion::{
    FusedDocument, Fusion, check_first, check_input, check_inputs, input_pipelines, input_stages,
    meta_of, needs_of, provided_metadata, specification, weights_of,
};
use crate::exec::{BatchStream, ExecContext, SortPattern, drain};
use crate::pipeline::Pipeline;
use crate::stage::{
    ApiClass, Kind, NeedsContext, PipelineContext, Placement, Stage, StageContext, StageNeeds,
    StageOp, one,
};
use model::{Doc, DocBuf, Result, Value};
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
fn needs(cx: &mut NeedsContext<'_>, name: &'static str, arg: Value<'_>) -> Result<()> {
    needs_of(cx, name, arg, &["pipelines"])
}

fn parse(scx: &mut StageContext<'_, '_>, name: &'static str, arg: Value<'_>) -> Result<RankFusion> {
    check_first(scx, name)?;
    let f = specification(name, arg)?;
    let pipelines = input_pipelines(&f, &["pipelines"])?;
    let details = f.boolean("scoreDetails")?.unwrap_or(false);
    let weights = f
        .document("combination")?
        .map(parse_combination)
        .transpose()?
        .unwrap_or(Doc::EMPTY);
    check_inputs(scx, name, pipelines)?;
    let mut inputs: Vec<Input> = Vec::new();
    for (input_name, v) in pipelines.iter() {
        check_name(input_name)?;
        let stages = input_stages(name, input_name, v)?;
        check_input(name, stages, scx.options.stages)?;
        let options = scx
            .options
            .inner(PipelineContext::Top, scx.options.target.clone())?;
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

fn apply_weights(inputs: &mut [Input], weights: Doc<'_>) -> Result<()> {
    let names: Vec<String> = inputs.iter().map(|i| i.name.clone()).collect();
    let each = weights_of("$rankFusion", &names, weights)?;
    inputs.iter_mut().zip(each).for_each(|(i, w)| i.weight = w);
    Ok(())
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

impl Stage for RankFusion {
    fn open(
        self: Arc<Self>,
        _: Box<dyn BatchStream>,
        exec: &ExecContext<'_>,
    ) -> Result<Box<dyn BatchStream>> {
        let mut fusion = Fusion::new(self.inputs.len());
        for (n, input) in self.inputs.iter().enumerate() {
            input.rank(n, exec, &mut fusion)?;
        }
        Ok(fusion.finish(|f| self.meta(f)))
    }
    fn describe(&self) -> DocBuf {
        model::doc! { "$rankFusion": &self.spec }
    }
    fn makes_documents(&self) -> bool {
        true
    }
    fn provides_meta(&self) -> &'static [&'static str] {
        provided_metadata(self.details)
    }
}

impl Input {
    /// Runs input number `n`; documents with equal sort keys share a rank.
    fn rank(&self, n: usize, exec: &ExecContext<'_>, fusion: &mut Fusion<i64>) -> Result<()> {
        let (mut position, mut rank) = (0i64, 0i64);
        let mut previous: Option<Vec<u8>> = None;
        let mut docs = self.pipeline.open(exec)?;
        drain(docs.as_mut(), exec, |doc, meta| {
            position += 1;
            let mut key = Vec::new();
            if let Some(order) = &self.order {
                order.key_into(doc, meta, exec.env, &mut key)?;
            }
            let tied = match (&self.order, &previous) {
                (Some(_), Some(p)) => *p == key,
                _ => false,
            };
            if !tied {
                rank = position;
            }
            previous = Some(key);
            let worth = self.weight * (1.0 / (RANK_CONSTANT + rank as f64));
            fusion.note(n, doc, exec, rank, worth);
            Ok(())
        })
    }
}

impl RankFusion {
    fn meta(&self, f: &FusedDocument<i64>) -> DocBuf {
        let description = "value output by reciprocal rank fusion algorithm, the sum of \
            weight * (1 / (60 + rank)) over the input pipelines the document is in, from:";
        meta_of(f.score, self.details.then_some(description), |d| {
            let mut list = d.array("details");
            for (input, rank) in self.inputs.iter().zip(&f.by_input) {
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
