//! Options of the audit. Promises: an option of mongod's works as there or is refused by name.

use super::document::put_fields;
use clap::Args;
use logs::{AuditTarget, Rotate};
use model::DocBuf;
use serde::Deserialize;
use serde_yaml_ng::Value;
use std::path::PathBuf;

/// Where the system's logger listens.
const SYSLOG: &str = "/dev/log";

/// Options of the command line.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Audit")]
pub struct AuditArgs {
    /// Destination of audit events: file, syslog or console [default: no audit]
    #[arg(long = "auditDestination", value_name = "WHERE")]
    pub audit_destination: Option<String>,
    /// Format of audit events in a file: JSON or BSON [default: JSON]
    #[arg(long = "auditFormat", value_name = "FORM")]
    pub audit_format: Option<String>,
    /// Audit file, for --auditDestination file; the server appends to an existing one
    #[arg(long = "auditPath", value_name = "FILE")]
    pub audit_path: Option<PathBuf>,
    /// Query over audit events; only events that it matches are written [default: all events]
    #[arg(long = "auditFilter", value_name = "QUERY")]
    pub audit_filter: Option<String>,
    /// Clients set the audit filter by setAuditConfig; excludes --auditFilter
    #[arg(long = "auditRuntimeConfiguration")]
    pub audit_runtime_configuration: bool,
}

/// `auditLog` of the file.
#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct AuditSection {
    destination: Option<String>,
    format: Option<String>,
    path: Option<PathBuf>,
    /// A string that holds a document, or the document itself.
    filter: Option<Value>,
    runtime_configuration: bool,
    schema: Option<String>,
}

/// The effective settings of the audit.
#[derive(Clone, Debug)]
pub struct AuditConfig {
    /// Where events go.
    pub target: AuditTarget,
    /// A query; an empty one matches every event.
    pub filter: DocBuf,
    /// Clients may change it.
    pub runtime: bool,
}

impl AuditConfig {
    /// Merges the command line and the file. `rotate` is the log's option.
    pub(super) fn of(
        args: &AuditArgs,
        file: AuditSection,
        rotate: Rotate,
    ) -> Result<Option<AuditConfig>, String> {
        let given = args.audit_destination.clone().or(file.destination);
        let format = args.audit_format.clone().or(file.format);
        let path = args.audit_path.clone().or(file.path);
        let text = args.audit_filter.clone().map(Value::String);
        let filter = text.or(file.filter);
        let runtime = args.audit_runtime_configuration || file.runtime_configuration;
        if !matches!(file.schema.as_deref(), None | Some("mongo")) {
            return Err("auditLog.schema must be mongo: OCSF is not supported".to_owned());
        }
        let Some(destination) = given else {
            let idle = format.is_some() || path.is_some() || filter.is_some() || runtime;
            return match idle {
                true => Err(
                    "auditDestination must be file, syslog or console: without it \
                             there is no audit, and other options of it have no effect"
                        .to_owned(),
                ),
                false => Ok(None),
            };
        };
        if runtime && filter.is_some() {
            return Err(
                "auditFilter and auditRuntimeConfiguration exclude one another: with the latter \
                 clients set the filter"
                    .to_owned(),
            );
        }
        Ok(Some(AuditConfig {
            target: target(&destination, format.as_deref(), path, rotate)?,
            filter: filter.map_or_else(|| Ok(DocBuf::new()), |f| query(&f))?,
            runtime,
        }))
    }
}

fn target(
    destination: &str,
    format: Option<&str>,
    path: Option<PathBuf>,
    rotate: Rotate,
) -> Result<AuditTarget, String> {
    let bson = match format {
        None | Some("JSON") => false,
        Some("BSON") => true,
        Some(other) => return Err(format!("auditFormat must be JSON or BSON, given {other}")),
    };
    if destination != "file" && (bson || path.is_some()) {
        return Err(format!(
            "auditPath and auditFormat BSON are for auditDestination file, given {destination}"
        ));
    }
    match destination {
        "syslog" => Ok(AuditTarget::Syslog(PathBuf::from(SYSLOG))),
        "console" => Ok(AuditTarget::Console),
        "file" => match path {
            Some(path) => Ok(AuditTarget::File { path, bson, rotate }),
            None => Err("auditDestination file needs auditPath".to_owned()),
        },
        other => Err(format!(
            "auditDestination must be file, syslog or console, given {other}"
        )),
    }
}

/// A query from a string or from a document in the file. A string is JSON whose names need no
/// quotes.
fn query(given: &Value) -> Result<DocBuf, String> {
    let parsed;
    let value = match given {
        Value::String(text) => {
            parsed = serde_yaml_ng::from_str(text)
                .map_err(|e| format!("auditFilter is no document: {e}"))?;
            &parsed
        }
        other => other,
    };
    let Value::Mapping(fields) = value else {
        return Err("auditFilter is no document".to_owned());
    };
    let mut failed = None;
    let doc = DocBuf::build(|w| failed = put_fields(w, fields, "auditFilter", 0).err());
    failed.map_or(Ok(doc), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(args: AuditArgs, yaml: &str) -> Result<Option<AuditConfig>, String> {
        let section = serde_yaml_ng::from_str(yaml).map_err(|e| e.to_string())?;
        AuditConfig::of(&args, section, Rotate::Rename)
    }

    #[test]
    fn filters_are_read_from_text_and_from_the_file() {
        let text = "{ atype: 'authCheck', \"param.command\": { $in: [ \"find\", 'x' ] }, n: 1 }";
        let wanted = model::doc! { "atype": "authCheck",
        "param.command": { "$in": ["find", "x"] }, "n": 1i32 };
        let args = AuditArgs {
            audit_destination: Some("file".into()),
            audit_path: Some("/a".into()),
            audit_filter: Some(text.into()),
            ..AuditArgs::default()
        };
        let got = of(args, "{}").unwrap().unwrap();
        assert_eq!(got.filter, wanted);
        let yaml = "destination: file\nformat: BSON\npath: /b\nfilter:\n  atype: authCheck\n  \
                    param.command: {$in: [find, x]}\n  n: 1\n";
        let got = of(AuditArgs::default(), yaml).unwrap().unwrap();
        assert_eq!(got.filter, wanted);
        let path = PathBuf::from("/b");
        let bson = AuditTarget::File {
            path,
            bson: true,
            rotate: Rotate::Rename,
        };
        assert_eq!(got.target, bson);
        assert!(of(AuditArgs::default(), "{}").unwrap().is_none());
    }

    #[test]
    fn what_cannot_be_meant_is_refused_by_name() {
        for (yaml, named) in [
            ("destination: file", "auditPath"),
            ("destination: net", "given net"),
            ("path: /a", "auditDestination must be"),
            ("{destination: syslog, format: BSON}", "auditFormat BSON"),
            ("{destination: syslog, format: XML}", "given XML"),
            ("{destination: console, schema: OCSF}", "OCSF"),
            ("{destination: console, filter: '['}", "no document"),
            ("{destination: console, filter: 'x'}", "no document"),
            (
                "{destination: console, filter: '{}', runtimeConfiguration: true}",
                "exclude one another",
            ),
            ("{destination: console, fliter: '{}'}", "fliter"),
        ] {
            let e = of(AuditArgs::default(), yaml).err();
            assert!(
                e.as_ref().is_some_and(|e| e.contains(named)),
                "{yaml}: {e:?}"
            );
        }
    }
}
