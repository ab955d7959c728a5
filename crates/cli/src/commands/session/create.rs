//! `obey session create`: starts an agent in a campaign's folder.

use std::collections::HashMap;
use std::time::Duration;

use domain::containment::{NETWORK_KEY, SANDBOX_KEY};
use domain::{ErrorCode, ProviderKind, Resource, SYSTEM_PROMPT_CAPABILITY, Status};
use wire::obey::local::v1 as local;

use super::protobuf_duration;
use crate::commands::agent_choice::{self, ChosenAgent};
use crate::commands::forge;
use crate::commands::tree_folder;
use crate::commands::workbench;
use crate::json;
use cli_args::session::SessionCreateArgs;
use client::connection::Client;
use client::creating;
use client::format;
use client::names;
use client::resolve;
use config::exit::Exit;
use config::failure::{Failure, Result};
use terminal::console::Console;
use terminal::output::TextStyle;
use terminal::table::named;

/// The key of `provider_config` that holds the mode.
const MODE_KEY: &str = "permission_mode";

/// The parameters of a new session.
#[derive(Debug, Default)]
pub(in crate::commands) struct Plan {
    pub(in crate::commands) request: local::CreateSessionRequest,
    pub(in crate::commands) parent: Option<String>,
}

/// The key of `provider_config` whose text is appended to the agent's system prompt.
const PROMPT_KEY: &str = "append_system_prompt";

/// The key of `provider_config` that names the workbench's collections an agent may use.
const COLLECTIONS_KEY: &str = "collections_access";

/// The key of `provider_config` of the OpenAI API that holds the temperature.
const TEMPERATURE_KEY: &str = "temperature";

pub(super) async fn run(console: &mut Console, args: SessionCreateArgs) -> Result<Exit> {
    let client = console.connect().await?;
    let agent = match args.external {
        true => ChosenAgent { provider: ProviderKind::External, agent: None },
        false => agent_choice::choose(console, &client, args.provider.as_deref()).await?,
    };
    let is_external = agent.provider == ProviderKind::External;
    let (campaign, own_tree) = place(console, &client, args.campaign.as_deref()).await?;
    let parent = match &args.parent {
        Some(parent) => Some(resolve::session(&client, parent).await?),
        None => None,
    };
    let mut args = dressed(console, &client, &campaign, args, agent.provider).await?;
    args.worktree = args.worktree.or(own_tree);
    if let Some(issue) = args.issue.take() {
        args = from_issue(console, &client, &campaign, args, &issue).await?;
    }
    let plan = Plan { request: request(args, campaign, agent)?, parent };
    console.out.status("starting the agent…")?;
    let session = create(console, &client, plan).await?;
    console.out.hide_status()?;
    if console.out.json {
        console.out.json(&json::session(&session))?;
    } else {
        show(console, &session)?;
    }
    if names::status(session.status) == Some(Status::Failed) {
        return Err(Failure::coded(ErrorCode::CreateFailed, session.error_message));
    }
    if !console.out.json {
        let id = &session.id;
        let next = match is_external {
            true => {
                format!("Report on it: StreamAgentActivity with session_id {id} · end it: obey stop {id}")
            }
            false => format!("Talk to it: obey session send {id} \"…\" · obey session attach {id}"),
        };
        console.out.note(TextStyle::Dim, &next)?;
    }
    Ok(Exit::OK)
}

/// Returns the campaign of a new session, and the working tree if the current folder is one: it belongs to the campaign of
/// its repository.
async fn place(
    console: &Console,
    client: &Client,
    campaign: Option<&str>,
) -> Result<(String, Option<String>)> {
    let failure = match resolve::campaign(client, campaign, &console.folder).await {
        Ok(campaign) => return Ok((campaign, None)),
        Err(failure) if campaign.is_some() => return Err(failure),
        Err(failure) => failure,
    };
    let Ok(folder) = console.folder.canonicalize() else { return Err(failure) };
    let Ok(campaigns) = resolve::campaigns(client).await else { return Err(failure) };
    let (campaign, tree) = tree_folder::own_tree(client, &campaigns, &folder).await.ok_or(failure)?;
    Ok((campaign.id, Some(tree)))
}

/// Adds the settings of a catalog agent and of a checkpoint; the command line takes precedence.
async fn dressed(
    console: &mut Console,
    client: &Client,
    campaign: &str,
    mut args: SessionCreateArgs,
    provider: ProviderKind,
) -> Result<SessionCreateArgs> {
    if args.agent.is_none() && args.checkpoint.is_none() {
        return Ok(args);
    }
    let campaigns = resolve::campaigns(client).await?;
    let root = campaigns.into_iter().find(|known| known.id == campaign).map(|known| known.path);
    let root = std::path::PathBuf::from(root.unwrap_or_default());
    let mut told: Vec<String> = Vec::new();
    if let Some(name) = args.agent.clone() {
        match workbench::agent(console, root.clone(), &name).await? {
            Some(character) => {
                told.push(character.system_prompt);
                if !character.collections.is_empty() {
                    let config = args.config.get_or_insert_default();
                    config.insert(COLLECTIONS_KEY.to_owned(), character.collections.join(","));
                }
                let model = (!character.model.is_empty()).then_some(character.model);
                args.model = args.model.or(model);
                if character.temperature > 0.0 && provider == ProviderKind::OpenaiApi {
                    let config = args.config.get_or_insert_default();
                    config.entry(TEMPERATURE_KEY.to_owned()).or_insert(character.temperature.to_string());
                } else if character.temperature > 0.0 {
                    let note = format!(
                        "{name} prefers the temperature {}, which only agents of the OpenAI API have; it is not used.",
                        character.temperature
                    );
                    console.out.note(TextStyle::Dim, &note)?;
                }
            }
            None => {
                let note =
                    format!("There is no agent {name} in the catalogue; the session is only called that.");
                console.out.note(TextStyle::Dim, &note)?;
            }
        }
        args.name.get_or_insert(name);
    }
    if let Some(id) = args.checkpoint.clone() {
        let context = workbench::checkpoint_context(console, root, id).await?;
        told.push(format!("You go on with work that was begun before. What is known of it:\n{context}"));
    }
    if !told.is_empty() {
        let flag = if args.checkpoint.is_some() { "--checkpoint" } else { "--agent" };
        check_takes_system_prompt(console, client, flag, provider).await?;
        let config = args.config.get_or_insert_default();
        told.extend(config.remove(PROMPT_KEY));
        config.insert(PROMPT_KEY.to_owned(), told.join("\n\n"));
    }
    Ok(args)
}

