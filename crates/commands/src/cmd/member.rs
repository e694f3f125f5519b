//! Administrative commands for a member of a replica set, answered by the only member, which is
//! always the primary: `replSetStepDown`, `replSetStepUp`, `replSetFreeze`, `replSetMaintenance`,
//! `replSetSyncFrom`, `replSetAbortPrimaryCatchUp`, `setIndexCommitQuorum`.

use context::command::Command;
use context::ctx::Ctx;
use context::ddl::names;
use model::{MongoError, Result, Tag, Value, bail, code};
use request::Outcome;
use request::args::{Kind, arg, to_i64, wrong_type};
use request::spec::{Privilege, flag};

const STATE: Privilege = Privilege::Cluster(&[auth::Action::ReplSetStateChange]);
const FLAGS: u32 = flag::ADMIN | flag::LENIENT;

pub(crate) static COMMANDS: &[Command] = &[
    Command::new(
        "replSetStepDown",
        "lets another member become the primary",
        STATE,
        FLAGS,
        &[
            arg("force", Kind::Any),
            arg("secondaryCatchUpPeriodSecs", Kind::Any),
        ],
        step_down,
    ),
    Command::new(
        "replSetStepUp",
        "becomes the primary",
        STATE,
        FLAGS,
        &[],
        |cx| member(cx).map(|()| Outcome::Reply),
    ),
    Command::new(
        "replSetFreeze",
        "does not stand for election",
        STATE,
        FLAGS,
        &[],
        |cx| {
            refuse_primary(
                cx,
                "cannot freeze node when primary or running for election. state: Primary",
            )
        },
    ),
    Command::new(
        "replSetMaintenance",
        "sets the state of a member to recovering",
        STATE,
        FLAGS,
        &[],
        |cx| refuse_primary(cx, "primaries can't modify maintenance mode"),
    ),
    Command::new(
        "replSetSyncFrom",
        "chooses the member to copy from",
        STATE,
        FLAGS,
        &[],
        sync_from,
    ),
    Command::new(
        "replSetAbortPrimaryCatchUp",
        "ends the time in which a new primary catches up",
        STATE,
        FLAGS,
        &[],
        |cx| {
            member(cx)?;
            bail!(code::ILLEGAL_OPERATION, "The node is not in catch-up mode.")
        },
    ),
    Command::new(
        "setIndexCommitQuorum",
        "how many members must have built an index before it is committed",
        Privilege::Collection(&[auth::Action::CreateIndex]),
        flag::WRITE_CONCERN,
        &[
            arg("indexNames", Kind::Array).required(),
            arg(
                "commitQuorum",
                Kind::OneOf(&[
                    Tag::STRING,
                    Tag::INT64,
                    Tag::INT32,
                    Tag::DECIMAL128,
                    Tag::DOUBLE,
                ]),
            )
            .required(),
        ],
        commit_quorum,
    )
    .value(Kind::Collection),
];

/// Seconds for which a primary stays secondary after it steps down, unless the command specifies
/// others.
const AWAY_S: i64 = 60;
const CATCH_UP_S: i64 = 10;

fn member(cx: &Ctx<'_, '_>) -> Result<()> {
    if cx.service.config.replica_set.is_none() {
        return Err(MongoError::new(
            code::NO_REPLICATION_ENABLED,
            "not running with --replSet",
        ));
    }
    Ok(())
}

fn refuse_primary(cx: &Ctx<'_, '_>, why: &str) -> Result<Outcome> {
    member(cx)?;
    Err(MongoError::new(code::NOT_SECONDARY, why))
}

fn sync_from(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    member(cx)?;
    let Value::String(_) = cx.value() else {
        return Err(wrong_type("replSetSyncFrom", &cx.value(), &[Tag::STRING]));
    };
    refuse_primary(cx, "primaries don't sync")
}

/// Fails: no other member can take over, however long the command waits.
fn step_down(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    member(cx)?;
    let force = match cx.args.value("force") {
        Value::Missing => false,
        v if v.as_bool().is_some() || v.is_number() => v.truthy(),
        v => bail!(
            code::TYPE_MISMATCH,
            "Expected boolean or number type for field \"force\", found {}",
            v.type_name()
        ),
    };
    let away = match to_i64(&cx.value()) {
        None | Some(0) => AWAY_S,
        Some(n) => n,
    };
    if away < 0 {
        bail!(
            code::BAD_VALUE,
            "stepdown period must be a positive integer"
        );
    }
    let catch_up = match cx.args.value("secondaryCatchUpPeriodSecs") {
        Value::Missing if force => 0,
        Value::Missing => CATCH_UP_S,
        v => to_i64(&v).ok_or_else(|| {
            let given = v.type_name();
            MongoError::type_mismatch(format!(
                "Expected field \"secondaryCatchUpPeriodSecs\" to have a numeric type, found \
                    {given}"
            ))
        })?,
    };
    if catch_up < 0 {
        bail!(
            code::BAD_VALUE,
            "secondaryCatchUpPeriodSecs period must be a positive or absent"
        );
    }
    if away < catch_up {
        bail!(
            code::BAD_VALUE,
            "stepdown period must be longer than secondaryCatchUpPeriodSecs"
        );
    }
    if force {
        bail!(
            code::NOT_IMPLEMENTED,
            "the only member of the set cannot stop being its primary"
        );
    }
    bail!(
        code::EXCEEDED_TIME_LIMIT,
        "No electable secondaries caught up. Please use the replSetStepDown command with the \
            argument {{force: true}} to force node to step down."
    )
}

fn commit_quorum(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    if cx.service.config.replica_set.is_none() {
        bail!(
            code::ILLEGAL_OPERATION,
            "Standalones cannot specify commitQuorum"
        );
    }
    let ns = names::read_collection(cx)?;
    let c = names::find_collection(cx, &ns)?;
    let names = cx.args.array("indexNames").unwrap_or(model::Array::EMPTY);
    for (i, v) in names.iter().enumerate() {
        let Value::String(name) = v else {
            let path = format!("setIndexCommitQuorum.indexNames.{i}");
            return Err(wrong_type(&path, &v, &[Tag::STRING]));
        };
        if !c
            .indexes()
            .iter()
            .any(|x| x.name() == name && !x.is_ready())
        {
            bail!(
                code::INDEX_NOT_FOUND,
                "Cannot find an index build on collection '{ns}' with the provided index names"
            );
        }
    }
    // The only member needs no other votes.
    Ok(Outcome::Reply)
}
