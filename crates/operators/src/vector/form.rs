//! Expressions over columns: which parts of an expression are a column, a constant or a function of
//! other columns; all other parts are evaluated row by row on a document of the columns' values.
//! Must not know: operators by name.

use crate::columns::{Batch, Column, Operand, Paths, row_of};
use crate::expr::Expr;
use crate::{Cx, Env, Frame};
use model::{Bump, Doc, Result, Value};
use smallvec::SmallVec;

/// How an expression is evaluated over columns; valid only for that expression.
pub enum ColumnExpr {
    /// The values of a column.
    Path(usize),
    /// The same value for every row.
    Constant,
    /// A function of its operands; see [`Expr::applies`].
    Apply(Vec<ColumnExpr>),
    /// A document of computed fields; see [`Expr::fields`].
    Fields(Vec<ColumnExpr>),
    /// Evaluated row by row.
    Rows,
}

/// The rows on which expressions are evaluated.
#[derive(Clone, Copy)]
pub struct Rows<'r> {
    /// The documents.
    pub batch: &'r Batch,
    /// The selected rows; `None` for all.
    pub selected: Option<&'r [u32]>,
    /// The operation.
    pub env: &'r Env,
    /// Variables bound outside of the expression.
    pub vars: Option<&'r Frame<'r, 'r>>,
}

impl ColumnExpr {
    /// The form of an expression; its paths are added to `paths`. `None` when it may read any
    /// field, or when there are too many paths.
    pub fn of(e: &dyn Expr, paths: &mut Paths) -> Option<ColumnExpr> {
        if let Some(path) = e.field_path() {
            return paths.add(path).map(ColumnExpr::Path);
        }
        if e.constant().is_some() {
            return Some(ColumnExpr::Constant);
        }
        if e.reads_more() {
            return None;
        }
        let mut below = Some(Vec::new());
        e.visit(&mut |operand| {
            let form = ColumnExpr::of(operand, paths);
            below = below.take().zip(form).map(|(mut list, form)| {
                list.push(form);
                list
            });
        });
        let below = below?;
        Some(if e.fields().is_some() {
            ColumnExpr::Fields(below)
        } else if e.applies() {
            ColumnExpr::Apply(below)
        } else {
            ColumnExpr::Rows
        })
    }

    /// The values of the expression `e`, which must be the one this form was made of.
    ///
    /// # Errors
    /// An error that the expression has on some row, not necessarily on the first row with an
    /// error.
    pub fn eval<'r>(&'r self, e: &'r dyn Expr, rows: Rows<'r>) -> Result<Operand<'r>> {
        match self {
            ColumnExpr::Constant => Ok(Operand::Constant(e.constant().unwrap_or_default())),
            ColumnExpr::Path(at) => match rows.batch.column(*at) {
                Some(column) if rows.batch.is_whole() => Ok(Operand::Column(column, rows.selected)),
                _ => rows.one_by_one(e),
            },
            ColumnExpr::Rows => rows.one_by_one(e),
            ColumnExpr::Fields(forms) => {
                let fields = e.fields().unwrap_or_default().iter().zip(forms);
                let fields = fields.map(|((name, e), form)| {
                    let operand = form.eval(e.as_ref(), rows)?;
                    Ok((name.as_str(), operand))
                });
                Ok(Operand::Fields(fields.collect::<Result<_>>()?))
            }
            ColumnExpr::Apply(forms) => {
                let mut below: Vec<&'r dyn Expr> = Vec::with_capacity(forms.len());
                e.visit(&mut |operand| below.push(operand));
                let operands = forms.iter().zip(below).map(|(form, e)| form.eval(e, rows));
                rows.apply(e, &operands.collect::<Result<Vec<_>>>()?)
            }
        }
    }
}

impl<'r> Rows<'r> {
    /// Number of selected rows.
    pub fn len(&self) -> usize {
        self.selected.map_or(self.batch.len(), <[u32]>::len)
    }

    /// True when no row is selected.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The document of a selected row.
    pub fn doc<'a>(&'a self, at: usize, arena: &'a Bump) -> Doc<'a> {
        self.batch.doc(row_of(self.selected, at), arena)
    }

    /// Evaluates the expression on each document.
    fn one_by_one(&self, e: &'r dyn Expr) -> Result<Operand<'r>> {
        let (mut column, mut arena) = (Column::default(), Bump::new());
        for at in 0..self.len() {
            let root = Value::Document(self.doc(at, &arena));
            column.push(e.eval(&self.cx(&arena, root))?);
            arena.reset();
        }
        Ok(Operand::Own(column))
    }

    fn apply(&self, e: &'r dyn Expr, operands: &[Operand<'_>]) -> Result<Operand<'r>> {
        let (mut column, mut arena) = (Column::default(), Bump::new());
        for at in 0..self.len() {
            let mut values = SmallVec::<[Value<'_>; 4]>::new();
            values.extend(operands.iter().map(|o| o.value(at, &arena)));
            let cx = self.cx(&arena, Value::Document(Doc::EMPTY));
            column.push(e.apply(&cx, &values)?);
            drop(values);
            arena.reset();
        }
        Ok(Operand::Own(column))
    }

    fn cx<'a>(&self, arena: &'a Bump, root: Value<'a>) -> Cx<'r, 'a>
    where
        'r: 'a,
    {
        Cx {
            vars: self.vars,
            ..Cx::new(arena, root, self.env)
        }
    }
}
