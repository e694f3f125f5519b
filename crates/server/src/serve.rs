//! `quarry serve`: opens the engine, starts the network, waits for a signal, shuts down without
//! loss.

use crate::background;
use crate::clock::ServerClock;
use crate::command_handler::CommandHandler;
use crate::config::{ServeArgs, Settings, oplog_bytes_default};
use crate::descriptors::{Descriptors, raise_limit};
use crate::engines::{EngineOptions, OpenedEngine};
use crate::failure::with_cause;
use crate::handover::ForwardingState;
use crate::memory::MemoryShares;
use crate::metrics_http::Endpoint;
use crate::metrics_page;
use crate::net::{Server, Tls, Watermark};
use crate::otlp::Exporter;
use crate::output::{print_error, print_line};
use crate::process::{self, PidFile};
use crate::protect::{self, CODE_JOURNAL, LOG_FLUSH};
use crate::report;
use crate::service_parts::{service_config, set_parameters};
use crate::space::{free_bytes, prepare_directory};
use crate::{engines, links, net};
use ::memory::Budget;
use commands::{Clock, ConnectionId, Dispatcher, Service, StoreHooks, registry};
use logs::{Entry, LineFormat, Log, Release, Severity, Sink, Target, component, id};
use model::code;
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use storage::{Engine, FlushEvent};
use store::Store;

/// Why the server did not start or failed.
#[derive(Debug)]
pub struct ServeError {
    /// One line.
    pub message: String,
    /// Exit code.
    pub code: u8,
}

/// Wrong options, as clap's.
const CODE_OPTIONS: u8 = 2;
/// As mongod's: an address cannot be bound.
const CODE_NETWORK: u8 = 48;
/// As mongod's: the data cannot be opened.
const CODE_DATA: u8 = 100;

fn fail(code: u8) -> impl Fn(String) -> ServeError {
    move |message| ServeError { message, code }
}

/// How often the settings are loaded again when other servers change the catalog meanwhile.
const START_TRIES: u32 = 20;
/// How long running requests may take to finish when the server stops.
const GRACE: Duration = Duration::from_secs(10);

/// Runs until SIGTERM or SIGINT.
///
/// # Errors
/// One line and an exit code.
pub fn run(args: &ServeArgs) -> Result<(), ServeError> {
    run_with(Settings::of(args).map_err(fail(CODE_OPTIONS))?)
}

/// As [`run`], with settings that are read already.
///
/// # Errors
/// One line and an exit code.
pub fn run_with(mut settings: Settings) -> Result<(), ServeError> {
    // The lease of this process before its restart may not have expired yet.
    settings.tikv.standby |= process::is_restarted() && !settings.tikv.writes_here;
    if settings.port == 0 {
        settings.port = process::free_port(settings.bind_ip.first()).map_err(fail(CODE_NETWORK))?;
    }
    engines::check(&settings.engine()).map_err(fail(CODE_OPTIONS))?;
    let files = Descriptors::share(raise_limit(), engines::open_files(&settings.engine()));
    let files = files.map_err(fail(CODE_OPTIONS))?;
    if !settings.auth && settings.listens_beyond_localhost() && !settings.allow_open_access {
        return Err(fail(CODE_OPTIONS)(format!(
            "bind_ip {} lets other machines connect, and access control is off: give --auth, or \
             --allowOpenAccess if everybody who reaches this machine may read and write all data",
            settings.bind_ip.join(",")
        )));
    }
    if settings.log.fork && !process::is_in_background() {
        return fork();
    }
    let (log, release) = open_log(&settings, files).map_err(fail(CODE_OPTIONS))?;
    let fit = u32::try_from(files.connections).unwrap_or(u32::MAX);
    settings.connections_max = settings.connections_max.min(fit);
    settings.turned_away_max = usize::try_from(files.turned_away).unwrap_or(usize::MAX);
    let pid_file = settings.log.pid_file.as_deref().map(PidFile::write);
    let _pid_file = pid_file.transpose().map_err(fail(CODE_OPTIONS))?;
    let result = serve(&settings, &log, &release);
    if let Err(e) = &result {
        let entry = Entry::info(id::MESSAGE, component::CONTROL, "main", &e.message);
        log.write(&entry.severity(Severity::Error));
    }
    let code = result.as_ref().err().map_or(0, |e| e.code);
    report::describe_end(code).iter().for_each(|e| log.write(e));
    log.flush(LOG_FLUSH);
    result
}

