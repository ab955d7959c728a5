//! `RelayLinkService`: joining and leaving a relay, how the connection is, and lines with which devices pair. For the user of
//! this machine.

use std::sync::Arc;

use domain::{Error, ErrorCode};
use host::clock;
use host::machine::{self, MachineIdentity};
use surface::peer::Role;
use surface::status;
use tokio::time;
use tonic::{Request, Response, Status};
use tunnel::dial;
use tunnel::keys::KeyRequest;
use tunnel::ticket::{EnrolmentCode, PairingLine};
use wire::obey::v1 as pb;
use wire::obey::v1::relay_link_service_server::RelayLinkService;
use wire::obey::v1::relay_service_client::RelayServiceClient;

use crate::dialling::{call, from_wire, timestamp};
use crate::identity::RelayIdentity;
use crate::{LinkState, RelayLinks, limits};

#[tonic::async_trait]
impl RelayLinkService for RelayLinks {
    async fn join_relay(
        &self,
        request: Request<pb::JoinRelayRequest>,
    ) -> Result<Response<pb::RelayLink>, Status> {
        answer(self.join(request.into_inner()).await)
    }

    async fn leave_relay(
        &self,
        _request: Request<pb::LeaveRelayRequest>,
    ) -> Result<Response<pb::RelayLink>, Status> {
        answer(self.leave())
    }

    async fn get_relay_link(
        &self,
        _request: Request<pb::GetRelayLinkRequest>,
    ) -> Result<Response<pb::RelayLink>, Status> {
        Ok(Response::new(self.shown()))
    }

    async fn invite_device(
        &self,
        request: Request<pb::InviteDeviceRequest>,
    ) -> Result<Response<pb::InviteDeviceResponse>, Status> {
        answer(self.invite(request.into_inner()).await)
    }
}

fn answer<T>(result: Result<T, Error>) -> Result<Response<T>, Status> {
    result.map(Response::new).map_err(|error| status::grpc(&error))
}

impl RelayLinks {
    async fn join(&self, request: pb::JoinRelayRequest) -> Result<pb::RelayLink, Error> {
        let code = EnrolmentCode::parse(&request.code)?;
        if let Some(joined) = self.0.identity.borrow().as_ref() {
            let message =
                format!("this machine has joined {} already; leave it first: obey machine leave", joined.url);
            return Err(Error::new(ErrorCode::RelayRefused, message));
        }
        let name = if request.name.is_empty() { machine::hostname() } else { request.name };
        let key = KeyRequest::new(&name)?;
        let channel = dial::connect(&code.url, &code.pin, None).await?;
        let enrolling =
            pb::EnrolMachineRequest { secret: code.secret, name: name.clone(), csr_pem: key.csr_pem };
        let enrolled = call(RelayServiceClient::new(channel).enrol_machine(enrolling)).await?;
        let identity = RelayIdentity {
            url: code.url,
            pin: code.pin,
            machine_id: enrolled.machine_id,
            name,
            certificate_pem: enrolled.certificate_pem,
            key_pem: key.key_pem,
            expires_at: enrolled.expires_at.map_or_else(clock::now, from_wire),
        };
        let folder = &self.0.options.data_dir;
        identity.save(folder)?;
        let own = MachineIdentity { id: identity.machine_id.clone(), name: identity.name.clone() };
        own.save(folder).map_err(|error| {
            Error::new(ErrorCode::StorageFailed, "the machine's id cannot be written")
                .with_detail(error.to_string())
        })?;
        self.0.identity.send_replace(Some(Arc::new(identity)));
        let online = async {
            while self.status().state != LinkState::Online {
                time::sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        // It has joined; how the tunnel is, the answer says.
        let _ = time::timeout(limits::JOIN_WAIT, online).await;
        Ok(self.shown())
    }

    fn leave(&self) -> Result<pb::RelayLink, Error> {
        self.joined()?;
        RelayIdentity::remove(&self.0.options.data_dir)?;
        let before = self.shown();
        self.0.identity.send_replace(None);
        let mut status = self.status();
        (status.state, status.channel, status.connected_at) = (LinkState::Offline, None, None);
        status.problem.clear();
        Ok(pb::RelayLink { state: "offline".to_owned(), ..before })
    }

    fn shown(&self) -> pb::RelayLink {
        let status = self.status().clone();
        let plain = self.0.options.plain.name().to_owned();
        let Some(identity) = self.0.identity.borrow().clone() else {
            return pb::RelayLink { state: "offline".to_owned(), plain, ..Default::default() };
        };
        let state = match status.state {
            LinkState::Offline => "offline",
            LinkState::Connecting => "connecting",
            LinkState::Online => "online",
        };
        pb::RelayLink {
            url: identity.url.clone(),
            machine_id: identity.machine_id.clone(),
            name: identity.name.clone(),
            state: state.to_owned(),
            problem: status.problem,
            certificate_expires_at: Some(timestamp(identity.expires_at)),
            connected_at: status.connected_at.map(timestamp),
            plain,
            heartbeat_micros: u64::try_from(status.heartbeat.as_micros()).unwrap_or(u64::MAX),
        }
    }

    async fn invite(&self, request: pb::InviteDeviceRequest) -> Result<pb::InviteDeviceResponse, Error> {
        let role = Role::parse(&request.role)
            .ok_or_else(|| Error::invalid("role", "must be viewer, operator or owner"))?;
        let identity = self.joined()?;
        let channel = self.status().channel.clone();
        let channel = channel.ok_or_else(|| dial::unreachable_relay(&identity.url, "it is not connected"))?;
        let label = pb::GrantReachRequest { label: role.name().to_owned() };
        let token = call(RelayServiceClient::new(channel).grant_reach(label)).await?.token;
        let devices = Arc::clone(&self.0.options.devices);
        let authority =
            tokio::task::spawn_blocking(move || devices.authority()).await.map_err(|error| {
                Error::new(ErrorCode::StorageFailed, "the devices' authority cannot be read")
                    .with_detail(error.to_string())
            })??;
        let secret = self.0.invitations.add(role, request.same_host)?;
        let line = PairingLine {
            url: identity.url.clone(),
            relay_pin: identity.pin.clone(),
            token,
            machine: identity.machine_id.clone(),
            machine_pin: authority.pin(),
            secret,
        };
        let expires_at = Some(timestamp(clock::now().after(limits::INVITATION_LIFE)));
        Ok(pb::InviteDeviceResponse { line: line.to_string(), expires_at })
    }
}
