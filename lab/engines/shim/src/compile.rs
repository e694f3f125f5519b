//! The adapter of an address, compiled and loaded; how, `adapter` knows.

use adapter::Spec;
use lab_kit::engine::EngineError;
use libloading::Library;

use crate::spec::AdapterSpec;

const HEADER: &str = include_str!("adapter.h");

impl AdapterSpec {
    fn spec(&self) -> Spec<'_> {
        Spec {
            engine: self.engine,
            source: self.source,
            header: HEADER,
            include: self.include.as_deref(),
            library: &self.library,
            advice: self.advice,
        }
    }

    /// Why it cannot be made, in one line.
    pub(crate) fn failed(&self, reason: &str) -> EngineError {
        EngineError(self.spec().failed(reason))
    }
}

/// Compiles an adapter and loads it.
///
/// # Errors
/// There is no compiler, header or library.
pub fn load(adapter_spec: &AdapterSpec) -> Result<Library, EngineError> {
    adapter_spec.spec().load().map_err(EngineError)
}
