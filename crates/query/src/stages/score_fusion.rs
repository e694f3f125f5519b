//! `$scoreFusion: {input: {pipelines, normalization}, combination: {weights, method, expression},
//! scoreDetails}`: documents of several pipelines, ordered by their combined scores. Each pipeline
//! begins with a stage that scores; scores are normalized, weighted and combined; a document that a
//! pipeline does not give has the score zero there. Errors: those of `$rankFusion`; 2 a method,
//! normalization or expression that is not allowed, 9191100 a pipeline that does not score.

use super::facet::check_name;
use super::fields::Fields;
use super::fusion::{
    FusedDocument, Fusion, check_first, check_input, check_inputs, input_pipelines, input_stages,
    meta_of, needs_of, provided_metadata, specification, weights_of,
};
use super::normalization::{Normalization, Range};
use crate::exec::{BatchStream, ExecContext, drain};
use crate::pipeline::Pipeline;
use crate::stage::{
    ApiClass, NeedsContext, PipelineContext, Placement, Stage, StageContext, StageNeeds, StageOp,
    one, single_field,
};
use model::{Array, Bump, Doc, DocBuf, Result, Value, bail, code};
use operators::Cx;
use operators::expr::{self, BoxExpr};
use std::sync::Arc;

pub(super) static STAGES: &[StageOp] = &[StageOp {
    name: "$scoreFusion",
    api: ApiClass::Inside,
    needs: StageNeeds::Of(needs),
    placement: Placement::ANYWHERE,
    parse: |scx, name, arg| one(parse(scx, name, arg)?),
}];

const INPUT: &[&str] = &["pipelines", "normalization"];

/// How the scores of a document are combined.
enum Method {
    Average,
    /// An expression with a variable for each pipeline.
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

/// A score as it was, and normalized.
#[derive(Clone, Copy)]
struct Score {
    raw: f64,
    normalized: f64,
}

fn needs(cx: &mut NeedsContext<'_>, name: &'static str, arg: Value<'_>) -> Result<()> {
    needs_of(cx, name, arg, INPUT)
}

fn parse(
    scx: &mut StageContext<'_, '_>,
    name: &'static str,
    arg: Value<'_>,
) -> Result<ScoreFusion> {
    check_first(scx, name)?;
    let f = specification(name, arg)?;
    let pipelines = input_pipelines(&f, INPUT)?;
    let normalization = parse_normalization(&f)?;
    let details = f.boolean("scoreDetails")?.unwrap_or(false);
    check_inputs(scx, name, pipelines)?;
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
        let options = scx
            .options
            .inner(PipelineContext::Top, scx.options.target.clone())?;
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
    let word = input.string("normalization")?;
    Normalization::parse("input.normalization", word.unwrap_or_default())
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
            // The variables get their values from a document that holds all scores.
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

/// Checks that a pipeline begins with a stage that scores.
fn check_scored(name: &str, input: &str, stages: Array<'_>) -> Result<()> {
    let first = stages.iter().next();
    let scores = match first.as_ref().and_then(|v| single_field(v.as_doc()?)) {
        Some(("$search" | "$vectorSearch", _)) => true,
        Some(("$match", Value::Document(d))) => d.contains("$text"),
        _ => false,
    };
    let scored = |v: Value<'_>| {
        let stage = v.as_doc().and_then(single_field);
        stage.is_some_and(|(name, _)| name == "$score")
    };
    let scores = scores || stages.iter().any(scored);
    if !scores {
        bail!(
            9191100,
            "input pipeline '{input}' of {name} must score: it must begin with $search, \
                $vectorSearch, or a $match with $text, or have a $score"
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
        let mut fusion = Fusion::new(self.inputs.len());
        for (n, input) in self.inputs.iter().enumerate() {
            let mut docs = input.pipeline.open(exec)?;
            drain(docs.as_mut(), exec, |doc, meta| {
                let of = |name: &str| meta.and_then(|m| m.field(name).as_f64());
                let raw = of("score").or_else(|| of("textScore")).unwrap_or(0.0);
                let normalized = raw;
                fusion.note(n, doc, exec, Score { raw, normalized }, 0.0);
                Ok(())
            })?;
            self.normalize(n, &mut fusion.documents);
        }
        for f in &mut fusion.documents {
            f.score = self.combine(f, exec)?;
        }
        Ok(fusion.finish(|f| self.meta(f)))
    }

    fn describe(&self) -> DocBuf {
        model::doc! { "$scoreFusion": &self.spec }
    }

    fn makes_documents(&self) -> bool {
        true
    }

    fn provides_meta(&self) -> &'static [&'static str] {
        provided_metadata(self.details)
    }
}

impl ScoreFusion {
    fn normalize(&self, n: usize, fused: &mut [FusedDocument<Score>]) {
        let of = |f: &FusedDocument<Score>| f.by_input.get(n).copied().flatten().map(|s| s.raw);
        let range = Range::of(fused.iter().filter_map(of));
        for f in fused {
            if let Some(Some(score)) = f.by_input.get_mut(n) {
                score.normalized = self.normalization.apply(score.raw, range);
            }
        }
    }

    /// The scores of a document in all inputs, weighted.
    fn weigh_scores(&self, f: &FusedDocument<Score>) -> Vec<f64> {
        let each = self.inputs.iter().zip(&f.by_input);
        each.map(|(input, score)| score.map_or(0.0, |s| input.weight * s.normalized))
            .collect()
    }

    fn combine(&self, f: &FusedDocument<Score>, exec: &ExecContext<'_>) -> Result<f64> {
        let scores = self.weigh_scores(f);
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

    fn meta(&self, f: &FusedDocument<Score>) -> DocBuf {
        let description = "the normalized and weighted scores of the input pipelines, combined:";
        meta_of(f.score, self.details.then_some(description), |d| {
            d.put("normalization", self.normalization.name());
            let method = match self.method {
                Method::Average => "average",
                Method::Expression(_) => "custom expression",
            };
            d.doc("combination").put("method", method);
            let mut list = d.array("details");
            for (input, score) in self.inputs.iter().zip(&f.by_input) {
                let mut one = list.doc();
                one.put("inputPipelineName", input.name.as_str());
                one.put("inputPipelineRawScore", score.map_or(0.0, |s| s.raw));
                one.put("weight", input.weight);
                one.put("value", score.map_or(0.0, |s| s.normalized));
                one.array("details");
            }
        })
    }
}
