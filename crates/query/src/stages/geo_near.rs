//! `$geoNear: {near, distanceField, key, spherical, minDistance, maxDistance, distanceMultiplier,
//! includeLocs, query}`: documents in order of distance. Distances from a GeoJSON point are in
//! metres on the sphere, those from a legacy pair in radians (`spherical`) or on the plane. Errors:
//! 10065 no object, 5860400 no near, 5860401 near neither object nor array, 5860402 near read from
//! documents, 16606 / 16607 distanceField / includeLocs no string, 5984700 paths past 199 parts,
//! 5729100 a key past 180, 7555701 / 7555702 distances that are no constants, 14 query no object or
//! a distance no number, 5626500 a `$near` inside the query, 2 unknown options and bad points,
//! 16433 a point outside the plane, 26 no collection, 27 no (or no single) geospatial index, 291 an
//! index of the wrong kind.

use super::geo_point::{EARTH_RADIUS_M, Point, QueryPoint};
use crate::exec::{
    BatchStream, DocBatch, ExecContext, GeoIndex, MatchFilter, OpenRead, ReadRequest,
    ResolvedNamespace,
};
use crate::path::{checked_path, write_with};
use crate::stage::{
    ApiClass, PipelineSource, Placement, Stage, StageContext, StageNeeds, StageOp, one,
};
use model::{
    Bump, Doc, DocBuf, DocWriter, FieldPath, Namespace, Number, Result, Value, bail, code,
};
use operators::expr::{self, BoxExpr, Expr, ParseCx};
use std::sync::Arc;

pub(super) static STAGES: &[StageOp] = &[StageOp {
    name: "$geoNear",
    api: ApiClass::Inside,
    needs: StageNeeds::Nothing,
    placement: Placement {
        first: true,
        in_facet: false,
        ..Placement::ANYWHERE
    },
    parse: |scx, name, arg| one(parse(scx, name, arg)?),
}];

/// Most parts of a path that the stage writes to.
const MAX_PARTS: usize = 199;
/// Largest relative difference between two ways to compute a distance.
const ROUNDING: f64 = 1e-9;
/// Most components of a key: documents nest deeper than index keys may.
const MAX_KEY_PARTS: usize = 180;

fn parse(scx: &mut StageContext<'_, '_>, name: &str, arg: Value<'_>) -> Result<GeoNear> {
    let spec = match arg {
        Value::Document(d) => d,
        Value::Array(a) => a.as_doc(),
        _ => bail!(
            10065,
            "{name} argument must be an object, not {}",
            arg.type_name()
        ),
    };
    let PipelineSource::Collection(ns) = scx.options.target.clone() else {
        bail!(
            code::INVALID_NAMESPACE,
            "{name} is only valid on a collection"
        );
    };
    let Some(near) = spec.get("near") else {
        bail!(5860400, "{name} requires a 'near' argument")
    };
    let near = expr::parse(scx.cx, near)?;
    if reads_document(near.as_ref()) {
        bail!(5860402, "'near' of {name} must be a constant");
    }
    let mut stage = GeoNear {
        ns,
        near: NearPoint::At(Origin {
            spot: QueryPoint::Flat(Point { x: 0.0, y: 0.0 }),
            legacy: false,
        }),
        distance_field: None,
        include_locs: None,
        key: None,
        min: None,
        max: None,
        multiplier: 1.0,
        query: None,
        shown: model::doc! { name: arg },
    };
    let mut spherical = false;
    for (field, v) in spec.iter() {
        match field {
            "near" => {}
            "distanceField" => stage.distance_field = Some(parse_path(16606, field, v)?),
            "includeLocs" => stage.include_locs = Some(parse_path(16607, field, v)?),
            "key" => stage.key = Some(key(name, v)?),
            "minDistance" => stage.min = Some(distance(scx, 7555701, field, v)?),
            "maxDistance" => stage.max = Some(distance(scx, 7555702, field, v)?),
            "distanceMultiplier" => stage.multiplier = non_negative(field, &v)?,
            "spherical" => spherical = v.truthy(),
            "query" => stage.query = Some(query(scx, name, v)?),
            "limit" | "num" | "start" => bail!(
                50858,
                "{name} no longer supports the '{field}' parameter. Use a $limit stage"
            ),
            _ => bail!(code::BAD_VALUE, "Unknown argument to {name}: {field}"),
        }
    }
    stage.near = match near.constant() {
        Some(v) => NearPoint::At(Origin::of(name, v, spherical)?),
        None => NearPoint::Variable(near, spherical),
    };
    Ok(stage)
}

