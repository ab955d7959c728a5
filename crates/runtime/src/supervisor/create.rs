//! Creates sessions: all checks before anything exists, then the record, then the agent.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use domain::limits::{CONFIG_ENTRIES_MAX, CONFIG_VALUE_MAX_BYTES, NAME_MAX_CHARS, PROMPT_MAX_BYTES};
use domain::resources::Enforcement;
use domain::{
    CampaignId, Command, Containment, Error, ErrorCode, EventKind, Machine, Mode, ProviderKind, Resource,
    ResourceLimits, SessionId, SessionSpec, Status, Timestamp, WhenBusy,
};

use super::create_once::{take_budget, take_workers, working_dir};
use super::names::{WhenTaken, short_name};
use super::{NewSession, Supervisor};
use crate::campaign;
use crate::session::{ActorStart, Snapshot, audited};
use crate::worktree::{HookChoice, SessionTree, Worktree, folder_below};
use agent_port::environment;
use host::{clock, ids};
use storage::campaigns::CampaignRow;
use storage::client_keys::KeptKey;
use storage::sessions::{self, SessionWrite, StateColumns, StoredEvent};
use storage::{Durability, SessionRow, SpoolMark};

/// A key of `provider_config` that is common to all providers; it never reaches the provider itself.
const DIR_KEY: &str = "workdir";

/// The same: what a session without a name is called after.
const NAME_PROMPT_KEY: &str = "name_prompt";

impl Supervisor {
    /// Creates a session, starts its agent and waits until that is ready. A session whose agent fails to
    /// start stays on record as FAILED.
    pub async fn create(&self, new: NewSession) -> Result<Arc<Snapshot>, Error> {
        self.create_prepared(new, Vec::new()).await
    }

    /// Like `create`, but runs these commands before the agent starts, so that the agent finds them done.
    pub async fn create_prepared(
        &self,
        new: NewSession,
        first_of_all: Vec<Command>,
    ) -> Result<Arc<Snapshot>, Error> {
        self.create_as(new, first_of_all, Vec::new(), None, WhenTaken::Number).await
    }

    /// Creates a session under an id that was chosen before. Nothing starts it, and it is durable with what is written next.
    pub(crate) async fn create_unstarted(
        &self,
        new: NewSession,
        id: SessionId,
        mut first_of_all: Vec<Command>,
    ) -> Result<(Arc<Snapshot>, Option<Worktree>), Error> {
        let (mut spec, made) = self.prepare(new, &mut first_of_all).await?;
        spec.id = id.clone();
        let row = match self.insert_named(spec, Vec::new(), None, WhenTaken::Number, Durability::Soon).await {
            Ok(Some(row)) => row,
            not_inserted => {
                if let Some(made) = made {
                    self.worktrees().undo_for_session(&made).await;
                }
                not_inserted?;
                return Err(Error::new(
                    ErrorCode::CreateFailed,
                    "the session could not be created; try again",
                ));
            }
        };
        let handle = self.spawn_actor(row, ActorStart::Idle);
        for command in first_of_all {
            if let Err(error) = self.command(&id, command).await {
                self.delete(&id).await?;
                return Err(error);
            }
        }
        Ok((handle.snapshot(), made))
    }

    /// Checks a new session and makes its spec, and its working tree if it wants one. Adds what is to be done first.
    pub(super) async fn prepare(
        &self,
        mut new: NewSession,
        first_of_all: &mut Vec<Command>,
    ) -> Result<(SessionSpec, Option<Worktree>), Error> {
        check_texts(&new)?;
        environment::check(&new.environment)?;
        let change = take_budget(&mut new.provider_config)?;
        if !change.is_unlimited() {
            first_of_all.push(Command::SetBudget { change, by: new.by.clone() });
        }
        let named_after = new.provider_config.remove(NAME_PROMPT_KEY).unwrap_or_default();
        if new.name.is_empty() {
            new.name = short_name(&self.name_after(&named_after).unwrap_or_default()).to_owned();
        }
        let mut wanted = SessionTree::take(&mut new.provider_config)?;
        let mut prompt = String::new();
        if let Some(wanted) = &mut wanted {
            prompt = self.name_after(&new.initial_message).unwrap_or_default();
            wanted.prompt = self.name_after(&wanted.prompt).unwrap_or_default();
        }
        let mut spec = self.resolve(new).await?;
        self.providers().get(spec.provider)?.check(&spec)?;
        self.learn_campaign_name(&spec).await?;
        // The tree comes last: a session that is refused leaves none behind.
        let made = match wanted {
            Some(wanted) => self.move_into_tree(&mut spec, &wanted, &prompt).await?,
            None => None,
        };
        Ok((spec, made))
    }

