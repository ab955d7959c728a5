//! The root a command sees: built up from nothing. The system's programs read-only, a few harmless parts of `/etc`, a
//! fresh `/proc`, five devices, empty temporary folders, the project. What is not put in does not exist.
//! All mounts are made from open descriptors, so that no link in the project can lead one astray.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags as Attr, MountPropagationFlags, MoveMountFlags, OpenTreeFlags,
    UnmountFlags,
};

use super::Fault;
use super::landlock::{DEVICES, SYSTEM, SYSTEM_ETC};
use crate::agent::CopiedFile;
use crate::limits;
use crate::order::{AgentRoot, Order, Plan};
use crate::sys;

const NO_RIGHTS: Attr = Attr::MOUNT_ATTR_NOSUID.union(Attr::MOUNT_ATTR_NODEV);
pub(super) const READ_ONLY: Attr = NO_RIGHTS.union(Attr::MOUNT_ATTR_RDONLY);

/// What shows the machine or all its users in `/proc`, even read-only.
const HIDDEN_IN_PROC: &[&str] = &[
    "acpi",
    "asound",
    "kcore",
    "key-users",
    "keys",
    "kmsg",
    "kallsyms",
    "kpagecgroup",
    "kpagecount",
    "kpageflags",
    "latency_stats",
    "sched_debug",
    "scsi",
    "slabinfo",
    "sysrq-trigger",
    "timer_list",
    "vmallocinfo",
];

/// Where the new root is put together; any folder that exists will do, it is left behind.
const WORKSHOP: &str = "/usr";

/// A mount to be made: what, and where in the new root.
struct Part {
    mount: OwnedFd,
    at: Vec<u8>,
    is_folder: bool,
}

/// A root in which everything is, and nothing protected yet.
pub(super) struct Laid {
    root: OwnedFd,
}

/// Builds the root and moves into it. The old one is let go: nothing of it can be reached afterwards. Both are done
/// before there is a command, since the kernel lets who unmounts wait for every processor to pass a quiet point.
pub(super) fn lay(plan: &Plan) -> Result<Laid, Fault> {
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", private).map_err(Fault::at("private mounts"))?;
    let mut parts = collect(plan)?;
    match &plan.agent {
        Some(agent) => parts.extend(mounts(agent)?),
        None => parts.extend(project(plan)?),
    }
    let files = agent_files(plan)?;
    let devices: Result<Vec<_>, Fault> = DEVICES.iter().map(|name| device(name)).collect();
    let devices = devices?;
    let root = tmpfs("16m", "755").map_err(Fault::at("root"))?;
    attach(&root, CWD, WORKSHOP).map_err(Fault::at("root"))?;
    for name in ["tmp", "run", "home", "var", "etc", "dev", "proc", "sys"] {
        make_folders(&root, name.as_bytes()).map_err(Fault::at("folders"))?;
    }
    let size = plan.limits.temporary_bytes.to_string();
    for name in ["tmp", "run", "home"] {
        put_tmpfs(&root, name, &size, if name == "tmp" { "1777" } else { "755" })
            .map_err(Fault::at("temporary"))?;
    }
    if plan.agent.is_none() {
        make_folders(&root, b"home/user").map_err(Fault::at("folders"))?;
    }
    link(&root, "var/tmp", "/tmp").map_err(Fault::at("folders"))?;
    system_links(&root).map_err(Fault::at("links"))?;
    etc_files(&root, plan).map_err(Fault::at("etc"))?;
    put_devices(&root, devices, &size)?;
    if let Some(agent) = &plan.agent {
        private_folders(&root, agent, &size).map_err(Fault::at("private folders"))?;
        put_terminals(&root);
    }
    for (at, content) in files {
        make_file(&root, &at, &content).map_err(Fault::at("copies"))?;
    }
    for part in parts {
        put(&root, &part).map_err(Fault::at("mounts"))?;
    }
    for (folder, names) in plan.agent.iter().flat_map(|agent| &agent.protected) {
        protect(&root, folder, names)?;
    }
    for socket in plan.agent.iter().flat_map(|agent| &agent.sockets) {
        cover_socket(&root, Path::new(socket)).map_err(Fault::at("sockets"))?;
    }
    proc(&root).map_err(Fault::at("proc"))?;
    sys::restrict_mount(root.as_fd(), Attr::MOUNT_ATTR_RDONLY.bits().into(), false)
        .map_err(Fault::at("read-only root"))?;
    enter(&root).map_err(Fault::at("old root"))?;
    Ok(Laid { root })
}