fn key(name: &str, v: Value<'_>) -> Result<FieldPath> {
    let Value::String(s) = v else {
        bail!(
            code::TYPE_MISMATCH,
            "{name} parameter 'key' must be of type string but found type: {}",
            v.type_name()
        )
    };
    if s.is_empty() {
        bail!(
            code::BAD_VALUE,
            "{name} parameter 'key' cannot be the empty string"
        );
    }
    let path = checked_path(s)?;
    if path.parts().len() > MAX_KEY_PARTS {
        bail!(
            5729100,
            "{name} parameter 'key' has {} parts, at most {MAX_KEY_PARTS} are allowed",
            path.parts().len()
        );
    }
    Ok(path)
}

fn query(scx: &mut StageContext<'_, '_>, name: &str, v: Value<'_>) -> Result<Arc<MatchFilter>> {
    let Value::Document(q) = v else {
        bail!(
            code::TYPE_MISMATCH,
            "query must be an object, not {}",
            v.type_name()
        )
    };
    if super::matching::uses(q, &["$near", "$nearSphere", "$geoNear"]) {
        bail!(
            5626500,
            "use of $near, $nearSphere or $geoNear inside the query of {name} is not allowed"
        );
    }
    if super::matching::uses(q, &["$text"]) {
        bail!(
            code::BAD_VALUE,
            "$text is not allowed inside the query of {name}"
        );
    }
    Ok(Arc::new(MatchFilter::parse(scx.cx, q)?))
}

/// Whether the expression reads a field of the document.
fn reads_document(e: &dyn Expr) -> bool {
    let mut found = e.field_path().is_some();
    e.visit(&mut |operand| found |= reads_document(operand));
    found
}

fn parse_path(number: i32, field: &str, v: Value<'_>) -> Result<FieldPath> {
    let Value::String(s) = v else {
        bail!(
            number,
            "$geoNear requires that the '{field}' option is a string, not {}",
            v.type_name()
        )
    };
    let path = checked_path(s)?;
    if path.parts().len() > MAX_PARTS {
        bail!(
            5984700,
            "'{field}' of $geoNear has {} parts, at most {MAX_PARTS} are allowed",
            path.parts().len()
        );
    }
    Ok(path)
}

fn distance(scx: &mut StageContext<'_, '_>, number: i32, field: &str, v: Value<'_>) -> Result<f64> {
    let v = expr::parse_constant(scx.cx, v, number, &format!("'{field}' of $geoNear"))?;
    non_negative(field, &v.get())
}

/// # Errors
/// 14 no number, 2 a negative one or NaN.
fn non_negative(field: &str, v: &Value<'_>) -> Result<f64> {
    match Number::of(v).map(Number::to_f64) {
        Some(n) if n >= 0.0 => Ok(n),
        Some(n) => bail!(
            code::BAD_VALUE,
            "'{field}' of $geoNear must be non-negative, not {n}"
        ),
        None => bail!(
            code::TYPE_MISMATCH,
            "'{field}' of $geoNear must be a number, not of type {}",
            v.type_name()
        ),
    }
}

/// The point from which distances are measured.
#[derive(Clone, Copy)]
struct Origin {
    spot: QueryPoint,
    /// Given as a pair of numbers.
    legacy: bool,
}

impl Origin {
    fn of(name: &str, v: Value<'_>, spherical: bool) -> Result<Origin> {
        if !matches!(v, Value::Document(_) | Value::Array(_)) {
            bail!(
                5860401,
                "'near' of {name} must be an object or an array, not of type {}",
                v.type_name()
            );
        }
        let (spot, legacy) = QueryPoint::of_query(v, spherical)?;
        Ok(Origin { spot, legacy })
    }

    /// A distance in the unit of the result. MongoDB converts radians to metres and back, which
    /// changes the last digit.
    fn distance(&self, measured: f64) -> f64 {
        match (&self.spot, self.legacy) {
            (QueryPoint::Flat(_), _) => measured,
            (QueryPoint::Sphere(_), false) => measured * EARTH_RADIUS_M,
            (QueryPoint::Sphere(_), true) => measured * EARTH_RADIUS_M / EARTH_RADIUS_M,
        }
    }
}

