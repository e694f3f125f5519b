//! The client's side of SCRAM: for tests, and for logging in to another server.

use super::credentials::Mechanism;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;

/// A client that logs in.
#[derive(Clone)]
pub struct Client {
    mechanism: Mechanism,
    password: String,
    bare: String,
}

impl Client {
    /// A client with a cleartext password.
    pub fn new(mechanism: Mechanism, user: &str, password: &str, nonce: &str) -> Client {
        let name = user.replace('=', "=3D").replace(',', "=2C");
        Client {
            mechanism,
            password: match mechanism {
                Mechanism::Sha1 => super::credentials::digest(user, password),
                Mechanism::Sha256 => password.to_owned(),
            },
            bare: format!("n={name},r={nonce}"),
        }
    }

    /// The first message.
    pub fn first(&self) -> Vec<u8> {
        format!("n,,{}", self.bare).into_bytes()
    }

    /// The second message, in answer to the server's reply. `None` if that reply is invalid.
    pub fn second(&self, reply: &[u8]) -> Option<Vec<u8>> {
        let reply = std::str::from_utf8(reply).ok()?;
        let field = |name: &str| reply.split(',').find_map(|f| f.strip_prefix(name));
        let (nonce, salt) = (field("r=")?, BASE64.decode(field("s=")?).ok()?);
        let m = self.mechanism;
        let salted = m.stretch(self.password.as_bytes(), &salt, field("i=")?.parse().ok()?);
        let key = m.hmac(&salted, b"Client Key");
        let without_proof = format!("c=biws,r={nonce}");
        let signed = format!("{},{reply},{without_proof}", self.bare);
        let signature = m.hmac(&m.hash(&key), signed.as_bytes());
        let proof: Vec<u8> = key.iter().zip(&signature).map(|(k, s)| k ^ s).collect();
        Some(format!("{without_proof},p={}", BASE64.encode(proof)).into_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ClientFirst, Conversation, Credentials, Failure, Secret};
    use super::*;

    #[test]
    fn both_sides_agree_and_a_wrong_password_does_not() {
        for m in Mechanism::ALL {
            let kept = Credentials::derive(m, "u,=", Secret::Clear("pass"), 10, b"salt").unwrap();
            for (password, right) in [("pass", true), ("Pass", false)] {
                let client = Client::new(m, "u,=", password, "abc");
                let first = ClientFirst::parse(&client.first()).unwrap();
                assert_eq!(first.user, "u,=");
                let (conv, reply) = Conversation::begin(m, first, kept.clone(), &[1; 24]);
                let last = conv.finish(&client.second(&reply).unwrap());
                match right {
                    true => assert!(last.unwrap().starts_with(b"v=")),
                    false => assert_eq!(last, Err(Failure::Proof)),
                }
            }
        }
    }
}
