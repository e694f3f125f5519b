//! Where a repository is, from the argument of the command line: a folder, or `s3://BUCKET/PREFIX`.

use super::bucket::Bucket;
use crate::failure::Failure;
use ::backup::{Digest, Location};
use std::path::{Path, PathBuf};

/// # Errors
/// One line: the bucket's name is not valid, or settings are missing.
pub(super) fn location(given: &Path) -> Result<Location, Failure> {
    let Some(name) = given.to_str().and_then(|text| text.strip_prefix("s3://")) else {
        return Ok(given.into());
    };
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let bucket = Bucket::of(name, &variable).map_err(Failure::of_options)?;
    let cache = variable("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(Path::new(&variable("HOME")?).join(".cache")));
    let cache = cache.ok_or_else(|| {
        Failure::of_options("a bucket needs a local folder for unfinished files: set HOME")
    })?;
    let digest = Digest::of(bucket.identity().as_bytes()).to_string();
    let digest = digest.get(..16).unwrap_or(&digest);
    let work = cache.join("quarry").join(format!("backup-{digest}"));
    Ok(Location::Elsewhere(Box::new(bucket), work))
}
