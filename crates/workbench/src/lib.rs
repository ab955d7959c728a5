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
pub mod words;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use domain::{Error, ErrorCode, SessionId, Timestamp};
use sandbox::{Sandbox, Tier};
use storage::Store;
use tokio::sync::Semaphore;

use audit::Audit;
use catalog::Catalog;
use checkpoint::Checkpoints;
use files::ProjectRoot;
use memory::Memories;
use policy::Policies;
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
    pub scrub: scrub::Config,
    /// The folder for stored output; used for nothing else.
    pub refs_folder: PathBuf,
    pub refs: refs::RefLimits,
    /// Holds everything that outlives the daemon.
    pub store: Store,
    pub ttl: SessionTtl,
    pub policies: Policies,
    /// The embedder of memories.
    pub embedder: embed::Embedder,
    /// A Qdrant server to search; `None`: the vectors are held in memory.
    pub qdrant: Option<qdrant::QdrantServer>,
}

/// The tools, shared by all sessions.
#[derive(Debug)]
pub struct Workbench {
    sandbox: Arc<Sandbox>,
    scrubber: Scrubber,
    refs: Arc<Refs>,
    protected: Vec<std::ffi::OsString>,
    commands: Semaphore,
    policies: Policies,
    sessions: Sessions,
    audit: Audit,
    memories: Memories,
    checkpoints: Checkpoints,
    catalog: Catalog,
    remediations: Remediations,
}

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
    policies: Policies,
}

/// The scrubbing rules of a project.
const PROJECT_RULES: &str = ".gitleaks.toml";

/// The policies of a project. Commands cannot change them, because the folder is protected.
const PROJECT_POLICIES: &str = ".obey/policies.toml";

impl Workbench {
    /// Loads the rules and opens the store.
    pub async fn open(setup: WorkbenchSetup) -> Result<Self, Error> {
        let rules = setup.scrub;
        // Compiling hundreds of expressions takes long, so it runs on a blocking thread.
        let made = tokio::task::spawn_blocking(move || Scrubber::new(&rules)).await;
        let scrubber = made.map_err(|error| {
            Error::new(ErrorCode::ConfigInvalid, "the scrubber's rules cannot be read")
                .with_detail(error.to_string())
        })??;
        let refs = Refs::open(setup.refs_folder, setup.refs).map_err(|error| {
            Error::new(ErrorCode::StorageFailed, "stored output has no place").with_detail(error.to_string())
        })?;
        let protected = setup.sandbox.protected().to_vec();
        let store = setup.store;
        tables::prepare(&store).await?;
        Ok(Self {
            sandbox: setup.sandbox,
            scrubber,
            refs,
            protected,
            commands: Semaphore::new(limits::EXECS_MAX),
            policies: setup.policies,
            sessions: Sessions::new(store.clone(), setup.ttl),
            audit: store.audit(),
            memories: Memories::new(store.clone(), setup.embedder, setup.qdrant),
            checkpoints: Checkpoints::new(store.clone()),
            catalog: Catalog::new(store.clone()),
            remediations: Remediations::new(store),
        })
    }

    /// Returns the sandbox tier of commands.
    pub fn tier(&self) -> Tier {
        self.sandbox.tier()
    }

    /// Returns the findings of the sandbox probe, for people.
    pub fn sandbox_findings(&self) -> &sandbox::ProbeFindings {
        self.sandbox.findings()
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
        let policies = match root.rule_file(PROJECT_POLICIES)? {
            Some(text) => self.policies.with_project(PROJECT_POLICIES, &text)?,
            None => self.policies.clone(),
        };
        Ok(Project { root: Arc::new(root), scrubber, policies })
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

    /// Returns the policies of the project.
    pub fn policies(&self) -> &Policies {
        &self.policies
    }
}
