//! Cells: a surface is divided into squares, each into four, down to level 30. Cell numbers follow
//! an order in which neighbours are close, and the cells inside a cell have consecutive numbers
//! around its own (docs/on-disk.md). Part of the disk format: the numbers must never change.

use super::flat;
use super::sphere;

/// The finest level. On the earth its cells are about a centimetre wide.
pub(super) const LEVEL_MAX: u32 = 30;
/// Number of squares along the edge of a face at the finest level.
const SIDE: u64 = 1 << LEVEL_MAX;

/// The square of a plane that is divided into cells: both coordinates range from `min` to `max`.
#[derive(Clone, Copy)]
pub(super) struct Square {
    pub(super) min: f64,
    pub(super) max: f64,
}

/// A cell: number of the face (3 bits), 2 bits for each level, a one, and zeros.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Cell(pub(super) u64);

impl Cell {
    fn leaf(face: u64, i: u64, j: u64) -> Cell {
        let mut bits = 0;
        for level in (0..LEVEL_MAX).rev() {
            bits = bits << 2 | (i >> level & 1) << 1 | (j >> level & 1);
        }
        Cell(face << 61 | bits << 1 | 1)
    }

    /// The cell of a whole face.
    pub(super) fn face(face: u64) -> Cell {
        Cell(face << 61 | 1 << 60)
    }

    fn lowest_bit(self) -> u64 {
        self.0 & self.0.wrapping_neg()
    }

    /// 0 for a face.
    pub(super) fn level(self) -> u32 {
        LEVEL_MAX - self.0.trailing_zeros() / 2
    }

    pub(super) fn children(self) -> [Cell; 4] {
        let quarter = self.lowest_bit() >> 2;
        [1, 3, 5, 7].map(|n| Cell(self.0 - self.lowest_bit() + n * quarter))
    }

    /// The enclosing cell of the next coarser level; `None` for a face.
    pub(super) fn parent(self) -> Option<Cell> {
        let bit = self.lowest_bit() << 2;
        (self.level() > 0).then(|| Cell(self.0 & bit.wrapping_neg() | bit))
    }

    /// The least and the greatest number of the cells inside, this cell included.
    pub(super) fn descendant_range(self) -> (u64, u64) {
        let bit = self.lowest_bit();
        (self.0 - (bit - 1), self.0 + (bit - 1))
    }

    /// Face, first column and row, and the number of squares along the cell's edge.
    fn place(self) -> (u64, u64, u64, u64) {
        let bits = self.descendant_range().0 >> 1;
        let (mut i, mut j) = (0, 0);
        for level in (0..LEVEL_MAX).rev() {
            i = i << 1 | bits >> (2 * level + 1) & 1;
            j = j << 1 | bits >> (2 * level) & 1;
        }
        (self.0 >> 61, i, j, SIDE >> self.level())
    }

    /// The finest cell of a point on the sphere. The faces are those of the circumscribed cube.
    pub(super) fn of_sphere(p: sphere::Point) -> Cell {
        let v = p.vector();
        let axis = (0..3)
            .max_by(|a, b| v[*a].abs().total_cmp(&v[*b].abs()))
            .unwrap_or(0);
        let main = v[axis];
        let face = axis as u64 + if main < 0.0 { 3 } else { 0 };
        let along = |n: usize| square(to_even(v[(axis + n) % 3] / main));
        Cell::leaf(face, along(1), along(2))
    }

    /// The finest cell of a point of a plane's square.
    pub(super) fn of_plane(p: flat::Point, Square { min, max }: Square) -> Cell {
        let along = |n: f64| square((n - min) / (max - min));
        Cell::leaf(0, along(p.x), along(p.y))
    }

    /// A cap around the cell: centre and radius.
    pub(super) fn cap(self) -> (sphere::Point, f64) {
        let (face, i, j, side) = self.place();
        let at = |i: f64, j: f64| {
            let axis = face as usize % 3;
            let main = if face < 3 { 1.0 } else { -1.0 };
            let mut v = [main; 3];
            v[(axis + 1) % 3] = main * from_even(i / SIDE as f64);
            v[(axis + 2) % 3] = main * from_even(j / SIDE as f64);
            sphere::Point::of_vector(v)
        };
        let (i, j, side) = (i as f64, j as f64, side as f64);
        let center = at(i + side / 2.0, j + side / 2.0);
        let corners = [(i, j), (i + side, j), (i, j + side), (i + side, j + side)];
        let radius = corners
            .iter()
            .map(|(i, j)| center.angle(at(*i, *j)))
            .fold(0.0, f64::max);
        (center, radius)
    }

    /// Two corners of the cell in a plane's square.
    pub(super) fn rectangle(self, Square { min, max }: Square) -> (flat::Point, flat::Point) {
        let (_, i, j, side) = self.place();
        let at = |n: u64| min + (max - min) * (n as f64 / SIDE as f64);
        let corner = |i, j| flat::Point { x: at(i), y: at(j) };
        (corner(i, j), corner(i + side, j + side))
    }
}

/// The column at a fraction of an edge.
fn square(share: f64) -> u64 {
    ((share * SIDE as f64) as u64).min(SIDE - 1)
}

/// From a position on the edge of the cube (-1 to 1) to the fraction of cells before it: without it
/// cells near the corners would be smaller than those in the middle.
fn to_even(u: f64) -> f64 {
    match u >= 0.0 {
        true => 0.5 * (1.0 + 3.0 * u).sqrt(),
        false => 1.0 - 0.5 * (1.0 - 3.0 * u).sqrt(),
    }
}

/// The reverse of [`to_even`].
fn from_even(share: f64) -> f64 {
    match share >= 0.5 {
        true => (4.0 * share * share - 1.0) / 3.0,
        false => (1.0 - 4.0 * (1.0 - share) * (1.0 - share)) / 3.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_lies_in_the_cap_of_each_of_its_cells() {
        let mut seed = 7u64;
        let mut random = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 11) as f64 / (1u64 << 53) as f64
        };
        for _ in 0..2000 {
            let p = sphere::Point::from_degrees(random() * 360.0 - 180.0, random() * 180.0 - 90.0);
            let p = p.unwrap();
            let mut cell = Cell::of_sphere(p);
            assert_eq!(cell.level(), LEVEL_MAX);
            loop {
                let (center, radius) = cell.cap();
                assert!(p.angle(center) <= radius + 1e-14, "{cell:?} {p:?}");
                let Some(parent) = cell.parent() else { break };
                assert!(parent.children().contains(&cell));
                let (low, high) = parent.descendant_range();
                assert!(low <= cell.descendant_range().0 && cell.descendant_range().1 <= high);
                cell = parent;
            }
        }
    }

    #[test]
    fn numbers_are_those_on_disk() {
        // The examples of docs/on-disk.md.
        let p = sphere::Point::from_degrees(13.4, 52.5).unwrap();
        let leaf = Cell::of_sphere(p);
        assert_eq!(format!("{:016X}", leaf.0), "5D2F8D002B2380DD");
        let degrees = Square {
            min: -180.0,
            max: 180.0,
        };
        let flat = Cell::of_plane(flat::Point { x: 0.0, y: 0.0 }, degrees);
        assert_eq!(format!("{:016X}", flat.0), "1800000000000001");
    }
}
