//! `explain` of find, aggregate, count, distinct, update, delete and findAndModify: the plan that
//! would run, and with execution statistics its execution. It changes no data.

pub(crate) mod aggregate;
mod arguments;
pub(crate) mod explained;
mod read;
mod write;

use aggregate::{explain_aggregate, explain_map_reduce};
use context::command::Command;
use context::ctx::Ctx;
use explained::Level;
use model::{Doc, Result, bail, code};
use read::explain_read;
use request::Outcome;
use request::args::{Kind, arg};
use request::asked::RightsRequest;
use request::spec::{Privilege, flag};
use write::explain_write;

pub(crate) static COMMANDS: &[Command] = &[Command::new(
    "explain",
    "how a command would run",
    Privilege::Asked(needs),
    flag::API_V1 | flag::READ_CONCERN | flag::MAY_NAME_SCRIPT,
    &[arg("verbosity", Kind::Str)],
    run,
)
.value(Kind::Object)];

/// Checks the rights that the inner command needs.
fn needs(asked: &RightsRequest<'_, '_>) -> Result<()> {
    (asked.inner)(asked.value.as_doc().unwrap_or(Doc::EMPTY))
}

fn run(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let level = match cx.args.str("verbosity").unwrap_or("allPlansExecution") {
        "queryPlanner" => Level::Planner,
        "executionStats" => Level::Stats,
        "allPlansExecution" => Level::All,
        other => bail!(
            code::BAD_VALUE,
            "Enumeration value '{other}' for field 'explain.verbosity' is not a valid value."
        ),
    };
    let inner = cx.value().as_doc().unwrap_or(Doc::EMPTY);
    let Some((name, own)) = inner.first() else {
        bail!(
            code::COMMAND_NOT_FOUND,
            "Explain failed due to unknown command: "
        )
    };
    if let Some(db) = inner.field("$db").as_str()
        && db != cx.db
    {
        bail!(
            code::INVALID_NAMESPACE,
            "Mismatched $db in explain command. Expected {} but got {db}",
            cx.db
        );
    }
    match name {
        "find" | "count" | "distinct" => explain_read(cx, name, own, inner, level),
        "aggregate" => explain_aggregate(cx, own, inner, level),
        "mapReduce" | "mapreduce" => explain_map_reduce(cx, own, inner, level),
        "update" | "delete" | "findAndModify" | "findandmodify" => {
            explain_write(cx, name, own, inner, level)
        }
        _ if cx.commands.all().any(|row| row.command.name == name) => {
            bail!(code::ILLEGAL_OPERATION, "Cannot explain cmd: {name}")
        }
        _ => bail!(
            code::COMMAND_NOT_FOUND,
            "Explain failed due to unknown command: {name}"
        ),
    }
}