/// Runs the server in the background and exits when that one listens.
fn fork() -> Result<(), ServeError> {
    let is_reached = |line: &str| {
        [": listening on ", ": handing "]
            .iter()
            .any(|w| line.contains(w))
    };
    match process::start_in_background(is_reached) {
        Ok(()) => Ok(()),
        Err(status) => {
            let code = status
                .and_then(|s| s.code())
                .and_then(|c| u8::try_from(c).ok());
            let message = "the server in the background did not start".to_owned();
            Err(fail(code.unwrap_or(CODE_OPTIONS))(message))
        }
    }
}

/// Opens the log. On standard error its lines are held back until the server listens: a start that
/// fails prints one line only.
fn open_log(settings: &Settings, files: Descriptors) -> Result<(Arc<Log>, Release), String> {
    let log = Arc::new(Log::new());
    log.set_quiet(settings.log.quiet);
    log.set_verbosity(settings.log.verbosity);
    log.set_redacts(settings.log.redact);
    let on_stream = settings.log.path.is_none();
    let is_read = on_stream && !settings.as_mongod && std::io::stderr().is_terminal();
    let form = match is_read {
        true => LineFormat::Readable,
        false => LineFormat::Json,
    };
    let target = match settings.log.target() {
        Target::Stderr if settings.as_mongod => Target::Stdout,
        target => target,
    };
    let (sink, release) = Sink::open(target, form, on_stream)?;
    log.to(sink);
    let start = report::describe_start(settings);
    let all = start
        .iter()
        .chain(&report::warnings(settings, files))
        .cloned()
        .collect::<Vec<_>>();
    all.iter().for_each(|e| log.write(e));
    Ok((log, release))
}

/// Starts to send metrics to a collector, if one is configured.
fn exporter(
    settings: &Settings,
    dispatcher: &Arc<Dispatcher>,
) -> Result<Option<Exporter>, ServeError> {
    let start = |otlp| Exporter::start(otlp, settings.port, dispatcher);
    let started = settings.otlp.clone().map(start).transpose();
    started
        .map_err(|e| fail(CODE_OPTIONS)(format!("cannot start the thread for otlpEndpoint: {e}")))
}

/// Runs with a log until a signal comes.
fn serve(settings: &Settings, log: &Arc<Log>, release: &Release) -> Result<(), ServeError> {
    if process::is_in_background() {
        process::leave_terminal();
    }
    let mut signals = signals()?;
    if settings.has_directory() {
        prepare_directory(&settings.dbpath).map_err(fail(CODE_DATA))?;
    }
    let Some((forwarding, opened)) = open(settings, log, release, &mut signals)? else {
        print_line(format_args!("quarry: stopped"));
        return Ok(());
    };
    let clock: Arc<dyn Clock> = Arc::new(ServerClock::of(&opened.engine));
    let store = open_store(settings, &opened, &clock)?;
    let engine = opened.engine;
    crate::memory::set_decay();
    let parts = MemoryShares::of(settings.memory_bytes);
    let operations = Arc::new(parts.budget(settings.memory_bytes));
    let messages = parts.messages(&operations);
    let config = service_config(settings, operations, Arc::clone(log));
    let service = Service::new(config, clock, store.clone());
    apply_settings(settings, &service).inspect_err(|_| {
        let _ = store.close();
    })?;
    links::keep_backups(settings, &service).map_err(fail(CODE_DATA))?;
    links::block_writes(settings, &service).map_err(fail(CODE_DATA))?;
    let service = service.into_shared();
    protect::enable_key_rotation(settings, &service, opened.data_key);
    let audited = protect::start_audit(settings, &service, log);
    let tls = audited.and_then(|()| start_tls(settings, &service));
    let tls = tls.map_err(|e| {
        let _ = store.close();
        fail(CODE_OPTIONS)(e)
    })?;
    let watermark = Watermark::new();
    follow_journal(settings, &engine, &watermark, log);
    let dispatcher = Arc::new(registry::dispatcher(service.clone()));
    let handler = CommandHandler::new(dispatcher.clone(), engine.clone());
    let network = net::Config {
        tls,
        ..net_config(settings, messages)
    };
    let started = match forwarding {
        Some(forwarding) => forwarding.serve(settings, &network, handler, watermark),
        None => Server::start(&network, handler, watermark),
    };
    let server = started.map_err(|e| {
        let _ = store.close();
        cannot_listen(settings, &e)
    })?;
    links::link(settings, &service, &server);
    let exported = Arc::clone(&dispatcher);
    let endpoint = metrics(settings, dispatcher).inspect_err(|_| {
        let _ = store.close();
    })?;
    let exporter = exporter(settings, &exported).inspect_err(|_| {
        let _ = store.close();
    })?;
    let log_keeper = store.keep_log();
    announce(settings, &server, opened.remark.as_deref(), log);
    if let Some(endpoint) = &endpoint {
        let address = endpoint.address();
        print_line(format_args!("quarry: metrics on http://{address}/"));
    }
    release.release();
    if process::is_in_background() {
        process::detach_streams();
    }
    let clean = serve_until_signal(&service, server, &mut signals);
    drop((endpoint, exporter, log_keeper));
    store
        .close()
        .map_err(|e| fail(CODE_DATA)(format!("closing the data failed: {e}")))?;
    let late = match clean {
        true => "",
        false => ", some requests did not end in time",
    };
    print_line(format_args!("quarry: stopped{late}"));
    Ok(())
}

