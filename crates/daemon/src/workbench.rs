//! Creates the daemon's workbench from its configuration, and cleans it periodically.

use std::ffi::OsString;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use domain::{Error, ErrorCode};
use host::clock;
use runtime::Supervisor;
use sandbox::Sandbox;
use storage::Store;
use surface_contextd::{Contextd, ContextdConfig, OpenWorkbench, WorkbenchFuture};
use tokio::sync::OnceCell;
use workbench::embed::{Embedder, Endpoint, setup};
use workbench::policy::UserPolicies;
use workbench::qdrant::QdrantServer;
use workbench::scrub::KnownSecret;
use workbench::sessions::SessionTtl;
use workbench::{ProjectRules, Workbench, WorkbenchSetup, refs, scrub};

use crate::limits;
use crate::options::ServeOptions;
use config::file::Config;

/// The user's files next to the configuration.
const RULES: &str = "gitleaks.toml";
const POLICIES: &str = "policies.toml";

/// Folders below the daemon's data.
const REFS: &str = "refs";
const HISTORIES: &str = "histories";

/// The workbench's configuration, without the store.
pub struct WorkbenchConfig {
    sandbox: sandbox::Config,
    scrub: scrub::Config,
    /// Made of it at its first use.
    scrubber: OnceCell<scrub::Scrubber>,
    policies_file: std::path::PathBuf,
    ttl: SessionTtl,
    refs_folder: std::path::PathBuf,
    memory: config::file::Memory,
    /// The user has their own rules.
    own_rules: bool,
}

impl WorkbenchConfig {
    /// Returns what takes secrets out of events and of what tools return. It is made once: its automaton takes megabytes and
    /// most of the time of a start. A campaign may want it where the configuration does not.
    pub async fn scrubber(&self) -> Result<scrub::Scrubber, Error> {
        self.scrubber.get_or_try_init(|| make_scrubber(self.scrub.clone())).await.cloned()
    }

    /// Reads the workbench's configuration and the user's own rule and policy files.
    pub fn of(options: &ServeOptions) -> Result<Self, Error> {
        let workbench = &options.config.workbench;
        let mut scrub = scrub::Config::new().with_known(KnownSecret::from_env(environment()));
        let (rules, policies) = (options.config_dir.join(RULES), options.config_dir.join(POLICIES));
        let own = read(&rules)?;
        let own_rules = own.is_some();
        if let Some(text) = own {
            scrub = scrub.with_file(rules.display().to_string(), text);
        }
        // An invalid file is reported at once.
        UserPolicies::new(Some(policies.clone()))?;
        // Does not connect; an invalid section is reported at once.
        qdrant(&options.config.memory)?;
        Ok(Self {
            sandbox: sandbox::Config {
                history_folder: Some(options.data_dir.join(HISTORIES)),
                ..sandbox_config(&options.config, super::own_program()?.into_os_string())
            },
            scrub,
            scrubber: OnceCell::new(),
            policies_file: policies,
            ttl: SessionTtl {
                idle: Duration::from_secs(workbench.session_idle_minutes.saturating_mul(60)),
                longest: Duration::from_secs(workbench.session_max_minutes.saturating_mul(60)),
            },
            refs_folder: options.data_dir.join(REFS),
            memory: memory_settings(&options.config.memory, &options.data_dir),
            own_rules,
        })
    }

    /// Stores output, and copies of repositories, below another folder: two processes must not share one.
    pub fn with_folder(mut self, folder: &Path) -> Self {
        self.refs_folder = folder.join(REFS);
        self.sandbox.history_folder = Some(folder.join(HISTORIES));
        self
    }
}

/// Makes a scrubber on a blocking thread, as it takes long.
async fn make_scrubber(config: scrub::Config) -> Result<scrub::Scrubber, Error> {
    let made = tokio::task::spawn_blocking(move || scrub::Scrubber::new(&config)).await;
    made.map_err(|error| {
        Error::new(ErrorCode::ConfigInvalid, "the scrubber's rules cannot be read")
            .with_detail(error.to_string())
    })?
}

/// Returns the sandbox configuration.
pub fn sandbox_config(config: &Config, program: OsString) -> sandbox::Config {
    let mut made = sandbox::Config::new(vec![program, crate::STAGE_WORD.into()]);
    made.required = config.sandbox.required;
    made.read_only.clone_from(&config.sandbox.read_only);
    made.writable.clone_from(&config.sandbox.writable);
    made
}

/// Returns the settings of memories: the model that `obey memory setup` fetched, unless the configuration names an embedder.
pub fn memory_settings(memory: &config::file::Memory, data_dir: &Path) -> config::file::Memory {
    let mut settings = memory.clone();
    if settings.model_folder.is_none() && settings.embeddings_url.is_empty() && setup::is_set_up(data_dir) {
        settings.model_folder = Some(setup::folder(data_dir));
    }
    settings
}

/// Returns the configured embedder. Loading a model takes a while.
pub async fn embedder(memory: config::file::Memory) -> Result<Embedder, Error> {
    let made = tokio::task::spawn_blocking(move || match &memory.model_folder {
        Some(_) if !memory.embeddings_url.is_empty() => {
            let message = "memory.model_folder and memory.embeddings_url exclude each other; set one of them";
            Err(Error::new(ErrorCode::ConfigInvalid, message))
        }
        Some(folder) => Embedder::from_folder(folder),
        None if memory.embeddings_url.is_empty() => Ok(Embedder::Words),
        None => {
            let key = std::env::var(&memory.embeddings_key_env).unwrap_or_default();
            Ok(Embedder::Endpoint(Arc::new(Endpoint::new(
                &memory.embeddings_url,
                &memory.embeddings_model,
                &key,
            )?)))
        }
    });
    made.await.map_err(|error| {
        Error::new(ErrorCode::ConfigInvalid, "the model of memories cannot be read")
            .with_detail(error.to_string())
    })?
}

