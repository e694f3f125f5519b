//! The options of an engine, from its address.

use std::path::{Path, PathBuf};

/// An error of an engine, in its own words.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct EngineError(pub String);

impl EngineError {
    /// From any error.
    pub fn of(error: impl std::fmt::Display) -> Self {
        Self(error.to_string())
    }
}

/// How durable a commit is before it is acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// No log: writes that were not flushed are lost when the process ends.
    None,
    /// Writes are logged but not synced: a crash of the machine loses the last writes.
    #[default]
    Lazy,
    /// Writes are on storage.
    Sync,
}

/// The options of an engine.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Directory or file.
    pub path: PathBuf,
    /// Memory for its cache.
    pub cache_bytes: u64,
    /// The parameters after `?` in the address, as pairs.
    pub parameters: Vec<(String, String)>,
    /// The durability of unsynced writes.
    pub durability: Durability,
}

impl EngineOptions {
    /// Reads `PATH?name=value&...`. The cache is `cache` (bytes, or with K, M, G), 64 MiB without
    /// it.
    ///
    /// # Errors
    /// There is no path, or a value cannot be read.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (path, query) = text.split_once('?').unwrap_or((text, ""));
        let path = path.strip_prefix("//").unwrap_or(path);
        if path.is_empty() {
            return Err("a path must follow the colon".to_owned());
        }
        let mut out = Self {
            path: Path::new(path).to_owned(),
            cache_bytes: 64 << 20,
            parameters: Vec::new(),
            durability: Durability::Lazy,
        };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair
                .split_once('=')
                .ok_or_else(|| format!("'{pair}' is not name=value"))?;
            match name {
                "cache" => out.cache_bytes = parse_bytes(value)?,
                "durability" => {
                    out.durability = match value {
                        "none" => Durability::None,
                        "lazy" => Durability::Lazy,
                        "sync" => Durability::Sync,
                        _ => {
                            return Err(format!(
                                "durability is '{value}'; allowed is none, lazy or sync"
                            ));
                        }
                    }
                }
                _ => out.parameters.push((name.to_owned(), value.to_owned())),
            }
        }
        Ok(out)
    }

    /// Removes a parameter of the engine from the list and returns its value.
    pub fn take(&mut self, name: &str) -> Option<String> {
        let at = self
            .parameters
            .iter()
            .position(|(known, _)| known == name)?;
        Some(self.parameters.remove(at).1)
    }

    /// Removes a switch from the list and returns its value; it is off by default.
    ///
    /// # Errors
    /// The value is neither `true` nor `false`.
    pub fn take_bool(&mut self, name: &str) -> Result<bool, EngineError> {
        Ok(self.take_one_of(name, &["false", "true"])? == "true")
    }

    /// The value of a parameter with a fixed set of values; the first is the default.
    ///
    /// # Errors
    /// The value is not allowed.
    pub fn take_one_of(&mut self, name: &str, allowed: &[&str]) -> Result<String, EngineError> {
        let Some(value) = self.take(name) else {
            return Ok(allowed.first().copied().unwrap_or_default().to_owned());
        };
        if allowed.contains(&value.as_str()) {
            return Ok(value);
        }
        Err(EngineError(format!(
            "{name} is '{value}'; allowed is {}",
            allowed.join(", ")
        )))
    }

    /// The value of a parameter in bytes, if it is given.
    ///
    /// # Errors
    /// The value is not a number of bytes.
    pub fn take_bytes(&mut self, name: &str) -> Result<Option<u64>, EngineError> {
        self.take(name)
            .map(|text| {
                parse_bytes(&text).map_err(|reason| EngineError(format!("{name}: {reason}")))
            })
            .transpose()
    }

    /// Fails if there are parameters that no `take` has read.
    ///
    /// # Errors
    /// There is such a parameter.
    pub fn check_all_taken(&self, allowed: &str) -> Result<(), EngineError> {
        match self.parameters.first() {
            None => Ok(()),
            Some((name, _)) => Err(EngineError(format!(
                "unknown parameter '{name}'; allowed is cache, durability{}{allowed}",
                if allowed.is_empty() { "" } else { ", " }
            ))),
        }
    }
}

/// Parses a number of bytes such as `512M`.
///
/// # Errors
/// The text is not a number, or its unit is unknown.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = text.get(digits.len()..).unwrap_or_default();
    let factor: u64 = match unit.to_ascii_uppercase().as_str() {
        "" | "B" => 1,
        "K" | "KB" | "KIB" => 1 << 10,
        "M" | "MB" | "MIB" => 1 << 20,
        "G" | "GB" | "GIB" => 1 << 30,
        _ => {
            return Err(format!(
                "'{text}' has the unknown unit '{unit}'; allowed is K, M or G"
            ));
        }
    };
    digits
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(factor))
        .ok_or_else(|| format!("'{text}' is not a number of bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_engines() {
        let mut options =
            EngineOptions::parse("/data/x?cache=2M&style=universal&durability=none").unwrap();
        assert_eq!(
            (
                options.path.to_str(),
                options.cache_bytes,
                options.durability
            ),
            (Some("/data/x"), 2 << 20, Durability::None)
        );
        assert!(
            options
                .check_all_taken("")
                .unwrap_err()
                .to_string()
                .contains("'style'")
        );
        assert_eq!(options.take("style").as_deref(), Some("universal"));
        assert!(options.check_all_taken("").is_ok());
        for wrong in [
            "",
            "?cache=1",
            "x?cache=1X",
            "x?cache",
            "x?durability=much",
            "x?cache=99999999999G",
        ] {
            assert!(EngineOptions::parse(wrong).is_err(), "{wrong}");
        }
    }
}
