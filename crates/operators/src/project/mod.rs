//! Projections: of find, and of `$project`, `$addFields`, `$unset`.
