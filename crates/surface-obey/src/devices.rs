//! `DeviceService`: devices on other machines, for the user and devices that own.

use std::sync::Arc;

use domain::{Error, ErrorCode, Timestamp};
use tonic::{Request, Response, Status};
use wire::obey::v1 as pb;
use wire::obey::v1::device_service_server::DeviceService;

use super::local::answer;
use super::{Obey, to_wire};
use surface::access;
use surface::peer::{DeviceRecord, Devices, Proof, ProofKind, Role};

#[tonic::async_trait]
impl DeviceService for Obey {
    async fn add_device(
        &self,
        request: Request<pb::AddDeviceRequest>,
    ) -> Result<Response<pb::AddDeviceResponse>, Status> {
        let added = answer(self.add_device(request.into_inner()).await)?;
        Ok(summed_up(added, |added| added.device.as_ref()))
    }

    async fn list_devices(
        &self,
        _request: Request<pb::ListDevicesRequest>,
    ) -> Result<Response<pb::ListDevicesResponse>, Status> {
        let devices = self.about.devices.list().into_iter().map(device).collect();
        Ok(Response::new(pb::ListDevicesResponse { devices }))
    }

    async fn revoke_device(
        &self,
        request: Request<pb::RevokeDeviceRequest>,
    ) -> Result<Response<pb::RevokeDeviceResponse>, Status> {
        let named = request.into_inner().device;
        let revoked = self.with_devices(move |devices| devices.revoke(&named)).await;
        let revoked =
            answer(revoked.map(|revoked| pb::RevokeDeviceResponse { device: Some(device(revoked)) }))?;
        Ok(summed_up(revoked, |revoked| revoked.device.as_ref()))
    }
}

impl Obey {
    async fn add_device(&self, request: pb::AddDeviceRequest) -> Result<pb::AddDeviceResponse, Error> {
        let pb::AddDeviceRequest { name, role, expires_at, certificate } = request;
        let role =
            Role::parse(&role).ok_or_else(|| Error::invalid("role", "must be viewer, operator or owner"))?;
        let expires_at = expires_at.map(|time| {
            Timestamp(time.seconds.saturating_mul(1_000_000).saturating_add(i64::from(time.nanos) / 1_000))
        });
        let kind = if certificate { ProofKind::Certificate } else { ProofKind::Token };
        let (record, proof) =
            self.with_devices(move |devices| devices.add(&name, role, expires_at, kind)).await?;
        let mut added = pb::AddDeviceResponse { device: Some(device(record)), ..Default::default() };
        match proof {
            Proof::Token(token) => added.token = token,
            Proof::Certificate(certificate) => {
                (added.certificate_pem, added.key_pem) = (certificate.pem, certificate.key_pem);
            }
        }
        Ok(added)
    }

    /// Changes the devices where waiting for the disk keeps nobody else waiting.
    pub(super) async fn with_devices<T: Send + 'static>(
        &self,
        change: impl FnOnce(&Devices) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let devices = Arc::clone(&self.about.devices);
        let done = tokio::task::spawn_blocking(move || change(&devices)).await;
        done.unwrap_or_else(|error| {
            Err(Error::new(ErrorCode::StorageFailed, "the devices cannot be changed")
                .with_detail(error.to_string()))
        })
    }
}

/// Says in the audit which device it was about.
fn summed_up<T>(mut response: Response<T>, of: impl Fn(&T) -> Option<&pb::Device>) -> Response<T> {
    let text = of(response.get_ref())
        .map(|device| format!("device {} {} ({}, {})", device.name, device.id, device.role, device.proof));
    if let Some(text) = text {
        response.extensions_mut().insert(access::Summary(text));
    }
    response
}

fn device(record: DeviceRecord) -> pb::Device {
    pb::Device {
        proof: record.proof().name().to_owned(),
        id: record.id,
        name: record.name,
        role: record.role.name().to_owned(),
        added_at: Some(to_wire::timestamp(record.added_at)),
        expires_at: record.expires_at.map(to_wire::timestamp),
        seen_at: record.seen_at.map(to_wire::timestamp),
        seen_from: record.seen_from.map(|from| from.to_string()).unwrap_or_default(),
        key_is_kept_here: record.is_kept_here,
        may_answer: !record.is_kept_here || record.may_answer_here,
    }
}
