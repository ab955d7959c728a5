//! Which sessions' agents run in the sandbox, by the daemon's configuration; and what such an agent sees of the machine:
//! its project, what its provider declares, its program, and nothing else. Builds no walls itself.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use domain::containment::{AgentNetwork, Containment};
use domain::{Error, ErrorCode, ProviderKind, SessionSpec};
use git_files::{DOT_GIT, LinkedTree};
use sandbox::agent::{CopiedFile, Endpoint, Mount, ProtectedNames, Reach, SOCKET_INSIDE, Walls};

use agent_port::{Places, ProcessLaunch};

mod install;
mod limit_policy;
pub mod limits;
mod prepared;
mod submodules;
mod withheld;

pub use limit_policy::LimitPolicy;
pub use prepared::Preparation;
pub use withheld::Withheld;

/// What the configuration says about agents and the sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// For every agent that nothing below names.
    pub everywhere: Option<AgentNetwork>,
    pub providers: BTreeMap<ProviderKind, Option<AgentNetwork>>,
    /// By id or name; these win over providers.
    pub campaigns: BTreeMap<String, Option<AgentNetwork>>,
    /// Folders outside the project that every agent in the sandbox may read, or read and write.
    pub read_only: Vec<PathBuf>,
    pub writable: Vec<PathBuf>,
    /// Endpoints that an agent with the network `model` reaches beside its provider's own.
    pub model_hosts: Vec<String>,
    /// What agents may use.
    pub limits: LimitPolicy,
    /// What no agent in the sandbox is given.
    pub withheld: Withheld,
}

impl Policy {
    /// Returns what is demanded of a session.
    pub fn demands(&self, provider: ProviderKind, campaign: &[&str]) -> Containment {
        let by_campaign = campaign.iter().find_map(|name| self.campaigns.get(*name));
        let said = by_campaign.or_else(|| self.providers.get(&provider));
        Containment { sandbox: said.copied().unwrap_or(self.everywhere), ..Containment::default() }
    }
}

/// Variables that name sockets of programs outside the sandbox. The sockets do not exist in it, and a program that is told of one
/// would wait for it until it times out.
const LEAD_OUT: &[&str] = &[
    "DBUS_SESSION_BUS_ADDRESS",
    "DBUS_SYSTEM_BUS_ADDRESS",
    "DISPLAY",
    "DOCKER_HOST",
    "SSH_AGENT_PID",
    "SSH_AUTH_SOCK",
    "STY",
    "SYSTEMD_EXEC_PID",
    "TMUX",
    "TMUX_PANE",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "XDG_RUNTIME_DIR",
];

/// Proxies, which the endpoints of a model are not reached through.
const PROXIES: &[&str] =
    &["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"];

/// Files of a repository's own folder by which git runs code, or is led to settings elsewhere.
/// What is in `worktrees` leads other trees to theirs, also trees that are made while the agent lives.
const PROTECTED_GIT: &[&str] = &["config", "config.worktree", "hooks", "commondir", "worktrees"];

/// What the walls of a session's agent need to know of the daemon.
pub struct Surroundings<'a> {
    pub policy: &'a Policy,
    pub socket: &'a Path,
    /// This program, which serves the agent its tools.
    pub own_program: &'a Path,
}

/// Says what an agent sees and reaches, and readies its command line and environment for it.
pub fn walls(
    spec: &SessionSpec,
    network: AgentNetwork,
    launch: &mut ProcessLaunch,
    around: &Surroundings<'_>,
) -> Result<(Walls, Option<Preparation>), Error> {
    let home = variable(&launch.environment, "HOME").map(PathBuf::from).filter(|home| is_home(home));
    let home = home.ok_or_else(|| refused("HOME is not set to a folder of its own"))?;
    let path = variable(&launch.environment, "PATH").unwrap_or_default().to_owned();
    let Project { mut mounts, protected } = project(spec)?;
    mounts.iter().try_for_each(|mount| around.policy.withheld.check_project(&mount.from))?;
    let (program, installed) = install::of(&launch.program, &path)?;
    let Places { read_only, writable, folders, copies, private, endpoints, prepared } =
        std::mem::take(&mut launch.places);
    let copies = copies.into_iter().map(|copy| CopiedFile { path: copy.path, only: copy.only, from: None });
    let mut copies: Vec<CopiedFile> = copies.collect();
    let preparation = prepared.and_then(|state| {
        let own = Preparation::new(state, &program, installed.clone(), (&home, &path));
        own.add_to(&mut copies)
    });
    mounts.extend(installed);
    mounts.extend(install::file(around.own_program));
    let seen = |paths: &[PathBuf], writable: bool| -> Vec<Mount> {
        paths.iter().filter_map(|path| mount(path, writable)).collect()
    };
    let mut beside = seen(&read_only, false);
    beside.extend(seen(&around.policy.read_only, false));
    beside.extend(seen(&writable, true));
    for folder in folders {
        let own = Places::own_part(&folder, &spec.id);
        make_private(&own)?;
        beside.extend(mount(&own, true).map(|mount| Mount { at: folder, ..mount }));
    }
    beside.extend(seen(&around.policy.writable, true));
    around.policy.withheld.check_mounts(&beside)?;
    mounts.extend(beside);
    let reach = match network {
        AgentNetwork::Full => Reach::Full,
        AgentNetwork::Model => Reach::Endpoints,
        AgentNetwork::None => Reach::Nothing,
    };
    let endpoints = match network {
        AgentNetwork::Model => reached(&endpoints, &around.policy.model_hosts)?,
        AgentNetwork::Full | AgentNetwork::None => Vec::new(),
    };
    launch.program = program;
    ready(&mut launch.environment, network);
    let walls = Walls {
        working_dir: spec.working_dir.clone(),
        home,
        private,
        mounts,
        copies,
        protected,
        reach,
        endpoints,
        daemon: Some(around.socket.to_owned()),
    };
    Ok((walls, preparation))
}

