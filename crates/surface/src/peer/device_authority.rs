//! The authority of devices' certificates: a key of the daemon's own that signs nothing else. A certificate it signed
//! opens the handshake and no more; which device has it is for `devices`, by its fingerprint.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use domain::{Error, ErrorCode, Timestamp};
use host::clock;
use jiff::ToSpan as _;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DnType, ExtendedKeyUsagePurpose,
    IsCa, Issuer, KeyPair, KeyUsagePurpose,
};

use super::devices::file;
use super::limits;
use crate::server::folder;

const KEY_FILE: &str = "device-ca.key";
const CERTIFICATE_FILE: &str = "device-ca.pem";

/// The name in the certificate of the authority. It stays: devices' certificates name their issuer by it.
const NAME: &str = "obey devices";

/// A certificate and its key, which nobody keeps.
#[derive(Clone)]
pub struct Certificate {
    pub pem: String,
    pub key_pem: String,
    pub(super) der: Vec<u8>,
}

/// A certificate that was signed for a key that its owner keeps.
pub(super) struct SignedRequest {
    pub(super) pem: String,
    pub(super) der: Vec<u8>,
}

/// A certificate with the one that vouches for it, and its key, in DER.
pub struct ServerIdentity {
    pub chain: Vec<Vec<u8>>,
    pub key: Vec<u8>,
}

/// An authority in a folder.
pub struct DeviceAuthority {
    issuer: Issuer<'static, KeyPair>,
    path: PathBuf,
}

impl DeviceAuthority {
    /// Uses the authority in a folder of ours, or makes one. A key that others can use is refused, never repaired.
    pub fn create_or_load(dir: &Path) -> Result<Self, Error> {
        let (key_path, path) = (dir.join(KEY_FILE), dir.join(CERTIFICATE_FILE));
        let key = match file::private(&key_path, limits::DEVICE_KEY_FILE_MAX_BYTES) {
            Ok(pem) => KeyPair::from_pem(&pem).map_err(|error| unusable(&key_path, &error))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let key = KeyPair::generate().map_err(|error| unusable(&key_path, &error))?;
                file::write_private(&key_path, key.serialize_pem().as_bytes())
                    .map_err(|error| unusable(&key_path, &folder::plain(&error)))?;
                key
            }
            Err(error) => return Err(unusable(&key_path, &folder::plain(&error))),
        };
        let params = params()?;
        // Only the name and the key count for what is signed, so a lost certificate can be made again.
        if !path.exists() {
            let own = params.self_signed(&key).map_err(|error| unusable(&path, &error))?;
            file::write_private(&path, own.pem().as_bytes())
                .map_err(|error| unusable(&path, &folder::plain(&error)))?;
        }
        Ok(Self { issuer: Issuer::new(params, key), path })
    }

    /// Returns the fingerprint of its key, by which devices recognize this daemon.
    pub fn pin(&self) -> String {
        super::hash(&rcgen::PublicKeyData::subject_public_key_info(self.issuer.key()))
    }

    /// Makes a key and a certificate with which the daemon proves who it is inside of a sealed connection.
    pub fn server_identity(&self, name: &str) -> Result<ServerIdentity, Error> {
        let key = KeyPair::generate().map_err(failed)?;
        let mut params = CertificateParams::new(vec![name.to_owned()]).map_err(failed)?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let signed = params.signed_by(&key, &self.issuer).map_err(failed)?;
        let own = self::params()?.self_signed(self.issuer.key()).map_err(failed)?;
        Ok(ServerIdentity {
            chain: vec![signed.der().to_vec(), own.der().to_vec()],
            key: key.serialize_der(),
        })
    }

    /// Signs the key of a device's own request; nothing else in it counts.
    pub(super) fn certify_request(
        &self,
        name: &str,
        csr_pem: &str,
        expires_at: Timestamp,
    ) -> Result<SignedRequest, Error> {
        let mut request = CertificateSigningRequestParams::from_pem(csr_pem)
            .map_err(|_| Error::invalid("csr_pem", "is no certificate signing request"))?;
        request.params = device_params(name, None)?;
        // To the second, unlike those that people keep: it is renewed by the device itself.
        let seconds = |time: Timestamp| u64::try_from(time.seconds_and_nanos().0).unwrap_or(0);
        let epoch = rcgen::date_time_ymd(1970, 1, 1);
        let now = Duration::from_secs(seconds(clock::now()));
        request.params.not_before = epoch + now.saturating_sub(limits::DEVICE_CLOCK_SKEW);
        request.params.not_after = epoch + Duration::from_secs(seconds(expires_at));
        let signed = request.signed_by(&self.issuer).map_err(failed)?;
        Ok(SignedRequest { pem: signed.pem(), der: signed.der().to_vec() })
    }

    /// Returns where its certificate is.
    pub fn certificate(&self) -> &Path {
        &self.path
    }

    /// Makes a key and a certificate for a device. Its end only spares a handshake: devices' records decide.
    pub(super) fn certify(&self, name: &str, expires_at: Option<Timestamp>) -> Result<Certificate, Error> {
        let key = KeyPair::generate().map_err(failed)?;
        let signed = device_params(name, expires_at)?.signed_by(&key, &self.issuer).map_err(failed)?;
        Ok(Certificate { pem: signed.pem(), key_pem: key.serialize_pem(), der: signed.der().to_vec() })
    }
}

fn device_params(name: &str, expires_at: Option<Timestamp>) -> Result<CertificateParams, Error> {
    let mut params = CertificateParams::new(Vec::<String>::new()).map_err(failed)?;
    params.distinguished_name.push(DnType::CommonName, name);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    if let Some((year, month, day)) = expires_at.and_then(day_after) {
        params.not_after = rcgen::date_time_ymd(year, month, day);
    }
    Ok(params)
}

fn failed(error: rcgen::Error) -> Error {
    Error::new(ErrorCode::StorageFailed, "the certificate cannot be made").with_detail(error.to_string())
}

fn params() -> Result<CertificateParams, Error> {
    let mut params = CertificateParams::new(Vec::<String>::new())
        .map_err(|error| Error::new(ErrorCode::ConfigInvalid, error.to_string()))?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    params.distinguished_name.push(DnType::CommonName, NAME);
    Ok(params)
}

/// The day after a point in time: year, month, day.
fn day_after(time: Timestamp) -> Option<(i32, u8, u8)> {
    let time = jiff::Timestamp::from_microsecond(time.0).ok()?.to_zoned(jiff::tz::TimeZone::UTC);
    let day = time.checked_add(1.day()).ok()?;
    Some((day.year().into(), u8::try_from(day.month()).ok()?, u8::try_from(day.day()).ok()?))
}

fn unusable(path: &Path, problem: &dyn std::fmt::Display) -> Error {
    let message = format!(
        "the devices' authority in {} cannot be used: {problem}; remove {KEY_FILE} and {CERTIFICATE_FILE} to get a new \
         one, with which devices need new certificates",
        path.display()
    );
    Error::new(ErrorCode::ConfigInvalid, message)
}
