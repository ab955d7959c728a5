//! The composition root: configuration → store → providers → supervisor → surfaces → serving → shutdown. Must
//! not know the command line; everything it needs is in `ServeOptions`.

mod checkpoints;
pub mod contained;
mod daemon_tools;
mod forges;
pub mod inherited;
pub mod installed_agents;
pub mod limits;
mod mapped;
mod metrics;
mod notices;
pub mod options;
mod own_process;
mod projects;
pub mod relay;
mod surfaces;
mod telemetry;
mod token_users;
pub mod toolbox;
mod tools;
mod upgrade;
mod web;
pub mod workbench;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ::workbench::scrub::Scrubber;
use anyhow::Context as _;
use domain::{Error, ErrorCode, SessionId};
use host::{clock, failpoint};
use runtime::containment::Policy;
use runtime::process::{ancestry, scan};
use runtime::settings::Settings;
use runtime::supervisor::SupervisorOptions;
use runtime::{Supervisor, retention::Retention};
use storage::Store;
use surface::peer::{Access, Agents, DeviceAuthority, Devices, Token};
use surface::server::{Bound, DaemonLock, Listen, Server, Tls};
use surface_obey::{ObeyConfig, Shutdown};
use tokio::sync::mpsc;

use crate::options::ServeOptions;
use crate::toolbox::{Operations, WorkbenchToolbox};
use config::failure::Failure;
use config::file::{Config, Openclaw};
use config::holder::Holder;
use config::running::Running;
pub use daemon_tools::DaemonTools;
pub use host::end_signal::end_requested;
pub use surface_web::machines::{OtherMachine, OtherMachines};
use tools::WorkbenchTools;

/// The argument that makes the program the process that builds a sandbox.
pub const STAGE_WORD: &str = "sandbox-stage";

/// Checks what the configuration file's own types cannot: names of agents and the policy of containment.
pub fn check(config: &Config) -> config::failure::Result<()> {
    let invalid = |message: String| Failure::coded(ErrorCode::ConfigInvalid, message);
    if let Err(problem) = providers::acp::NamedAgents::new(&config.acp.agents) {
        return Err(invalid(format!("acp.agents: {problem}")));
    }
    contained::policy(config).map(drop).map_err(|error| invalid(error.message))?;
    forges::check(config).map_err(|error| invalid(error.message))
}

/// Returns the options of OpenClaw; `folder` holds the identity by which a gateway recognizes a daemon.
pub fn openclaw_options(config: &Openclaw, folder: Option<PathBuf>) -> providers::openclaw::OpenclawOptions {
    providers::openclaw::OpenclawOptions {
        folder,
        binary: config.binary.clone(),
        url: config.url.clone(),
        token: config.token.clone(),
    }
}

/// Serves until shutdown and returns the exit code. Creates its own async runtime: it is called from a plain
/// thread. Calls `options.ready.announce(…)` once every listener accepts connections.
pub fn serve(options: ServeOptions) -> anyhow::Result<i32> {
    ::workbench::scrub::read_ahead();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(own_process::workers())
        .enable_all()
        .build()
        .context("tokio")?;
    let telemetry = telemetry::Telemetry::start(&options.config.telemetry, runtime.handle())?;
    own_process::start_log(&options.config.log_level, telemetry.as_ref())?;
    host::machine::raise_file_limit();
    metrics::install(env!("CARGO_PKG_VERSION"));
    let served = runtime.block_on(run(options));
    if let Some(telemetry) = telemetry {
        telemetry.end();
    }
    // Readers may still be running; nothing that was accepted depends on them.
    runtime.shutdown_timeout(limits::RUNTIME_END_WAIT);
    served?;
    Ok(0)
}

