//! Probes for other processes: their memory, files, signals and settings; shared memory; what was inherited; rights.
#![allow(unsafe_code)]

use std::fs::{self, File};
use std::io::{self, Read};

use crate::ground::Ground;
use crate::probe::{Probe, call, not_reached, tried};

pub(crate) fn make_shared_memory(key: i32) -> io::Result<()> {
    tried(libc::SYS_shmget, [key as usize, 4096, (libc::IPC_CREAT | 0o600) as usize, 0, 0])
}

pub(crate) fn remove_shared_memory(key: i32) {
    if let Ok(id) = call(libc::SYS_shmget, [key as usize, 4096, 0, 0, 0]) {
        let _ = call(libc::SYS_shmctl, [id as usize, libc::IPC_RMID as usize, 0, 0, 0]);
    }
}

fn opens(path: String) -> io::Result<()> {
    let mut file = File::open(path)?;
    // Some files of /proc open and then refuse.
    file.read(&mut [0; 1]).map(drop)
}

/// Where /proc cannot be read, the kernel is asked directly.
fn keeps_rights() -> io::Result<()> {
    let mut header = [0x2008_0522u32, 0];
    let mut sets = [0u32; 6];
    tried(libc::SYS_capget, [header.as_mut_ptr() as usize, sets.as_mut_ptr() as usize, 0, 0, 0])?;
    if sets.iter().all(|set| *set == 0) { not_reached() } else { Ok(()) }
}

fn takes_right() -> io::Result<()> {
    let mut header = [0x2008_0522u32, 0];
    let mut sets = [1u32 << 21, 1 << 21, 0, 0, 0, 0];
    tried(libc::SYS_capset, [header.as_mut_ptr() as usize, sets.as_mut_ptr() as usize, 0, 0, 0])
}

fn own_descriptors() -> io::Result<()> {
    // SAFETY: asks for flags only.
    let open = (3..1024).any(|fd| unsafe { libc::fcntl(fd, libc::F_GETFD) } >= 0);
    if open { Ok(()) } else { not_reached() }
}

fn foreign_variables() -> io::Result<()> {
    let expected = ["PATH", "HOME", "TMPDIR", "USER", "LOGNAME", "SHELL", "TERM", "LC_CTYPE", "OBEY_SANDBOX"];
    // Settings of git's are ours.
    let is_expected = |name: &std::ffi::OsStr| {
        expected.iter().any(|known| name == *known) || name.to_string_lossy().starts_with("GIT_")
    };
    let foreign = std::env::vars_os().any(|(name, _)| !is_expected(&name));
    if foreign { Ok(()) } else { not_reached() }
}

fn victim(g: &Ground) -> usize {
    g.victim as usize
}

