//! Authentication mechanisms, and identity providers besides this server. Promises: a mechanism
//! that needs more options than its name is refused without them, and options that no enabled
//! mechanism uses are refused.

use super::ldap::{LdapArgs, LdapSection, OwnLdap, ldap};
use super::parameters::find_parameter;
use identity_ldap::Directory;
use identity_oidc::Providers;
use std::sync::Arc;

/// Mechanisms that can be enabled.
const MECHANISMS: &[&str] = &[
    "MONGODB-OIDC",
    "MONGODB-X509",
    "PLAIN",
    "SCRAM-SHA-1",
    "SCRAM-SHA-256",
];

/// Identity providers besides this server.
#[derive(Clone, Debug, Default)]
pub struct IdentityProviders {
    /// OpenID providers, which sign tokens.
    pub oidc: Option<Arc<Providers>>,
    /// The LDAP directory, which checks passwords.
    pub ldap: Option<Arc<Directory>>,
    /// Passwords of PLAIN may come over connections without TLS.
    pub plain_without_tls: bool,
}

impl IdentityProviders {
    /// From the parameters of the start, the command line and the file.
    pub(super) fn of(
        parameters: &[(String, String)],
        args: &LdapArgs,
        file: LdapSection,
        own: OwnLdap,
    ) -> Result<IdentityProviders, String> {
        let open = args.allow_plain_without_tls || own.allow_plain_without_tls;
        IdentityProviders::from(parameters, ldap(args, file, own.ca_file)?, open)
    }

    fn from(
        parameters: &[(String, String)],
        ldap: Option<Arc<Directory>>,
        plain_without_tls: bool,
    ) -> Result<IdentityProviders, String> {
        let mechanisms = find_parameter(parameters, "authenticationMechanisms").unwrap_or_default();
        let on: Vec<&str> = mechanisms.split(',').map(str::trim).collect();
        if let Some(bad) = on.iter().find(|m| !m.is_empty() && !MECHANISMS.contains(m)) {
            return Err(format!(
                "authenticationMechanisms has {bad}; {} are known",
                MECHANISMS.join(", ")
            ));
        }
        let providers = find_parameter(parameters, "oidcIdentityProviders");
        let oidc = match (on.contains(&"MONGODB-OIDC"), providers) {
            (true, Some(json)) => Some(Arc::new(Providers::parse(json)?)),
            (true, None) => {
                return Err(
                    "MONGODB-OIDC in authenticationMechanisms needs oidcIdentityProviders"
                        .to_owned(),
                );
            }
            (false, Some(_)) => {
                return Err(
                    "oidcIdentityProviders needs MONGODB-OIDC in authenticationMechanisms"
                        .to_owned(),
                );
            }
            (false, None) => None,
        };
        let plain = on.contains(&"PLAIN");
        if plain != ldap.is_some() {
            return Err(match plain {
                true => "PLAIN in authenticationMechanisms needs ldapServers".to_owned(),
                false => "ldapServers needs PLAIN in authenticationMechanisms".to_owned(),
            });
        }
        if plain_without_tls && !plain {
            return Err("allowPlainWithoutTLS needs PLAIN in authenticationMechanisms".to_owned());
        }
        Ok(IdentityProviders {
            oidc,
            ldap,
            plain_without_tls,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(parameters: &[(&str, &str)]) -> Result<IdentityProviders, String> {
        let owned = parameters.iter().map(|(n, v)| ((*n).into(), (*v).into()));
        IdentityProviders::from(&owned.collect::<Vec<_>>(), None, false)
    }

    #[test]
    fn mechanisms_and_what_they_need_go_together() {
        let (mechanisms, providers) = ("authenticationMechanisms", "oidcIdentityProviders");
        assert!(of(&[]).unwrap().oidc.is_none());
        assert!(of(&[(mechanisms, "SCRAM-SHA-256, MONGODB-X509")]).is_ok());
        for (given, named) in [
            (&[(mechanisms, "SCRAM-SHA-256,GSSAPI")][..], "GSSAPI"),
            (&[(mechanisms, "PLAIN")], "needs ldapServers"),
            (
                &[(mechanisms, "MONGODB-OIDC")],
                "needs oidcIdentityProviders",
            ),
            (&[(providers, "[]")], "needs MONGODB-OIDC"),
            (
                &[(mechanisms, "MONGODB-OIDC"), (providers, "[]")],
                "names no provider",
            ),
            (
                &[(mechanisms, "MONGODB-OIDC"), (providers, "[{\"x\": 1}]")],
                "unknown field `x`",
            ),
        ] {
            let e = of(given).err();
            assert!(
                e.as_ref().is_some_and(|e| e.contains(named)),
                "{given:?}: {e:?}"
            );
        }
    }
}
