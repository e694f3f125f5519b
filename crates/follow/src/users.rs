//! Users and roles, with the credentials that the source stores. Promises: existing ones of the
//! target stay as they are. Must not know: when they are moved.

use crate::error::{FollowError, Result};
use crate::names::Ns;
use crate::server::Server;
use crate::write;
use mongodb::bson::{Document, RawDocumentBuf, doc};

const KINDS: [&str; 2] = ["roles", "users"];

async fn list_accounts(server: &Server, kind: &str) -> Result<Vec<Document>> {
    let find = doc! { "find": format!("system.{kind}") };
    let all = server.list("admin", find).await;
    all.map_err(|e| {
        let what = format!(
            "{kind} of {} cannot be read, which needs the role backup",
            server.shown
        );
        FollowError::of_options(format!("{what}: {e}"))
    })
}

/// Checks that they can be read.
pub(crate) async fn check(source: &Server) -> Result<()> {
    for kind in KINDS {
        list_accounts(source, kind).await?;
    }
    Ok(())
}

/// Copies them; returns the number of new ones.
pub(crate) async fn copy_users(source: &Server, target: &Server) -> Result<i64> {
    let mut moved = 0;
    let mut merge = doc! { "_mergeAuthzCollections": 1, "db": "", "drop": false };
    for (kind, field) in KINDS
        .iter()
        .zip(["tempRolesCollection", "tempUsersCollection"])
    {
        let there = list_accounts(target, kind).await?;
        let aside = Ns::new("admin", &format!("quarryFollow{kind}"));
        let mut new = Vec::new();
        for one in list_accounts(source, kind).await? {
            if !there.iter().any(|known| known.get("_id") == one.get("_id")) {
                new.push(RawDocumentBuf::try_from(&one)?);
            }
        }
        let _ = target.run("admin", doc! { "drop": &aside.coll }).await;
        write::insert(target, &aside, &new).await?;
        moved += new.len() as i64;
        merge.insert(field, aside.to_string());
    }
    let merged = target.run("admin", merge).await;
    for kind in KINDS {
        let drop = doc! { "drop": format!("quarryFollow{kind}") };
        let _ = target.run("admin", drop).await;
    }
    merged.map_err(|e| e.in_step("users and roles cannot be made in the target"))?;
    Ok(moved)
}
