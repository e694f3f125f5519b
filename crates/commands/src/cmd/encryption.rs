//! `compactStructuredEncryptionData` and `cleanupStructuredEncryptionData`: in MongoDB they compact
//! the metadata that the server stores for encrypted fields. Quarry stores none, so the commands
//! only check the arguments and the collection. If such metadata was imported, they fail instead of
//! silently leaving it unchanged.

use context::command::Command;
use context::ctx::Ctx;
use context::ddl::names;
use model::{Array, Doc, Namespace, Result, bail, code};
use request::Outcome;
use request::args::{Arg, Kind, arg};
use request::spec::{Privilege, flag};
use store::Collection;

const OTHERS: [Arg; 2] = [
    arg("encryptionInformation", Kind::Object),
    arg("anchorPaddingFactor", Kind::Number),
];

pub(crate) static COMMANDS: &[Command] = &[
    Command::new(
        "cleanupStructuredEncryptionData",
        "removes metadata of encrypted fields that is not needed any more",
        Privilege::Collection(&[auth::Action::CleanupStructuredEncryptionData]),
        flag::WRITE_CONCERN,
        &[arg("cleanupTokens", Kind::Object).required(), OTHERS[0]],
        cleanup,
    )
    .value(Kind::Collection),
    Command::new(
        "compactStructuredEncryptionData",
        "shortens the metadata of encrypted fields",
        Privilege::Collection(&[auth::Action::CompactStructuredEncryptionData]),
        flag::WRITE_CONCERN,
        &[
            arg("compactionTokens", Kind::Object).required(),
            OTHERS[0],
            OTHERS[1],
        ],
        compact,
    )
    .value(Kind::Collection),
];

fn compact(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let ns = names::read_collection(cx)?;
    let c = names::find_non_view(cx, &ns)?;
    let options = c.options();
    let Some(encrypted) = options.doc().field("encryptedFields").as_doc() else {
        bail!(
            6_346_807,
            "Target namespace {ns} is not an encrypted collection"
        );
    };
    check_tokens(cx, &c, encrypted, "compactionTokens")?;
    let mut stats = cx.reply.doc("stats");
    stats.doc("ecoc").put("read", 0i64).put("deleted", 0i64);
    let mut esc = stats.doc("esc");
    esc.put("read", 0i64).put("inserted", 0i64);
    esc.put("updated", 0i64).put("deleted", 0i64);
    Ok(Outcome::Reply)
}

fn cleanup(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let ns = names::read_collection(cx)?;
    let c = names::find_non_view(cx, &ns)?;
    let options = c.options();
    let Some(encrypted) = options.doc().field("encryptedFields").as_doc() else {
        bail!(
            7_618_803,
            "Target namespace {ns} is not an encrypted collection"
        );
    };
    check_tokens(cx, &c, encrypted, "cleanupTokens")?;
    let mut stats = cx.reply.doc("stats");
    stats.doc("ecoc").put("read", 0i64).put("deleted", 0i64);
    let mut esc = stats.doc("esc");
    esc.put("read", 0i64).put("deleted", 0i64);
    Ok(Outcome::Reply)
}

/// Checks that every encrypted field has a token and that there is no metadata.
fn check_tokens(
    cx: &Ctx<'_, '_>,
    c: &Collection,
    encrypted: Doc<'_>,
    argument: &str,
) -> Result<()> {
    let tokens = cx.args.doc(argument).unwrap_or(Doc::EMPTY);
    let fields = encrypted.field("fields").as_array().unwrap_or(Array::EMPTY);
    for path in fields
        .iter()
        .filter_map(|f| f.as_doc()?.field("path").as_str())
    {
        if !tokens.contains(path) {
            bail!(
                7_294_900,
                "{argument} does not contain a token for encrypted path {path}"
            );
        }
    }
    for (option, kind) in [("escCollection", "esc"), ("ecocCollection", "ecoc")] {
        let default = format!("enxcol_.{}.{kind}", c.ns().coll());
        let name = encrypted.field(option).as_str().unwrap_or(&default);
        let metadata = Namespace::new(cx.db, name)?;
        let kept = cx.service.store.collection(&metadata)?;
        if kept.is_some_and(|m| m.count() > 0) {
            bail!(
                code::NOT_IMPLEMENTED,
                "{metadata} holds metadata that another server wrote; {} cannot work on it",
                cx.command.name
            );
        }
    }
    Ok(())
}
