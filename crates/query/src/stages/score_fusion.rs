//! `$scoreFusion: {input: {pipelines, normalization}, combination: {weights, method, expression},
//! scoreDetails}`: documents of several pipelines by their scores in all of them. Each pipeline
//! begins with a stage that scores; scores are normalized, weighted and combined, and a document
//! that a pipeline does not have counts zero there. Errors: those of `$rankFusion`; 2 a method,
//! normalization or expression that is not allowed, 9191100 a pipeline that does not score.

use super::facet::check_name;
use super::fields::Fields;
use super::join::key_of;
use super::rank_fusion::{check_input, input_pipelines, input_stages, specification, weights_of};
use crate::exec::{BatchStream, DocBatch, ExecContext, ReadyBatch, drain};
use crate::pipeline::Pipeline;
use crate::stage::{
    ApiClass, Inside, NeedsContext, PipelineSource, Placement, Stage, StageContext, StageNeeds,
    StageOp, one, single_field,
};
use hashbrown::HashMap;
use model::{Array, Bump, Doc, DocBuf, Result, Value, bail, code};
use operators::Cx;
use operators::expr::{self, BoxExpr};
use std::cmp::Ordering;
use std::sync::Arc;

pub(super) static STAGES: &[StageOp] = &[StageOp {
    name: "$scoreFusion",
    api: ApiClass::Inside,
    needs: StageNeeds::Of(needs),
    placement: Placement::ANYWHERE,
    parse: |scx, name, arg| one(parse(scx, name, arg)?),
}];

const INPUT: &[&str] = &["pipelines", "normalization"];

/// What is made of the scores of a pipeline before they are weighted.
#[derive(Clone, Copy)]
enum Normalization {
    None,
    /// `1 / (1 + e^-score)`
    Sigmoid,
    /// The least becomes 0, the greatest 1.
    MinMax,
}

impl Normalization {
    fn name(self) -> &'static str {
        match self {
            Normalization::None => "none",
            Normalization::Sigmoid => "sigmoid",
            Normalization::MinMax => "minMaxScaler",
        }
    }
}

/// How the scores of a document become one.
enum Method {
    Average,
    /// With a variable for each pipeline.
    Expression(BoxExpr),
}

struct Input {
    name: String,
    pipeline: Pipeline,
    weight: f64,
}

struct ScoreFusion {
    inputs: Vec<Input>,
    normalization: Normalization,
    method: Method,
    details: bool,
    spec: DocBuf,
}

/// A document and its scores in each input: as they were, and normalized.
struct Fused {
    doc: DocBuf,
    scores: Vec<Option<(f64, f64)>>,
    score: f64,
}

fn needs(cx: &mut NeedsContext<'_>, name: &'static str, arg: Value<'_>) -> Result<()> {
    for (input, v) in input_pipelines(&specification(name, arg)?, INPUT)?.iter() {
        let target = cx.options.target.clone();
        cx.inner(Inside::Top, target, input_stages(name, input, v)?)?;
    }
    Ok(())
}

fn parse(
    scx: &mut StageContext<'_, '_>,
    name: &'static str,
    arg: Value<'_>,
) -> Result<ScoreFusion> {
    if !scx.before.is_empty() {
        bail!(
            10170100,
            "{name} is only valid as the first stage in a pipeline"
        );
    }
    let f = specification(name, arg)?;
    let pipelines = input_pipelines(&f, INPUT)?;
    let normalization = parse_normalization(&f)?;
    let details = f.boolean("scoreDetails")?.unwrap_or(false);
    if pipelines.is_empty() {
        bail!(code::BAD_VALUE, "{name} input pipelines must not be empty");
    }
    let PipelineSource::Collection(_) = &scx.options.target else {
        bail!(
            code::INVALID_NAMESPACE,
            "{name} is only valid on a collection"
        );
    };
    let names: Vec<String> = pipelines.iter().map(|(n, _)| n.to_owned()).collect();
    let combination = f.document("combination")?.unwrap_or(Doc::EMPTY);
    let (weights, method) = parse_combination(scx, &names, combination)?;
    let weights = weights_of(name, &names, weights)?;
    let mut inputs = Vec::new();
    for ((input_name, v), weight) in pipelines.iter().zip(weights) {
        check_name(input_name)?;
        let stages = input_stages(name, input_name, v)?;
        check_input(name, stages, scx.options.stages)?;
        check_scored(name, input_name, stages)?;
        let options = scx.options.inner(Inside::Top, scx.options.target.clone())?;
        inputs.push(Input {
            name: input_name.to_owned(),
            pipeline: Pipeline::parse(scx.cx, stages, &options)?,
            weight,
        });
    }
    Ok(ScoreFusion {
        inputs,
        normalization,
        method,
        details,
        spec: arg.as_doc().unwrap_or(Doc::EMPTY).to_buf(),
    })
}

