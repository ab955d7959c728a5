//! Commands in a sandbox: namespaces, a root built up from nothing, Landlock, seccomp, limits. Which walls a machine
//! offers is tried at start by trying to get out; where too few hold, commands are refused. Knows nothing of what
//! commands mean; output leaves here as it is, unscrubbed.
//!
//! The walls are built by a process of its own, the *stage*. Stages are made by a *keeper*: this binary, started again with
//! one thread. The daemon and a stage speak over one socket; when the daemon's side closes, the stage kills everything.
//! A sandbox is made as far as that goes without a command, and waits for one (`stages.rs`); each serves one command only.

pub mod agent;
mod cgroup;
mod history_copy;
mod launch;
pub mod limits;
mod order;
mod probe;
mod protect;
mod random;
mod recipe;
mod repository;
pub mod session_group;
mod sockets;
mod stage;
mod stages;
mod sys;
pub mod write_scope;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use domain::{Error, ErrorCode};
use serde::{Deserialize, Serialize};

pub use launch::{CommandEnd, Output, Running};
pub use probe::ProbeFindings;

use history_copy::{HistoryCopies, KeptHistory};
use order::{Order, Plan, StageAction};
use recipe::Recipe;
use repository::RepositoryAccess;
pub use repository::{protected_beside, separate_repository, writable_for_linked_tree};
use session_group::RunLimits;
use stages::Stages;

/// How much stands between a command and the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Tier {
    /// Nothing: only where the daemon's own configuration says that no sandbox is required.
    None,
    /// Too little: commands are refused.
    Refused,
    /// Landlock, seccomp and limits; processes and their names are shared with the machine.
    Landlock,
    /// Namespaces and a root of its own, with Landlock, seccomp and limits behind them.
    Namespaces,
}

impl Tier {
    /// Returns the name answers and audit rows carry.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Refused => "refused",
            Self::Landlock => "landlock",
            Self::Namespaces => "namespaces",
        }
    }

    /// Returns the number of the tier; more is better.
    pub fn level(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Refused => 1,
            Self::Landlock => 2,
            Self::Namespaces => 3,
        }
    }
}

impl std::fmt::Display for Tier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// What a command can reach by network. There is no way out at any setting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Network {
    /// No sockets at all.
    None,
    /// A loopback of its own, that only the command's own processes are on; no sockets where there are no namespaces.
    #[default]
    Loopback,
}

/// What one command may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Processes and threads at a time.
    pub processes: u64,
    pub open_files: u64,
    /// Largest file it may write.
    pub file_bytes: u64,
    /// Memory: of all processes together where control groups are to be had, of each one otherwise.
    pub memory_bytes: u64,
    /// Address space of one process; programs with garbage collection reserve far more than they use.
    pub address_space_bytes: Option<u64>,
    /// Each of the temporary folders, which are memory.
    pub temporary_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        use crate::limits as most;
        Self {
            processes: most::EXEC_PROCESSES_MAX,
            open_files: most::EXEC_OPEN_FILES_MAX,
            file_bytes: most::EXEC_FILE_BYTES_MAX,
            memory_bytes: most::EXEC_MEMORY_BYTES_MAX,
            address_space_bytes: None,
            temporary_bytes: most::EXEC_TEMPORARY_BYTES_MAX,
        }
    }
}

/// How commands are run on this machine. Comes from the daemon's configuration, never from a request or a project.
#[derive(Clone, Debug)]
pub struct Config {
    /// The program and first arguments that lead to [`enter`].
    pub stage: Vec<OsString>,
    /// Folders outside the project that commands may read, such as toolchains.
    pub read_only: Vec<PathBuf>,
    /// Folders outside the project that commands may write, such as a shared build cache.
    pub writable: Vec<PathBuf>,
    /// Names in a project's root that commands must not change, and not make if they are absent.
    pub protected: Vec<OsString>,
    /// What git takes for the system's configuration inside: who commits, where the repository does not say.
    pub git_config: String,
    /// Where folders for temporary files and probes are made.
    pub temporary: PathBuf,
    /// A folder of the daemon's own for copies of what commands could destroy of a repository; without one, nothing of it is
    /// put back.
    pub history_folder: Option<PathBuf>,
    /// Refuse commands where no tier holds. Without this they run unprotected there, and answers say so.
    pub required: bool,
    /// The highest tier to try; lower only in tests.
    pub highest: Tier,
}

