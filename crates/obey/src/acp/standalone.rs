//! Everything in one process: its own store, sessions, and the server of one connection. Ends together with
//! its agents.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use domain::{Error, ErrorCode};
use runtime::Supervisor;
use runtime::settings::Settings;
use runtime::supervisor::SupervisorOptions;
use storage::Store;
use surface::peer::Access;
use surface::server::{Bound, DaemonLock, Listen, Server};
use surface_acp::RuntimeConfig;
use surface_mcp::{BridgeToolbox, ClientTools, NoProjects};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::chosen::Chosen;
use super::{Pipes, end_signal};
use crate::limits;
use crate::serve;
use cli_args::ServeArgs;
use config::exit::Exit;
use config::failure::{Failure, Result};
use config::paths;
use daemon::AgentProcesses;
use daemon::options::ServeOptions;
use daemon::toolbox::{Operations, WorkbenchToolbox};
use daemon::workbench::{LazyWorkbench, WorkbenchConfig};
use terminal::console::Console;

/// Serves one connection without a daemon.
pub(super) async fn run(console: &Console, chosen: Chosen, pipes: Pipes) -> Result<Exit> {
    let options = serve::options(&ServeArgs::default(), None, &console.vars, &console.paths)?;
    let coded = |error: Error| Failure::coded(error.code, error.message);
    let (folder, lock) = folder(&options.data_dir)?;
    let store = Store::open(&folder.join("sessions.db")).map_err(coded)?;
    let keep = chosen.defaults.keep;
    let supervisor = supervisor(console, &chosen, &options, &folder, store.clone()).await.map_err(coded)?;
    // Cleans up after an earlier process that was killed.
    supervisor.recover().await.map_err(coded)?;
    if !keep {
        supervisor.stop_all().await;
    }
    let tools = StandaloneTools::serve(&folder, &lock, &supervisor);
    let mut defaults = chosen.defaults;
    defaults.lends_tools = tools.is_some();
    let config =
        RuntimeConfig { supervisor: supervisor.clone(), defaults, input: pipes.input, output: pipes.output };
    let mut server = surface_acp::start(config).await.map_err(coded)?;
    let stopped = tokio::select! {
        () = server.ended() => Ok(()),
        () = end_signal() => server.stop().await,
    };
    if !keep {
        supervisor.stop_all().await;
    }
    if let Some(tools) = tools {
        tools.end().await;
    }
    supervisor.detach(daemon::limits::DETACH_WAIT).await;
    store.close();
    stopped.map_err(coded)?;
    Ok(Exit::OK)
}

/// Creates the supervisor with the settings of a daemon.
async fn supervisor(
    console: &Console,
    chosen: &Chosen,
    options: &ServeOptions,
    folder: &Path,
    store: Store,
) -> std::result::Result<Supervisor, Error> {
    let settings = Settings::new(options.settings.clone());
    let plan = WorkbenchConfig::of(options)?.with_folder(folder);
    let scrubber = plan.scrubber().await?;
    let lazy_workbench = LazyWorkbench::start(plan, store.clone()).await?;
    let supervisor = Supervisor::new(SupervisorOptions {
        store,
        providers: providers::all(&providers::ProviderOptions {
            obey_exe: console.program.clone(),
            claude_binary: options.config.claude_code.binary.clone(),
            codex_binary: chosen.codex_binary.clone(),
            codex_notify: chosen.codex_notify.clone(),
            openclaw: daemon::openclaw_options(&options.config.openclaw, None),
            // The configuration was validated when it was loaded.
            acp_agents: providers::acp::NamedAgents::new(&options.config.acp.agents).unwrap_or_default(),
            toolbox: Some(Arc::new(WorkbenchToolbox {
                lazy_workbench: lazy_workbench.clone(),
                settings: settings.clone(),
                operations: Operations::default(),
            })),
        }),
        agents_dir: folder.join("agents"),
        worktrees_dir: folder.join("worktrees"),
        offers_tools: false,
        containment: runtime::containment::Policy {
            withheld: daemon::contained::withheld(options),
            ..daemon::contained::policy(&options.config)?
        },
        scrubber: Some(scrubber),
        scrub_events: options.config.scrub.events,
        shim_program: console.program.clone(),
        socket: tools_socket(folder),
        spool_max_bytes: options.config.retention.spool_max_mb.saturating_mul(1 << 20),
        active_sessions_max: usize::try_from(options.config.sessions.max_active).unwrap_or(usize::MAX),
        default_mode: options.config.sessions.mode(),
        settings,
    })
    .await?;
    lazy_workbench.serve(supervisor.clone());
    Ok(supervisor)
}

/// The socket where agents find their editor's tools, and nothing else of a daemon.
fn tools_socket(folder: &Path) -> PathBuf {
    folder.join("tools.sock")
}

/// The editor's tools, served to the agents of this process.
struct StandaloneTools {
    end: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

impl StandaloneTools {
    /// Starts serving; on failure logs a warning and returns `None`, because agents work without them.
    fn serve(folder: &Path, lock: &DaemonLock, supervisor: &Supervisor) -> Option<Self> {
        let (agents, audit) = (Arc::new(AgentProcesses(supervisor.clone())), Some(supervisor.audit()));
        let access = Access { agents, audit, ..Access::default() };
        let bound = match Server::bind(&[Listen::Unix(tools_socket(folder))], lock, access) {
            Ok(bound) => bound,
            Err(error) => {
                tracing::warn!("agents cannot be given the editor's tools: {error}");
                return None;
            }
        };
        let boxes: Vec<Box<dyn BridgeToolbox>> = vec![Box::new(ClientTools::new(supervisor.clone()))];
        let (routes, nobody) = (surface::Routes::default(), Arc::new(NoProjects));
        let routes = surface_mcp::routes(routes, supervisor.clone(), boxes, nobody);
        let (end, ended) = oneshot::channel();
        Some(Self { end, serving: tokio::spawn(serve_tools(bound, routes, ended)) })
    }

    async fn end(self) {
        // Fails only if it has already ended.
        let _ended = self.end.send(());
        let _late = tokio::time::timeout(daemon::limits::DETACH_WAIT, self.serving).await;
    }
}

async fn serve_tools(bound: Bound, routes: surface::Routes, ended: oneshot::Receiver<()>) {
    let end = async move {
        // Sent or dropped, both mean the end.
        let _either = ended.await;
    };
    if let Err(error) = bound.serve(routes, end).await {
        tracing::warn!("the editor's tools are no longer served: {error}");
    }
}

/// Finds a folder that no other process uses, starting with the default one, so that a later process finds
/// its sessions.
fn folder(data_dir: &Path) -> Result<(PathBuf, DaemonLock)> {
    for number in 1..=limits::STANDALONE_MAX {
        let name = if number == 1 { "standalone".to_owned() } else { format!("standalone-{number}") };
        let folder = data_dir.join(name);
        paths::make_private(&folder.join("agents"))?;
        match DaemonLock::acquire(&folder.join("lock")) {
            Ok(lock) => return Ok((folder, lock)),
            Err(error) if error.code == ErrorCode::AlreadyRunning => {}
            Err(error) => return Err(Failure::coded(error.code, error.message)),
        }
    }
    let most = limits::STANDALONE_MAX;
    Err(Failure::coded(ErrorCode::LimitReached, format!("{most} standalone processes run already")))
}
