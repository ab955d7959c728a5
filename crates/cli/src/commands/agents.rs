//! `obey agents`: which agents can run here, what they support, and whether a turn with one works. The daemon says what
//! a session would find; a test runs a separate session and ends it.

use std::time::Instant;

use serde_json::json;
use wire::obey::local::v1 as pb;
use wire::obey::v1::InstalledAgent;

use super::{agent_choice, demo, session};
use crate::limits::AGENT_TEST_WAIT;
use cli_args::AgentTestArgs;
use client::names;
use config::exit::Exit;
use config::failure::{Failure, Result};
use terminal::console::Console;
use terminal::conversation::{Conversation, Requests};
use terminal::output::TextStyle;
use terminal::table::Table;

const PROMPT: &str = "Reply with the single word: ready";

/// Prints the agents, whether they are installed, and how to install the others.
pub(super) async fn list(console: &mut Console) -> Result<Exit> {
    let client = console.connect().await?;
    let known = agent_choice::list(console, &client).await?;
    if console.out.json {
        let list: Vec<_> = known.agents.iter().map(as_json).collect();
        console.out.json(&json!({"agents": list, "default": known.default_agent}))?;
        return Ok(Exit::OK);
    }
    let mut table = Table::new(&["NAME", "PROVIDER", "STATE", "VERSION", "CAN", "WHERE"]);
    let or = |text: &str, otherwise: &str| {
        if text.is_empty() { otherwise.to_owned() } else { text.to_owned() }
    };
    for agent in &known.agents {
        let unknown = if agent.state == "installed" { "?" } else { "-" };
        table.row(vec![
            agent.name.clone(),
            agent.provider.clone(),
            agent.state.replace('_', " "),
            or(&agent.version, unknown),
            agent.capabilities.join(", "),
            or(&agent.program, "-"),
        ]);
    }
    session::print_table(console, &table)?;
    if !known.default_agent.is_empty() {
        let text = format!("Sessions that name no agent run {}.", known.default_agent);
        console.out.note(TextStyle::Dim, &text)?;
    }
    for agent in known.agents.iter().filter(|agent| agent.state == "missing") {
        console.out.note(TextStyle::Dim, &format!("{}: {}", agent.name, agent.remedy))?;
    }
    for agent in known.agents.iter().filter(|agent| is_missed_by_daemon(agent)) {
        let text = format!(
            "{}: found with your PATH, not with the daemon's. Sessions from this shell run it; for editors and other \
             programs, start the daemon with your PATH: obey stop && obey ping",
            agent.name
        );
        console.out.note(TextStyle::Warn, &text)?;
    }
    Ok(Exit::OK)
}

/// Whether sessions of callers that send no `PATH` do not find an agent that this caller finds.
fn is_missed_by_daemon(agent: &InstalledAgent) -> bool {
    agent.state == "installed" && agent.daemon_program.is_empty()
}

fn as_json(agent: &InstalledAgent) -> serde_json::Value {
    let or_null = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    json!({
        "name": agent.name, "provider": agent.provider, "state": agent.state,
        "program": or_null(&agent.program), "version": or_null(&agent.version),
        "remedy": or_null(&agent.remedy), "capabilities": agent.capabilities,
        "daemon_program": or_null(&agent.daemon_program), "models": agent.models,
    })
}

/// Creates a session with the agent, runs one turn, and stops it.
pub(super) async fn test(console: &mut Console, args: &AgentTestArgs) -> Result<Exit> {
    let client = console.connect().await?;
    let chosen = agent_choice::choose(console, &client, Some(&args.name)).await?;
    let campaign = demo::campaign(console, &client).await?;
    let mut provider_config = args.config.clone().unwrap_or_default();
    provider_config.insert("permission_mode".to_owned(), "supervised".to_owned());
    if let Some(agent) = &chosen.agent {
        provider_config.insert(agent_choice::AGENT_KEY.to_owned(), agent.clone());
    }
    let request = pb::CreateSessionRequest {
        campaign_id: campaign.id,
        provider: names::provider_number(chosen.provider).into(),
        model: args.model.clone().unwrap_or_default(),
        provider_config,
        ..Default::default()
    };
    let begun = Instant::now();
    console.out.status("starting the agent…")?;
    let started = session::create(console, &client, session::Plan { request, parent: None }).await?;
    console.out.hide_status()?;
    console
        .out
        .note(TextStyle::Good, &format!("✓ started in {} ms: {}", begun.elapsed().as_millis(), started.id))?;
    let outcome = run_conversation(console, &client, &started.id).await;
    // Whatever the result of the turn, nothing is left behind.
    let stop = pb::StopSessionRequest { session_id: started.id, graceful: false };
    let stopped = client.daemon().stop_session(stop).await;
    let exit = outcome?;
    stopped?;
    if exit == Exit::OK {
        console.out.note(TextStyle::Good, &format!("✓ {} works", args.name))?;
    }
    Ok(exit)
}

/// Sends the test prompt and waits for the end of its turn, at most `AGENT_TEST_WAIT`.
async fn run_conversation(
    console: &mut Console,
    client: &client::connection::Client,
    id: &str,
) -> Result<Exit> {
    let accepted = session::prompt(client, id, PROMPT, false).await?;
    let after = accepted.seq.saturating_sub(1);
    let mut conversation = Conversation::new(console, client.clone(), id.to_owned(), after, Requests::Deny);
    conversation.sent(&accepted);
    let turn = session::until_turn_ends(&mut conversation, &accepted.turn_id);
    tokio::time::timeout(AGENT_TEST_WAIT, turn).await.unwrap_or_else(|_| {
        let seconds = AGENT_TEST_WAIT.as_secs();
        Err(Failure::failed(format!("the agent has not ended its turn within {seconds} s"))
            .with_hint(format!("what it did: obey session log {id}")))
    })
}