enum NearPoint {
    At(Origin),
    /// A variable of `$lookup`, known when the stage is opened. The flag is `spherical`.
    Variable(BoxExpr, bool),
}

struct GeoNear {
    ns: Namespace,
    near: NearPoint,
    distance_field: Option<FieldPath>,
    include_locs: Option<FieldPath>,
    key: Option<FieldPath>,
    min: Option<f64>,
    max: Option<f64>,
    multiplier: f64,
    query: Option<Arc<MatchFilter>>,
    shown: DocBuf,
}

impl GeoNear {
    /// The indexed field with the locations.
    fn field(&self, exec: &ExecContext<'_>, ns: &Namespace, origin: Origin) -> Result<FieldPath> {
        if matches!(exec.host.resolve(ns)?, ResolvedNamespace::Missing) {
            bail!(
                code::NAMESPACE_NOT_FOUND,
                "$geoNear requires a geo index to run, but {ns} does not exist"
            );
        }
        let indexes = exec.host.geo_indexes(ns)?;
        let of_kind = |kind: GeoIndex| {
            indexes
                .iter()
                .filter(|(_, k)| *k == kind)
                .map(|(f, _)| f)
                .collect::<Vec<_>>()
        };
        let field = match &self.key {
            Some(key) => key.clone(),
            None => match (
                of_kind(GeoIndex::Flat).as_slice(),
                of_kind(GeoIndex::Sphere).as_slice(),
            ) {
                ([one], _) | ([], [one]) => FieldPath::new(one),
                ([], []) => bail!(
                    code::INDEX_NOT_FOUND,
                    "$geoNear requires a 2d or 2dsphere index, but none were found"
                ),
                _ => bail!(
                    code::INDEX_NOT_FOUND,
                    "There is more than one geospatial index on {ns}; unsure which to use for \
                        $geoNear, give 'key'"
                ),
            },
        };
        let fits = indexes.iter().any(|(f, kind)| {
            f == field.as_str()
                && match kind {
                    GeoIndex::Flat => origin.legacy,
                    GeoIndex::Sphere => matches!(origin.spot, QueryPoint::Sphere(_)),
                }
        });
        if !fits {
            bail!(
                291,
                "error processing query: no index on '{}' can answer $geoNear from this kind of \
                    point",
                field.as_str()
            );
        }
        Ok(field)
    }

    fn origin(&self, exec: &ExecContext<'_>) -> Result<Origin> {
        match &self.near {
            NearPoint::At(origin) => Ok(*origin),
            NearPoint::Variable(e, spherical) => {
                let arena = Bump::new();
                let v = e.eval(&exec.cx(&arena, Doc::EMPTY))?;
                Origin::of("$geoNear", v, *spherical)
            }
        }
    }
}

impl Stage for GeoNear {
    fn open(
        self: Arc<Self>,
        _: Box<dyn BatchStream>,
        exec: &ExecContext<'_>,
    ) -> Result<Box<dyn BatchStream>> {
        let ns = super::listed::resolve_view(exec.host, self.ns.clone(), "$geoNear")?;
        let origin = self.origin(exec)?;
        let field = self.field(exec, &ns, origin)?;
        let near = self.near_filter(exec, origin, &field)?;
        let read = ReadRequest {
            filter: self.query.as_ref(),
            near: near.as_ref(),
            ..ReadRequest::all(&ns)
        };
        Ok(Box::new(GeoStream {
            read: exec.host.open(exec, &read)?,
            stage: self,
            field,
            origin,
            more: true,
            docs: DocBatch::new(),
            order: Vec::new(),
            next: 0,
        }))
    }
    fn describe(&self) -> DocBuf {
        self.shown.clone()
    }
    fn makes_documents(&self) -> bool {
        true
    }
    fn provides_meta(&self) -> &'static [&'static str] {
        &["geoNearDistance", "geoNearPoint"]
    }
}

