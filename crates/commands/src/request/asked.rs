//! A request whose rights are in question. It holds the arguments that the command will run with,
//! checked by the command's own table, and not the document they came in: what is asked about and
//! what runs is read once.
//!
//! Must not know: what commands do.

use crate::access::{Rights, User, refused};
use crate::request::args::{Args, collection_name};
use auth::{Action, Target};
use model::{Doc, Namespace, Result, Value};

/// Checks the needs of a command inside another one.
pub(crate) type CheckInner<'s> = dyn Fn(Doc<'_>) -> Result<()> + 's;

/// A request whose rights are in question, before its command looks at it.
pub struct RightsRequest<'s, 'a> {
    /// Database.
    pub(crate) db: &'s str,
    /// The command document, shown to the user who is refused.
    pub(crate) body: Doc<'a>,
    /// The command's own value.
    pub(crate) value: Value<'a>,
    /// The arguments it runs with.
    pub(crate) args: &'s Args<'a>,
    /// What the user may do.
    pub(crate) rights: Rights<'s>,
    /// The user.
    pub(crate) user: Option<&'s User>,
    /// Checks a command that stands inside this one, on the same database.
    pub(crate) inner: &'s CheckInner<'s>,
}

impl<'a> RightsRequest<'_, 'a> {
    /// Refuses unless all these actions are allowed on the target.
    ///
    /// # Errors
    /// 13 Unauthorized.
    pub(crate) fn needs(&self, target: Target<'_>, actions: &[Action]) -> Result<()> {
        self.unless(self.rights.allows(target, actions))
    }

    /// The same for a collection of the request's database.
    ///
    /// # Errors
    /// 13 Unauthorized.
    pub(crate) fn needs_on(&self, coll: &str, actions: &[Action]) -> Result<()> {
        self.needs(Target::Collection(self.db, coll), actions)
    }

    /// The same for a namespace.
    ///
    /// # Errors
    /// 13 Unauthorized.
    pub(crate) fn needs_at(&self, ns: &Namespace, actions: &[Action]) -> Result<()> {
        self.needs(Target::Collection(ns.db(), ns.coll()), actions)
    }

    /// Actions that write documents, and the right to write what no validator has seen when that is
    /// asked for.
    ///
    /// # Errors
    /// 13 Unauthorized.
    pub(crate) fn needs_to_write(&self, target: Target<'_>, actions: &[Action]) -> Result<()> {
        self.needs(target, actions)?;
        if self.args.bool("bypassDocumentValidation", false) {
            self.needs(target, &[Action::BypassDocumentValidation])?;
        }
        Ok(())
    }

    /// Whether all these actions are allowed on the target.
    pub(crate) fn may(&self, target: Target<'_>, actions: &[Action]) -> bool {
        self.rights.allows(target, actions)
    }

    /// Refuses when not `allowed`.
    ///
    /// # Errors
    /// 13 Unauthorized.
    pub(crate) fn unless(&self, allowed: bool) -> Result<()> {
        if allowed {
            Ok(())
        } else {
            Err(refused(self.db, self.body))
        }
    }

    /// The collection the command names in its own value.
    ///
    /// # Errors
    /// 73 InvalidNamespace when it names none.
    pub(crate) fn own(&self) -> Result<&'a str> {
        collection_name(&self.value)
    }
}
