//! The workbench: tools every agent gets alike, in a sandbox, with secrets taken out of whatever they show. Answers come
//! in tiers: a summary, a preview, a ref to the rest. Knows no protocol and no agent.

pub mod answer;
pub mod files;
pub mod limits;
mod looking;
mod random;
pub mod refs;
pub mod sandbox;
pub mod scrub;
pub mod tools;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use domain::{Error, ErrorCode, SessionId};
use tokio::sync::Semaphore;

use files::Root;
use refs::Refs;
use sandbox::{Sandbox, Tier};
use scrub::Scrubber;

pub use looking::{Edit, Search};
pub use tools::{ContentAnswer, Exec, ExecAnswer, Read, ReadAnswer, Write, WriteAnswer};

/// What a workbench is made of; comes from the daemon's configuration.
#[derive(Debug)]
pub struct Setup {
    pub sandbox: sandbox::Config,
    pub scrub: scrub::Config,
    /// Where stored output is kept; a folder of its own.
    pub refs_folder: PathBuf,
    pub refs: refs::Limits,
}

/// The tools, ready for use by all sessions.
#[derive(Debug)]
pub struct Workbench {
    sandbox: Sandbox,
    scrubber: Scrubber,
    refs: Arc<Refs>,
    protected: Vec<std::ffi::OsString>,
    commands: Semaphore,
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
    root: Arc<Root>,
    scrubber: Scrubber,
}

/// The rule file of a project.
const PROJECT_RULES: &str = ".gitleaks.toml";

impl Workbench {
    /// Probes the sandbox, loads the rules and opens the store.
    pub async fn open(setup: Setup) -> Result<Self, Error> {
        let scrubber = Scrubber::new(&setup.scrub)?;
        let refs = Refs::open(setup.refs_folder, setup.refs).map_err(|error| {
            Error::new(ErrorCode::StorageFailed, "stored output has no place").with_detail(error.to_string())
        })?;
        let protected = setup.sandbox.protected.clone();
        let sandbox = Sandbox::probe(setup.sandbox).await;
        Ok(Self { sandbox, scrubber, refs, protected, commands: Semaphore::new(limits::EXECS_MAX) })
    }

    /// Returns the tier commands run at.
    pub fn tier(&self) -> Tier {
        self.sandbox.tier()
    }

    /// Returns what the sandbox' probe found, for people.
    pub fn sandbox_findings(&self) -> &sandbox::Findings {
        self.sandbox.findings()
    }

    /// Returns the scrubber with the daemon's own rules.
    pub fn scrubber(&self) -> &Scrubber {
        &self.scrubber
    }

    /// Opens a project. Its root must have been registered by its user; no request names one.
    pub fn project(&self, root: &Path, rules: ProjectRules) -> Result<Project, Error> {
        let root = Root::open(root, &self.protected)?;
        let scrubber = match rules {
            ProjectRules::Ignored => self.scrubber.clone(),
            ProjectRules::Trusted => match root.rule_file(PROJECT_RULES)? {
                Some(text) => self.scrubber.with_file(PROJECT_RULES, &text)?,
                None => self.scrubber.clone(),
            },
        };
        Ok(Project { root: Arc::new(root), scrubber })
    }

    /// Forgets everything a session stored.
    pub fn end_session(&self, session: &SessionId) {
        self.refs.end_session(session);
    }

    /// Forgets stored output that has expired; to be called now and then.
    pub fn sweep(&self) -> usize {
        self.refs.sweep()
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
}
