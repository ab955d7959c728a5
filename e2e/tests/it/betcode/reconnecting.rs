//! Clients that lose their connection: whatever the moment, together they hear the journal, once and in order.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::deadline::within;
use e2e::faults::random::Random;
use serde_json::json;
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, ChildStdout};
use wire::betcode::v1 as pb;
use wire::betcode::v1::agent_event::Event as Body;

use super::talk::{Talk, again, assert_increasing, new_start, numbered, stop_reason, stored, text};
use crate::stage::{Agent, Stage, process_scenarios, script, stage};

process_scenarios!(a_client_killed_two_hundred_times_has_seen_the_journal);
crate::stage::scenarios_of!(openai, Openai, a_client_killed_two_hundred_times_has_seen_the_journal);

/// How often it is killed.
const KILLS: usize = 200;
/// A client is killed at most this long after it was started; it needs a part of that to connect.
const LIFE_MAX: Duration = Duration::from_millis(60);
/// Words of a turn, each a delta of its own, and the pause between two of them.
const WORDS: usize = 600;
const GAP_MS: u64 = 8;

#[tokio::test]
async fn a_client_that_leaves_fifty_times_hears_every_event_once() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let mut random = Random::new(Random::any_seed());
    let mut talk = Talk::new(&stage).await?;
    let session = talk.session().to_owned();
    let words: String = (0..400).map(|word| format!("w{word} ")).collect();
    let steps = json!([{"text": words, "chunks": 400, "gap_ms": 10}]);
    talk.prompt(&script(Agent::Scripted, "long", &steps)).await?;
    // What was said is only sure once it is heard.
    talk.until("the prompt", |body| matches!(body, Body::UserInput(_))).await?;
    let mut heard: Vec<pb::AgentEvent> = Vec::new();
    let mut cuts = Vec::new();
    for _ in 0..50 {
        // Reads a few events and leaves, wherever that is. Behind the end of the turn there is nothing to wait for.
        for _ in 0..random.within(0..14) {
            if stop_reason(&talk.heard).is_empty() && stop_reason(&heard).is_empty() {
                talk.next().await?;
            }
        }
        heard.extend(numbered(&talk.heard));
        let last = heard.last().map_or(0, |event| event.sequence);
        cuts.push(last);
        drop(talk);
        talk = Talk::start(&stage.clients, again(&session, last)).await?;
    }
    within("the end", async {
        while stop_reason(&talk.heard).is_empty() && stop_reason(&heard).is_empty() {
            talk.next().await?;
        }
        anyhow::Ok(())
    })
    .await??;
    heard.extend(numbered(&talk.heard));
    assert_increasing(&heard);
    let said = text(&heard);
    assert_eq!(said.trim_end(), words.trim_end(), "cut at {cuts:?}");
    let kept = stored(&stage.clients, &session, 0).await?;
    assert_eq!(heard, kept[..heard.len()], "cut at {cuts:?}");
    // And a client that starts over finds the same.
    let mut fresh = Talk::start(&stage.clients, again(&session, 0)).await?;
    fresh.hush();
    fresh.rest().await?;
    assert_eq!(numbered(&fresh.heard)[..heard.len()], heard);
    stage.close().await
}

/// A client in a process of its own.
struct Client {
    child: Child,
    output: ChildStdout,
    printed: Vec<u8>,
}

impl Client {
    fn start(stage: &Stage, session: &str, from: u64, prompt: Option<&str>) -> Result<Client> {
        let mut child =
            tokio::process::Command::from(stage.world.command(env!("CARGO_BIN_EXE_betcode-client")))
                .arg(stage.daemon.socket())
                .args([session, &from.to_string()])
                .args(prompt)
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .kill_on_drop(true)
                .spawn()
                .context("starting a client")?;
        let output = child.stdout.take().context("no output")?;
        Ok(Client { child, output, printed: Vec::new() })
    }

