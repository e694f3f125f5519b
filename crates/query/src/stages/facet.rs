//! `$facet: {name: [stages], ...}`: runs every sub-pipeline over the same documents; the result is
//! one document of arrays. Errors: 40169 no object or empty, 40170 a facet that is no array, 40600
//! for stages that are not allowed inside, and those of field names; 10334 when the result is too
//! large for a document.

use crate::exec::{BatchStream, DocBatch, ExecContext, Spool, drain};
use crate::path::checked_path;
use crate::pipeline::Pipeline;
use crate::stage::{
    ApiClass, NeedsContext, PipelineContext, Placement, Stage, StageContext, StageNeeds, StageOp,
    one,
};
use model::{Array, ArrayWriter, Doc, DocBuf, Result, Value, bail, code};
use std::sync::Arc;

pub(super) static STAGES: &[StageOp] = &[StageOp {
    name: "$facet",
    api: ApiClass::Inside,
    needs: StageNeeds::Of(needs),
    placement: Placement {
        in_facet: false,
        ..Placement::ANYWHERE
    },
    parse: |scx, name, arg| one(parse(scx, name, arg)?),
}];

/// Largest document, including the space that internal documents have beyond 16 MB.
const MAX_DOCUMENT_BYTES: usize = 16 * 1024 * 1024 + 16 * 1024;

fn specification<'a>(name: &str, arg: Value<'a>) -> Result<Doc<'a>> {
    match arg {
        Value::Document(d) if !d.is_empty() => Ok(d),
        _ => bail!(
            40169,
            "the {name} specification must be a non-empty object, but found: {arg}"
        ),
    }
}

/// The stages of a facet.
fn stages<'a>(name: &str, facet: &str, v: Value<'a>) -> Result<Array<'a>> {
    match v {
        Value::Array(stages) => Ok(stages),
        _ => bail!(
            40170,
            "arguments to {name} must be arrays, {facet} is type {}",
            v.type_name()
        ),
    }
}

fn needs(cx: &mut NeedsContext<'_>, name: &'static str, arg: Value<'_>) -> Result<()> {
    for (facet, v) in specification(name, arg)?.iter() {
        let target = cx.options.target.clone();
        cx.inner(PipelineContext::Facet, target, stages(name, facet, v)?)?;
    }
    Ok(())
}

fn parse(scx: &mut StageContext<'_, '_>, name: &str, arg: Value<'_>) -> Result<Facet> {
    let spec = specification(name, arg)?;
    let mut facets: Vec<(String, Pipeline)> = Vec::new();
    for (facet, v) in spec.iter() {
        check_name(facet)?;
        let stages = stages(name, facet, v)?;
        if facets.iter().any(|(n, _)| n == facet) {
            bail!(16406, "duplicate facet name '{facet}'");
        }
        let options = scx
            .options
            .inner(PipelineContext::Facet, scx.options.target.clone())?;
        facets.push((facet.to_owned(), Pipeline::parse(scx.cx, stages, &options)?));
    }
    Ok(Facet {
        facets,
        spec: spec.to_buf(),
    })
}

/// Checks that a name can be a field of the result.
pub(super) fn check_name(name: &str) -> Result<()> {
    if name.contains('.') {
        bail!(16412, "FieldPath field names may not contain '.': {name}");
    }
    if name.is_empty() {
        bail!(15998, "FieldPath field names may not be empty strings");
    }
    checked_path(name).map(|_| ())
}

struct Facet {
    facets: Vec<(String, Pipeline)>,
    spec: DocBuf,
}

impl Stage for Facet {
    fn open(
        self: Arc<Self>,
        input: Box<dyn BatchStream>,
        _: &ExecContext<'_>,
    ) -> Result<Box<dyn BatchStream>> {
        Ok(Box::new(FacetStream { stage: self, input }))
    }
    fn describe(&self) -> DocBuf {
        model::doc! { "$facet": &self.spec }
    }
}

struct FacetStream {
    stage: Arc<Facet>,
    input: Box<dyn BatchStream>,
}

impl BatchStream for FacetStream {
    fn next_batch(&mut self, exec: &ExecContext<'_>, out: &mut DocBatch) -> Result<bool> {
        let mut spool = Spool::default();
        drain(self.input.as_mut(), exec, |doc, meta| {
            spool.push(doc, meta, exec)
        })?;
        let shared = spool.finish()?;
        let mut results = Vec::new();
        let mut total = 0;
        for (_, pipeline) in &self.stage.facets {
            let mut docs = pipeline.open_over(exec, Box::new(shared.reader()?))?;
            let mut bytes = Vec::new();
            {
                let mut list = ArrayWriter::new(&mut bytes);
                drain(docs.as_mut(), exec, |doc, _| {
                    list.push(doc);
                    if total + list.len_bytes() > MAX_DOCUMENT_BYTES {
                        bail!(
                            code::BSON_OBJECT_TOO_LARGE,
                            "$facet result is larger than {MAX_DOCUMENT_BYTES} bytes"
                        );
                    }
                    Ok(())
                })?;
            }
            total += bytes.len();
            results.push(bytes);
        }
        out.build(None, |w| {
            for ((name, _), bytes) in self.stage.facets.iter().zip(&results) {
                w.put_raw(name.as_bytes(), model::Tag::ARRAY, bytes);
            }
        });
        Ok(false)
    }
}
