//! Commands of search indexes: their arguments are checked, then they are refused, as MongoDB does
//! where no search service stands beside it.

use crate::ddl::names;
use crate::dispatch::args::{Kind, arg};
use crate::dispatch::command::Command;
use crate::dispatch::ctx::Ctx;
use crate::dispatch::request::Outcome;
use crate::dispatch::spec::{Privilege, flag};
use model::{Result, bail, code};

pub(crate) static COMMANDS: &[Command] = &[
    Command::new(
        "createSearchIndexes",
        "creates search indexes; there is no search service",
        Privilege::Collection(&[auth::Action::CreateSearchIndexes]),
        flag::API_V1,
        &[arg("indexes", Kind::Array).required()],
        refuse,
    )
    .value(Kind::Collection),
    Command::new(
        "dropSearchIndex",
        "drops a search index; there is no search service",
        Privilege::Collection(&[auth::Action::DropSearchIndex]),
        flag::API_V1,
        &[arg("id", Kind::Str), arg("name", Kind::Str)],
        refuse,
    )
    .value(Kind::Collection),
    Command::new(
        "listSearchIndexes",
        "search indexes of a collection; there is no search service",
        Privilege::Collection(&[auth::Action::ListSearchIndexes]),
        flag::API_V1,
        &[arg("id", Kind::Str), arg("name", Kind::Str)],
        refuse,
    )
    .value(Kind::Collection),
    Command::new(
        "updateSearchIndex",
        "changes a search index; there is no search service",
        Privilege::Collection(&[auth::Action::UpdateSearchIndex]),
        flag::API_V1,
        &[
            arg("id", Kind::Str),
            arg("name", Kind::Str),
            arg("definition", Kind::Object).required(),
        ],
        refuse,
    )
    .value(Kind::Collection),
];

fn refuse(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    names::own(cx)?;
    bail!(
        code::SEARCH_NOT_ENABLED,
        "Using Atlas Search Database Commands and the $listSearchIndexes aggregation stage \
            requires additional configuration. Please connect to Atlas or an AtlasCLI local \
            deployment to enable."
    );
}
