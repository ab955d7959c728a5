//! Campaigns: registered project roots, and the reports about them and their festivals. Owns their rules and
//! checks; the rows belong to `storage::campaigns`.

mod pin;
mod registry;

use std::path::{Path, PathBuf};

use domain::{Error, ErrorCode, Mode, SessionSpec};
use pin::RootPin;

use host::{clock, ids};
use storage::campaigns::{self, CampaignChange, CampaignReport, CampaignRow, FestivalRow, ReportOutcome};
use storage::{Durability, Store};

/// The campaigns of this daemon.
#[derive(Clone)]
pub struct Campaigns {
    store: Store,
    /// The mode of sessions created without one where their campaign names none.
    default_mode: Mode,
}

/// The fields of a campaign to add. An empty text means the default.
#[derive(Clone, Debug, Default)]
pub struct NewCampaign {
    pub id: String,
    pub name: String,
    pub path: String,
    pub description: String,
    /// Whether secrets are taken out of the events of its sessions; nothing: as it was.
    pub scrub: Option<bool>,
    /// The mode of its sessions that are created without one; nothing: as it was.
    pub mode: Option<Option<Mode>>,
}

impl Campaigns {
    pub fn new(store: Store) -> Self {
        Self { store, default_mode: Mode::default() }
    }

    pub fn with_default_mode(self, default_mode: Mode) -> Self {
        Self { default_mode, ..self }
    }

    /// Returns the mode of a session that is created without one.
    pub fn mode_of(&self, campaign: Option<&CampaignRow>) -> Mode {
        campaign.and_then(|campaign| campaign.mode).unwrap_or(self.default_mode)
    }

    /// Registers a root, or updates the campaign that already has this id or path.
    pub async fn add(&self, new: NewCampaign) -> Result<CampaignRow, Error> {
        let root = resolve_root(Path::new(&new.path))
            .map_err(|error| Error::invalid("path", error.message.trim_start_matches("path: ")))?;
        let Some(path) = root.to_str().map(str::to_owned) else {
            return Err(Error::invalid("path", "is not valid UTF-8"));
        };
        let folder = root.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        let name = if new.name.is_empty() { folder } else { new.name };
        check_name(&name)?;
        let root_pin = RootPin::of(&root).map_err(|error| replaced(&root, &error.to_string()))?.text();
        let now = clock::now();
        self.store
            .write(Durability::Synced, move |connection| {
                let known = match campaigns::find_by_path(connection, &path)? {
                    Some(known) => Some(known),
                    None if new.id.is_empty() => None,
                    None => campaigns::find(connection, &new.id)?.filter(|known| known.id == new.id),
                };
                if let Some(other) = campaigns::find(connection, &name)?
                    && known.as_ref().is_none_or(|known| known.id != other.id)
                {
                    return Ok(Err(name_taken(&name, &other)));
                }
                let row = CampaignRow {
                    id: known.as_ref().map_or_else(|| new_id(&new.id), |known| known.id.clone()),
                    name,
                    path,
                    description: new.description,
                    created_at: known.as_ref().map_or(now, |known| known.created_at),
                    updated_at: now,
                    root_pin,
                    scrub: new.scrub.or(known.as_ref().and_then(|known| known.scrub)),
                    mode: new.mode.unwrap_or(known.and_then(|known| known.mode)),
                };
                campaigns::put(connection, &row)?;
                Ok(Ok(row))
            })
            .await?
    }

    /// Changes settings for sessions created from now on.
    pub async fn change(&self, id_or_name: &str, change: CampaignChange) -> Result<CampaignRow, Error> {
        let id = self.find(id_or_name).await?.id;
        let at = clock::now();
        let changed = self
            .store
            .write(Durability::Synced, move |connection| campaigns::change(connection, &id, change, at))
            .await?;
        changed.ok_or_else(|| not_found(id_or_name))
    }

