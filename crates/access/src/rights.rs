//! The rights of one request: what the user of its connection may do. Without access control,
//! everything is allowed.

use auth::{Action, Grants, Target};
use model::{Doc, DocBuf, DocWriter, MongoError, Value, code};

/// The rights of one request.
#[derive(Clone, Copy)]
pub enum Rights<'a> {
    /// Access control is off.
    All,
    /// The rights of a user.
    Of(&'a Grants),
    /// No user is logged in.
    Nobody {
        /// The connection may create the first user.
        bootstrapping: bool,
    },
}

impl Rights<'_> {
    /// Whether all these actions are allowed on the target.
    pub fn allows(&self, target: Target<'_>, actions: &[Action]) -> bool {
        match self {
            Rights::All => true,
            Rights::Of(grants) => grants.allows(target, actions),
            Rights::Nobody { bootstrapping } => {
                *bootstrapping
                    && actions.iter().all(|a| match target {
                        Target::Database("admin") => matches!(
                            a,
                            Action::CreateUser | Action::CreateRole | Action::GrantRole
                        ),
                        Target::Database("$external") => *a == Action::CreateUser,
                        Target::Cluster => {
                            matches!(a, Action::ReplSetConfigure | Action::ReplSetGetStatus)
                        }
                        _ => false,
                    })
            }
        }
    }

    /// Whether any action is allowed on a collection.
    pub fn allows_any_on(&self, db: &str, coll: &str) -> bool {
        match self {
            Rights::All => true,
            Rights::Of(grants) => grants.allows_any_on(db, coll),
            Rights::Nobody { .. } => false,
        }
    }

    /// Whether any action is allowed on a database or on a resource in it.
    pub fn allows_any_in(&self, db: &str) -> bool {
        match self {
            Rights::All => true,
            Rights::Of(grants) => grants.allows_any_in(db),
            Rights::Nobody { .. } => false,
        }
    }
}

/// Fields whose values are secret.
const SECRET: &[&str] = &["pwd", "payload", "key", "nonce", "speculativeAuthenticate"];
/// Longest value of a command that is shown, in bytes.
const SHOWN_BYTES_MAX: usize = 2048;

fn write_masked(w: &mut DocWriter<'_>, doc: Doc<'_>) {
    for (i, (name, value)) in doc.iter().enumerate() {
        match value {
            _ if SECRET.contains(&name) => {
                w.put(name, "xxx");
            }
            // The first field can contain another command.
            Value::Document(inner) if i == 0 => write_masked(&mut w.doc(name), inner),
            value => {
                w.put(name, value);
            }
        }
    }
}

/// A command for display, without its secrets.
pub fn hide_secrets(body: Doc<'_>) -> DocBuf {
    DocBuf::build(|w| write_masked(w, body))
}

/// 13 Unauthorized with MongoDB's message.
pub fn unauthorized_error(db: &str, body: Doc<'_>) -> MongoError {
    let shown = hide_secrets(body);
    let mut text = Value::Document(shown.doc()).to_string();
    if text.len() > SHOWN_BYTES_MAX {
        let end = (0..=SHOWN_BYTES_MAX)
            .rev()
            .find(|i| text.is_char_boundary(*i));
        text.truncate(end.unwrap_or(0));
        text.push_str("...");
    }
    MongoError::new(
        code::UNAUTHORIZED,
        format!("not authorized on {db} to execute command {text}"),
    )
}
