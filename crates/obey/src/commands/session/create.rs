//! `obey session create`: starts an agent in a campaign's folder.

use std::collections::HashMap;
use std::time::Duration;

use domain::containment::{NETWORK_KEY, SANDBOX_KEY};
use domain::{ErrorCode, ProviderKind, Resource, Status};
use tonic::metadata::MetadataValue;
use wire::obey::local::v1 as local;

use super::protobuf_duration;
use crate::args::session::SessionCreateArgs;
use crate::client::Client;
use crate::commands::workbench;
use crate::console::Console;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::json;
use crate::names;
use crate::output::TextStyle;
use crate::resolve;
use crate::table::named;

/// The key of `provider_config` that holds the mode.
const MODE_KEY: &str = "permission_mode";
/// The protocol's message has no field for the parent, so it is sent as metadata.
const PARENT_KEY: &str = "obey-parent-session";

/// The parameters of a new session.
#[derive(Debug, Default)]
pub(in crate::commands) struct Plan {
    pub(in crate::commands) request: local::CreateSessionRequest,
    pub(in crate::commands) parent: Option<String>,
}

/// The key of `provider_config` whose text is appended to the agent's system prompt.
const PROMPT_KEY: &str = "append_system_prompt";

pub(super) async fn run(console: &mut Console, args: SessionCreateArgs) -> Result<Exit> {
    let client = console.connect().await?;
    let campaign = resolve::campaign(&client, args.campaign.as_deref(), &console.folder).await?;
    let parent = match &args.parent {
        Some(parent) => Some(resolve::session(&client, parent).await?),
        None => None,
    };
    let args = dressed(console, &client, &campaign, args).await?;
    let plan = Plan { request: request(args, campaign)?, parent };
    console.out.status("starting the agent…")?;
    let session = create(&client, plan).await?;
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
        let next =
            format!("Talk to it: obey session send {id} \"…\" · obey session attach {id}", id = session.id);
        console.out.note(TextStyle::Dim, &next)?;
    }
    Ok(Exit::OK)
}

/// Adds the settings of a catalog agent and of a checkpoint; the command line takes precedence.
async fn dressed(
    console: &mut Console,
    client: &Client,
    campaign: &str,
    mut args: SessionCreateArgs,
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
                let model = (!character.model.is_empty()).then_some(character.model);
                args.model = args.model.or(model);
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
        let config = args.config.get_or_insert_default();
        told.extend(config.remove(PROMPT_KEY));
        config.insert(PROMPT_KEY.to_owned(), told.join("\n\n"));
    }
    Ok(args)
}

/// Creates a session.
pub(in crate::commands) async fn create(client: &Client, plan: Plan) -> Result<local::SessionInfo> {
    let mut request = tonic::Request::new(plan.request);
    if let Some(parent) = &plan.parent {
        let value = MetadataValue::try_from(parent.as_str())
            .map_err(|_| Failure::usage(format!("--parent {parent:?} is no session id")))?;
        request.metadata_mut().insert(PARENT_KEY, value);
    }
    let response = client.daemon().create_session(request).await?.into_inner();
    response.session.ok_or_else(|| Failure::failed("the daemon did not say which session it created"))
}

/// Converts the flags to a request. Flags without a field of their own become provider settings.
fn request(args: SessionCreateArgs, campaign_id: String) -> Result<local::CreateSessionRequest> {
    let mut provider_config: HashMap<String, String> = args.config.unwrap_or_default();
    if let Some(mode) = args.mode {
        provider_config.insert(MODE_KEY.to_owned(), mode.name().to_owned());
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
        provider: provider(args.provider),
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
