//! `buildInfo`: which release clients may take us for, and what we really are.

use crate::dispatch::command::Command;
use crate::dispatch::ctx::Ctx;
use crate::dispatch::request::Outcome;
use crate::dispatch::spec::{Privilege, flag};
use crate::release::{VERSION, VERSION_PARTS};
use model::{Result, doc_fields};

pub(crate) static COMMANDS: &[Command] = &[Command::new(
    "buildInfo",
    "version and build of the server",
    Privilege::Any,
    flag::NO_AUTH,
    &[],
    run,
)
.aliases(&["buildinfo"])];

fn run(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let w = &mut cx.reply;
    doc_fields!(w;
        "version": VERSION,
        "gitVersion": option_env!("QUARRY_GIT_VERSION").unwrap_or("unknown"),
        "modules": [],
        "allocator": "jemalloc",
        "javascriptEngine": if cx.service.config.scripting { "quickjs" } else { "none" },
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
    Ok(Outcome::Reply)
}
