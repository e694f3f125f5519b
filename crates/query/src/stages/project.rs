//! `$project`, `$addFields` / `$set`, `$unset`: the projections of `operators`, as stages. Errors are the projections'.

use super::each::{Each, EachDocs, Emit};
use super::{Stage, StageOp, one};
use crate::pipeline::{Docs, Place, Rt};
use model::{Doc, DocBuf, Result, Value};
use operators::Cx;
use operators::project::Projection;
use std::sync::Arc;

pub(super) static STAGES: &[StageOp] = &[
    StageOp {
        name: "$project",
        place: Place::ANYWHERE,
        parse: |scx, name, arg| one(Project::new(Projection::parse_project(scx.cx, arg)?, name, arg)),
    },
    StageOp {
        name: "$addFields",
        place: Place::ANYWHERE,
        parse: |scx, name, arg| one(Project::new(Projection::parse_add_fields(scx.cx, name, arg)?, name, arg)),
    },
    StageOp {
        name: "$set",
        place: Place::ANYWHERE,
        parse: |scx, name, arg| one(Project::new(Projection::parse_add_fields(scx.cx, name, arg)?, name, arg)),
    },
    StageOp {
        name: "$unset",
        place: Place::ANYWHERE,
        parse: |_, name, arg| one(Project::new(Projection::parse_unset(arg)?, name, arg)),
    },
];

/// A projection as a stage.
pub(crate) struct Project {
    projection: Projection,
    spec: DocBuf,
}

impl Project {
    fn new(projection: Projection, name: &str, arg: Value<'_>) -> Project {
        Project { projection, spec: model::doc! { name: arg } }
    }
}

impl Each for Project {
    fn each<'a>(&'a self, cx: &Cx<'_, 'a>, doc: Doc<'a>, out: &mut Emit<'_>) -> Result<()> {
        out.push(self.projection.apply(cx, doc)?);
        Ok(())
    }
}

impl Stage for Project {
    fn open(self: Arc<Self>, input: Box<dyn Docs>, _: &Rt<'_>) -> Result<Box<dyn Docs>> {
        Ok(EachDocs::open(self, input))
    }
    fn describe(&self) -> DocBuf {
        self.spec.clone()
    }
}
