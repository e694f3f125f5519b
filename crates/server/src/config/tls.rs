//! The options of TLS. Promises: files that are named without a mode are refused.

use crate::net::TlsMode;
use crate::tls::TlsFiles;
use clap::Args;
use serde::Deserialize;
use std::path::PathBuf;

/// Options of the command line.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "TLS")]
pub struct TlsArgs {
    /// TLS of clients: disabled, allowTLS, preferTLS (both accept connections with and without TLS)
    /// or requireTLS [default: disabled]
    #[arg(long = "tlsMode", value_name = "MODE")]
    pub tls_mode: Option<String>,
    /// PEM file with the server's private key, its certificate and the intermediate certificates;
    /// every mode but disabled needs it
    #[arg(long = "tlsCertificateKeyFile", value_name = "FILE")]
    pub tls_certificate_key_file: Option<PathBuf>,
    /// PEM file with the certificates of the authorities that sign client certificates
    #[arg(long = "tlsCAFile", value_name = "FILE")]
    pub tls_ca_file: Option<PathBuf>,
    /// PEM file with the list of revoked client certificates; needs --tlsCAFile
    #[arg(long = "tlsCRLFile", value_name = "FILE")]
    pub tls_crl_file: Option<PathBuf>,
    /// Accept clients without a certificate although --tlsCAFile is given
    #[arg(long = "tlsAllowConnectionsWithoutCertificates")]
    pub tls_allow_without: bool,
    /// Accept clients with an invalid certificate; only a valid one logs a user in
    #[arg(long = "tlsAllowInvalidCertificates")]
    pub tls_allow_invalid: bool,
}

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct TlsSection {
    mode: Option<String>,
    certificate_key_file: Option<PathBuf>,
    #[serde(rename = "CAFile")]
    ca_file: Option<PathBuf>,
    #[serde(rename = "CRLFile")]
    crl_file: Option<PathBuf>,
    allow_connections_without_certificates: bool,
    allow_invalid_certificates: bool,
}

/// TLS, by the mode and the files that are named.
pub(super) fn tls(args: &TlsArgs, file: TlsSection) -> Result<Option<(TlsMode, TlsFiles)>, String> {
    let named = args.tls_mode.clone().or(file.mode);
    let key = args
        .tls_certificate_key_file
        .clone()
        .or(file.certificate_key_file);
    let files = TlsFiles {
        certificate_key: key.clone().unwrap_or_default(),
        ca: args.tls_ca_file.clone().or(file.ca_file),
        crl: args.tls_crl_file.clone().or(file.crl_file),
        allow_without: args.tls_allow_without || file.allow_connections_without_certificates,
        allow_invalid: args.tls_allow_invalid || file.allow_invalid_certificates,
    };
    let mode = match named.as_deref() {
        Some("requireTLS") => TlsMode::Required,
        // The modes differ only for connections between members of a set, and there are none.
        Some("allowTLS" | "preferTLS") => TlsMode::Optional,
        None | Some("disabled") => {
            return match key.is_some() || files.ca.is_some() || files.crl.is_some() {
                true => Err(
                    "tlsCertificateKeyFile, tlsCAFile and tlsCRLFile have no effect, because \
                     tlsMode is disabled"
                        .to_owned(),
                ),
                false => Ok(None),
            };
        }
        Some(other) => {
            return Err(format!(
                "tlsMode must be disabled, allowTLS, preferTLS or requireTLS, given {other}"
            ));
        }
    };
    if key.is_none() {
        return Err("tlsMode needs tlsCertificateKeyFile".to_owned());
    }
    if files.crl.is_some() && files.ca.is_none() {
        return Err("tlsCRLFile needs tlsCAFile".to_owned());
    }
    Ok(Some((mode, files)))
}
