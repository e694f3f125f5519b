//! Tokens (JWT, RFC 7519). Promises: no claim is trusted before the signature is verified; an
//! algorithm is used only with a key for it.

use crate::provider::{Provider, Providers};
use jsonwebtoken::dangerous::insecure_decode_claims;
use jsonwebtoken::{Validation, decode, decode_header};
use serde_json::{Map, Value};

/// Longest token.
const TOKEN_BYTES_MAX: usize = 16 * 1024;
/// Largest allowed difference between the clocks of provider and server, in seconds.
const SKEW_S: f64 = 60.0;
/// Longest name of a user or a group.
const NAME_BYTES_MAX: usize = 1024;

/// The current time.
#[derive(Clone, Copy, Debug)]
pub struct CurrentTime {
    /// Milliseconds since the epoch.
    pub wall_ms: i64,
    /// Monotonic microseconds.
    pub monotonic_us: u64,
}

/// The verified bearer of a token.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenBearer {
    /// Its name in `$external`.
    pub user: String,
    /// Its roles in `admin`; `None` if the user's document has them.
    pub roles: Option<Vec<String>>,
    /// When the token expires, in milliseconds since the epoch.
    pub ends_ms: i64,
}

/// Why a token was rejected. For the log: it contains nothing of the token.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenError(pub String);

fn reject<T>(why: &str) -> Result<T, TokenError> {
    Err(TokenError(why.to_owned()))
}

type Claims = Map<String, Value>;

fn text<'a>(claims: &'a Claims, name: &str) -> Option<&'a str> {
    claims.get(name).and_then(Value::as_str)
}

fn is_for(claims: &Claims, audience: &str) -> bool {
    match claims.get("aud") {
        Some(Value::String(one)) => one == audience,
        Some(Value::Array(all)) => all.iter().any(|a| a.as_str() == Some(audience)),
        _ => false,
    }
}

fn decode_unverified(token: &str) -> Option<Claims> {
    (token.len() <= TOKEN_BYTES_MAX)
        .then(|| insecure_decode_claims(token).ok())
        .flatten()
}

impl Providers {
    /// The user that a token claims to be for: used for throttling, not to be trusted.
    pub fn claimed_user(&self, token: &str) -> String {
        let claims = decode_unverified(token).unwrap_or_default();
        self.of_token(&claims)
            .and_then(|p| p.user(&claims).ok())
            .unwrap_or_default()
    }

    /// The provider that a token claims to be from.
    fn of_token(&self, claims: &Claims) -> Option<&Provider> {
        let issuer = text(claims, "iss")?;
        let mut of_issuer = self.all.iter().filter(|p| p.issuer == issuer);
        of_issuer.find(|p| is_for(claims, &p.audience))
    }

    /// Verifies a token. The second part is the error if keys had to be read and could not be.
    ///
    /// # Errors
    /// Why the token is rejected.
    pub fn verify(
        &self,
        token: &str,
        now: CurrentTime,
    ) -> (Result<TokenBearer, TokenError>, Option<String>) {
        let mut trouble = None;
        let verified = self.verify_token(token, now, &mut trouble);
        (verified, trouble)
    }

    fn verify_token(
        &self,
        token: &str,
        now: CurrentTime,
        trouble: &mut Option<String>,
    ) -> Result<TokenBearer, TokenError> {
        if token.len() > TOKEN_BYTES_MAX {
            return reject("the token is too long");
        }
        let Ok(header) = decode_header(token) else {
            return reject("the token has no header that can be used");
        };
        if header.crit.is_some() || header.enc.is_some() || header.zip.is_some() {
            return reject("the header of the token asks for more than a signature");
        }
        let Some(claims) = decode_unverified(token) else {
            return reject("the token has no claims");
        };
        let Some(provider) = self.of_token(&claims) else {
            return reject("no provider has the issuer and the audience of the token");
        };
        let Some(id) = header.kid.as_deref().filter(|id| !id.is_empty()) else {
            return reject("the header of the token names no key");
        };
        let found = provider.keys.find(id, header.alg, now.monotonic_us);
        *trouble = found.1;
        let Some(key) = found.0 else {
            return reject("no key of the provider has the name and the algorithm of the token");
        };
        let mut asked = Validation::new(header.alg);
        asked.set_required_spec_claims(&["iss", "aud", "exp"]);
        asked.set_issuer(&[&provider.issuer]);
        asked.set_audience(&[&provider.audience]);
        // Checked below, with the server's clock.
        asked.validate_exp = false;
        let Ok(decoded) = decode::<Claims>(token, &key, &asked) else {
            return reject("the signature of the token or one of its claims is wrong");
        };
        let claims = decoded.claims;
        let ends_ms = times(&claims, now.wall_ms)?;
        Ok(TokenBearer {
            user: provider.user(&claims)?,
            roles: provider.roles_of(&claims)?,
            ends_ms,
        })
    }
}

/// Checks the token's times; returns when it expires.
fn times(claims: &Claims, now_ms: i64) -> Result<i64, TokenError> {
    let number = |name: &str| match claims.get(name) {
        None => Ok(None),
        Some(value) => match value.as_f64() {
            Some(s) if s.is_finite() && s >= 0.0 => Ok(Some(s)),
            _ => Err(TokenError(format!("'{name}' of the token is no time"))),
        },
    };
    // Exact to milliseconds for any realistic token; out of range it saturates.
    let ms = |seconds: f64| (seconds * 1000.0) as i64;
    let Some(expires) = number("exp")? else {
        return reject("the token has no time at which it expires");
    };
    let ends_ms = ms(expires + SKEW_S);
    if now_ms >= ends_ms {
        return reject("the token has expired");
    }
    if number("nbf")?.is_some_and(|from| now_ms < ms(from - SKEW_S)) {
        return reject("the token is not valid yet");
    }
    Ok(ends_ms)
}

impl Provider {
    fn user(&self, claims: &Claims) -> Result<String, TokenError> {
        let Some(name) = text(claims, &self.principal) else {
            return Err(TokenError(format!(
                "the token has no string in the claim '{}'",
                self.principal
            )));
        };
        self.prefix_name(name)
    }

    fn prefix_name(&self, name: &str) -> Result<String, TokenError> {
        if name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains('\0') {
            return reject("a name in the token is empty, too long or has a NUL");
        }
        Ok(format!("{}/{name}", self.prefix))
    }

    fn roles_of(&self, claims: &Claims) -> Result<Option<Vec<String>>, TokenError> {
        let Some(claim) = &self.roles else {
            return Ok(None);
        };
        let wrong = || TokenError(format!("the token has no array of strings in '{claim}'"));
        let groups = match claims.get(claim) {
            Some(Value::Array(groups)) => groups,
            _ => return Err(wrong()),
        };
        let prefixed = |group: &Value| self.prefix_name(group.as_str().ok_or_else(wrong)?);
        groups
            .iter()
            .map(prefixed)
            .collect::<Result<_, _>>()
            .map(Some)
    }
}
