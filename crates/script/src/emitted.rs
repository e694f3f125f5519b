//! Collects what a map function emits for one document. Errors: 31220 not two arguments, 31292 over
//! the limit, 9712400 in a function that is no map.

use crate::failure::Outcome;
use crate::to_bson::ToBson;
use model::{ArrayWriter, DocBuf, MongoError, Value};
use rquickjs::{Object, Value as Js};
use std::cell::RefCell;

#[derive(Default)]
struct EmitBuffer {
    docs: Vec<DocBuf>,
    bytes: usize,
    bytes_max: Option<usize>,
}

thread_local! {
    static EMITTED: RefCell<EmitBuffer> = RefCell::default();
}

/// Starts a call; without a limit `emit` is not allowed.
pub(crate) fn begin(bytes_max: Option<usize>) {
    EMITTED.set(EmitBuffer {
        bytes_max,
        ..EmitBuffer::default()
    });
}

/// The array of the emitted pairs.
pub(crate) fn end() -> DocBuf {
    let docs = EMITTED.take().docs;
    let mut bytes = Vec::with_capacity(docs.iter().map(|d| d.as_bytes().len() + 12).sum());
    {
        let mut w = ArrayWriter::new(&mut bytes);
        for d in &docs {
            w.push(d);
        }
    }
    DocBuf::from_bytes(bytes).unwrap_or_default()
}

/// Adds a key and a value.
pub(crate) fn emit<'js>(
    tools: &Object<'js>,
    count: usize,
    key: &Js<'js>,
    value: &Js<'js>,
) -> Outcome<()> {
    if count != 2 {
        return Err(MongoError::new(31220, "emit takes 2 args").into());
    }
    let mut converted: Outcome<()> = Ok(());
    let doc = DocBuf::build(|w| {
        let mut to_bson = ToBson::new(tools);
        converted = if key.is_undefined() {
            w.put("k", Value::Null);
            Ok(())
        } else {
            to_bson.field(w, "k", key)
        }
        .and_then(|()| to_bson.field(w, "v", value));
    });
    converted?;
    EMITTED.with_borrow_mut(|e| {
        let Some(bytes_max) = e.bytes_max else {
            return Err(MongoError::new(9712400, "Misplaced call to 'emit'").into());
        };
        e.bytes += doc.as_bytes().len();
        if e.bytes > bytes_max {
            return Err(MongoError::new(
                31292,
                format!("Size of emitted values exceeds the set size limit of {bytes_max} bytes"),
            )
            .into());
        }
        e.docs.push(doc);
        Ok(())
    })
}