    /// Moves a session into its own working tree; returns the tree if it was made for it.
    async fn move_into_tree(
        &self,
        spec: &mut SessionSpec,
        wanted: &SessionTree,
        prompt: &str,
    ) -> Result<Option<Worktree>, Error> {
        let hook = if spec.containment.sandbox.is_some() { HookChoice::Never } else { HookChoice::IfAllowed };
        let folder = self.worktrees().for_session(&spec.root, wanted, prompt, hook).await?;
        // The folder below the root that was asked for is the same one in the tree, if it has it.
        let below = spec.working_dir.strip_prefix(&spec.root).map(|below| folder_below(&folder.root, below));
        spec.working_dir = below.ok().filter(|below| below.is_dir()).unwrap_or_else(|| folder.root.clone());
        spec.root = folder.root;
        Ok(folder.made)
    }

    /// Resolves folders, containment, mode and name of a new session into its spec.
    pub(super) async fn resolve(&self, mut new: NewSession) -> Result<SessionSpec, Error> {
        let place = self.place(&new.campaign, &new.directory).await?;
        let parent = match &new.parent {
            Some(parent) => Some(self.snapshot(parent).await?),
            None => None,
        };
        let containment = self.contained(&place, &mut new, parent.as_deref())?;
        if new.mode.is_some() {
            new.provider_config.remove(Mode::CONFIG_KEY);
        }
        let mode = new.mode.or(take_mode(&mut new.provider_config)?).unwrap_or(place.mode);
        let workers = take_workers(&mut new.provider_config)?;
        let workers = workers.unwrap_or_else(|| self.worker_context().limits().for_agents);
        let SessionFolder { campaign_id, root, folder, scrub, .. } = place;
        let working_dir = working_dir(&folder, new.provider_config.remove(DIR_KEY))?;
        let mut environment = new.caller_environment;
        environment.extend(new.environment);
        let parent_spec = parent.as_deref().map(|parent| &parent.spec);
        crate::collections::take(&mut new.provider_config, &mut environment, parent_spec)?;
        let id = ids::session();
        let name = if new.name.is_empty() {
            format!("{}-{}", new.provider.name(), ids::short(&id))
        } else {
            new.name
        };
        Ok(SessionSpec {
            id,
            campaign_id,
            provider: new.provider,
            model: new.model,
            name,
            festival_id: new.festival_id,
            task_id: new.task_id,
            parent: new.parent,
            root,
            working_dir,
            provider_config: new.provider_config,
            environment,
            max_tokens: new.max_tokens,
            timeout: new.timeout,
            mode,
            launch: new.launch,
            timeouts: new.timeouts,
            containment,
            scrub,
            workers,
            created_at: clock::now(),
        })
    }

    /// Returns how a session's agent is contained: at least as strictly as the configuration and the parent
    /// session demand.
    fn contained(
        &self,
        place: &SessionFolder,
        new: &mut NewSession,
        parent: Option<&Snapshot>,
    ) -> Result<Containment, Error> {
        let id = place.campaign_id.as_ref().map_or("", |id| id.as_str());
        let mut demanded = self.containment().demands(new.provider, &[id, &place.campaign_name]);
        // `None` (no sandbox) is the least strict and compares lowest.
        demanded.sandbox = demanded.sandbox.max(parent.and_then(|parent| parent.spec.containment.sandbox));
        let asked = ResourceLimits::take(&mut new.provider_config)?;
        self.check_enforceable(&asked, new.provider)?;
        let most = parent.map(|parent| parent.spec.containment.limits).unwrap_or_default();
        let campaign = [id, &place.campaign_name];
        demanded.limits = self.containment().limits.decide(asked, new.provider, &campaign, most)?;
        demanded.take(&mut new.provider_config)
    }

