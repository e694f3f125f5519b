//! Background work that an engine has postponed, from its own statistics.

use serde_json::Value;

/// Bytes that wait for a flush or compaction: in engines of the lab's process, WiredTiger's cache,
/// InnoDB's pages, or Quarry.
pub fn of_statistics(statistics: &Value) -> Option<u64> {
    let at = |path: &[&str]| {
        number(
            path.iter()
                .try_fold(statistics, |value, key| value.get(key))?,
        )
    };
    at(&["debt_bytes"])
        .or_else(|| of_quarry(statistics.get("quarry")?.get("engine")?))
        .or_else(|| at(&["wiredTiger", "cache", "tracked dirty bytes in the cache"]))
        .or_else(|| at(&["Innodb_buffer_pool_bytes_dirty"]))
}

/// Quarry reports pending compactions for each table, and memory tables for all tables together.
fn of_quarry(engine: &Value) -> Option<u64> {
    let metrics = engine.as_object()?;
    let pending = metrics
        .iter()
        .filter(|(name, _)| name.ends_with(".pending_compaction_bytes"))
        .filter_map(|(_, value)| number(value));
    Some(pending.sum::<u64>() + number(metrics.get("memtables_total_bytes")?)?)
}

/// Reads a number, which may also be text or, for the driver's long integers, extended JSON.
fn number(found: &Value) -> Option<u64> {
    let number = found.get("$numberLong").unwrap_or(found);
    number.as_u64().or_else(|| number.as_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_kind_of_server_says_it_elsewhere() {
        for (statistics, wanted) in [
            (json!({"debt_bytes": 5}), Some(5)),
            (
                json!({"quarry": {"engine": {"data.pending_compaction_bytes": 30,
                    "index.pending_compaction_bytes": 4, "memtables_total_bytes": 200}},
                    "wiredTiger": {"cache": {"tracked dirty bytes in the cache": 1}}}),
                Some(234),
            ),
            (
                json!({"wiredTiger": {"cache": {
                    "tracked dirty bytes in the cache": {"$numberLong": "77"}}}}),
                Some(77),
            ),
            (
                json!({"Innodb_buffer_pool_bytes_dirty": "16384"}),
                Some(16_384),
            ),
            (json!({"ok": 1}), None),
            (Value::Null, None),
        ] {
            assert_eq!(of_statistics(&statistics), wanted, "{statistics}");
        }
    }
}
