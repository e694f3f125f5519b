//! `hello` and its legacy aliases `isMaster`, `ismaster`: the server's role and limits. Clients
//! derive from this reply whether transactions, sessions, change streams and compression are
//! supported.

use super::sasl::{FirstMessage, begin, mechanisms_on, report_login};
use access::{Login, LoginMethod, mechanisms_of, x509};
use auth::UserName;
use context::command::Command;
use context::ctx::Ctx;
use model::{Binary, DocBuf, Result, Tag, Timestamp, Value, bail, code};
use request::args::{Arg, Kind, arg, check_doc, wrong_type};
use request::spec::{Privilege, flag};
use request::{Outcome, WaitFor};
use state::pair::{Pair, Part, Role};
use state::release::{MESSAGE_BYTES_MAX, Release, SESSION_TIMEOUT_MINUTES, WRITE_BATCH_MAX};

static ARGS: &[Arg] = &[
    arg("helloOk", Kind::Bool),
    arg("client", Kind::Object),
    arg("compression", Kind::Array),
    arg("saslSupportedMechs", Kind::Any),
    arg("speculativeAuthenticate", Kind::Object),
    arg("topologyVersion", Kind::Object),
    arg("maxAwaitTimeMS", Kind::AtLeast(0, 51024)),
    arg("loadBalanced", Kind::BoolLike),
    arg("internalClient", Kind::Object),
    arg("hangUpOnStepDown", Kind::BoolLike),
    arg("hostInfo", Kind::Any),
    arg("backpressure", Kind::Any),
    arg("forShell", Kind::Any),
];

pub(crate) static COMMANDS: &[Command] = &[
    Command::new(
        "hello",
        "role, limits and versions of the server",
        Privilege::Any,
        flag::API_V1 | flag::NO_AUTH | flag::QUIET | flag::LENIENT,
        ARGS,
        run,
    ),
    Command::new(
        "isMaster",
        "role, limits and versions of the server (old form)",
        Privilege::Any,
        flag::NO_AUTH | flag::QUIET,
        ARGS,
        run_legacy,
    )
    .aliases(&["ismaster"]),
];

/// Largest `client` document.
const CLIENT_BYTES_MAX: usize = 512;

fn run(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    answer(cx, false)
}

fn run_legacy(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    answer(cx, true)
}

fn answer(cx: &mut Ctx<'_, '_>, legacy: bool) -> Result<Outcome> {
    if let Some(outcome) = wait_for_change(cx)? {
        return Ok(outcome);
    }
    remember_client(cx)?;
    let mechanisms = mechanisms(cx)?;
    let speculated = speculate(cx, mechanisms.as_deref())?;
    if cx.args.bool("helloOk", false) {
        cx.conn.hello_ok = true;
    }
    if cx.conn.hello_ok && legacy {
        cx.reply.put("helloOk", true);
    }
    topology_version(cx);
    role(cx, legacy);
    limits(cx);
    compression(cx)?;
    if let Some(mechanisms) = mechanisms {
        let mut list = cx.reply.array("saslSupportedMechs");
        for name in mechanisms {
            list.push(name);
        }
    }
    if let Some(speculated) = speculated {
        cx.reply.put("speculativeAuthenticate", &speculated);
    }
    let streaming = cx.request.exhaust_allowed && cx.args.has("topologyVersion");
    Ok(if streaming {
        Outcome::Exhaust
    } else {
        Outcome::Reply
    })
}

/// The shortest interval in milliseconds between two replies of a stream while nothing changes: a
/// client that specifies no interval would otherwise get replies without a pause.
const STREAM_MS_MIN: i64 = 100;

/// An awaitable hello waits while the client knows the current topology: the version in its request
/// or, in a stream, the version in the last reply.
fn wait_for_change(cx: &Ctx<'_, '_>) -> Result<Option<Outcome>> {
    let wait_ms = cx.args.int("maxAwaitTimeMS");
    let Some(known) = cx.args.doc("topologyVersion") else {
        if wait_ms.is_some() {
            bail!(
                31368,
                "A request with a 'maxAwaitTimeMS' must include a 'topologyVersion'"
            );
        }
        return Ok(None);
    };
    let Some(wait_ms) = wait_ms else {
        bail!(
            31368,
            "A request with a 'topologyVersion' must include 'maxAwaitTimeMS'"
        );
    };
    static VERSION: &[Arg] = &[
        arg("processId", Kind::OneOf(&[Tag::OBJECT_ID])).required(),
        arg("counter", Kind::OneOf(&[Tag::INT64])).required(),
    ];
    let known = check_doc("TopologyVersion", VERSION, known)?;
    let same_process =
        matches!(known.value("processId"), Value::ObjectId(id) if id == cx.service.process_id);
    let counter = known.int("counter").unwrap_or(-1);
    let ours = cx.service.topology_counter();
    if counter < 0 {
        bail!(
            31372,
            "topologyVersion must have a non-negative counter, given {counter}"
        );
    }
    if same_process && counter > ours && !cx.request.streamed {
        bail!(
            31382,
            "Received a topology version with counter: {counter} which is greater than the server \
                topology version counter: {ours}"
        );
    }
    let (is_known, wait_ms) = if cx.request.streamed {
        (
            cx.conn.told_topology == Some(ours),
            wait_ms.max(STREAM_MS_MIN),
        )
    } else {
        (same_process && counter == ours, wait_ms)
    };
    if !is_known || cx.request.waited {
        return Ok(None);
    }
    if let Some(link) = cx.operation.link() {
        service_pair(cx).wake_later(link);
        // A change just before this call has woken no operation, so check again.
        if cx.service.topology_counter() != ours {
            return Ok(None);
        }
    }
    let wait_us = u64::try_from(wait_ms).unwrap_or(0).saturating_mul(1000);
    Ok(Some(Outcome::Wait {
        until_us: cx.service.clock.monotonic_us().saturating_add(wait_us),
        on: WaitFor::Topology,
    }))
}