/// Opens the engine. `None` if a server that forwards its connections was told to stop before it
/// held the database.
fn open(
    settings: &Settings,
    log: &Arc<Log>,
    release: &Release,
    signals: &mut signal_hook::iterator::Signals,
) -> Result<Option<(Option<ForwardingState>, OpenedEngine)>, ServeError> {
    let network = net_config(settings, Arc::new(Budget::unlimited()));
    let forwarding = ForwardingState::start(settings, &network, release, log);
    let forwarding = forwarding.map_err(|e| cannot_listen(settings, &e))?;
    let opened = engines::open(&EngineOptions {
        awaited: forwarding.as_ref().map(ForwardingState::holder),
        tikv: Some(engines::Cluster {
            log: Some(log.as_ref()),
            ..settings.tikv.cluster()
        }),
        ..settings.engine()
    });
    match opened {
        Err(_) if forwarding.is_some() && signals.pending().next().is_some() => Ok(None),
        opened => Ok(Some((forwarding, opened.map_err(fail(CODE_DATA))?))),
    }
}

/// From here on a signal does not kill the process: an interrupted start still closes what it has
/// opened.
fn signals() -> Result<signal_hook::iterator::Signals, ServeError> {
    signal_hook::iterator::Signals::new([
        signal_hook::consts::SIGTERM,
        signal_hook::consts::SIGINT,
        // The terminal was closed; mongod exits, too.
        signal_hook::consts::SIGHUP,
        signal_hook::consts::SIGUSR1,
    ])
    .map_err(|e| fail(CODE_OPTIONS)(format!("cannot wait for signals: {e}")))
}

/// Opens the store over the engine. A member of a set logs all changes. A server beside others does
/// so, too, unless the size of the log is 0. A standalone server logs only the changes of
/// collections with search indexes.
fn open_store(
    settings: &Settings,
    opened: &OpenedEngine,
    clock: &Arc<dyn Clock>,
) -> Result<Arc<Store>, ServeError> {
    let mut hooks = StoreHooks::new(clock.clone()).with_profile(settings.profile);
    let engine = &opened.engine;
    let cannot_open = |e| {
        let path = settings.dbpath.display();
        fail(CODE_DATA)(format!("cannot open {path}: {e}"))
    };
    let free = || oplog_bytes_default(free_bytes(engine.as_ref(), settings.memory_bytes));
    let log_bytes = settings.oplog_bytes.unwrap_or_else(free);
    if let Some(follower) = &opened.follower {
        let hooks = match log_bytes {
            0 => hooks,
            some => hooks.with_log(some),
        };
        let joined = Store::join(Arc::clone(follower), Arc::new(hooks)).map_err(cannot_open)?;
        return Ok(Arc::new(joined));
    }
    hooks = match settings.replica_set {
        Some(_) => hooks.with_log(log_bytes),
        None => hooks.log_for_search(log_bytes),
    };
    let store = Store::open(engine.clone(), Arc::new(hooks)).map_err(cannot_open)?;
    Ok(Arc::new(store))
}

