//! Shared by all commands that write batches: their flags, the limit of a batch, `writeErrors`.

use model::{DocWriter, MongoError, Result, bail, code};
use request::spec::flag;

/// The flags of all commands that write batches.
pub const FLAGS: u32 = flag::API_V1
    | flag::WRITE_CONCERN
    | flag::WRITE
    | flag::RETRYABLE
    | flag::IN_TRANSACTION
    | flag::RESUMABLE;

/// Most bytes of `errInfo` of all errors in one reply.
const EXTRA_BYTES_MAX: usize = 8 << 20;

/// Checks the number of operations of a batch.
///
/// # Errors
/// 16 InvalidLength.
pub fn check_batch(count: usize) -> Result<()> {
    let max = usize::try_from(state::release::WRITE_BATCH_MAX).unwrap_or(100_000);
    if (1..=max).contains(&count) {
        return Ok(());
    }
    bail!(
        code::INVALID_LENGTH,
        "Write batch sizes must be between 1 and {max}. Got {count} operations"
    );
}

/// Writes `writeErrors` if there are errors.
pub fn write_errors(reply: &mut DocWriter<'_>, errors: &[(usize, MongoError)]) {
    if errors.is_empty() {
        return;
    }
    let mut list = reply.array("writeErrors");
    let mut left = EXTRA_BYTES_MAX;
    for (index, e) in errors {
        let mut one = list.doc();
        one.put("index", i32::try_from(*index).unwrap_or(i32::MAX))
            .put("code", e.code());
        if let Some(extra) = e.extra_fields().filter(|x| x.as_bytes().len() <= left) {
            left -= extra.as_bytes().len();
            one.put_all(extra.doc());
        }
        one.put("errmsg", e.message());
    }
}
