//! The options that were given, each at its place in mongod's file, for the log line of the start
//! and for `getCmdLineOpts`.
//!
//! Promises: they are exactly the options given, the command line over the file; a password is
//! never shown. Must not know: what the options do.

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};
use model::DocBuf;
use serde_yaml_ng::{Mapping, Value};

use super::document::put_fields;

/// Replaces a password, as in mongod.
const PASSWORD: &str = "<password>";
/// Places in the file that hold a password.
const PASSWORDS: &[&str] = &["security.ldap.bind.queryPassword"];
/// Places in the file that hold a URL whose query may hold a secret.
const URLS: &[&str] = &["quarry.otlp.endpoint"];

/// How an option of the command line is shown.
enum OptionFormat {
    /// The value that was given, or true.
    AsGiven,
    /// Always this YAML value.
    As(&'static str),
    /// The number of times it was given.
    Times,
    /// Each `NAME=VALUE` as a field.
    Fields,
}

/// An option of the command line.
struct Row {
    option: &'static str,
    /// Its place in the file.
    place: &'static str,
    shown: OptionFormat,
}

const fn new_row(option: &'static str, place: &'static str) -> Row {
    Row {
        option,
        place,
        shown: OptionFormat::AsGiven,
    }
}

const fn new_constant_row(option: &'static str, place: &'static str, value: &'static str) -> Row {
    Row {
        option,
        place,
        shown: OptionFormat::As(value),
    }
}

const ROWS: &[Row] = &[
    new_row("dbpath", "storage.dbPath"),
    new_row("port", "net.port"),
    new_row("bind_ip", "net.bindIp"),
    new_row("bind_ip_all", "net.bindIpAll"),
    new_row("advertise", "net.advertisedAddress"),
    new_row("ipv6", "net.ipv6"),
    new_row("compat", "quarry.compat"),
    new_row("standalone", "quarry.standalone"),
    new_row("replSet", "replication.replSetName"),
    new_row("oplogSize", "replication.oplogSizeMB"),
    new_row("memory", "quarry.memory"),
    new_row("scanThreads", "quarry.scanThreads"),
    new_row("storageEngine", "storage.engine"),
    new_row("journalCommitInterval", "storage.journal.commitIntervalMs"),
    new_row("repair", "storage.repair"),
    new_constant_row("noscripting", "security.javascriptEnabled", "false"),
    new_row("config", "config"),
    new_row("unixSocketPrefix", "net.unixDomainSocket.pathPrefix"),
    new_constant_row("nounixsocket", "net.unixDomainSocket.enabled", "false"),
    new_row("maxConns", "net.maxIncomingConnections"),
    new_row("networkMessageCompressors", "net.compression.compressors"),
    new_row("allowOpenAccess", "quarry.allowOpenAccess"),
    Row {
        option: "setParameter",
        place: "setParameter",
        shown: OptionFormat::Fields,
    },
    new_row("wiredTigerLibrary", "quarry.wiredTigerLibrary"),
    new_row("wiredTigerInclude", "quarry.wiredTigerInclude"),
    new_row("auditDestination", "auditLog.destination"),
    new_row("auditFormat", "auditLog.format"),
    new_row("auditPath", "auditLog.path"),
    new_row("auditFilter", "auditLog.filter"),
    new_row("auditRuntimeConfiguration", "auditLog.runtimeConfiguration"),
    new_row("ldapServers", "security.ldap.servers"),
    new_row("ldapTransportSecurity", "security.ldap.transportSecurity"),
    new_row("ldapCAFile", "quarry.ldap.CAFile"),
    new_row("ldapQueryUser", "security.ldap.bind.queryUser"),
    new_row("ldapUserToDNMapping", "security.ldap.userToDNMapping"),
    new_row(
        "ldapAuthzQueryTemplate",
        "security.ldap.authz.queryTemplate",
    ),
    new_row("ldapTimeoutMS", "security.ldap.timeoutMS"),
    new_row("allowPlainWithoutTLS", "quarry.ldap.allowPlainWithoutTLS"),
    new_row("logpath", "systemLog.path"),
    new_row("logappend", "systemLog.logAppend"),
    new_row("logRotate", "systemLog.logRotate"),
    new_row("quiet", "systemLog.quiet"),
    Row {
        option: "verbose",
        place: "systemLog.verbosity",
        shown: OptionFormat::Times,
    },
    new_constant_row("syslog", "systemLog.destination", "syslog"),
    new_row("redactClientLogData", "security.redactClientLogData"),
    new_row("fork", "processManagement.fork"),
    new_row("pidfilepath", "processManagement.pidFilePath"),
    new_row("profile", "operationProfiling.mode"),
    new_row("slowms", "operationProfiling.slowOpThresholdMs"),
    new_row("slowOpSampleRate", "operationProfiling.slowOpSampleRate"),
    new_row("metricsPort", "quarry.metricsPort"),
    new_row("metricsBindIp", "quarry.metricsBindIp"),
    new_row("metricsTokenFile", "quarry.metricsTokenFile"),
    new_row("metricsHosts", "quarry.metricsHosts"),
    new_row("otlpEndpoint", "quarry.otlp.endpoint"),
    new_row("otlpIntervalMS", "quarry.otlp.intervalMS"),
    new_row("otlpTimeoutMS", "quarry.otlp.timeoutMS"),
    new_constant_row("auth", "security.authorization", "enabled"),
    new_constant_row("noauth", "security.authorization", "disabled"),
    new_row("keyFile", "security.keyFile"),
    new_row("enableEncryption", "security.enableEncryption"),
    new_row("encryptionKeyFile", "security.encryptionKeyFile"),
    new_row("encryptionCipherMode", "security.encryptionCipherMode"),
    new_row("tikvPd", "quarry.tikv.pd"),
    new_row("tikvCAFile", "quarry.tikv.CAFile"),
    new_row("tikvCertificateFile", "quarry.tikv.certificateFile"),
    new_row("tikvKeyFile", "quarry.tikv.keyFile"),
    new_row("tikvPrefix", "quarry.tikv.prefix"),
    new_row("tikvStandby", "quarry.tikv.standby"),
    new_row("tikvServers", "quarry.tikv.servers"),
    new_row("tikvAddress", "quarry.tikv.address"),
    new_row("tikvReads", "quarry.tikv.reads"),
    new_row("tikvWrites", "quarry.tikv.writes"),
    new_row("tikvKeepSeconds", "quarry.tikv.keepSeconds"),
    new_row("tlsMode", "net.tls.mode"),
    new_row("tlsCertificateKeyFile", "net.tls.certificateKeyFile"),
    new_row("tlsCAFile", "net.tls.CAFile"),
    new_row("tlsCRLFile", "net.tls.CRLFile"),
    new_row(
        "tlsAllowConnectionsWithoutCertificates",
        "net.tls.allowConnectionsWithoutCertificates",
    ),
    new_row(
        "tlsAllowInvalidCertificates",
        "net.tls.allowInvalidCertificates",
    ),
    new_row("vaultServerName", "security.vault.serverName"),
    new_row("vaultPort", "security.vault.port"),
    new_row("vaultTokenFile", "security.vault.tokenFile"),
    new_row("vaultSecret", "security.vault.secret"),
    new_row("vaultServerCAFile", "security.vault.serverCAFile"),
    new_row(
        "vaultDisableTLSForTesting",
        "security.vault.disableTLSForTesting",
    ),
];

/// Options as fields of mongod's file.
#[derive(Clone, Debug, Default)]
pub struct OptionFields {
    fields: Mapping,
}

impl OptionFields {
    /// The options in `matches` of the command line of `command`.
    pub fn of(command: &Command, matches: &ArgMatches) -> OptionFields {
        let mut all = OptionFields::default();
        for arg in command.get_arguments() {
            let Some(row) = ROWS.iter().find(|row| arg.get_long() == Some(row.option)) else {
                continue;
            };
            let id = arg.get_id().as_str();
            if matches.value_source(id) == Some(ValueSource::CommandLine) {
                all.put(row, arg, matches);
            }
        }
        all
    }

