//! From `$project`, `$addFields` and `$unset` specifications to trees.

use super::projection::{Mode, Projection};
use super::tree::{Field, Tree};
use crate::expr::{self, ParseCx, check_path};
use model::{Doc, FieldPath, MongoError, Result, Value, bail, code};

/// Deepest nesting of a specification.
const MAX_DEPTH: usize = 180;

/// State of reading a `$project` or `find` specification.
#[derive(Default)]
pub(super) struct ProjectionParser {
    pub(super) tree: Tree,
    /// Set by the first field that implies a mode.
    pub(super) mode: Option<Mode>,
    /// What the specification says about `_id`.
    pub(super) id: Option<bool>,
    pub(super) has_elem_match: bool,
    /// A specification with only metadata is an inclusion, as in pipelines.
    pub(super) meta_includes: bool,
    has_meta: bool,
}

impl ProjectionParser {
    /// A number or boolean: includes or excludes the field.
    pub(super) fn flag(&mut self, path: &FieldPath, keep: bool) -> Result<()> {
        if path.as_str() == "_id" {
            self.id = Some(keep);
            return self.tree.insert(path.parts(), Field::Named);
        }
        match (self.mode, keep) {
            (Some(Mode::Exclusion), true) => {
                bail!(
                    31253,
                    "Cannot do inclusion on field {} in exclusion projection",
                    path.as_str()
                )
            }
            (Some(Mode::Inclusion), false) => {
                bail!(
                    31254,
                    "Cannot do exclusion on field {} in inclusion projection",
                    path.as_str()
                )
            }
            (_, true) => self.mode = Some(Mode::Inclusion),
            (_, false) => self.mode = Some(Mode::Exclusion),
        }
        self.tree.insert(path.parts(), Field::Named)
    }

    /// A field computed by an expression.
    pub(super) fn add_computed(
        &mut self,
        cx: &mut ParseCx<'_>,
        path: &FieldPath,
        v: Value<'_>,
    ) -> Result<()> {
        // Metadata is allowed in both modes and implies neither.
        if v.as_doc().is_some_and(|d| d.contains("$meta")) {
            self.has_meta = true;
            return self
                .tree
                .insert(path.parts(), Field::Computed(expr::parse(cx, v)?));
        }
        if self.mode == Some(Mode::Exclusion) {
            match v {
                Value::Document(_) => bail!(
                    31252,
                    "Cannot use expression other than $meta in exclusion projection"
                ),
                _ => bail!(
                    31310,
                    "Cannot use an expression {} in an exclusion projection",
                    v
                ),
            }
        }
        self.mode = Some(Mode::Inclusion);
        if path.as_str() == "_id" {
            self.id = Some(true);
        }
        self.tree
            .insert(path.parts(), Field::Computed(expr::parse(cx, v)?))
    }

    /// Reads one field of an aggregation's specification.
    fn field(
        &mut self,
        cx: &mut ParseCx<'_>,
        above: &str,
        name: &str,
        v: Value<'_>,
        depth: usize,
    ) -> Result<()> {
        if name
            .strip_suffix(".$")
            .is_some_and(|rest| !rest.contains('$'))
        {
            bail!(
                31324,
                "Cannot use positional projection in aggregation projection"
            );
        }
        let path = join_path(above, name)?;
        match v {
            v if v.is_number() || v.as_bool().is_some() => self.flag(&path, v.truthy()),
            Value::Document(d) => match sub_specification(d, &path)? {
                SubfieldKind::Nested => self.parse_nested(cx, &path, d, depth),
                SubfieldKind::Expression(op) => {
                    if expr::find(op).is_none() && op != "$elemMatch" && op != "$slice" {
                        bail!(
                            31325,
                            "Invalid $project :: caused by :: Unknown expression {op}"
                        );
                    }
                    self.add_computed(cx, &path, v)
                }
            },
            v => self.add_computed(cx, &path, v),
        }
    }

    fn parse_nested(
        &mut self,
        cx: &mut ParseCx<'_>,
        path: &FieldPath,
        d: Doc<'_>,
        depth: usize,
    ) -> Result<()> {
        if depth >= MAX_DEPTH {
            bail!(
                code::OVERFLOW,
                "a projection is nested deeper than {MAX_DEPTH} levels"
            );
        }
        for (name, v) in d.iter() {
            self.field(cx, path.as_str(), name, v, depth + 1)?;
        }
        Ok(())
    }

    /// The projection, once every field is read.
    pub(super) fn finish(mut self) -> Result<Projection> {
        let by_meta = self.has_meta && self.meta_includes;
        let by_default = if self.id == Some(true) || self.has_elem_match || by_meta {
            Mode::Inclusion
        } else {
            Mode::Exclusion
        };
        let mode = self.mode.unwrap_or(by_default);
        match (mode, self.id) {
            (Mode::Inclusion, None) if self.tree.get(b"_id").is_none() => {
                self.tree
                    .insert(FieldPath::new("_id").parts(), Field::Named)?;
            }
            (Mode::Inclusion, Some(false)) | (Mode::Exclusion, Some(true)) => {
                self.tree.remove("_id")
            }
            _ => {}
        }
        Ok(Projection {
            tree: self.tree,
            mode,
            after: Vec::new(),
        })
    }
}

