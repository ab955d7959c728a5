//! The composition root: configuration → store → providers → supervisor → surfaces → serving → shutdown. Must
//! not know the command line; everything it needs is in `ServeOptions`.

pub(crate) mod contained;
mod daemon_tools;
mod mapped;
mod projects;
mod token_users;
mod tools;
pub(crate) mod workbench;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ::workbench::scrub::Scrubber;
use anyhow::Context as _;
use domain::{Error, ErrorCode, SessionId};
use host::{clock, failpoint};
use runtime::Supervisor;
use runtime::retention::Retention;
use runtime::settings::Settings;
use runtime::supervisor::SupervisorOptions;
use storage::Store;
use surface::peer::{Access, Agents, DeviceAuthority, Devices, Token};
use surface::server::{Bound, DaemonLock, Listen, Server, Tls};
use surface_obey::{ObeyConfig, Shutdown};
use tokio::sync::mpsc;

use crate::holder::Holder;
use crate::limits;
use crate::running::Running;
use crate::serve::ServeOptions;
use crate::toolbox::{Operations, WorkbenchToolbox};
pub(crate) use daemon_tools::DaemonTools;
use tools::WorkbenchTools;

/// Serves until shutdown and returns the exit code. Creates its own async runtime: it is called from a plain
/// thread. Calls `options.ready.announce(…)` once every listener accepts connections.
pub(crate) fn serve(options: ServeOptions) -> anyhow::Result<i32> {
    start_log(&options.config.log_level)?;
    raise_file_limit();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers())
        .enable_all()
        .build()
        .context("tokio")?;
    let served = runtime.block_on(run(options));
    // Readers may still be running; nothing that was accepted depends on them.
    runtime.shutdown_timeout(limits::RUNTIME_END_WAIT);
    served?;
    Ok(0)
}

/// The number of worker threads: half the cores, because agents and their shims need the rest. An extra
/// worker costs each chunk of output an unnecessary wake-up, which on two cores is a tenth of its latency.
fn workers() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (cores / 2).clamp(1, limits::WORKERS_MAX)
}

/// Starts everything in order, serves until the shutdown, and ends everything.
async fn run(mut options: ServeOptions) -> Result<(), Error> {
    let home = Home::open(&options)?;
    failpoint!("start.locked");
    let store = Store::open(&options.data_dir.join("daemon.db"))?;
    failpoint!("start.stored");
    let plan = workbench::WorkbenchConfig::of(&options)?;
    let scrubber = plan.event_scrubber().await?;
    let opening = workbench::LazyWorkbench::start(plan, store.clone()).await?;
    let operations = Operations::default();
    let settings = Settings::new(options.settings.clone());
    let workshop = WorkbenchToolbox {
        lazy_workbench: opening.clone(),
        settings: settings.clone(),
        operations: operations.clone(),
    };
    let supervisor = supervisor(&options, store.clone(), settings, workshop, scrubber).await?;
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
        about(&options, home.retention, shutdown, Arc::clone(&devices)),
    );
    let routes = surface_betcode::routes(routes, supervisor.clone(), about_betcode(&options, &bound));
    let (leaving, is_leaving) = tokio::sync::watch::channel(false);
    let routes = surface_acp::routes(routes, supervisor.clone(), is_leaving);
    let routes = surface_roz::routes(routes, supervisor.clone(), about_roz(&options));
    let routes = bench_routes(routes, &options, opening, &supervisor, &operations);
    let found = supervisor.recover().await?;
    failpoint!("start.recovered");
    let socket = options.socket.clone();
    announce(options, &bound, running, found)?;
    if let Some(manager) = &manager {
        manager.ready();
    }
    tokio::spawn(collect_garbage(supervisor.clone(), home.retention));
    tokio::spawn(settle());
    tokio::spawn(save_seen(Arc::clone(&devices)));
    bound
        .serve(routes, async move {
            tokio::select! {
                _ = asked.recv() => tracing::info!("a client asked the daemon to end"),
                signal = told_to_end() => tracing::info!(signal, "told to end"),
            }
            // Before connections are closed: an editor that loses the daemon has not left its agents.
            leaving.send_replace(true);
            if let Some(manager) = manager {
                manager.stopping();
            }
        })
        .await?;
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
            openclaw: options.config.openclaw.options(Some(options.data_dir.join("openclaw"))),
            // The configuration was validated when it was loaded.
            acp_agents: providers::acp::NamedAgents::new(&options.config.acp.agents).unwrap_or_default(),
            toolbox: Some(Arc::new(toolbox)),
        }),
        agents_dir: options.data_dir.join("agents"),
        shim_program: own_program()?,
        socket: options.socket.clone(),
        spool_max_bytes: options.config.retention.spool_max_mb.saturating_mul(1 << 20),
        active_sessions_max: usize::try_from(options.config.sessions.max_active).unwrap_or(usize::MAX),
        settings,
        worktrees_dir: options.data_dir.join("worktrees"),
        offers_tools: options.config.workbench.for_agents,
        containment: contained::policy(&options.config)?,
        scrubber: Some(scrubber),
        scrub_events: options.config.scrub.events,
    })
    .await
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
    operations.get_or_init(|| DaemonTools::new(workbench, surface_mcp::TeamTools::new(supervisor.clone())));
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
pub(crate) struct AgentProcesses(pub(crate) Supervisor);

