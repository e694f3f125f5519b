//! Parts of a service, shared by the server that holds the data and one that reads what another
//! server writes: the configuration for commands, the parameters of the start. Must not know:
//! engines, sockets.

use crate::config::{Settings, list_of};
use ::memory::Budget;
use commands::{Config, Service};
use logs::Log;
use state::config::Sizes;
use std::sync::Arc;

/// Sets the parameters of the start on a service.
///
/// # Errors
/// One line that names the parameter.
pub(crate) fn set_parameters(settings: &Settings, service: &Service) -> Result<(), String> {
    for (name, value) in &settings.parameters {
        let parameters = &service.state.parameters;
        let set = match name.as_str() {
            "oidcIdentityProviders" => {
                let list = list_of(name, value)?;
                parameters.set_at_startup(name, list.doc().field(""))
            }
            _ => parameters.set_at_startup_text(name, value),
        };
        set.map_err(|e| e.message().to_owned())?;
    }
    let verbosity = settings.log.verbosity.to_string();
    for (name, value) in [
        (
            "logLevel",
            (settings.log.verbosity > 0).then_some(verbosity.as_str()),
        ),
        ("quiet", settings.log.quiet.then_some("true")),
        ("redactClientLogData", settings.log.redact.then_some("true")),
    ] {
        if let Some(value) = value {
            let set = service.state.parameters.set_at_startup_text(name, value);
            set.map_err(|e| e.message().to_owned())?;
        }
    }
    service.follow_parameters();
    let (slow_ms, share) = (settings.log.slow_ms, settings.log.slow_sample_rate);
    let profile = &service.state.profile;
    profile.set_default(settings.log.profile, slow_ms, share);
    Ok(())
}

/// The configuration of a service.
pub(crate) fn service_config(settings: &Settings, memory: Arc<Budget>, log: Arc<Log>) -> Config {
    let host = settings
        .bind_ip
        .iter()
        .find(|h| !matches!(h.as_str(), "0.0.0.0" | "::" | "*"));
    let host = host.map_or("localhost", String::as_str);
    let host = format!("{host}:{}", settings.port);
    let known = ["zstd", "zlib", "snappy"];
    Config {
        replica_set: settings.replica_set.clone(),
        profile: settings.profile,
        host: settings.advertised.clone().unwrap_or(host),
        // Servers of one cluster name each other, so their addresses must not depend on the client.
        is_host_advertised: settings.advertised.is_some() || !settings.tikv.servers.is_empty(),
        successors: settings.tikv.servers.clone(),
        is_one_of_equals: settings.tikv.address.is_some() || settings.tikv.writes_here,
        revision: env!("QUARRY_REVISION"),
        argv: std::env::args().collect(),
        parsed: settings.given.clone(),
        compressors: known
            .into_iter()
            .filter(|k| settings.compressors.iter().any(|c| c == k))
            .collect(),
        connections_max: settings.connections_max,
        log,
        auth: settings.auth,
        oidc: settings.elsewhere.oidc.clone(),
        ldap: settings.elsewhere.ldap.clone(),
        plain_without_tls: settings.elsewhere.plain_without_tls,
        memory,
        seals_files: settings.encryption_key.is_some(),
        search_folder: settings.search_folder(),
        scripting: settings.scripting,
        scan_threads: settings.scan_threads,
        column_segments: Sizes::default(),
        optimize_pipelines: true,
    }
}
