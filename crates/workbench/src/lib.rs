//! The workbench: the same tools for every agent, in a sandbox, with secrets removed from all output. Answers
//! come in tiers: a summary, a preview, a ref to the rest. It also holds what outlives a session: memories,
//! checkpoints, policies, skills, agents, remediations, and their audit. Must not know any protocol or agent.

pub mod answer;
pub mod audit;
pub mod catalog;
pub mod checkpoint;
pub mod embed;
mod file_search;
pub mod files;
pub mod limits;
pub mod memory;
pub mod place;
pub mod policy;
pub mod qdrant;
mod random;
pub mod refs;
pub mod remediation;
pub mod sessions;
mod tables;
pub mod tools;
pub mod vectors;
mod word_vectors;
pub mod words;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use domain::{Error, ErrorCode, SessionId, Timestamp};
use sandbox::session_group::RunLimits;
use sandbox::{Sandbox, Tier};
use storage::Store;
use tokio::sync::Semaphore;

use audit::Audit;
use catalog::Catalog;
use checkpoint::Checkpoints;
use files::ProjectRoot;
use memory::Memories;
use policy::{Policies, ProjectPolicies, UserPolicies};
use refs::Refs;
use remediation::Remediations;

use scrub::Scrubber;
use sessions::{SessionTtl, Sessions};

pub use ::scrub;
pub use file_search::{Edit, FileSearch, HiddenFiles};
pub use tools::{ContentAnswer, Exec, ExecAnswer, Read, ReadAnswer, Write, WriteAnswer};

/// The parts of a workbench; from the daemon's configuration.
#[derive(Debug)]
pub struct WorkbenchSetup {
    /// Already probed: the available sandbox tier is determined once.
    pub sandbox: Arc<Sandbox>,
    pub scrubber: Scrubber,
    /// The folder for stored output; used for nothing else.
    pub refs_folder: PathBuf,
    pub refs: refs::RefLimits,
    /// Holds everything that outlives the daemon.
    pub store: Store,
    pub ttl: SessionTtl,
    pub policies: UserPolicies,
    /// The embedder of memories.
    pub embedder: embed::Embedder,
    /// A Qdrant server to search; `None`: the vectors are held in memory.
    pub qdrant: Option<qdrant::QdrantServer>,
}

/// The tools, shared by all sessions.
pub struct Workbench {
    sandbox: Arc<Sandbox>,
    scrubber: Scrubber,
    refs: Arc<Refs>,
    protected: Vec<std::ffi::OsString>,
    commands: Semaphore,
    policies: Arc<UserPolicies>,
    sessions: Sessions,
    audit: Audit,
    memories: Memories,
    checkpoints: Checkpoints,
    catalog: Catalog,
    remediations: Remediations,
    session_groups: OnceLock<SessionGroups>,
}

/// Finds how the agent of a session that runs now is limited.
type SessionGroups = Box<dyn Fn(&SessionId) -> Option<RunLimits> + Send + Sync>;

/// Whether a project's own `.gitleaks.toml` is used. It can switch rules off, so the user must have reviewed
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProjectRules {
    Ignored,
    Trusted,
}

/// A project that tools work on: its root, and the scrubber with its rules.
#[derive(Clone, Debug)]
pub struct Project {
    root: Arc<ProjectRoot>,
    scrubber: Scrubber,
    policies: Arc<ProjectPolicies>,
}

/// The scrubbing rules of a project.
const PROJECT_RULES: &str = ".gitleaks.toml";

/// The policies of a project. Commands cannot change them, because the folder is protected.
const PROJECT_POLICIES: &str = ".obey/policies.toml";

impl std::fmt::Debug for Workbench {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Workbench").finish_non_exhaustive()
    }
}

impl Workbench {
    /// Opens the store.
    pub async fn open(setup: WorkbenchSetup) -> Result<Self, Error> {
        let refs = Refs::open(setup.refs_folder, setup.refs).map_err(|error| {
            Error::new(ErrorCode::StorageFailed, "stored output has no place").with_detail(error.to_string())
        })?;
        let protected = setup.sandbox.protected().to_vec();
        let store = setup.store;
        tables::prepare(&store).await?;
        Ok(Self {
            sandbox: setup.sandbox,
            scrubber: setup.scrubber,
            refs,
            protected,
            commands: Semaphore::new(limits::EXECS_MAX),
            policies: Arc::new(setup.policies),
            sessions: Sessions::new(store.clone(), setup.ttl),
            audit: store.audit(),
            memories: Memories::new(store.clone(), setup.embedder, setup.qdrant),
            checkpoints: Checkpoints::new(store.clone()),
            catalog: Catalog::new(store.clone()),
            remediations: Remediations::new(store),
            session_groups: OnceLock::new(),
        })
    }

    /// Runs commands of sessions that have control groups in those; to be called once, before the first command.
    pub fn run_within_sessions(
        &self,
        groups: impl Fn(&SessionId) -> Option<RunLimits> + Send + Sync + 'static,
    ) {
        // A second call would change nothing.
        let _ = self.session_groups.set(Box::new(groups));
    }

    /// Returns how the session that a command is for is limited.
    fn run_limits(&self, session: &SessionId) -> Option<RunLimits> {
        self.session_groups.get().and_then(|groups| groups(session))
    }

    /// Returns the sandbox tier of commands.
    pub fn tier(&self) -> Tier {
        self.sandbox.tier()
    }

    /// Returns the scrubber with the daemon's rules.
    pub fn scrubber(&self) -> &Scrubber {
        &self.scrubber
    }

    /// Opens a project. Its root must have been registered by the user; a request cannot name one.
    pub fn project(&self, root: &Path, rules: ProjectRules) -> Result<Project, Error> {
        let root = ProjectRoot::open(root, &self.protected)?;
        let scrubber = match rules {
            ProjectRules::Ignored => self.scrubber.clone(),
            ProjectRules::Trusted => match root.rule_file(PROJECT_RULES)? {
                Some(text) => self.scrubber.with_file(PROJECT_RULES, &text)?,
                None => self.scrubber.clone(),
            },
        };
        let policies = Arc::new(ProjectPolicies::new(Arc::clone(&self.policies)));
        let project = Project { root: Arc::new(root), scrubber, policies };
        // Policies that cannot be read are reported now, not by the first command.
        project.policies()?;
        Ok(project)
    }

    pub fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    pub fn audit(&self) -> &Audit {
        &self.audit
    }

    pub fn memories(&self) -> &Memories {
        &self.memories
    }

    pub fn checkpoints(&self) -> &Checkpoints {
        &self.checkpoints
    }

    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    pub fn remediations(&self) -> &Remediations {
        &self.remediations
    }

    /// Removes everything a session stored.
    pub fn end_session(&self, session: &SessionId) {
        self.refs.end_session(session);
    }

    /// Closes expired sessions and removes expired output; to be called periodically. Returns how many
    /// sessions were closed.
    pub fn sweep(&self, now: Timestamp) -> usize {
        let over = self.sessions.expire(now);
        for session in &over {
            self.refs.end_session(session);
        }
        self.refs.sweep();
        over.len()
    }
}

impl Project {
    /// Returns the root of the project.
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// Returns the scrubber with the project's rules.
    pub fn scrubber(&self) -> &Scrubber {
        &self.scrubber
    }

    /// Returns the policies that apply now: a file that changed since the last call is read again. An unreadable file is
    /// an error, so that nothing runs without the policies it holds.
    pub fn policies(&self) -> Result<Policies, Error> {
        self.policies.current(PROJECT_POLICIES, self.root.rule_file(PROJECT_POLICIES)?)
    }
}