    /// Adds the options of the file that the command line does not have.
    pub(super) fn add_file(self, file: Option<Value>) -> OptionFields {
        let mut fields = match file {
            Some(Value::Mapping(fields)) => fields,
            _ => Mapping::new(),
        };
        merge(&mut fields, self.fields);
        for place in PASSWORDS {
            replace(&mut fields, place, |_| PASSWORD.to_owned());
        }
        for place in URLS {
            replace(&mut fields, place, |url| match url.split_once('?') {
                Some((address, _)) => format!("{address}?{PASSWORD}"),
                None => url.to_owned(),
            });
        }
        OptionFields { fields }
    }

    /// The fields as BSON; what BSON does not have was refused when the file was read.
    ///
    /// # Errors
    /// One line: a field that BSON does not have.
    pub fn document(&self) -> Result<DocBuf, String> {
        let mut d = DocBuf::new();
        let mut written = Ok(());
        d.append(|w| written = put_fields(w, &self.fields, "the configuration file", 0));
        written.map(|()| d)
    }

    fn put(&mut self, row: &Row, arg: &Arg, matches: &ArgMatches) {
        let id = arg.get_id().as_str();
        let raw = matches.get_raw(id).into_iter().flatten();
        let mut words = raw.map(|word| word.to_string_lossy().into_owned());
        let value = match &row.shown {
            OptionFormat::As(value) => scalar(value),
            OptionFormat::Times => Value::from(matches.get_count(id)),
            OptionFormat::AsGiven => {
                let word = words.next_back().unwrap_or_default();
                if is_text(arg) {
                    Value::from(word)
                } else {
                    scalar(&word)
                }
            }
            OptionFormat::Fields => {
                let pair = |word: String| {
                    let (name, value) = word.split_once('=').unwrap_or((&word, ""));
                    (Value::from(name), scalar(value))
                };
                Value::Mapping(words.map(pair).collect())
            }
        };
        put_at(&mut self.fields, row.place, value);
    }
}

/// Whether the values of an option are texts or paths, so that `5` is not shown as a number.
fn is_text(arg: &Arg) -> bool {
    use clap::builder::ValueParser;
    let of = arg.get_value_parser().type_id();
    of == ValueParser::string().type_id() || of == ValueParser::path_buf().type_id()
}

/// A word of the command line with the type that the file would give it.
fn scalar(word: &str) -> Value {
    match serde_yaml_ng::from_str(word) {
        Ok(value @ (Value::Bool(_) | Value::Number(_))) => value,
        _ => Value::from(word),
    }
}

/// Sets the value at a dotted path.
fn put_at(fields: &mut Mapping, place: &str, value: Value) {
    let Some((section, rest)) = place.split_once('.') else {
        fields.insert(Value::from(place), value);
        return;
    };
    let inner = fields.entry(Value::from(section));
    let inner = inner.or_insert_with(|| Value::Mapping(Mapping::new()));
    if !inner.is_mapping() {
        *inner = Value::Mapping(Mapping::new());
    }
    if let Value::Mapping(inner) = inner {
        put_at(inner, rest, value);
    }
}

/// Copies all fields of `newer` into `fields`; sections are merged.
fn merge(fields: &mut Mapping, newer: Mapping) {
    for (name, value) in newer {
        match (fields.get_mut(&name), value) {
            (Some(Value::Mapping(section)), Value::Mapping(newer)) => merge(section, newer),
            (_, value) => _ = fields.insert(name, value),
        }
    }
}

/// Replaces the text at a dotted path, if there is one.
fn replace(fields: &mut Mapping, place: &str, shown: fn(&str) -> String) {
    match place.split_once('.') {
        None => {
            if let Some(value) = fields.get_mut(place) {
                *value = Value::from(shown(value.as_str().unwrap_or_default()));
            }
        }
        Some((section, rest)) => {
            if let Some(Value::Mapping(inner)) = fields.get_mut(section) {
                replace(inner, rest, shown);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{File, ServeArgs, Settings};
    use super::*;
    use clap::{Args, FromArgMatches};

    fn command() -> Command {
        ServeArgs::augment_args(Command::new("serve"))
    }

    /// The settings that a command line gives; `words` follow the program's name.
    fn settings(words: &[&str]) -> Settings {
        let all = std::iter::once(&"serve").chain(words);
        let matches = command().try_get_matches_from(all).unwrap();
        let mut args = ServeArgs::from_arg_matches(&matches).unwrap();
        args.given = OptionFields::of(&command(), &matches);
        Settings::of(&args).unwrap()
    }

    fn format_given(settings: &Settings) -> String {
        settings.given.to_string()
    }

    #[test]
    fn every_option_has_a_place_that_the_file_knows() {
        for arg in command().get_arguments() {
            let option = arg.get_long().expect("each has a name");
            let row = ROWS.iter().find(|row| row.option == option);
            let row = row.unwrap_or_else(|| panic!("--{option} has no place in the file"));
            if matches!(option, "config" | "setParameter") {
                continue;
            }
            let mut fields = Mapping::new();
            put_at(&mut fields, row.place, Value::Null);
            let read = serde_yaml_ng::from_value::<File>(Value::Mapping(fields));
            // Null is neither a number nor a text; that error is not the one for an unknown field.
            let error = read
                .err()
                .map_or_else(String::new, |error| error.to_string());
            assert!(!error.contains("unknown field"), "--{option}: {error}");
        }
    }

    #[test]
    fn nothing_is_shown_that_was_not_given() {
        assert_eq!(format_given(&settings(&[])), "{}");
    }

    #[test]
    fn what_was_given_is_shown_at_its_place() {
        let all = settings(&[
            "--port",
            "5",
            "--replSet",
            "5",
            "--nounixsocket",
            "--bind_ip_all",
            "-vv",
            "--setParameter",
            "enableTestCommands=1",
            "--metricsPort",
            "0",
        ]);
        let shown = format_given(&all);
        for part in [
            "port:5,",
            "unixDomainSocket:{enabled:false}",
            "bindIpAll:true",
            "replication:{replSetName:\"5\"}",
            "systemLog:{verbosity:2}",
            "setParameter:{enableTestCommands:1}",
            "quarry:{metricsPort:0}",
        ] {
            assert!(shown.replace(' ', "").contains(part), "{part} in {shown}");
        }
    }

    #[test]
    fn the_query_of_a_url_is_not_shown() {
        let shown = format_given(&settings(&[
            "--otlpEndpoint",
            "http://a:1/v1/metrics?key=geheim",
        ]));
        assert!(
            shown.contains("http://a:1/v1/metrics?<password>") && !shown.contains("geheim"),
            "{shown}"
        );
    }

    #[test]
    fn the_command_line_stands_over_the_file_and_a_password_is_not_shown() {
        let matches = command().try_get_matches_from(["serve", "--port", "2"]);
        let file = "net: {port: 1, bindIp: 127.0.0.1}\n\
                    security: {ldap: {bind: {queryUser: cn=s, queryPassword: geheim}}}\n";
        let file = serde_yaml_ng::from_str(file).unwrap();
        let given = OptionFields::of(&command(), &matches.unwrap()).add_file(Some(file));
        let shown = given.document().unwrap().to_string();
        let flat = shown.replace(' ', "");
        assert!(flat.contains("port:2,bindIp:\"127.0.0.1\""), "{shown}");
        assert!(flat.contains("queryPassword:\"<password>\"") && !shown.contains("geheim"));
    }

    #[test]
    fn what_the_file_says_is_shown() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("quarry.yaml");
        std::fs::write(&file, "net: {maxIncomingConnections: 7}\n").unwrap();
        let shown = format_given(&settings(&["--config", file.to_str().unwrap()]));
        assert!(
            shown.contains("maxIncomingConnections: 7") && shown.contains("quarry.yaml"),
            "{shown}"
        );
    }
}
