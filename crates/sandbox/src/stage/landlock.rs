//! Landlock as a second wall: inside namespaces behind the mounts, without namespaces the first. Grants only; what is
//! granted is decided by the callers.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use landlock::Access;
use landlock::{
    ABI, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};

use crate::order::{Order, Plan};
use crate::{Network, Tier};

/// The newest version whose rights are asked for; older kernels grant what they know.
const NEWEST: ABI = ABI::V9;

/// What a command may read outside its project: programs, libraries, and what describes the system to them.
pub(crate) const SYSTEM: &[&str] =
    &["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/run/current-system"];

/// Parts of `/etc` that hold no secrets and that programs break without.
pub(crate) const SYSTEM_ETC: &[&str] = &[
    "alternatives",
    "bash.bashrc",
    "ca-certificates",
    "ca-certificates.conf",
    "crypto-policies",
    "debian_version",
    "default/locale",
    "fonts",
    "gai.conf",
    "host.conf",
    "inputrc",
    "issue",
    "java",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "locale.alias",
    "locale.conf",
    "localtime",
    "login.defs",
    "lsb-release",
    "magic",
    "magic.mime",
    "manpath.config",
    "mime.types",
    "nsswitch.conf",
    "os-release",
    "perl",
    "pki",
    "profile",
    "protocols",
    "python3",
    "python3.11",
    "python3.12",
    "python3.13",
    "services",
    "ssl",
    "terminfo",
    "timezone",
    "xml",
];

/// Devices every program may use.
pub(crate) const DEVICES: &[&str] = &["null", "zero", "full", "random", "urandom"];

/// What of `/proc` says nothing about other processes.
const PROC_FILES: &[&str] = &[
    "cpuinfo",
    "meminfo",
    "stat",
    "loadavg",
    "uptime",
    "version",
    "filesystems",
    "sys/kernel/random",
    "sys/vm/overcommit_memory",
    "sys/kernel/osrelease",
    "sys/kernel/ngroups_max",
    "sys/kernel/cap_last_cap",
    "sys/fs/pipe-max-size",
    "cmdline",
];

fn read_and_run() -> BitFlags<AccessFs> {
    AccessFs::from_read(NEWEST)
}

/// Everything but connecting to sockets by their path.
fn everything() -> BitFlags<AccessFs> {
    AccessFs::from_all(NEWEST) & !BitFlags::from(AccessFs::ResolveUnix)
}

/// Locks the process in, in a root that was built up for it. Behind the mounts: a kernel that does not know how does
/// nothing.
pub(crate) fn restrict_built(plan: &Plan) -> io::Result<()> {
    lock(grant_built_root(ruleset(plan)?, plan)?).map(drop)
}

/// Locks the process in, in the root of the machine; tells whether the kernel did anything.
pub(crate) fn restrict_real(plan: &Plan, order: &Order) -> io::Result<bool> {
    lock(grant_real_root(ruleset(plan)?, plan, order)?)
}

fn lock(ruleset: RulesetCreated) -> io::Result<bool> {
    let status = ruleset.restrict_self().map_err(io::Error::other)?;
    Ok(status.ruleset != RulesetStatus::NotEnforced)
}

fn ruleset(plan: &Plan) -> io::Result<RulesetCreated> {
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))
        .and_then(|ruleset| ruleset.scope(Scope::from_all(NEWEST)))
        .map_err(io::Error::other)?;
    if plan.network == Network::None || plan.tier != Tier::Namespaces {
        ruleset = ruleset.handle_access(AccessNet::from_all(NEWEST)).map_err(io::Error::other)?;
    }
    ruleset.create().map_err(io::Error::other)
}

/// Opens a path to grant it. Never follows a link: what it leads to was not meant.
fn open(path: &Path) -> io::Result<Option<OwnedFd>> {
    match rustix::fs::open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()) {
        Ok(fd) => Ok(Some(fd)),
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::ACCESS) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn grant(ruleset: RulesetCreated, path: &Path, access: BitFlags<AccessFs>) -> io::Result<RulesetCreated> {
    match open(path)? {
        Some(fd) => grant_open(ruleset, fd, access),
        None => Ok(ruleset),
    }
}

