//! Options of mongod that are not Quarry's, on the command line and in the file: those without
//! which everything is as it was asked for are left out, with a warning; the others are refused by
//! name, with what to use instead. What is in neither list is unknown.
//!
//! Promises: one table for both ways to give an option. Must not know: Quarry's own options.

use std::ffi::OsString;

use serde_yaml_ng::{Mapping, Value};

/// What becomes of an option.
enum Answer {
    /// Left out.
    LeftOut,
    /// Left out when it has one of these values, or none; refused with the others.
    LeftOutIf(&'static [&'static str], &'static str),
    /// Refused: what to do instead.
    Refused(&'static str),
}

/// An option: its name on the command line, its place in the file, whether it has a value.
struct Row {
    option: &'static str,
    key: &'static str,
    has_value: bool,
    answer: Answer,
}

const fn row(option: &'static str, key: &'static str, has_value: bool, answer: Answer) -> Row {
    Row {
        option,
        key,
        has_value,
        answer,
    }
}

use Answer::{LeftOut, LeftOutIf, Refused};

const NO_SHARDS: Answer = Refused("one server holds all data; for several on one see docs/tikv.md");
const OLD_TLS: Answer = Refused("options of TLS begin with --tls, in the file they are in net.tls");
const NO_PASSWORD: Answer = Refused("take the password off the key: openssl pkey -in FILE");
const ENGINE_OWN: &str = "storage.wiredTiger.engineConfig.configString";

#[rustfmt::skip]
static TABLE: &[Row] = &[
    row("wiredTigerCacheSizeGB", "storage.wiredTiger.engineConfig.cacheSizeGB", true, LeftOut),
    row("wiredTigerCacheSizePct", "storage.wiredTiger.engineConfig.cacheSizePct", true, LeftOut),
    row("wiredTigerStatisticsLogDelaySecs", "storage.wiredTiger.engineConfig.statisticsLogDelaySecs", true, LeftOut),
    row("wiredTigerJournalCompressor", "storage.wiredTiger.engineConfig.journalCompressor", true, LeftOut),
    row("wiredTigerDirectoryForIndexes", "storage.wiredTiger.engineConfig.directoryForIndexes", false, LeftOut),
    row("wiredTigerMaxCacheOverflowFileSizeGB", "storage.wiredTiger.engineConfig.maxCacheOverflowFileSizeGB", true, LeftOut),
    row("wiredTigerEngineConfigString", ENGINE_OWN, true, LeftOut),
    row("zstdDefaultCompressionLevel", "storage.wiredTiger.engineConfig.zstdCompressionLevel", true, LeftOut),
    row("wiredTigerCollectionBlockCompressor", "storage.wiredTiger.collectionConfig.blockCompressor", true, LeftOut),
    row("wiredTigerCollectionConfigString", "storage.wiredTiger.collectionConfig.configString", true, LeftOut),
    row("wiredTigerIndexPrefixCompression", "storage.wiredTiger.indexConfig.prefixCompression", true, LeftOut),
    row("wiredTigerIndexConfigString", "storage.wiredTiger.indexConfig.configString", true, LeftOut),
    row("inMemorySizeGB", "storage.inMemory.engineConfig.inMemorySizeGB", true, LeftOut),
    row("inMemoryStatisticsLogDelaySecs", "storage.inMemory.engineConfig.statisticsLogDelaySecs", true, LeftOut),
    row("directoryperdb", "storage.directoryPerDB", false, LeftOut),
    row("syncdelay", "storage.syncPeriodSecs", true, LeftOut),
    row("journal", "storage.journal.enabled", false, LeftOutIf(&["true"], "there always is a journal; a write without j does not wait for it")),
    row("nojournal", "", false, Refused("there always is a journal; a write without j does not wait for it")),
    row("oplogMinRetentionHours", "storage.oplogMinRetentionHours", true, Refused("the log is bounded by its size: --oplogSize")),
    row("queryableBackupMode", "storage.queryableBackupMode", false, Refused("open a copy of the data")),
    row("restore", "", false, Refused("use mongorestore")),
    row("magicRestore", "", false, Refused("use mongorestore")),
    row("upgrade", "", false, LeftOut),
    row("shutdown", "", false, Refused("send SIGTERM to the process, whose number is in the file of --pidfilepath, or run db.adminCommand({shutdown: 1})")),
    row("cpu", "", false, LeftOut),
    row("sysinfo", "", false, Refused("see db.hostInfo()")),
    row("listenBacklog", "net.listenBacklog", true, LeftOut),
    row("serviceExecutor", "net.serviceExecutor", true, LeftOut),
    row("objcheck", "net.wireObjectCheck", false, LeftOutIf(&["true"], "documents of clients are always checked")),
    row("noobjcheck", "", false, Refused("documents of clients are always checked")),
    row("maxConnsOverride", "net.maxIncomingConnectionsOverride", true, Refused("give --maxConns")),
    row("tlsDisabledProtocols", "net.tls.disabledProtocols", true, LeftOutIf(&["none", "TLS1_0", "TLS1_1"], "TLS 1.0 and 1.1 are always off, 1.2 and 1.3 on")),
    row("tlsLogVersions", "net.tls.logVersions", true, LeftOut),
    row("tlsCertificateSelector", "net.tls.certificateSelector", true, Refused("give --tlsCertificateKeyFile")),
    row("tlsClusterCertificateSelector", "net.tls.clusterCertificateSelector", true, NO_SHARDS),
    row("tlsClusterFile", "net.tls.clusterFile", true, NO_SHARDS),
    row("tlsClusterPassword", "net.tls.clusterPassword", true, NO_SHARDS),
    row("tlsClusterCAFile", "net.tls.clusterCAFile", true, NO_SHARDS),
    row("tlsClusterAuthX509Override", "net.tls.clusterAuthX509", true, NO_SHARDS),
    row("tlsCertificateKeyFilePassword", "net.tls.certificateKeyFilePassword", true, NO_PASSWORD),
    row("tlsAllowInvalidHostnames", "net.tls.allowInvalidHostnames", false, LeftOut),
    row("tlsFIPSMode", "net.tls.FIPSMode", false, LeftOutIf(&["false"], "the library of TLS is not certified for FIPS")),
    row("tlsOnNormalPorts", "", false, Refused("give --tlsMode requireTLS")),
    row("sslMode", "net.ssl.mode", true, OLD_TLS),
    row("sslPEMKeyFile", "net.ssl.PEMKeyFile", true, OLD_TLS),
    row("sslCAFile", "net.ssl.CAFile", true, OLD_TLS),
    row("sslPEMKeyPassword", "net.ssl.PEMKeyPassword", true, OLD_TLS),
    row("sslDisabledProtocols", "net.ssl.disabledProtocols", true, OLD_TLS),
    row("clusterAuthMode", "security.clusterAuthMode", true, LeftOutIf(&["keyFile"], "one server needs no way to know other members")),
    row("transitionToAuth", "security.transitionToAuth", false, LeftOutIf(&["false"], "give --auth once all clients log in")),
    row("clusterIpSourceAllowlist", "security.clusterIpSourceAllowlist", true, NO_SHARDS),
    row("kmipServerName", "security.kmip.serverName", true, Refused("the master key is in a file or in Vault: --encryptionKeyFile, --vaultServerName")),
    row("encryptionCipherMode", "security.encryptionCipherMode", true, Refused("see docs/adr/0041-encryption-at-rest.md for the one there is")),
    row("enableMajorityReadConcern", "replication.enableMajorityReadConcern", true, LeftOut),
    row("shardsvr", "sharding.clusterRole", false, NO_SHARDS),
    row("configsvr", "", false, NO_SHARDS),
    row("configdb", "sharding.configDB", true, NO_SHARDS),
    row("moveParanoia", "", false, NO_SHARDS),
    row("enableFreeMonitoring", "cloud.monitoring.free.state", true, LeftOut),
    row("freeMonitoringTag", "cloud.monitoring.free.tags", true, LeftOut),
    row("timeStampFormat", "", true, LeftOutIf(&["iso8601-utc"], "times in the log are iso8601-utc")),
    row("timeZoneInfo", "processManagement.timeZoneInfo", true, LeftOut),
    row("traceExceptions", "", false, Refused("panics are in the log as they are")),
    row("syslogFacility", "", true, Refused("start with a log on standard error and give that to the system's logger")),
    row("configExpand", "", true, LeftOutIf(&["none"], "nothing in the file is run or fetched")),
    row("outputConfig", "", false, Refused("see db.serverCmdLineOpts()")),
    row("install", "processManagement.windowsService", false, Refused("run it by systemd, or with --fork")),
    row("remove", "", false, Refused("run it by systemd, or with --fork")),
];

fn refusal(name: &str, value: Option<&str>, instead: &str) -> String {
    let given = value.map_or_else(String::new, |value| format!(" {value}"));
    format!("{name}{given} of mongod is not here: {instead}")
}

/// Whether an option is left out.
fn judge(row: &Row, shown: &str, value: Option<&str>) -> Result<(), String> {
    match &row.answer {
        LeftOut => Ok(()),
        LeftOutIf(values, instead) => {
            let parts = value.unwrap_or("").split(',').map(str::trim);
            let is_known = |part: &str| part.is_empty() || values.contains(&part);
            match parts.into_iter().all(is_known) {
                true => Ok(()),
                false => Err(refusal(shown, value, instead)),
            }
        }
        Refused(instead) => Err(refusal(shown, value, instead)),
    }
}

/// Takes options that are left out from the words of a command line; gives their names.
///
/// # Errors
/// One line: an option that is refused.
pub fn leave_out(words: &mut Vec<OsString>) -> Result<Vec<String>, String> {
    let mut left_out = Vec::new();
    let mut kept = Vec::new();
    let mut all = std::mem::take(words).into_iter().peekable();
    while let Some(word) = all.next() {
        let text = word.to_string_lossy().into_owned();
        let named = text
            .strip_prefix("--")
            .map(|rest| match rest.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (rest, None),
            });
        let found = named.and_then(|(name, value)| {
            let row = TABLE.iter().find(|row| row.option == name)?;
            Some((row, value))
        });
        let Some((row, mut value)) = found else {
            kept.push(word);
            continue;
        };
        // A value that is an option is none: the option was given without.
        let is_value = |next: &OsString| !next.to_string_lossy().starts_with("--");
        if row.has_value && value.is_none() {
            let next = all.next_if(is_value);
            value = next.map(|next| next.to_string_lossy().into_owned());
        }
        let shown = format!("--{}", row.option);
        judge(row, &shown, value.as_deref())?;
        left_out.push(shown);
    }
    *words = kept;
    Ok(left_out)
}