    /// Refuses limits that were asked for and that nothing here would enforce.
    fn check_enforceable(&self, asked: &ResourceLimits, provider: ProviderKind) -> Result<(), Error> {
        for resource in Resource::ALL.into_iter().filter(|resource| asked.get(*resource).is_some()) {
            let has_process = self.providers().get(provider)?.capabilities().process;
            let enforcement = self.inner.services.groups.enforcement_of(resource);
            let why = if !has_process {
                format!("an agent of {} has no process of its own; leave it out", provider.name())
            } else if enforcement == Enforcement::None {
                "this machine gives the daemon no control group for it and the kernel does not count the processes of root; \
                 run the daemon where control groups are delegated to it (`obey service install`), or leave it out"
                    .to_owned()
            } else {
                continue;
            };
            let message = format!("provider_config.{}: cannot be enforced: {why}", resource.key());
            return Err(Error::new(ErrorCode::SandboxFailed, message));
        }
        Ok(())
    }

    /// Returns the mode of a session that is created in a folder without one.
    pub async fn default_mode_in(&self, directory: &str) -> Result<Mode, Error> {
        self.place("", directory).await.map(|place| place.mode)
    }

    /// Finds where a session works and which campaign it belongs to.
    async fn place(&self, campaign: &str, directory: &str) -> Result<SessionFolder, Error> {
        if !campaign.is_empty() {
            let campaign = self.campaigns().find(campaign).await?;
            let root = self.campaigns().root(&campaign).await?;
            return Ok(SessionFolder {
                mode: self.campaigns().mode_of(Some(&campaign)),
                campaign_id: Some(CampaignId::new(campaign.id)),
                campaign_name: campaign.name,
                folder: root.clone(),
                root,
                scrub: campaign.scrub,
            });
        }
        let folder = campaign::resolve_root(Path::new(directory))?;
        let containing = self.campaigns().containing(&folder).await?;
        // A worktree belongs to the campaign of its repository, but has a root of its own.
        if containing.is_none()
            && let Some(campaign) = self.campaign_of_tree(&folder).await?
        {
            return Ok(SessionFolder {
                mode: self.campaigns().mode_of(Some(&campaign)),
                campaign_id: Some(CampaignId::new(campaign.id)),
                campaign_name: campaign.name,
                root: folder.clone(),
                folder,
                scrub: campaign.scrub,
            });
        }
        Ok(match containing {
            Some(campaign) => SessionFolder {
                root: self.campaigns().root(&campaign).await?,
                mode: self.campaigns().mode_of(Some(&campaign)),
                campaign_id: Some(CampaignId::new(campaign.id)),
                campaign_name: campaign.name,
                folder,
                scrub: campaign.scrub,
            },
            None => SessionFolder {
                mode: self.campaigns().mode_of(None),
                campaign_id: None,
                campaign_name: String::new(),
                root: folder.clone(),
                folder,
                scrub: None,
            },
        })
    }

    /// Returns the campaign of the repository whose worktree a folder lies in.
    async fn campaign_of_tree(&self, folder: &Path) -> Result<Option<CampaignRow>, Error> {
        match self.worktrees().main_of(folder).await? {
            Some(main) => self.campaigns().containing(&main).await,
            None => Ok(None),
        }
    }

    /// Stores the record, the first event of the journal and what happened before, in one transaction.
    pub(super) async fn insert(
        &self,
        spec: SessionSpec,
        history: Vec<(Timestamp, EventKind)>,
        client_key: Option<KeptKey>,
        durability: Durability,
    ) -> Result<SessionRow, Error> {
        let created = EventKind::SessionCreated {
            provider: spec.provider,
            model: spec.model.clone(),
            name: spec.name.clone(),
            working_dir: spec.working_dir.display().to_string(),
            mode: spec.mode,
        };
        let (at, mut state) = (spec.created_at, Machine::new(spec.clone()).state().clone());
        history.iter().for_each(|(at, kind)| state.evolve(*at, kind));
        let last_seq = 1 + history.len() as u64;
        let (stored_spec, stored_state) = (spec.clone(), state.clone());
        let (audit, entry) = (self.audit(), audited::entry(&spec.id, at, &created));
        let writer = audit.clone();
        let (key, head) = self
            .store()
            .write(durability, move |connection| {
                let key = sessions::insert(connection, &stored_spec, &stored_state)?;
                let first = std::iter::once((at, created));
                let events = first.chain(history).zip(1..).map(|((at, kind), seq)| StoredEvent {
                    seq,
                    at,
                    body: sessions::json(&kind),
                });
                let write = SessionWrite {
                    key,
                    events: events.collect(),
                    last_seq,
                    last_activity_at: stored_state.last_activity_at,
                    state: Some(Box::new(StateColumns::of(&stored_spec, &stored_state, 0, 1))),
                    client_key: client_key.clone(),
                    ..SessionWrite::default()
                };
                sessions::write(connection, &write)?;
                Ok((key, writer.append_within(connection, entry.as_slice())?))
            })
            .await?;
        audit.noted(head);
        Ok(SessionRow {
            key,
            last_seq,
            spec,
            state,
            run: 0,
            codec: String::new(),
            spool: SpoolMark::default(),
            next_write_id: 1,
            seen_at: None,
        })
    }
}

