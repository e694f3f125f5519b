//! The release of MongoDB that is presented to clients, and its limits.

use model::{DocWriter, doc_fields};

/// Version we are compatible with.
pub const VERSION: &str = "8.2.0";
/// The same, part by part.
pub(crate) const VERSION_PARTS: [i32; 4] = [8, 2, 0, 0];
/// Feature compatibility version.
pub(crate) const FCV: &str = "8.2";
/// That of the release before, the only other one that is known.
pub(crate) const FCV_BEFORE: &str = "8.0";
/// Wire version of that release.
pub(crate) const WIRE_VERSION_MAX: i32 = 27;
/// Most operations in one write batch.
pub(crate) const WRITE_BATCH_MAX: i32 = 100_000;
/// Largest message.
pub(crate) const MESSAGE_BYTES_MAX: i32 = 48_000_000;
/// Minutes until an unused session ends.
pub(crate) const SESSION_TIMEOUT_MINUTES: i32 = 30;

/// What `buildInfo` says, without `ok`.
pub(crate) fn describe_build(scripting: bool, w: &mut DocWriter<'_>) {
    doc_fields!(w;
        "version": VERSION,
        "gitVersion": option_env!("QUARRY_GIT_VERSION").unwrap_or("unknown"),
        "modules": [],
        "allocator": "jemalloc",
        "javascriptEngine": if scripting { "quickjs" } else { "none" },
        "sysInfo": "deprecated"
    );
    let mut parts = w.array("versionArray");
    for part in VERSION_PARTS {
        parts.push(part);
    }
    drop(parts);
    doc_fields!(w;
        "openssl": { "running": "none", "compiled": "none" },
        "buildEnvironment": {
            "distmod": "",
            "distarch": std::env::consts::ARCH,
            "cc": "rustc",
            "target_arch": std::env::consts::ARCH,
            "target_os": std::env::consts::OS
        },
        "bits": 64i32,
        "debug": cfg!(debug_assertions),
        "maxBsonObjectSize": model::bson::MAX_DOCUMENT_BYTES as i32,
        "storageEngines": ["rocksdb", "wiredTiger"],
        "quarry": { "version": env!("CARGO_PKG_VERSION") }
    );
}