fn parse_normalization(f: &Fields<'_>) -> Result<Normalization> {
    let input = f.document("input")?.unwrap_or(Doc::EMPTY);
    let input = Fields::new("input", input, INPUT)?;
    input.required("normalization")?;
    Ok(match input.string("normalization")? {
        Some("none") => Normalization::None,
        Some("sigmoid") => Normalization::Sigmoid,
        Some("minMaxScaler") => Normalization::MinMax,
        other => bail!(
            code::BAD_VALUE,
            "input.normalization must be one of none, sigmoid, minMaxScaler, not '{}'",
            other.unwrap_or_default()
        ),
    })
}

fn parse_combination<'d>(
    scx: &mut StageContext<'_, '_>,
    names: &[String],
    combination: Doc<'d>,
) -> Result<(Doc<'d>, Method)> {
    let allowed = ["weights", "method", "expression"];
    let f = Fields::new("combination", combination, &allowed)?;
    let expression = f.get("expression");
    let method = match (f.string("method")?, expression) {
        (None | Some("avg"), Value::Missing) => Method::Average,
        (Some("expression"), Value::Missing) => bail!(
            code::BAD_VALUE,
            "combination.expression is required where the method is expression"
        ),
        (Some("expression"), v) => {
            // A variable for each pipeline, from a document with all scores.
            let paths: Vec<String> = (0..names.len()).map(|n| format!("$s{n}")).collect();
            let spec = DocBuf::build(|w| {
                let mut whole = w.doc("$let");
                let mut vars = whole.doc("vars");
                for (name, path) in names.iter().zip(&paths) {
                    vars.put(name, path.as_str());
                }
                drop(vars);
                whole.put("in", v);
            });
            Method::Expression(expr::parse(scx.cx, Value::Document(spec.doc()))?)
        }
        (None | Some("avg"), _) => bail!(
            code::BAD_VALUE,
            "combination.expression is allowed only where the method is expression"
        ),
        (Some(other), _) => bail!(
            code::BAD_VALUE,
            "combination.method must be avg or expression, not '{other}'"
        ),
    };
    Ok((f.document("weights")?.unwrap_or(Doc::EMPTY), method))
}

/// A pipeline must begin with a stage that scores.
fn check_scored(name: &str, input: &str, stages: Array<'_>) -> Result<()> {
    let first = stages.iter().next();
    let scores = match first.as_ref().and_then(|v| single_field(v.as_doc()?)) {
        Some(("$search" | "$vectorSearch", _)) => true,
        Some(("$match", Value::Document(d))) => d.contains("$text"),
        _ => false,
    };
    if !scores {
        bail!(
            9191100,
            "input pipeline '{input}' of {name} must score: it must begin with $search, \
                $vectorSearch, or a $match with $text"
        );
    }
    Ok(())
}

