//! Exists only so that the package has a library and cargo can pin and download what `Cargo.toml`
//! names. Nothing in the product may import it.
