//! A message of Web Push: sealed for one browser (RFC 8291, one record of aes128gcm) and signed by this daemon (RFC 8292). Sends
//! nothing and reads no clock.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use domain::{Error, ErrorCode, Timestamp};
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::agreement::{ECDH_P256, EphemeralPrivateKey, UnparsedPublicKey, agree_ephemeral};
use ring::hkdf::{HKDF_SHA256, KeyType, Salt};
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::json;

use super::Subscription;
use crate::limits;

/// Bytes of a point of P-256, uncompressed, and of a browser's secret.
const POINT_BYTES: usize = 65;
const SECRET_BYTES: usize = 16;

/// Largest record, and what is before it: salt, its size, the length of the key and the key.
const RECORD_BYTES: u32 = 4096;

/// Whom a push service may ask about this daemon; it has no operator but its user.
const CONTACT: &str = "mailto:obey@localhost";

/// The key with which the daemon signs what it pushes.
pub struct SigningKey(EcdsaKeyPair);

impl SigningKey {
    /// Makes a key, as PKCS#8.
    pub(super) fn generate() -> Result<Vec<u8>, Error> {
        let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        Ok(made.map_err(|_| impossible("no key can be made"))?.as_ref().to_vec())
    }

    pub(super) fn parse(pkcs8: &[u8]) -> Result<Self, Error> {
        EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8, &SystemRandom::new())
            .map(Self)
            .map_err(|_| impossible("the key for pushes is broken"))
    }

    /// Returns the public part as browsers want it.
    pub fn public_key(&self) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(self.0.public_key())
    }

    /// Returns the header `Authorization` of a message to this endpoint.
    pub fn authorization(&self, endpoint: &str, now: Timestamp) -> Result<String, Error> {
        let uri: http::Uri = endpoint.parse().map_err(|_| impossible("the endpoint is no address"))?;
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(impossible("the endpoint is no address"));
        };
        let (until, _) = now.after(limits::PUSH_SIGNATURE_LIFE).seconds_and_nanos();
        let part = |value: serde_json::Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
        let claims = json!({ "aud": format!("{scheme}://{authority}"), "exp": until, "sub": CONTACT });
        let signed = format!("{}.{}", part(json!({ "typ": "JWT", "alg": "ES256" })), part(claims));
        let signature = self.0.sign(&SystemRandom::new(), signed.as_bytes());
        let signature = signature.map_err(|_| impossible("a push cannot be signed"))?;
        Ok(format!("vapid t={signed}.{}, k={}", BASE64_URL_SAFE_NO_PAD.encode(signature), self.public_key()))
    }
}

/// Refuses keys with which nothing could be sealed.
pub(super) fn check_keys(subscription: &Subscription) -> Result<(), Error> {
    let is_of = |text: &str, bytes: usize| {
        BASE64_URL_SAFE_NO_PAD.decode(text).is_ok_and(|decoded| decoded.len() == bytes)
    };
    if !is_of(&subscription.p256dh, POINT_BYTES) {
        return Err(Error::invalid("p256dh", "must be a point of P-256, uncompressed, in base64url"));
    }
    if !is_of(&subscription.auth, SECRET_BYTES) {
        return Err(Error::invalid("auth", "must be 16 bytes in base64url"));
    }
    // A point that is not on the curve is found when it is used.
    seal(subscription, b"{}").map(drop).map_err(|_| Error::invalid("p256dh", "is no point of P-256"))
}

/// Seals a text for a browser. Returns the body of the request, whose `Content-Encoding` is aes128gcm.
pub fn seal(subscription: &Subscription, text: &[u8]) -> Result<Vec<u8>, Error> {
    let random = SystemRandom::new();
    let decoded = |text: &str| BASE64_URL_SAFE_NO_PAD.decode(text).map_err(|_| impossible("a key is broken"));
    let (theirs, secret) = (decoded(&subscription.p256dh)?, decoded(&subscription.auth)?);
    let own = EphemeralPrivateKey::generate(&ECDH_P256, &random).map_err(|_| unsealed())?;
    let own_public = own.compute_public_key().map_err(|_| unsealed())?.as_ref().to_vec();
    let info = [b"WebPush: info\0".as_slice(), &theirs, &own_public].concat();
    let shared = agree_ephemeral(own, &UnparsedPublicKey::new(&ECDH_P256, &theirs), |shared| {
        derive::<32>(&secret, shared, &info)
    });
    let shared = shared.map_err(|_| unsealed())??;
    let mut salt = [0_u8; 16];
    random.fill(&mut salt).map_err(|_| unsealed())?;
    let key = derive::<16>(&salt, &shared, b"Content-Encoding: aes128gcm\0")?;
    let nonce = derive::<12>(&salt, &shared, b"Content-Encoding: nonce\0")?;
    let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &key).map_err(|_| unsealed())?);
    // The last record ends with 2.
    let mut record = [text, &[2]].concat();
    key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::empty(), &mut record)
        .map_err(|_| unsealed())?;
    let length = u8::try_from(own_public.len()).map_err(|_| unsealed())?;
    Ok([&salt[..], &RECORD_BYTES.to_be_bytes(), &[length], &own_public, &record].concat())
}

/// A number of bytes, for `ring`.
struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

fn derive<const N: usize>(salt: &[u8], secret: &[u8], info: &[u8]) -> Result<[u8; N], Error> {
    let mut out = [0; N];
    let derived = Salt::new(HKDF_SHA256, salt).extract(secret);
    let filled = derived.expand(&[info], Length(N)).and_then(|expanded| expanded.fill(&mut out));
    filled.map(|()| out).map_err(|_| unsealed())
}

fn unsealed() -> Error {
    impossible("a push cannot be sealed")
}

fn impossible(message: &str) -> Error {
    Error::new(ErrorCode::StorageFailed, message)
}
