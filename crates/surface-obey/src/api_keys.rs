//! `ApiKeyService`: keys with which programs call roz.v1. What a key may do is decided by the access table.

use domain::{Error, Timestamp};
use surface::access;
use surface::peer::{self, ApiKeyRecord};
use tonic::{Request, Response, Status};
use wire::obey::v1 as pb;
use wire::obey::v1::api_key_service_server::ApiKeyService;

use super::local::answer;
use super::{Obey, to_wire};

#[tonic::async_trait]
impl ApiKeyService for Obey {
    async fn create_api_key(
        &self,
        request: Request<pb::CreateApiKeyRequest>,
    ) -> Result<Response<pb::CreateApiKeyResponse>, Status> {
        let created = answer(self.create_key(request.into_inner()).await)?;
        Ok(summed_up(created, |created| created.api_key.as_ref()))
    }

    async fn list_api_keys(
        &self,
        _request: Request<pb::ListApiKeysRequest>,
    ) -> Result<Response<pb::ListApiKeysResponse>, Status> {
        let api_keys = self.about.devices.keys().into_iter().map(api_key).collect();
        Ok(Response::new(pb::ListApiKeysResponse { api_keys }))
    }

    async fn revoke_api_key(
        &self,
        request: Request<pb::RevokeApiKeyRequest>,
    ) -> Result<Response<pb::RevokeApiKeyResponse>, Status> {
        let named = request.into_inner().api_key;
        let revoked = self.with_devices(move |devices| devices.revoke_key(&named)).await;
        let revoked =
            answer(revoked.map(|revoked| pb::RevokeApiKeyResponse { api_key: Some(api_key(revoked)) }))?;
        Ok(summed_up(revoked, |revoked| revoked.api_key.as_ref()))
    }
}

impl Obey {
    async fn create_key(&self, request: pb::CreateApiKeyRequest) -> Result<pb::CreateApiKeyResponse, Error> {
        let pb::CreateApiKeyRequest { name, scopes, expires_at } = request;
        let scopes = peer::scopes(&scopes)?;
        let expires_at = expires_at.map(|time| {
            Timestamp(time.seconds.saturating_mul(1_000_000).saturating_add(i64::from(time.nanos) / 1_000))
        });
        let (record, full_key) =
            self.with_devices(move |devices| devices.create_key(&name, &scopes, expires_at)).await?;
        Ok(pb::CreateApiKeyResponse { api_key: Some(api_key(record)), full_key })
    }
}

/// Says in the audit which key it was about.
fn summed_up<T>(mut response: Response<T>, of: impl Fn(&T) -> Option<&pb::ApiKey>) -> Response<T> {
    if let Some(key) = of(response.get_ref()) {
        let summary = access::Summary(format!("key {} ({})", key.name, key.scopes.join(", ")));
        response.extensions_mut().insert(summary);
    }
    response
}

fn api_key(record: ApiKeyRecord) -> pb::ApiKey {
    pb::ApiKey {
        id: record.id,
        name: record.name,
        key_prefix: record.prefix,
        scopes: record.scopes.iter().map(|scope| scope.name().to_owned()).collect(),
        created_at: Some(to_wire::timestamp(record.created_at)),
        expires_at: record.expires_at.map(to_wire::timestamp),
        seen_at: record.seen_at.map(to_wire::timestamp),
        seen_from: record.seen_from.map(|from| from.to_string()).unwrap_or_default(),
    }
}