pub(crate) const PROBES: &[Probe] = &[
    ("victim-environment", |g| opens(format!("/proc/{}/environ", g.victim))),
    ("victim-memory", |g| opens(format!("/proc/{}/mem", g.victim))),
    ("victim-files", |g| fs::read_dir(format!("/proc/{}/fd", g.victim)).map(drop)),
    ("victim-folder", |g| fs::read_dir(format!("/proc/{}/cwd/", g.victim)).map(drop)),
    ("victim-root", |g| fs::read_dir(format!("/proc/{}/root/", g.victim)).map(drop)),
    ("victim-command-line", |g| opens(format!("/proc/{}/cmdline", g.victim))),
    ("daemon-environment", |g| opens(format!("/proc/{}/environ", g.daemon))),
    ("daemon-files", |g| fs::read_dir(format!("/proc/{}/fd", g.daemon)).map(drop)),
    ("first-process-environment", |_| opens("/proc/1/environ".into())),
    ("first-process-files", |_| {
        let mut entries = fs::read_dir("/proc/1/fd")?.flatten();
        if entries.any(|entry| File::open(entry.path()).is_ok()) { Ok(()) } else { not_reached() }
    }),
    ("first-process-root", |_| fs::read_dir("/proc/1/root/").map(drop)),
    ("parent-files", |_| {
        fs::read_dir(format!("/proc/{}/fd", std::os::unix::process::parent_id())).and_then(|entries| {
            // The parent is a probe's runner; only a fourth descriptor would be the stage's.
            if entries.count() > 4 { Ok(()) } else { not_reached() }
        })
    }),
    ("own-root-dots", |g| opens(format!("/proc/self/root/../..{}/canary", g.outside.display()))),
    ("write-core-pattern", |_| fs::write("/proc/sys/kernel/core_pattern", "|/x")),
    ("write-module-path", |_| fs::write("/proc/sys/kernel/modprobe", "/x")),
    ("write-sysrq", |_| {
        File::options().write(true).open("/proc/sysrq-trigger").and_then(|file| {
            // Covered by the null device, which takes anything and does nothing.
            if file.metadata()?.len() == 0 && is_null(&file) { not_reached() } else { Ok(()) }
        })
    }),
    ("read-kernel-memory", |_| {
        let mut file = File::open("/proc/kcore")?;
        if file.read(&mut [0; 16])? > 0 { Ok(()) } else { not_reached() }
    }),
    ("read-keys", |_| {
        let mut file = File::open("/proc/keys")?;
        if file.read(&mut [0; 16])? > 0 { Ok(()) } else { not_reached() }
    }),
    ("spare-from-memory-killer", |_| fs::write("/proc/self/oom_score_adj", "-1000")),
    ("trace-victim", |g| tried(libc::SYS_ptrace, [libc::PTRACE_ATTACH as usize, victim(g), 0, 0, 0])),
    ("trace-me", |_| tried(libc::SYS_ptrace, [libc::PTRACE_TRACEME as usize, 0, 0, 0, 0])),
    ("read-victim", |g| tried(libc::SYS_process_vm_readv, [victim(g), 0, 0, 0, 0])),
    ("write-victim", |g| tried(libc::SYS_process_vm_writev, [victim(g), 0, 0, 0, 0])),
    ("compare-victim", |g| tried(libc::SYS_kcmp, [victim(g), victim(g), 0, 0, 1])),
    ("signal-victim", |g| tried(libc::SYS_kill, [victim(g), libc::SIGTERM as usize, 0, 0, 0])),
    ("signal-victim-thread", |g| {
        tried(libc::SYS_tgkill, [victim(g), victim(g), libc::SIGTERM as usize, 0, 0])
    }),
    ("signal-victim-group", |g| tried(libc::SYS_kill, [-(g.victim as isize) as usize, 0, 0, 0, 0])),
    ("signal-daemon", |g| tried(libc::SYS_kill, [g.daemon as usize, 0, 0, 0, 0])),
    ("signal-first-process", |_| tried(libc::SYS_kill, [1, 0, 0, 0, 0])),
    ("signal-victim-by-handle", |g| {
        let handle = call(libc::SYS_pidfd_open, [victim(g), 0, 0, 0, 0])?;
        tried(libc::SYS_pidfd_send_signal, [handle as usize, libc::SIGTERM as usize, 0, 0, 0])
    }),
    ("steal-descriptor", |g| {
        let handle = call(libc::SYS_pidfd_open, [g.daemon as usize, 0, 0, 0, 0])?;
        tried(libc::SYS_pidfd_getfd, [handle as usize, 0, 0, 0, 0])
    }),
    ("limit-victim", |g| {
        let limit = [0u64; 2];
        tried(libc::SYS_prlimit64, [victim(g), libc::RLIMIT_CORE as usize, (&raw const limit) as usize, 0, 0])
    }),
    ("slow-victim", |g| tried(libc::SYS_setpriority, [0, victim(g), 19, 0, 0])),
    ("pin-victim", |g| {
        let mask = [1u64; 16];
        tried(libc::SYS_sched_setaffinity, [victim(g), size_of_val(&mask), (&raw const mask) as usize, 0, 0])
    }),
    ("shared-memory", |g| tried(libc::SYS_shmget, [g.shm_key as usize, 4096, 0, 0, 0])),
    ("message-queue", |_| {
        tried(libc::SYS_mq_open, [c"obey".as_ptr() as usize, libc::O_RDWR as usize, 0, 0, 0])
    }),
    ("semaphores", |_| tried(libc::SYS_semget, [0x0be4, 1, 0, 0, 0])),
    ("become-other-user", |_| tried(libc::SYS_setuid, [12345, 0, 0, 0, 0])),
    ("become-other-group", |_| tried(libc::SYS_setgid, [12345, 0, 0, 0, 0])),
    ("drop-groups", |_| tried(libc::SYS_setgroups, [0, 0, 0, 0, 0])),
    ("keep-rights", |_| keeps_rights()),
    ("take-right", |_| takes_right()),
    ("gain-rights-by-program", |_| {
        // SAFETY: asks for a flag only.
        if unsafe { libc::prctl(libc::PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) } == 1 {
            not_reached()
        } else {
            Ok(())
        }
    }),
    ("unfiltered", |_| {
        // SAFETY: asks for the mode only.
        if unsafe { libc::prctl(libc::PR_GET_SECCOMP, 0, 0, 0, 0) } == 2 { not_reached() } else { Ok(()) }
    }),
    ("bounding-rights", |_| {
        // SAFETY: asks for one right at a time.
        let any = (0..64).any(|right| unsafe { libc::prctl(libc::PR_CAPBSET_READ, right, 0, 0, 0) } == 1);
        if any { Ok(()) } else { not_reached() }
    }),
    ("raise-process-limit", |_| {
        let limit = [100_000u64; 2];
        tried(libc::SYS_prlimit64, [0, libc::RLIMIT_NPROC as usize, (&raw const limit) as usize, 0, 0])
    }),
    ("inherited-descriptors", |_| own_descriptors()),
    ("inherited-variables", |_| foreign_variables()),
    ("inherited-input", |_| {
        let mut byte = [0];
        if io::stdin().read(&mut byte)? > 0 { Ok(()) } else { not_reached() }
    }),
    ("works-signal-own-child", |_| {
        let mut child = std::process::Command::new("/bin/sleep").arg("60").spawn()?;
        child.kill()?;
        child.wait().map(drop)
    }),
];

fn is_null(file: &File) -> bool {
    use std::os::unix::fs::MetadataExt;
    file.metadata().is_ok_and(|meta| meta.rdev() == libc::makedev(1, 3))
}
