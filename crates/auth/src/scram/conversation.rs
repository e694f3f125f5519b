//! The messages of one SCRAM authentication.

use super::credentials::{Credentials, Mechanism};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use subtle::ConstantTimeEq;

/// Longest accepted nonce and longest accepted user name; those of clients have a few dozen bytes.
const TEXT_BYTES_MAX: usize = 1024;
/// Random bytes of the server's part of the nonce.
pub(super) const NONCE_BYTES: usize = 24;

/// Why an authentication failed. The client is told the same in each case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A message that the protocol does not allow here.
    Malformed(&'static str),
    /// The proof is wrong: wrong password, or no such user.
    Proof,
}

/// The client's first message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientFirst {
    /// The claimed user name.
    pub user: String,
    header: String,
    nonce: String,
    bare: String,
}

fn attribute<'a>(part: Option<&'a str>, name: &str) -> Option<&'a str> {
    part?.strip_prefix(name)?.strip_prefix('=')
}

/// Unescapes `=` and `,` in a name.
fn unescape(name: &str) -> Option<String> {
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(at) = rest.find('=') {
        out.push_str(rest.get(..at)?);
        out.push(match rest.get(at..at + 3)? {
            "=2C" => ',',
            "=3D" => '=',
            _ => return None,
        });
        rest = rest.get(at + 3..)?;
    }
    out.push_str(rest);
    Some(out)
}

impl ClientFirst {
    /// Parses the payload of the first message.
    ///
    /// # Errors
    /// [`Failure::Malformed`].
    pub fn parse(payload: &[u8]) -> Result<ClientFirst, Failure> {
        let bad = Failure::Malformed;
        let text = std::str::from_utf8(payload).map_err(|_| bad("not text"))?;
        let mut parts = text.splitn(3, ',');
        let (binding, identity) = (parts.next().unwrap_or(""), parts.next());
        // `y`: the client supports channel binding and thinks that the server does not, which is
        // true.
        if !matches!(binding, "n" | "y") {
            return Err(bad("channel binding is not supported"));
        }
        let identity = identity.ok_or(bad("no header"))?;
        if !identity.is_empty() {
            return Err(bad("another authorization identity is not supported"));
        }
        let bare = parts.next().ok_or(bad("no message"))?;
        let mut fields = bare.split(',');
        let name = attribute(fields.next(), "n").ok_or(bad("no user"))?;
        let nonce = attribute(fields.next(), "r").ok_or(bad("no nonce"))?;
        let printable = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_graphic());
        if !printable(nonce) || nonce.len() > TEXT_BYTES_MAX || name.len() > TEXT_BYTES_MAX {
            return Err(bad("a nonce or name that cannot be taken"));
        }
        let user = unescape(name).filter(|u| !u.is_empty());
        Ok(ClientFirst {
            user: user.ok_or(bad("a name that is not escaped"))?,
            header: format!("{binding},,"),
            nonce: nonce.to_owned(),
            bare: bare.to_owned(),
        })
    }
}

/// An authentication in progress. It ends with the client's second message, whatever the result, so
/// no message can be used again.
#[derive(Debug)]
pub struct Conversation {
    mechanism: Mechanism,
    credentials: Credentials,
    header: String,
    nonce: String,
    /// Both first messages, which both sides sign.
    begun: String,
}

impl Conversation {
    /// Answers the first message. `random` is fresh for every conversation.
    pub fn begin(
        mechanism: Mechanism,
        first: ClientFirst,
        credentials: Credentials,
        random: &[u8; NONCE_BYTES],
    ) -> (Conversation, Vec<u8>) {
        let nonce = format!("{}{}", first.nonce, BASE64.encode(random));
        let reply = format!(
            "r={nonce},s={},i={}",
            BASE64.encode(&credentials.salt),
            credentials.iterations
        );
        let conversation = Conversation {
            mechanism,
            credentials,
            header: first.header,
            nonce,
            begun: format!("{},{reply}", first.bare),
        };
        (conversation, reply.into_bytes())
    }

