//! `$cmp` (-1, 0, 1) and `$eq`, `$ne`, `$gt`, `$gte`, `$lt`, `$lte` of two operands of any types.
//! Missing counts as a value below null. 16020 unless there are two operands.

use crate::Cx;
use crate::expr::{Operator, nary};
use model::{Result, Value, compare_with};
use std::cmp::Ordering;

macro_rules! comparisons {
    ($($name:literal $f:ident => $result:expr;)*) => {
        $(fn $f<'a>(cx: &Cx<'_, 'a>, v: &[Value<'a>]) -> Result<Value<'a>> {
            let result: fn(Ordering) -> Value<'static> = $result;
            Ok(result(ordering(cx, v)))
        })*
        pub(super) static OPERATORS: &[Operator] =
            &[$(Operator { name: $name, parse: |cx, name, spec| nary(cx, name, spec, 2..=2,
                $f) }),*];
    };
}

comparisons! {
    "$cmp" cmp => |o| Value::Int32(o as i32);
    "$eq" eq => |o| Value::Bool(o.is_eq());
    "$ne" ne => |o| Value::Bool(o.is_ne());
    "$gt" gt => |o| Value::Bool(o.is_gt());
    "$gte" gte => |o| Value::Bool(o.is_ge());
    "$lt" lt => |o| Value::Bool(o.is_lt());
    "$lte" lte => |o| Value::Bool(o.is_le());
}

fn ordering(cx: &Cx<'_, '_>, v: &[Value<'_>]) -> Ordering {
    match v {
        [a, b] => compare_with(a, b, cx.collate()),
        _ => Ordering::Equal,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::rows(&[
            (r#"{"$cmp": ["$missing", null]}"#, "int -1"),
            (r#"{"$cmp": ["$a", {"$numberDecimal": "5.0"}]}"#, "int 0"),
            (r#"{"$cmp": ["$s", "$a"]}"#, "int 1"),
            (r#"{"$eq": ["$missing", "$missing"]}"#, "bool true"),
            (r#"{"$ne": [1, {"$numberLong": "1"}]}"#, "bool false"),
            (r#"{"$gt": ["$arr", "$s"]}"#, "bool true"),
            (
                r#"{"$gte": [{"$numberDouble": "NaN"}, {"$numberDouble": "NaN"}]}"#,
                "bool true",
            ),
            (r#"{"$lt": [1, 1]}"#, "bool false"),
            (r#"{"$lte": [1, 1]}"#, "bool true"),
            (r#"{"$eq": [1]}"#, "error 16020"),
        ]);
    }
}
