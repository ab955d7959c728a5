//! `PipeService`: sealed connections. TLS 1.3 inside of a call, so that the relay in between reads nothing; then the device is
//! served as if it had connected itself, or pairs.

use std::sync::Arc;

use domain::Error;
use surface::peer::{DeviceRecord, KeyPlace, Role};
use surface::server::{TunnelEntry, fingerprint, sealed_config};
use tokio::io::DuplexStream;
use tokio::sync::mpsc;
use tokio::time;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};
use tunnel::{keys, pairing, pipe, renewal};
use wire::obey::v1 as pb;
use wire::obey::v1::pipe_service_server::PipeService;

use crate::dialling::timestamp;
use crate::{RelayLinks, limits};

/// What sealed connections speak, beside pairing.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// Serves sealed connections.
#[derive(Clone)]
pub(crate) struct PipeHandler {
    links: RelayLinks,
    entry: TunnelEntry,
    acceptor: TlsAcceptor,
}

impl PipeHandler {
    pub(crate) fn new(links: RelayLinks, entry: TunnelEntry) -> Result<Self, Error> {
        let protocols = PROTOCOLS
            .iter()
            .chain([&pairing::PROTOCOL, &renewal::PROTOCOL])
            .map(|name| name.to_vec())
            .collect();
        let authority = links.0.options.devices.authority()?;
        let config = sealed_config(&authority, pipe::DAEMON_NAME, protocols)?;
        Ok(Self { links, entry, acceptor: TlsAcceptor::from(Arc::new(config)) })
    }

    async fn serve(self, io: DuplexStream) {
        let accepting = time::timeout(limits::HANDSHAKE_WAIT, self.acceptor.accept(io));
        let mut stream = match accepting.await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return tracing::debug!(%error, "a sealed connection was refused"),
            Err(_) => return tracing::debug!("a sealed connection did not shake hands in time"),
        };
        if stream.get_ref().1.alpn_protocol() == Some(pairing::PROTOCOL) {
            if let Err(error) = self.pair(&mut stream).await {
                tracing::info!(%error, "a device did not pair");
            }
            return;
        }
        if stream.get_ref().1.alpn_protocol() == Some(renewal::PROTOCOL) {
            if let Err(error) = self.renew(&mut stream).await {
                tracing::info!(%error, "a device did not renew its certificate");
            }
            return;
        }
        // Without a certificate nobody is there who could call.
        if let Some(certificate) = fingerprint(&stream) {
            self.entry.serve_sealed(stream, certificate).await;
        }
    }

    async fn pair(&self, stream: &mut TlsStream<DuplexStream>) -> std::io::Result<()> {
        let attempt = pairing::receive(stream).await?;
        let response = match self.links.0.invitations.take(&attempt) {
            None => {
                let error = "the line is wrong, was used or has expired; make another one: obey device add --role ROLE";
                pb::PairDeviceResponse { error: error.to_owned(), ..Default::default() }
            }
            Some(invitation) => {
                let own = keys::host_id(&host::machine::system_id());
                let is_here = !own.is_empty() && attempt.request.host_id == own;
                // A key that agents may find answers nothing unless the owner said so.
                let place = match (is_here, invitation.same_host) {
                    (false, _) => KeyPlace::Elsewhere,
                    (true, false) => KeyPlace::Here,
                    (true, true) => KeyPlace::HereAllowed,
                };
                let role = invitation.role;
                let devices = Arc::clone(&self.links.0.options.devices);
                let request = attempt.request;
                let work = move || {
                    let paired = devices.pair(&request.name, role, &request.csr_pem, place);
                    paired.map_err(|error| error.message)
                };
                let paired =
                    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(error.to_string()));
                self.told(paired, role)
            }
        };
        pairing::answer(stream, &response).await
    }

    async fn renew(&self, stream: &mut TlsStream<DuplexStream>) -> std::io::Result<()> {
        let renewed = match renewal::receive(stream).await? {
            None => Err("the proof of the certificate's key is wrong".to_owned()),
            Some(attempt) => {
                let devices = Arc::clone(&self.links.0.options.devices);
                let work = move || devices.renew(&attempt.fingerprint, &attempt.csr_pem);
                let renewed = tokio::task::spawn_blocking(work).await;
                renewed
                    .map_err(|error| error.to_string())
                    .and_then(|renewed| renewed.map_err(|error| error.message))
            }
        };
        let response = match renewed {
            Ok((device, certificate_pem)) => {
                tracing::info!(device = device.name, "a device has renewed its certificate");
                let expires_at = device.certificate_ends_at.map(timestamp);
                pb::RenewDeviceResponse { error: String::new(), certificate_pem, expires_at }
            }
            Err(error) => pb::RenewDeviceResponse { error, ..Default::default() },
        };
        pairing::answer(stream, &response).await
    }

    fn told(&self, paired: Result<(DeviceRecord, String), String>, role: Role) -> pb::PairDeviceResponse {
        match paired {
            Ok((device, certificate_pem)) => {
                tracing::info!(device = device.name, role = role.name(), "a device has paired");
                let machine_name =
                    self.links.joined().map(|identity| identity.name.clone()).unwrap_or_default();
                let role = device.role.name().to_owned();
                pb::PairDeviceResponse {
                    error: String::new(),
                    device_id: device.id,
                    certificate_pem,
                    role,
                    machine_name,
                    expires_at: device.certificate_ends_at.map(timestamp),
                }
            }
            Err(error) => pb::PairDeviceResponse { error, ..Default::default() },
        }
    }
}

type Chunks = tokio_stream::adapters::Map<
    ReceiverStream<pb::PipeChunk>,
    fn(pb::PipeChunk) -> Result<pb::PipeChunk, Status>,
>;

#[tonic::async_trait]
impl PipeService for PipeHandler {
    type OpenStream = Chunks;

    async fn open(&self, request: Request<Streaming<pb::PipeChunk>>) -> Result<Response<Chunks>, Status> {
        let (outgoing, chunks) = mpsc::channel(tunnel::limits::PIPE_CHUNKS_MAX);
        let io = pipe::join(request.into_inner(), outgoing);
        tokio::spawn(self.clone().serve(io));
        Ok(Response::new(ReceiverStream::new(chunks).map(Ok)))
    }
}
