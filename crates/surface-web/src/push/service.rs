//! `PushService`: browsers subscribe and unsubscribe.

use domain::Error;
use http::Extensions;
use surface::peer::PageKey;
use surface::status;
use tonic::{Request, Response, Status};
use wire::obey::v1 as pb;
use wire::obey::v1::push_service_server::PushService;

use super::Subscription;
use crate::Web;

#[tonic::async_trait]
impl PushService for Web {
    async fn get_push_key(
        &self,
        request: Request<pb::GetPushKeyRequest>,
    ) -> Result<Response<pb::GetPushKeyResponse>, Status> {
        let key = self.push.signing_key().map_err(|error| status::grpc(&error))?;
        let own = request.extensions().get::<PageKey>().map(|PageKey(id)| id.clone());
        let subscribed = self.push.subscriptions().iter().any(|(id, _)| Some(id) == own.as_ref());
        Ok(Response::new(pb::GetPushKeyResponse { public_key: key.public_key(), subscribed }))
    }

    async fn subscribe(
        &self,
        request: Request<pb::SubscribePushRequest>,
    ) -> Result<Response<pb::SubscribePushResponse>, Status> {
        let device = page_key(request.extensions()).map_err(|error| status::grpc(&error))?;
        let pb::SubscribePushRequest { endpoint, p256dh, auth } = request.into_inner();
        let subscription = Subscription { endpoint, p256dh, auth };
        self.push.subscribe(&device, subscription).map_err(|error| status::grpc(&error))?;
        Ok(Response::new(pb::SubscribePushResponse {}))
    }

    async fn unsubscribe(
        &self,
        request: Request<pb::UnsubscribePushRequest>,
    ) -> Result<Response<pb::UnsubscribePushResponse>, Status> {
        let device = page_key(request.extensions()).map_err(|error| status::grpc(&error))?;
        let removed = self.push.unsubscribe(&device).map_err(|error| status::grpc(&error))?;
        Ok(Response::new(pb::UnsubscribePushResponse { removed }))
    }
}

/// Returns the caller's own key: a subscription belongs to one, so that revoking it ends the pushes.
fn page_key(extensions: &Extensions) -> Result<String, Error> {
    let key = extensions.get::<PageKey>().map(|PageKey(id)| id.clone());
    key.ok_or_else(|| Error::invalid("authorization", "needs the key of a page; open one with obey web"))
}
