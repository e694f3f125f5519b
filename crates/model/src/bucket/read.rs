//! Reading a bucket: its measurements one by one.

use super::column::{Cell, decode_column};
use super::options::SeriesOptions;
use crate::{Doc, DocBuf, MongoError, OwnedValue, Result, Tag, Value};

/// Most values of one bucket, so that a small bucket cannot expand to more than fits in memory.
const CELLS_MAX: usize = 10_000_000;

/// The contents of a bucket.
#[derive(Debug)]
pub struct BucketContents {
    /// The common metadata of its measurements; `Missing` if there is none.
    pub meta: OwnedValue,
    /// In the order of the bucket. Fields: time, metadata, then the others in the order of the
    /// bucket.
    pub measurements: Vec<DocBuf>,
}

fn damage_error(why: &str) -> MongoError {
    MongoError::bad_value(format!("not a bucket of a time-series collection: {why}"))
}

/// Unpacks a bucket.
///
/// # Errors
/// 2 BadValue for a document that is no bucket; the errors of `validate` for values that are not
/// valid BSON.
pub fn unpack(bucket: Doc<'_>, options: &SeriesOptions) -> Result<BucketContents> {
    let part = |d: Doc<'_>, name: &str| {
        let inner = d.field(name).as_doc().map(|d| d.to_buf());
        inner.ok_or_else(|| damage_error(&format!("'{name}' is no document")))
    };
    let (control, data) = (part(bucket, "control")?, part(bucket, "data")?);
    let version = control.doc().field("version").as_i64_exact();
    let data = data.doc();
    let count = match (version, data.field(&options.time)) {
        (Some(1), Value::Document(times)) => times.count(),
        (Some(2 | 3), _) => {
            let count = control.doc().field("count").as_i64_exact();
            let count = count.and_then(|n| usize::try_from(n).ok());
            count.ok_or_else(|| damage_error("'control.count' is no number"))?
        }
        (Some(1), _) => return Err(damage_error("no times")),
        _ => return Err(damage_error("an unknown version")),
    };
    if data.count().max(1).saturating_mul(count) > CELLS_MAX {
        return Err(damage_error("too many values"));
    }
    let mut columns = Vec::new();
    for (name, column) in data.iter() {
        let cells = match (version, column) {
            (Some(1), Value::Document(column)) => plain_column(column, count)?,
            (Some(2 | 3), Value::Binary(b)) if b.subtype == 7 => decode_column(b.bytes, count)?,
            _ => return Err(damage_error(&format!("'data.{name}' is no column"))),
        };
        columns.push((name, cells));
    }
    let meta = bucket.field("meta");
    let measurements = (0..count).map(|row| measurement(&columns, row, meta, options));
    Ok(BucketContents {
        measurements: measurements.collect::<Result<_>>()?,
        meta: meta.to_owned_value(),
    })
}

fn plain_column(column: Doc<'_>, count: usize) -> Result<Vec<Option<Cell>>> {
    let mut cells = vec![None; count];
    for e in column.elements() {
        let row = e.name_str().parse::<usize>().ok();
        let cell = row.and_then(|row| cells.get_mut(row));
        *cell.ok_or_else(|| damage_error("a row that is none"))? = Some(Cell {
            tag: e.tag,
            payload: e.payload.to_vec(),
        });
    }
    Ok(cells)
}