/// Applies the parameters of the start and the settings that an earlier run has stored.
fn apply_settings(settings: &Settings, service: &Service) -> Result<(), ServeError> {
    set_parameters(settings, service).map_err(fail(CODE_OPTIONS))?;
    // A connection that another server on this machine forwards comes from this machine.
    let is_handed_over = settings.tikv.address.is_some() && settings.listens_beyond_localhost();
    if is_handed_over || !service.state.parameters.bool("enableLocalhostAuthBypass") {
        service.access.end_localhost_exception();
    }
    let load = || {
        service.store.begin_moment()?;
        service.state.load(&service.store)?;
        service.keep_version()?;
        service.note_start()
    };
    let mut loaded = load();
    // Another server that starts, too, may have changed the catalog meanwhile.
    for _ in 0..START_TRIES {
        match &loaded {
            Err(e) if e.is_collection_gone() || e.code() == code::WRITE_CONFLICT => loaded = load(),
            _ => break,
        }
    }
    loaded.map_err(|e| {
        let reason = e.message();
        fail(CODE_DATA)(format!("cannot read the stored settings: {reason}"))
    })
}

/// Runs the background threads until a signal comes, then stops them and the server. False if
/// requests did not end in time.
fn serve_until_signal(
    service: &Arc<Service>,
    server: Server<CommandHandler>,
    signals: &mut signal_hook::iterator::Signals,
) -> bool {
    let stopping = Arc::new(AtomicBool::new(false));
    let threads = background::start_all(service, &stopping);
    // Stops the server as the signal would. It is set here only.
    let end = || _ = signal_hook::low_level::raise(signal_hook::consts::SIGTERM);
    let _ = service.state.shut_down.set(Box::new(end));
    for signal in signals.forever() {
        if signal != signal_hook::consts::SIGUSR1 {
            let name = signal_hook::low_level::signal_name(signal).unwrap_or("");
            report::signal(signal, name)
                .iter()
                .for_each(|e| service.write_log(e));
            service.audit_ending(ConnectionId::NONE);
            break;
        }
        // An error is in the log, which continues in the old file.
        let _ = service.rotate_log(ConnectionId::NONE);
    }
    print_line(format_args!("quarry: stopping"));
    stopping.store(true, Ordering::Release);
    service.interrupt_all();
    let clean = server.stop(GRACE);
    for thread in threads {
        thread.thread().unpark();
        let _ = thread.join();
    }
    clean
}

/// Starts the metrics port, if one is configured.
fn metrics(
    settings: &Settings,
    dispatcher: Arc<Dispatcher>,
) -> Result<Option<Endpoint>, ServeError> {
    let Some(options) = &settings.metrics else {
        return Ok(None);
    };
    metrics_page::start(options, dispatcher, settings.memory_bytes)
        .map(Some)
        .map_err(|e| {
            fail(CODE_NETWORK)(format!(
                "cannot listen on {}:{} for metricsPort: {e}; choose another --metricsPort",
                options.ip, options.port
            ))
        })
}

/// The error of a failed bind.
fn cannot_listen(settings: &Settings, e: &std::io::Error) -> ServeError {
    let listen = format!("{}:{}", settings.bind_ip.join(","), settings.port);
    let advice = match e.kind() {
        std::io::ErrorKind::AddrInUse => "; stop the other server or choose another --port",
        std::io::ErrorKind::PermissionDenied => "; choose a --port above 1023",
        _ => "",
    };
    fail(CODE_NETWORK)(format!("cannot listen on {listen}: {e}{advice}"))
}

