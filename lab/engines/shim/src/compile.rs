//! Compiles and loads the adapter of an address.

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

    /// The error, in one line, of an adapter that cannot be made.
    pub(crate) fn compile_error(&self, reason: &str) -> EngineError {
        EngineError(self.spec().failure_message(reason))
    }
}

/// Compiles an adapter and loads it.
///
/// # Errors
/// There is no compiler, header or library.
pub fn load(adapter_spec: &AdapterSpec) -> Result<Library, EngineError> {
    adapter_spec.spec().load().map_err(EngineError)
}
