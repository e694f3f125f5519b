//! The binary `quarry`. For now it only says that no engine is linked; the network layer is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    eprintln!(
        "quarry {}: no storage engine is linked into this build, nothing is served",
        env!("CARGO_PKG_VERSION")
    );
    ExitCode::FAILURE
}
