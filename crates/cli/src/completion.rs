//! What a shell completes: names of sessions and campaigns, agents, models, codes of errors. Asks a running daemon and
//! never starts one; nothing is offered where it does not answer at once.

use std::future::Future;

use clap::Parser as _;
use clap_complete::CompletionCandidate;
use wire::obey::local::v1::ListSessionsRequest;
use wire::obey::v1 as pb;

use crate::limits;
use cli_args::Global;
use client::caller_environment;
use client::connection::Client;
use client::names;
use client::resolve;
use config::failure::Result;
use terminal::console::{Autostart, Console};
use terminal::input::Interrupts;

/// Only the socket matters for completion.
#[derive(clap::Parser)]
#[command(no_binary_name = true, ignore_errors = true, disable_help_flag = true)]
struct Words {
    #[command(flatten)]
    global: Global,
}

/// Sessions by name and id; the ones that live first.
pub(crate) fn sessions() -> Vec<CompletionCandidate> {
    asked(|client, _| async move {
        let request = ListSessionsRequest { include_terminated: true, ..Default::default() };
        let mut sessions = client.daemon().list_sessions(request).await?.into_inner().sessions;
        let has_ended = |status| names::status(status).is_none_or(|status| status.is_terminal());
        sessions.sort_by_key(|session| has_ended(session.status));
        let help = |session: &wire::obey::local::v1::SessionInfo| {
            let status = names::status_name(session.status).to_lowercase();
            Some(format!("{} {status}", names::provider(session.provider)).into())
        };
        Ok(sessions
            .iter()
            .filter(|session| !session.agent_name.is_empty())
            .map(|session| CompletionCandidate::new(&session.agent_name).help(help(session)))
            .collect())
    })
}

/// Campaigns by name.
pub(crate) fn campaigns() -> Vec<CompletionCandidate> {
    asked(|client, _| async move {
        let campaigns = resolve::campaigns(&client).await?;
        let candidate =
            |campaign: pb::Campaign| CompletionCandidate::new(campaign.name).help(Some(campaign.path.into()));
        Ok(campaigns.into_iter().map(candidate).collect())
    })
}

/// Agents that are installed.
pub(crate) fn agents() -> Vec<CompletionCandidate> {
    asked(|client, path| async move {
        let request = pb::ListInstalledAgentsRequest { path };
        let known = client.installed_agents().list_installed_agents(request).await?.into_inner();
        let usable = known.agents.into_iter().filter(|agent| agent.state != "missing");
        Ok(usable
            .map(|agent| CompletionCandidate::new(agent.name).help(Some(agent.version.into())))
            .collect())
    })
}

/// Models that are known without asking an agent.
pub(crate) fn models() -> Vec<CompletionCandidate> {
    asked(|client, path| async move {
        let request = pb::ListInstalledAgentsRequest { path };
        let known = client.installed_agents().list_installed_agents(request).await?.into_inner();
        let of_agent = |agent: pb::InstalledAgent| {
            let name = agent.name;
            agent
                .models
                .into_iter()
                .map(move |model| CompletionCandidate::new(model).help(Some(name.clone().into())))
        };
        Ok(known.agents.into_iter().flat_map(of_agent).collect())
    })
}

/// Codes of errors with their titles.
pub(crate) fn error_codes() -> Vec<CompletionCandidate> {
    let candidate =
        |code: &domain::ErrorCode| CompletionCandidate::new(code.to_string()).help(Some(code.title().into()));
    domain::ErrorCode::ALL.iter().map(candidate).collect()
}

/// Asks the daemon of the command line that is being completed.
fn asked<F>(question: impl FnOnce(Client, String) -> F) -> Vec<CompletionCandidate>
where
    F: Future<Output = Result<Vec<CompletionCandidate>>>,
{
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return Vec::new();
    };
    let words: Vec<_> = std::env::args_os().skip_while(|word| word != "--").skip(2).collect();
    let global = Words::try_parse_from(words).map(|words| words.global).unwrap_or_default();
    let (interrupts, _signals) = Interrupts::of_process();
    let mut console = Console::of_process(global, interrupts);
    let path = caller_environment::path(&console.vars);
    runtime.block_on(async {
        let answer = async {
            let client = console.connect_with(Autostart::Never).await?;
            question(client, path).await
        };
        // A shell waits for this: what fails or takes long completes nothing.
        tokio::time::timeout(limits::COMPLETION_WAIT, answer)
            .await
            .map_or_else(|_| Vec::new(), |answer| answer.unwrap_or_default())
    })
}
