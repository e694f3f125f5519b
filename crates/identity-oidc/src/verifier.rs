//! Verification of signatures with ring. Promises: an algorithm that is not listed here verifies
//! nothing.

use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{ErrorKind, Result};
use jsonwebtoken::signature::{self, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind, EncodingKey};
use ring::signature as of_ring;

/// Algorithms of RSA.
pub(crate) const RSA: &[Algorithm] = &[
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
];

/// How a signature of an algorithm is verified.
enum Scheme {
    Rsa(&'static of_ring::RsaParameters),
    Curve(&'static of_ring::EcdsaVerificationAlgorithm),
}

impl Scheme {
    fn of(algorithm: Algorithm) -> Option<Scheme> {
        Some(match algorithm {
            Algorithm::RS256 => Scheme::Rsa(&of_ring::RSA_PKCS1_2048_8192_SHA256),
            Algorithm::RS384 => Scheme::Rsa(&of_ring::RSA_PKCS1_2048_8192_SHA384),
            Algorithm::RS512 => Scheme::Rsa(&of_ring::RSA_PKCS1_2048_8192_SHA512),
            Algorithm::PS256 => Scheme::Rsa(&of_ring::RSA_PSS_2048_8192_SHA256),
            Algorithm::PS384 => Scheme::Rsa(&of_ring::RSA_PSS_2048_8192_SHA384),
            Algorithm::PS512 => Scheme::Rsa(&of_ring::RSA_PSS_2048_8192_SHA512),
            Algorithm::ES256 => Scheme::Curve(&of_ring::ECDSA_P256_SHA256_FIXED),
            Algorithm::ES384 => Scheme::Curve(&of_ring::ECDSA_P384_SHA384_FIXED),
            _ => return None,
        })
    }
}

/// A key with its algorithm.
struct VerificationKey {
    algorithm: Algorithm,
    how: Scheme,
    key: DecodingKey,
}

impl Verifier<Vec<u8>> for VerificationKey {
    fn verify(
        &self,
        message: &[u8],
        signature: &Vec<u8>,
    ) -> std::result::Result<(), signature::Error> {
        let verified = match (&self.how, self.key.kind()) {
            (Scheme::Rsa(how), DecodingKeyKind::RsaModulusExponent { n, e }) => {
                of_ring::RsaPublicKeyComponents { n, e }.verify(how, message, signature)
            }
            (Scheme::Curve(how), DecodingKeyKind::SecretOrDer(point)) => {
                of_ring::UnparsedPublicKey::new(*how, point).verify(message, signature)
            }
            _ => Err(ring::error::Unspecified),
        };
        verified.map_err(|_| signature::Error::new())
    }
}

impl JwtVerifier for VerificationKey {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>> {
    let how = Scheme::of(*algorithm).ok_or(ErrorKind::InvalidAlgorithm)?;
    if key.family() != algorithm.family() {
        return Err(ErrorKind::InvalidKeyFormat.into());
    }
    Ok(Box::new(VerificationKey {
        algorithm: *algorithm,
        how,
        key: key.clone(),
    }))
}

/// This process signs nothing.
fn signer(_: &Algorithm, _: &EncodingKey) -> Result<Box<dyn JwtSigner>> {
    Err(ErrorKind::InvalidAlgorithm.into())
}

static BY_RING: CryptoProvider = CryptoProvider {
    signer_factory: signer,
    verifier_factory: verifier,
    key_utils: KeyUtils::new_unimplemented(),
};

/// Makes the JWT library verify with ring, for the whole process; nothing else in it uses that
/// library.
pub(crate) fn install() {
    // Fails when it is installed already.
    let _ = BY_RING.install_default();
}
