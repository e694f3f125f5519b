//! `$changeStreamSplitLargeEvent`: splits an event that is too large for a reply into fragments of
//! whole fields, each with a token of its own for resuming. Errors: 7182800 without a change
//! stream, 50808 an argument, 10334 a single field that is too large.

use crate::exec::{BatchStream, CHANGE_TOKEN, ChangeProgress, DocBatch, ExecContext, ResumeToken};
use crate::stage::{Stage, StageContext, one};
use model::{Doc, DocBuf, Element, Result, Value, bail, code};
use std::sync::Arc;

/// Most bytes of fields in a fragment; the rest is for its token and number.
const FRAGMENT_BYTES_MAX: usize = model::bson::MAX_DOCUMENT_BYTES - 1024;

pub(super) fn parse(
    cx: &mut StageContext<'_, '_>,
    name: &'static str,
    arg: Value<'_>,
) -> Result<Vec<Arc<dyn Stage>>> {
    if !matches!(arg, Value::Document(d) if d.is_empty()) {
        bail!(
            7_182_801,
            "{name} stage expects an empty document, found: {}",
            arg.type_name()
        );
    }
    let Some(stream) = cx.before.first().and_then(|s| s.changes()) else {
        bail!(
            7_182_800,
            "{name} can only be used in a $changeStream pipeline"
        );
    };
    one(Split(Arc::clone(stream)))
}

struct Split(Arc<ChangeProgress>);

impl Stage for Split {
    fn open(
        self: Arc<Self>,
        input: Box<dyn BatchStream>,
        _: &ExecContext<'_>,
    ) -> Result<Box<dyn BatchStream>> {
        let behind = self.0.resume_token().filter(|t| t.fragment > 0);
        Ok(Box::new(SplitStream {
            input,
            inbox: DocBatch::new(),
            behind,
        }))
    }

    fn describe(&self) -> DocBuf {
        model::doc! { "$changeStreamSplitLargeEvent": {} }
    }
}

struct SplitStream {
    input: Box<dyn BatchStream>,
    inbox: DocBatch,
    /// Fragments up to this one were shown before.
    behind: Option<ResumeToken>,
}

impl BatchStream for SplitStream {
    fn next_batch(&mut self, exec: &ExecContext<'_>, out: &mut DocBatch) -> Result<bool> {
        self.inbox.clear();
        self.inbox.set_max_docs(out.max_docs());
        let more = self.input.next_batch(exec, &mut self.inbox)?;
        for (doc, meta) in self.inbox.iter_meta() {
            let behind = self.behind;
            let resumes = behind.is_some_and(|b| {
                token(meta).is_some_and(|t| t.without_fragment() == b.without_fragment())
            });
            if doc.len_bytes() <= FRAGMENT_BYTES_MAX && !resumes {
                out.push_with_meta(doc, meta);
                continue;
            }
            for (n, fragment) in fragments(doc, meta)?.into_iter().enumerate() {
                let number = u32::try_from(n).unwrap_or(u32::MAX);
                if resumes && behind.is_some_and(|b| number < b.fragment) {
                    continue;
                }
                out.push_with_meta(fragment.0.doc(), Some(fragment.1.doc()));
            }
        }
        Ok(more)
    }
}

fn token(meta: Option<Doc<'_>>) -> Option<ResumeToken> {
    ResumeToken::from_data(meta?.field(CHANGE_TOKEN).as_str()?).ok()
}

/// The fragments of an event, each with its metadata. Their numbers begin at one, so no fragment
/// has the token of the whole event.
fn fragments(doc: Doc<'_>, meta: Option<Doc<'_>>) -> Result<Vec<(DocBuf, DocBuf)>> {
    let mut parts: Vec<Vec<Element<'_>>> = vec![Vec::new()];
    let mut bytes = 0;
    for e in doc.elements().filter(|e| e.name != b"_id") {
        let len = e.name.len() + e.payload.len() + 2;
        if len > FRAGMENT_BYTES_MAX {
            bail!(
                code::BSON_OBJECT_TOO_LARGE,
                "Splitting change event failed: field '{}' takes {len} bytes, more than a fragment \
                    can hold",
                e.name_str()
            );
        }
        bytes += len;
        if bytes > FRAGMENT_BYTES_MAX {
            bytes = len;
            parts.push(Vec::new());
        }
        if let Some(last) = parts.last_mut() {
            last.push(e);
        }
    }
    let base = token(meta).unwrap_or(ResumeToken::before_time(model::Timestamp::from_u64(0)));
    let of = i32::try_from(parts.len()).unwrap_or(i32::MAX);
    let fragment = |(n, part): (usize, &Vec<Element<'_>>)| {
        let number = u32::try_from(n).unwrap_or(u32::MAX).saturating_add(1);
        let data = ResumeToken {
            fragment: number,
            ..base
        }
        .to_data();
        let doc = DocBuf::build(|w| {
            w.doc("_id").put("_data", &data);
            w.doc("splitEvent")
                .put("fragment", i32::try_from(number).unwrap_or(i32::MAX))
                .put("of", of);
            part.iter().for_each(|e| _ = w.put_element(e));
        });
        (doc, model::doc! { CHANGE_TOKEN: data.as_str() })
    };
    Ok(parts.iter().enumerate().map(fragment).collect())
}
