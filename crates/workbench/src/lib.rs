//! The workbench: tools every agent gets alike, in a sandbox, with secrets taken out of whatever they show. Answers come
//! in tiers: a summary, a preview, a ref to the rest. Around them what outlives a session: memories, checkpoints,
//! policies, skills, agents, cures of errors, and the audit of it all. Knows no protocol and no agent.

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

/// What a workbench is made of; comes from the daemon's configuration.
#[derive(Debug)]
pub struct WorkbenchSetup {
    /// Probed already: which sandbox holds is found out once.
    pub sandbox: Arc<Sandbox>,
    pub scrub: scrub::Config,
    /// Where stored output is kept; a folder of its own.
    pub refs_folder: PathBuf,
    pub refs: refs::RefLimits,
    /// Where everything is kept that outlives the daemon.
    pub store: Store,
    pub ttl: SessionTtl,
    pub policies: Policies,
    /// Who makes the vectors of memories.
    pub embedder: embed::Embedder,
    /// A server that is searched for them; none: the vectors are held in memory.
    pub qdrant: Option<qdrant::QdrantServer>,
}

/// The tools, ready for use by all sessions.
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

/// Whether a project's own `.gitleaks.toml` counts. It can switch rules off, so that somebody must have looked at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProjectRules {
    Ignored,
    Trusted,
}

/// A project that tools work on: its root, and the scrubber that knows its rules.
#[derive(Clone, Debug)]
pub struct Project {
    root: Arc<ProjectRoot>,
    scrubber: Scrubber,
    policies: Policies,
}

/// The rule file of a project.
const PROJECT_RULES: &str = ".gitleaks.toml";

/// The policies of a project. Commands cannot change them, since the folder is protected.
const PROJECT_POLICIES: &str = ".obey/policies.toml";

impl Workbench {
    /// Loads the rules and opens the store.
    pub async fn open(setup: WorkbenchSetup) -> Result<Self, Error> {
        let rules = setup.scrub;
        // Hundreds of expressions become automata: work, and not for a thread that serves others.
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

    /// Returns the tier commands run at.
    pub fn tier(&self) -> Tier {
        self.sandbox.tier()
    }

    /// Returns what the sandbox' probe found, for people.
    pub fn sandbox_findings(&self) -> &sandbox::ProbeFindings {
        self.sandbox.findings()
    }

    /// Returns the scrubber with the daemon's own rules.
    pub fn scrubber(&self) -> &Scrubber {
        &self.scrubber
    }

    /// Opens a project. Its root must have been registered by its user; no request names one.
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

    /// Forgets everything a session stored.
    pub fn end_session(&self, session: &SessionId) {
        self.refs.end_session(session);
    }

    /// Forgets sessions whose time ran out and stored output that has expired; to be called now and then. Returns how
    /// many sessions were closed.
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
    /// Returns where the project is.
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// Returns the scrubber that knows the project's rules.
    pub fn scrubber(&self) -> &Scrubber {
        &self.scrubber
    }

    /// Returns the policies that hold in the project.
    pub fn policies(&self) -> &Policies {
        &self.policies
    }
}