impl GeoNear {
    /// The stage as a `$near` filter, for a host that can read in this order. Its limits are a
    /// little wider than those of the stage, which measures again.
    fn near_filter(
        &self,
        exec: &ExecContext<'_>,
        origin: Origin,
        field: &FieldPath,
    ) -> Result<Option<Arc<MatchFilter>>> {
        let min = self.min.unwrap_or(0.0) * (1.0 - ROUNDING);
        if !min.is_finite() {
            return Ok(None);
        }
        let (name, p) = match origin.spot {
            QueryPoint::Flat(p) => ("$near", p),
            QueryPoint::Sphere(p) => ("$nearSphere", p),
        };
        let limits = |w: &mut DocWriter<'_>| {
            w.put("$minDistance", min);
            if let Some(max) = self.max.filter(|m| (m * (1.0 + ROUNDING)).is_finite()) {
                w.put("$maxDistance", max * (1.0 + ROUNDING));
            }
        };
        let spec = DocBuf::build(|w| {
            let mut test = w.doc(field.as_str());
            if origin.legacy {
                test.array(name).push(p.x).push(p.y);
                limits(&mut test);
            } else {
                let mut near = test.doc(name);
                let point = model::doc! { "type": "Point", "coordinates": [p.x, p.y] };
                near.put("$geometry", &point);
                limits(&mut near);
            }
        });
        let filter = MatchFilter::parse(&mut ParseCx::new(exec.env), spec.doc())?;
        Ok(Some(Arc::new(filter)))
    }

    fn meta(&self, distance: f64, place: Value<'_>) -> DocBuf {
        model::doc! { "geoNearDistance": distance * self.multiplier, "geoNearPoint": place }
    }
}

/// Measures documents and gives them in order of distance. If the input is in any order, all of it
/// is read first; if it is in order of distance, one batch at a time.
struct GeoStream {
    stage: Arc<GeoNear>,
    read: OpenRead,
    field: FieldPath,
    origin: Origin,
    more: bool,
    /// Documents measured and not given yet, and their distances and numbers in order.
    docs: DocBatch,
    order: Vec<(f64, usize)>,
    next: usize,
}

impl GeoStream {
    fn read(&mut self, exec: &ExecContext<'_>) -> Result<()> {
        (self.docs, self.next) = (DocBatch::new(), 0);
        self.order.clear();
        let mut batch = DocBatch::new();
        loop {
            exec.env.check_interrupt()?;
            batch.clear();
            self.more = self.read.docs.next_batch(exec, &mut batch)?;
            let mut arena = Bump::new();
            for doc in batch.iter() {
                self.measure(exec, doc, &arena)?;
                arena.reset();
            }
            if !self.more || self.read.near {
                break;
            }
        }
        self.order.sort_by(|a, b| a.0.total_cmp(&b.0));
        Ok(())
    }

    fn measure(&mut self, exec: &ExecContext<'_>, doc: Doc<'_>, arena: &Bump) -> Result<()> {
        let stage = &self.stage;
        if let Some(q) = stage.query.as_ref().filter(|_| !self.read.filtered)
            && !exec.matches(q, doc, arena)?
        {
            return Ok(());
        }
        let walked = expr::walk(Value::Document(doc), self.field.parts(), arena);
        let Some((angle, place)) = self.origin.spot.nearest(walked, doc, &self.field) else {
            return Ok(());
        };
        let distance = self.origin.distance(angle);
        let (min, max) = (stage.min, stage.max);
        if min.is_none_or(|m| distance >= m) && max.is_none_or(|m| distance <= m) {
            self.order.push((distance, self.docs.len()));
            let meta = stage.meta(distance, place);
            self.docs.push_with_meta(doc, Some(meta.doc()));
        }
        Ok(())
    }

    fn push(&self, i: usize, out: &mut DocBatch) {
        let meta = self.docs.meta(i);
        let value = |name: &str| meta.map_or(Value::Missing, |m| m.field(name));
        let mut doc = self.docs.doc(i).to_buf();
        for (path, v) in [
            (&self.stage.distance_field, value("geoNearDistance")),
            (&self.stage.include_locs, value("geoNearPoint")),
        ] {
            if let Some(path) = path {
                doc = DocBuf::build(|w| write_with(w, doc.doc(), path.parts(), v));
            }
        }
        out.push_with_meta(doc.doc(), meta);
    }
}

impl BatchStream for GeoStream {
    fn next_batch(&mut self, exec: &ExecContext<'_>, out: &mut DocBatch) -> Result<bool> {
        loop {
            while let Some((_, i)) = self.order.get(self.next).filter(|_| !out.is_full()) {
                self.push(*i, out);
                self.next += 1;
            }
            if !out.is_empty() || !self.more {
                return Ok(self.more || self.next < self.order.len());
            }
            self.read(exec)?;
        }
    }
}