impl Laid {
    /// Covers what the command must not change: all that is left to do when it is known.
    pub(super) fn finish(&self, order: &Order) -> Result<(), Fault> {
        protect(&self.root, &order.root, &order.protected)?;
        order.protected_outside.iter().try_for_each(|(folder, names)| protect(&self.root, folder, names))
    }
}

/// Makes the new root the root.
fn enter(root: &OwnedFd) -> io::Result<()> {
    rustix::process::fchdir(root)?;
    rustix::process::pivot_root(".", ".")?;
    // The old one lies over the new one; what was beneath comes up when it goes.
    rustix::mount::unmount(".", UnmountFlags::DETACH)?;
    rustix::process::chdir("/")?;
    Ok(())
}

/// An absolute path as one below the root.
fn below(path: &Path) -> Option<&Path> {
    path.strip_prefix("/").ok().filter(|path| !path.as_os_str().is_empty())
}

/// Copies a tree of mounts; links at its end are not followed.
fn clone_tree(dir: impl AsFd, path: &Path, attributes: Attr) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_SYMLINK_NOFOLLOW
        | OpenTreeFlags::AT_EMPTY_PATH;
    let mount = rustix::mount::open_tree(dir, path, flags)?;
    sys::restrict_mount(mount.as_fd(), attributes.bits().into(), true)?;
    Ok(mount)
}

fn kind_of(dir: impl AsFd, path: &Path) -> Option<FileType> {
    let stat = rustix::fs::statat(dir, path, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    Some(FileType::from_raw_mode(stat.st_mode))
}

/// Takes hold of something below a folder that is to be at the same path in the new root.
fn part(dir: impl AsFd, at: &Path, attributes: Attr) -> io::Result<Option<Part>> {
    let is_folder = match kind_of(dir.as_fd(), at) {
        Some(FileType::Directory) => true,
        Some(FileType::RegularFile) => false,
        // Links are made anew; anything else has no place in the root.
        _ => return Ok(None),
    };
    let mount = clone_tree(dir, at, attributes)?;
    Ok(Some(Part { mount, at: at.as_os_str().as_bytes().to_vec(), is_folder }))
}

/// Takes hold of everything that will be in the root, while the old one is still there.
fn collect(plan: &Plan) -> Result<Vec<Part>, Fault> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let old = rustix::fs::open("/", flags, Mode::empty()).map_err(Fault::at("system"))?;
    let mut parts = Vec::new();
    let mut add = |path: &Path, attributes: Attr, step: &'static str| {
        let Some(at) = below(path) else { return Ok(()) };
        parts.extend(part(&old, at, attributes).map_err(Fault::at(step))?);
        Ok(())
    };
    for path in SYSTEM {
        add(Path::new(path), READ_ONLY, "system")?;
    }
    for name in SYSTEM_ETC {
        add(&Path::new("/etc").join(name), READ_ONLY, "etc")?;
    }
    for path in &plan.read_only {
        add(Path::new(path), READ_ONLY, "read-only folders")?;
    }
    for path in &plan.writable {
        add(Path::new(path), NO_RIGHTS, "writable folders")?;
    }
    Ok(parts)
}

/// Takes hold of what an agent sees of the machine.
fn mounts(agent: &AgentRoot) -> Result<Vec<Part>, Fault> {
    let step = Fault::at::<io::Error>("mounts");
    let mut parts = Vec::with_capacity(agent.mounts.len());
    for (from, at, writable) in &agent.mounts {
        let (from, at) = (Path::new(from), below(Path::new(at)));
        let Some(at) = at.filter(|_| from.is_absolute()) else {
            return Err(step(io::Error::from_raw_os_error(libc::EINVAL)));
        };
        let is_folder = match kind_of(CWD, from) {
            Some(FileType::Directory) => true,
            Some(FileType::RegularFile | FileType::Socket) => false,
            // What is gone or a link by now is not what was meant.
            _ => continue,
        };
        let attributes = if *writable { NO_RIGHTS } else { READ_ONLY };
        let mount = clone_tree(CWD, from, attributes).map_err(&step)?;
        parts.push(Part { mount, at: at.as_os_str().as_bytes().to_vec(), is_folder });
    }
    Ok(parts)
}

