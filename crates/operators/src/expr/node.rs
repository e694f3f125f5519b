//! A compiled expression: the interface of nodes, constants, and folding. Must not know: how
//! expressions are parsed, which operators there are.

use crate::cx::bytes_of;
use crate::{Cx, Env};
use model::{Bump, MongoError, OwnedValue, Result, Value};

/// A compiled expression.
pub trait Expr: Send + Sync {
    /// Evaluates in a context. `Missing` is a legal result.
    ///
    /// # Errors
    /// The operator's own codes.
    fn eval<'a>(&'a self, cx: &Cx<'_, 'a>) -> Result<Value<'a>>;

    /// Calls `each` for every direct operand; leaves have none.
    fn visit<'e>(&'e self, _each: &mut dyn FnMut(&'e dyn Expr)) {}

    /// True when the value depends on the document, variables, time or randomness even with
    /// constant operands.
    fn is_volatile(&self) -> bool {
        false
    }

    /// True when the node reads more of the document than its operands do, or when its value
    /// changes from call to call: then every field counts as read. A node that is volatile only
    /// because of its operands returns false.
    fn reads_more(&self) -> bool {
        self.is_volatile()
    }

    /// The constant value, when this node is a constant.
    fn constant(&self) -> Option<Value<'_>> {
        None
    }

    /// The field path relative to the document, when this node is just `"$a.b"`.
    fn field_path(&self) -> Option<&model::FieldPath> {
        None
    }

    /// True when the value is a function of the values of all operands, in the order of
    /// [`Expr::visit`].
    fn applies(&self) -> bool {
        false
    }

    /// The value for the given values of the operands.
    ///
    /// # Errors
    /// The operator's own codes; 1 InternalError for a node whose [`Expr::applies`] is false.
    fn apply<'a>(&'a self, _cx: &Cx<'_, 'a>, _operands: &[Value<'a>]) -> Result<Value<'a>> {
        Err(MongoError::internal(
            "an expression is no function of its operands",
        ))
    }

    /// The fields, when this node makes a document of computed fields without the missing ones.
    fn fields(&self) -> Option<&[(String, BoxExpr)]> {
        None
    }

    /// The error, when this node is a constant expression that failed; see [`fold`].
    fn failure(&self) -> Option<&MongoError> {
        None
    }
}

/// A boxed expression.
pub type BoxExpr = Box<dyn Expr>;

/// A constant.
pub struct Constant(pub OwnedValue);

impl Constant {
    /// A boxed constant.
    pub fn new_boxed(v: Value<'_>) -> BoxExpr {
        Box::new(Constant(v.to_owned_value()))
    }
}

impl Expr for Constant {
    fn eval<'a>(&'a self, _: &Cx<'_, 'a>) -> Result<Value<'a>> {
        Ok(self.0.get())
    }
    fn constant(&self) -> Option<Value<'_>> {
        Some(self.0.get())
    }
}

/// True when the value can be computed without a document.
fn is_foldable(e: &dyn Expr) -> bool {
    let mut ok = !e.is_volatile();
    e.visit(&mut |child| ok = ok && child.constant().is_some());
    ok
}

/// Replaces a node with only constant operands by its value, as MongoDB does before it reads any
/// document. A node that fails becomes a node with the error: it fails the whole command at the end
/// of the outermost [`parse`], unless a parent has dropped it (a `$switch` whose branch is never
/// taken). Small expressions may make large values: when an operation's folded constants reach
/// their limit, further expressions are not folded.
pub fn fold(e: BoxExpr, env: &Env) -> BoxExpr {
    if e.constant().is_some() || env.has_folded_enough() || !is_foldable(e.as_ref()) {
        return e;
    }
    let arena = Bump::new();
    match e.eval(&Cx::new(&arena, Value::Missing, env)) {
        Ok(v) => {
            env.fold(bytes_of(&v));
            Constant::new_boxed(v)
        }
        Err(error) => Box::new(FailedConstant(error)),
    }
}

/// A constant expression that failed.
struct FailedConstant(MongoError);

impl Expr for FailedConstant {
    fn eval<'a>(&'a self, _: &Cx<'_, 'a>) -> Result<Value<'a>> {
        Err(self.0.clone())
    }
    fn is_volatile(&self) -> bool {
        true
    }
    fn failure(&self) -> Option<&MongoError> {
        Some(&self.0)
    }
}

/// The first failed constant in a tree.
pub(crate) fn find_failure(e: &dyn Expr) -> Option<MongoError> {
    let mut found = e.failure().cloned();
    e.visit(&mut |child| {
        if found.is_none() {
            found = find_failure(child);
        }
    });
    found
}
