//! `TunnelService`: what machines dial. The certificate says which machine it is, never the message.

use std::pin::Pin;
use std::sync::Arc;

use futures_stream::FrameResults;
use host::clock;
use tokio::time;
use tokio_stream::Stream;
use tonic::{Request, Response, Status, Streaming};
use tunnel::{FULL_FRAMES, FrameStream, Link, LinkEvent, LinkSide};
use wire::betcode::v1 as pb;
use wire::betcode::v1::tunnel_service_server::TunnelService;

use crate::hub::{Hub, timestamp};
use crate::server::ClientCertificate;
use crate::store::MachineRecord;
use crate::{buffer, limits, status};

/// Serves machines.
#[derive(Clone)]
pub(crate) struct TunnelHandler(pub(crate) Arc<Hub>);

mod futures_stream {
    //! Frames as tonic wants to send them.

    use std::pin::Pin;
    use std::task::{Context, Poll};

    use tokio_stream::Stream;
    use tonic::Status;
    use tunnel::FrameStream;
    use wire::betcode::v1::TunnelFrame;

    /// Frames that are never errors.
    pub(super) struct FrameResults(pub(super) FrameStream);

    impl Stream for FrameResults {
        type Item = Result<TunnelFrame, Status>;

        fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
            Pin::new(&mut self.0).poll_next(context).map(|frame| frame.map(Ok))
        }
    }
}

#[tonic::async_trait]
impl TunnelService for TunnelHandler {
    type OpenTunnelStream = Pin<Box<dyn Stream<Item = Result<pb::TunnelFrame, Status>> + Send>>;

    async fn open_tunnel(
        &self,
        request: Request<Streaming<pb::TunnelFrame>>,
    ) -> Result<Response<Self::OpenTunnelStream>, Status> {
        let machine = self.machine(&request)?;
        let epoch_name = format!("c{}", host::ids::unique());
        let (link, frames): (Arc<Link>, FrameStream) = Link::new(LinkSide::Relay, epoch_name);
        let epoch = self.0.open(&machine, &link).map_err(Status::already_exists)?;
        tracing::info!(machine = machine.name, epoch, "a machine has connected");
        tokio::spawn(read(Arc::clone(&self.0), Arc::clone(&machine), epoch, link, request.into_inner()));
        tokio::spawn(buffer::deliver(Arc::clone(&self.0), machine.id.clone(), epoch));
        Ok(Response::new(Box::pin(FrameResults(frames))))
    }

    async fn register(
        &self,
        request: Request<pb::RegisterRequest>,
    ) -> Result<Response<pb::RegisterResponse>, Status> {
        let machine = self.machine(&request)?;
        let request = request.into_inner();
        let taken = match request.machine_id == machine.id {
            true => self.0.register(&machine, request),
            false => Err("machine_id is not that of the certificate".to_owned()),
        };
        Ok(Response::new(pb::RegisterResponse {
            accepted: taken.is_ok(),
            message: taken.err().unwrap_or_default(),
            heartbeat_interval_secs: u32::try_from(limits::HEARTBEAT_INTERVAL.as_secs()).unwrap_or(10),
            capabilities: vec![FULL_FRAMES.to_owned()],
        }))
    }

    async fn heartbeat(
        &self,
        request: Request<pb::HeartbeatRequest>,
    ) -> Result<Response<pb::HeartbeatResponse>, Status> {
        let machine = self.machine(&request)?;
        if request.get_ref().machine_id != machine.id {
            return Err(Status::permission_denied("OBEY-1053: machine_id is not that of the certificate"));
        }
        self.0.note_sign(&machine.id, None);
        let waiting = self.0.store.waiting(&machine.id).map_err(|error| status::grpc(&error))?;
        Ok(Response::new(pb::HeartbeatResponse {
            received_at: Some(timestamp(clock::now())),
            buffered_messages: u32::try_from(waiting).unwrap_or(u32::MAX),
        }))
    }
}

impl TunnelHandler {
    fn machine<T>(&self, request: &Request<T>) -> Result<Arc<MachineRecord>, Status> {
        let certificate = request.extensions().get::<ClientCertificate>();
        let fingerprint = certificate.and_then(|certificate| certificate.fingerprint.as_deref());
        let machine = self.0.machine_of(fingerprint).map_err(|error| status::grpc(&error))?;
        self.0.count_call_of(&machine)?;
        Ok(machine)
    }
}

/// Takes a machine's frames until the tunnel ends, and says now and then that the relay is there.
async fn read(
    hub: Arc<Hub>,
    machine: Arc<MachineRecord>,
    epoch: u64,
    link: Arc<Link>,
    mut frames: Streaming<pb::TunnelFrame>,
) {
    let mut beat = time::interval(limits::HEARTBEAT_INTERVAL);
    let why = loop {
        tokio::select! {
            frame = frames.message() => match frame {
                Ok(Some(frame)) => {
                    if !hub.note_sign(&machine.id, Some(epoch)) {
                        break "another tunnel has taken its place";
                    }
                    if let LinkEvent::Drain = link.receive(frame) {
                        hub.drain(&machine.id, epoch);
                    }
                }
                Ok(None) => break "the machine has closed its tunnel",
                Err(_) => break "the connection to the machine broke",
            },
            _ = beat.tick() => {
                if hub.is_silent(&machine.id, epoch) {
                    break "the machine does not answer";
                }
                // An end that does not read will be silent, too.
                let _ = link.heartbeat(timestamp(clock::now()));
            }
        }
    };
    tracing::info!(machine = machine.name, epoch, why, "a machine has gone");
    hub.close(&machine.id, epoch, why);
}
