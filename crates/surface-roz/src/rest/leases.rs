//! `/leases`: who may use a resource of a host.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::Response;
use domain::Error;
use host::clock;
use http::{Request, StatusCode, Uri};
use runtime::records::{NewLease, RecordKind, is_active};
use serde::Deserialize;

use super::records::{named, shown};
use super::{NoFields, Roz, body, cut, page, respond};
use crate::{from_wire, limits};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewRequest {
    host_id: String,
    resource: String,
    holder_id: String,
    ttl_secs: Option<u64>,
}

pub(super) async fn create(State(roz): State<Roz>, request: Request<Body>) -> Response {
    let created = async {
        let new: NewRequest = body(request).await?;
        from_wire::uuid("host_id", &new.host_id)?;
        roz.check_host(Some(&new.host_id)).await?;
        named("resource", &new.resource)?;
        named("holder_id", &new.holder_id)?;
        let ttl = new.ttl_secs.map_or(limits::LEASE_DEFAULT, Duration::from_secs);
        if ttl.is_zero() || ttl > limits::LEASE_MAX {
            let most = limits::LEASE_MAX.as_secs();
            return Err(Error::invalid("ttl_secs", format_args!("must be from 1 to {most}")));
        }
        let lease = NewLease { host_id: new.host_id, resource: new.resource, holder_id: new.holder_id, ttl };
        let made = roz.supervisor.environments().records().acquire(lease).await?;
        Ok((StatusCode::CREATED, Some(shown(&made))))
    };
    respond(created.await)
}

/// Lists the leases that hold now.
pub(super) async fn list(State(roz): State<Roz>, uri: Uri) -> Response {
    let listed = async {
        let (limit, offset) = page(&uri, &[])?;
        let mut all = roz.supervisor.environments().records().all(RecordKind::Lease).await?;
        let now = clock::now();
        all.retain(|lease| is_active(lease, now));
        Ok((StatusCode::OK, Some(cut(&all, limit, offset)?.iter().map(shown).collect())))
    };
    respond(listed.await)
}

pub(super) async fn release(
    State(roz): State<Roz>,
    Path(id): Path<String>,
    request: Request<Body>,
) -> Response {
    let released = async {
        body::<NoFields>(request).await?;
        from_wire::uuid("id", &id)?;
        let released = roz.supervisor.environments().records().release(&id).await?;
        Ok((StatusCode::OK, Some(shown(&released))))
    };
    respond(released.await)
}