/// Names whose files make other tools run code, or hold what agents are allowed to do.
pub const PROTECTED: &[&str] = &[
    ".git",
    ".obey",
    ".claude",
    ".codex",
    ".cursor",
    ".gemini",
    ".vscode",
    ".envrc",
    ".mcp.json",
    ".gitleaks.toml",
];

/// Who commits where nobody says otherwise.
const GIT_CONFIG: &str = "[user]\n\tname = obey\n\temail = obey@localhost\n";

impl Config {
    /// Makes the usual configuration around a stage.
    pub fn new(stage: Vec<OsString>) -> Self {
        Self {
            stage,
            read_only: Vec::new(),
            writable: Vec::new(),
            protected: PROTECTED.iter().map(OsString::from).collect(),
            git_config: GIT_CONFIG.to_owned(),
            temporary: std::env::temp_dir(),
            history_folder: None,
            required: true,
            highest: Tier::Namespaces,
        }
    }
}

/// A command to run.
#[derive(Clone, Debug)]
pub struct Command {
    /// The project's root: an absolute path without links.
    pub root: PathBuf,
    /// Where to start, beneath the root; empty: the root.
    pub cwd: PathBuf,
    pub argv: Vec<OsString>,
    /// Added to the few variables every command has.
    pub env: Vec<(OsString, OsString)>,
    pub limits: Limits,
    pub network: Network,
    /// When the whole tree is killed.
    pub timeout: Duration,
}

/// Runs commands at the best tier the machine offers.
#[derive(Debug)]
pub struct Sandbox {
    config: Config,
    findings: ProbeFindings,
    stages: Arc<Stages>,
    shelf: Arc<protect::Shelf>,
    histories: Option<Arc<HistoryCopies>>,
}

impl Sandbox {
    /// Tries the tiers from the highest down and keeps the first of which every wall holds.
    pub async fn probe(mut config: Config) -> Self {
        for list in [&mut config.read_only, &mut config.writable] {
            // A link would be looked at anew by every command; what it leads to now is what was meant.
            *list = list.iter().filter_map(|path| path.canonicalize().ok()).collect();
        }
        let stages = Arc::new(Stages::new(config.stage.clone(), &[&config.read_only, &config.writable]));
        let findings = probe::run(&config, &stages).await;
        stages.tend();
        let histories = config.history_folder.clone().map(|folder| Arc::new(HistoryCopies::new(folder)));
        if let Some(histories) = histories.clone() {
            // Commands wait for it only in a repository that it is about.
            tokio::task::spawn_blocking(move || histories.recover());
        }
        Self { config, findings, stages, shelf: Arc::default(), histories }
    }

    /// Returns the tier commands run at.
    pub fn tier(&self) -> Tier {
        self.findings.tier
    }

    /// Returns the names in a project's root that commands must not change.
    pub fn protected(&self) -> &[OsString] {
        &self.config.protected
    }

    /// Returns what the probe found, for people.
    pub fn findings(&self) -> &ProbeFindings {
        &self.findings
    }

    /// Starts a command. Nothing runs if any part of the sandbox cannot be built (OBEY-2005).
    pub async fn run(&self, command: Command) -> Result<Running, Error> {
        self.run_within(command, None).await
    }

