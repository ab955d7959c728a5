//! `RelayService`: how machines join and renew their certificates, and what the owner may do from elsewhere.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use domain::{Error, ErrorCode};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use tonic::{Request, Response, Status};
use tunnel::keys;
use wire::obey::v1 as pb;
use wire::obey::v1::relay_service_server::RelayService;

use crate::addresses::ClientAddress;
use crate::admin::{CLUSTER, TOKEN_FILE};
use crate::forward::principal_of;
use crate::hub::{Hub, timestamp};
use crate::metrics::Totals;
use crate::server::ClientCertificate;
use crate::store::{MachineRecord, Principal, check_name};
use crate::{limits, status};

#[derive(Clone)]
pub(crate) struct RelayHandler {
    hub: Arc<Hub>,
    /// Nonces for late renewals, and when they were made.
    nonces: Arc<Mutex<HashMap<Vec<u8>, Instant>>>,
    /// When a refusal was noted last.
    refused: Arc<Mutex<Option<Instant>>>,
}

impl RelayHandler {
    pub(crate) fn new(hub: Arc<Hub>) -> Self {
        Self { hub, nonces: Arc::default(), refused: Arc::default() }
    }

    /// Notes a code that was refused; not every one, since anybody can send any number.
    fn note_refusal(&self, event: &str, subject: &str) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        if refused.is_none_or(|last| last.elapsed() >= limits::REFUSALS_INTERVAL) {
            *refused = Some(Instant::now());
            self.hub.store.note(event, subject, "wrong, used or expired code");
        }
    }

    fn machine<T>(&self, request: &Request<T>) -> Result<Arc<MachineRecord>, Status> {
        let certificate = request.extensions().get::<ClientCertificate>();
        let fingerprint = certificate.and_then(|certificate| certificate.fingerprint.as_deref());
        let machine = self.hub.machine_of(fingerprint).map_err(|error| status::grpc(&error))?;
        self.hub.count_call_of(&machine)?;
        Ok(machine)
    }

    /// Whether the address of a request may present a secret.
    fn may_try<T>(&self, request: &Request<T>) -> Result<ClientAddress, Status> {
        let address = ClientAddress::of(request.extensions());
        self.hub.addresses.may_try(address).map(|()| address)
    }

    fn enrol(
        &self,
        request: &pb::EnrolMachineRequest,
        address: ClientAddress,
    ) -> Result<pb::EnrolMachineResponse, Error> {
        let refused = || {
            self.hub.addresses.note_refusal(address);
            self.note_refusal("machine_refused", &request.name);
            let message =
                "the code is wrong, was used or has expired; make another one on the relay: obey relay code";
            Error::new(ErrorCode::RelayRefused, message)
        };
        // Who has no code learns nothing, and costs nothing.
        if !self.hub.store.has_code(&request.secret)? {
            return Err(refused());
        }
        // Before the code is used up.
        check_name(&request.name)?;
        if self.hub.store.directory().machines.values().any(|machine| machine.name == request.name) {
            let message = format!("name: there is a machine {} already; choose another one", request.name);
            return Err(Error::new(ErrorCode::RelayRefused, message));
        }
        let machine_id = host::machine::new_machine_id();
        let certificate = self.hub.authority().sign(&machine_id, &request.csr_pem, limits::LEAF_LIFE)?;
        let user = self.hub.store.take_code(&request.secret)?.ok_or_else(refused)?;
        self.hub.store.add_machine(&machine_id, &request.name, &user, &certificate)?;
        self.hub.store.note("machine_joined", &request.name, &machine_id);
        tracing::info!(machine = request.name, machine_id, "a machine has joined");
        let expires_at = Some(timestamp(certificate.not_after));
        Ok(pb::EnrolMachineResponse { machine_id, certificate_pem: certificate.pem, expires_at })
    }

    /// Makes another relay one with this one.
    fn enrol_other(&self, secret: &str, address: ClientAddress) -> Result<pb::EnrolRelayResponse, Error> {
        if !self.hub.store.take_relay_code(secret)? {
            self.hub.addresses.note_refusal(address);
            self.note_refusal("relay_refused", "");
            let message = "the code is wrong, was used or has expired; make another one on the relay: obey relay code --relay";
            return Err(Error::new(ErrorCode::RelayRefused, message));
        }
        let directory = self.hub.store.directory();
        let owner = directory.users.values().find(|user| user.is_owner);
        let owner = owner.ok_or_else(|| Error::new(ErrorCode::StorageFailed, "this relay has no owner"))?;
        let token = self.hub.authority().folder().join(TOKEN_FILE);
        let owner_token = std::fs::read_to_string(&token).map_err(|error| {
            let message = format!("{} cannot be read: {error}", token.display());
            Error::new(ErrorCode::StorageFailed, message)
        })?;
        self.hub.store.note("relay_joined", "", "");
        tracing::info!("another relay has joined");
        Ok(pb::EnrolRelayResponse {
            authority_state: self.hub.authority().export()?,
            owner_id: owner.id.clone(),
            owner_name: owner.name.clone(),
            owner_token: owner_token.trim().to_owned(),
            cluster: self.hub.store.setting(CLUSTER)?.unwrap_or_default(),
        })
    }

    fn renew(&self, machine: &MachineRecord, csr_pem: &str) -> Result<pb::RenewCertificateResponse, Error> {
        let certificate = self.hub.authority().sign(&machine.id, csr_pem, limits::LEAF_LIFE)?;
        self.hub.store.add_certificate(machine, &certificate)?;
        self.hub.store.note("certificate_renewed", &machine.name, &certificate.fingerprint);
        tracing::info!(machine = machine.name, "a machine has renewed its certificate");
        let expires_at = Some(timestamp(certificate.not_after));
        Ok(pb::RenewCertificateResponse { certificate_pem: certificate.pem, expires_at })
    }

    fn renew_expired(
        &self,
        request: &pb::RenewExpiredCertificateRequest,
    ) -> Result<pb::RenewCertificateResponse, Error> {
        let refused = |why: &str| {
            let message =
                format!("the certificate cannot be renewed: {why}; join again: obey machine join CODE");
            Error::new(ErrorCode::RelayRefused, message)
        };
        let made = self.nonces.lock().unwrap_or_else(PoisonError::into_inner).remove(&request.nonce);
        if made.is_none_or(|made| made.elapsed() > limits::NONCE_LIFE) {
            return Err(refused("the nonce is not ours or was used"));
        }
        let certificate = CertificateDer::from_pem_slice(request.certificate_pem.as_bytes())
            .map_err(|_| Error::invalid("certificate_pem", "is no certificate as PEM"))?;
        let fingerprint = keys::hash(&certificate);
        if self.hub.store.is_too_late(&fingerprint, limits::LATE_RENEWAL_MAX)? {
            return Err(refused("it ended more than 90 days ago, or is not known"));
        }
        let signed = [request.nonce.as_slice(), request.csr_pem.as_bytes()].concat();
        if !keys::is_signed(&certificate, &signed, &request.signature) {
            return Err(refused("the proof of its key is wrong"));
        }
        // Only who has the key is told, or locked: a certificate alone is no secret.
        let machine = self.hub.machine_of(Some(&fingerprint))?;
        self.renew(&machine, &request.csr_pem)
    }
}