/// A file made in the new root: its path below the root, and its content.
type RootFile = (Vec<u8>, Vec<u8>);

/// Reads what an agent gets as files of its own, while the old root is still there.
fn agent_files(plan: &Plan) -> Result<Vec<RootFile>, Fault> {
    let Some(agent) = &plan.agent else { return Ok(Vec::new()) };
    let mut files = Vec::new();
    for CopiedFile { path, only, from } in &agent.copies {
        let Some(at) = below(path) else { continue };
        let content = read_small(from.as_deref().unwrap_or(path)).map_err(Fault::at("copies"))?;
        let content = content.and_then(|content| match only {
            Some((object, entries)) => only_entries(&content, object, entries),
            None => Some(content),
        });
        files.extend(content.map(|content| (at.as_os_str().as_bytes().to_vec(), content)));
    }
    if agent.shares_network {
        let resolver = read_small(Path::new("/etc/resolv.conf")).map_err(Fault::at("etc"))?;
        files.extend(resolver.map(|content| (b"etc/resolv.conf".to_vec(), content)));
    }
    Ok(files)
}

/// Keeps of an object in a JSON file only the named entries.
fn only_entries(content: &[u8], object: &str, entries: &[String]) -> Option<Vec<u8>> {
    let mut value: serde_json::Value = serde_json::from_slice(content).ok()?;
    if let Some(all) = value.as_object_mut()?.get_mut(object) {
        all.as_object_mut()?.retain(|name, _| entries.contains(name));
    }
    serde_json::to_vec(&value).ok()
}

/// Reads a regular file; nothing where there is none that may be read.
fn read_small(path: &Path) -> io::Result<Option<Vec<u8>>> {
    use std::io::Read;
    let Ok(file) = std::fs::File::open(path) else { return Ok(None) };
    let meta = file.metadata()?;
    if !meta.is_file() || meta.len() > limits::AGENT_COPY_MAX {
        return Ok(None);
    }
    let mut content = Vec::new();
    file.take(limits::AGENT_COPY_MAX).read_to_end(&mut content)?;
    Ok(Some(content))
}

fn private_folders(root: &OwnedFd, agent: &AgentRoot, size: &str) -> io::Result<()> {
    for folder in &agent.private {
        let Some(at) = below(Path::new(folder)) else {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        };
        make_folders(root, at.as_os_str().as_bytes())?;
        let target = open_in(root, at)?;
        attach_to(&tmpfs(size, "700")?, target.as_fd())?;
    }
    Ok(())
}

/// Terminals of its own. An agent can do without: some machines let nobody make any.
fn put_terminals(root: &OwnedFd) {
    let made = || -> io::Result<()> {
        let fs = rustix::mount::fsopen("devpts", FsOpenFlags::FSOPEN_CLOEXEC)?;
        rustix::mount::fsconfig_set_string(&fs, "ptmxmode", "0666")?;
        rustix::mount::fsconfig_set_string(&fs, "mode", "0620")?;
        rustix::mount::fsconfig_create(&fs)?;
        let attributes = Attr::MOUNT_ATTR_NOSUID | Attr::MOUNT_ATTR_NOEXEC;
        let mount = rustix::mount::fsmount(&fs, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
        make_folders(root, b"dev/pts")?;
        attach(&mount, root, "dev/pts")?;
        link(root, "dev/ptmx", "pts/ptmx")
    };
    let _ = made();
}

/// Takes hold of the project: without links from the root on, as the daemon resolved it. Put in last, it may lie in any of
/// the other parts.
fn project(plan: &Plan) -> Result<Option<Part>, Fault> {
    let step = Fault::at::<io::Error>("project");
    let at = plan.root.as_ref().and_then(|root| below(Path::new(root)));
    let at = at.ok_or_else(|| step(io::Error::from_raw_os_error(libc::EINVAL)))?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let old = rustix::fs::open("/", flags, Mode::empty()).map_err(|error| step(error.into()))?;
    part(&old, at, NO_RIGHTS).map_err(step)
}

fn device(name: &'static str) -> Result<(&'static str, OwnedFd), Fault> {
    // A device on a mount without devices would be none.
    let attributes = Attr::MOUNT_ATTR_NOSUID | Attr::MOUNT_ATTR_NOEXEC;
    let mount = clone_tree(CWD, &Path::new("/dev").join(name), attributes).map_err(Fault::at("devices"))?;
    Ok((name, mount))
}

fn tmpfs(size: &str, mode: &str) -> io::Result<OwnedFd> {
    let fs = rustix::mount::fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    rustix::mount::fsconfig_set_string(&fs, "size", size)?;
    rustix::mount::fsconfig_set_string(&fs, "mode", mode)?;
    rustix::mount::fsconfig_create(&fs)?;
    Ok(rustix::mount::fsmount(&fs, FsMountFlags::FSMOUNT_CLOEXEC, NO_RIGHTS)?)
}

/// Puts a mount over `at`, which is taken as it stands: no link is followed.
fn attach(mount: &OwnedFd, dir: impl AsFd, at: &str) -> io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    Ok(rustix::mount::move_mount(mount, "", dir, at, flags)?)
}

