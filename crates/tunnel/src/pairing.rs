//! How a device pairs with a daemon, inside of a sealed connection: one message each way. The device proves that it has
//! the secret of the line, bound to this very connection, so that whoever is in between gains nothing by repeating it.

use std::io;

use domain::{Error, ErrorCode};
use prost::Message;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream};
use tokio::time;
use wire::obey::v1::{PairDeviceRequest, PairDeviceResponse};

use crate::keys::{self, KeyRequest};
use crate::pinned::{self, TlsIdentity};
use crate::ticket::PairingLine;
use crate::{limits, pipe};

/// The protocol of a connection in which a device pairs.
pub const PROTOCOL: &[u8] = b"obey-pair/1";

/// What the connection's keying material is exported for.
const LABEL: &[u8] = b"EXPORTER-obey-device-pairing";
const MATERIAL_BYTES: usize = 32;

/// What a device has when it is paired.
pub struct Paired {
    pub identity: TlsIdentity,
    pub device_id: String,
    pub role: String,
    pub machine_name: String,
    /// When the certificate must have been renewed.
    pub expires_at: Option<prost_types::Timestamp>,
}

/// Pairs this device over a connection to the daemon.
pub async fn pair(io: DuplexStream, line: &PairingLine, name: &str, host_id: &str) -> Result<Paired, Error> {
    let refused = |problem: String| Error::new(ErrorCode::NotAllowed, format!("pairing failed: {problem}"));
    let config = pinned::client_config(&line.machine_pin, None, &[PROTOCOL])?;
    let mut stream = pipe::seal(io, config).await.map_err(|error| refused(error.to_string()))?;
    let request = KeyRequest::new(name)?;
    let material = material(stream.get_ref().1, LABEL).map_err(|error| refused(error.to_string()))?;
    let message = PairDeviceRequest {
        proof: keys::proof(&keys::hash(line.secret.as_bytes()), &material),
        name: name.to_owned(),
        csr_pem: request.csr_pem,
        host_id: host_id.to_owned(),
    };
    let answer: PairDeviceResponse = time::timeout(limits::PAIRING_WAIT, async {
        write(&mut stream, &message).await?;
        read(&mut stream).await
    })
    .await
    .map_err(|_| refused("the machine does not answer in time".to_owned()))?
    .map_err(|error| refused(error.to_string()))?;
    if !answer.error.is_empty() {
        return Err(refused(answer.error));
    }
    Ok(Paired {
        identity: TlsIdentity { certificate_pem: answer.certificate_pem, key_pem: request.key_pem },
        device_id: answer.device_id,
        role: answer.role,
        machine_name: answer.machine_name,
        expires_at: answer.expires_at,
    })
}

/// A device that wants to pair.
pub struct PairingAttempt {
    pub request: PairDeviceRequest,
    material: [u8; MATERIAL_BYTES],
}

impl PairingAttempt {
    /// Whether the device has a secret, of which this is the hash.
    pub fn has(&self, secret_hash: &str) -> bool {
        keys::is_proof(secret_hash, &self.material, &self.request.proof)
    }
}

/// Reads what a device sends; at the daemon's end.
pub async fn receive<T>(stream: &mut tokio_rustls::server::TlsStream<T>) -> io::Result<PairingAttempt>
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    let material = material(stream.get_ref().1, LABEL).map_err(io::Error::other)?;
    let request = time::timeout(limits::PAIRING_WAIT, read(stream))
        .await
        .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    Ok(PairingAttempt { request, material })
}

/// Returns material that only the two ends of a connection know.
pub(crate) fn material<T>(
    connection: &rustls::ConnectionCommon<T>,
    label: &[u8],
) -> Result<[u8; MATERIAL_BYTES], rustls::Error> {
    connection.export_keying_material([0; MATERIAL_BYTES], label, None)
}

/// Answers a device and ends the connection.
pub async fn answer<T>(
    stream: &mut tokio_rustls::server::TlsStream<T>,
    response: &impl Message,
) -> io::Result<()>
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    write(stream, response).await?;
    stream.shutdown().await
}

pub(crate) async fn write(stream: &mut (impl AsyncWrite + Unpin), message: &impl Message) -> io::Result<()> {
    let bytes = message.encode_to_vec();
    stream.write_u32(u32::try_from(bytes.len()).unwrap_or(u32::MAX)).await?;
    stream.write_all(&bytes).await?;
    stream.flush().await
}

pub(crate) async fn read<M: Message + Default>(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<M> {
    let length = stream.read_u32().await? as usize;
    if length > limits::PAIRING_MESSAGE_MAX_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the message is too large"));
    }
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).await?;
    M::decode(bytes.as_slice()).map_err(io::Error::other)
}
