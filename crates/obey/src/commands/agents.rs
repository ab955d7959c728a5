//! `obey agents`: which agents can run here, what they support, and whether a turn with one works. Listing
//! contacts no daemon; a test runs a separate session through the daemon and ends it.

use std::path::PathBuf;
use std::time::Instant;

use agent_port::{Availability, Capabilities};
use domain::ProviderKind;
use providers::acp;
use serde_json::json;
use wire::obey::local::v1 as local;

use super::{demo, session};
use crate::args::AgentTestArgs;
use crate::config::{self, Config, Flags};
use crate::console::Console;
use crate::conversation::{Conversation, Requests};
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::limits::AGENT_TEST_WAIT;
use crate::names;
use crate::nearest::nearest;
use crate::output::TextStyle;
use crate::serve;
use crate::table::Table;

const PROMPT: &str = "Reply with the single word: ready";

/// An agent in the list.
struct Found {
    name: String,
    provider: ProviderKind,
    capabilities: Capabilities,
    availability: Availability,
}

/// Prints the agents, whether they are installed, and how to install the others.
pub(super) fn list(console: &mut Console) -> Result<Exit> {
    let agents = find(&configuration(console)?)?;
    if console.out.json {
        let list: Vec<_> = agents.iter().map(as_json).collect();
        console.out.json(&json!({"agents": list}))?;
        return Ok(Exit::OK);
    }
    let mut table = Table::new(&["NAME", "PROVIDER", "STATE", "VERSION", "CAN", "WHERE"]);
    let mut remedies = Vec::new();
    for agent in &agents {
        let (state, version, place) = match &agent.availability {
            Availability::Installed { program, version } => {
                let version = version.clone().unwrap_or_else(|| "?".to_owned());
                ("installed", version, program.display().to_string())
            }
            Availability::BuiltIn => ("built in", env!("CARGO_PKG_VERSION").to_owned(), "-".to_owned()),
            Availability::Missing { remedy } => {
                remedies.push(format!("{}: {remedy}", agent.name));
                ("missing", "-".to_owned(), "-".to_owned())
            }
        };
        let provider = agent.provider.name().to_owned();
        let can = abilities(agent.capabilities).join(", ");
        table.row(vec![agent.name.clone(), provider, state.to_owned(), version, can, place]);
    }
    session::print_table(console, &table)?;
    for remedy in remedies {
        console.out.note(TextStyle::Dim, &remedy)?;
    }
    Ok(Exit::OK)
}

fn as_json(agent: &Found) -> serde_json::Value {
    let (state, program, version, remedy) = match &agent.availability {
        Availability::Installed { program, version } => ("installed", Some(program), version.clone(), None),
        Availability::BuiltIn => ("built_in", None, Some(env!("CARGO_PKG_VERSION").to_owned()), None),
        Availability::Missing { remedy } => ("missing", None, None, Some(remedy)),
    };
    json!({
        "name": agent.name, "provider": agent.provider.name(), "state": state, "program": program,
        "version": version, "remedy": remedy, "capabilities": abilities(agent.capabilities),
    })
}

fn abilities(can: Capabilities) -> Vec<&'static str> {
    let all = [
        (can.process, "outlives the daemon"),
        (can.resume, "resume"),
        (can.steer, "steer"),
        (can.questions, "questions"),
        (can.attachments, "attachments"),
        (can.compaction, "compaction"),
    ];
    all.into_iter().filter(|(can, _)| *can).map(|(_, name)| name).collect()
}

fn configuration(console: &Console) -> Result<Config> {
    let file = serve::config_file(None, &console.vars, &console.paths)?;
    let text = config::read_file(&file)?;
    config::load(text.as_deref().map(|text| (file.as_path(), text)), &console.vars, &Flags::default())
}

/// Finds every agent: the providers, and each ACP agent.
fn find(config: &Config) -> Result<Vec<Found>> {
    let named = acp::NamedAgents::new(&config.acp.agents).map_err(Failure::failed)?;
    let all = providers::all(&providers::ProviderOptions {
        obey_exe: std::env::current_exe().unwrap_or_else(|_| PathBuf::from("obey")),
        claude_binary: config.claude_code.binary.clone(),
        codex_binary: config.codex.binary.clone(),
        codex_notify: Vec::new(),
        openclaw: config.openclaw.options(None),
        acp_agents: named.clone(),
        toolbox: None,
    });
    let mut found = Vec::new();
    for provider in all.iter() {
        if provider.kind() != ProviderKind::Acp {
            found.push(Found {
                name: provider.kind().name().to_owned(),
                provider: provider.kind(),
                capabilities: provider.capabilities(),
                availability: provider.availability(),
            });
            continue;
        }
        for (name, availability) in acp::availability(&named) {
            found.push(Found {
                name,
                provider: ProviderKind::Acp,
                capabilities: provider.capabilities(),
                availability,
            });
        }
    }
    Ok(found)
}

/// Creates a session with the agent, runs one turn, and stops it.
pub(super) async fn test(console: &mut Console, args: &AgentTestArgs) -> Result<Exit> {
    let agents = find(&configuration(console)?)?;
    // Providers have short names, too.
    let provider = match ProviderKind::parse(&args.name) {
        Some(kind) => kind.name(),
        None => args.name.as_str(),
    };
    let Some(agent) =
        agents.iter().find(|agent| [args.name.as_str(), provider].contains(&agent.name.as_str()))
    else {
        let meant = nearest(&args.name, agents.iter().map(|agent| agent.name.as_str()));
        let meant = meant.map_or_else(String::new, |near| format!("; did you mean {near}?"));
        return Err(Failure::usage(format!(
            "there is no agent {:?}{meant}; see obey agents list",
            args.name
        )));
    };
    let client = console.connect().await?;
    let campaign = demo::campaign(console, &client).await?;
    let mut provider_config = args.config.clone().unwrap_or_default();
    provider_config.insert("permission_mode".to_owned(), "supervised".to_owned());
    if agent.provider == ProviderKind::Acp {
        provider_config.insert("agent".to_owned(), agent.name.clone());
    }
    let request = local::CreateSessionRequest {
        campaign_id: campaign.id,
        provider: names::provider_number(agent.provider).into(),
        model: args.model.clone().unwrap_or_default(),
        provider_config,
        ..Default::default()
    };
    let begun = Instant::now();
    console.out.status("starting the agent…")?;
    let started = session::create(&client, session::Plan { request, parent: None }).await?;
    console.out.hide_status()?;
    console
        .out
        .note(TextStyle::Good, &format!("✓ started in {} ms: {}", begun.elapsed().as_millis(), started.id))?;
    let outcome = run_conversation(console, &client, &started.id).await;
    // Whatever the result of the turn, nothing is left behind.
    let stop = local::StopSessionRequest { session_id: started.id, graceful: false };
    let stopped = client.daemon().stop_session(stop).await;
    let exit = outcome?;
    stopped?;
    if exit == Exit::OK {
        console.out.note(TextStyle::Good, &format!("✓ {} works", agent.name))?;
    }
    Ok(exit)
}

/// Sends the test prompt and waits for the end of its turn, at most `AGENT_TEST_WAIT`.
async fn run_conversation(console: &mut Console, client: &crate::client::Client, id: &str) -> Result<Exit> {
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
