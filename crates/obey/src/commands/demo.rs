//! `obey demo`: one turn of an agent in a folder made for it, with everything a first-time user should see: a
//! campaign, a session, a permission request and its answer, the log, and what to try next.

use std::path::{Path, PathBuf};

use domain::{EventKind, ProviderKind};
use wire::obey::local::v1 as local;
use wire::obey::v1 as pb;

use super::session;
use crate::args::DemoArgs;
use crate::client::Client;
use crate::console::Console;
use crate::conversation::{Conversation, Requests};
use crate::events;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::names;
use crate::output::TextStyle;
use crate::paths;
use crate::resolve;

const CAMPAIGN: &str = "demo";
const README: &str = "# Demo\n\nA folder made by `obey demo`. Nothing here is precious.\n";
const PROMPT: &str =
    "Look at the files in this folder, then write one friendly line into hello.txt and say what you wrote.";
/// Rows of the log shown at the end.
const LOG_ROWS: usize = 8;

/// Runs the demo: a campaign, a session, one turn, and the commands to try next.
pub(super) async fn run(console: &mut Console, args: &DemoArgs) -> Result<Exit> {
    let provider = choose_provider(console, args)?;
    let client = console.connect().await?;
    let campaign = campaign(console, &client).await?;
    step(console, &format!("Registered {} as the campaign {}.", campaign.path, campaign.name))?;

    let request = local::CreateSessionRequest {
        campaign_id: campaign.id,
        provider: names::provider_number(provider).into(),
        provider_config: [("permission_mode".to_owned(), "supervised".to_owned())].into(),
        ..Default::default()
    };
    console.out.status("starting the agent…")?;
    let session = session::create(&client, session::Plan { request, parent: None }).await?;
    if !console.out.json {
        console.out.line(&format!("Session: {}", session.id))?;
    }
    step(
        console,
        &format!(
            "Started {} ({}) in it, supervised: it asks before it acts.",
            session.agent_name,
            provider.name()
        ),
    )?;

    step(console, &format!("Sending: {PROMPT}"))?;
    let exit = run_conversation(console, &client, &session.id).await?;
    show_log(console, &client, &session.id).await?;
    next_steps(console, &session.id)?;
    Ok(exit)
}

/// Chooses the installed agent if it can log in, else the built-in one, and prints the reason.
fn choose_provider(console: &mut Console, args: &DemoArgs) -> Result<ProviderKind> {
    if let Some(provider) = args.provider {
        return Ok(provider);
    }
    let why = match (console.vars.find_program("claude"), has_login(console)) {
        (Some(_), true) => return Ok(ProviderKind::ClaudeCode),
        (Some(_), false) => "claude is installed but neither logged in nor given an ANTHROPIC_API_KEY",
        (None, _) => "claude is not installed (npm install -g @anthropic-ai/claude-code)",
    };
    step(
        console,
        &format!("No real agent: {why}. Using the built-in scripted agent, which needs no model."),
    )?;
    Ok(ProviderKind::Scripted)
}

/// Whether Claude Code has credentials.
fn has_login(console: &Console) -> bool {
    let keys = ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"];
    if keys.iter().any(|key| console.vars.get(key).is_some()) {
        return true;
    }
    let default = console.paths.home.as_ref().map(|home| home.join(".claude"));
    let folder = console.vars.folder("CLAUDE_CONFIG_DIR").or(default);
    folder.is_some_and(|folder| folder.join(".credentials.json").exists())
}

/// Returns the campaign for demos and tests, creating it if necessary.
pub(super) async fn campaign(console: &Console, client: &Client) -> Result<pb::Campaign> {
    let folder = make_folder(console)?;
    register(client, &folder).await
}

/// Creates the demo's folder, the same one every time: the session stays usable after the demo.
fn make_folder(console: &Console) -> Result<PathBuf> {
    let temp = console.vars.folder("TMPDIR").unwrap_or_else(|| PathBuf::from("/tmp"));
    let folder = temp.join(format!("obey-demo-{}", paths::uid()));
    paths::make_private(&folder)?;
    let readme = folder.join("README.md");
    std::fs::write(&readme, README)
        .map_err(|error| Failure::failed(format!("cannot write {}: {error}", readme.display())))?;
    folder.canonicalize().map_err(|error| Failure::failed(format!("{}: {error}", folder.display())))
}

/// Registers the demo's folder as a campaign, unless it already is one.
async fn register(client: &Client, folder: &Path) -> Result<pb::Campaign> {
    let path = folder.to_string_lossy().into_owned();
    let known = resolve::campaigns(client).await?;
    if let Some(campaign) = known.iter().find(|campaign| campaign.path == path) {
        return Ok(campaign.clone());
    }
    // The name may belong to a project of the user.
    let taken = known.iter().any(|campaign| campaign.name == CAMPAIGN);
    let name = if taken { format!("{CAMPAIGN}-{}", std::process::id()) } else { CAMPAIGN.to_owned() };
    let request = pb::AddCampaignRequest {
        path,
        name,
        description: "made by obey demo".to_owned(),
        ..Default::default()
    };
    Ok(client.campaigns().add_campaign(request).await?.into_inner())
}

async fn run_conversation(console: &mut Console, client: &Client, session: &str) -> Result<Exit> {
    let accepted = session::prompt(client, session, PROMPT, false).await?;
    let after = accepted.seq.saturating_sub(1);
    let mut conversation =
        Conversation::new(console, client.clone(), session.to_owned(), after, Requests::Allow);
    conversation.sent(&accepted);
    session::until_turn_ends(&mut conversation, &accepted.turn_id).await
}

async fn show_log(console: &mut Console, client: &Client, session: &str) -> Result<()> {
    if console.out.json {
        return Ok(());
    }
    step(console, "Everything that happened is in the session's log; its end:")?;
    let tail = events::tail(client, session, 0, usize::MAX).await?;
    // Text deltas were already shown; the other events say more in fewer rows.
    let telling = |kind: &Option<EventKind>| {
        !matches!(kind, Some(EventKind::TextDelta { .. } | EventKind::ThinkingDelta { .. }))
    };
    let rows: Vec<_> = tail.events.iter().filter(|event| telling(&event.kind)).collect();
    rows.iter()
        .skip(rows.len().saturating_sub(LOG_ROWS))
        .try_for_each(|event| session::print_row(console, event))
}

fn next_steps(console: &mut Console, session: &str) -> Result<()> {
    step(console, "Now try:")?;
    for line in [
        format!("  obey session attach {session}      talk to it"),
        format!("  obey session log {session} --json  every event, for programs"),
        format!("  obey session stop {session}        end it"),
        "  obey status                                             everything at a glance".to_owned(),
        "  obey campaign add PATH                                  your own project".to_owned(),
    ] {
        console.out.note(TextStyle::Plain, &line)?;
    }
    Ok(())
}

fn step(console: &mut Console, text: &str) -> Result<()> {
    console.out.note(TextStyle::Bold, &format!("▸ {text}"))
}