fn grant_open(
    ruleset: RulesetCreated,
    fd: OwnedFd,
    access: BitFlags<AccessFs>,
) -> io::Result<RulesetCreated> {
    let kind = FileType::from_raw_mode(rustix::fs::fstat(&fd)?.st_mode);
    let access = match kind {
        FileType::Symlink => return Ok(ruleset),
        FileType::Directory => access,
        _ => access & AccessFs::from_file(NEWEST),
    };
    ruleset.add_rule(PathBeneath::new(fd, access)).map_err(io::Error::other)
}

/// In a root that was built up, everything may be read; what may be written is writable by its mount, too.
fn grant_built_root(ruleset: RulesetCreated, plan: &Plan) -> io::Result<RulesetCreated> {
    let mut ruleset = grant(ruleset, Path::new("/"), read_and_run())?;
    let temporary = ["/tmp", "/run", "/home", "/var/tmp", "/dev/shm"].map(OsString::from);
    for path in temporary.iter().chain(&plan.root).chain(&plan.writable) {
        ruleset = grant(ruleset, Path::new(path), everything())?;
    }
    if let Some(agent) = &plan.agent {
        for path in agent.writable.iter().map(Path::new).chain([Path::new("/dev/pts")]) {
            ruleset = grant(ruleset, path, everything())?;
        }
        let socket = Path::new(crate::agent::SOCKET_INSIDE);
        ruleset = grant(ruleset, socket, everything() | AccessFs::ResolveUnix)?;
    }
    grant_devices(ruleset)
}

fn grant_devices(mut ruleset: RulesetCreated) -> io::Result<RulesetCreated> {
    for name in DEVICES {
        let access = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev;
        ruleset = grant(ruleset, &Path::new("/dev").join(name), access)?;
    }
    Ok(ruleset)
}

/// In the real root, what is not named does not exist. Rights reach everything below, so that the project's own folder
/// gets none to make things in: only what is in it does, except what is protected.
fn grant_real_root(ruleset: RulesetCreated, plan: &Plan, order: &Order) -> io::Result<RulesetCreated> {
    let mut ruleset = ruleset;
    for path in SYSTEM.iter().map(Path::new).chain(plan.read_only.iter().map(Path::new)) {
        ruleset = grant(ruleset, path, read_and_run())?;
    }
    for name in SYSTEM_ETC.iter().chain(&["passwd", "group", "hosts"]) {
        ruleset = grant(ruleset, &Path::new("/etc").join(name), read_and_run())?;
    }
    for name in PROC_FILES {
        ruleset = grant(ruleset, &Path::new("/proc").join(name), AccessFs::from_read(NEWEST))?;
    }
    for path in plan.writable.iter().chain(&order.scratch) {
        ruleset = grant(ruleset, Path::new(path), everything())?;
    }
    let root = Path::new(&order.root);
    ruleset = grant(ruleset, root, read_and_run())?;
    let folder =
        rustix::fs::open(root, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW, Mode::empty())?;
    for name in names_in(&folder)? {
        if order.protected.contains(&name) {
            continue;
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(&folder, Path::new(&name), flags, Mode::empty()) {
            Ok(fd) if !is_socket(&fd)? => ruleset = grant_open(ruleset, fd, everything())?,
            // Gone since it was listed, or something no command should open.
            Ok(_) | Err(_) => {}
        }
    }
    grant_devices(ruleset)
}

fn is_socket(fd: &OwnedFd) -> io::Result<bool> {
    let stat = rustix::fs::statat(fd, "", AtFlags::EMPTY_PATH)?;
    Ok(FileType::from_raw_mode(stat.st_mode) == FileType::Socket)
}

fn names_in(folder: &OwnedFd) -> io::Result<Vec<OsString>> {
    use std::os::unix::ffi::OsStringExt;
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(folder)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(OsString::from_vec(name));
        }
    }
    Ok(names)
}