    /// Returns a campaign by id or name, or OBEY-2001.
    pub async fn find(&self, id_or_name: &str) -> Result<CampaignRow, Error> {
        let wanted = id_or_name.to_owned();
        let found = self.store.read(move |connection| campaigns::find(connection, &wanted)).await?;
        if let Some(found) = found {
            return Ok(found);
        }
        let registered = registry::campaigns();
        match registered.into_iter().find(|new| new.id == id_or_name || new.name == id_or_name) {
            Some(new) => self.add(new).await,
            None => Err(not_found(id_or_name)),
        }
    }

    /// Returns the root of a campaign if it is still the folder that was registered. A campaign from a
    /// version without pins is pinned to the folder found first.
    pub async fn root(&self, campaign: &CampaignRow) -> Result<PathBuf, Error> {
        let path = Path::new(&campaign.path);
        let root = resolve_root(path)?;
        if root != path {
            return Err(replaced(path, "a link has taken its place, or that of a folder above it"));
        }
        let now = RootPin::of(&root).map_err(|error| replaced(path, &error.to_string()))?;
        match RootPin::parse(&campaign.root_pin) {
            Some(pin) if pin.is_same(&now) => Ok(root),
            Some(_) => Err(replaced(path, "another folder has taken its place")),
            None => {
                let (id, text) = (campaign.id.clone(), now.text());
                self.store
                    .write(Durability::Synced, move |connection| campaigns::pin(connection, &id, &text))
                    .await?;
                Ok(root)
            }
        }
    }