#[tonic::async_trait]
impl RelayService for RelayHandler {
    async fn enrol_machine(
        &self,
        request: Request<pb::EnrolMachineRequest>,
    ) -> Result<Response<pb::EnrolMachineResponse>, Status> {
        let address = self.may_try(&request)?;
        self.enrol(request.get_ref(), address).map(Response::new).map_err(|error| status::grpc(&error))
    }

    async fn renew_certificate(
        &self,
        request: Request<pb::RenewCertificateRequest>,
    ) -> Result<Response<pb::RenewCertificateResponse>, Status> {
        let machine = self.machine(&request)?;
        let renewed = self.renew(&machine, &request.get_ref().csr_pem);
        renewed.map(Response::new).map_err(|error| status::grpc(&error))
    }

    async fn begin_renewal(
        &self,
        request: Request<pb::BeginRenewalRequest>,
    ) -> Result<Response<pb::BeginRenewalResponse>, Status> {
        self.hub.addresses.may_renew(ClientAddress::of(request.extensions()))?;
        let nonce = keys::secret().map_err(|error| status::grpc(&error))?.into_bytes();
        let mut nonces = self.nonces.lock().unwrap_or_else(PoisonError::into_inner);
        nonces.retain(|_, made| made.elapsed() <= limits::NONCE_LIFE);
        if nonces.len() >= limits::NONCES_MAX {
            return Err(Status::resource_exhausted(
                "OBEY-1003: too many renewals at once; try again in a minute",
            ));
        }
        nonces.insert(nonce.clone(), Instant::now());
        Ok(Response::new(pb::BeginRenewalResponse { nonce }))
    }