fn variable<'a>(environment: &'a [(OsString, OsString)], name: &str) -> Option<&'a OsStr> {
    environment.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.as_os_str())
}

/// Whether a folder can be an empty one inside: the system's own cannot.
fn is_home(home: &Path) -> bool {
    const SYSTEM: &[&str] = &["/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/proc", "/sys", "/dev"];
    home.is_absolute() && home.parent().is_some() && !SYSTEM.iter().any(|part| home.starts_with(part))
}

fn refused(message: impl Into<String>) -> Error {
    Error::new(
        ErrorCode::SandboxFailed,
        format!("the agent cannot be put in the sandbox: {}", message.into()),
    )
}

/// Shows a path that is there, where it is written, whatever links lead to it.
fn mount(path: &Path, writable: bool) -> Option<Mount> {
    Some(Mount { from: path.canonicalize().ok()?, at: path.to_owned(), writable })
}

fn make_private(folder: &Path) -> Result<(), Error> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(|error| refused(format!("{} cannot be made: {error}", folder.display())))
}

/// What an agent sees of its project, and what of it must not be changed.
struct Project {
    mounts: Vec<Mount>,
    protected: Vec<ProtectedNames>,
}

/// The project, writable but for some names. In a linked working tree that is the tree itself and the folder of the
/// repository it belongs to.
fn project(spec: &SessionSpec) -> Result<Project, Error> {
    let linked = LinkedTree::of(&spec.working_dir);
    let root = root_of(spec, linked.as_ref());
    let root = root.canonicalize().map_err(|error| refused(format!("{}: {error}", root.display())))?;
    let mut project = Project { mounts: vec![Mount::same(&root, true)], protected: Vec::new() };
    project.protect(&root, linked)?;
    let start = spec.working_dir.canonicalize().unwrap_or_default();
    if let Ok(below) = start.strip_prefix(&root)
        && start != root
    {
        // As mounts of their own the folders on the way cannot be moved away and replaced.
        let mut folder = root.clone();
        for part in below {
            folder.push(part);
            project.mounts.push(Mount::same(&folder, true));
        }
        project.protect(&start, None)?;
    }
    Ok(project)
}

/// Returns the folder to which the tools of a session are bound that the daemon runs: for an agent in the sandbox no more
/// than what it sees itself.
pub fn root_of_tools(spec: &SessionSpec) -> &Path {
    match spec.containment.sandbox {
        Some(_) => root_of(spec, LinkedTree::of(&spec.working_dir).as_ref()),
        None => &spec.root,
    }
}

fn root_of<'a>(spec: &'a SessionSpec, linked: Option<&LinkedTree>) -> &'a Path {
    let tree = &spec.working_dir;
    if linked.is_some() || !tree.starts_with(&spec.root) { tree } else { &spec.root }
}

impl Project {
    /// Protects the names in a folder that programs look at when they are started there.
    fn protect(&mut self, folder: &Path, linked: Option<LinkedTree>) -> Result<(), Error> {
        let git = folder.join(DOT_GIT);
        let is_repository =
            linked.is_none() && git.symlink_metadata().is_ok_and(|meta| meta.file_type().is_dir());
        // A repository is written to. What is not there, or is a file or a link, is not for the agent to make or to
        // change.
        let names = sandbox::PROTECTED.iter().filter(|name| **name != DOT_GIT || !is_repository).copied();
        let names = names.chain(sandbox::protected_beside(folder)).map(str::to_owned).collect();
        self.protected.push(ProtectedNames { folder: folder.to_owned(), names });
        if let Some(linked) = &linked {
            // What says where the tree and its repository are; and as mounts their folders cannot be replaced.
            let names = ["commondir", "config.worktree", "gitdir"].map(str::to_owned).to_vec();
            self.protected.push(ProtectedNames { folder: linked.own.clone(), names });
            make_worktree_config(&linked.common, &linked.own)?;
            // The tree has files of its own there; of the folder itself git needs to write nothing, and whatever is replaced or
            // made directly in it stays out of reach.
            let writable = sandbox::writable_for_linked_tree(&linked.common, &linked.own);
            let writable =
                writable.map_err(|error| refused(format!("{}: {error}", linked.common.display())))?;
            self.mounts.extend(writable.into_iter().map(|folder| Mount::same(folder, true)));
        }
        if let Some((_, repository)) =
            linked.is_none().then(|| sandbox::separate_repository(folder)).flatten()
        {
            self.protect_separate(&repository, folder)?;
        }
        let is_linked = linked.is_some();
        if let Some(git) = linked.map(|linked| linked.common).or_else(|| is_repository.then_some(git)) {
            if !is_linked {
                make_worktree_config(&git, &git)?;
                self.protect_repository(&git);
            }
            for submodule in submodules::find(&git, folder) {
                make_worktree_config(&submodule.git, &submodule.git)?;
                self.protect_submodule(&git, folder, submodule);
            }
            self.mounts.push(Mount::same(git, !is_linked));
        }
        Ok(())
    }

