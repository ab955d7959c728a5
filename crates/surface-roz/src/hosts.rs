//! `HostService`: registered machines. Only stores their records and what they report of themselves.

use domain::Error;
use host::clock;
use runtime::environments::{NewHost, host_status};
use storage::environments::HostRow;
use tonic::Request;
use wire::roz::v1 as pb;
use wire::roz::v1::host_service_server::HostService;

use super::{Roz, RpcResult, answer, from_wire, tasks};

#[tonic::async_trait]
impl HostService for Roz {
    async fn register_host(&self, request: Request<pb::RegisterHostRequest>) -> RpcResult<pb::Host> {
        let request = request.into_inner();
        answer(self.add_host(request).await)
    }

    async fn get_host(&self, request: Request<pb::GetHostRequest>) -> RpcResult<pb::Host> {
        let request = request.into_inner();
        answer(self.host(&request.id).await)
    }

    async fn list_hosts(&self, request: Request<pb::ListHostsRequest>) -> RpcResult<pb::ListHostsResponse> {
        let request = request.into_inner();
        let hosts =
            self.supervisor.environments().hosts(&request.environment_id, request.limit, request.offset);
        answer(hosts.await.map(|rows| pb::ListHostsResponse { data: rows.into_iter().map(host).collect() }))
    }

    async fn deregister_host(
        &self,
        request: Request<pb::DeregisterHostRequest>,
    ) -> RpcResult<pb::DeregisterHostResponse> {
        let request = request.into_inner();
        let removed = self.supervisor.environments().remove_host(&request.id).await;
        answer(removed.map(|()| pb::DeregisterHostResponse {}))
    }
}

impl Roz {
    async fn add_host(&self, request: pb::RegisterHostRequest) -> Result<pb::Host, Error> {
        from_wire::uuid("environment_id", &request.environment_id)?;
        let new = NewHost {
            name: request.name,
            environment_id: request.environment_id,
            capabilities: request.capabilities.into_iter().collect(),
            ..NewHost::default()
        };
        self.supervisor.environments().register_host(new).await.map(host)
    }

    async fn host(&self, id: &str) -> Result<pb::Host, Error> {
        from_wire::uuid("id", id)?;
        self.supervisor.environments().host(id).await.map(host)
    }
}

fn host(row: HostRow) -> pb::Host {
    let status = host_status(&row, clock::now()).to_owned();
    pb::Host {
        id: row.id,
        name: row.name,
        environment_id: row.environment_id,
        status,
        // We wrote this JSON ourselves.
        capabilities: serde_json::from_str(&row.capabilities).unwrap_or_default(),
        created_at: Some(tasks::timestamp(row.created_at)),
        last_heartbeat: Some(tasks::timestamp(row.seen_at.unwrap_or(row.created_at))),
    }
}