fn remember_client(cx: &Ctx<'_, '_>) -> Result<()> {
    let Some(client) = cx.args.doc("client") else {
        return Ok(());
    };
    if client.len_bytes() > CLIENT_BYTES_MAX {
        bail!(
            code::CLIENT_METADATA_DOCUMENT_TOO_LARGE,
            "The client metadata document must be less than or equal to {CLIENT_BYTES_MAX} bytes, \
                given {}",
            client.len_bytes()
        );
    }
    let mut known = cx.conn.info.client.lock();
    // The first metadata of a connection are kept; monitors send theirs repeatedly.
    if known.is_none() {
        *known = Some(DocBuf::from_doc(client));
        cx.service.client_metadata(&cx.conn.info, client);
    }
    Ok(())
}

/// The mechanisms of the user in `saslSupportedMechs`.
fn mechanisms(cx: &Ctx<'_, '_>) -> Result<Option<Vec<&'static str>>> {
    let name = match cx.args.value("saslSupportedMechs") {
        Value::Missing => return Ok(None),
        Value::String(s) => match s.split_once('.') {
            Some((db, user)) => UserName::new(user, db),
            None => bail!(
                code::BAD_VALUE,
                "UserName must contain a '.' separated database.user pair, given '{s}'"
            ),
        },
        Value::Document(d) => {
            for part in ["user", "db"] {
                if d.field(part).as_str().is_none() {
                    bail!(
                        code::BAD_VALUE,
                        "saslSupportedMechs needs the string fields 'user' and 'db', '{part}' is \
                            {}",
                        d.field(part).type_name()
                    );
                }
            }
            let text = |part: &str| d.field(part).as_str().unwrap_or("");
            UserName::new(text("user"), text("db"))
        }
        v => {
            return Err(wrong_type(
                "saslSupportedMechs",
                &v,
                &[Tag::STRING, Tag::DOCUMENT],
            ));
        }
    };
    let on = mechanisms_on(cx);
    mechanisms_of(&cx.service.access, &name, &on).map(Some)
}

