//! Keys, certificate requests, fingerprints and secrets, as both ends make them.

use domain::{Error, ErrorCode};
use rcgen::{CertificateParams, DnType, KeyPair, PublicKeyData as _};
use ring::{digest, hmac, rand};
use rustls::pki_types::CertificateDer;
use rustls::server::ParsedCertificate;

/// Random bytes of a secret: none is ever guessed.
const SECRET_BYTES: usize = 32;

/// A key, and the request for a certificate of it.
pub struct KeyRequest {
    pub key_pem: String,
    pub csr_pem: String,
}

impl KeyRequest {
    /// Makes a key (P-256) that never leaves this process but into a file of its owner.
    pub fn new(name: &str) -> Result<Self, Error> {
        let key = KeyPair::generate().map_err(|error| unusable(&error))?;
        let mut params = CertificateParams::new(Vec::<String>::new()).map_err(|error| unusable(&error))?;
        params.distinguished_name.push(DnType::CommonName, name);
        let request = params.serialize_request(&key).map_err(|error| unusable(&error))?;
        let csr_pem = request.pem().map_err(|error| unusable(&error))?;
        Ok(Self { key_pem: key.serialize_pem(), csr_pem })
    }
}

/// Returns the fingerprint of a key, by which a certificate authority is recognized whatever its certificate says.
pub fn key_pin(key: &KeyPair) -> String {
    hash(&key.subject_public_key_info())
}

/// Returns the fingerprint of the key of a certificate.
pub fn certificate_pin(certificate: &CertificateDer<'_>) -> Option<String> {
    let parsed = ParsedCertificate::try_from(certificate).ok()?;
    Some(hash(&parsed.subject_public_key_info()))
}

/// Returns SHA-256 in hexadecimal.
pub fn hash(bytes: &[u8]) -> String {
    digest::digest(&digest::SHA256, bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Makes a secret: random bits in hexadecimal.
pub fn secret() -> Result<String, Error> {
    let mut bytes = [0; SECRET_BYTES];
    rand::SecureRandom::fill(&rand::SystemRandom::new(), &mut bytes).map_err(|error| unusable(&error))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Returns a number between 0 and 1, so that those who retry do not all come at once.
pub fn jitter() -> f64 {
    let mut bytes = [0; 4];
    // Without randomness everybody waits as long as the others.
    let _ = rand::SecureRandom::fill(&rand::SystemRandom::new(), &mut bytes);
    f64::from(u32::from_be_bytes(bytes)) / f64::from(u32::MAX)
}

/// Says on which machine something is kept, without saying which; empty where the system does not say.
pub fn host_id(system_id: &str) -> String {
    match system_id.is_empty() {
        true => String::new(),
        false => hash(format!("obey host {system_id}").as_bytes()),
    }
}

/// Returns HMAC-SHA-256.
pub fn proof(secret: &str, material: &[u8]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()), material).as_ref().to_vec()
}

/// Whether a proof was made with this secret. Takes as long for a wrong one as for the right one.
pub fn is_proof(secret: &str, material: &[u8], proof: &[u8]) -> bool {
    hmac::verify(&hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()), material, proof).is_ok()
}

/// Signs with the key of a certificate (ECDSA, P-256, SHA-256).
pub fn sign(key_pem: &str, bytes: &[u8]) -> Result<Vec<u8>, Error> {
    let key = KeyPair::from_pem(key_pem).map_err(|error| unusable(&error))?;
    rcgen::SigningKey::sign(&key, bytes).map_err(|error| unusable(&error))
}

/// Whether a signature was made with the key of a certificate.
pub fn is_signed(certificate: &CertificateDer<'_>, bytes: &[u8], signature: &[u8]) -> bool {
    let Ok(parsed) = ParsedCertificate::try_from(certificate) else { return false };
    let info = parsed.subject_public_key_info();
    // The point of a P-256 key is the end of its description.
    let Some(point) = info.len().checked_sub(65).and_then(|at| info.get(at..)) else { return false };
    let key = ring::signature::UnparsedPublicKey::new(&ring::signature::ECDSA_P256_SHA256_ASN1, point);
    key.verify(bytes, signature).is_ok()
}

fn unusable(error: &dyn std::fmt::Display) -> Error {
    Error::new(ErrorCode::StorageFailed, "a key cannot be made or used").with_detail(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_worth_something_with_its_own_key_only() {
        let (one, other) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let certificate =
            CertificateParams::new(Vec::<String>::new()).unwrap().self_signed(&one).unwrap().der().clone();
        let signature = sign(&one.serialize_pem(), b"text").unwrap();
        assert!(is_signed(&certificate, b"text", &signature));
        assert!(!is_signed(&certificate, b"other", &signature));
        let signature = sign(&other.serialize_pem(), b"text").unwrap();
        assert!(!is_signed(&certificate, b"text", &signature));
        assert_eq!(certificate_pin(&certificate), Some(key_pin(&one)));
    }
}
