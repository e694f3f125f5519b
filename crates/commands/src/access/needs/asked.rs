//! A request whose rights are in question.

use crate::access::rights::{Rights, refused};
use crate::access::user::User;
use crate::dispatch::request::Sequence;
use auth::{Action, Target};
use model::{Doc, Result, Value};

/// A request whose rights are in question, before its command looks at it.
pub struct Asked<'a> {
    /// Database.
    pub(crate) db: &'a str,
    /// The command document.
    pub(crate) body: Doc<'a>,
    /// Its document sequences.
    pub(crate) sequences: &'a [Sequence<'a>],
    /// What the user may do.
    pub(crate) rights: Rights<'a>,
    /// The user.
    pub(crate) user: Option<&'a User>,
    /// Checks a command inside this one, by its name, on a database.
    pub(crate) inner: &'a dyn Fn(&str, &str, Doc<'_>) -> Result<()>,
}

impl<'a> Asked<'a> {
    /// Refuses unless all these actions are allowed on the target.
    ///
    /// # Errors
    /// 13 Unauthorized.
    pub(crate) fn needs(&self, target: Target<'_>, actions: &[Action]) -> Result<()> {
        self.unless(self.rights.allows(target, actions))
    }

    /// The same for a collection of the request's database.
    pub(crate) fn needs_on(&self, coll: &str, actions: &[Action]) -> Result<()> {
        self.needs(Target::Collection(self.db, coll), actions)
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

    /// The command's own value.
    pub(crate) fn value(&self) -> Value<'a> {
        self.body.first().map_or(Value::Missing, |(_, v)| v)
    }

    /// The collection the command names in its own value; empty when it names none.
    pub(crate) fn own(&self) -> &'a str {
        self.value().as_str().unwrap_or("")
    }

    /// Every value of a field.
    pub(crate) fn all<'n>(&self, name: &'n str) -> impl Iterator<Item = Value<'a>> + use<'a, 'n> {
        fields(self.body, name)
    }

    /// Whether the field is true anywhere.
    pub(crate) fn is(&self, name: &str) -> bool {
        self.all(name).any(|v| v.truthy())
    }

    /// The documents of a field, in the body or as a sequence.
    pub(crate) fn documents(&self, name: &str) -> Vec<Doc<'a>> {
        let mut found: Vec<Doc<'a>> = Vec::new();
        for list in self.all(name).filter_map(|v| v.as_array()) {
            found.extend(list.iter().filter_map(|v| v.as_doc()));
        }
        for sequence in self.sequences.iter().filter(|s| s.name == name) {
            found.extend(sequence.iter());
        }
        found
    }
}

/// Every value of a field of a document.
pub(crate) fn fields<'a, 'n>(
    doc: Doc<'a>,
    name: &'n str,
) -> impl Iterator<Item = Value<'a>> + use<'a, 'n> {
    doc.iter().filter(move |(n, _)| *n == name).map(|(_, v)| v)
}

/// Whether the field is true anywhere.
pub(crate) fn is(doc: Doc<'_>, name: &str) -> bool {
    fields(doc, name).any(|v| v.truthy())
}
