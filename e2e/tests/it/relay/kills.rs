//! A relay that is killed while calls go through it: none is executed twice, and what was kept is delivered once.

use std::time::Instant;

use anyhow::{Result, ensure};
use e2e::clients::{Clients, collect};
use e2e::deadline::{deadline, poll};
use prost::Message as _;
use rustix::process::Signal;
use wire::obey::v1 as own;

use super::cut::{BACKOFF_MAX, Seeded, seed};
use super::ending::session_of;
use super::fault_proxy::{FaultProxy, redirected};
use super::scene::{Machine, RelayScene};

#[tokio::test]
async fn a_relay_that_is_killed_at_random_executes_no_call_twice_and_delivers_what_it_kept() -> Result<()> {
    kill_at_random(4).await
}

#[tokio::test]
#[ignore = "long, the machine waits up to a minute after each of 20 kills: make test-all"]
async fn a_relay_that_is_killed_twenty_times_executes_no_call_twice_and_delivers_what_it_kept() -> Result<()>
{
    kill_at_random(20).await
}

/// Makes a call, kills the relay somewhere in it, and serves it again, so often; then looks what was executed.
async fn kill_at_random(kills: usize) -> Result<()> {
    let mut random = Seeded(seed());
    let mut relay = RelayScene::start().await?;
    let proxy = FaultProxy::start(relay.address).await?;
    let machine =
        relay.machine_with("box", "full", &redirected(&relay.code().await?, proxy.address)?).await?;
    let mut clients = machine.daemon.clients().await?;
    let session = session_of(&machine, &mut clients).await?;
    let mut expected = Vec::new();
    for number in 0..kills {
        let name = format!("call-{number}-end");
        let bytes = proxy.passed().1 + usize::try_from(random.below(600))?;
        let told = call_and_kill(&relay, &machine, &session, &name, || proxy.passed().1 > bytes).await?;
        let is_promised = told.contains("grpc-status: 0") || told.contains("request%20buffered");
        println!("{name}: killed after {bytes} bytes, promised: {is_promised}");
        expected.push((name, is_promised));
        relay.kill_and_serve().await?;
    }
    let began = Instant::now();
    loop {
        let started = started_turns(&mut clients, &session).await?;
        let count = |name: &str| started.iter().filter(|turn| turn.contains(name)).count();
        for (name, _) in &expected {
            ensure!(count(name) < 2, "{name} was executed twice: {started:?}");
        }
        let is_done = expected.iter().all(|(name, is_promised)| !is_promised || count(name) == 1);
        let waiting = relay.cli().json(&["relay", "status"]).await?["buffered_messages"].clone();
        if is_done && waiting == 0 {
            return Ok(());
        }
        let limit = deadline() + BACKOFF_MAX;
        ensure!(began.elapsed() < limit, "{expected:?} {started:?} {waiting}\n{}", machine.daemon.log());
    }
}

/// Prompts the machine in the clear, and kills the relay when it is time or there is an answer. Returns the head of the answer.
async fn call_and_kill(
    relay: &RelayScene,
    machine: &Machine,
    session: &str,
    name: &str,
    is_time: impl Fn() -> bool,
) -> Result<String> {
    let text = format!("{name} SCRIPT: [{{\"text\": \"done\"}}]");
    let prompt =
        own::PromptRequest { session_id: session.to_owned(), text, queue: true, ..Default::default() };
    let message = prompt.encode_to_vec();
    let calling = relay.post(machine, "obey.v1.TurnService/Prompt", &message);
    tokio::pin!(calling);
    let told = tokio::select! {
        told = calling.as_mut() => Some(told?),
        reached = poll("the bytes", || is_time().then_some(())) => reached.map(|()| None)?,
    };
    relay.signal(Signal::KILL);
    match told {
        Some(told) => Ok(told),
        None => calling.await,
    }
}

/// Returns the turns that a session has begun, each with its prompt.
async fn started_turns(clients: &mut Clients, session: &str) -> Result<Vec<String>> {
    let request = own::ReadEventsRequest { session_id: session.to_owned(), ..Default::default() };
    let journal = collect(clients.events.read_events(request).await?.into_inner()).await?;
    let is_start = |event: &&own::Event| event.r#type == "turn_started";
    Ok(journal.iter().filter(is_start).map(|event| format!("{event:?}")).collect())
}
