//! The kinds of storage system of a target, by its name or address.

use crate::result::RunResult;

/// The kinds of system that a run's target belongs to.
pub fn systems(run: &RunResult) -> Vec<&'static str> {
    let target = &run.target;
    let text = format!(
        "{} {}",
        target.product,
        target.storage_engine.as_deref().unwrap_or_default()
    );
    kinds(&text, &target.uri)
}

/// The kinds of system behind an address; `None` if the address alone does not tell.
pub fn systems_at(address: &str) -> Option<Vec<&'static str>> {
    let (scheme, rest) = address.split_once(':')?;
    let engine = rest
        .split_once("engine=")
        .map(|(_, engine)| engine.split('&').next().unwrap_or_default());
    match (scheme, engine) {
        ("mysql" | "mariadb", Some(engine)) => Some(kinds(engine, address)),
        ("mysql" | "mariadb" | "mongodb" | "mongodb+srv", _) => None,
        // For an engine in the lab's process, the option `style` may determine the kind of tree.
        (engine, _) => {
            let style = rest
                .split_once("style=")
                .map_or("", |(_, style)| style.split('&').next().unwrap_or_default());
            Some(kinds(&format!("{engine} {style}"), address))
        }
    }
}

fn kinds(text: &str, uri: &str) -> Vec<&'static str> {
    let text = text.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    let mut out = Vec::new();
    if has(&["rocksdb", "myrocks", "fjall", "lsm"]) {
        out.push("lsm");
    } else if has(&["innodb", "wiredtiger", "lmdb", "redb"]) {
        out.push("btree");
    }
    if has(&["wiredtiger"]) {
        out.push(if has(&["lsm"]) {
            "wiredtiger-lsm"
        } else {
            "wiredtiger-btree"
        });
    }
    if has(&["lmdb"]) {
        out.push("mmap");
    }
    if has(&["forestdb"]) {
        out.push("append");
    }
    if has(&["fractal", "perconaft"]) {
        out.push("write-optimised");
    }
    let is_server = ["mongodb", "mysql", "mariadb"]
        .iter()
        .any(|scheme| uri.starts_with(scheme));
    if has(&["innodb", "myrocks"]) {
        out.push("clustered");
    }
    if is_server && has(&["innodb", "wiredtiger"]) {
        out.push("file-per-table");
    } else if is_server && has(&["rocksdb", "myrocks"]) {
        out.push("shared-keyspace");
    }
    out.push(if is_server { "server" } else { "engine" });
    out
}
