//! `$listLocalSessions` and `$listSessions`: `{}`, `{allUsers: true}` or `{users: [{user, db},
//! ...]}`. Errors: 14 no object and wrong types, 40415 unknown, 40414 a user without name or
//! database, 73 for `$listSessions` anywhere but `config.system.sessions`.

use super::fields::Fields;
use super::listed::ListingStage;
use crate::stage::{
    ApiClass, NeedsContext, PipelineSource, Placement, Report, RequiredPrivilege, SessionUser,
    StageNeeds, StageOp, one,
};
use model::{Result, Value, bail, code};

pub(super) static STAGES: &[StageOp] = &[
    StageOp {
        name: "$listLocalSessions",
        api: ApiClass::Outside,
        needs: StageNeeds::OfSource(needs),
        placement: Placement::DATABASE,
        parse: |scx, name, arg| {
            check(name, arg)?;
            let db = scx.options.target.db().to_owned();
            let spec = arg.as_doc().map(|d| d.to_buf()).unwrap_or_default();
            one(ListingStage::new(model::doc! { name: arg }, move |host| {
                host.list("$listLocalSessions", &db, spec.doc())
            }))
        },
    },
    StageOp {
        name: "$listSessions",
        api: ApiClass::Outside,
        needs: StageNeeds::OfSource(needs),
        placement: Placement::FIRST,
        parse: |scx, name, arg| {
            check(name, arg)?;
            let spec = arg.as_doc().map(|d| d.to_buf()).unwrap_or_default();
            let here = matches!(&scx.options.target, PipelineSource::Collection(ns)
                if ns.db() == "config" && ns.coll() == "system.sessions");
            if !here {
                bail!(
                    code::INVALID_NAMESPACE,
                    "{name} may only be run against config.system.sessions"
                );
            }
            one(ListingStage::new(model::doc! { name: arg }, move |host| {
                host.list("$listSessions", "config", spec.doc())
            }))
        },
    },
];

fn needs(cx: &mut NeedsContext<'_>, name: &'static str, arg: Value<'_>) -> Result<()> {
    let report = check(name, arg)?;
    cx.add(RequiredPrivilege::Server(report));
    Ok(())
}

/// Checks the argument and returns whose sessions are wanted.
fn check(name: &'static str, arg: Value<'_>) -> Result<Report> {
    let Value::Document(spec) = arg else {
        bail!(
            code::TYPE_MISMATCH,
            "{name} options must be specified in an object, but found: {}",
            arg.type_name()
        );
    };
    let f = Fields::new(name, spec, &["allUsers", "users", "$_internalPredicate"])?;
    let all = f.boolean("allUsers")?.unwrap_or(false);
    let users = f.array("users")?;
    let mut named = Vec::new();
    for user in users.into_iter().flat_map(|u| u.iter()) {
        match user {
            Value::Null => {}
            Value::Document(d) => {
                let u = Fields::new("users", d, &["user", "db"])?;
                u.required("user")?;
                u.required("db")?;
                named.push(SessionUser {
                    name: u.string("user")?.unwrap_or_default().to_owned(),
                    db: u.string("db")?.unwrap_or_default().to_owned(),
                });
            }
            v => bail!(
                code::TYPE_MISMATCH,
                "BSON field '{name}.users' holds the wrong type '{}', expected type 'object'",
                v.type_name()
            ),
        }
    }
    if all && users.is_some_and(|u| u.iter().any(|v| !v.is_nullish())) {
        bail!(
            code::UNSUPPORTED_FORMAT,
            "{name} may not specify {{allUsers:true}} and {{users:[...]}} at the same time"
        );
    }
    Ok(Report::Sessions {
        of_all: all,
        users: named,
    })
}
