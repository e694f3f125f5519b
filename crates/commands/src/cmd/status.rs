//! Small commands that report: `whatsmyuri`, `getCmdLineOpts`, `getLog`, `listCommands`,
//! `connPoolStats`, `lockInfo`, `hostInfo`, `logRotate`.

use context::command::Command;
use context::ctx::Ctx;
use model::{Result, Tag, Value, bail, code, doc_fields};
use request::Outcome;
use request::args::{Kind, arg, wrong_type};
use request::spec::{Privilege, Spec, flag};
use state::machine::Host;

pub(crate) static COMMANDS: &[Command] = &[
    Command::new(
        "whatsmyuri",
        "address the server sees the client at",
        Privilege::Any,
        flag::NO_AUTH | flag::LENIENT,
        &[],
        whatsmyuri,
    ),
    Command::new(
        "getCmdLineOpts",
        "command line of the server",
        Privilege::Cluster(&[auth::Action::GetCmdLineOpts]),
        flag::ADMIN,
        &[],
        get_cmd_line_opts,
    ),
    Command::new(
        "getLog",
        "last lines of the log",
        Privilege::Cluster(&[auth::Action::GetLog]),
        flag::ADMIN,
        &[],
        get_log,
    )
    .value(Kind::Str),
    Command::new(
        "listCommands",
        "all commands",
        Privilege::Any,
        flag::LENIENT,
        &[],
        list_commands,
    ),
    Command::new(
        "connPoolStats",
        "outgoing connections",
        Privilege::Cluster(&[auth::Action::ConnPoolStats]),
        flag::LENIENT,
        &[],
        conn_pool_stats,
    ),
    Command::new(
        "lockInfo",
        "locks held and awaited",
        Privilege::Cluster(&[auth::Action::ServerStatus]),
        flag::ADMIN,
        &[arg("includeStorageEngineDump", Kind::Bool)],
        lock_info,
    ),
    Command::new(
        "hostInfo",
        "machine and operating system",
        Privilege::Cluster(&[auth::Action::HostInfo]),
        flag::LENIENT,
        &[],
        host_info,
    ),
    Command::new(
        "logRotate",
        "starts a new log",
        Privilege::Cluster(&[auth::Action::LogRotate]),
        flag::ADMIN | flag::LONG,
        &[arg("comment", Kind::Any)],
        log_rotate,
    )
    .value(Kind::Any),
];

fn whatsmyuri(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    cx.reply.put("you", &cx.conn.info.peer);
    Ok(Outcome::Reply)
}

fn get_cmd_line_opts(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let service = cx.service;
    let mut argv = cx.reply.array("argv");
    for part in &service.config.argv {
        argv.push(part);
    }
    drop(argv);
    cx.reply.put("parsed", &service.config.parsed);
    Ok(Outcome::Reply)
}

fn get_log(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let service = cx.service;
    match cx.value().as_str().unwrap_or("") {
        "*" => {
            let mut names = cx.reply.array("names");
            names.push("global").push("startupWarnings");
        }
        "global" => {
            let (lines, written) = service.config.log.lines();
            cx.reply.put(
                "totalLinesWritten",
                i32::try_from(written).unwrap_or(i32::MAX),
            );
            let mut out = cx.reply.array("log");
            for line in &lines {
                out.push(line);
            }
        }
        "startupWarnings" => {
            let warnings = service.config.log.startup_warnings();
            cx.reply.put("totalLinesWritten", warnings.len() as i32);
            let mut out = cx.reply.array("log");
            for line in &warnings {
                out.push(line);
            }
        }
        other => bail!(
            code::OPERATION_FAILED,
            "no RecentLog named: {other}, there are global and startupWarnings"
        ),
    }
    Ok(Outcome::Reply)
}

