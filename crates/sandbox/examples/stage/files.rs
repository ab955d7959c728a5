//! Probes for files: outside the project, protected inside it, devices.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::Path;

use crate::ground::CANARY;
use crate::probe::{Probe, not_reached, tried};

fn path(text: &Path) -> CString {
    CString::new(text.as_os_str().as_bytes()).unwrap()
}

fn reads(path: impl AsRef<Path>) -> io::Result<()> {
    let mut text = String::new();
    File::open(path)?.read_to_string(&mut text)?;
    if text == CANARY { Ok(()) } else { not_reached() }
}

fn writes(path: impl AsRef<Path>) -> io::Result<()> {
    OpenOptions::new().append(true).open(path)?.write_all(b"!")
}

fn creates(path: impl AsRef<Path>) -> io::Result<()> {
    File::create_new(path)?.write_all(b"!")
}

fn opens(path: impl AsRef<Path>) -> io::Result<()> {
    File::open(path).map(drop)
}

fn lists(path: impl AsRef<Path>) -> io::Result<()> {
    fs::read_dir(path).map(drop)
}

/// Makes a file by `openat2`, whose mode no filter can see.
fn openat2_set_id(path: &CString) -> io::Result<()> {
    #[repr(C)]
    struct How {
        flags: u64,
        mode: u64,
        resolve: u64,
    }
    let how = How { flags: (libc::O_CREAT | libc::O_WRONLY) as u64, mode: 0o4755, resolve: 0 };
    let how = &raw const how as usize;
    tried(libc::SYS_openat2, [libc::AT_FDCWD as usize, path.as_ptr() as usize, how, size_of::<How>(), 0])
}