/// Starts everything in order, serves until the shutdown, and ends everything.
async fn run(mut options: ServeOptions) -> Result<(), Error> {
    let home = Home::open(&options)?;
    failpoint!("start.locked");
    let store = Store::open(&options.data_dir.join("daemon.db"))?;
    failpoint!("start.stored");
    let plan = workbench::WorkbenchConfig::of(&options)?;
    let scrubber = plan.scrubber().await?;
    let forges = forges::forges(&options.config, scrubber.clone())?;
    let opening = workbench::LazyWorkbench::start(plan, store.clone()).await?;
    let operations = Operations::default();
    let settings = Settings::new(options.settings.clone());
    let (lazy_workbench, settings_of, operations_of) =
        (opening.clone(), settings.clone(), operations.clone());
    let workshop = WorkbenchToolbox { lazy_workbench, settings: settings_of, operations: operations_of };
    let supervisor = supervisor(&options, store.clone(), settings, workshop, scrubber.clone()).await?;
    opening.serve(supervisor.clone());
    let checkpoints = checkpoints::AutomaticCheckpoints::new(&options, &supervisor, &store, &scrubber);
    failpoint!("start.numbered");
    let manager = options.inherited.manager.take();
    let running = running(&options)?;
    let devices = Arc::new(Devices::load(options.data_dir.join("devices.json"))?);
    let bound = bind(&mut options, &home, supervisor.clone(), Arc::clone(&devices))?;
    failpoint!("start.bound");
    let (shutdown, mut asked) = mpsc::channel(1);
    let routes = surface_obey::routes(
        surface::Routes::default(),
        supervisor.clone(),
        about(&options, home.retention, shutdown, Arc::clone(&devices), forges.clone()),
    );
    let (leaving, is_leaving) = tokio::sync::watch::channel(false);
    let about = surfaces::about_betcode(&options, &bound, forges, is_leaving.clone());
    let routes = surface_betcode::routes(routes, supervisor.clone(), about);
    let routes = surface_acp::routes(routes, supervisor.clone(), is_leaving);
    let routes = surface_roz::routes(routes, supervisor.clone(), surfaces::about_roz(&options, &devices));
    let push = web::push(&options, &devices);
    let about = web::about(&bound, &devices, &push, Arc::clone(&options.machines.0));
    let routes = surface_web::routes(routes, supervisor.clone(), about);
    let routes = bench_routes(routes, &options, opening, &supervisor, &operations);
    let links = relay::links(&options, &supervisor, Arc::clone(&devices))?;
    let routes = links.routes(routes);
    let found = supervisor.recover().await?;
    failpoint!("start.recovered");
    let (socket, notices_config) = (options.socket.clone(), options.config.notices.clone());
    announce(options, &bound, running, found)?;
    if let Some(manager) = &manager {
        manager.ready();
    }
    notices::follow(&supervisor, notices_config, push);
    start_periodic_tasks(&supervisor, &home, &devices, checkpoints);
    let shutdown = async move {
        tokio::select! {
            _ = asked.recv() => tracing::info!("a client asked the daemon to end"),
            signal = end_requested() => tracing::info!(signal, "told to end"),
        }
        // Before connections are closed: an editor that loses the daemon has not left its agents.
        leaving.send_replace(true);
        if let Some(manager) = manager {
            manager.stopping();
        }
    };
    bound.serve_with_tunnel(routes, shutdown, |entry| links.start(entry)).await?;
    Running::forget(&socket);
    supervisor.detach(limits::DETACH_WAIT).await;
    failpoint!("leave.detached");
    if let Err(error) = devices.save_seen() {
        tracing::warn!(%error, "cannot write down which devices were seen");
    }
    store.close();
    tracing::info!("ended; agents go on and the next daemon finds them");
    Ok(())
}

/// Starts what the daemon does by itself from time to time.
fn start_periodic_tasks(
    supervisor: &Supervisor,
    home: &Home,
    devices: &Arc<Devices>,
    checkpoints: Option<checkpoints::AutomaticCheckpoints>,
) {
    if let Some(checkpoints) = checkpoints {
        tokio::spawn(checkpoints.run());
    }
    tokio::spawn(collect_garbage(supervisor.clone(), home.retention));
    tokio::spawn(settle());
    tokio::spawn(metrics::keep_small());
    tokio::spawn(save_seen(Arc::clone(devices)));
}

