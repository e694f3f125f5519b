//! The text of statements. Names come from workload files; values are always bound.

use std::fmt::Write;

use lab_kit::records::{Column, Equals, Query, Record, RecordTable, Set};
use lab_kit::row::{FieldType, Row};
use lab_kit::target::Table;
use lab_kit::workload::Index;

/// Longer texts need a column type without a length.
const VARCHAR_MAX: u32 = 16_000;
/// The largest length of a text id in bytes.
const ID_BYTES_MAX: u32 = 64;

/// Makes a table without secondary indexes.
pub(crate) fn create_table(table: &Table, engine: Option<&str>) -> String {
    let id = match (table.kind.has_text_keys(), table.target_makes_ids) {
        (true, _) => {
            format!("VARCHAR({ID_BYTES_MAX}) CHARACTER SET latin1 COLLATE latin1_bin NOT NULL")
        }
        (false, true) => "BIGINT NOT NULL AUTO_INCREMENT".to_owned(),
        (false, false) => "BIGINT NOT NULL".to_owned(),
    };
    let mut out = format!("CREATE TABLE `{}` (id {id}", table.name);
    for (name, of_type) in table.kind.fields() {
        let column = match of_type {
            FieldType::Int => "INT NOT NULL".to_owned(),
            FieldType::Long | FieldType::Date => "BIGINT NOT NULL".to_owned(),
            FieldType::Double => "DOUBLE NOT NULL".to_owned(),
            // Rows omit an empty pad.
            FieldType::Text(0) => text(table.payload, "NOT NULL DEFAULT ''"),
            FieldType::Text(length) => text(length, "NOT NULL"),
        };
        let _ = write!(out, ", `{name}` {column}");
    }
    out.push_str(", PRIMARY KEY (id))");
    if let Some(engine) = engine {
        let _ = write!(out, " ENGINE={engine}");
    }
    out
}

/// Makes a table of a program, with its indexes.
pub(crate) fn create_records(table: &RecordTable, engine: Option<&str>) -> String {
    let mut out = format!("CREATE TABLE `{}` (", table.name);
    for (name, column) in table.columns {
        let column = match column {
            Column::Int => "BIGINT NOT NULL".to_owned(),
            Column::OptionalInt => "BIGINT".to_owned(),
            Column::Text(length) => text(*length, "NOT NULL"),
            // Lists that other targets keep inside records have a separate table here.
            Column::List(_) => continue,
        };
        let _ = write!(out, "`{name}` {column}, ");
    }
    let list = |columns: &[&str]| {
        let columns = columns.iter().map(|column| format!("`{column}`"));
        columns.collect::<Vec<_>>().join(", ")
    };
    let _ = write!(out, "PRIMARY KEY ({})", list(table.key));
    for (name, columns) in table.indexes {
        let _ = write!(out, ", KEY `{name}` ({})", list(columns));
    }
    out.push(')');
    if let Some(engine) = engine {
        let _ = write!(out, " ENGINE={engine}");
    }
    out
}

/// A condition: columns equal to bound values, and optionally a column between two bound values.
pub(crate) fn write_condition(equals: Equals<'_>, between: Option<&str>) -> String {
    let equal = equals.iter().map(|(name, _)| format!("`{name}` = ?"));
    let between = between.map(|name| format!("`{name}` BETWEEN ? AND ?"));
    let all: Vec<String> = equal.chain(between).collect();
    if all.is_empty() {
        String::new()
    } else {
        format!(" WHERE {}", all.join(" AND "))
    }
}

/// Finds records of a program.
pub(crate) fn select_records(query: &Query<'_>, columns: &[&str]) -> String {
    let list = columns.iter().map(|name| format!("`{name}`"));
    let mut out = format!(
        "SELECT {} FROM `{}`{}",
        list.collect::<Vec<_>>().join(", "),
        query.table.name,
        write_condition(query.equals, query.between.map(|(name, ..)| name))
    );
    if let Some((column, is_descending)) = query.order {
        let direction = if is_descending { " DESC" } else { "" };
        let _ = write!(out, " ORDER BY `{column}`{direction}");
    }
    if query.limit > 0 {
        let _ = write!(out, " LIMIT {}", query.limit);
    }
    if query.is_locked {
        out.push_str(" FOR UPDATE");
    }
    out
}

/// Stores `records` records with the columns of `like`.
pub(crate) fn insert_records(table: &str, like: &Record, records: usize) -> String {
    let list = like.0.iter().map(|(name, _)| format!("`{name}`"));
    let marks = format!("({})", vec!["?"; like.0.len()].join(","));
    format!(
        "INSERT INTO `{table}` ({}) VALUES {}",
        list.collect::<Vec<_>>().join(","),
        vec![marks; records].join(",")
    )
}

