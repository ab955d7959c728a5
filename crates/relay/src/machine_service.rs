//! `MachineService` of a relay: every machine that the caller may reach.

use std::sync::Arc;

use tonic::{Request, Response, Status};
use wire::betcode::v1 as pb;
use wire::betcode::v1::machine_service_server::MachineService;

use crate::addresses::ClientAddress;
use crate::forward::{client_of, principal_of};
use crate::hub::Hub;
use crate::status;
use crate::store::{MachineRecord, Principal};

#[derive(Clone)]
pub(crate) struct MachineHandler(pub(crate) Arc<Hub>);

#[tonic::async_trait]
impl MachineService for MachineHandler {
    async fn list_machines(
        &self,
        request: Request<pb::ListMachinesRequest>,
    ) -> Result<Response<pb::ListMachinesResponse>, Status> {
        let principal = self.principal(&request)?;
        let pb::ListMachinesRequest { status_filter, limit, offset } = *request.get_ref();
        let is_wanted = |machine: &pb::Machine| {
            status_filter == pb::MachineStatus::Unspecified as i32 || status_filter == machine.status
        };
        let most = if limit == 0 { usize::MAX } else { limit as usize };
        let found = self.0.machines(&principal).into_iter().filter(is_wanted);
        let machines = found.skip(offset as usize).take(most).collect();
        Ok(Response::new(pb::ListMachinesResponse { machines }))
    }

    async fn get_machine(
        &self,
        request: Request<pb::GetMachineRequest>,
    ) -> Result<Response<pb::Machine>, Status> {
        let principal = self.principal(&request)?;
        let machine = self.named(&principal, &request.get_ref().machine_id)?;
        Ok(Response::new(self.0.describe(&machine)))
    }

    async fn switch_machine(
        &self,
        request: Request<pb::SwitchMachineRequest>,
    ) -> Result<Response<pb::SwitchMachineResponse>, Status> {
        let principal = self.principal(&request)?;
        let machine = self.named(&principal, &request.get_ref().machine_id)?;
        let Principal::User(user) = principal else { return Err(status::unauthenticated()) };
        let client = client_of(request.metadata().as_ref())?;
        let previous_machine_id = self.0.switch(&user.id, &client, &machine.id);
        let machine = Some(self.0.describe(&machine));
        Ok(Response::new(pb::SwitchMachineResponse { machine, previous_machine_id }))
    }
}

impl MachineHandler {
    fn principal<T>(&self, request: &Request<T>) -> Result<Principal, Status> {
        let address = ClientAddress::of(request.extensions());
        principal_of(&self.0, request.metadata().as_ref(), address)
    }

    fn named(&self, principal: &Principal, named: &str) -> Result<Arc<MachineRecord>, Status> {
        if named.is_empty() {
            return Err(Status::invalid_argument("OBEY-1001: machine_id: is required: an id or a name"));
        }
        let found = self.0.store.directory().machine(principal, named);
        found.ok_or_else(|| status::grpc(&status::no_machine()))
    }
}
