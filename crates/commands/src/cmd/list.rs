//! `listDatabases` and `listCollections`.

use context::command::Command;
use context::ctx::Ctx;
use context::ddl::describe::{describe, describe_buckets};
use context::ddl::system_views;
use context::read::listing::Listing;
use model::{DocBuf, Namespace, Result, code};
use request::Outcome;
use request::args::{Arg, Args, Kind, arg, check_doc};
use request::asked::RightsRequest;
use request::spec::{Privilege, flag};
use state::cursors::{BatchLimit, CursorInfo};
use state::matcher::Matcher;

pub(crate) static COMMANDS: &[Command] = &[
    Command::new(
        "listDatabases",
        "databases and their sizes",
        Privilege::Any,
        flag::ADMIN | flag::API_V1,
        &[
            arg("nameOnly", Kind::BoolLike),
            arg("filter", Kind::Object),
            arg("authorizedDatabases", Kind::Bool),
        ],
        list_databases,
    ),
    Command::new(
        "listCollections",
        "collections and views of a database",
        Privilege::Asked(needs_of_list_collections),
        flag::API_V1,
        &[
            arg("cursor", Kind::Object),
            arg("nameOnly", Kind::Bool),
            arg("filter", Kind::Object),
            arg("authorizedCollections", Kind::Bool),
            arg("includePendingDrops", Kind::BoolLike),
        ],
        list_collections,
    ),
];

/// The batch size in the `cursor` argument.
pub(crate) fn batch_size(cx: &Ctx<'_, '_>) -> Result<Option<i64>> {
    static TABLE: &[Arg] = &[arg("batchSize", Kind::AtLeast(0, code::BAD_VALUE))];
    let Some(d) = cx.args.doc("cursor") else {
        return Ok(None);
    };
    Ok(check_doc(&format!("{}.cursor", cx.command.name), TABLE, d)?.int("batchSize"))
}

fn is_listed(cx: &Ctx<'_, '_>, filter: Option<&Matcher>, one: &DocBuf) -> Result<bool> {
    filter.map_or(Ok(true), |f| f.matches(one.doc(), cx.now_ms()))
}

fn list_databases(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let name_only = cx.args.bool("nameOnly", false);
    let matches = cx
        .args
        .doc("filter")
        .map(|f| cx.service.listing_matcher(f))
        .transpose()?;
    let all = cx
        .rights()
        .allows(auth::Target::Cluster, &[auth::Action::ListDatabases]);
    let only = match cx.args.value("authorizedDatabases").as_bool() {
        Some(false) if !all => {
            return Err(access::unauthorized_error(cx.db, cx.request.body));
        }
        Some(only) => only,
        None => !all,
    };
    let mut total = 0i64;
    let mut found = Vec::new();
    for db in cx.service.database_names()? {
        if only && !cx.rights().allows_any_in(&db) {
            continue;
        }
        let size = cx.service.database_bytes(&db)?;
        let one = DocBuf::build(|w| {
            w.put("name", &db);
            if !name_only {
                w.put("sizeOnDisk", size.0).put("empty", size.1);
            }
        });
        if is_listed(cx, matches.as_ref(), &one)? {
            total = total.saturating_add(size.0);
            found.push(one);
        }
    }
    let mut list = cx.reply.array("databases");
    for d in &found {
        list.push(d);
    }
    drop(list);
    if !name_only {
        cx.reply
            .put("totalSize", total)
            .put("totalSizeMb", total / (1024 * 1024));
    }
    Ok(Outcome::Reply)
}

/// Whether the list contains only the names of collections for which the user has a right.
fn lists_own(args: &Args<'_>) -> bool {
    args.bool("nameOnly", false) && args.bool("authorizedCollections", false)
}

/// A user who may not list all collections may list the names of those it has a right to.
fn needs_of_list_collections(asked: &RightsRequest<'_, '_>) -> Result<()> {
    let all = asked.may(
        auth::Target::Database(asked.db),
        &[auth::Action::ListCollections],
    );
    asked.require(all || lists_own(asked.args) && asked.rights.allows_any_in(asked.db))
}

fn list_collections(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let name_only = cx.args.bool("nameOnly", false);
    let size = batch_size(cx)?;
    let matches = cx
        .args
        .doc("filter")
        .map(|f| cx.service.listing_matcher(f))
        .transpose()?;
    let mut found = Vec::new();
    let only = lists_own(&cx.args);
    let all = cx.service.store.list_collections(cx.db)?;
    let may_see_views = !only || cx.rights().allows_any_on(cx.db, system_views::NAME);
    let views = (may_see_views && system_views::is_among(&all))
        .then(|| system_views::entry(cx.db, name_only));
    for e in all {
        if only && !cx.rights().allows_any_on(cx.db, &e.name) {
            continue;
        }
        let ns = Namespace::new(cx.db, &e.name)?;
        let series = e.row.options.doc().contains("timeseries");
        let buckets = series.then(|| describe_buckets(&ns, &e.row, name_only));
        for one in [Some(describe(&ns, &e.row, name_only)), buckets] {
            match one {
                Some(one) if is_listed(cx, matches.as_ref(), &one)? => found.push(one),
                _ => {}
            }
        }
    }
    if let Some(views) = views
        && is_listed(cx, matches.as_ref(), &views)?
    {
        found.push(views);
    }
    let info = CursorInfo {
        ns: format!("{}.$cmd.listCollections", cx.db),
        ..cx.cursor_info()
    };
    cx.first_batch(
        Box::new(Listing::new(found)),
        info,
        BatchLimit::of(size),
        false,
    )?;
    Ok(Outcome::Reply)
}
