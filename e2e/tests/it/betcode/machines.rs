//! Machines from outside: a daemon without a relay is the only one.

use anyhow::Result;
use e2e::clients::refused;
use tonic::Code;
use wire::betcode::v1 as pb;
use wire::betcode::v1::machine_service_client::MachineServiceClient;

use crate::stage::{Agent, stage};

#[tokio::test]
async fn a_daemon_lists_itself_as_a_machine() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let mut machines = MachineServiceClient::new(stage.clients.channel.clone());
    let listed = machines.list_machines(pb::ListMachinesRequest::default()).await?.into_inner().machines;
    let [own] = listed.as_slice() else { panic!("{listed:?}") };
    assert_eq!(own.status(), pb::MachineStatus::Online);
    assert!(!own.hostname.is_empty() && own.capabilities.contains(&"obey.sealed/1".to_owned()));
    let resources = own.resources.clone().unwrap_or_default();
    assert!(resources.cpu_cores > 0 && resources.memory_bytes > 0 && resources.disk_free_bytes > 0);
    let offline =
        pb::ListMachinesRequest { status_filter: pb::MachineStatus::Offline as i32, ..Default::default() };
    assert!(machines.list_machines(offline).await?.into_inner().machines.is_empty());

    let get = |id: &str| pb::GetMachineRequest { machine_id: id.to_owned() };
    assert_eq!(machines.get_machine(get(&own.name)).await?.into_inner().id, own.id);
    let switch = pb::SwitchMachineRequest { machine_id: own.id.clone() };
    let switched = machines.switch_machine(switch).await?.into_inner();
    assert_eq!(
        (switched.machine.unwrap_or_default().id, switched.previous_machine_id),
        (own.id.clone(), own.id.clone())
    );
    refused(machines.get_machine(get("mach_of_somebody")).await, Code::NotFound, "OBEY-1050")?;
    Ok(())
}
