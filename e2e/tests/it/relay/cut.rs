//! Tunnels that break in the middle of a conversation: the journal's numbers repair what was lost on the way.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::clients::Clients;
use serde_json::json;
use tonic::transport::Endpoint;
use wire::obey::local::v1 as pb;
use wire::obey::v1 as own;
use wire::obey::v1::event_service_client::EventServiceClient;

use super::fault_proxy::{Break, FaultProxy, redirected};
use super::scene::{Machine, RelayScene, connect_through};

/// The longest that a machine waits before it dials again.
pub(super) const BACKOFF_MAX: Duration = Duration::from_secs(60);

/// Starts a session and a turn that says many things.
pub(super) async fn speaking(machine: &Machine) -> Result<(Clients, String)> {
    let project = machine.world.project().display().to_string();
    machine.cli().ok(&["campaign", "add", &project, "--name", "demo"]).await?;
    let mut clients = machine.daemon.clients().await?;
    let request = pb::CreateSessionRequest {
        campaign_id: "demo".into(),
        provider: pb::SessionProvider::Scripted.into(),
        ..Default::default()
    };
    let session = clients.local.create_session(request).await?.into_inner().session.context("no session")?.id;
    say_more(&mut clients, &session).await?;
    Ok((clients, session))
}

/// Begins another turn of some hundred events.
pub(super) async fn say_more(clients: &mut Clients, session: &str) -> Result<()> {
    let steps = json!([{"text": "word ".repeat(300), "chunks": 300, "gap_ms": 2}, {"text": "the end"}]);
    let text = format!("go SCRIPT: {steps}");
    let prompt =
        own::PromptRequest { session_id: session.to_owned(), text, queue: true, ..Default::default() };
    clients.turns.prompt(prompt).await?;
    Ok(())
}

/// Numbers from a seed, the same ones each time.
pub(super) struct Seeded(pub(super) u64);

impl Seeded {
    /// Returns a number below a limit (xorshift).
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

#[tokio::test]
async fn a_follower_who_is_cut_off_at_random_has_the_whole_journal_once() -> Result<()> {
    follow_through_cuts(40, seed()).await
}

#[tokio::test]
#[ignore = "large, 1,000 cuts: make test-all"]
async fn a_follower_who_is_cut_off_a_thousand_times_has_the_whole_journal_once() -> Result<()> {
    follow_through_cuts(1_000, seed()).await
}

/// Returns the seed of `OBEY_TEST_SEED`, or one by the clock.
pub(super) fn seed() -> u64 {
    let given = std::env::var("OBEY_TEST_SEED").ok().and_then(|text| text.parse().ok());
    let by_clock = || std::time::UNIX_EPOCH.elapsed().map_or(1, |since| since.subsec_nanos().into());
    let seed: u64 = given.unwrap_or_else(by_clock);
    println!("OBEY_TEST_SEED={seed}");
    seed.max(1)
}

/// Follows turns over a sealed connection whose two halves are cut at random, until there were so many cuts, and compares.
async fn follow_through_cuts(wanted: usize, seed: u64) -> Result<()> {
    let relay = RelayScene::start().await?;
    let (of_machine, of_device) =
        (FaultProxy::start(relay.address).await?, FaultProxy::start(relay.address).await?);
    let machine =
        relay.machine_with("box", "off", &redirected(&relay.code().await?, of_machine.address)?).await?;
    let device = machine.device("laptop", "viewer").await?;
    let (_connect, address) = connect_through(&device, "box", of_device.address).await?;
    let (mut clients, session) = speaking(&machine).await?;

    let mut random = Seeded(seed);
    let mut seen: Vec<own::Event> = Vec::new();
    let (mut cuts, mut of_tunnel) = (0, 0);
    let following = async {
        loop {
            let Ok(channel) = Endpoint::from_shared(format!("http://{address}"))?.connect().await else {
                tokio::task::yield_now().await;
                continue;
            };
            let after_seq = seen.last().map_or(0, |event| event.seq);
            let request = own::ReadEventsRequest {
                session_id: session.clone(),
                after_seq,
                follow: true,
                ..Default::default()
            };
            let Ok(stream) = EventServiceClient::new(channel).read_events(request).await else { continue };
            let mut stream = stream.into_inner();
            let mut left = random.below(12);
            while let Ok(Some(event)) = stream.message().await {
                let is_end = event.r#type == "turn_ended";
                seen.push(event);
                if is_end && cuts >= wanted {
                    return anyhow::Ok(());
                }
                if is_end {
                    say_more(&mut clients, &session).await?;
                }
                if left == 0 && cuts < wanted {
                    cuts += 1;
                    // A machine dials again after a while that grows; its clients at once.
                    let is_tunnel = random.below(40) == 0;
                    of_tunnel += usize::from(is_tunnel);
                    let proxy = if is_tunnel { &of_machine } else { &of_device };
                    proxy.break_all(Break::Close);
                }
                left = left.checked_sub(1).unwrap_or(u64::MAX);
            }
        }
    };
    // A machine that was cut off often waits up to a minute before it dials again.
    let most = (e2e::deadline::deadline() + BACKOFF_MAX) * u32::try_from(wanted / 40 + 1)?;
    e2e::deadline::within_time("the end of the last turn", most, following).await??;
    println!("{cuts} cuts, {of_tunnel} of them of the machine's tunnel; {} events were seen", seen.len());
    let last = seen.last().map_or(0, |event| event.seq);
    let request = own::ReadEventsRequest { session_id: session, limit: last, ..Default::default() };
    let journal = e2e::clients::collect(clients.events.read_events(request).await?.into_inner()).await?;
    ensure!(seen == journal, "{} events were seen, the journal has {}", seen.len(), journal.len());
    Ok(())
}
