//! Authentication and authorization: the server's side of SCRAM, users, roles, privileges, address
//! ranges, throttling of failed logins.
//!
//! Promises: pure functions over values and documents; secrets are compared in constant time; no
//! input panics. Must not know: the wire protocol, where users are stored, which commands there
//! are.

mod action;
mod builtin;
mod names;
mod privilege;
mod resource;
mod restriction;
mod roles;
pub mod scram;
mod throttle;

pub use action::{Action, ActionSet};
pub use builtin::{BUILTIN, BuiltinRole, builtin, builtin_of};
pub use names::{RoleName, UserName, role_list};
pub use privilege::{Grants, Privilege, Target, privilege_list};
pub use resource::Resource;
pub use restriction::{Range, Restrictions, parse_restrictions};
pub use roles::{ResolvedRoles, RoleSource, StoredRole, resolve};
pub use throttle::{Pace, Throttle, ThrottleDecision};