/// Tells the network how far the journal is durable. Ends the process when the journal has failed
/// for good, as mongod does: writes since the last flush may or may not be on the device, so they
/// must be neither acknowledged nor shown. A server on a cluster restarts in the same process:
/// nothing it needs is on this machine, and the lease says when it may serve.
fn follow_journal(
    settings: &Settings,
    engine: &Arc<dyn Engine>,
    watermark: &Arc<Watermark>,
    log: &Arc<Log>,
) {
    let is_on_cluster = settings.storage_engine == "tikv";
    let log = Arc::clone(log);
    let (advance, journal) = (Arc::clone(watermark), Arc::downgrade(engine));
    engine.on_durable(Box::new(move |flushed| match flushed {
        FlushEvent::Durable(pos) => advance.advance(pos.0),
        FlushEvent::Failed(pos) => advance.fail(pos.0),
        FlushEvent::Lost => {
            let cause = journal
                .upgrade()
                .and_then(|e| e.wait_durable(e.last_pos()).err());
            let cause = cause.map_or_else(String::new, |e| format!(" ({})", with_cause(&e)));
            let message = match is_on_cluster {
                true => format!(
                    "this server no longer holds the database{cause}; restarting, to serve when \
                     the database is free and the cluster answers"
                ),
                false => format!(
                    "the journal cannot be flushed{cause}; ending at once, because the writes \
                     since the last flush may or may not be on the device; a restart recovers \
                     what is there"
                ),
            };
            print_error(format_args!("quarry: {message}"));
            let entry = Entry::info(id::MESSAGE, component::STORAGE, "journal", &message);
            log.write(&entry.severity(Severity::Fatal));
            log.flush(LOG_FLUSH);
            if is_on_cluster {
                let why = process::start_again();
                print_error(format_args!("quarry: cannot restart: {why}"));
            }
            // No destructor may run: data in memory must not be written to the device any more.
            signal_hook::low_level::exit(i32::from(CODE_JOURNAL));
        }
    }));
}

/// Loads the TLS files, now and on every `rotateCertificates`.
fn start_tls(settings: &Settings, service: &Service) -> Result<Option<Arc<Tls>>, String> {
    let Some((mode, files)) = settings.tls.clone() else {
        return Ok(None);
    };
    let tls = Arc::new(Tls::new(mode, files.load()?));
    let rotated = Arc::clone(&tls);
    let rotate = move || files.load().map(|config| rotated.replace(config));
    // It is set here only.
    let _ = service.state.rotate_certificates.set(Box::new(rotate));
    Ok(Some(tls))
}

fn net_config(settings: &Settings, memory: Arc<Budget>) -> net::Config {
    net::Config {
        bind_ip: settings.bind_ip.clone(),
        ipv6: settings.ipv6,
        port: settings.port,
        unix_socket_prefix: settings.unix_socket_prefix.clone(),
        max_connections: u64::from(settings.connections_max),
        turned_away_max: settings.turned_away_max,
        memory,
        ..net::Config::default()
    }
}

fn announce(settings: &Settings, server: &Server<CommandHandler>, remark: Option<&str>, log: &Log) {
    // A failed start prints one line, so this remark is printed only when the start has succeeded.
    if let Some(remark) = remark {
        print_error(format_args!("quarry: {remark}"));
    }
    let bound: Vec<String> = server
        .tcp_addresses()
        .iter()
        .map(ToString::to_string)
        .collect();
    let listening = report::describe_listeners(&bound, settings);
    listening.iter().for_each(|e| log.write(e));
    let addresses: Vec<String> = server
        .tcp_addresses()
        .iter()
        .map(|a| format!("mongodb://{a}"))
        .collect();
    print_line(format_args!(
        "quarry {}: listening on {}, data in {}, memory {} MiB, {}",
        env!("CARGO_PKG_VERSION"),
        addresses.join(" "),
        if settings.has_directory() {
            settings.dbpath.display().to_string()
        } else {
            settings.storage_engine.clone()
        },
        settings.memory_bytes >> 20,
        settings
            .replica_set
            .as_ref()
            .map_or("standalone".to_owned(), |n| format!("replica set {n}")),
    ));
    if let Some(path) = server.unix_path() {
        print_line(format_args!("quarry: unix socket {}", path.display()));
    }
}
