//! `MachineService` of a daemon, which lists itself. A relay lists several machines; that is not here.

use std::path::Path;

use domain::{Error, ErrorCode};
use host::clock;
use host::machine::{self, MachineIdentity};
use tonic::Request;
use wire::betcode::v1 as pb;
use wire::betcode::v1::machine_service_server::MachineService;

use super::worktrees::info;
use super::{Betcode, RpcResult, answer, to_wire};

/// The interfaces that this daemon serves, and what it takes from a tunnel.
const CAPABILITIES: [&str; 7] =
    ["obey.local.v1", "obey.v1", "betcode.v1", "roz.v1", "contextd.v1", "obey.frames/1", "obey.sealed/1"];

#[tonic::async_trait]
impl MachineService for Betcode {
    async fn list_machines(
        &self,
        request: Request<pb::ListMachinesRequest>,
    ) -> RpcResult<pb::ListMachinesResponse> {
        answer(self.machines(request.get_ref()).await)
    }

    async fn get_machine(&self, request: Request<pb::GetMachineRequest>) -> RpcResult<pb::Machine> {
        answer(self.machine_named(&request.get_ref().machine_id).await)
    }

    async fn switch_machine(
        &self,
        request: Request<pb::SwitchMachineRequest>,
    ) -> RpcResult<pb::SwitchMachineResponse> {
        // There is one machine here, and every client is on it already.
        let machine = answer(self.machine_named(&request.get_ref().machine_id).await)?.into_inner();
        let previous_machine_id = machine.id.clone();
        answer(Ok(pb::SwitchMachineResponse { machine: Some(machine), previous_machine_id }))
    }
}

impl Betcode {
    async fn machines(&self, request: &pb::ListMachinesRequest) -> Result<pb::ListMachinesResponse, Error> {
        let wanted = request.status_filter;
        let is_wanted =
            wanted == pb::MachineStatus::Unspecified as i32 || wanted == pb::MachineStatus::Online as i32;
        let machines = match is_wanted && request.offset == 0 {
            true => vec![self.own_machine().await?],
            false => Vec::new(),
        };
        Ok(pb::ListMachinesResponse { machines })
    }

    async fn machine_named(&self, named: &str) -> Result<pb::Machine, Error> {
        if named.is_empty() {
            return Err(Error::invalid("machine_id", "is required: an id or a name"));
        }
        let own = self.own_machine().await?;
        if named != own.id && named != own.name {
            let message = "machine_id: there is no such machine here; ListMachines names those there are";
            return Err(Error::new(ErrorCode::MachineNotFound, message));
        }
        Ok(own)
    }

    async fn own_machine(&self) -> Result<pb::Machine, Error> {
        // Read every time: the name and the id change when the machine joins a relay.
        let folder = self.about.daemon.database.parent().unwrap_or(Path::new("/")).to_owned();
        let read = move || {
            let identity = MachineIdentity::load_or_create(&folder);
            identity.map(|identity| (identity, machine::disk_free_bytes(&folder)))
        };
        let unreadable = |error: String| {
            Error::new(ErrorCode::StorageFailed, "this machine's id cannot be read").with_detail(error)
        };
        let (identity, disk_free_bytes) = tokio::task::spawn_blocking(read)
            .await
            .map_err(|error| unreadable(error.to_string()))?
            .map_err(|error| unreadable(error.to_string()))?;
        // A daemon that was started outside of a repository has none to show.
        let worktrees = match self.default_folder().await {
            Ok(folder) => self.supervisor.worktrees().list(&folder).await.unwrap_or_default(),
            Err(_) => Vec::new(),
        };
        Ok(pb::Machine {
            id: identity.id,
            name: identity.name,
            hostname: machine::hostname(),
            status: pb::MachineStatus::Online as i32,
            capabilities: CAPABILITIES.map(str::to_owned).to_vec(),
            last_seen: Some(to_wire::timestamp(clock::now())),
            worktrees: worktrees.iter().map(info).collect(),
            resources: Some(pb::MachineResources {
                os: std::env::consts::OS.to_owned(),
                cpu_cores: machine::cpu_cores(),
                memory_bytes: machine::memory_bytes(),
                disk_free_bytes,
            }),
            buffered_messages: 0,
        })
    }
}
