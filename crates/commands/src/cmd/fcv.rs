//! `setFeatureCompatibilityVersion`: the release whose features may be used.

use context::command::Command;
use context::ctx::Ctx;
use context::rules::validator::is_guarded;
use model::{Result, bail, code};
use request::Outcome;
use request::args::{Kind, arg};
use request::spec::{Privilege, flag};
use state::release::Release;

pub(crate) static COMMANDS: &[Command] = &[Command::new(
    "setFeatureCompatibilityVersion",
    "sets the release whose features may be used",
    Privilege::Cluster(&[auth::Action::SetFeatureCompatibilityVersion]),
    flag::ADMIN | flag::WRITE_CONCERN | flag::WRITE,
    &[
        arg("confirm", Kind::BoolLike),
        arg("downgradeOnDiskChanges", Kind::BoolLike),
        arg("fromConfigServer", Kind::BoolLike),
    ],
    run,
)
.value(Kind::Str)];

fn run(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    if !cx.args.bool("confirm", false) {
        bail!(
            7_369_100,
            "Changing the feature compatibility version needs 'confirm: true'; features of the \
                newer version stop working after a downgrade"
        );
    }
    let version = cx.value().as_str().unwrap_or("");
    let known = Release::of(cx.service.config.profile).fcv;
    if !known.contains(&version) {
        bail!(
            4_926_900,
            "Invalid feature compatibility version value '{version}', expected one of {}",
            known.join(", ")
        );
    }
    if known.first() != Some(&version) {
        check_downgrade(cx, version)?;
    }
    cx.service.set_version(version)?;
    Ok(Outcome::Reply)
}

/// Checks that no feature is in use that the older release does not have.
///
/// # Errors
/// 332 CannotDowngrade when a collection has the validation level `constraint` or is prepared for
/// it.
fn check_downgrade(cx: &Ctx<'_, '_>, version: &str) -> Result<()> {
    let store = &cx.service.store;
    for db in store.list_databases()? {
        for entry in store.list_collections(&db)? {
            if is_guarded(entry.row.options.doc()) {
                bail!(
                    code::CANNOT_DOWNGRADE,
                    "{db}.{} has the validation level 'constraint' or is prepared for it, which \
                        {version} does not know; set the level 'strict' first",
                    entry.name
                );
            }
        }
    }
    Ok(())
}
