//! Connections of a machine that break while they are made: at every moment from the first packet to the tunnel that stands.

use anyhow::Result;
use e2e::deadline::poll;
use tokio::task::JoinSet;

use super::cut::{Seeded, seed};
use super::fault_proxy::{Break, FaultProxy, Planned, Sender, redirected};
use super::scene::RelayScene;

/// Moments of a connection that are tried for each end, evenly spread over the bytes that it takes to be online.
const MOMENTS: usize = 4;

#[tokio::test]
async fn a_connection_that_is_reset_while_it_is_made_is_made_again() -> Result<()> {
    break_while_dialling(Break::Reset).await
}

#[tokio::test]
#[ignore = "long, waits for the limits of dialling and registering: make test-all"]
async fn a_connection_that_falls_silent_while_it_is_made_is_given_up_and_made_again() -> Result<()> {
    break_while_dialling(Break::Silence).await
}

/// Breaks the connections of several machines, each at another moment, and waits until all are served again.
async fn break_while_dialling(kind: Break) -> Result<()> {
    let mut random = Seeded(seed());
    let relay = RelayScene::start().await?;
    let mut trials = JoinSet::new();
    let mut machines = Vec::new();
    for number in 0..2 * MOMENTS {
        let proxy = FaultProxy::start(relay.address).await?;
        let code = redirected(&relay.code().await?, proxy.address)?;
        let machine = relay.machine_with(&format!("box-{number}"), "full", &code).await?;
        let before = machine.link_until(|link| link["state"] == "online").await?;
        let (sender, total) = match number % 2 {
            0 => (Sender::Dialler, proxy.passed().0),
            _ => (Sender::Relay, proxy.passed().1),
        };
        // The first one of all is refused before it has said anything.
        let step = total / MOMENTS;
        let after_bytes = match number {
            0 => 0,
            _ => step * (number / 2) + usize::try_from(random.below(step as u64))? + 1,
        };
        let planned = Planned { kind, sender, after_bytes };
        println!("box-{number}: {planned:?} of {total}");
        trials.spawn(async move {
            proxy.plan(planned);
            proxy.break_all(Break::Reset);
            poll("the planned fault", || (proxy.broken() > 0).then_some(())).await?;
            machine.online_after(&before).await?;
            anyhow::Ok((machine, proxy))
        });
    }
    while let Some(trial) = trials.join_next().await {
        machines.push(trial??);
    }
    for (machine, _proxy) in &machines {
        relay.until(machine, "grpc-status: 0").await?;
    }
    relay.online_is(machines.len() as u64).await
}
