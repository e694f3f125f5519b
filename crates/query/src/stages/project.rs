//! `$project`, `$addFields` / `$set`, `$unset`: the projections of `operators`, as stages. Errors
//! are the projections'.

use super::each::{DocumentStage, DocumentStream, Emitter};
use crate::exec::{BatchStream, ExecContext};
use crate::stage::{
    ApiClass, Kind, Placement, Stage, StageContext, StageNeeds, StageOp, Transform, one,
};
use model::{Doc, DocBuf, Result, Value};
use operators::project::Projection;
use operators::{Cx, RequiredFields};
use std::sync::Arc;

pub(super) static STAGES: &[StageOp] = &[
    StageOp {
        name: "$project",
        api: ApiClass::Inside,
        needs: StageNeeds::Nothing,
        placement: Placement::EACH,
        parse: |scx, name, arg| {
            one(Project::new(
                ProjectionKind::Project,
                Projection::parse_project(scx.cx, arg)?,
                name,
                arg,
            ))
        },
    },
    StageOp {
        name: "$addFields",
        api: ApiClass::Inside,
        needs: StageNeeds::Nothing,
        placement: Placement::EACH,
        parse: parse_add_fields,
    },
    StageOp {
        name: "$set",
        api: ApiClass::Inside,
        needs: StageNeeds::Nothing,
        placement: Placement::EACH,
        parse: parse_add_fields,
    },
    StageOp {
        name: "$unset",
        api: ApiClass::Inside,
        needs: StageNeeds::Nothing,
        placement: Placement::EACH,
        parse: |_, name, arg| {
            one(Project::new(
                ProjectionKind::Unset,
                Projection::parse_unset(arg)?,
                name,
                arg,
            ))
        },
    },
];

fn parse_add_fields(
    scx: &mut StageContext<'_, '_>,
    name: &'static str,
    arg: Value<'_>,
) -> Result<Vec<Arc<dyn Stage>>> {
    let projection = Projection::parse_add_fields(scx.cx, name, arg)?;
    one(Project::new(
        ProjectionKind::AddFields,
        projection,
        name,
        arg,
    ))
}

/// How a projection was written.
#[derive(Clone, Copy)]
enum ProjectionKind {
    Project,
    AddFields,
    Unset,
}

/// A projection as a stage.
pub(crate) struct Project {
    projection: Projection,
    form: ProjectionKind,
    /// The stage as the client wrote it.
    spec: DocBuf,
}

impl Project {
    fn new(form: ProjectionKind, projection: Projection, name: &str, arg: Value<'_>) -> Project {
        Project {
            projection,
            form,
            spec: model::doc! { name: arg },
        }
    }
}

impl DocumentStage for Project {
    fn process_document<'a>(
        &'a self,
        cx: &Cx<'_, 'a>,
        doc: Doc<'a>,
        out: &mut Emitter<'_>,
    ) -> Result<()> {
        out.push(self.projection.apply(cx, doc)?);
        Ok(())
    }
}

impl Stage for Project {
    fn open(
        self: Arc<Self>,
        input: Box<dyn BatchStream>,
        _: &ExecContext<'_>,
    ) -> Result<Box<dyn BatchStream>> {
        Ok(DocumentStream::open(self, input))
    }
    fn describe(&self) -> DocBuf {
        self.spec.clone()
    }
    fn kind(&self) -> Kind<'_> {
        let arg = self
            .spec
            .doc()
            .first()
            .map_or(Value::Missing, |(_, arg)| arg);
        match (self.form, arg) {
            (ProjectionKind::Project, Value::Document(spec)) => {
                Kind::Transform(Transform::Project(spec))
            }
            (ProjectionKind::AddFields, Value::Document(spec)) => {
                Kind::Transform(Transform::AddFields(spec))
            }
            (ProjectionKind::Unset, spec) => Kind::Transform(Transform::Unset(spec)),
            _ => Kind::Other,
        }
    }
    fn reads(&self, reads: &mut RequiredFields) {
        self.projection.reads(reads);
    }
}