    /// Reads what it prints until this is among it.
    async fn until(&mut self, part: &str) -> Result<()> {
        within(part, async {
            while !String::from_utf8_lossy(&self.printed).contains(part) {
                let read = self.output.read_buf(&mut self.printed).await?;
                ensure!(
                    read > 0,
                    "the client ended before {part}: {}",
                    String::from_utf8_lossy(&self.printed)
                );
            }
            Ok(())
        })
        .await?
    }

    /// Lets it live for a while, kills it, and returns the lines it had printed whole.
    async fn kill_after(mut self, life: Duration) -> Result<Vec<String>> {
        let reading =
            async { while self.output.read_buf(&mut self.printed).await.is_ok_and(|read| read > 0) {} };
        // Not a wait for something: the moment of a death must not depend on what the client hears.
        let _ = tokio::time::timeout(life, reading).await;
        self.child.start_kill()?;
        within("the client's death", self.child.wait()).await??;
        self.output.read_to_end(&mut self.printed).await?;
        let text = String::from_utf8_lossy(&self.printed).into_owned();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        Ok(whole.lines().map(str::to_owned).collect())
    }
}

fn number(line: &str) -> Result<u64> {
    let number = line.split('\t').next().unwrap_or_default();
    number.parse().with_context(|| format!("no number: {line}"))
}

async fn a_client_killed_two_hundred_times_has_seen_the_journal(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let seed = Random::any_seed();
    let mut random = Random::new(seed);
    // Begun under the name of those that follow: whoever leaves may still hold the input when the next one speaks.
    let mut start = new_start(&stage);
    start.metadata.insert("client_id".into(), "phone".into());
    let session = Talk::start(&stage.clients, start).await?.session().to_owned();
    let words: String = (0..WORDS).map(|word| format!("w{word} ")).collect();
    let steps = json!([{"text": words, "chunks": WORDS, "gap_ms": GAP_MS}]);
    let mut seen: Vec<String> = Vec::new();
    let (mut turns, mut ends, mut mid_turn) = (0, 0, 0);
    while mid_turn < KILLS {
        let last = seen.last().map_or(Ok(0), |line| number(line))?;
        // Every turn is begun by a client, too, and only counts as begun once that has heard so.
        let prompt = (turns == ends).then(|| script(agent, &format!("turn {turns}"), &steps));
        let mut client = Client::start(&stage, &session, last, prompt.as_deref())?;
        if prompt.is_some() {
            turns += 1;
            client.until(&format!("UserInput {{ content: \"turn {} ", turns - 1)).await?;
        }
        let lines = client.kill_after(random.below(LIFE_MAX)).await?;
        ends += lines.iter().filter(|line| line.contains("TurnComplete")).count();
        mid_turn += usize::from(ends < turns);
        seen.extend(lines);
    }
    // One more that nobody kills hears the rest.
    let last = seen.last().map_or(Ok(0), |line| number(line))?;
    let mut back = Talk::start(&stage.clients, again(&session, last)).await?;
    back.hush();
    back.rest().await?;
    seen.extend(numbered(&back.heard).iter().map(|event| format!("{}\t{event:?}", event.sequence)));
    let kept = stored(&stage.clients, &session, 0).await?;
    let kept: Vec<String> = kept.iter().map(|event| format!("{}\t{event:?}", event.sequence)).collect();
    for (at, (seen, kept)) in seen.iter().zip(&kept).enumerate() {
        assert_eq!(seen, kept, "event {at} of what was seen, seed {seed}");
    }
    assert!(seen.len() <= kept.len() && seen.len() > turns * WORDS / 2, "{} of {}", seen.len(), kept.len());
    // The numbers are the journal's: every piece of text in it was seen, and nothing else.
    let journal = stage.journal(&session).await?;
    let told: Vec<u64> =
        journal.iter().filter(|event| event.r#type == "text_delta").map(|event| event.seq).collect();
    let heard: Vec<u64> = seen
        .iter()
        .filter(|line| line.contains("TextDelta(TextDelta {"))
        .map(|line| number(line))
        .collect::<Result<_>>()?;
    assert_eq!(heard, told, "seed {seed}");
    stage.close().await
}