    /// Checks the second message and returns the last reply.
    ///
    /// # Errors
    /// [`Failure`].
    pub fn finish(self, payload: &[u8]) -> Result<Vec<u8>, Failure> {
        let bad = Failure::Malformed;
        let text = std::str::from_utf8(payload).map_err(|_| bad("not text"))?;
        let (without_proof, proof) = text.rsplit_once(",p=").ok_or(bad("no proof"))?;
        let mut fields = without_proof.split(',');
        let binding = attribute(fields.next(), "c").ok_or(bad("no channel binding"))?;
        let nonce = attribute(fields.next(), "r").ok_or(bad("no nonce"))?;
        if binding != BASE64.encode(&self.header) {
            return Err(bad("another channel binding than before"));
        }
        if !bool::from(nonce.as_bytes().ct_eq(self.nonce.as_bytes())) {
            return Err(bad("another nonce than before"));
        }
        let proof = BASE64.decode(proof).map_err(|_| bad("not base64"))?;
        let m = self.mechanism;
        if proof.len() != m.key_bytes() {
            return Err(bad("a proof of another length"));
        }
        let signed = format!("{},{without_proof}", self.begun);
        let signature = m.hmac(&self.credentials.stored_key, signed.as_bytes());
        let key: Vec<u8> = proof.iter().zip(&signature).map(|(p, s)| p ^ s).collect();
        if !bool::from(m.hash(&key).ct_eq(&self.credentials.stored_key)) {
            return Err(Failure::Proof);
        }
        let verifier = m.hmac(&self.credentials.server_key, signed.as_bytes());
        Ok(format!("v={}", BASE64.encode(verifier)).into_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::super::credentials::Secret;
    use super::*;

    /// A conversation with a fixed server nonce, as in the examples of the RFCs.
    fn begin_fixed(
        m: Mechanism,
        user: &str,
        c: Credentials,
        client: &str,
        server: &str,
    ) -> Conversation {
        let first = ClientFirst::parse(format!("n,,n={user},r={client}").as_bytes()).unwrap();
        let nonce = format!("{client}{server}");
        let salt = BASE64.encode(&c.salt);
        let begun = format!("{},r={nonce},s={salt},i={}", first.bare, c.iterations);
        Conversation {
            mechanism: m,
            credentials: c,
            header: first.header,
            nonce,
            begun,
        }
    }

    #[test]
    fn the_example_of_rfc_7677() {
        let salt = BASE64.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let m = Mechanism::Sha256;
        let c = Credentials::derive(m, "user", Secret::Clear("pencil"), 4096, &salt).unwrap();
        let conv = begin_fixed(
            m,
            "user",
            c,
            "rOprNGfwEbeRWgbNEkqO",
            "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
        );
        let proof = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                     p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        let reply = conv.finish(proof.as_bytes()).unwrap();
        assert_eq!(reply, b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
    }

    #[test]
    fn messages_out_of_order_are_refused() {
        let begin = || {
            let m = Mechanism::Sha256;
            let c = Credentials::derive(m, "u", Secret::Clear("p"), 10, b"salt").unwrap();
            let first = ClientFirst::parse(b"n,,n=u,r=abc").unwrap();
            Conversation::begin(m, first, c, &[7; NONCE_BYTES])
        };
        let nonce = |reply: &[u8]| {
            let text = String::from_utf8(reply.to_vec()).unwrap();
            text.split(',').next().unwrap().to_owned()
        };
        let proof = BASE64.encode([0; 32]);
        for (message, why) in [
            ("c=biws,NONCE,p=PROOF", Failure::Proof),
            (
                "c=eSws,NONCE,p=PROOF",
                Failure::Malformed("another channel binding than before"),
            ),
            (
                "c=biws,r=abc,p=PROOF",
                Failure::Malformed("another nonce than before"),
            ),
            ("c=biws,NONCE,p=!", Failure::Malformed("not base64")),
            (
                "c=biws,NONCE,p=AAAA",
                Failure::Malformed("a proof of another length"),
            ),
            ("c=biws,NONCE", Failure::Malformed("no proof")),
            ("", Failure::Malformed("no proof")),
        ] {
            let (conv, reply) = begin();
            let text = message
                .replace("NONCE", &nonce(&reply))
                .replace("PROOF", &proof);
            assert_eq!(conv.finish(text.as_bytes()), Err(why), "{message}");
        }
        for bad in [
            &b"p=tls-unique,,n=u,r=a"[..],
            b"n,a=other,n=u,r=a",
            b"n,,n=,r=a",
            b"n,,n=u",
            b"n,,n=u,r=",
            b"n,,n=u=x,r=a",
            b"\xff\xfe",
            b"",
        ] {
            assert!(ClientFirst::parse(bad).is_err(), "{bad:?}");
        }
        assert_eq!(
            ClientFirst::parse(b"n,,n=a=2Cb=3D,r=x").unwrap().user,
            "a,b="
        );
    }
}