fn attach_to(mount: &OwnedFd, target: BorrowedFd<'_>) -> io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(rustix::mount::move_mount(mount, "", target, "", flags)?)
}

fn put_tmpfs(root: &OwnedFd, at: &str, size: &str, mode: &str) -> io::Result<()> {
    attach(&tmpfs(size, mode)?, root, at)
}

/// Opens a path of the new root; none of its parts may be a link.
fn open_in(root: impl AsFd, path: &Path) -> io::Result<OwnedFd> {
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    Ok(rustix::fs::openat2(root, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve)?)
}

/// Makes the folders of a path in the new root, one by one.
fn make_folders(root: &OwnedFd, path: &[u8]) -> io::Result<()> {
    let path = Path::new(OsStr::from_bytes(path));
    let mut made = std::path::PathBuf::new();
    for part in path.components() {
        let Component::Normal(part) = part else { continue };
        made.push(part);
        match rustix::fs::mkdirat(root, &made, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            // Inside a part that is read-only; it must be there already.
            Err(rustix::io::Errno::ROFS) => return open_in(root, path).map(drop),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn make_file(root: &OwnedFd, path: &[u8], content: &[u8]) -> io::Result<()> {
    let path = Path::new(OsStr::from_bytes(path));
    if let Some(parent) = path.parent() {
        make_folders(root, parent.as_os_str().as_bytes())?;
    }
    let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(root, path, flags, Mode::from_raw_mode(0o644))?;
    io::Write::write_all(&mut std::fs::File::from(file), content)
}

fn link(root: &OwnedFd, at: &str, to: &str) -> io::Result<()> {
    match rustix::fs::symlinkat(to, root, at) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn put(root: &OwnedFd, part: &Part) -> io::Result<()> {
    if part.is_folder {
        make_folders(root, &part.at)?;
    } else {
        make_file(root, &part.at, b"")?;
    }
    let target = open_in(root, Path::new(OsStr::from_bytes(&part.at)))?;
    attach_to(&part.mount, target.as_fd())
}

/// `/bin` and its like are links into `/usr` on most systems.
fn system_links(root: &OwnedFd) -> io::Result<()> {
    let etc = SYSTEM_ETC.iter().map(|name| format!("/etc/{name}"));
    for path in SYSTEM.iter().map(ToString::to_string).chain(etc) {
        if kind_of(CWD, Path::new(&path)) == Some(FileType::Symlink)
            && let Ok(target) = std::fs::read_link(&path)
            && let Some(target) = target.to_str()
        {
            let at = path.trim_start_matches('/');
            if let Some((parent, _)) = at.rsplit_once('/') {
                make_folders(root, parent.as_bytes())?;
            }
            link(root, at, target)?;
        }
    }
    Ok(())
}

/// Just enough for programs that ask who they are and where.
fn etc_files(root: &OwnedFd, plan: &Plan) -> io::Result<()> {
    let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let home = plan.agent.as_ref().map_or("/home/user".into(), |agent| agent.home.to_string_lossy());
    // A line of the file ends where the path must not.
    let home: String = home.chars().filter(|letter| !matches!(letter, '\n' | ':')).collect();
    let passwd = format!(
        "user:x:{uid}:{gid}:user:{home}:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n"
    );
    make_file(root, b"etc/passwd", passwd.as_bytes())?;
    if !plan.git_config.is_empty() {
        make_file(root, b"etc/gitconfig", plan.git_config.as_bytes())?;
    }
    make_file(root, b"etc/group", format!("user:x:{gid}:\nnogroup:x:65534:\n").as_bytes())?;
    let own = "127.0.0.1 localhost sandbox\n::1 localhost\n".to_owned();
    let hosts = plan.agent.as_ref().and_then(|agent| match (&agent.hosts, agent.shares_network) {
        (Some(hosts), _) => Some(hosts.clone()),
        (None, true) => std::fs::read_to_string("/etc/hosts").ok(),
        (None, false) => None,
    });
    make_file(root, b"etc/hosts", hosts.unwrap_or(own).as_bytes())
}

fn put_devices(root: &OwnedFd, devices: Vec<(&str, OwnedFd)>, shared: &str) -> Result<(), Fault> {
    let step = Fault::at::<io::Error>("devices");
    for (name, mount) in devices {
        let at = format!("dev/{name}");
        make_file(root, at.as_bytes(), b"").map_err(&step)?;
        attach(&mount, root, &at).map_err(&step)?;
    }
    make_folders(root, b"dev/shm").map_err(&step)?;
    put_tmpfs(root, "dev/shm", shared, "1777").map_err(&step)?;
    for (name, to) in [("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")] {
        link(root, &format!("dev/{name}"), to).map_err(&step)?;
    }
    Ok(())
}

/// Shows only what is inside, and lets nobody turn the kernel's knobs.
fn proc(root: &OwnedFd) -> io::Result<()> {
    let fs = rustix::mount::fsopen("proc", FsOpenFlags::FSOPEN_CLOEXEC)?;
    rustix::mount::fsconfig_create(&fs)?;
    let attributes = READ_ONLY | Attr::MOUNT_ATTR_NOEXEC;
    let mount = rustix::mount::fsmount(&fs, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
    attach(&mount, root, "proc")?;
    let (empty_folder, empty_file) = (tmpfs("4k", "555")?, Path::new("/dev/null"));
    for name in HIDDEN_IN_PROC {
        let Ok(stat) = rustix::fs::statat(&mount, *name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        let cover = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => clone_tree(&empty_folder, Path::new(""), READ_ONLY)?,
            _ => clone_tree(CWD, empty_file, Attr::MOUNT_ATTR_NOSUID | Attr::MOUNT_ATTR_NOEXEC)?,
        };
        attach(&cover, &mount, name)?;
    }
    Ok(())
}

/// Covers what must stay as it is with itself, read-only. Placeholders stand where nothing was.
fn protect(root: &OwnedFd, folder: &OsStr, names: &[OsString]) -> Result<(), Fault> {
    let step = Fault::at::<io::Error>("protected");
    let at = folder.as_bytes();
    let project =
        open_in(root, Path::new(OsStr::from_bytes(at.strip_prefix(b"/").unwrap_or(at)))).map_err(&step)?;
    // A folder with mounts below it can be moved away, one that is a mount itself cannot.
    let mut parents: Vec<&Path> = names.iter().flat_map(|name| Path::new(name).ancestors().skip(1)).collect();
    parents.retain(|parent| !matches!(parent.as_os_str().as_bytes(), b"" | b"."));
    // Parents come before what is in them.
    parents.sort_unstable();
    parents.dedup();
    for parent in parents {
        cover(&project, parent, NO_RIGHTS).map_err(&step)?;
    }
    names.iter().try_for_each(|name| cover(&project, Path::new(name), READ_ONLY)).map_err(step)
}

/// Covers a path with itself. Something was put there; if it is gone, the command could make it.
pub(super) fn cover(folder: &OwnedFd, path: &Path, attributes: Attr) -> io::Result<()> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let target = rustix::fs::openat2(folder, path, flags, Mode::empty(), resolve)?;
    attach_to(&clone_tree(&target, Path::new(""), attributes)?, target.as_fd())
}

/// Covers a socket with a device that nobody can connect to. One that is gone by now needs no cover.
fn cover_socket(root: &OwnedFd, socket: &Path) -> io::Result<()> {
    let Some(at) = below(socket) else { return Ok(()) };
    let target = match open_in(root, at) {
        Ok(target) => target,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let kind = FileType::from_raw_mode(rustix::fs::fstat(&target)?.st_mode);
    if kind != FileType::Socket {
        return Ok(());
    }
    let null = clone_tree(root, Path::new("dev/null"), Attr::MOUNT_ATTR_NOSUID | Attr::MOUNT_ATTR_NOEXEC)?;
    attach_to(&null, target.as_fd())
}