fn list_commands(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let mut list = cx.reply.doc("commands");
    let mut commands: Vec<&Spec> = cx.commands.all().map(|row| row.command).collect();
    commands.sort_by_key(|c| c.name);
    for c in commands {
        let mut one = list.doc(c.name);
        one.put("help", c.help);
        one.put("requiresAuth", !c.is(flag::NO_AUTH));
        one.put("secondaryOk", !c.is(flag::WRITE));
        one.put("adminOnly", c.is(flag::ADMIN));
        if c.is(flag::API_V1) {
            one.array("apiVersions").push("1");
        } else {
            one.array("apiVersions");
        }
        one.array("deprecatedApiVersions");
    }
    Ok(Outcome::Reply)
}

/// There are no connections to other servers to report.
fn conn_pool_stats(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let w = &mut cx.reply;
    doc_fields!(w;
        "numClientConnections": 0i32,
        "numAScopedConnections": 0i32,
        "totalInUse": 0i32,
        "totalAvailable": 0i32,
        "totalLeased": 0i32,
        "totalCreated": 0i32,
        "totalRefreshing": 0i32,
        "totalRefreshed": 0i32,
        "totalWasNeverUsed": 0i32,
        "pools": {},
        "hosts": {}
    );
    let set = cx.service.config.replica_set.as_deref();
    let mut sets = cx.reply.doc("replicaSets");
    if let Some(set) = set {
        let mut hosts = sets.doc(set);
        let mut list = hosts.array("hosts");
        let mut one = list.doc();
        one.put("addr", &cx.service.config.host)
            .put("ok", true)
            .put("ismaster", true)
            .put("hidden", false);
        one.put("secondary", false).put("pingTimeMillis", 0i32);
    }
    Ok(Outcome::Reply)
}

/// Always empty: locks are not objects with queues here.
fn lock_info(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    cx.reply.array("lockInfo");
    Ok(Outcome::Reply)
}

fn host_info(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let h = Host::read();
    let now = cx.now_ms();
    let mb = |bytes: i64| bytes / (1024 * 1024);
    let w = &mut cx.reply;
    doc_fields!(w;
        "system": {
            "currentTime": Value::Date(now),
            "hostname": h.hostname.as_str(),
            "cpuAddrSize": 64i32,
            "memSizeMB": mb(h.memory_bytes),
            "memLimitMB": mb(h.memory_limit_bytes),
            "numCores": h.cores as i32,
            "numCoresAvailableToProcess": h.cores_available as i32,
            "numPhysicalCores": h.physical_cores as i32,
            "numCpuSockets": h.sockets as i32,
            "cpuArch": std::env::consts::ARCH,
            "numaEnabled": h.numa_nodes > 1,
            "numNumaNodes": h.numa_nodes as i32
        },
        "os": { "type": "Linux", "name": h.os_name.as_str(), "version": h.os_version.as_str() },
        "extra": {
            "versionString": h.kernel_version.as_str(),
            "kernelVersion": h.kernel.as_str(),
            "cpuString": h.cpu_model.as_str(),
            "cpuFrequencyMHz": h.cpu_mhz.as_str(),
            "cpuFeatures": h.cpu_features.as_str(),
            "pageSize": h.page_bytes
        }
    );
    Ok(Outcome::Reply)
}

fn log_rotate(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let v = cx.value();
    if v.as_str().is_none() && v.as_bool().is_none() && !v.is_number() {
        let tags = [
            Tag::STRING,
            Tag::BOOL,
            Tag::INT64,
            Tag::INT32,
            Tag::DECIMAL128,
            Tag::DOUBLE,
        ];
        return Err(wrong_type("logRotate.logRotate", &v, &tags));
    }
    let service = cx.service;
    match v.as_str() {
        None => service.rotate_log(cx.operation.connection())?,
        Some("server") => service.rotate_server_log(cx.operation.connection())?,
        Some("audit") if service.state.audit.is_on() => {
            service.rotate_audit(cx.operation.connection())?
        }
        Some(kind) => {
            let known = match service.state.audit.is_on() {
                true => "'server' and 'audit'",
                false => "'server'",
            };
            bail!(
                code::NO_SUCH_KEY,
                "no log of the kind '{kind}' can be rotated, only {known}"
            );
        }
    }
    Ok(Outcome::Reply)
}