/// Creates the sessions' supervisor from the configuration.
async fn supervisor(
    options: &ServeOptions,
    store: Store,
    settings: Settings,
    toolbox: WorkbenchToolbox,
    scrubber: Scrubber,
) -> Result<Supervisor, Error> {
    Supervisor::new(SupervisorOptions {
        store,
        providers: providers::all(&providers::ProviderOptions {
            obey_exe: own_program()?,
            claude_binary: options.config.claude_code.binary.clone(),
            codex_binary: options.config.codex.binary.clone(),
            codex_notify: Vec::new(),
            openclaw: openclaw_options(&options.config.openclaw, Some(options.data_dir.join("openclaw"))),
            // The configuration was validated when it was loaded.
            acp_agents: providers::acp::NamedAgents::new(&options.config.acp.agents).unwrap_or_default(),
            toolbox: Some(Arc::new(toolbox)),
        }),
        agents_dir: options.data_dir.join("agents"),
        shim_program: own_program()?,
        socket: options.socket.clone(),
        spool_max_bytes: options.config.retention.spool_max_mb.saturating_mul(1 << 20),
        active_sessions_max: usize::try_from(options.config.sessions.max_active).unwrap_or(usize::MAX),
        default_mode: options.config.sessions.mode(),
        settings,
        worktrees_dir: options.data_dir.join("worktrees"),
        offers_tools: options.config.workbench.for_agents,
        containment: Policy { withheld: contained::withheld(options), ..contained::policy(&options.config)? },
        scrubber: Some(scrubber),
        scrub_events: options.config.scrub.events,
    })
    .await
    .inspect(|supervisor| {
        supervisor.set_prices(config::file::prices::loaded(&options.config.prices));
        supervisor.set_shared_budgets(config::file::budgets::loaded(&options.config.budgets));
        supervisor.set_worker_limits(options.worker_limits());
    })
}

/// Adds the workbench, and the tools for agents.
fn bench_routes(
    routes: surface::Routes,
    options: &ServeOptions,
    opening: Arc<workbench::LazyWorkbench>,
    supervisor: &Supervisor,
    operations: &Operations,
) -> surface::Routes {
    let contextd = workbench::contextd(options, opening, supervisor.clone());
    let mut toolboxes = surface_mcp::toolboxes(supervisor);
    let offers_bench = options.config.workbench.for_agents;
    let workbench = offers_bench.then(|| WorkbenchTools::new(contextd.clone()));
    if let Some(workbench) = &workbench {
        toolboxes.push(Box::new(workbench.clone()));
    }
    let (team, leading) =
        (surface_mcp::TeamTools::new(supervisor.clone()), surface_mcp::WorkerTools::new(supervisor.clone()));
    operations.get_or_init(|| DaemonTools::new(workbench, team, leading));
    let usual = workbench::usual_project(&options.config);
    let projects = Arc::new(projects::Projects::new(contextd.clone(), usual));
    let routes = surface_mcp::routes(routes, supervisor.clone(), toolboxes, projects);
    surface_contextd::routes(routes, contextd)
}

/// The daemon's folders and their locks, held as long as it runs.
struct Home {
    socket_lock: DaemonLock,
    _data_lock: DaemonLock,
    retention: Retention,
}

impl Home {
    /// Opens the folders and takes two locks, because two daemons may conflict over the socket or over the
    /// data.
    fn open(options: &ServeOptions) -> Result<Self, Error> {
        make_private(&options.data_dir)?;
        refuse_inside_own_agent(&options.data_dir.join("agents"))?;
        let data_lock = lock(&options.data_dir.join("daemon.lock"), options.inherited.socket.is_some())?;
        make_private(&options.data_dir.join("agents"))?;
        if let Some(folder) = options.socket.parent() {
            make_private(folder)?;
        }
        let socket_lock = lock(&options.socket.with_extension("lock"), options.inherited.socket.is_some())?;
        let days = |days: u32| Duration::from_secs(u64::from(days) * 24 * 3600);
        let retention = &options.config.retention;
        Ok(Self {
            socket_lock,
            _data_lock: data_lock,
            retention: Retention {
                activities: days(retention.activities_days),
                events: days(retention.events_days),
                sessions: days(retention.sessions_days),
            },
        })
    }
}

