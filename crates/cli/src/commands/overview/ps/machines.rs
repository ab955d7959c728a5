//! Sessions of several machines in one list. All machines are asked at once, each for a bounded time: one that is gone holds up
//! none of the others.

use std::collections::HashMap;
use std::sync::Arc;

use client::connection::Client;
use client::machines::{KnownMachine, KnownMachines};
use config::failure::{Failure, Result};
use serde_json::{Value, json};
use tokio::time;
use tonic::Status;
use wire::betcode::v1::MachineStatus;
use wire::obey::v1 as pb;

use crate::limits;
use cli_args::overview::PsArgs;
use terminal::console::Console;

/// The sessions that were found.
pub(super) struct Found {
    pub(super) sessions: Vec<pb::SessionOverview>,
    /// Several machines were asked.
    pub(super) is_several: bool,
    pub(super) unreachable: Vec<UnreachableMachine>,
    /// What sessions of the machine that commands go to may spend together.
    pub(super) own_budgets: Vec<pb::SharedBudget>,
    /// The same of every machine, by its name.
    shared_budgets: HashMap<String, Vec<pb::SharedBudget>>,
}

impl Found {
    /// Returns the budgets in which a session has a share.
    pub(super) fn shared_budgets(&self, session: &pb::SessionOverview) -> Vec<&pb::SharedBudget> {
        let of_machine = self.shared_budgets.get(&session.machine).map(Vec::as_slice).unwrap_or_default();
        super::with_share(session, of_machine)
    }
}

/// What one machine has.
struct OneMachine {
    sessions: Vec<pb::SessionOverview>,
    shared_budgets: Vec<pb::SharedBudget>,
}

impl OneMachine {
    async fn ask(client: &Client, request: pb::ListOverviewRequest) -> std::result::Result<Self, Status> {
        let mut overview = client.overview();
        let (listed, shared_budgets) =
            tokio::join!(overview.list(request), crate::commands::budget::all(client));
        Ok(Self { sessions: listed?.into_inner().sessions, shared_budgets })
    }
}

/// A machine that did not answer.
pub(super) struct UnreachableMachine {
    pub(super) name: String,
    pub(super) problem: String,
}

impl UnreachableMachine {
    /// Returns it as scripts read it: a row without a session.
    pub(super) fn json(&self) -> Value {
        json!({"session_id": null, "machine": self.name, "state": "unreachable", "problem": self.problem})
    }
}

/// Asks the machine that was chosen, or this one and all that this device is paired with.
pub(super) async fn list(
    console: &mut Console,
    args: &PsArgs,
    request: &pb::ListOverviewRequest,
) -> Result<Found> {
    let is_chosen = console.machine()?.is_some() || console.global.machine.is_some();
    let known = KnownMachines::in_folder(&console.paths).list()?;
    if (is_chosen && !args.machines) || known.is_empty() {
        let client = console.connect().await?;
        let OneMachine { sessions, shared_budgets } = OneMachine::ask(&client, request.clone()).await?;
        let own_budgets = shared_budgets.clone();
        let shared_budgets = of_machine(&sessions, shared_budgets);
        let unreachable = Vec::new();
        return Ok(Found { sessions, is_several: false, unreachable, own_budgets, shared_budgets });
    }
    let asking: Vec<_> = known
        .into_iter()
        .map(|machine| {
            let (machine, request) = (Arc::new(machine), request.clone());
            tokio::spawn(async move { (machine.name.clone(), ask(&machine, request).await) })
        })
        .collect();
    let client = console.connect_here().await?;
    let OneMachine { mut sessions, shared_budgets } = OneMachine::ask(&client, request.clone()).await?;
    let own_budgets = shared_budgets.clone();
    let mut shared_budgets = of_machine(&sessions, shared_budgets);
    let mut unreachable = Vec::new();
    for asked in asking {
        match asked.await {
            Ok((name, Ok(found))) => {
                shared_budgets.entry(name.clone()).or_insert(found.shared_budgets);
                sessions.extend(found.sessions.into_iter().map(|session| pb::SessionOverview {
                    // The name under which this device knows it, which `--machine` takes.
                    machine: name.clone(),
                    ..session
                }));
            }
            Ok((name, Err(problem))) => unreachable.push(UnreachableMachine { name, problem }),
            Err(error) => return Err(Failure::failed(error.to_string())),
        }
    }
    // By need, whatever machine it is on; within a state the longest in it first, as each machine lists its own.
    sessions.sort_by_key(|session| {
        let since = session.since.map_or((0, 0), |since| (since.seconds, since.nanos));
        (session.state, since)
    });
    // A machine may be paired with itself.
    let mut seen = std::collections::HashSet::new();
    sessions.retain(|session| seen.insert(session.session_id.clone()));
    Ok(Found { sessions, is_several: true, unreachable, own_budgets, shared_budgets })
}

/// Returns the budgets of the machine that has these sessions, by its name.
fn of_machine(
    sessions: &[pb::SessionOverview],
    shared_budgets: Vec<pb::SharedBudget>,
) -> HashMap<String, Vec<pb::SharedBudget>> {
    let name = sessions.first().map(|session| session.machine.clone()).unwrap_or_default();
    HashMap::from([(name, shared_budgets)])
}

async fn ask(
    machine: &Arc<KnownMachine>,
    request: pb::ListOverviewRequest,
) -> std::result::Result<OneMachine, String> {
    let asking = async {
        // The relay knows who is away; a call would wait for its return.
        let (_, found) = crate::commands::machine::ask(KnownMachine::clone(machine)).await;
        let found = found
            .map_err(|problem| format!("its relay {} does not say how it is: {problem}", machine.relay))?;
        if found.status() == MachineStatus::Offline {
            return Err("it is offline".to_owned());
        }
        let client = Client::through(machine).map_err(|failure| failure.message)?;
        OneMachine::ask(&client, request).await.map_err(|status| status.message().to_owned())
    };
    time::timeout(limits::MACHINE_LIST_WAIT, asking)
        .await
        .unwrap_or_else(|_| Err("it does not answer in time".to_owned()))
}
