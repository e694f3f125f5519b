//! Options of the LDAP directory: `security.ldap`. Promises: an option of mongod works as there or
//! is refused by name; its password can be given in the file only, because other users can see
//! command lines.

use super::document::list;
use crate::tls::client;
use clap::Args;
use identity_ldap::{Directory, Security, Settings};
use serde::Deserialize;
use serde_yaml_ng::Value;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Milliseconds of a login, as mongod's.
const TIMEOUT_MS: u64 = 10_000;

/// Options of the command line.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "LDAP")]
pub struct LdapArgs {
    /// LDAP servers that check the passwords of logins by PLAIN: HOST or HOST:PORT, separated by
    /// commas
    #[arg(long = "ldapServers", value_name = "LIST")]
    pub ldap_servers: Option<String>,
    /// Encryption of the connections to the LDAP servers: tls (LDAPS) or none [default: tls]
    #[arg(long = "ldapTransportSecurity", value_name = "HOW")]
    pub ldap_transport_security: Option<String>,
    /// PEM file with the certificates of the authorities that sign the LDAP servers' certificates;
    /// needed for tls
    #[arg(long = "ldapCAFile", value_name = "FILE")]
    pub ldap_ca_file: Option<PathBuf>,
    /// LDAP user as which the server searches the directory; its password is
    /// security.ldap.bind.queryPassword in the configuration file
    #[arg(long = "ldapQueryUser", value_name = "NAME")]
    pub ldap_query_user: Option<String>,
    /// JSON array of rules that map the user name that a client sends to a name in the directory
    /// [default: the name is not changed]
    #[arg(long = "ldapUserToDNMapping", value_name = "RULES")]
    pub ldap_mapping: Option<String>,
    /// LDAP query that finds the groups of a user; each group is a role of the database admin
    #[arg(long = "ldapAuthzQueryTemplate", value_name = "QUERY")]
    pub ldap_groups: Option<String>,
    /// Timeout of a login by LDAP in milliseconds, 1 to 60000 [default: 10000]
    #[arg(long = "ldapTimeoutMS", value_name = "MS")]
    pub ldap_timeout_ms: Option<u64>,
    /// Accept logins by PLAIN over connections without TLS, on which others can read the password
    #[arg(long = "allowPlainWithoutTLS")]
    pub allow_plain_without_tls: bool,
}

