//! Options of keys in HashiCorp Vault, and where the master key comes from.

use crate::key_source::KeySource;
use crate::vault::VaultSettings;
use clap::Args;
use serde::Deserialize;
use std::path::PathBuf;

/// Port where none is given.
const PORT: u16 = 8200;

/// Options of the command line.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Vault")]
pub struct VaultArgs {
    /// Host name or address of the HashiCorp Vault server that keeps the master key
    #[arg(long = "vaultServerName", value_name = "HOST")]
    pub vault_server_name: Option<String>,
    /// Port of the Vault server [default: 8200]
    #[arg(long = "vaultPort", value_name = "N")]
    pub vault_port: Option<u16>,
    /// File with the Vault token, readable by its owner only
    #[arg(long = "vaultTokenFile", value_name = "FILE")]
    pub vault_token_file: Option<PathBuf>,
    /// Vault secret (KV version 2) that holds the master key, as MOUNT/data/PATH; the server
    /// creates it if it does not exist
    #[arg(long = "vaultSecret", value_name = "PATH")]
    pub vault_secret: Option<String>,
    /// PEM file with the certificates of the authorities that sign Vault's certificate
    #[arg(long = "vaultServerCAFile", value_name = "FILE")]
    pub vault_server_ca_file: Option<PathBuf>,
    /// Connect to Vault by plain HTTP, for tests only: whoever reads the traffic has the master key
    #[arg(long = "vaultDisableTLSForTesting")]
    pub vault_disable_tls_for_testing: bool,
}

/// `security.vault` of the file.
#[derive(Clone, Deserialize, Default)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct VaultSection {
    server_name: Option<String>,
    port: Option<u16>,
    token_file: Option<PathBuf>,
    secret: Option<String>,
    #[serde(rename = "serverCAFile")]
    server_ca_file: Option<PathBuf>,
    #[serde(rename = "disableTLSForTesting")]
    disable_tls_for_testing: bool,
}

impl KeySource {
    /// From the options; `None` when they name no key.
    ///
    /// # Errors
    /// One line.
    pub fn of(
        file: Option<PathBuf>,
        args: &VaultArgs,
        section: &VaultSection,
    ) -> Result<Option<KeySource>, String> {
        let vault = settings(args, section)?;
        match (file, vault) {
            (Some(_), Some(_)) => {
                Err("encryptionKeyFile and vaultServerName name two keys; give one".to_owned())
            }
            (Some(file), None) => Ok(Some(KeySource::File(file))),
            (None, vault) => Ok(vault.map(KeySource::Vault)),
        }
    }
}

fn settings(args: &VaultArgs, section: &VaultSection) -> Result<Option<VaultSettings>, String> {
    let server = args
        .vault_server_name
        .clone()
        .or(section.server_name.clone());
    let token_file = args.vault_token_file.clone().or(section.token_file.clone());
    let secret = args.vault_secret.clone().or(section.secret.clone());
    let ca_file = args.vault_server_ca_file.clone();
    let ca_file = ca_file.or(section.server_ca_file.clone());
    let port = args.vault_port.or(section.port);
    let plain = args.vault_disable_tls_for_testing || section.disable_tls_for_testing;
    let Some(server) = server else {
        let given = [
            (token_file.is_some(), "vaultTokenFile"),
            (secret.is_some(), "vaultSecret"),
            (ca_file.is_some(), "vaultServerCAFile"),
            (port.is_some(), "vaultPort"),
            (plain, "vaultDisableTLSForTesting"),
        ];
        return match given.iter().find(|(is, _)| *is) {
            Some((_, name)) => Err(format!("{name} needs vaultServerName")),
            None => Ok(None),
        };
    };
    let missing = |name: &str| format!("vaultServerName needs {name}");
    let in_host = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':' | '_');
    if server.is_empty() || !server.chars().all(in_host) {
        return Err(format!(
            "vaultServerName must be a name or an address, given {server}"
        ));
    }
    let secret = secret.ok_or_else(|| missing("vaultSecret"))?;
    check_secret(&secret)?;
    if plain == ca_file.is_some() {
        return Err(match plain {
            true => "vaultDisableTLSForTesting contradicts vaultServerCAFile".to_owned(),
            false => missing("vaultServerCAFile, or vaultDisableTLSForTesting for plain HTTP"),
        });
    }
    Ok(Some(VaultSettings {
        server,
        port: port.unwrap_or(PORT),
        token_file: token_file.ok_or_else(|| missing("vaultTokenFile"))?,
        secret,
        ca_file,
    }))
}

/// A path of version 2 has a mount, then `data`, then names.
fn check_secret(secret: &str) -> Result<(), String> {
    let names: Vec<&str> = secret.split('/').collect();
    let in_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '~');
    let is_name = |n: &&str| !n.is_empty() && !matches!(*n, "." | "..") && n.chars().all(in_name);
    let data = names.iter().position(|n| *n == "data");
    let is_path = data.is_some_and(|at| at > 0 && at + 1 < names.len());
    if !is_path || !names.iter().all(is_name) {
        return Err(format!(
            "vaultSecret must be MOUNT/data/PATH of letters, digits and .-_~, given {secret}"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args() -> VaultArgs {
        VaultArgs {
            vault_server_name: Some("127.0.0.1".to_owned()),
            vault_token_file: Some("/t".into()),
            vault_secret: Some("kv/data/quarry/one".to_owned()),
            vault_server_ca_file: Some("/ca".into()),
            ..VaultArgs::default()
        }
    }

    fn wrong(args: VaultArgs, file: Option<&str>) -> String {
        let section = VaultSection::default();
        KeySource::of(file.map(PathBuf::from), &args, &section).unwrap_err()
    }

    #[test]
    fn what_is_missing_or_contradicts_is_named() {
        let section = VaultSection::default();
        let Ok(Some(KeySource::Vault(all))) = KeySource::of(None, &args(), &section) else {
            panic!("these are enough");
        };
        assert_eq!(
            (all.port, all.secret.as_str()),
            (PORT, "kv/data/quarry/one")
        );
        let change = |change: &dyn Fn(&mut VaultArgs)| {
            let mut args = args();
            change(&mut args);
            wrong(args, None)
        };
        assert!(change(&|a| a.vault_server_name = None).contains("needs vaultServerName"));
        assert!(change(&|a| a.vault_token_file = None).contains("needs vaultTokenFile"));
        assert!(change(&|a| a.vault_secret = None).contains("needs vaultSecret"));
        assert!(change(&|a| a.vault_server_ca_file = None).contains("DisableTLSForTesting"));
        assert!(change(&|a| a.vault_disable_tls_for_testing = true).contains("contradicts"));
        assert!(wrong(args(), Some("/key")).contains("two keys"));
        for host in ["", "a b", "a/b", "u@h", "h?x"] {
            let e = change(&|a| a.vault_server_name = Some(host.to_owned()));
            assert!(e.contains("vaultServerName must"), "{host}: {e}");
        }
        for secret in [
            "kv",
            "data/x",
            "kv/data",
            "kv/x",
            "kv/data/../x",
            "kv/data//x",
            "kv/data/x?y",
        ] {
            let e = change(&|a| a.vault_secret = Some(secret.to_owned()));
            assert!(e.contains("MOUNT/data/PATH"), "{secret}: {e}");
        }
    }
}