/// The folder of a session.
struct SessionFolder {
    campaign_id: Option<CampaignId>,
    campaign_name: String,
    root: PathBuf,
    folder: PathBuf,
    /// The mode of a session that names none.
    mode: Mode,
    /// Whether its campaign says that secrets are taken out of events.
    scrub: Option<bool>,
}

pub(super) fn first_command(new: &NewSession) -> Command {
    if new.initial_message.is_empty() {
        return Command::Start;
    }
    Command::Prompt {
        text: new.initial_message.clone(),
        attachments: Vec::new(),
        when_busy: WhenBusy::Refuse,
        by: new.by.clone(),
    }
}

/// Removes the mode from the provider's settings; it is not the provider's.
pub(super) fn take_mode(config: &mut BTreeMap<String, String>) -> Result<Option<Mode>, Error> {
    let Some(text) = config.remove(Mode::CONFIG_KEY) else { return Ok(None) };
    match Mode::parse(&text) {
        Some(mode) => Ok(Some(mode)),
        None => Err(Error::invalid(
            "provider_config.permission_mode",
            format_args!("{text:?} is not a mode; use supervised, autonomous, plan or acceptEdits"),
        )),
    }
}

/// Converts a failed start into the caller's error.
pub(super) fn check_started(started: &Snapshot) -> Result<(), Error> {
    if started.state.status != Status::Failed {
        return Ok(());
    }
    let code = started.state.error_code.unwrap_or(ErrorCode::CreateFailed);
    let text = code.sentence(&started.state.error);
    Err(Error::new(code, format!("{text} (session {})", started.spec.id)))
}

/// Checks a name or another short text.
pub(super) fn check_short(field: &str, text: &str) -> Result<(), Error> {
    if text.chars().count() > NAME_MAX_CHARS {
        return Err(Error::invalid(field, format_args!("is longer than {NAME_MAX_CHARS} characters")));
    }
    if text.chars().any(char::is_control) {
        return Err(Error::invalid(field, "contains control characters"));
    }
    Ok(())
}

/// Checks the sizes and characters of all texts in a request.
fn check_texts(new: &NewSession) -> Result<(), Error> {
    let short = [
        ("agent_name", &new.name),
        ("model", &new.model),
        ("festival_id", &new.festival_id),
        ("task_id", &new.task_id),
    ];
    for (field, text) in short {
        check_short(field, text)?;
    }
    if new.initial_message.len() > PROMPT_MAX_BYTES {
        return Err(Error::invalid(
            "initial_message",
            format_args!("is {} bytes long; the limit is {PROMPT_MAX_BYTES}", new.initial_message.len()),
        ));
    }
    for (field, map) in [("provider_config", &new.provider_config), ("environment", &new.environment)] {
        if map.len() > CONFIG_ENTRIES_MAX {
            return Err(Error::invalid(field, format_args!("has more than {CONFIG_ENTRIES_MAX} entries")));
        }
        if let Some((key, _)) = map.iter().find(|(_, value)| value.len() > CONFIG_VALUE_MAX_BYTES) {
            let limit = CONFIG_VALUE_MAX_BYTES;
            return Err(Error::invalid(field, format_args!("{key} is longer than {limit} bytes")));
        }
    }
    Ok(())
}
