//! `Docs`: a stream of document batches, pulled; and `Rt`, what the puller supplies at each pull.

use super::{Batch, Host};
use model::{Bump, Doc, Result, Value};
use operators::{Cx, Env, Frame};

/// What a running pipeline may use. Supplied anew at each pull, so that a cursor owns no borrowed
/// state between commands.
#[derive(Clone, Copy)]
pub struct Rt<'r> {
    /// The operation.
    pub env: &'r Env,
    /// The server.
    pub host: &'r dyn Host,
    /// Variables bound around the pipeline (`let` of `$lookup`).
    pub vars: Option<&'r Frame<'r, 'r>>,
    /// Blocking stages may use temporary files.
    pub allow_disk_use: bool,
}

impl<'r> Rt<'r> {
    /// Without outer variables, temporary files allowed.
    pub fn new(env: &'r Env, host: &'r dyn Host) -> Rt<'r> {
        Rt {
            env,
            host,
            vars: None,
            allow_disk_use: true,
        }
    }

    /// The context to evaluate expressions on a document in.
    pub fn cx<'a>(&self, arena: &'a Bump, doc: Doc<'a>) -> Cx<'r, 'a>
    where
        'r: 'a,
    {
        Cx {
            vars: self.vars,
            ..Cx::new(arena, Value::Document(doc), self.env)
        }
    }
}

/// A pull operator.
pub trait Docs: Send {
    /// Appends documents to `out`, which comes cleared. `false` when there are no more after these;
    /// a `true` batch may be empty.
    ///
    /// # Errors
    /// Any error ends the stream.
    fn next_batch(&mut self, rt: &Rt<'_>, out: &mut Batch) -> Result<bool>;
}

/// No documents.
pub struct NoDocs;

impl Docs for NoDocs {
    fn next_batch(&mut self, _: &Rt<'_>, _: &mut Batch) -> Result<bool> {
        Ok(false)
    }
}

/// Documents that are already there.
pub struct Ready(pub Batch);

impl Docs for Ready {
    fn next_batch(&mut self, _: &Rt<'_>, out: &mut Batch) -> Result<bool> {
        std::mem::swap(out, &mut self.0);
        self.0.clear();
        Ok(false)
    }
}

/// Calls `each` on every document of `docs`.
///
/// # Errors
/// Those of `docs` and of `each`.
pub fn drain(
    docs: &mut dyn Docs,
    rt: &Rt<'_>,
    mut each: impl FnMut(Doc<'_>, Option<Doc<'_>>) -> Result<()>,
) -> Result<()> {
    let mut batch = Batch::new();
    loop {
        rt.env.check_interrupt()?;
        batch.clear();
        let more = docs.next_batch(rt, &mut batch)?;
        for (doc, meta) in batch.iter_meta() {
            each(doc, meta)?;
        }
        if !more {
            return Ok(());
        }
    }
}