    /// The same in the control groups of a session, where it has any: its limits hold for the command, which is killed with
    /// it.
    pub async fn run_within(&self, command: Command, session: Option<RunLimits>) -> Result<Running, Error> {
        let tier = self.findings.tier;
        if tier == Tier::Refused {
            return Err(self.refusal());
        }
        let access = match tier {
            Tier::Namespaces => RepositoryAccess::of(&command.root, &self.config.protected),
            // Without mounts nothing is made in the root at all, and what is there is protected as a whole.
            _ => RepositoryAccess::default(),
        };
        let mut placeholders = vec![self.protect(&command.root, &access.protected).await?];
        if let Some((folder, names)) = &access.linked {
            placeholders.push(self.protect(folder, names).await?);
        }
        let mut order = order_of(&command, &access, &placeholders);
        if tier != Tier::Namespaces {
            order.protected.clone_from(&self.config.protected);
        }
        let mut leftovers = launch::ready(&self.config, tier, &mut order, placeholders)?;
        let history = self.keep_history(&access);
        let mut recipe = recipe_of(&self.config, &command, tier, self.findings.cgroups);
        recipe.session = session.filter(|session| session.group.is_some());
        // Whatever the user replaces directly in the repository's folder stays out of reach.
        recipe.plan.read_only.extend(access.linked.iter().map(|(folder, _)| folder.clone().into_os_string()));
        let writable = access.linked_writable.iter().map(|folder| folder.clone().into_os_string());
        recipe.plan.writable.extend(writable);
        let usual = command.limits == Limits::default()
            && command.network == Network::default()
            && access.linked.is_none()
            // One that waits would count against them.
            && recipe.session.as_ref().is_none_or(|session| session.limits.is_empty());
        // What is made ahead is made for the usual command.
        if !usual {
            leftovers.history = history.await;
            let stage = self.stages.make(recipe).await?;
            return launch::start(stage, order, tier, leftovers, command.timeout).await;
        }
        let (stage, history) = tokio::join!(self.stages.take(recipe.clone()), history);
        leftovers.history = history;
        let stage = stage?;
        let started = launch::start(stage, order, tier, leftovers, command.timeout).await;
        self.stages.make_ahead(recipe);
        started
    }

    /// Returns why commands are refused here.
    fn refusal(&self) -> Error {
        Error::new(
            ErrorCode::SandboxFailed,
            "commands are refused: this machine offers no sandbox that holds; `obey doctor` says what is missing",
        )
        .with_detail(self.findings.notes.join("; "))
    }

    /// Copies what the command could destroy of the repository. Begins at once, beside what else is made for the command.
    fn keep_history(&self, access: &RepositoryAccess) -> impl Future<Output = Option<KeptHistory>> + use<> {
        let wanted = self.histories.clone().zip(access.repository.clone());
        let taken = wanted.map(|(histories, git)| tokio::task::spawn_blocking(move || histories.take(&git)));
        async move { taken?.await.ok().flatten() }
    }

    async fn protect(&self, root: &Path, names: &[OsString]) -> Result<Arc<protect::Placeholders>, Error> {
        if let Some(laid) = self.shelf.find(root, names) {
            return Ok(laid);
        }
        let (shelf, root, names) = (Arc::clone(&self.shelf), root.to_owned(), names.to_vec());
        let laid = tokio::task::spawn_blocking(move || {
            let laid = Arc::new(protect::Placeholders::lay(&root, &names)?);
            shelf.share(&root, &laid);
            Ok(laid)
        });
        laid.await.map_err(|error| {
            Error::new(ErrorCode::SandboxFailed, "cannot protect the project").with_detail(error.to_string())
        })?
    }
}

fn order_of(
    command: &Command,
    access: &RepositoryAccess,
    placeholders: &[Arc<protect::Placeholders>],
) -> Order {
    let mut names = placeholders.iter().map(|laid| laid.names());
    let protected = names.next().unwrap_or_default();
    let outside = access.linked.iter().map(|(folder, _)| folder.clone().into_os_string());
    let own = |name: &OsString| command.env.iter().any(|(known, _)| known == name);
    let env = access.env.iter().filter(|(name, _)| !own(name)).chain(&command.env).cloned().collect();
    Order {
        action: StageAction::Run(command.argv.clone()),
        root: command.root.clone().into_os_string(),
        cwd: command.cwd.clone().into_os_string(),
        env,
        protected,
        protected_outside: outside.zip(names).collect(),
        new_repository: access.is_new,
        has_no_head: access.has_no_head,
        scratch: None,
    }
}

fn recipe_of(config: &Config, command: &Command, tier: Tier, with_cgroup: bool) -> Recipe {
    let paths = |list: &[PathBuf]| list.iter().map(|path| path.clone().into_os_string()).collect();
    let plan = Plan {
        tier,
        network: command.network,
        limits: command.limits,
        root: (tier == Tier::Namespaces).then(|| command.root.clone().into_os_string()),
        read_only: paths(&config.read_only),
        writable: paths(&config.writable),
        git_config: config.git_config.clone(),
        cgroups: Vec::new(),
        agent: None,
    };
    Recipe { plan, with_cgroup, session: None }
}

/// Becomes the keeper: what the binary does when it was started with the words of [`Config::stage`], before anything
/// else and with one thread. Returns the exit code.
pub fn enter(_arguments: &[OsString]) -> i32 {
    stage::enter()
}
