//! Bounds of a geospatial field, whose components are cells: the cells that a test of the filter
//! must read.

use super::bounds::{Bound, FieldBounds, ValueRange, conjuncts};
use operators::filter::{Covering, Node, Surface, Test};
use store::{FieldKind, Index, encode_cell};

/// The bounds on the geospatial field number `field`: those of the first test on it that gives
/// bounds. `shapes` if documents may store other shapes than points.
pub(super) fn bounds(index: &Index, field: usize, shapes: bool, root: &Node) -> FieldBounds {
    let mut found = None;
    let Some(on) = surface(index, field) else {
        return FieldBounds::all();
    };
    conjuncts(root, &mut |n| {
        if let Node::Field {
            path,
            test: Test::Geo(geo),
        } = n
            && found.is_none()
            && index.fields().get(field).is_some_and(|f| f.path == *path)
        {
            found = geo.cells(on);
        }
    });
    found.map_or_else(FieldBounds::all, |cells| of_cells(&cells, shapes))
}

/// The surface of a field's cells.
fn surface(index: &Index, field: usize) -> Option<Surface> {
    let path = index.fields().get(field)?.path.as_str();
    Surface::of(index.spec(), index.key_pattern().field(path).as_str()?)
}

pub(super) fn of_cells(cells: &Covering, shapes: bool) -> FieldBounds {
    let component = |cell: u64| {
        let mut out = Vec::with_capacity(9);
        encode_cell(cell, &mut out);
        Bound::Included(out)
    };
    let around = cells.around.iter().filter(|_| shapes).map(|c| (*c, *c));
    let mut numbers: Vec<(u64, u64)> = cells.inside.iter().copied().chain(around).collect();
    numbers.sort_unstable();
    let ranges = numbers.into_iter().map(|(low, high)| ValueRange {
        low: component(low),
        high: component(high),
    });
    FieldBounds {
        ranges: Some(ranges.collect()),
        exact: false,
    }
}

/// Whether every matching document has a location in one of the fields, and so an entry.
pub(super) fn requires_location(index: &Index, fields: &[FieldBounds]) -> bool {
    let mut both = index.fields().iter().zip(fields);
    both.any(|(f, b)| f.kind == FieldKind::Cells && !b.is_all())
}
