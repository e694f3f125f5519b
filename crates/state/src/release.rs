//! The release of MongoDB that is presented to clients, and its limits.

use crate::config::Config;
use model::{DocWriter, doc_fields};
use operators::Profile;

/// The version numbers and limits of a release.
#[derive(Debug)]
pub struct Release {
    /// Its version.
    pub version: &'static str,
    /// The parts of the version.
    pub(crate) parts: [i32; 4],
    /// The feature compatibility versions that the release supports, its own first.
    pub fcv: &'static [&'static str],
    /// Its wire version.
    pub wire_version_max: i32,
}

static V8_2: Release = Release {
    version: "8.2.0",
    parts: [8, 2, 0, 0],
    fcv: &["8.2", "8.0"],
    wire_version_max: 27,
};

static V9_0: Release = Release {
    version: "9.0.0",
    parts: [9, 0, 0, 0],
    fcv: &["9.0", "8.3", "8.0"],
    wire_version_max: 29,
};

impl Release {
    /// The release that a profile follows.
    pub fn of(profile: Profile) -> &'static Release {
        match profile {
            Profile::V8_2 => &V8_2,
            Profile::V9_0 => &V9_0,
        }
    }

    /// The release's own feature compatibility version.
    pub(crate) fn own_fcv(&self) -> &'static str {
        self.fcv.first().copied().unwrap_or(self.version)
    }
}

/// Most operations in one write batch.
pub const WRITE_BATCH_MAX: i32 = 100_000;
/// Largest message, in bytes.
pub const MESSAGE_BYTES_MAX: i32 = 48_000_000;
/// Minutes after which an unused session ends.
pub const SESSION_TIMEOUT_MINUTES: i32 = 30;

/// Writes the fields of `buildInfo` except `ok`.
pub fn describe_build(config: &Config, w: &mut DocWriter<'_>) {
    let release = Release::of(config.profile);
    doc_fields!(w;
        "version": release.version,
        "gitVersion": config.revision,
        "modules": [],
        "allocator": "jemalloc",
        "javascriptEngine": if config.scripting { "quickjs" } else { "none" },
        "sysInfo": "deprecated"
    );
    let mut parts = w.array("versionArray");
    for part in release.parts {
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
