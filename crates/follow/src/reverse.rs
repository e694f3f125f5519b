//! After a cut-over the source follows the target, so that going back remains possible. Promises:
//! it is prepared before the target gets its own writes, so none of them is missed; nothing is
//! copied again. Must not know: how changes are followed.

use crate::align::Aligner;
use crate::connections::Connections;
use crate::error::{FollowError, Result};
use crate::indexes;
use crate::names::{Names, OWN};
use crate::server::Server;
use crate::settings::Settings;
use crate::state::{Entry, Phase, State};
use crate::survey::survey;
use mongodb::bson::{Bson, DateTime, Timestamp, doc};
use std::collections::BTreeSet;

/// State field with the databases of the target that do not belong to the migration.
const EXCLUDED: &str = "reverseExcluded";

/// Checks that the target has a log of changes, which the way back needs.
pub(crate) fn check(target: &Server) -> Result<()> {
    match target.has_log {
        true => Ok(()),
        false => Err(FollowError::of_options(format!(
            "{} is not a replica set, so it reports no changes: --reverse cannot copy its \
             changes to the source",
            target.shown
        ))),
    }
}

/// Writes into the source the state of a migration from the target. At this moment both have the
/// same data and neither gets writes.
pub(crate) async fn prepare(aligner: &Aligner, entries: &[Entry]) -> Result<()> {
    let (there, here) = (&aligner.source, &aligner.target);
    let back = State::of(there);
    if let Some(earlier) = back.migration().await?
        && earlier.phase != Phase::Done
        && !earlier.document.get_bool("reverse").unwrap_or(false)
    {
        return Err(FollowError::of_data(
            "the source is the target of another migration: --reverse cannot write to it",
        ));
    }
    there.run(OWN, doc! { "dropDatabase": 1 }).await?;
    let excluded = list_other_databases(here, entries).await?;
    let names = Names::new(&[], &excluded, &[])?;
    let start = here.time().await?;
    here.settle(start).await?;
    let found = survey(here, &names).await?;
    for one in &found.collections {
        let Some(entry) = entries.iter().find(|e| e.target == one.source) else {
            continue;
        };
        let kept = Entry {
            key: one.key.clone(),
            source: one.source.clone(),
            target: entry.source.clone(),
            moving: None,
            options: one.options.clone(),
            indexes: indexes::list_indexes(here, &one.source).await?,
            planned: true,
            copied: true,
            indexed: true,
        };
        back.put_entry(&kept).await?;
    }
    for view in &found.views {
        back.put_view(&view.target, &view.options, true).await?;
    }
    begin(&back, &names, start, here).await?;
    aligner.state.set(doc! { EXCLUDED: excluded }).await
}

async fn begin(back: &State, names: &Names, start: Timestamp, from: &Server) -> Result<()> {
    let fields = doc! {
        "version": 1, "phase": Phase::Following.name(), "names": names.encode(), "start": start,
        "source": &from.shown, "begun": DateTime::now(), "copiedAt": DateTime::now(),
        "byLog": false, "users": false, "standby": false, "reverse": true,
    };
    back.set(fields).await
}

async fn list_other_databases(target: &Server, entries: &[Entry]) -> Result<Vec<String>> {
    let ours: BTreeSet<&str> = entries.iter().map(|e| e.target.db.as_str()).collect();
    let command = doc! { "listDatabases": 1, "nameOnly": true };
    let reply = target.run("admin", command).await?;
    let all = reply.get_array("databases").map(Vec::as_slice);
    let names = { all.unwrap_or_default().iter() }.filter_map(Bson::as_document);
    let names = names.filter_map(|d| d.get_str("name").ok());
    let others = names.filter(|db| !ours.contains(db));
    Ok(others.map(str::to_owned).collect())
}

/// The settings for following the target from the source after the cut-over.
pub(crate) async fn settings(settings: &Settings, connections: &Connections) -> Result<Settings> {
    let to = settings.target.directly();
    let target = connections
        .connect(&to)
        .await
        .map_err(|e| e.in_step("the target"))?;
    let migration = State::of(&target).migration().await?;
    let document = migration.map(|m| m.document).unwrap_or_default();
    let excluded = document.get_array(EXCLUDED).map_err(|_| {
        FollowError::of_options(
            "this target was cut over without --reverse, so its writes since then were not \
             recorded",
        )
    })?;
    let excluded = excluded.iter().filter_map(Bson::as_str);
    let excluded: Vec<String> = excluded.map(str::to_owned).collect();
    Ok(Settings {
        source: to,
        target: settings.source.clone(),
        names: Names::new(&[], &excluded, &[])?,
        restart: false,
        by_log: false,
        users: false,
        standby: false,
        reverse: false,
        ..settings.clone()
    })
}
