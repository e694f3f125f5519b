//! Arithmetic on values with the exact result types of the expression operators, for stages that
//! compute on their own.

use model::{Array, Bump, OwnedValue, Result, Value};
use operators::expr::{self, ParseCx};
use operators::{Cx, Env};

/// The value of an operator on constant operands.
pub(super) fn apply(name: &str, operands: Value<'_>, env: &Env) -> Result<OwnedValue> {
    let arena = Bump::new();
    let spec = model::doc! { name: operands };
    let e = expr::parse(&mut ParseCx::new(env), (&spec).into())?;
    Ok(e.eval(&Cx::new(&arena, Value::Missing, env))?
        .to_owned_value())
}

/// The value of an operator on two numbers or dates.
pub(super) fn two(name: &str, a: Value<'_>, b: Value<'_>, env: &Env) -> Result<OwnedValue> {
    let arena = Bump::new();
    apply(
        name,
        Value::Array(Array::from_values_in(&arena, [a, b])),
        env,
    )
}

/// `a + b`.
pub(super) fn add(a: Value<'_>, b: Value<'_>, env: &Env) -> Result<OwnedValue> {
    match (a, b) {
        (Value::Int32(x), Value::Int32(y)) if x.checked_add(y).is_some() => {
            Ok(Value::Int32(x.wrapping_add(y)).to_owned_value())
        }
        (Value::Double(x), Value::Double(y)) => Ok(Value::Double(x + y).to_owned_value()),
        _ => two("$add", a, b, env),
    }
}

/// `a - b`.
pub(super) fn subtract(a: Value<'_>, b: Value<'_>, env: &Env) -> Result<OwnedValue> {
    two("$subtract", a, b, env)
}

/// `a * b`.
pub(super) fn multiply(a: Value<'_>, b: Value<'_>, env: &Env) -> Result<OwnedValue> {
    two("$multiply", a, b, env)
}

/// `a / b`.
pub(super) fn divide(a: Value<'_>, b: Value<'_>, env: &Env) -> Result<OwnedValue> {
    two("$divide", a, b, env)
}