    async fn renew_expired_certificate(
        &self,
        request: Request<pb::RenewExpiredCertificateRequest>,
    ) -> Result<Response<pb::RenewCertificateResponse>, Status> {
        let address = self.may_try(&request)?;
        let renewed =
            self.renew_expired(request.get_ref()).inspect_err(|_| self.hub.addresses.note_refusal(address));
        renewed.map(Response::new).map_err(|error| status::grpc(&error))
    }

    async fn grant_reach(
        &self,
        request: Request<pb::GrantReachRequest>,
    ) -> Result<Response<pb::GrantReachResponse>, Status> {
        let machine = self.machine(&request)?;
        let token = self.hub.store.add_reach(&machine.id, &request.get_ref().label);
        let token = token.map_err(|error| status::grpc(&error))?;
        self.hub.store.note("device_invited", &machine.name, &request.get_ref().label);
        Ok(Response::new(pb::GrantReachResponse { token }))
    }

    async fn remove_machine(
        &self,
        request: Request<pb::RemoveMachineRequest>,
    ) -> Result<Response<pb::RemoveMachineResponse>, Status> {
        let principal =
            principal_of(&self.hub, request.metadata().as_ref(), ClientAddress::of(request.extensions()))?;
        if matches!(principal, Principal::Device { .. }) {
            return Err(status::unauthenticated());
        }
        let found = self.hub.store.directory().machine(&principal, &request.get_ref().machine_id);
        let machine = found.ok_or_else(|| status::grpc(&status::no_machine()))?;
        self.hub.store.remove_machine(&machine.id).map_err(|error| status::grpc(&error))?;
        self.hub.store.note("machine_removed", &machine.name, &machine.id);
        self.hub.cut_removed();
        Ok(Response::new(pb::RemoveMachineResponse { machine_id: machine.id.clone() }))
    }

    async fn enrol_relay(
        &self,
        request: Request<pb::EnrolRelayRequest>,
    ) -> Result<Response<pb::EnrolRelayResponse>, Status> {
        let address = self.may_try(&request)?;
        let enrolled = self.enrol_other(&request.get_ref().secret, address);
        enrolled.map(Response::new).map_err(|error| status::grpc(&error))
    }

    async fn get_relay_status(
        &self,
        request: Request<pb::GetRelayStatusRequest>,
    ) -> Result<Response<pb::GetRelayStatusResponse>, Status> {
        let address = ClientAddress::of(request.extensions());
        match principal_of(&self.hub, request.metadata().as_ref(), address)? {
            Principal::User(user) if user.is_owner => {}
            _ => return Err(status::unauthenticated()),
        }
        let (totals, authority) = (Totals::of(&self.hub), self.hub.authority());
        let small = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        Ok(Response::new(pb::GetRelayStatusResponse {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_at: Some(timestamp(self.hub.started_at)),
            machines: small(totals.machines),
            machines_online: small(totals.online),
            calls_active: small(totals.calls_active),
            calls_total: totals.calls,
            bytes_to_machines: totals.bytes_sent,
            bytes_from_machines: totals.bytes_received,
            frames_ignored: totals.ignored,
            buffered_messages: small(totals.waiting),
            nats: self.hub.cluster().map(|cluster| cluster.state()).unwrap_or_default(),
            relays: small(totals.relays),
            machines_elsewhere: small(totals.elsewhere),
            authority: authority.pin(),
            former_authority: authority.former_pin().unwrap_or_default(),
            former_until: authority.former_until().map(timestamp),
            bytes_per_day: self.hub.traffic.limit(),
            calls_over_quota: totals.over_quota,
        }))
    }
}

#[cfg(test)]
mod tests;
