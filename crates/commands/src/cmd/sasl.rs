//! `saslStart`, `saslContinue`, `authenticate`, `logout`.

use access::{
    Login, LoginMethod, Moment, authentication_error, expects_token, plain_start, rounds,
    sasl_continue, sasl_start, token_continue, token_start, x509,
};
use context::command::Command;
use context::ctx::Ctx;
use identity_oidc::CurrentTime;
use model::{Binary, MongoError, Result, Tag, Value, bail, code};
use request::args::{Arg, Kind, arg, check_doc, wrong_type};
use request::spec::{Privilege, flag};
use request::{Outcome, WaitFor};

/// The number of the conversation; a connection has one conversation at a time.
const CONVERSATION: i32 = 1;
const FLAGS: u32 = flag::NO_AUTH | flag::LENIENT | flag::SECRET | flag::QUIET;
const PAYLOAD: Kind = Kind::OneOf(&[Tag::BINARY, Tag::STRING]);

pub(crate) static COMMANDS: &[Command] = &[
    Command::new(
        "saslStart",
        "begins to log a user in",
        Privilege::Any,
        FLAGS,
        &[
            arg("mechanism", Kind::Str).required(),
            arg("payload", PAYLOAD).required(),
            arg("autoAuthorize", Kind::Any),
            arg("options", Kind::Object),
        ],
        start,
    ),
    Command::new(
        "saslContinue",
        "goes on to log a user in",
        Privilege::Any,
        FLAGS,
        &[
            arg("conversationId", Kind::Number).required(),
            arg("payload", PAYLOAD).required(),
        ],
        go_on,
    ),
    Command::new(
        "authenticate",
        "logs a user in by the certificate of its connection",
        Privilege::Any,
        FLAGS,
        &[
            arg("mechanism", Kind::Str),
            arg("user", Kind::Str),
            arg("nonce", Kind::Any),
            arg("key", Kind::Any),
        ],
        authenticate,
    ),
    Command::new(
        "logout",
        "forgets who is logged in on this connection",
        Privilege::Any,
        flag::NO_AUTH | flag::LENIENT,
        &[],
        |cx| {
            cx.service
                .log_logout(&cx.conn.info, "the client has logged out");
            cx.conn.identity.log_out();
            cx.conn.show_user();
            Ok(Outcome::Reply)
        },
    ),
];

/// A payload, as bytes or as base64.
fn payload(value: &Value<'_>) -> Result<Vec<u8>> {
    match value {
        Value::Binary(b) => Ok(b.bytes.to_vec()),
        Value::String(text) => match access::from_base64(text) {
            Some(bytes) => Ok(bytes),
            None => bail!(code::BAD_VALUE, "the payload is not base64"),
        },
        other => Err(wrong_type("payload", other, &[Tag::BINARY, Tag::STRING])),
    }
}

fn reply(cx: &mut Ctx<'_, '_>, done: bool, payload: &[u8]) -> Outcome {
    let payload = Binary {
        subtype: 0,
        bytes: payload,
    };
    cx.reply
        .put("conversationId", CONVERSATION)
        .put("done", done)
        .put("payload", payload);
    Outcome::Reply
}

/// Shows other connections who is logged in now, and logs the end of a login attempt.
pub(super) fn report_login(cx: &mut Ctx<'_, '_>, result: std::result::Result<(), &MongoError>) {
    // The audit event names the user who has just logged in.
    cx.conn.show_user();
    let attempt = cx.conn.identity.take_attempt();
    cx.service.log_login(&cx.conn.info, attempt, result);
}

/// Logs an attempt that has ended with this step.
fn tell_end(cx: &mut Ctx<'_, '_>, login: &Result<Login>) {
    match login {
        Ok(Login::Wait(_)) => {}
        // Logged now instead of with the delayed answer, in case the client does not wait for it.
        Ok(Login::Failed(_)) => report_login(cx, Err(&authentication_error())),
        ended => report_login(cx, ended.as_ref().map(|_| ())),
    }
}

/// Converts the result of a login step to the outcome of its command.
fn outcome(cx: &mut Ctx<'_, '_>, login: Login) -> Result<Outcome> {
    let wait = |until_us| Outcome::Wait {
        until_us,
        on: WaitFor::Time,
    };
    Ok(match login {
        Login::More(answer) => reply(cx, false, &answer),
        Login::Done(answer) => reply(cx, true, &answer),
        Login::Wait(until_us) => wait(until_us),
        Login::Failed(at_us) if at_us <= cx.service.clock.monotonic_us() => {
            return Err(authentication_error());
        }
        Login::Failed(at_us) => {
            cx.conn.identity.keep_waiting();
            wait(at_us)
        }
    })
}

