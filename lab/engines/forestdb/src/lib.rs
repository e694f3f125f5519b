//! `ForestDB`, from the user's own shared library, as a target of the lab. The lab does not link
//! it: the library is opened at run time.
//!
//! Promises: a clear message if the library is absent or lacks a function; separate handles for
//! each session, as `ForestDB` needs. Requires version 1 or later (the key-value store interface).
//! The engine keeps its default settings unless a threshold is given. In that case a small adapter
//! is compiled against the user's header, because the settings structure differs between versions.
//! Must not know: rows, workloads.

mod library;
mod settings;
mod store;

use std::sync::Arc;
use std::time::{Duration, Instant};

use lab_kit::engine::{
    Durability, EngineError, EngineOptions, EngineSession, KeyChange, LabEngine, RowVisitor,
};
use lab_kit::target::SettleResult;
use lab_kit::workload::Capability;

use library::Library;
use settings::Settings;
use store::{KeyIterator, StoreHandle};

/// Uncommitted changes of a session reach storage after this long.
const COMMIT_EVERY: Duration = Duration::from_secs(1);

/// Opens a database below a directory. `library` names the shared library, `libforestdb.so` by
/// default; `threshold` is the percentage of garbage at which a file is compacted; `files` is the
/// number of files over which keys are spread.
///
/// # Errors
/// The library is absent or too old, a file cannot be used, or a parameter is unknown.
pub fn open(options: EngineOptions) -> Result<Box<dyn LabEngine>, EngineError> {
    let durability = options.durability;
    let settings = Settings::take(options)?;
    let library = Arc::new(Library::load(&settings.library)?);
    let forest = ForestDb {
        library,
        settings: Arc::new(settings.resolve()?),
        durability,
    };
    forest.connect()?;
    Ok(Box::new(forest))
}

struct ForestDb {
    library: Arc<Library>,
    settings: Arc<settings::ResolvedSettings>,
    durability: Durability,
}

impl ForestDb {
    fn connect(&self) -> Result<Session, EngineError> {
        let open = |path| StoreHandle::open(self.library.clone(), path, self.settings.config());
        let stores = self
            .settings
            .paths
            .iter()
            .map(open)
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Session {
            stores,
            _settings: self.settings.clone(),
            always_commit: self.durability == Durability::Sync,
            committed: Instant::now(),
            is_dirty: false,
        })
    }
}

impl LabEngine for ForestDb {
    fn name(&self) -> String {
        format!(
            "ForestDB ({}), {}",
            self.settings.library, self.settings.about
        )
    }

    fn unsupported(&self) -> &'static [Capability] {
        &[Capability::Merge, Capability::Capped]
    }

    fn session(&self) -> Result<Box<dyn EngineSession>, EngineError> {
        Ok(Box::new(self.connect()?))
    }

    fn settle(&self, _: Duration) -> SettleResult {
        let committed = self.connect().and_then(|mut session| session.commit());
        SettleResult {
            is_idle: committed.is_ok(),
            remark: committed.map_or_else(
                |error| error.to_string(),
                |()| "committed; whether it compacts is not known".to_owned(),
            ),
        }
    }

    fn statistics(&self) -> serde_json::Value {
        serde_json::json!({ "library": self.settings.library })
    }
}

struct Session {
    /// One handle for each file; keys are spread over the files.
    stores: Vec<StoreHandle>,
    /// The handles above refer to these settings.
    _settings: Arc<settings::ResolvedSettings>,
    always_commit: bool,
    committed: Instant,
    is_dirty: bool,
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.is_dirty {
            let _ = self.commit();
        }
    }
}

impl Session {
    fn commit(&mut self) -> Result<(), EngineError> {
        (self.committed, self.is_dirty) = (Instant::now(), false);
        self.stores.iter().try_for_each(StoreHandle::commit)
    }

    fn store(&self, key: &[u8]) -> Result<&StoreHandle, EngineError> {
        // FNV-1a, so that a key is in the same file in every build and run.
        let mix = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        let sum = key.iter().fold(0xcbf2_9ce4_8422_2325, mix);
        let at = usize::try_from(sum >> 32).unwrap_or(0) % self.stores.len().max(1);
        self.stores
            .get(at)
            .ok_or_else(|| EngineError("no file".to_owned()))
    }
}

