//! Which tier a machine offers, found out at start by building each and trying to get out of it. Nothing is inferred
//! from versions or settings: only walls that hold count.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::net::{TcpListener, UnixListener};

use super::cgroup::Cgroup;
use super::launch::{self, Output};
use super::order::{Canary, StageAction};
use super::protect::Placeholders;
use super::stages::Stages;
use super::{Command, Config, Limits, Network, RepositoryAccess, Tier, order_of, recipe_of, sys};
use crate::limits;

/// What the probe found.
#[derive(Clone, Debug)]
pub struct ProbeFindings {
    pub tier: Tier,
    /// The version of Landlock the kernel speaks; 0 if none.
    pub landlock_abi: i32,
    /// Commands get control groups of their own.
    pub cgroups: bool,
    /// One line for each thing worth knowing: why a tier is not used, what a tier does not do.
    pub notes: Vec<String>,
}

/// What the lower tier leaves open, for those who have to live with it.
const LANDLOCK_LEAVES: &[&str] = &[
    "files and folders directly in the project's root cannot be made, only inside the folders that are there",
    "modes, times and attributes of the user's own files outside can still be changed",
    "names and sizes of files outside can be seen, their content cannot",
];

/// Tries the tiers from the highest down.
pub(super) async fn run(config: &Config, stages: &Arc<Stages>) -> ProbeFindings {
    let mut findings = ProbeFindings {
        tier: Tier::Refused,
        landlock_abi: sys::landlock_abi(),
        cgroups: false,
        notes: Vec::new(),
    };
    Cgroup::sweep();
    launch::sweep_folders(&config.temporary);
    match Cgroup::create(&Limits::default()) {
        Some(cgroup) => {
            cgroup.remove().await;
            findings.cgroups = true;
        }
        None => findings
            .notes
            .push("no control groups: memory is limited for each process, not for all together".into()),
    }
    if !findings.cgroups && rustix::process::geteuid().is_root() {
        findings.notes.push("root's processes are not counted without control groups".into());
    }
    for tier in [Tier::Namespaces, Tier::Landlock] {
        if tier > config.highest {
            continue;
        }
        match try_tier(config, stages, tier, findings.cgroups).await {
            Ok(()) => {
                findings.tier = tier;
                break;
            }
            Err(why) => findings.notes.push(format!("{tier}: {why}")),
        }
    }
    match findings.tier {
        Tier::Landlock => findings.notes.extend(LANDLOCK_LEAVES.iter().map(|note| (*note).to_owned())),
        Tier::Refused if !config.required => findings.tier = Tier::None,
        _ => {}
    }
    findings
}

/// A project to be locked in, and things outside it to be reached for.
struct ProbeContext {
    folder: PathBuf,
    root: PathBuf,
    canary: Canary,
    _tcp: TcpListener,
    _unix: UnixListener,
}

impl ProbeContext {
    async fn prepare(config: &Config) -> std::io::Result<Self> {
        let folder = launch::temporary_folder(&config.temporary)?;
        let root = folder.join("project");
        std::fs::create_dir(&root)?;
        let outside = folder.join("outside");
        std::fs::create_dir(&outside)?;
        let (file, socket) = (outside.join("canary"), outside.join("socket"));
        std::fs::write(&file, "alive")?;
        let tcp = TcpListener::bind(("127.0.0.1", 0)).await?;
        let unix = UnixListener::bind(&socket)?;
        let canary = Canary {
            file: file.into_os_string(),
            socket: socket.into_os_string(),
            port: tcp.local_addr()?.port(),
            pid: i32::try_from(std::process::id()).unwrap_or(i32::MAX),
        };
        Ok(Self { folder, root, canary, _tcp: tcp, _unix: unix })
    }
}

impl Drop for ProbeContext {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Builds a tier and tries to get out; the error says what did not hold.
async fn try_tier(config: &Config, stages: &Arc<Stages>, tier: Tier, cgroups: bool) -> Result<(), String> {
    let ground = ProbeContext::prepare(config).await.map_err(|error| format!("cannot be tried: {error}"))?;
    let placeholders = Placeholders::lay(&ground.root, &config.protected).map_err(|error| error.message)?;
    let command = Command {
        root: ground.root.clone(),
        cwd: PathBuf::new(),
        argv: Vec::new(),
        env: Vec::new(),
        limits: Limits::default(),
        network: Network::default(),
        timeout: limits::PROBE_WAIT,
    };
    let placeholders = vec![Arc::new(placeholders)];
    let mut order = order_of(&command, &RepositoryAccess::default(), &placeholders);
    order.action = StageAction::Probe(ground.canary.clone());
    let leftovers =
        launch::ready(config, tier, &mut order, placeholders).map_err(|error| error.message.clone())?;
    let made = stages.make(recipe_of(config, &command, tier, cgroups)).await;
    let stage = made.map_err(|error| error.message)?;
    let started = launch::start(stage, order, tier, leftovers, limits::PROBE_WAIT).await;
    let mut running = started.map_err(|error| error.message)?;
    let mut report = Vec::new();
    while let Some(output) = running.next().await {
        match output {
            Output::Stdout(chunk) => report.extend(chunk),
            Output::Stderr(_) => {}
            Output::Ended(end) if end.exit_code == 0 => return all_held(&report, &ground.root),
            Output::Ended(end) => {
                return Err(all_held(&report, &ground.root)
                    .err()
                    .unwrap_or(format!("probe ended with {}", end.exit_code)));
            }
        }
    }
    Err("probe did not end".into())
}

/// Reads the lines of the stage's attempts.
fn all_held(report: &[u8], root: &Path) -> Result<(), String> {
    let report = String::from_utf8_lossy(report);
    let escaped: Vec<&str> = report.lines().filter_map(|line| line.strip_suffix(" escaped")).collect();
    let held = report.lines().filter(|line| line.ends_with(" held")).count();
    if !escaped.is_empty() {
        return Err(format!("does not hold: {}", escaped.join(", ")));
    }
    if held == 0 {
        return Err("the probe said nothing".into());
    }
    // What the probe made beside its project would be an escape it did not notice itself.
    let beside = std::fs::read_dir(root.parent().unwrap_or(root)).map_or(0, Iterator::count);
    if beside == 2 { Ok(()) } else { Err("the probe changed something outside".into()) }
}
