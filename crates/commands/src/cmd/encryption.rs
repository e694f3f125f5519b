//! `compactStructuredEncryptionData`: refuses collections without encrypted fields, as every
//! collection here is.

use crate::ddl::names;
use crate::dispatch::args::{Kind, arg};
use crate::dispatch::command::Command;
use crate::dispatch::ctx::Ctx;
use crate::dispatch::request::Outcome;
use crate::dispatch::spec::{Privilege, flag};
use model::{Result, bail, code};

pub(crate) static COMMANDS: &[Command] = &[Command::new(
    "compactStructuredEncryptionData",
    "shortens the metadata of encrypted fields",
    Privilege::Collection(&[auth::Action::CompactStructuredEncryptionData]),
    flag::WRITE_CONCERN,
    &[
        arg("compactionTokens", Kind::Object).required(),
        arg("encryptionInformation", Kind::Object),
        arg("anchorPaddingFactor", Kind::Number),
    ],
    run,
)
.value(Kind::Collection)];

fn run(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let ns = names::own(cx)?;
    let c = names::not_view(cx, &ns)?;
    if c.options().doc().contains("encryptedFields") {
        bail!(
            code::NOT_IMPLEMENTED,
            "compaction of encrypted fields is not built yet"
        );
    }
    bail!(
        6_346_807,
        "Target namespace {ns} is not an encrypted collection"
    );
}