pub(crate) const PROBES: &[Probe] = &[
    ("setuid-chmod", |g| {
        let made = g.root.join("inside/setuid");
        fs::write(&made, "")?;
        fs::set_permissions(&made, fs::Permissions::from_mode(0o4755))
    }),
    ("setgid-chmod", |g| {
        let made = g.root.join("inside/setgid");
        fs::write(&made, "")?;
        fs::set_permissions(&made, fs::Permissions::from_mode(0o2755))
    }),
    ("setuid-fchmod", |g| {
        let made = File::create(g.root.join("inside/setuid-open"))?;
        made.set_permissions(fs::Permissions::from_mode(0o4755))
    }),
    ("setuid-fchmodat2", |g| {
        let made = g.root.join("inside/setuid-2");
        fs::write(&made, "")?;
        let made = path(&made);
        const FCHMODAT2: libc::c_long = 452;
        tried(FCHMODAT2, [libc::AT_FDCWD as usize, made.as_ptr() as usize, 0o4755, 0, 0])
    }),
    ("setuid-create", |g| {
        let mut options = OpenOptions::new();
        options.create(true).write(true).mode(0o4755);
        options.open(g.root.join("inside/setuid-new")).map(drop)
    }),
    ("setuid-mknod", |g| {
        let made = path(&g.root.join("inside/setuid-node"));
        let mode = libc::S_IFREG as usize | 0o4755;
        tried(libc::SYS_mknodat, [libc::AT_FDCWD as usize, made.as_ptr() as usize, mode, 0, 0])
    }),
    ("setuid-openat2", |g| openat2_set_id(&path(&g.root.join("inside/setuid-openat2")))),
    ("read-outside", |g| reads(g.outside.join("canary"))),
    ("write-outside", |g| writes(g.outside.join("canary"))),
    ("create-outside", |g| creates(g.outside.join("new"))),
    ("mkdir-outside", |g| fs::create_dir(g.outside.join("newdir"))),
    ("unlink-outside", |g| fs::remove_file(g.outside.join("other"))),
    ("rename-outside-in", |g| fs::rename(g.outside.join("other"), g.root.join("inside/stolen"))),
    ("rename-inside-out", |g| fs::rename(g.root.join("inside/file"), g.outside.join("dropped"))),
    ("hardlink-outside-in", |g| fs::hard_link(g.outside.join("canary"), g.root.join("inside/hard"))),
    ("list-outside", |g| lists(&g.outside)),
    ("read-through-link", |g| reads(g.root.join("inside/link-to-file"))),
    ("write-through-link", |g| writes(g.root.join("inside/link-to-file"))),
    ("read-through-folder-link", |g| reads(g.root.join("inside/link-to-folder/canary"))),
    ("create-through-folder-link", |g| creates(g.root.join("inside/link-to-folder/new"))),
    ("read-through-root-link", |g| {
        reads(
            g.root
                .join("inside/link-to-everything")
                .join(g.outside.strip_prefix("/").unwrap())
                .join("canary"),
        )
    }),
    ("read-through-dots", |g| reads(g.root.join("../outside/canary"))),
    ("read-through-own-link", |g| {
        symlink(g.outside.join("canary"), g.root.join("inside/own-link"))?;
        reads(g.root.join("inside/own-link"))
    }),
    ("truncate-outside", |g| {
        tried(libc::SYS_truncate, [path(&g.outside.join("canary")).as_ptr() as usize, 0, 0, 0, 0])
    }),
    ("truncate-by-reading", |g| {
        OpenOptions::new().read(true).custom_flags(libc::O_TRUNC).open(g.outside.join("canary")).map(drop)
    }),
    ("stat-outside", |g| fs::metadata(g.outside.join("canary")).map(drop)),
    ("chmod-outside", |g| fs::set_permissions(g.outside.join("canary"), fs::Permissions::from_mode(0o640))),
    ("write-usr", |_| creates("/usr/obey-escape")),
    ("write-etc", |_| creates("/etc/obey-escape")),
    ("write-root", |_| creates("/obey-escape")),
    ("write-bin", |_| creates("/bin/obey-escape")),
    ("read-shadow", |_| opens("/etc/shadow")),
    ("list-home", |_| lists("/root")),
    ("list-run", |_| opens("/run/docker.sock").or_else(|_| lists("/run/user"))),
    ("read-host-ssh", |_| lists("/etc/ssh")),
    ("list-cgroups", |_| lists("/sys/fs/cgroup")),
    ("open-kernel-log", |_| opens("/dev/kmsg")),
    ("open-memory", |_| opens("/dev/mem")),
    ("open-disk", |_| opens("/dev/vda").or_else(|_| opens("/dev/sda"))),
    ("open-terminal", |_| opens("/dev/tty")),
    ("open-fuse", |_| opens("/dev/fuse")),
    ("open-kvm", |_| opens("/dev/kvm")),
    ("make-device", |g| {
        let device = libc::makedev(1, 1) as usize;
        let at = path(&g.root.join("inside/mem"));
        tried(
            libc::SYS_mknodat,
            [libc::AT_FDCWD as usize, at.as_ptr() as usize, libc::S_IFCHR as usize | 0o666, device, 0],
        )?;
        opens(g.root.join("inside/mem"))
    }),
    ("file-handle", |g| {
        let mut handle = [128u32; 64];
        let (mut mount, at) = (0i32, path(&g.outside.join("canary")));
        let arguments = [
            libc::AT_FDCWD as usize,
            at.as_ptr() as usize,
            handle.as_mut_ptr() as usize,
            (&raw mut mount) as usize,
            0,
        ];
        tried(libc::SYS_name_to_handle_at, arguments)
    }),
    ("protected-write", |g| writes(g.root.join(".git/config"))),
    ("protected-create", |g| creates(g.root.join(".git/hooks/post-checkout"))),
    ("protected-mkdir", |g| fs::create_dir(g.root.join(".git/hooks/made"))),
    ("protected-unlink", |g| fs::remove_file(g.root.join(".mcp.json"))),
    ("protected-replace", |g| {
        fs::write(g.root.join("inside/replacement"), "evil")?;
        fs::rename(g.root.join("inside/replacement"), g.root.join(".mcp.json"))
    }),
    ("protected-rename-away", |g| fs::rename(g.root.join(".git"), g.root.join("inside/git"))),
    ("protected-through-hardlink", |g| {
        fs::hard_link(g.root.join(".git/config"), g.root.join("inside/config"))?;
        writes(g.root.join("inside/config"))
    }),
    ("protected-through-link", |g| {
        symlink("../.git/config", g.root.join("inside/config-link"))?;
        writes(g.root.join("inside/config-link"))
    }),
    ("protected-chmod", |g| {
        fs::set_permissions(g.root.join(".git/hooks"), fs::Permissions::from_mode(0o755))
    }),
    ("absent-create-inside", |g| creates(g.root.join(".claude/settings.json"))),
    ("absent-mkdir", |g| fs::create_dir(g.root.join(".codex/x"))),
    ("absent-create-file", |g| creates(g.root.join(".gitleaks.toml"))),
    ("absent-link", |g| symlink("inside", g.root.join(".vscode"))),
    ("absent-rename-over", |g| {
        fs::create_dir(g.root.join("inside/fake"))?;
        fs::rename(g.root.join("inside/fake"), g.root.join(".obey"))
    }),
    ("absent-remove-then-make", |g| {
        fs::remove_dir(g.root.join(".claude"))?;
        fs::create_dir(g.root.join(".claude"))
    }),
    // What must work, or the sandbox is of no use.
    ("works-write-inside", |g| writes(g.root.join("inside/file"))),
    ("works-create-inside", |g| creates(g.root.join("inside/fresh"))),
    ("works-create-top-level", |g| creates(g.root.join("fresh"))),
    ("works-read-system", |_| opens("/usr/bin/env")),
    ("works-temporary", |_| creates(Path::new(&std::env::var("TMPDIR").unwrap()).join("t"))),
    ("works-home", |_| creates(Path::new(&std::env::var("HOME").unwrap()).join("h"))),
    ("works-null", |_| OpenOptions::new().write(true).open("/dev/null")?.write_all(b"x")),
    ("works-random", |_| File::open("/dev/urandom")?.read_exact(&mut [0; 8])),
    ("works-read-git", |g| opens(g.root.join(".git/config"))),
];
