//! `$count: "name"`: one document with the number of documents, none when there are none.
//! Errors: 40156 no string, 40157 empty, 40158 dollar first, 40159 null byte, 40160 dot, 9039800
//! `_id`.

use crate::exec::{BatchStream, DocBatch, ExecContext};
use crate::stage::{ApiClass, Kind, Placement, Stage, StageNeeds, StageOp, Transform, one};
use model::{DocBuf, Result, Value, bail, doc};
use operators::RequiredFields;
use std::sync::Arc;

pub(super) static STAGES: &[StageOp] = &[StageOp {
    name: "$count",
    api: ApiClass::Inside,
    needs: StageNeeds::Nothing,
    placement: Placement::ANYWHERE,
    parse: |_, _, arg| {
        let Value::String(name) = arg else {
            bail!(
                40156,
                "the count field must be a non-empty string, not {}",
                arg.type_name()
            );
        };
        match name {
            "" => bail!(40157, "the count field must be a non-empty string"),
            "_id" => bail!(9039800, "the count field cannot be '_id'"),
            n if n.starts_with('$') => {
                bail!(40158, "the count field cannot be a $-prefixed path: {n}")
            }
            n if n.contains('\0') => bail!(40159, "the count field cannot contain a null byte"),
            n if n.contains('.') => bail!(40160, "the count field cannot contain '.': {n}"),
            n => one(Count(n.to_owned())),
        }
    },
}];

struct Count(String);

impl Stage for Count {
    fn open(
        self: Arc<Self>,
        input: Box<dyn BatchStream>,
        _: &ExecContext<'_>,
    ) -> Result<Box<dyn BatchStream>> {
        Ok(Box::new(CountStream {
            stage: self,
            input,
            inbox: DocBatch::new(),
            n: 0,
        }))
    }
    fn describe(&self) -> DocBuf {
        doc! { "$count": self.0.as_str() }
    }
    fn kind(&self) -> Kind<'_> {
        Kind::Transform(Transform::Count)
    }
    fn reads(&self, _: &mut RequiredFields) {}
}

struct CountStream {
    stage: Arc<Count>,
    input: Box<dyn BatchStream>,
    inbox: DocBatch,
    n: i64,
}

impl BatchStream for CountStream {
    fn next_batch(&mut self, exec: &ExecContext<'_>, out: &mut DocBatch) -> Result<bool> {
        loop {
            exec.env.check_interrupt()?;
            self.inbox.clear();
            let more = self.input.next_batch(exec, &mut self.inbox)?;
            self.n += self.inbox.len() as i64;
            if !more {
                break;
            }
        }
        if self.n > 0 {
            out.build(None, |w| {
                w.put(
                    &self.stage.0,
                    i32::try_from(self.n).map_or(Value::Int64(self.n), Value::Int32),
                );
            });
        }
        Ok(false)
    }
}