fn measurement(
    columns: &[(&str, Vec<Option<Cell>>)],
    row: usize,
    meta: Value<'_>,
    options: &SeriesOptions,
) -> Result<DocBuf> {
    let time = columns
        .iter()
        .find(|(name, _)| *name == options.time)
        .and_then(|(_, cells)| cells.get(row)?.as_ref())
        .filter(|cell| cell.tag == Tag::DATE)
        .ok_or_else(|| damage_error("a measurement without a time"))?;
    let doc = DocBuf::build(|w| {
        w.put_raw(options.time.as_bytes(), time.tag, &time.payload);
        if let Some(name) = &options.meta {
            w.put(name, meta);
        }
        for (name, cells) in columns.iter().filter(|(name, _)| *name != options.time) {
            if let Some(Some(cell)) = cells.get(row) {
                w.put_raw(name.as_bytes(), cell.tag, &cell.payload);
            }
        }
    });
    crate::validate(doc.as_bytes())?;
    Ok(doc)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bucket::{Bucket, bucket_id};
    use crate::{Binary, doc};

    fn options() -> SeriesOptions {
        SeriesOptions::from_doc(
            doc! { "timeField": "t", "metaField": "m", "granularity": "seconds" }.doc(),
        )
        .unwrap()
    }

    fn column(bytes: &[u8]) -> Vec<Option<String>> {
        let cells = decode_column(bytes, 10_000).unwrap();
        let shown = |c: Cell| {
            let d = DocBuf::build(|w| _ = w.put_raw(b"v", c.tag, &c.payload));
            format!("{:?}", d.doc().field("v"))
        };
        cells.into_iter().map(|c| c.map(shown)).collect()
    }

    #[test]
    fn version_1_comes_back_as_it_was() {
        let o = options();
        let rows = [
            doc! { "t": Value::Date(61_000), "m": { "s": 1i32 }, "_id": 1i32, "v": 2.5 },
            doc! { "t": Value::Date(90_000), "m": { "s": 1i32 }, "_id": 2i32, "w": "x" },
            doc! { "t": Value::Date(62_000), "m": { "s": 1i32 }, "_id": 3i32, "v": 1i32 },
        ];
        let meta = doc! { "s": 1i32 };
        let mut b = Bucket::new(&o, None, o.start_of(61_000), Value::from(&meta));
        rows.iter().for_each(|d| b.add(d.doc()));
        let bucket = b.finish(bucket_id(60_000, [7; 8]));
        let control = bucket.doc().field("control").as_doc().unwrap();
        assert_eq!(
            control.field("min").as_doc().unwrap().to_buf(),
            doc! { "t": Value::Date(60_000), "_id": 1i32, "v": 1i32, "w": "x" }
        );
        assert_eq!(
            control.field("max").as_doc().unwrap().to_buf(),
            doc! { "t": Value::Date(90_000), "_id": 3i32, "v": 2.5, "w": "x" }
        );
        let back = unpack(bucket.doc(), &o).unwrap();
        assert_eq!(back.measurements, rows);
    }

    #[test]
    fn numbers_differ_from_the_one_before() {
        // An int32 of 10, then differences 1, none, -2 in three slots of 20 bits.
        let slots = 2u64 | 0xFFFFF << 20 | 3 << 40;
        let word = (12 | slots << 4).to_le_bytes();
        let bytes = [&[0x10, 0, 10, 0, 0, 0, 0x80][..], &word, &[0]].concat();
        let ints = ["Int32(10)", "Int32(11)", "", "Int32(9)"];
        let wanted: Vec<_> = ints
            .iter()
            .map(|s| (!s.is_empty()).then(|| (*s).to_owned()))
            .collect();
        assert_eq!(column(&bytes), wanted);
        // Dates a second apart: the difference of differences is 1000, then 0 repeated.
        let word = |slot: u64| (13 | slot << 4).to_le_bytes();
        let bytes = [
            &[9, 0][..],
            &5000i64.to_le_bytes(),
            &[0x80],
            &word(2000),
            &[0],
        ]
        .concat();
        let dates: Vec<_> = [5000, 6000, 7000]
            .map(|n| Some(format!("Date({n})")))
            .into();
        assert_eq!(column(&bytes), dates);
        // Doubles at the scale of ten: 1.5, then 16 / 10.
        let bytes = [&[1, 0][..], &1.5f64.to_le_bytes(), &[0xA0], &word(2), &[0]].concat();
        let doubles = ["1.5", "1.6", "1.6"].map(|n| Some(format!("Double({n})")));
        assert_eq!(column(&bytes), doubles);
    }

    #[test]
    fn documents_have_columns_of_their_own() {
        let form = doc! { "a": 1i32, "b": { "c": 5i64 } };
        // Two documents: a differs by 0 and 1, c is missing in the first and 5 in the second.
        let a = (13u64 | 2 << 34).to_le_bytes();
        let c = (13u64 | ((1 << 30) - 1) << 4).to_le_bytes();
        let bytes = [
            &[0xF1][..],
            form.as_bytes(),
            &[0x80],
            &a,
            &[0x80],
            &c,
            &[0, 0],
        ]
        .concat();
        let docs = decode_column(&bytes, 10).unwrap();
        let docs: Vec<_> = docs
            .into_iter()
            .map(|c| DocBuf::from_bytes(c.unwrap().payload).unwrap())
            .collect();
        assert_eq!(
            docs,
            [doc! { "a": 1i32 }, doc! { "a": 2i32, "b": { "c": 5i64 } }]
        );
    }

    #[test]
    fn what_is_no_bucket_is_refused() {
        let o = options();
        let refused = |d: DocBuf| unpack(d.doc(), &o).unwrap_err().code();
        assert_eq!(refused(doc! {}), crate::code::BAD_VALUE);
        let bytes = [
            9, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0x80, 255, 255, 255, 255, 255, 255, 255, 255, 0,
        ];
        let column = Binary {
            subtype: 7,
            bytes: &bytes,
        };
        // A column of 1921 times in a bucket of 5.
        let bucket = doc! { "control": { "version": 2i32, "count": 5i32 },
        "data": { "t": column } };
        assert_eq!(refused(bucket), crate::code::BAD_VALUE);
    }
}
