//! Opening an engine through its adapter, settling, statistics.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use lab_kit::engine::{
    BackgroundFlush, Counters, Durability, EngineError, EngineSession, LabEngine, wait_until_idle,
};
use lab_kit::target::SettleResult;
use lab_kit::workload::Capability;

use crate::compile::load;
use crate::functions::Functions;
use crate::session::Session;
use crate::shared::Shared;
use crate::spec::{AdapterSpec, EngineSpec, Statistics};

const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Compiles the adapter, loads it and opens the engine with `settings`, which are pairs for the
/// adapter.
///
/// # Errors
/// There is no compiler, header or library, or the engine refuses.
pub fn open(
    adapter_spec: &AdapterSpec,
    directory: &Path,
    settings: &[(&str, String)],
    spec: EngineSpec,
) -> Result<Box<dyn LabEngine>, EngineError> {
    let functions =
        Functions::of(load(adapter_spec)?).map_err(|reason| adapter_spec.compile_error(&reason))?;
    let path = CString::new(directory.as_os_str().as_bytes()).map_err(EngineError::of)?;
    let mut words = Vec::new();
    for (name, value) in settings {
        words.push(CString::new(*name).map_err(EngineError::of)?);
        words.push(CString::new(value.as_str()).map_err(EngineError::of)?);
    }
    let mut pointers: Vec<_> = words.iter().map(|word| word.as_ptr()).collect();
    pointers.push(ptr::null());
    let (mut handle, mut said) = (ptr::null_mut(), [0_u8; 512]);
    // SAFETY: path and options are terminated as the adapter expects and live through the call; the
    // out-pointers are valid, and the buffer is one byte longer than the given length, for the zero
    // at its end.
    let status = unsafe {
        (functions.open)(
            path.as_ptr(),
            pointers.as_ptr(),
            &mut handle,
            said.as_mut_ptr().cast(),
            said.len() - 1,
        )
    };
    if status != 0 {
        let length = said
            .iter()
            .position(|byte| *byte == 0)
            .unwrap_or(said.len());
        let said = String::from_utf8_lossy(said.get(..length).unwrap_or_default()).into_owned();
        let text = functions.text(status);
        return Err(EngineError(format!(
            "{} cannot be opened: {text}{}{said}",
            adapter_spec.engine,
            if said.is_empty() { "" } else { "; " }
        )));
    }
    let name = format!(
        "{} {}, {}",
        adapter_spec.engine,
        functions.version(),
        spec.about
    );
    let shared = Arc::new(Shared {
        functions,
        handle,
        spec,
        name,
        configuration: configuration_of(settings),
    });
    let flush = if shared.spec.has_log && shared.spec.durability == Durability::Lazy {
        let session = Session::open(shared.clone())?;
        Some(BackgroundFlush::start(move || session.flush()))
    } else {
        None
    };
    Ok(Box::new(Shim {
        shared,
        _flush: flush,
    }))
}

/// The settings in configuration strings, by the name of the string and of the setting. If a
/// setting occurs twice, the last value counts, as in the engine.
fn configuration_of(settings: &[(&str, String)]) -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    for (of, text) in settings {
        let mut depth = 0_u32;
        let parts = text.split(|letter| {
            match letter {
                '(' | '[' => depth += 1,
                ')' | ']' => depth = depth.saturating_sub(1),
                _ => {}
            }
            letter == ',' && depth == 0
        });
        for part in parts {
            let (name, value) = part.split_once('=').unwrap_or((part, "true"));
            out.insert(format!("{of}.{}", name.trim()), value.trim().to_owned());
        }
    }
    out
}

struct Shim {
    shared: Arc<Shared>,
    _flush: Option<BackgroundFlush>,
}

impl Shim {
    fn read_statistics(&self) -> Result<Statistics, EngineError> {
        Session::open(self.shared.clone())?.statistics()
    }
}

impl LabEngine for Shim {
    fn name(&self) -> String {
        self.shared.name.clone()
    }

    fn configuration(&self) -> BTreeMap<String, String> {
        self.shared.configuration.clone()
    }

    fn unsupported(&self) -> &'static [Capability] {
        &[Capability::Merge, Capability::Capped]
    }

    fn session(&self) -> Result<Box<dyn EngineSession>, EngineError> {
        Ok(Box::new(Session::open(self.shared.clone())?))
    }

    fn settle(&self, timeout: Duration) -> SettleResult {
        let (is_idle, remark) = match self.wait(timeout) {
            Ok(Some(took)) => (
                true,
                format!("checkpoint made, idle after {:.1} s", took.as_secs_f64()),
            ),
            Ok(None) => (false, "still at work in the background".to_owned()),
            Err(error) => (false, error.to_string()),
        };
        SettleResult { is_idle, remark }
    }

    fn statistics(&self) -> serde_json::Value {
        match self.read_statistics() {
            Ok(found) => found
                .into_iter()
                .map(|(name, value)| (name, number(value)))
                .collect::<serde_json::Map<_, _>>()
                .into(),
            Err(error) => serde_json::json!({ "unknown": error.to_string() }),
        }
    }

    fn counters(&self) -> Counters {
        self.read_statistics().map_or_else(
            |_| Counters::default(),
            |found| (self.shared.spec.counters)(&found),
        )
    }
}

impl Shim {
    fn wait(&self, timeout: Duration) -> Result<Option<Duration>, EngineError> {
        let session = Session::open(self.shared.clone())?;
        session.checkpoint()?;
        let mut before = session.statistics()?;
        wait_until_idle(timeout, POLL_INTERVAL, || {
            let now = session.statistics()?;
            let is_busy = (self.shared.spec.is_compacting)(&before, &now);
            before = now;
            Ok(!is_busy)
        })
    }
}

/// A JSON number; whole numbers have no decimal point.
fn number(value: f64) -> serde_json::Value {
    if value.fract() == 0.0 && value.abs() < 9e15 {
        (value as i64).into()
    } else {
        value.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_told_one_by_one() {
        let text = "create,cache_size=1G,log=(enabled=true,prealloc=false),cache_size=2G";
        let found = configuration_of(&[("connection", text.to_owned())]);
        let shown: Vec<String> = found
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        assert_eq!(
            shown,
            [
                "connection.cache_size=2G",
                "connection.create=true",
                "connection.log=(enabled=true,prealloc=false)",
            ]
        );
    }
}