/// Takes keys that are left out from a file; gives their names.
///
/// # Errors
/// One line: a key that is refused.
pub(super) fn leave_out_keys(file: &mut Value) -> Result<Vec<String>, String> {
    let mut left_out = Vec::new();
    for row in TABLE.iter().filter(|row| !row.key.is_empty()) {
        let path: Vec<&str> = row.key.split('.').collect();
        let Some(value) = file.as_mapping_mut().and_then(|file| take(file, &path)) else {
            continue;
        };
        let text = match &value {
            Value::Bool(b) => Some(b.to_string()),
            Value::String(s) => Some(s.clone()),
            Value::Number(n) => Some(n.to_string()),
            _ => None,
        };
        judge(row, row.key, text.as_deref())?;
        left_out.push(row.key.to_owned());
    }
    Ok(left_out)
}

/// Takes the value at a path out, and sections that are empty then.
fn take(section: &mut Mapping, path: &[&str]) -> Option<Value> {
    let (first, rest) = path.split_first()?;
    if rest.is_empty() {
        return section.remove(*first);
    }
    let below = section.get_mut(*first)?.as_mapping_mut()?;
    let taken = take(below, rest)?;
    if below.is_empty() {
        section.remove(*first);
    }
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn options_of_mongod_are_left_out_or_refused_by_name() {
        let mut line = words(
            "serve --wiredTigerCacheSizeGB 1.5 --dbpath d --journal --directoryperdb \
             --wiredTigerIndexPrefixCompression=true --tlsDisabledProtocols TLS1_0,TLS1_1 -v",
        );
        let left_out = leave_out(&mut line).unwrap();
        assert_eq!(line, words("serve --dbpath d -v"));
        assert_eq!(left_out.len(), 5, "{left_out:?}");
        for (line, instead) in [
            ("--shutdown", "SIGTERM"),
            ("--nojournal", "always"),
            ("--shardsvr", "one server"),
            ("--tlsDisabledProtocols TLS1_2", "1.2 and 1.3 on"),
            ("--sslMode requireSSL", "--tls"),
        ] {
            let error = leave_out(&mut words(line)).unwrap_err();
            let name = line.split(' ').next().unwrap();
            assert!(
                error.starts_with(name) && error.contains(instead),
                "{error}"
            );
        }
        // What nobody knows is left for the parser to refuse.
        let mut unknown = words("--nosuch --wiredTiger");
        assert_eq!(leave_out(&mut unknown), Ok(Vec::new()));
        assert_eq!(unknown.len(), 2);
    }

    #[test]
    fn the_same_holds_in_the_file() {
        let text = "storage:\n  dbPath: /d\n  journal: {enabled: true}\n  wiredTiger:\n    \
                    engineConfig: {cacheSizeGB: 2}\nnet: {port: 5}\n";
        let mut file: Value = serde_yaml_ng::from_str(text).unwrap();
        let left_out = leave_out_keys(&mut file).unwrap();
        assert_eq!(left_out.len(), 2, "{left_out:?}");
        let rest = serde_yaml_ng::to_string(&file).unwrap();
        assert_eq!(rest, "storage:\n  dbPath: /d\nnet:\n  port: 5\n");
        let mut file = serde_yaml_ng::from_str("storage: {journal: {enabled: false}}").unwrap();
        assert!(
            leave_out_keys(&mut file)
                .unwrap_err()
                .contains("storage.journal.enabled")
        );
        let mut file = serde_yaml_ng::from_str("sharding: {clusterRole: shardsvr}").unwrap();
        assert!(
            leave_out_keys(&mut file)
                .unwrap_err()
                .contains("sharding.clusterRole")
        );
    }
}