impl Agents for AgentProcesses {
    fn session_of(&self, pid: i32) -> Option<SessionId> {
        self.0.session_of_process(u32::try_from(pid).ok()?)
    }

    fn session_of_group(&self, name: &str) -> Option<SessionId> {
        self.0.session_of_group(name)
    }
}

fn about(
    options: &ServeOptions,
    retention: Retention,
    shutdown: mpsc::Sender<Shutdown>,
    devices: Arc<Devices>,
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
    }
}

fn about_betcode(options: &ServeOptions, bound: &Bound) -> surface_betcode::BetcodeConfig {
    // A daemon that was started in no folder in particular has no default; one that may not be used is refused by name.
    let folder = std::env::current_dir().ok().filter(|folder| folder.parent().is_some());
    let port = |listen: &Listen| match listen {
        Listen::Tcp(address) => Some(address.port()),
        Listen::TcpOrNext(_) | Listen::Tls(_) | Listen::Unix(_) => None,
    };
    surface_betcode::BetcodeConfig {
        default_folder: folder,
        daemon: surface_betcode::DaemonInfo {
            max_subprocesses: options.config.sessions.max_active,
            socket: options.socket.clone(),
            port: bound.addresses().iter().find_map(port),
            database: options.data_dir.join("daemon.db"),
            log_level: options.config.log_level.clone(),
        },
    }
}

fn about_roz(options: &ServeOptions) -> surface_roz::RozConfig {
    // Empty, or a name that was checked when the configuration was read.
    let default_provider = domain::ProviderKind::parse(&options.config.sessions.default_provider);
    surface_roz::RozConfig { default_provider, started_at: clock::now() }
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

/// Waits for a signal to end, and returns its name.
async fn told_to_end() -> &'static str {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut term), Ok(mut int)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        tracing::error!("cannot listen for signals; only a client can end this daemon");
        return std::future::pending().await;
    };
    tokio::select! {
        _ = term.recv() => "SIGTERM",
        _ = int.recv() => "SIGINT",
    }
}

fn start_log(level: &str) -> anyhow::Result<()> {
    let filter =
        tracing_subscriber::EnvFilter::try_new(level).with_context(|| format!("log_level: {level:?}"))?;
    // It logs addresses that contain keys. The session reports such failures without them.
    let filter = filter.add_directive("rmcp=off".parse()?);
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
        .init();
    Ok(())
}

/// Each session needs a few files; the usual soft limit of 1,024 is too low.
fn raise_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        limit.current = limit.maximum;
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            tracing::warn!(%error, "cannot raise the limit of open files");
        }
    }
}
