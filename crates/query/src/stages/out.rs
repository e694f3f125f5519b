//! `$out: "collection"` or `{db, coll, timeseries}`: replaces a collection by the documents;
//! nothing is replaced on an error. Errors: 16990 neither string nor object, strict field codes, 73
//! bad names, 20 names no collection can have, 17385 system collections, 31321 internal databases,
//! 72 time-series options that do not go together, and the host's.

use super::fields::Fields;
use crate::exec::{BatchStream, DocBatch, ExecContext, OutTarget, OutWriter};
use crate::stage::{
    ApiClass, NeedsContext, ParseOptions, Placement, RequiredPrivilege, Stage, StageContext,
    StageNeeds, StageOp, one,
};
use model::{DocBuf, Namespace, Result, Value, bail, code, namespace};
use std::sync::Arc;

pub(super) static STAGES: &[StageOp] = &[StageOp {
    name: "$out",
    api: ApiClass::Inside,
    needs: StageNeeds::Of(needs),
    placement: Placement::LAST,
    parse: |scx, name, arg| one(parse(scx, name, arg)?),
}];

fn target(options: &ParseOptions, name: &'static str, arg: Value<'_>) -> Result<OutTarget> {
    let (db, coll, timeseries) = match arg {
        Value::String(coll) => (options.target.db().to_owned(), coll, None),
        Value::Document(spec) => {
            let f = Fields::new(name, spec, &["db", "coll", "timeseries"])?;
            f.required("db")?;
            f.required("coll")?;
            let (db, coll) = (
                f.string("db")?.unwrap_or(""),
                f.string("coll")?.unwrap_or(""),
            );
            let timeseries = f.document("timeseries")?;
            timeseries.map(check_timeseries).transpose()?;
            (db.to_owned(), coll, timeseries.map(|d| d.to_buf()))
        }
        other => bail!(
            16990,
            "{name} only supports a string or object argument, but found {}",
            other.type_name()
        ),
    };
    let ns = check_target(&db, coll)?;
    Ok(OutTarget { ns, timeseries })
}

fn needs(cx: &mut NeedsContext<'_>, name: &'static str, arg: Value<'_>) -> Result<()> {
    let target = target(cx.options, name, arg)?;
    cx.add(RequiredPrivilege::Write {
        ns: target.ns,
        inserts: true,
        updates: false,
        removes: true,
    });
    Ok(())
}

fn parse(scx: &mut StageContext<'_, '_>, name: &'static str, arg: Value<'_>) -> Result<Out> {
    Ok(Out {
        target: target(scx.options, name, arg)?,
        spec: model::doc! { name: arg },
    })
}

fn check_target(db: &str, coll: &str) -> Result<Namespace> {
    namespace::check_db(db)?;
    if coll.is_empty() || coll.starts_with('.') || coll.contains('\0') {
        bail!(
            code::INVALID_NAMESPACE,
            "Invalid $out target namespace, '{db}.{coll}'"
        );
    }
    if matches!(db, "admin" | "config" | "local") {
        bail!(31321, "Cannot $out to internal database: {db}");
    }
    if coll.starts_with("system.") {
        bail!(17385, "Cannot $out to a special collection: {coll}");
    }
    if coll.starts_with('$') {
        bail!(
            code::ILLEGAL_OPERATION,
            "a collection to $out to cannot begin with '$': {coll}"
        );
    }
    if db.len() + 1 + coll.len() > namespace::MAX_NAMESPACE_BYTES {
        bail!(
            code::ILLEGAL_OPERATION,
            "the namespace to $out to is {} bytes long, at most {} are allowed",
            db.len() + 1 + coll.len(),
            namespace::MAX_NAMESPACE_BYTES
        );
    }
    Namespace::new(db, coll)
}

fn check_timeseries(spec: model::Doc<'_>) -> Result<()> {
    let known = [
        "timeField",
        "metaField",
        "granularity",
        "bucketMaxSpanSeconds",
        "bucketRoundingSeconds",
    ];
    let f = Fields::new("timeseries", spec, &known)?;
    f.required("timeField")?;
    for name in ["timeField", "metaField", "granularity"] {
        f.string(name)?;
    }
    if f.get("bucketMaxSpanSeconds").is_missing() != f.get("bucketRoundingSeconds").is_missing() {
        bail!(
            code::INVALID_OPTIONS,
            "timeseries bucketMaxSpanSeconds and bucketRoundingSeconds must be given together"
        );
    }
    Ok(())
}

struct Out {
    target: OutTarget,
    spec: DocBuf,
}

impl Stage for Out {
    fn open(
        self: Arc<Self>,
        input: Box<dyn BatchStream>,
        _: &ExecContext<'_>,
    ) -> Result<Box<dyn BatchStream>> {
        Ok(Box::new(OutStream {
            stage: self,
            input,
            writer: None,
            read_all: false,
        }))
    }
    fn describe(&self) -> DocBuf {
        self.spec.clone()
    }
    fn is_writer(&self) -> bool {
        true
    }
}

/// If it is called again after [`ErrorKind::SetAside`](model::ErrorKind::SetAside), it continues
/// where it was.
struct OutStream {
    stage: Arc<Out>,
    input: Box<dyn BatchStream>,
    writer: Option<Box<dyn OutWriter>>,
    /// Everything is written, but not yet committed.
    read_all: bool,
}

impl BatchStream for OutStream {
    fn next_batch(&mut self, exec: &ExecContext<'_>, _: &mut DocBatch) -> Result<bool> {
        let writer = match &mut self.writer {
            Some(writer) => writer,
            none => none.insert(exec.host.begin_out(exec, &self.stage.target)?),
        };
        let mut batch = DocBatch::new();
        while !self.read_all {
            exec.env.check_interrupt()?;
            batch.clear();
            let more = self.input.next_batch(exec, &mut batch)?;
            writer.write(&batch)?;
            self.read_all = !more;
        }
        writer.commit()?;
        Ok(false)
    }
}
