//! Identity providers from `oidcIdentityProviders`, with MongoDB's fields. Promises: a field that
//! would have no effect is refused by name. Must not know: how tokens are verified.

use crate::keys::Keys;
use crate::verifier;
use pcre2::bytes::Regex;
use serde::Deserialize;
use std::path::PathBuf;

/// Longest user name that is matched.
const NAME_BYTES_MAX: usize = 1024;

/// A provider as written in the option.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct ProviderOption {
    issuer: String,
    audience: String,
    auth_name_prefix: String,
    client_id: Option<String>,
    request_scopes: Option<Vec<String>>,
    match_pattern: Option<String>,
    #[serde(default = "subject")]
    principal_name: String,
    #[serde(default = "default_true")]
    use_authorization_claim: bool,
    authorization_claim: Option<String>,
    #[serde(default = "default_true")]
    supports_human_flows: bool,
    #[serde(default, rename = "JWKSPollSecs")]
    poll_s: u64,
    #[serde(rename = "JWKSFile")]
    file: PathBuf,
}

fn subject() -> String {
    "sub".to_owned()
}

fn default_true() -> bool {
    true
}

/// One identity provider.
pub struct Provider {
    pub(crate) issuer: String,
    pub(crate) audience: String,
    pub(crate) prefix: String,
    /// The data for a client that logs a person in; `None` for a provider of machine identities.
    human: Option<HumanFlow>,
    pub(crate) principal: String,
    /// The claim whose values are roles; `None` if users in `$external` have the roles.
    pub(crate) roles: Option<String>,
    pub(crate) keys: Keys,
}

struct HumanFlow {
    client_id: String,
    scopes: Vec<String>,
    pattern: Option<Regex>,
}

impl Provider {
    fn of(written: ProviderOption) -> Result<Provider, String> {
        let name = &written.issuer;
        let empty = [
            ("issuer", &written.issuer),
            ("audience", &written.audience),
            ("authNamePrefix", &written.auth_name_prefix),
            ("principalName", &written.principal_name),
        ];
        if let Some((field, _)) = empty.iter().find(|(_, value)| value.is_empty()) {
            return Err(format!("{field} of the provider '{name}' is empty"));
        }
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if !written.auth_name_prefix.chars().all(allowed) {
            return Err(format!(
                "authNamePrefix of the provider '{name}' may have letters, digits, '-' and '_', \
                 given '{}'",
                written.auth_name_prefix
            ));
        }
        let roles = match (written.use_authorization_claim, written.authorization_claim) {
            (true, Some(claim)) if !claim.is_empty() => Some(claim),
            (true, _) => {
                return Err(format!(
                    "the provider '{name}' needs authorizationClaim, or useAuthorizationClaim: \
                     false"
                ));
            }
            (false, _) => None,
        };
        let human = match (written.supports_human_flows, written.client_id) {
            (true, Some(client_id)) => Some(HumanFlow {
                client_id,
                scopes: written.request_scopes.unwrap_or_default(),
                pattern: written
                    .match_pattern
                    .map(|p| pattern(name, &p))
                    .transpose()?,
            }),
            (true, None) => {
                return Err(format!(
                    "the provider '{name}' needs clientId, or supportsHumanFlows: false"
                ));
            }
            (false, client_id) => {
                let idle = [
                    ("clientId", client_id.is_some()),
                    ("requestScopes", written.request_scopes.is_some()),
                    ("matchPattern", written.match_pattern.is_some()),
                ];
                if let Some((field, _)) = idle.iter().find(|(_, given)| *given) {
                    return Err(format!(
                        "{field} of the provider '{name}' has no effect with supportsHumanFlows: \
                         false"
                    ));
                }
                None
            }
        };
        Ok(Provider {
            keys: Keys::open(written.file, written.poll_s)?,
            issuer: written.issuer,
            audience: written.audience,
            prefix: written.auth_name_prefix,
            human,
            principal: written.principal_name,
            roles,
        })
    }

    /// The issuer of its tokens.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// The client id that the client uses with the provider.
    pub fn client_id(&self) -> &str {
        self.human.as_ref().map_or("", |h| h.client_id.as_str())
    }

    /// The scopes that the client requests in addition.
    pub fn request_scopes(&self) -> &[String] {
        self.human.as_ref().map_or(&[], |h| h.scopes.as_slice())
    }
}

fn pattern(name: &str, text: &str) -> Result<Regex, String> {
    Regex::new(text)
        .map_err(|e| format!("matchPattern of the provider '{name}' is no regular expression: {e}"))
}

/// All identity providers, in the order in which they are tried.
pub struct Providers {
    pub(crate) all: Vec<Provider>,
}

impl std::fmt::Debug for Providers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let issuers = self.all.iter().map(|p| &p.issuer);
        f.debug_list().entries(issuers).finish()
    }
}

impl Providers {
    /// Parses a JSON array of providers and reads the key files that it names.
    ///
    /// # Errors
    /// One line that says which field is wrong.
    pub fn parse(json: &str) -> Result<Providers, String> {
        let written: Vec<ProviderOption> = serde_json::from_str(json)
            .map_err(|e| format!("oidcIdentityProviders is wrong: {e}"))?;
        if written.is_empty() {
            return Err("oidcIdentityProviders names no provider".to_owned());
        }
        let all = written.into_iter().map(Provider::of);
        let all = all
            .collect::<Result<Vec<_>, _>>()
            .map_err(|e| format!("oidcIdentityProviders is wrong: {e}"))?;
        for (i, one) in all.iter().enumerate() {
            let before = all.iter().take(i);
            for other in before {
                if other.issuer == one.issuer && other.audience == one.audience {
                    return Err(format!(
                        "oidcIdentityProviders has the issuer '{}' with the audience '{}' twice",
                        one.issuer, one.audience
                    ));
                }
                if other.prefix == one.prefix && other.issuer != one.issuer {
                    return Err(format!(
                        "oidcIdentityProviders gives authNamePrefix '{}' to two issuers, whose \
                         users would be the same",
                        one.prefix
                    ));
                }
            }
        }
        let human: Vec<&HumanFlow> = all.iter().filter_map(|p| p.human.as_ref()).collect();
        if human.len() > 1 && human.iter().any(|h| h.pattern.is_none()) {
            return Err(
                "oidcIdentityProviders needs matchPattern in each provider with \
                 supportsHumanFlows, because there are several"
                    .to_owned(),
            );
        }
        verifier::install();
        Ok(Providers { all })
    }

    /// The provider for a person with this name. Without a name there must be only one provider.
    pub fn of_person(&self, name: Option<&str>) -> Option<&Provider> {
        let mut humans = self
            .all
            .iter()
            .filter_map(|p| p.human.as_ref().map(|h| (p, h)));
        let Some(name) = name.filter(|n| n.len() <= NAME_BYTES_MAX) else {
            let first = humans.next();
            return first.filter(|_| humans.next().is_none()).map(|(p, _)| p);
        };
        let matches = |h: &HumanFlow| match &h.pattern {
            None => true,
            Some(pattern) => pattern.is_match(name.as_bytes()).unwrap_or(false),
        };
        humans.find(|(_, h)| matches(h)).map(|(p, _)| p)
    }
}