    /// A repository that lies in the project under a name of its own.
    fn protect_separate(&mut self, git: &Path, root: &Path) -> Result<(), Error> {
        make_worktree_config(git, git)?;
        for submodule in submodules::find(git, root) {
            make_worktree_config(&submodule.git, &submodule.git)?;
            self.protect_submodule(git, root, submodule);
        }
        self.protect_submodule(root, root, submodules::Submodule { git: git.to_owned(), tree: None });
        Ok(())
    }

    fn protect_repository(&mut self, git: &Path) {
        let names = PROTECTED_GIT.iter().map(ToString::to_string).collect();
        self.protected.push(ProtectedNames { folder: git.to_owned(), names });
    }

    /// A submodule's repository is protected as that of the project is, and so is the file that says where it is. As mounts the
    /// folders on the way cannot be moved away and replaced.
    fn protect_submodule(&mut self, git: &Path, root: &Path, submodule: submodules::Submodule) {
        self.protect_repository(&submodule.git);
        let ways =
            [(&submodule.git, git)].into_iter().chain(submodule.tree.as_ref().map(|tree| (tree, root)));
        for (folder, top) in ways {
            let on_the_way = folder.ancestors().take_while(|folder| *folder != top);
            self.mounts.extend(on_the_way.map(|folder| Mount::same(folder, true)));
        }
        if let Some(tree) = submodule.tree {
            self.protected.push(ProtectedNames { folder: tree, names: vec![DOT_GIT.to_owned()] });
        }
    }
}

/// Where git reads a configuration for each working tree it fails on a folder in its place. It is there for good then, as
/// git itself makes it.
fn make_worktree_config(repository: &Path, git: &Path) -> Result<(), Error> {
    let text = std::fs::read(repository.join("config")).unwrap_or_default();
    if !String::from_utf8_lossy(&text).to_ascii_lowercase().contains("worktreeconfig") {
        return Ok(());
    }
    let file = git.join("config.worktree");
    match std::fs::File::create_new(&file) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(refused(format!("{}: {error}", file.display())))
        }
        _ => Ok(()),
    }
}

/// Reads addresses of a model: a URL, or a host with or without a port.
fn reached(own: &[String], configured: &[String]) -> Result<Vec<Endpoint>, Error> {
    let mut endpoints: Vec<Endpoint> = Vec::new();
    for text in own.iter().chain(configured) {
        let endpoint = endpoint(text)
            .ok_or_else(|| refused(format!("{text:?} is no address of a model; write host:port")))?;
        if !endpoints.contains(&endpoint) {
            endpoints.push(endpoint);
        }
    }
    if endpoints.is_empty() {
        return Err(refused(
            "its provider does not say where its model is; name the endpoint in sandbox.model_hosts, or use another network",
        ));
    }
    Ok(endpoints)
}

fn endpoint(text: &str) -> Option<Endpoint> {
    let (rest, usual) = match text.split_once("://") {
        Some(("http" | "ws", rest)) => (rest, 80),
        Some(("https" | "wss", rest)) => (rest, 443),
        Some(_) => return None,
        None => (text, 443),
    };
    let authority = rest.split(['/', '?', '#']).next()?;
    let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let (host, port) = match authority.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
        Some((host, port)) => (host, port.strip_prefix(':')),
        None => match authority.rsplit_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | '_' | ':');
    let port = port.map_or(Some(usual), |port| port.parse().ok())?;
    (!host.is_empty() && host.chars().all(plain)).then(|| Endpoint { host: host.to_ascii_lowercase(), port })
}

/// Readies an environment for the inside.
fn ready(environment: &mut Vec<(OsString, OsString)>, network: AgentNetwork) {
    let goes = |name: &OsStr| {
        LEAD_OUT.iter().any(|known| name == *known)
            || (network == AgentNetwork::Model && PROXIES.iter().any(|known| name == *known))
            || ["TMPDIR", "TMP", "TEMP", "OBEY_DAEMON_SOCKET"].iter().any(|known| name == *known)
    };
    environment.retain(|(name, _)| !goes(name));
    environment.push(("TMPDIR".into(), "/tmp".into()));
    environment.push(("OBEY_DAEMON_SOCKET".into(), SOCKET_INSIDE.into()));
    environment.push(("OBEY_SANDBOX".into(), sandbox::Tier::Namespaces.name().into()));
}

#[cfg(test)]
mod tests;
