//! A row of the table of commands: a specification and the function that runs it.

use super::ctx::Ctx;
use model::Result;
use request::Outcome;
use request::args::{Arg, Kind};
use request::spec::{Durability, LatencyKind, OpClass, Privilege, Spec, flag};

/// Runs a command: writes the fields of the reply except `ok`.
pub type Run = fn(&mut Ctx<'_, '_>) -> Result<Outcome>;

/// One command.
pub struct Command {
    /// The specification.
    pub spec: Spec,
    /// The function that runs it.
    pub run: Run,
}

impl Command {
    /// A command of class [`OpClass::Command`] and kind [`LatencyKind::Command`] whose first field
    /// may have any value. What its reply waits for follows from the concerns that it accepts,
    /// unless [`Command::durability`] says otherwise.
    pub const fn new(
        name: &'static str,
        help: &'static str,
        privilege: Privilege,
        flags: u32,
        args: &'static [Arg],
        run: Run,
    ) -> Command {
        let durability = if flags & flag::WRITE_CONCERN != 0 {
            Durability::Everything
        } else if flags & flag::READ_CONCERN != 0 {
            Durability::Reads
        } else {
            Durability::Nothing
        };
        let spec = Spec {
            name,
            aliases: &[],
            help,
            privilege,
            value: Kind::Any,
            args,
            flags,
            class: OpClass::Command,
            kind: LatencyKind::Command,
            durability,
            no_collection: "$cmd",
        };
        Command { spec, run }
    }

    /// Sets [`Spec::aliases`].
    pub const fn aliases(mut self, aliases: &'static [&'static str]) -> Command {
        self.spec.aliases = aliases;
        self
    }

    /// Sets [`Spec::value`].
    pub const fn value(mut self, value: Kind) -> Command {
        self.spec.value = value;
        self
    }

    /// Sets [`Spec::class`].
    pub const fn class(mut self, class: OpClass) -> Command {
        self.spec.class = class;
        self
    }

    /// Sets [`Spec::kind`].
    pub const fn kind(mut self, kind: LatencyKind) -> Command {
        self.spec.kind = kind;
        self
    }

    /// Sets [`Spec::durability`].
    pub const fn durability(mut self, durability: Durability) -> Command {
        self.spec.durability = durability;
        self
    }

    /// Sets [`Spec::no_collection`].
    pub const fn no_collection(mut self, name: &'static str) -> Command {
        self.spec.no_collection = name;
        self
    }
}
