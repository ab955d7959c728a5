//! How a device renews its certificate at a daemon, inside of a sealed connection: one message each way. The device presents no
//! certificate in the handshake, so that one that has expired is renewed the same way; it proves that it has the key by a
//! signature that is bound to this very connection.

use std::io;

use domain::{Error, ErrorCode};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::time;
use wire::obey::v1::{RenewDeviceRequest, RenewDeviceResponse};

use crate::keys::{self, KeyRequest};
use crate::pairing::{self, read, write};
use crate::pinned::{self, TlsIdentity};
use crate::{limits, pipe};

/// The protocol of a connection in which a device renews its certificate.
pub const PROTOCOL: &[u8] = b"obey-renew/1";

/// What the connection's keying material is exported for.
const LABEL: &[u8] = b"EXPORTER-obey-device-renewal";

/// What a device has after a renewal.
pub struct Renewed {
    pub identity: TlsIdentity,
    /// When the certificate must have been renewed again.
    pub expires_at: Option<prost_types::Timestamp>,
}

/// Renews the certificate of this device over a connection to the daemon, with a new key.
pub async fn renew(io: DuplexStream, machine_pin: &str, current: &TlsIdentity) -> Result<Renewed, Error> {
    let refused = |problem: String| {
        Error::new(
            ErrorCode::NotAllowed,
            format!("the certificate of this device was not renewed: {problem}"),
        )
    };
    let config = pinned::client_config(machine_pin, None, &[PROTOCOL])?;
    let mut stream = pipe::seal(io, config).await.map_err(|error| refused(error.to_string()))?;
    let material =
        pairing::material(stream.get_ref().1, LABEL).map_err(|error| refused(error.to_string()))?;
    let request = KeyRequest::new("device")?;
    let message = RenewDeviceRequest {
        signature: keys::sign(&current.key_pem, &signed(&material, &request.csr_pem))?,
        csr_pem: request.csr_pem,
        certificate_pem: current.certificate_pem.clone(),
    };
    let answer: RenewDeviceResponse = time::timeout(limits::PAIRING_WAIT, async {
        write(&mut stream, &message).await?;
        read(&mut stream).await
    })
    .await
    .map_err(|_| refused("the machine does not answer in time".to_owned()))?
    .map_err(|error| refused(error.to_string()))?;
    if !answer.error.is_empty() {
        return Err(refused(answer.error));
    }
    let identity = TlsIdentity { certificate_pem: answer.certificate_pem, key_pem: request.key_pem };
    Ok(Renewed { identity, expires_at: answer.expires_at })
}

/// A device that has proved that it has the key of its certificate.
pub struct RenewalAttempt {
    /// The fingerprint of the certificate that it has.
    pub fingerprint: String,
    pub csr_pem: String,
}

/// Reads what a device sends, at the daemon's end. Nothing for one that has not the key of the certificate that it shows.
pub async fn receive<T>(stream: &mut tokio_rustls::server::TlsStream<T>) -> io::Result<Option<RenewalAttempt>>
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    let material = pairing::material(stream.get_ref().1, LABEL).map_err(io::Error::other)?;
    let request: RenewDeviceRequest = time::timeout(limits::PAIRING_WAIT, read(stream))
        .await
        .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    Ok(check(&material, request))
}

/// Checks what a device has sent.
pub fn check(material: &[u8], request: RenewDeviceRequest) -> Option<RenewalAttempt> {
    let certificate = CertificateDer::from_pem_slice(request.certificate_pem.as_bytes()).ok()?;
    let is_proved = keys::is_signed(&certificate, &signed(material, &request.csr_pem), &request.signature);
    is_proved.then(|| RenewalAttempt { fingerprint: keys::hash(&certificate), csr_pem: request.csr_pem })
}

fn signed(material: &[u8], csr_pem: &str) -> Vec<u8> {
    [material, csr_pem.as_bytes()].concat()
}
