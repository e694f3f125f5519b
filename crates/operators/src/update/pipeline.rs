//! Pipelines as updates: `$addFields $set $project $unset $replaceRoot $replaceWith`. Errors: 72
//! for other stages, 40228 when a replacement is not a document, 40230/40231 for malformed
//! `$replaceRoot`.

use super::modifier::{UpdateCx, UpdateResult};
use crate::Cx;
use crate::expr::{self, BoxExpr, ParseCx};
use crate::project::Projection;
use model::{Array, Doc, Result, Value, bail, code};

pub(super) struct Pipeline(Vec<Stage>);

enum Stage {
    Project(Projection),
    Replace(BoxExpr),
}

impl Pipeline {
    pub(super) fn parse(cx: &mut ParseCx<'_>, stages: Array<'_>) -> Result<Pipeline> {
        let mut parsed = Vec::new();
        for stage in stages.iter() {
            let Value::Document(d) = stage else {
                bail!(
                    code::TYPE_MISMATCH,
                    "Each element of the 'pipeline' array must be an object"
                )
            };
            let (Some((name, spec)), 1) = (d.first(), d.count()) else {
                bail!(
                    40323,
                    "A pipeline stage specification object must contain exactly one field"
                )
            };
            parsed.push(match name {
                "$project" => Stage::Project(Projection::parse_project(cx, spec)?),
                "$addFields" | "$set" => {
                    Stage::Project(Projection::parse_add_fields(cx, name, spec)?)
                }
                "$unset" => Stage::Project(Projection::parse_unset(spec)?),
                "$replaceWith" => Stage::Replace(expr::parse(cx, spec)?),
                "$replaceRoot" => {
                    let Value::Document(d) = spec else {
                        bail!(
                            40229,
                            "expected an object as specification for $replaceRoot stage, \
                            got {}",
                            spec.type_name()
                        )
                    };
                    if let Some((name, _)) = d.iter().find(|(n, _)| *n != "newRoot") {
                        bail!(
                            40230,
                            "unrecognized option to $replaceRoot stage: {name}, only \
                            valid option is 'newRoot'"
                        );
                    }
                    if d.field("newRoot").is_missing() {
                        bail!(40231, "no newRoot specified for the $replaceRoot stage");
                    }
                    Stage::Replace(expr::parse(cx, d.field("newRoot"))?)
                }
                name if name.starts_with('$') => {
                    bail!(
                        code::INVALID_OPTIONS,
                        "{name} is not allowed to be used within an \
                        update"
                    )
                }
                name => bail!(40324, "Unrecognized pipeline stage name: '{name}'"),
            });
        }
        Ok(Pipeline(parsed))
    }

    pub(super) fn apply<'a>(
        &'a self,
        doc: Doc<'a>,
        cx: &UpdateCx<'_, 'a>,
    ) -> Result<UpdateResult<'a>> {
        let mut out = doc;
        for stage in &self.0 {
            let at = Cx::new(cx.arena, Value::Document(out), cx.env);
            out = match stage {
                Stage::Project(p) => p.apply(&at, out)?,
                Stage::Replace(e) => match e.eval(&at)? {
                    Value::Document(d) => d,
                    v => bail!(
                        40228,
                        "'newRoot' expression must evaluate to an object, but resulting value was \
                            of type: '{}'",
                        v.type_name()
                    ),
                },
            };
        }
        // When a pipeline drops `_id`, the old one is kept.
        if out.field("_id").is_missing()
            && let Some(id) = doc.get_element("_id")
        {
            let rest = out;
            out = Doc::build_in(cx.arena, |w| {
                w.put_element(&id);
                w.put_all(rest);
            });
        }
        Ok(UpdateResult::Changed(out))
    }
}
