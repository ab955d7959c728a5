//! New sessions: what they can be made of on a machine, and making one. A folder that is no campaign yet becomes one with its first
//! session.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use client::caller_environment;
use client::names;
use config::failure::{Failure, Result};
use domain::ProviderKind;
use tokio::sync::mpsc;
use wire::obey::local::v1 as local;
use wire::obey::v1 as pb;

use super::{DaemonSettings, SessionHomes, note_homes, sending};
use crate::data::{Campaign, NewSession, Update};

/// Keys of `provider_config`: the mode; the tree, where an empty name is that of the first message; the agent of the provider `acp`;
/// and the parts of a budget.
const MODE_KEY: &str = "permission_mode";
const WORKTREE_KEY: &str = "worktree";
const AGENT_KEY: &str = "agent";
const BUDGET_USD_KEY: &str = "budget_usd";
const BUDGET_TOKENS_KEY: &str = "budget_tokens";

/// Creates a session, and remembers on which machine it is.
pub(super) async fn create(
    settings: Arc<DaemonSettings>,
    homes: SessionHomes,
    new: NewSession,
    updates: mpsc::Sender<Update>,
) {
    let machine = Some(new.machine.clone()).filter(|name| !name.is_empty());
    let update = match try_create(&settings, new).await {
        Ok(session) => {
            note_homes(&homes, std::iter::once(session.as_str()), machine.as_deref());
            Update::Created { session }
        }
        Err(failure) => Update::CreateFailed { why: failure.for_people() },
    };
    // A screen that is gone needs nothing.
    let _gone = updates.send(update).await;
}

async fn try_create(settings: &DaemonSettings, new: NewSession) -> Result<String> {
    let mut campaign = new.campaign;
    if campaign.id.is_empty() {
        let request = pb::AddCampaignRequest { path: campaign.path, ..Default::default() };
        let added = settings.client.campaigns().add_campaign(request).await?.into_inner();
        campaign = Campaign { id: added.id, name: added.name, path: added.path };
    }
    let provider = ProviderKind::ALL.into_iter().find(|kind| kind.name() == new.agent);
    let mut request = local::CreateSessionRequest {
        campaign_id: campaign.id,
        provider: names::provider_number(provider.unwrap_or(ProviderKind::Acp)).into(),
        model: new.model,
        agent_name: new.name.clone(),
        initial_message: new.message.clone(),
        ..local::CreateSessionRequest::default()
    };
    let mut set = |key: &str, value: String| request.provider_config.insert(key.to_owned(), value);
    if provider.is_none() {
        set(AGENT_KEY, new.agent);
    }
    if new.name.is_empty() && !new.message.is_empty() {
        set(names::NAME_PROMPT_KEY, names::beginning(&new.message).to_owned());
    }
    if !new.mode.is_empty() {
        set(MODE_KEY, new.mode);
    }
    if new.worktree {
        set(WORKTREE_KEY, new.name);
    }
    if let Some(micro) = new.budget.cost_micro_usd {
        set(BUDGET_USD_KEY, (micro as f64 / 1_000_000.0).to_string());
    }
    if let Some(tokens) = new.budget.tokens {
        set(BUDGET_TOKENS_KEY, tokens.to_string());
    }
    let session = client::creating::create(&settings.client, request, None, settings.vars.as_ref()).await?;
    if names::status(session.status) == Some(domain::Status::Failed) {
        return Err(Failure::failed(session.error_message));
    }
    Ok(session.id)
}

/// Tells the screen what a session can be made of.
pub(super) async fn choices(settings: Arc<DaemonSettings>, machine: String, updates: mpsc::Sender<Update>) {
    let update = try_choices(&settings, machine).await;
    let _gone = updates.send(update.unwrap_or_else(sending::failed)).await;
}

async fn try_choices(settings: &DaemonSettings, machine: String) -> Result<Update> {
    let request = pb::ListCampaignsRequest {};
    let listed = settings.client.campaigns().list_campaigns(request).await?.into_inner().campaigns;
    let mut campaigns: Vec<Campaign> = listed
        .into_iter()
        .map(|campaign| Campaign { id: campaign.id, name: campaign.name, path: campaign.path })
        .collect();
    let mut current = None;
    // Folders of this machine mean nothing on another one.
    if machine.is_empty() {
        let around = campaigns.iter().filter(|campaign| settings.folder.starts_with(&campaign.path));
        current = around.max_by_key(|campaign| campaign.path.len()).cloned();
        if current.is_none()
            && let Some(new) = new_campaign(&settings.folder, settings.home.as_deref())
        {
            campaigns.insert(0, new.clone());
            current = Some(new);
        }
    }
    Ok(Update::Choices { machine, campaigns, agents: agents(settings).await, current })
}

/// Returns the project around a folder as a campaign that is not registered: its repository, else the folder. `None` for a linked
/// working tree, which belongs to its repository's campaign, and where an agent would see the home folder or everything.
fn new_campaign(folder: &Path, home: Option<&Path>) -> Option<Campaign> {
    let root = folder.ancestors().find(|folder| folder.join(".git").exists()).unwrap_or(folder);
    let is_home = home.is_some_and(|home| home == root);
    if is_home || root.parent().is_none() || root.join(".git").is_file() {
        return None;
    }
    let name = root.file_name()?.to_string_lossy().into_owned();
    Some(Campaign { id: String::new(), name, path: root.display().to_string() })
}

/// Returns the agents that are installed as a session of this caller finds them, the default one first; all where the daemon does
/// not say.
async fn agents(settings: &DaemonSettings) -> Vec<String> {
    // An external agent is started elsewhere, and one of the Agent Client Protocol goes by its own name.
    let is_offered = |kind: &ProviderKind| !matches!(kind, ProviderKind::External | ProviderKind::Acp);
    let all =
        || ProviderKind::ALL.into_iter().filter(is_offered).map(|kind| kind.name().to_owned()).collect();
    let path = settings.vars.as_ref().map(caller_environment::path).unwrap_or_default();
    let mut service = settings.client.installed_agents();
    let asked = service.list_installed_agents(pb::ListInstalledAgentsRequest { path });
    let Ok(answered) = asked.await else { return all() };
    let pb::ListInstalledAgentsResponse { agents, default_agent } = answered.into_inner();
    let found = agents.into_iter().filter(|agent| agent.state != "missing").map(|agent| agent.name);
    let mut found: Vec<String> = found.collect();
    found.sort_by_key(|name| *name != default_agent);
    if found.is_empty() { all() } else { found }
}

/// Returns the folder of a person as the daemon knows it.
pub(crate) fn home(var: fn(&str) -> Option<String>) -> Option<PathBuf> {
    let home = PathBuf::from(var("HOME")?);
    Some(home.canonicalize().unwrap_or(home))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_no_campaign_is_offered_by_its_repository() {
        let temp = tempfile::tempdir().unwrap();
        let repository = temp.path().join("shop");
        std::fs::create_dir_all(repository.join(".git")).unwrap();
        std::fs::create_dir_all(repository.join("src/deep")).unwrap();
        let tree = temp.path().join("tree");
        std::fs::create_dir(&tree).unwrap();
        std::fs::write(tree.join(".git"), "gitdir: elsewhere\n").unwrap();
        let offered = |folder: &Path| new_campaign(folder, Some(temp.path())).map(|new| new.name);
        assert_eq!(offered(&repository.join("src/deep")).as_deref(), Some("shop"));
        assert_eq!(offered(&tree), None);
        assert_eq!(offered(temp.path()), None);
        assert_eq!(offered(Path::new("/")), None);
    }
}
