//! `$score: {score, normalization, weight, scoreDetails}`: gives each document a score, which is an
//! expression over it and its metadata, normalized over all documents and weighted. It is the
//! `$meta` value `score`; other values are kept. Errors: 9 no object, strict field codes, 14 a
//! score that is no number, 2 a normalization or a weight that is not allowed, 292 too many
//! documents for memory (only minMaxScaler holds them all).

use super::fields::Fields;
use super::fusion::provided_metadata;
use super::normalization::{Normalization, Range};
use crate::exec::{BatchStream, DocBatch, ExecContext, ReadyBatch, drain, memory_error};
use crate::stage::{ApiClass, Placement, Stage, StageContext, StageNeeds, StageOp, one};
use model::{Bump, Doc, DocBuf, OwnedValue, Result, Value, bail, code};
use operators::Cx;
use operators::expr::{self, BoxExpr};
use std::sync::Arc;

pub(super) static STAGES: &[StageOp] = &[StageOp {
    name: "$score",
    api: ApiClass::Inside,
    needs: StageNeeds::Nothing,
    placement: Placement::ANYWHERE,
    parse: |scx, name, arg| one(parse(scx, name, arg)?),
}];

struct Score {
    score: BoxExpr,
    /// The expression as it was written.
    written: OwnedValue,
    normalization: Normalization,
    weight: f64,
    details: bool,
    spec: DocBuf,
}

fn parse(scx: &mut StageContext<'_, '_>, name: &'static str, arg: Value<'_>) -> Result<Score> {
    let Value::Document(spec) = arg else {
        bail!(
            code::FAILED_TO_PARSE,
            "the {name} stage specification must be an object, but found {}",
            arg.type_name()
        );
    };
    let known = ["score", "normalization", "weight", "scoreDetails"];
    let f = Fields::new(name, spec, &known)?;
    let written = f.required("score")?;
    let normalization = match f.string("normalization")? {
        Some(word) => Normalization::parse("$score.normalization", word)?,
        None => Normalization::None,
    };
    let weight = match f.get("weight") {
        Value::Missing => 1.0,
        v if v.is_number() => v.as_f64().unwrap_or(f64::NAN),
        v => return f.wrong_type("weight", v, "a number"),
    };
    if !(0.0..=1.0).contains(&weight) {
        bail!(
            code::BAD_VALUE,
            "$score.weight must be between 0 and 1, not {weight}"
        );
    }
    Ok(Score {
        score: expr::parse(scx.cx, written)?,
        written: written.to_owned_value(),
        normalization,
        weight,
        details: f.boolean("scoreDetails")?.unwrap_or(false),
        spec: spec.to_buf(),
    })
}

impl Score {
    /// The score of a document before normalization.
    fn raw(
        &self,
        exec: &ExecContext<'_>,
        arena: &Bump,
        doc: Doc<'_>,
        meta: Option<Doc<'_>>,
    ) -> Result<f64> {
        let cx = Cx {
            meta,
            ..Cx::new(arena, Value::Document(doc), exec.env)
        };
        let v = self.score.eval(&cx)?;
        match v.as_f64() {
            Some(score) => Ok(score),
            None => bail!(
                code::TYPE_MISMATCH,
                "$score.score must give a number, not {}",
                v.type_name()
            ),
        }
    }

    /// The metadata of a document with its new score.
    fn meta(&self, raw: f64, among: Range, old: Option<Doc<'_>>) -> DocBuf {
        let normalized = self.normalization.apply(raw, among);
        let score = self.weight * normalized;
        DocBuf::build(|w| {
            let kept = old.into_iter().flat_map(|m| m.iter());
            for (name, v) in kept.filter(|(name, _)| !provided_metadata(true).contains(name)) {
                w.put(name, v);
            }
            w.put("score", score);
            if !self.details {
                return;
            }
            let mut d = w.doc("scoreDetails");
            d.put("value", score);
            d.put(
                "description",
                "the score, an expression, normalized and multiplied by a weight:",
            );
            d.put("rawScore", raw);
            d.put("normalization", self.normalization.name());
            d.put("weight", self.weight);
            d.put("expression", self.written.get().to_string().as_str());
            d.array("details");
        })
    }
}

impl Stage for Score {
    fn open(
        self: Arc<Self>,
        input: Box<dyn BatchStream>,
        exec: &ExecContext<'_>,
    ) -> Result<Box<dyn BatchStream>> {
        let stream = ScoreStream {
            stage: self,
            input,
            inbox: DocBatch::new(),
            arena: Bump::new(),
        };
        match stream.stage.normalization {
            Normalization::MinMax => stream.score_all(exec),
            _ => Ok(Box::new(stream)),
        }
    }

    fn describe(&self) -> DocBuf {
        model::doc! { "$score": &self.spec }
    }

    fn provides_meta(&self) -> &'static [&'static str] {
        provided_metadata(self.details)
    }
}

/// Scores each document independently.
struct ScoreStream {
    stage: Arc<Score>,
    input: Box<dyn BatchStream>,
    inbox: DocBatch,
    arena: Bump,
}

impl ScoreStream {
    /// Scores all documents together, because their normalized scores depend on each other.
    fn score_all(mut self, exec: &ExecContext<'_>) -> Result<Box<dyn BatchStream>> {
        let (stage, budget) = (&self.stage, exec.host.memory_limit_bytes());
        let (mut scores, mut bytes) = (Vec::new(), 0);
        drain(self.input.as_mut(), exec, |doc, meta| {
            scores.push(stage.raw(exec, &self.arena, doc, meta)?);
            self.arena.reset();
            bytes += doc.as_bytes().len() + meta.map_or(0, |m| m.as_bytes().len());
            if bytes > budget {
                return Err(memory_error("$score", budget));
            }
            self.inbox.push_with_meta(doc, meta);
            Ok(())
        })?;
        let among = Range::of(scores.iter().copied());
        let mut out = DocBatch::new();
        for ((doc, meta), raw) in self.inbox.iter_meta().zip(scores) {
            out.push_with_meta(doc, Some(stage.meta(raw, among, meta).doc()));
        }
        Ok(Box::new(ReadyBatch(out)))
    }
}

impl BatchStream for ScoreStream {
    fn next_batch(&mut self, exec: &ExecContext<'_>, out: &mut DocBatch) -> Result<bool> {
        exec.env.check_interrupt()?;
        self.inbox.clear();
        let more = self.input.next_batch(exec, &mut self.inbox)?;
        let none = Range::of(std::iter::empty());
        for (doc, meta) in self.inbox.iter_meta() {
            let raw = self.stage.raw(exec, &self.arena, doc, meta)?;
            out.push_with_meta(doc, Some(self.stage.meta(raw, none, meta).doc()));
        }
        self.arena.reset();
        Ok(more)
    }
}