impl EngineSession for Session {
    /// With several files a batch is one commit per file, so a crash between two commits may keep
    /// only part of it.
    fn write(&mut self, batch: &[KeyChange], sync: bool) -> Result<(), EngineError> {
        for change in batch {
            match change {
                KeyChange::Put(key, value) => self.store(key)?.put(key, value)?,
                KeyChange::Delete(key) => self.store(key)?.delete(key)?,
                KeyChange::Merge(..) => {
                    return Err(EngineError("ForestDB has no merge".to_owned()));
                }
            }
        }
        self.is_dirty = true;
        if sync || self.always_commit || self.committed.elapsed() >= COMMIT_EVERY {
            self.commit()?;
        }
        Ok(())
    }

    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> Result<bool, EngineError> {
        self.store(key)?.get(key, out)
    }

    fn scan(
        &mut self,
        from: &[u8],
        end: &[u8],
        reverse: bool,
        visit: RowVisitor<'_>,
    ) -> Result<(), EngineError> {
        let iterator = |store| KeyIterator::begin(store, from, end, reverse);
        let mut iterators = self
            .stores
            .iter()
            .map(iterator)
            .collect::<Result<Vec<_>, _>>()?;
        loop {
            let next = iterators
                .iter_mut()
                .filter(|iterator| iterator.key().is_some())
                .min_by(|a, b| {
                    let order = a.key().cmp(&b.key());
                    if reverse { order.reverse() } else { order }
                });
            let Some(next) = next else { return Ok(()) };
            if !next.row().is_some_and(|(key, value)| visit(key, value)) {
                return Ok(());
            }
            next.step();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(library: &str) -> String {
        let directory = tempfile::tempdir().unwrap();
        let address = format!("{}?library={library}", directory.path().display());
        open(EngineOptions::parse(&address).unwrap())
            .err()
            .unwrap()
            .to_string()
    }

    #[test]
    fn an_absent_library_is_one_clear_line() {
        let text = message("libforestdb-that-is-not-there.so");
        assert!(
            text.starts_with("ForestDB's library cannot be opened")
                && text.contains("library=PATH")
                && !text.contains('\n'),
            "{text}"
        );
    }

    #[test]
    fn another_library_is_named_as_such() {
        let text = message("libc.so.6");
        assert!(text.contains("has no function fdb_"), "{text}");
    }

    const FAKE: &str = "tests/fake";

    #[test]
    fn passes_the_engine_contract_on_a_stand_in() {
        let built = tempfile::tempdir().unwrap();
        let library = built.path().join("libfake.so");
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
        let ran = std::process::Command::new(&compiler)
            .args(["-shared", "-fPIC", "-O1", "-I", FAKE, "-o"])
            .arg(&library)
            .arg(format!("{FAKE}/forest.c"))
            .output();
        match ran {
            Ok(ran) => assert!(
                ran.status.success(),
                "{}",
                String::from_utf8_lossy(&ran.stderr)
            ),
            Err(error) => return eprintln!("skipped: no C compiler {compiler}: {error}"),
        }
        for form in ["", "files=3", "threshold=50&files=2"] {
            let directory = tempfile::tempdir().unwrap();
            let form = format!("library={}&include={FAKE}&{form}", library.display());
            lab_kit::engine::contract::check_with(directory.path(), &form, &open);
        }
        let directory = tempfile::tempdir().unwrap();
        let address = format!(
            "{}?library={}&include={FAKE}&threshold=25&files=8",
            directory.path().display(),
            library.display()
        );
        let name = open(EngineOptions::parse(&address).unwrap())
            .unwrap()
            .name();
        assert!(
            name.contains("above 25 % of garbage, cache 64 MiB, 8 files"),
            "{name}"
        );
        assert_eq!(
            std::fs::read_dir(directory.path()).unwrap().count(),
            0,
            "nothing was committed"
        );
    }

    #[test]
    fn refusals_say_what_is_allowed() {
        for (query, words) in [
            ("threshold=0", ["'0'", "1 to 99"]),
            ("files=many", ["'many'", "1 to 256"]),
            ("rate=1", ["'rate'", "threshold"]),
            (
                "threshold=50&library=nowhere/libforestdb.so",
                ["ForestDB's library", "nowhere"],
            ),
        ] {
            let text = open(EngineOptions::parse(&format!("x?{query}")).unwrap())
                .err()
                .unwrap()
                .to_string();
            assert!(words.iter().all(|word| text.contains(word)), "{text}");
        }
    }

    #[test]
    #[ignore = "needs a real library, named by QUARRY_LAB_FORESTDB"]
    fn passes_the_engine_contract() {
        let library = std::env::var("QUARRY_LAB_FORESTDB").unwrap();
        let directory = tempfile::tempdir().unwrap();
        lab_kit::engine::contract::check_with(
            directory.path(),
            &format!("library={library}"),
            &open,
        );
    }
}
