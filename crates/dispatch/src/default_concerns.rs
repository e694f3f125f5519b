//! The default concerns of a request that has none of its own. Must not know: where the defaults
//! are kept.

use request::concern::WriteConcern;
use request::generic::Generic;
use request::spec::{Spec, flag};
use state::concerns::DefaultConcerns;

/// Sets the default concerns when the client sent none. Statements of a transaction use the
/// concerns of its start and of its commit.
pub(super) fn fill_defaults(generic: &mut Generic<'_>, command: &Spec, defaults: &DefaultConcerns) {
    let Some(set) = defaults.current() else {
        return;
    };
    let in_transaction = generic.is_in_transaction();
    if command.is(flag::READ_CONCERN)
        && (!in_transaction || generic.start_transaction)
        && !generic.read_concern.is_some_and(|c| c.level_given)
        && let Some(level) = set.read
    {
        generic.read_concern.get_or_insert_default().level = level;
    }
    if command.is(flag::WRITE_CONCERN)
        && (!in_transaction || command.is(flag::ENDS_TRANSACTION))
        && generic.write_concern.is_none()
        && let Some(concern) = &set.write
    {
        generic.write_concern = Some(WriteConcern {
            is_default: true,
            ..concern.clone()
        });
    }
}