    /// Checks, before an agent starts, that the folders of its session are still those it was created with.
    pub async fn check_folders(&self, spec: &SessionSpec) -> Result<(), Error> {
        if let Some(id) = &spec.campaign_id {
            let id = id.as_str().to_owned();
            let found = self.store.read(move |connection| campaigns::find(connection, &id)).await?;
            // A campaign that was removed meanwhile cannot say which folder was registered.
            if let Some(campaign) = found.filter(|campaign| Path::new(&campaign.path) == spec.root) {
                self.root(&campaign).await?;
            }
        }
        match spec.working_dir.canonicalize() {
            Ok(real) if real != spec.working_dir => {
                Err(replaced(&spec.working_dir, "a link has taken its place, or that of a folder above it"))
            }
            // A missing folder is reported by the start itself.
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Returns every campaign by name, including those in the `camp` registry.
    pub async fn list(&self) -> Result<Vec<CampaignRow>, Error> {
        let known = self.store.read(campaigns::list).await?;
        let new: Vec<NewCampaign> = registry::campaigns()
            .into_iter()
            .filter(|new| !known.iter().any(|known| known.id == new.id || known.path == new.path))
            .collect();
        if new.is_empty() {
            return Ok(known);
        }
        for new in new {
            let name = new.name.clone();
            if let Err(error) = self.add(new).await {
                tracing::debug!(name, %error, "a campaign of the camp registry cannot be used");
            }
        }
        self.store.read(campaigns::list).await
    }

    /// Returns the campaign whose root contains a folder; the innermost if there are several.
    pub async fn containing(&self, folder: &Path) -> Result<Option<CampaignRow>, Error> {
        let holding = self.list().await?.into_iter().filter(|campaign| folder.starts_with(&campaign.path));
        Ok(holding.max_by_key(|campaign| campaign.path.len()))
    }

    /// Removes a campaign. One with running sessions is kept.
    pub async fn remove(&self, id_or_name: &str) -> Result<CampaignRow, Error> {
        let campaign = self.find(id_or_name).await?;
        let id = campaign.id.clone();
        let active = self
            .store
            .write(Durability::Synced, move |connection| {
                let active = campaigns::active_sessions(connection, &id)?;
                if active == 0 {
                    campaigns::remove(connection, &id)?;
                }
                Ok(active)
            })
            .await?;
        if active > 0 {
            return Err(Error::new(
                ErrorCode::WrongState,
                format!("campaign {} has {active} running sessions; stop them first", campaign.name),
            ));
        }
        Ok(campaign)
    }

    /// Returns how many sessions of a campaign have not ended.
    pub async fn active_sessions(&self, id: &str) -> Result<i32, Error> {
        let id = id.to_owned();
        self.store.read(move |connection| campaigns::active_sessions(connection, &id)).await
    }

    /// Stores a report, unless the same report arrived a moment ago.
    pub async fn report(
        &self,
        report: CampaignReport,
        festival: Option<FestivalRow>,
    ) -> Result<ReportOutcome, Error> {
        self.store
            .write(Durability::Synced, move |connection| {
                let entity = match &festival {
                    Some(festival) => format!("festival:{}:{}", festival.campaign_id, festival.id),
                    None => format!("campaign:{}", report.campaign_id),
                };
                let stored = campaigns::report(connection, &entity, &report)?;
                if let (false, Some(festival)) = (stored.repeated, &festival) {
                    campaigns::put_festival(connection, festival)?;
                }
                Ok(stored)
            })
            .await
    }

    /// Returns the festivals of one campaign or of all.
    pub async fn festivals(&self, campaign_id: Option<String>) -> Result<Vec<FestivalRow>, Error> {
        self.store.read(move |connection| campaigns::festivals(connection, campaign_id.as_deref())).await
    }
}

fn new_id(asked: &str) -> String {
    if asked.is_empty() { ids::campaign().as_str().to_owned() } else { asked.to_owned() }
}

fn check_name(name: &str) -> Result<(), Error> {
    if name.is_empty() || name.chars().count() > domain::limits::NAME_MAX_CHARS {
        return Err(Error::invalid("name", "must have 1 to 200 characters"));
    }
    if name.chars().any(char::is_control) {
        return Err(Error::invalid("name", "contains control characters"));
    }
    Ok(())
}

fn name_taken(name: &str, other: &CampaignRow) -> Error {
    Error::invalid("name", format_args!("{name:?} is the campaign at {} already; choose another", other.path))
}

fn replaced(path: &Path, what: &str) -> Error {
    let message = format!(
        "path: {} is not the folder that was registered: {what}; look at it, then register it anew with \
         `obey campaign add {}`",
        path.display(),
        path.display()
    );
    Error::new(ErrorCode::SandboxFailed, message)
}

fn not_found(id_or_name: &str) -> Error {
    Error::new(
        ErrorCode::CampaignNotFound,
        format!(
            "campaign_id: there is no campaign {id_or_name:?}; register it with `obey campaign add PATH`"
        ),
    )
}

/// Checks that a root is a folder owned by this user and not one that contains everything. Returns it with
/// links resolved.
pub fn resolve_root(root: &Path) -> Result<PathBuf, Error> {
    use std::os::unix::fs::MetadataExt;
    let failed = |what: String| Error::new(ErrorCode::SandboxFailed, format!("path: {what}"));
    if !root.is_absolute() {
        return Err(failed(format!("{} is not absolute", root.display())));
    }
    let resolved =
        root.canonicalize().map_err(|error| failed(format!("{} cannot be used: {error}", root.display())))?;
    let metadata = resolved
        .metadata()
        .map_err(|error| failed(format!("{} cannot be used: {error}", resolved.display())))?;
    if !metadata.is_dir() {
        return Err(failed(format!("{} is not a folder", resolved.display())));
    }
    let home = std::env::var_os("HOME").map(PathBuf::from).and_then(|home| home.canonicalize().ok());
    if resolved == Path::new("/") || Some(&resolved) == home.as_ref() {
        return Err(failed(format!(
            "{} holds more than one project; name a folder in it",
            resolved.display()
        )));
    }
    if metadata.uid() != host::own_uid() {
        return Err(failed(format!("{} belongs to another user", resolved.display())));
    }
    Ok(resolved)
}