/// Returns the configured server for the vectors of memories; `None` by default.
pub fn qdrant(memory: &config::file::Memory) -> Result<Option<QdrantServer>, Error> {
    if memory.qdrant_url.is_empty() {
        return Ok(None);
    }
    let key = std::env::var(&memory.qdrant_key_env).unwrap_or_default();
    QdrantServer::new(&memory.qdrant_url, &memory.qdrant_collection, &memory.qdrant_key_env, &key).map(Some)
}

/// The workbench, opened on first use.
pub struct LazyWorkbench {
    plan: WorkbenchConfig,
    store: Store,
    sandbox: OnceCell<Arc<Sandbox>>,
    workbench: OnceCell<Arc<Workbench>>,
    /// Known a little later than this: sessions use the workbench.
    supervisor: Arc<OnceLock<Supervisor>>,
}

impl LazyWorkbench {
    /// Starts to probe the sandbox. Invalid rules of the user must fail the start, so with such rules the
    /// workbench is opened at once.
    pub async fn start(plan: WorkbenchConfig, store: Store) -> Result<Arc<Self>, Error> {
        let own_rules = plan.own_rules;
        let lazy_workbench = Arc::new(Self {
            plan,
            store,
            sandbox: OnceCell::new(),
            workbench: OnceCell::new(),
            supervisor: Arc::default(),
        });
        if own_rules {
            lazy_workbench.workbench().await?;
        }
        let probing = Arc::clone(&lazy_workbench);
        tokio::spawn(async move {
            let sandbox = probing.sandbox().await;
            let notes = &sandbox.findings().notes;
            tracing::info!(tier = %sandbox.tier(), ?notes, "commands run in a sandbox of this tier");
        });
        Ok(lazy_workbench)
    }

    /// Says whose sessions commands are run for.
    pub fn serve(&self, supervisor: Supervisor) {
        // There is one supervisor only.
        let _ = self.supervisor.set(supervisor);
    }

    async fn sandbox(&self) -> &Arc<Sandbox> {
        self.sandbox.get_or_init(async || Arc::new(Sandbox::probe(self.plan.sandbox.clone()).await)).await
    }

    /// Creates the workbench.
    async fn open(&self) -> Result<Arc<Workbench>, Error> {
        let setup = WorkbenchSetup {
            sandbox: Arc::clone(self.sandbox().await),
            scrubber: self.plan.scrubber().await?,
            refs_folder: self.plan.refs_folder.clone(),
            refs: refs::RefLimits::default(),
            store: self.store.clone(),
            ttl: self.plan.ttl,
            policies: UserPolicies::new(Some(self.plan.policies_file.clone()))?,
            embedder: embedder(self.plan.memory.clone()).await?,
            qdrant: qdrant(&self.plan.memory)?,
        };
        let workbench = Workbench::open(setup).await.inspect_err(|error| {
            tracing::error!(%error, detail = error.detail, "the workbench cannot be opened");
        })?;
        let supervisor = Arc::clone(&self.supervisor);
        workbench.run_within_sessions(move |session| supervisor.get()?.run_limits(session));
        let workbench = Arc::new(workbench);
        tokio::spawn(sweep(Arc::clone(&workbench)));
        Ok(workbench)
    }
}

impl OpenWorkbench for LazyWorkbench {
    fn workbench(&self) -> WorkbenchFuture<'_> {
        Box::pin(async { self.workbench.get_or_try_init(|| self.open()).await.cloned() })
    }
}

/// Returns the project of callers that name none.
pub fn usual_project(config: &Config) -> Option<std::path::PathBuf> {
    config.workbench.default_project.clone().or_else(|| std::env::current_dir().ok())
}

/// Returns the workbench's surface.
pub fn contextd(options: &ServeOptions, opening: Arc<LazyWorkbench>, supervisor: Supervisor) -> Contextd {
    let workbench = &options.config.workbench;
    let about = ContextdConfig {
        default_project: usual_project(&options.config),
        project_rules: if workbench.project_rules { ProjectRules::Trusted } else { ProjectRules::Ignored },
        checkpoints_folder: crate::checkpoints::folder(options),
    };
    Contextd::new(opening, supervisor, about, env!("CARGO_PKG_VERSION"))
}

/// Closes expired sessions periodically.
async fn sweep(workbench: Arc<Workbench>) {
    let mut interval = tokio::time::interval(limits::SWEEP_INTERVAL);
    loop {
        interval.tick().await;
        let closed = workbench.sweep(clock::now());
        if closed > 0 {
            tracing::debug!(closed, "sessions of the workbench ran out of time");
        }
    }
}

/// The daemon's environment, as far as it is valid UTF-8.
fn environment() -> Vec<(String, String)> {
    let text =
        |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
    std::env::vars_os().filter_map(text).collect()
}

fn read(path: &Path) -> Result<Option<String>, Error> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => {
            Err(Error::new(ErrorCode::ConfigInvalid, format!("cannot read {}: {error}", path.display())))
        }
    }
}
