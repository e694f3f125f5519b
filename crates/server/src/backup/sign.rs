//! Signatures of requests to a bucket (AWS Signature Version 4), over the headers that every
//! request has. Must not know: what the request does.

use ::backup::Digest;
use ring::hmac;

/// The credentials of the requests.
pub(super) struct Keys {
    pub(super) id: String,
    pub(super) secret: String,
    /// Session token of temporary credentials.
    pub(super) token: Option<String>,
    pub(super) region: String,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keys")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// The parts of a request that are signed.
pub(super) struct SignedRequest<'a> {
    pub(super) method: &'a str,
    pub(super) host: &'a str,
    /// Encoded, as it stands in the first line.
    pub(super) path: &'a str,
    /// Encoded, sorted by name.
    pub(super) query: &'a str,
    /// Digest of the body.
    pub(super) body: &'a str,
    /// Such as `20261126T050000Z`.
    pub(super) time: &'a str,
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    hmac::sign(&key, text.as_bytes()).as_ref().to_vec()
}

impl Keys {
    /// The headers to send besides `host`.
    pub(super) fn headers(&self, asked: &SignedRequest<'_>) -> Vec<(&'static str, String)> {
        let (body, time) = (asked.body, asked.time);
        let mut sent = vec![
            ("x-amz-content-sha256", body.to_owned()),
            ("x-amz-date", time.to_owned()),
        ];
        if let Some(token) = &self.token {
            sent.push(("x-amz-security-token", token.clone()));
        }
        let host = [("host", asked.host.to_owned())];
        let signed: Vec<_> = host.iter().chain(&sent).collect();
        let names: Vec<_> = signed.iter().map(|(name, _)| *name).collect();
        let names = names.join(";");
        let lines: String = signed.iter().map(|(n, v)| format!("{n}:{v}\n")).collect();
        let canonical = format!(
            "{}\n{}\n{}\n{lines}\n{names}\n{body}",
            asked.method, asked.path, asked.query
        );
        let day = time.get(..8).unwrap_or(time);
        let scope = format!("{day}/{}/s3/aws4_request", self.region);
        let digest = Digest::of(canonical.as_bytes());
        let text = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{digest}");
        let mut key = mac(format!("AWS4{}", self.secret).as_bytes(), day);
        for part in [&self.region, "s3", "aws4_request"] {
            key = mac(&key, part);
        }
        let signature: String = mac(&key, &text)
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect();
        let credential = format!("{}/{scope}", self.id);
        sent.push((
            "authorization",
            format!(
                "AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders={names}, \
                 Signature={signature}"
            ),
        ));
        sent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The signature of a list request is that of the example in the specification.
    #[test]
    fn a_request_is_signed_as_documented() {
        let keys = Keys {
            id: "AKIAIOSFODNN7EXAMPLE".to_owned(),
            secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_owned(),
            token: None,
            region: "us-east-1".to_owned(),
        };
        let empty = Digest::of(b"").to_string();
        let headers = keys.headers(&SignedRequest {
            method: "GET",
            host: "examplebucket.s3.amazonaws.com",
            path: "/",
            query: "max-keys=2&prefix=J",
            body: &empty,
            time: "20130524T000000Z",
        });
        let authorization = &headers.last().unwrap().1;
        let signature = "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7";
        assert!(authorization.ends_with(signature), "{authorization}");
    }
}