/// Ends an attempt whose answer was delayed.
fn end_failed(cx: &mut Ctx<'_, '_>) -> Result<()> {
    if cx.conn.identity.take_delayed_answer() && cx.request.waited {
        return Err(authentication_error());
    }
    Ok(())
}

/// The enabled mechanisms.
pub(super) fn mechanisms_on(cx: &Ctx<'_, '_>) -> Vec<String> {
    let parameters = &cx.service.state.parameters;
    parameters.strings("authenticationMechanisms")
}

fn moment(cx: &Ctx<'_, '_>) -> Moment {
    let clock = &cx.service.clock;
    Moment {
        now: CurrentTime {
            wall_ms: clock.now_ms(),
            monotonic_us: clock.monotonic_us(),
        },
        waited: cx.request.waited,
    }
}

/// The first message of a client, with the database that it names.
pub(super) struct FirstMessage<'a> {
    pub(super) db: &'a str,
    pub(super) payload: &'a [u8],
    /// The client skips the empty last exchange.
    pub(super) skips_empty: bool,
    /// The message is part of the greeting.
    pub(super) speculative: bool,
}

/// Begins a login. An attempt that has ended is reported to the log and the audit.
pub(super) fn begin(
    cx: &mut Ctx<'_, '_>,
    method: &LoginMethod,
    first: &FirstMessage<'_>,
) -> Result<Login> {
    let moment = moment(cx);
    let access = &cx.service.access;
    let identity = &mut cx.conn.identity;
    let login = match method {
        LoginMethod::Scram(mechanism) => {
            let rounds = rounds(|name| cx.service.state.parameters.int(name));
            let (payload, skips_empty) = (first.payload, first.skips_empty);
            sasl_start(
                access,
                identity,
                *mechanism,
                first.db,
                payload,
                skips_empty,
                rounds,
            )
            .map(Login::More)
        }
        LoginMethod::Token => token_start(access, identity, first.db, first.payload, moment),
        LoginMethod::Directory => plain_start(access, identity, first.db, first.payload, moment),
    };
    if first.speculative {
        cx.conn.identity.speculates();
    }
    // SCRAM ends with a later message.
    if !matches!(method, LoginMethod::Scram(_)) && !matches!(login, Ok(Login::More(_))) {
        tell_end(cx, &login);
    }
    login
}

fn start(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    end_failed(cx)?;
    let name = cx.args.str("mechanism").unwrap_or("");
    let method = LoginMethod::of(&mechanisms_on(cx), name)?;
    static OPTIONS: &[Arg] = &[arg("skipEmptyExchange", Kind::Bool)];
    let skips = match cx.args.doc("options") {
        Some(d) => check_doc("options", OPTIONS, d)?.bool("skipEmptyExchange", false),
        None => false,
    };
    let payload = payload(&cx.args.value("payload"))?;
    let first = FirstMessage {
        db: cx.db,
        payload: &payload,
        skips_empty: skips,
        speculative: false,
    };
    let login = begin(cx, &method, &first)?;
    outcome(cx, login)
}

fn go_on(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    end_failed(cx)?;
    if cx.args.int("conversationId") != Some(i64::from(CONVERSATION)) {
        bail!(code::PROTOCOL_ERROR, "sasl: Mismatched conversation id");
    }
    let next = payload(&cx.args.value("payload"))?;
    let moment = moment(cx);
    let (access, identity) = (&cx.service.access, &mut cx.conn.identity);
    let login = if expects_token(identity) {
        token_continue(access, identity, &next, moment)
    } else {
        let now_us = moment.now.monotonic_us;
        sasl_continue(access, identity, &next, now_us, moment.waited)
    };
    tell_end(cx, &login);
    let login = login?;
    outcome(cx, login)
}

fn authenticate(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let name = cx.args.str("mechanism").unwrap_or("MONGODB-CR");
    let on = mechanisms_on(cx);
    if name != "MONGODB-X509" || !on.iter().any(|m| m == name) {
        return Err(access::no_mechanism(name));
    }
    if cx.db != "$external" {
        bail!(
            code::PROTOCOL_ERROR,
            "X.509 authentication must always use the $external database."
        );
    }
    let claimed = cx.args.str("user");
    let entered = x509(&cx.service.access, &mut cx.conn.identity, claimed);
    report_login(cx, entered.as_ref().map(|_| ()));
    let subject = entered?;
    cx.reply
        .put("dbname", "$external")
        .put("user", subject.as_str());
    Ok(Outcome::Reply)
}
