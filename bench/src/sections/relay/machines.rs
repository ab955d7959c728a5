//! Machines that wait at a relay: a thousand of them, simulated, each with a connection and a tunnel of its own.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::cli::Cli;
use tokio_stream::StreamExt as _;
use tonic::transport::Channel;
use tunnel::keys::KeyRequest;
use tunnel::pinned::TlsIdentity;
use tunnel::ticket::EnrolmentCode;
use tunnel::{FULL_FRAMES, Link, LinkSide, dial};
use wire::betcode::v1::RegisterRequest;
use wire::betcode::v1::tunnel_service_client::TunnelServiceClient;
use wire::obey::v1::EnrolMachineRequest;
use wire::obey::v1::relay_service_client::RelayServiceClient;

use super::Relay;
use crate::machine::status;
use crate::stats::mib;
use crate::table::{Goal, Table};

const MACHINES: usize = 1_000;
/// Two heartbeats of every machine: what enrolling took is over.
const SETTLED: Duration = Duration::from_secs(25);

pub(super) async fn run(table: &mut Table) -> Result<()> {
    let relay = Relay::made(&["relay", "init"]).await?;
    let before = status(relay.pid()?, "VmRSS")?;
    let began = Instant::now();
    let mut kept = Vec::with_capacity(MACHINES);
    for number in 0..MACHINES {
        kept.push(connect(&relay, number).await.with_context(|| format!("machine {number}"))?);
    }
    let online = Cli::new(&relay.world).json(&["relay", "status"]).await?["machines_online"].clone();
    ensure!(online == MACHINES, "{online} machines are connected");
    let enrolled = began.elapsed().as_secs_f64();
    tokio::time::sleep(SETTLED).await;
    let after = status(relay.pid()?, "VmRSS")?;
    let ours = format!("{} ({} alone; joined in {enrolled:.0} s)", mib(after), mib(before));
    let goal = Goal::AtMost(150.0 * 1024.0, "150 MiB".to_owned());
    table.row("a relay with 1,000 machines that wait", ours, String::new(), after as f64, goal);
    Ok(())
}

/// Joins and keeps a tunnel open for as long as what it returns is kept.
async fn connect(relay: &Relay, number: usize) -> Result<(Channel, tokio::task::JoinHandle<()>)> {
    let wrong = |error: &dyn std::fmt::Display| anyhow::anyhow!("{error}");
    let code = EnrolmentCode::parse(&relay.code(&[]).await?).map_err(|error| wrong(&error))?;
    let name = format!("box-{number}");
    let key = KeyRequest::new(&name).map_err(|error| wrong(&error))?;
    let channel = dial::connect(&code.url, &code.pin, None).await.map_err(|error| wrong(&error))?;
    let request = EnrolMachineRequest { secret: code.secret.clone(), name, csr_pem: key.csr_pem.clone() };
    let enrolled = RelayServiceClient::new(channel).enrol_machine(request).await?.into_inner();
    let identity = TlsIdentity { certificate_pem: enrolled.certificate_pem, key_pem: key.key_pem };
    let channel =
        dial::connect(&code.url, &code.pin, Some(&identity)).await.map_err(|error| wrong(&error))?;
    let mut tunnels = TunnelServiceClient::new(channel.clone());
    let request = RegisterRequest {
        machine_id: enrolled.machine_id.clone(),
        capabilities: vec![FULL_FRAMES.to_owned()],
        instance_id: enrolled.machine_id,
        ..Default::default()
    };
    ensure!(tunnels.register(request).await?.into_inner().accepted, "the relay refused it");
    let (link, frames) = Link::new(LinkSide::Machine, "");
    let mut opened = tunnels.open_tunnel(frames).await?.into_inner();
    let serving = tokio::spawn(async move {
        let mut beat = tokio::time::interval(Duration::from_secs(10));
        loop {
            tokio::select! {
                frame = opened.next() => match frame {
                    Some(Ok(frame)) => drop(link.receive(frame)),
                    _ => return,
                },
                _ = beat.tick() => drop(link.heartbeat(prost_types::Timestamp::default())),
            }
        }
    });
    Ok((channel, serving))
}