/// Refuses to start inside an agent of this data folder: that agent would control the daemon, and the shims of all the
/// others rightly refuse it. A daemon of another folder may run inside an agent.
fn refuse_inside_own_agent(agents_dir: &Path) -> Result<(), Error> {
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    let above = ancestry::of(own).unwrap_or_default();
    let held = |pid: i32| scan::session_held_by(agents_dir, u32::try_from(pid).ok()?);
    match above.iter().skip(1).find_map(|at| held(at.pid)) {
        None => Ok(()),
        Some(session) => Err(Error::new(
            ErrorCode::NotAllowed,
            format!(
                "the daemon cannot be started by an agent that it runs (session {session}); start it from a terminal of yours"
            ),
        )),
    }
}

/// Takes a lock. A daemon that received its socket from the service manager replaces one that a command
/// started: that one has lost its socket to the manager and is unreachable. Its agents keep running.
fn lock(path: &Path, relieves: bool) -> Result<DaemonLock, Error> {
    let refused = match DaemonLock::acquire(path) {
        Err(error) if relieves && error.code == ErrorCode::AlreadyRunning => error,
        result => return result,
    };
    let Some(holder) = Holder::of(path) else { return Err(refused) };
    tracing::info!(pid = holder.pid, "taking over from a daemon that is not the service");
    if !holder.end(limits::STOP_WAIT) {
        return Err(refused);
    }
    DaemonLock::acquire(path)
}

/// Creates a folder that only its owner can enter. An existing one is left as it is.
fn make_private(folder: &Path) -> Result<(), Error> {
    use std::os::unix::fs::DirBuilderExt as _;
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| {
        Error::new(
            ErrorCode::StorageFailed,
            format!("{} cannot be made: {error}; choose another folder with --data-dir", folder.display()),
        )
    })
}

fn bind(
    options: &mut ServeOptions,
    home: &Home,
    supervisor: Supervisor,
    devices: Arc<Devices>,
) -> Result<Bound, Error> {
    let mut listens = vec![Listen::Unix(options.socket.clone())];
    let default = options.config.default_listen;
    listens.extend(options.listen.iter().map(|address| match default {
        _ if address.tls => Listen::Tls(address.at),
        Some(default) if default == address.at => Listen::TcpOrNext(default),
        _ => Listen::Tcp(address.at),
    }));
    let token = options.socket.parent().map(Token::create_or_load).transpose()?;
    let token_users = token_users::resolve(&options.config.access.token_users)?;
    let tls = match (&options.tls.cert, &options.tls.key) {
        (Some(cert), Some(key)) => {
            let authority = DeviceAuthority::create_or_load(&options.data_dir)?;
            Some(Tls::load(cert, key, authority.certificate())?)
        }
        _ => None,
    };
    let audit = Some(supervisor.audit());
    let agents = Arc::new(AgentProcesses(supervisor));
    let access = Access { token, token_users, agents, audit, devices: Some(devices), tls };
    Server::bind_given(&listens, options.inherited.socket.take(), &home.socket_lock, access)
}

/// Distinguishes callers that are agents from users.
pub struct AgentProcesses(pub Supervisor);

impl Agents for AgentProcesses {
    fn session_of(&self, pid: i32) -> Option<SessionId> {
        self.0.session_of_process(u32::try_from(pid).ok()?)
    }

    fn session_of_group(&self, name: &str) -> Option<SessionId> {
        self.0.session_of_group(name)
    }

    fn lost_since(&self) -> Option<u64> {
        self.0.agents_lost_since()
    }
}

