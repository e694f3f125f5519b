//! Options of `security`: whether access is checked, whether data is encrypted.

use super::ldap::LdapSection;
use super::vault::{VaultArgs, VaultSection};
use crate::key_source::KeySource;
use clap::Args;
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// Options of the command line.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Access and encryption")]
pub struct SecurityArgs {
    /// Enable access control: users log in, and their roles decide what they may do
    #[arg(long, conflicts_with = "noauth")]
    pub auth: bool,
    /// Disable access control, even if the configuration file enables it
    #[arg(long)]
    pub noauth: bool,
    /// Key file of a replica set. Its only effect is that of --auth, as the set has one member that
    /// needs no key
    #[arg(long = "keyFile", value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// Encrypt the data directory, which must be empty at the first start; needs
    /// --encryptionKeyFile or --vaultServerName
    #[arg(long = "enableEncryption")]
    pub enable_encryption: bool,
    /// File with the master key: 32 bytes in base64, readable by its owner only
    #[arg(long = "encryptionKeyFile", value_name = "FILE")]
    pub encryption_key_file: Option<PathBuf>,
    /// The master key in Vault.
    #[command(flatten)]
    pub vault: VaultArgs,
    /// Cipher of the data: only AES256-GCM is allowed
    #[arg(long = "encryptionCipherMode", value_name = "MODE", hide = true)]
    pub encryption_cipher_mode: Option<String>,
}

/// `security` of the file.
#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Security {
    pub(super) authorization: Option<String>,
    pub(super) javascript_enabled: Option<bool>,
    pub(super) key_file: Option<PathBuf>,
    pub(super) redact_client_log_data: bool,
    pub(super) enable_encryption: bool,
    pub(super) encryption_key_file: Option<PathBuf>,
    pub(super) encryption_cipher_mode: Option<String>,
    pub(super) ldap: LdapSection,
    pub(super) vault: VaultSection,
}

/// Whether access is checked. A key file turns this on, too; it must be one that mongod accepts.
pub(super) fn checks_access(args: &SecurityArgs, file: &Security) -> Result<bool, String> {
    let named = match file.authorization.as_deref() {
        None => None,
        Some("enabled") => Some(true),
        Some("disabled") => Some(false),
        Some(other) => {
            return Err(format!(
                "security.authorization must be enabled or disabled, given {other}"
            ));
        }
    };
    let key_file = args.key_file.as_ref().or(file.key_file.as_ref());
    if let Some(path) = key_file {
        check_key_file(path)?;
    }
    if args.noauth {
        return match key_file {
            Some(_) => Err("noauth contradicts keyFile, which enables access control".to_owned()),
            None => Ok(false),
        };
    }
    Ok(args.auth || named.unwrap_or(key_file.is_some()))
}

/// Where the master key is; `None` if the data is not to be encrypted.
pub(super) fn encryption(
    args: &SecurityArgs,
    file: &Security,
) -> Result<Option<KeySource>, String> {
    let key = args.encryption_key_file.clone();
    let key = key.or(file.encryption_key_file.clone());
    let key = KeySource::of(key, &args.vault, &file.vault)?;
    let mode = args.encryption_cipher_mode.as_ref();
    let mode = mode.or(file.encryption_cipher_mode.as_ref());
    if let Some(other) = mode.filter(|m| *m != "AES256-GCM") {
        return Err(format!(
            "encryptionCipherMode must be AES256-GCM, given {other}"
        ));
    }
    match (args.enable_encryption || file.enable_encryption, key) {
        (true, Some(key)) => Ok(Some(key)),
        (true, None) => {
            Err("enableEncryption needs encryptionKeyFile or vaultServerName".to_owned())
        }
        (false, Some(KeySource::File(_))) => {
            Err("encryptionKeyFile needs enableEncryption".to_owned())
        }
        (false, Some(KeySource::Vault(_))) => {
            Err("vaultServerName needs enableEncryption".to_owned())
        }
        (false, None) => Ok(None),
    }
}

/// A key has 6 to 1024 characters of base64 and is readable by its owner alone.
fn check_key_file(path: &Path) -> Result<(), String> {
    use std::os::unix::fs::PermissionsExt;
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|e| format!("cannot read the key file {shown}: {e}"))?;
    let mode = std::fs::metadata(path)
        .map_err(|e| format!("cannot read the key file {shown}: {e}"))?
        .permissions()
        .mode();
    if mode & 0o077 != 0 {
        return Err(format!(
            "the key file {shown} may be read by others than its owner; chmod 600 it"
        ));
    }
    let key: Vec<char> = text.chars().filter(|c| !c.is_whitespace()).collect();
    let base64 = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=');
    if !(6..=1024).contains(&key.len()) || !key.iter().all(base64) {
        return Err(format!(
            "the key file {shown} must hold 6 to 1024 characters of base64"
        ));
    }
    Ok(())
}