/// `security.ldap` of the file.
#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct LdapSection {
    servers: Option<String>,
    transport_security: Option<String>,
    #[serde(rename = "timeoutMS")]
    timeout_ms: Option<u64>,
    #[serde(rename = "userToDNMapping")]
    mapping: Option<Value>,
    bind: Bind,
    authz: Authz,
}

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Bind {
    method: Option<String>,
    query_user: Option<String>,
    query_password: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Authz {
    query_template: Option<String>,
}

/// `quarry.ldap` of the file: options that mongod has elsewhere or not at all.
#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
pub(super) struct OwnLdap {
    #[serde(rename = "CAFile")]
    pub(super) ca_file: Option<PathBuf>,
    #[serde(rename = "allowPlainWithoutTLS")]
    pub(super) allow_plain_without_tls: bool,
}

/// The directory; `None` if no servers are named.
pub(super) fn ldap(
    args: &LdapArgs,
    file: LdapSection,
    ca: Option<PathBuf>,
) -> Result<Option<Arc<Directory>>, String> {
    let ca = args.ldap_ca_file.clone().or(ca);
    let security = args.ldap_transport_security.clone();
    let security = security.or(file.transport_security);
    let mapping = match (args.ldap_mapping.clone(), file.mapping) {
        (Some(text), _) | (None, Some(Value::String(text))) => Some(text),
        (None, Some(list)) => Some(
            serde_json::to_string(&list)
                .map_err(|e| format!("security.ldap.userToDNMapping is wrong: {e}"))?,
        ),
        (None, None) => None,
    };
    let user = args.ldap_query_user.clone().or(file.bind.query_user);
    let password = file.bind.query_password;
    let groups = args.ldap_groups.clone().or(file.authz.query_template);
    let timeout_ms = args.ldap_timeout_ms.or(file.timeout_ms);
    if !matches!(file.bind.method.as_deref(), None | Some("simple")) {
        return Err("security.ldap.bind.method must be simple: sasl is not supported".to_owned());
    }
    let Some(servers) = args.ldap_servers.clone().or(file.servers) else {
        let idle = [
            ("ldapTransportSecurity", security.is_some()),
            ("ldapCAFile", ca.is_some()),
            ("ldapUserToDNMapping", mapping.is_some()),
            ("ldapQueryUser", user.is_some()),
            ("security.ldap.bind.queryPassword", password.is_some()),
            ("ldapAuthzQueryTemplate", groups.is_some()),
            ("ldapTimeoutMS", timeout_ms.is_some()),
        ];
        return match idle.iter().find(|(_, given)| *given) {
            Some((name, _)) => Err(format!("{name} has no effect without ldapServers")),
            None => Ok(None),
        };
    };
    let security = match (security.as_deref(), ca) {
        (None | Some("tls"), Some(ca)) => Security::Tls(client(&ca)?),
        (None | Some("tls"), None) => {
            return Err(
                "ldapTransportSecurity tls needs ldapCAFile (quarry.ldap.CAFile of the file)"
                    .to_owned(),
            );
        }
        (Some("none"), None) => Security::None,
        (Some("none"), Some(_)) => {
            return Err("ldapCAFile has no effect with ldapTransportSecurity none".to_owned());
        }
        (Some(other), _) => {
            return Err(format!(
                "ldapTransportSecurity must be tls or none, given {other}"
            ));
        }
    };
    let searcher = match (user, password) {
        (None, None) => None,
        (user, password) => Some((user.unwrap_or_default(), password.unwrap_or_default())),
    };
    let timeout_ms = timeout_ms.unwrap_or(TIMEOUT_MS);
    if !(1..=60_000).contains(&timeout_ms) {
        return Err(format!(
            "ldapTimeoutMS must be from 1 to 60000, given {timeout_ms}"
        ));
    }
    let directory = Directory::new(Settings {
        servers: list(&servers),
        security,
        searcher,
        mapping,
        groups,
        timeout: Duration::from_millis(timeout_ms),
    })?;
    Ok(Some(Arc::new(directory)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(yaml: &str, ca: Option<&str>) -> Result<Option<Arc<Directory>>, String> {
        let file = serde_yaml_ng::from_str(yaml).map_err(|e| e.to_string())?;
        ldap(&LdapArgs::default(), file, ca.map(PathBuf::from))
    }

    #[test]
    fn ldap_options_are_complete_or_refused_by_name() {
        let ca = "tests/it/certificates/ca.pem";
        assert!(of("{}", None).unwrap().is_none());
        assert!(of("servers: a.b", Some(ca)).unwrap().is_some());
        let whole = "servers: 'a, b:3'\ntransportSecurity: none\ntimeoutMS: 500\n\
                     userToDNMapping: [{match: '(.+)', ldapQuery: 'dc=x??sub?(uid={0})'}]\n\
                     bind: {method: simple, queryUser: cn=s, queryPassword: p}\n\
                     authz: {queryTemplate: 'dc=x??sub?(member={USER})'}\n";
        assert!(of(whole, None).unwrap().is_some_and(|d| d.has_groups()));
        for (yaml, ca, named) in [
            ("servers: a", None, "ldapCAFile"),
            ("servers: a", Some("/nowhere.pem"), "/nowhere.pem"),
            (
                "{servers: a, transportSecurity: none}",
                Some(ca),
                "ldapCAFile",
            ),
            ("{servers: a, transportSecurity: ssl}", None, "given ssl"),
            ("{servers: 'ldap://a'}", Some(ca), "ldap://a"),
            ("{servers: ','}", Some(ca), "names no server"),
            ("{bind: {method: sasl}}", None, "sasl"),
            ("{bind: {saslMechanisms: x}}", None, "saslMechanisms"),
            ("{timeoutMS: 5}", None, "ldapTimeoutMS"),
            ("{servers: a, timeoutMS: 0}", Some(ca), "given 0"),
            (
                "{validateLDAPServerConfig: true}",
                None,
                "validateLDAPServerConfig",
            ),
            (
                "{servers: a, bind: {queryUser: x}}",
                Some(ca),
                "queryPassword",
            ),
            (
                "{servers: a, authz: {queryTemplate: '{USER}'}}",
                Some(ca),
                "queryUser",
            ),
            (
                "{servers: a, userToDNMapping: '[]'}",
                Some(ca),
                "userToDNMapping",
            ),
        ] {
            let e = of(yaml, ca).err();
            assert!(
                e.as_ref().is_some_and(|e| e.contains(named)),
                "{yaml}: {e:?}"
            );
        }
    }
}
