//! The daemon is killed at random moments, in the middle of everything. Seeds are printed; `OBEY_FAULTS_SEED` repeats one.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::faults::random::Random;
use e2e::faults::{input, kills};
use serde_json::json;

use super::{assert_numbered, revive, said, seed};
use crate::stage::{Agent, Stage, process_scenarios, script, stage};

#[tokio::test]
async fn twenty_sessions_lose_nothing_when_the_daemon_is_killed_again_and_again() -> Result<()> {
    let options = kills::Options {
        agent: kills::Agent::Scripted,
        seed: seed(),
        kills: 20,
        sessions: 20,
        lines_max: 400,
        gap_ms: 10,
        calm: Duration::from_millis(400),
        early_once_in: 4,
    };
    let Some(outcome) = kills::run(&options, |_| {}).await? else { return Ok(()) };
    let figures = outcome.figures("kills", None);
    println!("{figures}");
    ensure!(figures.holds(), "seed {}:\n{figures}", options.seed);
    Ok(())
}

#[tokio::test]
async fn an_accepted_prompt_arrives_exactly_once_wherever_the_daemon_dies() -> Result<()> {
    let options = input::Options { seed: seed(), trials: 15, sessions: 6, window: Duration::from_millis(30) };
    let outcome = input::run(&options, |_| {}).await?;
    println!("{}", outcome.figures());
    ensure!(outcome.holds(), "seed {}: {outcome:#?}", options.seed);
    Ok(())
}

process_scenarios!(a_turn_survives_kill_after_kill, a_prompt_sent_into_a_kill_reaches_the_agent_at_most_once);

async fn a_turn_survives_kill_after_kill(agent: Agent) -> Result<()> {
    let mut stage = stage!(agent);
    let mut random = Random::new(seed());
    let id = stage.create().await?;
    let pid = stage.info(&id).await?.pid;
    let text: String = (0..100).map(|at| format!("{at:03} →{:08x}🐎\n", random.number() as u32)).collect();
    let steps = json!([[{"text": text, "chunks": 100, "gap_ms": 20}]]);
    drop(stage.send(&id, &script(agent, "kills", &steps)).await?);
    stage.wait_for_text(&id, "001").await?;
    for _ in 0..5 {
        stage.daemon.kill9().await?;
        tokio::time::sleep(random.below(Duration::from_millis(80))).await;
        revive(&mut stage).await?;
        tokio::time::sleep(random.below(Duration::from_millis(250))).await;
    }
    let ended = stage.wait_for(&id, "turn_ended", |_| true).await?;
    assert_eq!(ended["reason"], "completed", "{ended}");
    let journal = stage.journal(&id).await?;
    assert_numbered(&journal);
    assert_eq!(said(&journal), text);
    if agent == Agent::Claude {
        assert_eq!(stage.world.model().sent_text("kills"), text);
        assert_eq!(stage.world.model().requests_for("kills").len(), 1, "the model was asked more than once");
    }
    assert_eq!(stage.info(&id).await?.pid, pid);
    stage.close().await
}

async fn a_prompt_sent_into_a_kill_reaches_the_agent_at_most_once(agent: Agent) -> Result<()> {
    let mut stage = stage!(agent);
    let mut random = Random::new(seed());
    let id = stage.create().await?;
    let mut expected = String::new();
    for trial in 0..6 {
        let word = format!("word-{trial}");
        let prompt = script(agent, &word, &json!([{"text": format!("{word}\n")}]));
        let request = wire::obey::v1::PromptRequest {
            session_id: id.clone(),
            text: prompt,
            steer: false,
            ..Default::default()
        };
        let mut turns = stage.clients.turns.clone();
        let sending = tokio::spawn(async move { turns.prompt(request).await.is_ok() });
        tokio::time::sleep(random.below(Duration::from_millis(8))).await;
        stage.daemon.kill9().await?;
        let accepted = sending.await?;
        revive(&mut stage).await?;
        let begun =
            |event: &wire::obey::v1::Event| event.r#type == "turn_started" && event.json.contains(&word);
        let begun = stage.journal(&id).await?.iter().any(begun);
        ensure!(begun || !accepted, "{word} was accepted and is not in the journal");
        if begun {
            let turns = trial_turns(&stage, &id).await?;
            stage.wait_for(&id, "turn_ended", |ended| ended["turn"] == format!("turn_{turns}")).await?;
            expected.push_str(&format!("{word}\n"));
        }
        if agent == Agent::Claude {
            let asked = stage.world.model().requests_for(&word).len();
            ensure!(asked == usize::from(begun), "the model was asked {asked} times for {word}");
        }
    }
    assert_eq!(said(&stage.journal(&id).await?), expected);
    stage.close().await
}

/// How many turns the session has had.
async fn trial_turns(stage: &Stage, id: &str) -> Result<usize> {
    Ok(stage.journal(id).await?.iter().filter(|event| event.r#type == "turn_started").count())
}
