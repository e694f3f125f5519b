//! Values of earlier histories, read back from their CSV.
//!
//! Promises: the values of `history.csv` are read back unchanged; another file is refused with the
//! number of the wrong line.

use super::export::COLUMNS;
use super::series::{Entry, Value};
use crate::metric;

/// Reads the values of a file that [`super::csv`] wrote.
///
/// # Errors
/// The header differs, or a row has other cells; the error names the line.
pub fn read(text: &str) -> Result<Vec<Value>, String> {
    let mut rows = rows(text).into_iter();
    if rows.next().is_none_or(|header| header != COLUMNS) {
        return Err(format!("line 1: allowed is {}", COLUMNS.join(",")));
    }
    let numbered = rows.enumerate();
    let found =
        numbered.map(|(at, row)| value(row).map_err(|reason| format!("row {}: {reason}", at + 2)));
    found.collect()
}

fn value(row: Vec<String>) -> Result<Value, String> {
    let cells: [String; 13] = row
        .try_into()
        .map_err(|row: Vec<String>| format!("it has {} cells; 13 are needed", row.len()))?;
    let [
        name,
        workload,
        target,
        step,
        metric,
        unit,
        run,
        at,
        version,
        build,
        conditions,
        value,
        _,
    ] = cells;
    let number = value
        .parse::<f64>()
        .ok()
        .filter(|number| number.is_finite());
    let number = number.ok_or_else(|| format!("the value is '{value}', which is not a number"))?;
    let metric = metric::find(&metric).ok_or_else(|| format!("there is no metric '{metric}'"))?;
    Ok(Value {
        name,
        conditions,
        workload,
        target,
        step,
        unit,
        metric,
        entry: Entry {
            run,
            at,
            version,
            build,
            value: number,
        },
    })
}

/// Splits the text into rows of cells; a quoted cell may contain commas, line breaks and doubled
/// quotes.
fn rows(text: &str) -> Vec<Vec<String>> {
    let (mut out, mut row, mut cell) = (Vec::new(), Vec::new(), String::new());
    let mut is_quoted = false;
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if is_quoted && letters.peek() == Some(&'"') => {
                letters.next();
                cell.push('"');
            }
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => row.push(std::mem::take(&mut cell)),
            '\n' if !is_quoted => {
                row.push(std::mem::take(&mut cell));
                out.push(std::mem::take(&mut row));
            }
            other => cell.push(other),
        }
    }
    if !(cell.is_empty() && row.is_empty()) {
        row.push(cell);
        out.push(row);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::{csv, series_of};
    use super::*;

    #[test]
    fn values_come_back_as_they_were_and_others_are_refused_with_their_line() {
        let one = |run: &str, number: f64| Value {
            name: "point on A, \"the first\"".to_owned(),
            conditions: "12ab".to_owned(),
            workload: "point".to_owned(),
            target: "A".to_owned(),
            step: "point".to_owned(),
            unit: "queries".to_owned(),
            metric: metric::find("rate").unwrap(),
            entry: Entry {
                run: run.to_owned(),
                at: format!("at {run}"),
                version: "A 1, B".to_owned(),
                build: "abc".to_owned(),
                value: number,
            },
        };
        let text = csv(&series_of(vec![one("r1", 5.25), one("r2", 1e6)]));
        let again = read(&text).unwrap();
        assert_eq!(again.len(), 2);
        assert_eq!(again[0].entry, one("r1", 5.25).entry);
        assert_eq!(csv(&series_of(again)), text);
        // A run that appears twice counts once.
        let twice = series_of(vec![one("r1", 5.25), one("r1", 5.25)]);
        assert_eq!(twice[0].entries.len(), 1);
        for (from, to, reason) in [
            ("series,", "serie,", "line 1: allowed is series"),
            (",5.25,", ",much,", "row 2: the value is 'much'"),
            (",rate,", ",pace,", "row 2: there is no metric 'pace'"),
            (",abc,", ",", "row 2: it has 12 cells"),
        ] {
            let told = read(&text.replacen(from, to, 1)).err().unwrap();
            assert!(told.contains(reason), "{told}");
        }
    }
}