impl Stage for ScoreFusion {
    fn open(
        self: Arc<Self>,
        _: Box<dyn BatchStream>,
        exec: &ExecContext<'_>,
    ) -> Result<Box<dyn BatchStream>> {
        let mut by_id: HashMap<Vec<u8>, usize> = HashMap::new();
        let mut fused: Vec<Fused> = Vec::new();
        for (i, input) in self.inputs.iter().enumerate() {
            self.score(i, input, exec, &mut by_id, &mut fused)?;
            self.normalize(i, &mut fused);
        }
        for f in &mut fused {
            f.score = self.combine(f, exec)?;
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
        model::doc! { "$scoreFusion": &self.spec }
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

impl ScoreFusion {
    /// Runs one input and notes its scores.
    fn score(
        &self,
        i: usize,
        input: &Input,
        exec: &ExecContext<'_>,
        by_id: &mut HashMap<Vec<u8>, usize>,
        fused: &mut Vec<Fused>,
    ) -> Result<()> {
        let mut id = Vec::new();
        let mut docs = input.pipeline.open(exec)?;
        drain(docs.as_mut(), exec, |doc, meta| {
            let of = |name: &str| meta.and_then(|m| m.field(name).as_f64());
            let score = of("score").or_else(|| of("textScore")).unwrap_or(0.0);
            key_of(doc.field("_id"), exec, &mut id);
            let at = *by_id.entry(id.clone()).or_insert_with(|| {
                fused.push(Fused {
                    doc: doc.to_buf(),
                    scores: vec![None; self.inputs.len()],
                    score: 0.0,
                });
                fused.len() - 1
            });
            let slot = fused.get_mut(at).and_then(|f| f.scores.get_mut(i));
            if let Some(slot) = slot {
                *slot = Some((score, score));
            }
            Ok(())
        })
    }

    fn normalize(&self, i: usize, fused: &mut [Fused]) {
        let of = |f: &Fused| f.scores.get(i).copied().flatten().map(|(raw, _)| raw);
        let least = fused.iter().filter_map(of).fold(f64::INFINITY, f64::min);
        let most = fused
            .iter()
            .filter_map(of)
            .fold(f64::NEG_INFINITY, f64::max);
        for f in fused {
            let Some(Some((raw, normalized))) = f.scores.get_mut(i) else {
                continue;
            };
            *normalized = match self.normalization {
                Normalization::None => *raw,
                Normalization::Sigmoid => 1.0 / (1.0 + (-*raw).exp()),
                Normalization::MinMax if most > least => (*raw - least) / (most - least),
                Normalization::MinMax => 0.0,
            };
        }
    }

    /// The scores of a document in all inputs, weighted.
    fn weighted(&self, f: &Fused) -> Vec<f64> {
        let each = self.inputs.iter().zip(&f.scores);
        each.map(|(input, score)| score.map_or(0.0, |(_, n)| input.weight * n))
            .collect()
    }

    fn combine(&self, f: &Fused, exec: &ExecContext<'_>) -> Result<f64> {
        let scores = self.weighted(f);
        let Method::Expression(expression) = &self.method else {
            return Ok(scores.iter().sum::<f64>() / scores.len().max(1) as f64);
        };
        let all = DocBuf::build(|w| {
            for (n, score) in scores.iter().enumerate() {
                w.put(&format!("s{n}"), *score);
            }
        });
        let arena = Bump::new();
        let cx = Cx::new(&arena, Value::Document(all.doc()), exec.env);
        let found = expression.eval(&cx)?;
        match found.as_f64() {
            Some(score) => Ok(score),
            None => bail!(
                code::TYPE_MISMATCH,
                "combination.expression of $scoreFusion must give a number, not {}",
                found.type_name()
            ),
        }
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
                "the normalized and weighted scores of the input pipelines, combined:",
            );
            d.put("normalization", self.normalization.name());
            let method = match self.method {
                Method::Average => "average",
                Method::Expression(_) => "custom expression",
            };
            d.doc("combination").put("method", method);
            let mut list = d.array("details");
            for (input, score) in self.inputs.iter().zip(&f.scores) {
                let mut one = list.doc();
                one.put("inputPipelineName", input.name.as_str());
                one.put("inputPipelineRawScore", score.map_or(0.0, |(raw, _)| raw));
                one.put("weight", input.weight);
                one.put("value", score.map_or(0.0, |(_, n)| n));
                one.array("details");
            }
        })
    }
}