fn about(
    options: &ServeOptions,
    retention: Retention,
    shutdown: mpsc::Sender<Shutdown>,
    devices: Arc<Devices>,
    forges: forge::Forges,
) -> ObeyConfig {
    ObeyConfig {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started_at: clock::now(),
        execute_allow: options.config.execute.allow.clone(),
        execute_timeout: Duration::from_secs(options.config.execute.timeout_secs),
        retention,
        shutdown,
        socket: options.socket.clone(),
        devices,
        find_agents: installed_agents::finder(options.config.clone()),
        forges,
        render_metrics: metrics::renderer(),
        prepare_upgrade: upgrade::preparer(),
    }
}

/// What the next daemon must know to replace this one; its addresses are added once they are bound.
fn running(options: &ServeOptions) -> Result<Running, Error> {
    Ok(Running {
        pid: i32::try_from(std::process::id()).unwrap_or(0),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        program: own_program()?,
        flags: options.flags.iter().map(|flag| flag.to_string_lossy().into_owned()).collect(),
        listen: Vec::new(),
        has_free_port: options.listen.iter().any(|address| address.at.port() == 0),
        listen_tls: Vec::new(),
        taken_default: None,
        data_dir: options.data_dir.clone(),
        background: options.ready.background,
        is_given_socket: options.inherited.socket.is_some(),
    })
}

/// Announces that the daemon is ready, with its actual addresses.
fn announce(options: ServeOptions, bound: &Bound, mut running: Running, found: usize) -> Result<(), Error> {
    let bound = bound.addresses();
    let addresses = |wanted: fn(&Listen) -> Option<SocketAddr>| bound.iter().filter_map(wanted).collect();
    running.listen = addresses(|listen| match listen {
        Listen::Tcp(address) => Some(*address),
        Listen::TcpOrNext(_) | Listen::Tls(_) | Listen::Unix(_) => None,
    });
    running.listen_tls = addresses(|listen| match listen {
        Listen::Tls(address) => Some(*address),
        Listen::Tcp(_) | Listen::TcpOrNext(_) | Listen::Unix(_) => None,
    });
    let addresses = running.addresses();
    if let Some(default) = options.config.default_listen.filter(|default| !running.listen.contains(default)) {
        // The next daemon must take the port that clients know by now.
        running.has_free_port = true;
        running.taken_default = Some(default);
        tracing::warn!(%default, ?addresses, "another process listens on the default port; the next free one is used");
    }
    tracing::info!(socket = %options.socket.display(), ?addresses, sessions = found, "serving");
    let socket = options.socket.clone();
    if let Err(error) = running.write(&socket) {
        tracing::warn!(%error, "cannot write down how this daemon was started; obey upgrade will not know");
    }
    options
        .ready
        .announce(&socket, &addresses)
        .map_err(|error| Error::new(ErrorCode::ListenFailed, format!("cannot announce readiness: {error}")))
}

/// Writes down now and then which devices were seen.
async fn save_seen(devices: Arc<Devices>) {
    loop {
        tokio::time::sleep(surface::peer::limits::DEVICES_SEEN_INTERVAL).await;
        let devices = Arc::clone(&devices);
        if let Ok(Err(error)) = tokio::task::spawn_blocking(move || devices.save_seen()).await {
            tracing::warn!(%error, "cannot write down which devices were seen");
        }
    }
}

/// Once the start is over, gives back what only it needed.
async fn settle() {
    tokio::time::sleep(limits::SETTLE_WAIT).await;
    mapped::forget_start();
}

async fn collect_garbage(supervisor: Supervisor, retention: Retention) {
    match supervisor.collect_garbage_unasked(retention).await {
        Ok(removed) => tracing::debug!(?removed, "old things were cleared away"),
        Err(error) => tracing::warn!(%error, detail = error.detail, "old things cannot be cleared away"),
    }
}

/// The program that holds agents: this one, by the path it was started from, so that a daemon whose file was
/// replaced starts shims of the new version.
fn own_program() -> Result<std::path::PathBuf, Error> {
    std::env::current_exe().map_err(|error| {
        Error::new(ErrorCode::CreateFailed, format!("cannot find the obey program itself: {error}"))
    })
}
