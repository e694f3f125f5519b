//! `$_internalUnpackBucket: {timeField, metaField, bucketMaxSpanSeconds, ...}`: the measurements of
//! buckets, for tools that read buckets. Errors: 5346500 no object, 5346504 an option of another
//! type, 5346508 no time field, 5346509 a document that is no bucket.

use super::each::{DocumentStage, DocumentStream, Emitter};
use crate::exec::{BatchStream, ExecContext};
use crate::stage::{ApiClass, Placement, Stage, StageContext, StageNeeds, StageOp, one};
use model::bucket::{SeriesOptions, unpack};
use model::{Doc, DocBuf, Result, Value, bail};
use operators::Cx;
use std::sync::Arc;

pub(super) static STAGES: &[StageOp] = &[StageOp {
    name: "$_internalUnpackBucket",
    api: ApiClass::Inside,
    needs: StageNeeds::Nothing,
    placement: Placement::ANYWHERE,
    parse,
}];

fn parse(
    _: &mut StageContext<'_, '_>,
    name: &'static str,
    arg: Value<'_>,
) -> Result<Vec<Arc<dyn Stage>>> {
    let Value::Document(spec) = arg else {
        bail!(
            5_346_500,
            "{name} specification must be an object, got {}",
            arg.type_name()
        );
    };
    let text = |field: &str| match spec.field(field) {
        Value::Missing => Ok(None),
        Value::String(s) => Ok(Some(s)),
        v => bail!(
            5_346_504,
            "{field} field must be a string, got {}",
            v.type_name()
        ),
    };
    let (time, meta) = (text("timeField")?, text("metaField")?);
    if time.is_none() {
        bail!(5_346_508, "{name} stage requires a timeField parameter");
    }
    let list = |field: &str| {
        let names = spec.field(field).as_array()?;
        let names = names.iter().filter_map(|v| v.as_str().map(str::to_owned));
        Some(names.collect())
    };
    let options = model::doc! { "timeField": time.unwrap_or_default(),
    "metaField": meta.map_or(Value::Missing, Value::String) };
    let Some(options) = SeriesOptions::from_doc(options.doc()) else {
        bail!(5_346_508, "{name} stage requires a timeField parameter");
    };
    one(Unpack {
        spec: spec.to_buf(),
        options,
        include: list("include"),
        exclude: list("exclude").unwrap_or_default(),
    })
}

struct Unpack {
    spec: DocBuf,
    options: SeriesOptions,
    /// The only fields wanted.
    include: Option<Vec<String>>,
    /// Fields to leave out.
    exclude: Vec<String>,
}

impl DocumentStage for Unpack {
    fn process_document<'a>(
        &'a self,
        _: &Cx<'_, 'a>,
        doc: Doc<'a>,
        out: &mut Emitter<'_>,
    ) -> Result<()> {
        let unpacked = match unpack(doc, &self.options) {
            Ok(unpacked) => unpacked,
            Err(e) => bail!(5_346_509, "{}", e.message()),
        };
        for m in &unpacked.measurements {
            if self.include.is_none() && self.exclude.is_empty() {
                out.push(m.doc());
                continue;
            }
            out.build(|w| {
                for e in m.doc().elements() {
                    let is = |n: &String| n.as_bytes() == e.name;
                    let wanted = self.include.as_ref().is_none_or(|list| list.iter().any(is));
                    if wanted && !self.exclude.iter().any(is) {
                        w.put_element(&e);
                    }
                }
            });
        }
        Ok(())
    }
}

impl Stage for Unpack {
    fn open(
        self: Arc<Self>,
        input: Box<dyn BatchStream>,
        _: &ExecContext<'_>,
    ) -> Result<Box<dyn BatchStream>> {
        Ok(DocumentStream::open(self, input))
    }

    fn describe(&self) -> DocBuf {
        DocBuf::build(|w| _ = w.put("$_internalUnpackBucket", &self.spec))
    }
}