/// Changes records; values of the changes are bound before those of the key.
pub(crate) fn update_records(
    table: &str,
    key: Equals<'_>,
    changes: &[(&'static str, Set)],
) -> String {
    let changes = changes.iter().map(|(name, change)| match change {
        Set::To(_) => format!("`{name}` = ?"),
        Set::Add(_) => format!("`{name}` = `{name}` + ?"),
    });
    format!(
        "UPDATE `{table}` SET {}{}",
        changes.collect::<Vec<_>>().join(", "),
        write_condition(key, None)
    )
}

fn text(length: u32, tail: &str) -> String {
    let set = "CHARACTER SET latin1 COLLATE latin1_bin";
    if length <= VARCHAR_MAX {
        format!("VARCHAR({}) {set} {tail}", length.max(1))
    } else {
        format!("LONGTEXT {set} NOT NULL")
    }
}

/// Makes a secondary index.
pub(crate) fn create_index(table: &str, index: &Index) -> String {
    let unique = if index.unique { "UNIQUE " } else { "" };
    format!(
        "CREATE {unique}INDEX `{}` ON `{table}` ({})",
        index.name,
        names(&index.keys)
    )
}

fn names(keys: &[String]) -> String {
    keys.iter()
        .map(|key| format!("`{key}`"))
        .collect::<Vec<_>>()
        .join(", ")
}

/// `INSERT` or `REPLACE` of `rows` rows with the columns of `like`.
pub(crate) fn store(verb: &str, table: &str, like: &Row, rows: usize) -> String {
    let mut columns: Vec<&str> = like.fields.iter().map(|(name, _)| *name).collect();
    if like.id.is_some() {
        columns.insert(0, "id");
    }
    let marks = format!("({})", vec!["?"; columns.len()].join(","));
    let list = columns
        .iter()
        .map(|name| format!("`{name}`"))
        .collect::<Vec<_>>()
        .join(",");
    format!(
        "{verb} INTO `{table}` ({list}) VALUES {}",
        vec![marks; rows].join(",")
    )
}

/// `SELECT` of rows by a list of `ids` ids.
pub(crate) fn select_in(table: &str, ids: usize) -> String {
    format!(
        "SELECT * FROM `{table}` WHERE id IN ({})",
        vec!["?"; ids].join(",")
    )
}

/// `DELETE` of rows by a list of `ids` ids.
pub(crate) fn delete_in(table: &str, ids: usize) -> String {
    format!(
        "DELETE FROM `{table}` WHERE id IN ({})",
        vec!["?"; ids].join(",")
    )
}

/// Rows in the order of ids.
pub(crate) fn range(table: &str, limit: u32, reverse: bool) -> String {
    let (operator, direction) = if reverse { ("<=", " DESC") } else { (">=", "") };
    format!("SELECT * FROM `{table}` WHERE id {operator} ? ORDER BY id{direction} LIMIT {limit}")
}

/// Entries of an index from a tuple of `values` leading values on. Values are bound prefix by
/// prefix, the longest first.
pub(crate) fn index_range(table: &str, index: &Index, values: usize, limit: u32) -> String {
    let list = names(&index.keys);
    let alternatives: Vec<String> = (0..values)
        .rev()
        .map(|last| {
            let conditions = index
                .keys
                .iter()
                .take(last + 1)
                .enumerate()
                .map(|(at, key)| {
                    let operator = match (at == last, last + 1 == values) {
                        (false, _) => "=",
                        (true, true) => ">=",
                        (true, false) => ">",
                    };
                    format!("`{key}` {operator} ?")
                });
            format!("({})", conditions.collect::<Vec<_>>().join(" AND "))
        })
        .collect();
    format!(
        "SELECT {list} FROM `{table}` FORCE INDEX (`{}`) WHERE {} ORDER BY {list} LIMIT {limit}",
        index.name,
        alternatives.join(" OR ")
    )
}

#[cfg(test)]
mod tests {
    use lab_kit::row::{DocumentKind, Key, Value};

    use super::*;

    #[test]
    fn statements_bind_every_value() {
        let table = Table {
            name: "t".to_owned(),
            kind: DocumentKind::Small,
            ids_in_no_order: false,
            target_makes_ids: false,
            payload: 10,
            capped_bytes: None,
        };
        let create = create_table(&table, Some("rocksdb"));
        assert!(
            create.starts_with(
                "CREATE TABLE `t` (id BIGINT NOT NULL, `n` BIGINT NOT NULL, `k` \
            INT NOT NULL, `pad` VARCHAR(10)"
            ),
            "{create}"
        );
        assert!(create.ends_with("PRIMARY KEY (id)) ENGINE=rocksdb"));
        let row = Row {
            id: Some(Key::Number(1)),
            fields: vec![("k", Value::Int(1))],
        };
        assert_eq!(
            store("INSERT", "t", &row, 2),
            "INSERT INTO `t` (`id`,`k`) VALUES (?,?),(?,?)"
        );
        let index = Index {
            name: "ab".to_owned(),
            keys: ["a", "b"].map(str::to_owned).to_vec(),
            ..Index::default()
        };
        let unique = Index {
            unique: true,
            ..index.clone()
        };
        assert_eq!(
            create_index("t", &index),
            "CREATE INDEX `ab` ON `t` (`a`, `b`)"
        );
        assert_eq!(
            create_index("t", &unique),
            "CREATE UNIQUE INDEX `ab` ON `t` (`a`, `b`)"
        );
        let statement = index_range("t", &index, 2, 5);
        assert!(
            statement
                .contains("WHERE (`a` = ? AND `b` >= ?) OR (`a` > ?) ORDER BY `a`, `b` LIMIT 5"),
            "{statement}"
        );
        assert!(index_range("t", &index, 1, 5).contains("WHERE (`a` >= ?) ORDER"));
    }
}
