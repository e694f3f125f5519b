//! `doc!`: literal documents for replies and tests.

/// Builds a [`crate::DocBuf`]: `doc! { "ok": 1.0, "cursor": { "id": 0i64, "firstBatch": [] } }`.
/// Values are anything `Into<Value>`; braces and brackets nest.
#[macro_export]
macro_rules! doc {
    ($($body:tt)*) => {
        $crate::DocBuf::build(|_w: &mut $crate::DocWriter<'_>| {
            $crate::doc_fields!(_w; $($body)*); })
    };
}

/// Writes literal fields into a `DocWriter`; see [`doc!`].
#[macro_export]
macro_rules! doc_fields {
    ($w:ident;) => {};
    ($w:ident; $k:tt : { $($inner:tt)* } $(, $($rest:tt)*)?) => {
        { let mut _n = $w.doc($k); let _n = &mut _n; $crate::doc_fields!(_n; $($inner)*); }
        $crate::doc_fields!($w; $($($rest)*)?);
    };
    ($w:ident; $k:tt : [ $($inner:tt)* ] $(, $($rest:tt)*)?) => {
        { let mut _n = $w.array($k); let _n = &mut _n; $crate::doc_items!(_n; $($inner)*); }
        $crate::doc_fields!($w; $($($rest)*)?);
    };
    ($w:ident; $k:tt : $v:expr $(, $($rest:tt)*)?) => {
        $w.put($k, $v);
        $crate::doc_fields!($w; $($($rest)*)?);
    };
}

/// Writes literal elements into an `ArrayWriter`; see [`doc!`].
#[macro_export]
macro_rules! doc_items {
    ($w:ident;) => {};
    ($w:ident; { $($inner:tt)* } $(, $($rest:tt)*)?) => {
        { let mut _n = $w.doc(); let _n = &mut _n; $crate::doc_fields!(_n; $($inner)*); }
        $crate::doc_items!($w; $($($rest)*)?);
    };
    ($w:ident; [ $($inner:tt)* ] $(, $($rest:tt)*)?) => {
        { let mut _n = $w.array(); let _n = &mut _n; $crate::doc_items!(_n; $($inner)*); }
        $crate::doc_items!($w; $($($rest)*)?);
    };
    ($w:ident; $v:expr $(, $($rest:tt)*)?) => {
        $w.push($v);
        $crate::doc_items!($w; $($($rest)*)?);
    };
}

#[cfg(test)]
mod tests {
    #[test]
    fn literals_nest() {
        let d = doc! { "a": 1i32, "b": { "c": [1i32, { "d": "x" }, [2i64]] }, "e": true };
        assert_eq!(
            format!("{d:?}"),
            r#"{ a: 1, b: { c: [ 1, { d: "x" }, [ 2 ] ] }, e: true }"#
        );
    }
}
