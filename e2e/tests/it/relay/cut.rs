//! Tunnels that break in the middle of a conversation: the journal's numbers repair what was lost on the way.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::clients::Clients;
use serde_json::json;
use tokio::task::JoinSet;
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
    let session = another(&mut clients).await?;
    Ok((clients, session))
}

/// Starts another session, and a turn in it.
async fn another(clients: &mut Clients) -> Result<String> {
    let request = pb::CreateSessionRequest {
        campaign_id: "demo".into(),
        provider: pb::SessionProvider::Scripted.into(),
        ..Default::default()
    };
    let session = clients.local.create_session(request).await?.into_inner().session.context("no session")?.id;
    say_more(clients, &session).await?;
    Ok(session)
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
    follow_through_cuts(1, 40, seed()).await
}

#[tokio::test]
async fn followers_of_several_sessions_who_are_cut_off_at_random_have_every_journal_once() -> Result<()> {
    follow_through_cuts(4, 20, seed()).await
}

#[tokio::test]
#[ignore = "large, 1,000 cuts: make test-all"]
async fn followers_of_twenty_sessions_who_are_cut_off_a_thousand_times_have_every_journal_once() -> Result<()>
{
    follow_through_cuts(20, 1_000, seed()).await
}

/// Returns the seed of `OBEY_TEST_SEED`, or one by the clock.
pub(super) fn seed() -> u64 {
    let given = std::env::var("OBEY_TEST_SEED").ok().and_then(|text| text.parse().ok());
    let by_clock = || std::time::UNIX_EPOCH.elapsed().map_or(1, |since| since.subsec_nanos().into());
    let seed: u64 = given.unwrap_or_else(by_clock);
    println!("OBEY_TEST_SEED={seed}");
    seed.max(1)
}

/// Follows turns of several sessions over a sealed connection whose two halves are cut at random, until there were so many cuts,
/// and compares.
async fn follow_through_cuts(sessions: usize, wanted: usize, seed: u64) -> Result<()> {
    let relay = RelayScene::start().await?;
    let (of_machine, of_device) =
        (FaultProxy::start(relay.address).await?, FaultProxy::start(relay.address).await?);
    let machine =
        relay.machine_with("box", "off", &redirected(&relay.code().await?, of_machine.address)?).await?;
    let device = machine.device("laptop", "viewer").await?;
    let (_connect, address) = connect_through(&device, "box", of_device.address).await?;
    let (clients, first) = speaking(&machine).await?;
    let mut all = vec![first];
    while all.len() < sessions {
        all.push(another(&mut clients.clone()).await?);
    }

    let state = Mutex::new(Breaks::new(seed));
    let breaker = Arc::new(Breaker { wanted, sessions: sessions as u64, of_machine, of_device, state });
    let mut followers = JoinSet::new();
    for session in all {
        followers.spawn(follow(address.clone(), clients.clone(), session, Arc::clone(&breaker)));
    }
    // A machine that was cut off often waits up to a minute before it dials again.
    let most = (e2e::deadline::deadline() + BACKOFF_MAX) * u32::try_from(wanted / 40 + 1)?;
    let ended = e2e::deadline::within_time("the end of the last turn", most, followers.join_all()).await?;
    let ended = ended.into_iter().collect::<Result<Vec<_>>>()?;
    let events: usize = ended.iter().map(|(_, seen)| seen.len()).sum();
    println!("{}; {events} events of {sessions} sessions were seen", breaker.locked().told());
    for (session, seen) in ended {
        let last = seen.last().map_or(0, |event| event.seq);
        let request = own::ReadEventsRequest { session_id: session, limit: last, ..Default::default() };
        let journal = clients.clone().events.read_events(request).await?.into_inner();
        let journal = e2e::clients::collect(journal).await?;
        ensure!(seen == journal, "{} events were seen, the journal has {}", seen.len(), journal.len());
    }
    Ok(())
}

/// Cuts connections after random numbers of events.
struct Breaker {
    wanted: usize,
    sessions: u64,
    of_machine: FaultProxy,
    of_device: FaultProxy,
    state: Mutex<Breaks>,
}

/// How many cuts there were, and how many events are left until the next.
struct Breaks {
    random: Seeded,
    cuts: usize,
    of_tunnel: usize,
    left: u64,
}

impl Breaks {
    fn new(seed: u64) -> Self {
        Self { random: Seeded(seed), cuts: 0, of_tunnel: 0, left: 0 }
    }

    fn told(&self) -> String {
        format!("{} cuts, {} of them of the machine's tunnel", self.cuts, self.of_tunnel)
    }
}

impl Breaker {
    /// Notes an event that a follower has seen, and cuts when it is time. Returns whether there were enough cuts.
    fn note_event(&self) -> bool {
        let mut state = self.locked();
        if state.cuts >= self.wanted {
            return true;
        }
        if state.left > 0 {
            state.left -= 1;
            return false;
        }
        state.left = state.random.below(12 * self.sessions);
        state.cuts += 1;
        // A machine dials again after a while that grows; its clients at once.
        let is_tunnel = state.random.below(40) == 0;
        state.of_tunnel += usize::from(is_tunnel);
        drop(state);
        let proxy = if is_tunnel { &self.of_machine } else { &self.of_device };
        proxy.break_all(Break::Close);
        false
    }

    fn locked(&self) -> MutexGuard<'_, Breaks> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Follows one session, connection after connection, until a turn ends after the last cut. Returns it with what came.
async fn follow(
    address: String,
    mut clients: Clients,
    session: String,
    breaker: Arc<Breaker>,
) -> Result<(String, Vec<own::Event>)> {
    let mut seen: Vec<own::Event> = Vec::new();
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
        while let Ok(Some(event)) = stream.message().await {
            let is_end = event.r#type == "turn_ended";
            seen.push(event);
            let is_enough = breaker.note_event();
            if is_end && is_enough {
                return Ok((session, seen));
            }
            if is_end {
                say_more(&mut clients, &session).await?;
            }
        }
    }
}
