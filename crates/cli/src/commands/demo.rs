//! `obey demo`: one turn of an agent in a folder made for it, with everything a first-time user should see: a
//! campaign, a session, a permission request and its answer, the log, and what to try next.

use std::path::{Path, PathBuf};

use domain::{EventKind, ProviderKind};
use wire::obey::local::v1 as local;
use wire::obey::v1 as pb;

use super::session;
use cli_args::DemoArgs;
use client::connection::Client;
use client::events;
use client::names;
use client::resolve;
use config::exit::Exit;
use config::failure::{Failure, Result};
use config::paths;
use terminal::console::Console;
use terminal::conversation::{Conversation, Requests};
use terminal::output::TextStyle;

const CAMPAIGN: &str = "demo";
const README: &str = "# Demo\n\nA folder made by `obey demo`. Nothing here is precious.\n";
const PROMPT: &str =
    "Look at the files in this folder, then write one friendly line into hello.txt and say what you wrote.";
/// What the built-in agent is asked: what it does.
const SCRIPTED_PROMPT: &str = "Look at the files in this folder and say how many there are.";
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
    let session = session::create(console, &client, session::Plan { request, parent: None }).await?;
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

    let prompt = if provider == ProviderKind::Scripted { SCRIPTED_PROMPT } else { PROMPT };
    step(console, &format!("Sending: {prompt}"))?;
    let exit = run_conversation(console, &client, &session.id, prompt).await?;
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
    let (folder, is_new) = make_folder(console)?;
    register(client, &folder, is_new).await
}

/// Creates the demo's folder, the same one every time: the session stays usable after the demo. Also returns whether it was
/// not there.
fn make_folder(console: &Console) -> Result<(PathBuf, bool)> {
    let temp = console.vars.folder("TMPDIR").unwrap_or_else(|| PathBuf::from("/tmp"));
    let folder = temp.join(format!("obey-demo-{}", paths::uid()));
    let is_new = !folder.exists();
    paths::make_private(&folder)?;
    let readme = folder.join("README.md");
    std::fs::write(&readme, README)
        .map_err(|error| Failure::failed(format!("cannot write {}: {error}", readme.display())))?;
    let found = folder.canonicalize();
    let found = found.map_err(|error| Failure::failed(format!("{}: {error}", folder.display())))?;
    Ok((found, is_new))
}

/// Registers the demo's folder as a campaign, unless it already is one. A folder that was made again, because the machine
/// restarted and emptied its temporary folder, is registered again: sessions refuse one that is not the registered one.
async fn register(client: &Client, folder: &Path, is_new: bool) -> Result<pb::Campaign> {
    let path = folder.to_string_lossy().into_owned();
    let known = resolve::campaigns(client).await?;
    let registered = known.iter().find(|campaign| campaign.path == path);
    if let Some(campaign) = registered.filter(|_| !is_new) {
        return Ok(campaign.clone());
    }
    // The name may belong to a project of the user.
    let is_taken = known.iter().any(|campaign| campaign.name == CAMPAIGN);
    let name = match registered {
        Some(campaign) => campaign.name.clone(),
        None if is_taken => format!("{CAMPAIGN}-{}", std::process::id()),
        None => CAMPAIGN.to_owned(),
    };
    let request = pb::AddCampaignRequest {
        path,
        name,
        description: "made by obey demo".to_owned(),
        ..Default::default()
    };
    Ok(client.campaigns().add_campaign(request).await?.into_inner())
}

async fn run_conversation(
    console: &mut Console,
    client: &Client,
    session: &str,
    prompt: &str,
) -> Result<Exit> {
    let accepted = session::prompt(client, session, prompt, false).await?;
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
    let obey = typed_program(console);
    let lines = [
        (format!("{obey} session attach {session}"), "talk to it"),
        (format!("{obey} session log {session} --json"), "every event, for programs"),
        (format!("{obey} session stop {session}"), "end it"),
        (format!("{obey} ps"), "everything at a glance"),
        (format!("{obey} campaign add PATH"), "a campaign of your own"),
    ];
    let width = lines.iter().map(|(command, _)| command.len()).max().unwrap_or(0);
    for (command, about) in lines {
        // What a shell takes for a comment, so that a whole line can be pasted.
        console.out.note(TextStyle::Plain, &format!("  {command:<width$}  # {about}"))?;
    }
    Ok(())
}

/// Returns how this program is called from a shell: by its name where that finds it, else by its path.
fn typed_program(console: &Console) -> String {
    let Ok(own) = std::env::current_exe() else { return "obey".to_owned() };
    let found = console.vars.find_program("obey").and_then(|path| path.canonicalize().ok());
    if found.is_some() && found == own.canonicalize().ok() {
        return "obey".to_owned();
    }
    let path = own.display().to_string();
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+".contains(letter);
    if path.chars().all(is_plain) { path } else { format!("'{}'", path.replace('\'', "'\\''")) }
}

fn step(console: &mut Console, text: &str) -> Result<()> {
    console.out.note(TextStyle::Bold, &format!("▸ {text}"))
}