/// Refuses a flag that becomes a system prompt for a provider that takes none.
async fn check_takes_system_prompt(
    console: &Console,
    client: &Client,
    flag: &str,
    provider: ProviderKind,
) -> Result<()> {
    let known = agent_choice::list(console, client).await?.agents.into_iter();
    let able: Vec<String> = known
        .filter(|agent| agent.capabilities.iter().any(|name| name == SYSTEM_PROMPT_CAPABILITY))
        .map(|agent| agent.name)
        .collect();
    if able.iter().any(|name| name == provider.name()) {
        return Ok(());
    }
    Err(Failure::usage(format!("{flag}: agents of {} take no system prompt", provider.name()))
        .with_hint(format!("use one of {} with it, or say it in --message", able.join(", "))))
}

/// Adds what an issue says: the first message, and names if none are given.
async fn from_issue(
    console: &mut Console,
    client: &Client,
    campaign: &str,
    mut args: SessionCreateArgs,
    typed: &str,
) -> Result<SessionCreateArgs> {
    let campaigns = resolve::campaigns(client).await?;
    let root = campaigns.into_iter().find(|known| known.id == campaign).map(|known| known.path);
    let issue = forge::issue(client, &root.unwrap_or_default(), typed).await?;
    console.out.note(TextStyle::Dim, &format!("Issue #{}: {}", issue.iid, format::one_line(&issue.title)))?;
    args.message = Some(forge::issue_prompt(&issue, args.message.as_deref()));
    args.name.get_or_insert_with(|| format!("issue-{}", issue.iid));
    args.task.get_or_insert_with(|| format!("#{}", issue.iid));
    // A tree without a name would be named by the message.
    if args.worktree.as_deref() == Some("") {
        args.worktree = Some(format!("issue-{}", issue.iid));
    }
    Ok(args)
}

/// Creates a session.
pub(in crate::commands) async fn create(
    console: &Console,
    client: &Client,
    plan: Plan,
) -> Result<local::SessionInfo> {
    // Another machine's sessions have the environment of the daemon there.
    let vars = console.machine()?.is_none().then_some(&console.vars);
    creating::create(client, plan.request, plan.parent.as_deref(), vars).await
}

/// Converts the flags to a request. Flags without a field of their own become provider settings.
fn request(
    args: SessionCreateArgs,
    campaign_id: String,
    agent: ChosenAgent,
) -> Result<local::CreateSessionRequest> {
    let mut provider_config: HashMap<String, String> = args.config.unwrap_or_default();
    if let Some(name) = agent.agent {
        provider_config.insert(agent_choice::AGENT_KEY.to_owned(), name);
    }
    if let Some(mode) = args.mode {
        provider_config.insert(MODE_KEY.to_owned(), mode.name().to_owned());
    }
    for (key, value) in
        [("worktree", args.worktree), ("worktree_branch", args.branch), ("worktree_base", args.base)]
    {
        if let Some(value) = value {
            provider_config.insert(key.to_owned(), value);
        }
    }
    if let Some(workers) = args.workers {
        provider_config.insert("workers".to_owned(), workers.to_string());
    }
    if args.sandbox {
        provider_config.insert(SANDBOX_KEY.to_owned(), true.to_string());
    }
    for (resource, amount) in
        [(Resource::Memory, args.memory), (Resource::Cpus, args.cpus), (Resource::Processes, args.processes)]
    {
        if let Some(amount) = amount {
            provider_config.insert(resource.key().to_owned(), amount);
        }
    }
    if let Some(network) = args.network {
        provider_config.insert(NETWORK_KEY.to_owned(), network.name().to_owned());
    }
    Ok(local::CreateSessionRequest {
        campaign_id,
        provider: provider(agent.provider),
        model: args.model.unwrap_or_default(),
        agent_name: args.name.unwrap_or_default(),
        festival_id: args.festival.unwrap_or_default(),
        task_id: args.task.unwrap_or_default(),
        provider_config,
        environment: args.environment.into_iter().collect(),
        max_tokens: args.max_tokens,
        // On the wire zero means no timeout too, so the field is left out.
        timeout: args
            .timeout
            .filter(|timeout| *timeout > Duration::ZERO)
            .map(protobuf_duration)
            .transpose()?,
        initial_message: args.message.unwrap_or_default(),
    })
}

fn provider(kind: ProviderKind) -> i32 {
    names::provider_number(kind).into()
}

fn show(console: &mut Console, session: &local::SessionInfo) -> Result<()> {
    let pairs = [
        ("Session", session.id.clone()),
        ("Name", session.agent_name.clone()),
        ("Status", names::status_name(session.status)),
        ("Folder", session.working_dir.clone()),
    ];
    named(&pairs).into_iter().try_for_each(|line| console.out.line(&line))
}