/// The meaning of a document as the value of a projected field.
pub(super) enum SubfieldKind<'a> {
    /// Nested fields.
    Nested,
    /// An expression, with its operator.
    Expression(&'a str),
}

/// # Errors
/// 51270 when empty, 16410 when operators and fields are mixed.
pub(super) fn sub_specification<'a>(d: Doc<'a>, path: &FieldPath) -> Result<SubfieldKind<'a>> {
    let Some((first, _)) = d.first() else {
        bail!(
            51270,
            "An empty sub-projection is not a valid value. Found empty object at path {}",
            path.as_str()
        )
    };
    if !first.starts_with('$') {
        return Ok(SubfieldKind::Nested);
    }
    if d.count() > 1 {
        bail!(
            16410,
            "FieldPath field names may not start with '$'. Consider using $getField or $setField"
        );
    }
    Ok(SubfieldKind::Expression(first))
}

fn join_path(above: &str, name: &str) -> Result<FieldPath> {
    let own = check_path(name)?;
    if above.is_empty() {
        Ok(own)
    } else {
        check_path(&format!("{above}.{name}"))
    }
}

pub(super) fn project(cx: &mut ParseCx<'_>, spec: Value<'_>) -> Result<Projection> {
    let Value::Document(d) = spec else {
        bail!(15969, "$project specification must be an object")
    };
    if d.is_empty() {
        bail!(
            51272,
            "Invalid $project :: caused by :: projection specification must have at least one field"
        );
    }
    let mut reading = ProjectionParser {
        meta_includes: true,
        ..ProjectionParser::default()
    };
    for (name, v) in d.iter() {
        reading.field(cx, "", name, v, 0)?;
    }
    reading.finish()
}

pub(super) fn add_fields(cx: &mut ParseCx<'_>, stage: &str, spec: Value<'_>) -> Result<Projection> {
    let Value::Document(d) = spec else {
        bail!(
            40272,
            "{stage} specification stage must be an object, got {}",
            spec.type_name()
        )
    };
    let mut tree = Tree::default();
    for (name, v) in d.iter() {
        add_field(cx, stage, &mut tree, "", name, v, 0)?;
    }
    Ok(Projection {
        tree,
        mode: Mode::AddFields,
        after: Vec::new(),
    })
}

fn add_field(
    cx: &mut ParseCx<'_>,
    stage: &str,
    tree: &mut Tree,
    above: &str,
    name: &str,
    v: Value<'_>,
    depth: usize,
) -> Result<()> {
    if depth > 0 && name.contains('.') {
        bail!(
            40183,
            "FieldPath field names may not contain '.' in a nested object: {name}"
        );
    }
    if let Value::Document(d) = v
        && d.first().is_some_and(|(first, _)| first.starts_with('$'))
        && d.count() > 1
    {
        bail!(
            40181,
            "an expression must have a single field, the name of the expression: {d}"
        );
    }
    let path = join_path(above, name)?;
    if depth >= MAX_DEPTH {
        bail!(
            code::OVERFLOW,
            "{stage} is nested deeper than {MAX_DEPTH} levels"
        );
    }
    if let Value::Document(d) = v
        && d.first().is_some_and(|(first, _)| !first.starts_with('$'))
    {
        for (name, v) in d.iter() {
            if name.starts_with('$') {
                bail!(
                    16410,
                    "FieldPath field names may not start with '$'. Consider using $getField or \
                        $setField"
                );
            }
            add_field(cx, stage, tree, path.as_str(), name, v, depth + 1)?;
        }
        return Ok(());
    }
    let e = expr::parse(cx, v)?;
    tree.insert(path.parts(), Field::Computed(e)).map_err(|_| {
        MongoError::new(
            40176,
            format!(
                "Invalid {stage} :: caused by :: specification contains two conflicting paths \
                at '{}'",
                path.as_str()
            ),
        )
    })
}

pub(super) fn parse_unset(spec: Value<'_>) -> Result<Projection> {
    let names: Vec<&str> = match spec {
        Value::String(s) => vec![s],
        Value::Array(a) if a.is_empty() => {
            bail!(
                31119,
                "$unset specification must be a string or an array with at least one \
                field"
            )
        }
        Value::Array(a) => a
            .iter()
            .map(|v| {
                v.as_str().ok_or_else(|| {
                    MongoError::new(
                        31120,
                        format!(
                            "$unset specification must be a string or an \
                        array containing only string values, not {}",
                            v.type_name()
                        ),
                    )
                })
            })
            .collect::<Result<_>>()?,
        v => bail!(
            31002,
            "$unset specification must be a string or an array, not {}",
            v.type_name()
        ),
    };
    if names.iter().any(|name| name.contains('\0')) {
        bail!(
            9_527_900,
            "$unset field names may not contain an embedded null byte"
        );
    }
    let mut tree = Tree::default();
    for name in names {
        tree.insert(check_path(name)?.parts(), Field::Named)?;
    }
    Ok(Projection {
        tree,
        mode: Mode::Exclusion,
        after: Vec::new(),
    })
}