/// Begins a login within the greeting, which saves a round trip. If it fails, the reply has no
/// result and the client begins the login separately. `named` are the mechanisms that the same
/// reply lists.
fn speculate(cx: &mut Ctx<'_, '_>, named: Option<&[&'static str]>) -> Result<Option<DocBuf>> {
    let Some(asked) = cx.args.doc("speculativeAuthenticate") else {
        return Ok(None);
    };
    // Certificate users belong to `$external`, and drivers do not send the database here.
    let by_certificate = asked.contains("authenticate");
    let otherwise = if by_certificate { "$external" } else { cx.db };
    let db = asked.field("db").as_str().unwrap_or(otherwise);
    let name = asked.field("mechanism").as_str().unwrap_or("");
    // A driver without a configured mechanism begins with SCRAM-SHA-256 before it knows the user's
    // mechanisms. It continues with any answer, and only chooses another mechanism when there is
    // none.
    if named.is_some_and(|named| !named.contains(&name)) {
        return Ok(None);
    }
    let on = mechanisms_on(cx);
    if by_certificate && name == "MONGODB-X509" && db == "$external" && on.iter().any(|m| m == name)
    {
        let claimed = asked.field("user").as_str();
        let entered = x509(&cx.service.access, &mut cx.conn.identity, claimed);
        cx.conn.identity.speculates();
        report_login(cx, entered.as_ref().map(|_| ()));
        let entered = entered.ok();
        return Ok(entered.map(|s| model::doc! { "dbname": "$external", "user": s.as_str() }));
    }
    let (Ok(method), Value::Binary(payload)) = (LoginMethod::of(&on, name), asked.field("payload"))
    else {
        return Ok(None);
    };
    // A greeting runs on a thread that also serves other connections, so it must not block.
    if matches!(method, LoginMethod::Directory) {
        return Ok(None);
    }
    let skips_empty = asked
        .field("options")
        .as_doc()
        .is_some_and(|o| o.field("skipEmptyExchange").truthy());
    let first = FirstMessage {
        db,
        payload: payload.bytes,
        skips_empty,
        speculative: true,
    };
    let (done, bytes) = match begin(cx, &method, &first) {
        Ok(Login::More(bytes)) => (false, bytes),
        Ok(Login::Done(bytes)) => (true, bytes),
        // The login waits for its turn when the client begins it separately.
        Ok(Login::Wait(_) | Login::Failed(_)) | Err(_) => return Ok(None),
    };
    let payload = Binary {
        subtype: 0,
        bytes: &bytes,
    };
    Ok(Some(
        model::doc! { "conversationId": 1i32, "done": done, "payload": payload },
    ))
}

fn topology_version(cx: &mut Ctx<'_, '_>) {
    let counter = cx.service.topology_counter();
    let mut v = cx.reply.doc("topologyVersion");
    v.put("processId", cx.service.process_id);
    v.put("counter", counter);
    cx.conn.told_topology = Some(counter);
}

fn role(cx: &mut Ctx<'_, '_>, legacy: bool) {
    let writable = if legacy {
        "ismaster"
    } else {
        "isWritablePrimary"
    };
    let service = cx.service;
    if service.config.is_one_of_equals {
        cx.reply.put(writable, true).put("msg", "isdbgrid");
        if cx.args.bool("loadBalanced", false) {
            // A client that knows one address for all servers tells them apart by it.
            cx.reply.put("serviceId", service.process_id);
        }
        return;
    }
    let Some(set) = service.config.replica_set.as_deref() else {
        cx.reply.put(writable, true);
        return;
    };
    if let Some(part) = service_pair(cx).part() {
        role_in_pair(cx, set, writable, &part);
        last_write(cx);
        return;
    }
    let me = cx.conn.advertised_address(&service.config);
    let mut hosts = cx.reply.array("hosts");
    hosts.push(me);
    for other in service
        .config
        .successors
        .iter()
        .filter(|other| *other != me)
    {
        hosts.push(other.as_str());
    }
    drop(hosts);
    cx.reply.put("setName", set).put("setVersion", 1i32);
    cx.reply.put(writable, true).put("secondary", false);
    cx.reply
        .put("primary", me)
        .put("me", me)
        .put("electionId", service.election_id());
    last_write(cx);
}

fn last_write(cx: &mut Ctx<'_, '_>) {
    let time = cx.service.operation_time();
    let at_ms = Value::Date(i64::from(time.time) * 1000);
    let mut last = cx.reply.doc("lastWrite");
    op_time(&mut last, "opTime", time);
    last.put("lastWriteDate", at_ms);
    op_time(&mut last, "majorityOpTime", time);
    last.put("majorityWriteDate", at_ms);
}

fn service_pair<'a>(cx: &Ctx<'a, '_>) -> &'a Pair {
    &cx.service.state.user_writes.pair
}

fn role_in_pair(cx: &mut Ctx<'_, '_>, set: &str, writable: &str, part: &Part) {
    let mut hosts = cx.reply.array("hosts");
    hosts.push(part.me.as_str()).push(part.peer.as_str());
    drop(hosts);
    let is_primary = part.role == Role::Primary;
    cx.reply.put("setName", set).put("setVersion", 1i32);
    cx.reply
        .put(writable, is_primary)
        .put("secondary", !is_primary)
        .put("primary", part.primary())
        .put("me", part.me.as_str());
    if is_primary {
        cx.reply.put("electionId", part.election_id());
    }
}

fn op_time(w: &mut model::DocWriter<'_>, name: &str, time: Timestamp) {
    w.doc(name).put("ts", time).put("t", 1i64);
}

fn limits(cx: &mut Ctx<'_, '_>) {
    let wire_version_max = Release::of(cx.service.config.profile).wire_version_max;
    let (now, id) = (
        cx.now_ms(),
        i32::try_from(cx.conn.info.id).unwrap_or(i32::MAX),
    );
    cx.reply
        .put("maxBsonObjectSize", model::bson::MAX_DOCUMENT_BYTES as i32)
        .put("maxMessageSizeBytes", MESSAGE_BYTES_MAX)
        .put("maxWriteBatchSize", WRITE_BATCH_MAX)
        .put("localTime", Value::Date(now))
        .put("logicalSessionTimeoutMinutes", SESSION_TIMEOUT_MINUTES)
        .put("connectionId", id)
        .put("minWireVersion", 0i32)
        .put("maxWireVersion", wire_version_max)
        .put("readOnly", false);
}

fn compression(cx: &mut Ctx<'_, '_>) -> Result<()> {
    let Some(offered) = cx.args.array("compression") else {
        return Ok(());
    };
    let mut agreed = Vec::new();
    for v in offered.iter() {
        let Some(name) = v.as_str() else {
            return Err(wrong_type("compression", &v, &[Tag::STRING]));
        };
        if let Some(ours) = cx.service.config.compressors.iter().find(|c| **c == name) {
            agreed.push(*ours);
        }
    }
    if !agreed.is_empty() {
        let mut list = cx.reply.array("compression");
        for name in &agreed {
            list.push(*name);
        }
    }
    cx.conn.compressors = agreed;
    Ok(())
}
