//! What is asked of the kernel itself: other processes, namespaces, mounts, and calls that lead around filters. Each probe
//! prints `POSSIBLE` where the kernel let it, and changes nothing that outlives the probe.
#![allow(unsafe_code)]

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};

use anyhow::{Result, bail};

use super::{POSSIBLE, say};

fn call(number: libc::c_long, words: [usize; 5]) -> io::Result<i64> {
    // SAFETY: what pointers are passed lead to memory that lives as long as the call.
    let result = unsafe { libc::syscall(number, words[0], words[1], words[2], words[3], words[4]) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn word(text: &'static std::ffi::CStr) -> usize {
    text.as_ptr() as usize
}

/// Runs a probe by its name; further words are numbers of processes or paths.
pub(super) fn probe(name: &str, rest: &[&str]) -> Result<()> {
    let first = rest.first().copied().unwrap_or_default();
    let pid = first.parse::<usize>().unwrap_or_default();
    let done = match name {
        "seize" => call(libc::SYS_ptrace, [libc::PTRACE_SEIZE as usize, pid, 0, 0, 0]),
        "read-memory" => read_memory(pid),
        "steal-descriptor" => steal(pid),
        "signal" => call(libc::SYS_kill, [pid, 0, 0, 0, 0]),
        "signal-by-handle" => call(libc::SYS_pidfd_open, [pid, 0, 0, 0, 0])
            .and_then(|handle| call(libc::SYS_pidfd_send_signal, [handle as usize, 0, 0, 0, 0])),
        "limit" => {
            let limit = [u64::MAX; 2];
            call(libc::SYS_prlimit64, [pid, libc::RLIMIT_CORE as usize, 0, (&raw const limit) as usize, 0])
        }
        "unshare-user" => call(libc::SYS_unshare, [libc::CLONE_NEWUSER as usize, 0, 0, 0, 0]),
        "unshare-mount" => call(libc::SYS_unshare, [libc::CLONE_NEWNS as usize, 0, 0, 0, 0]),
        "unshare-network" => call(libc::SYS_unshare, [libc::CLONE_NEWNET as usize, 0, 0, 0, 0]),
        "clone-user" => clone_user(),
        "mount" => call(libc::SYS_mount, [word(c"none"), word(c"/mnt"), word(c"tmpfs"), 0, 0])
            .inspect(|_| drop(call(libc::SYS_umount2, [word(c"/mnt"), 0, 0, 0, 0]))),
        "open-tree" => call(libc::SYS_open_tree, [libc::AT_FDCWD as usize, word(c"/"), 1, 0, 0]),
        "fsopen" => call(libc::SYS_fsopen, [word(c"tmpfs"), 0, 0, 0, 0]),
        "chroot" => call(libc::SYS_chroot, [word(c"/"), 0, 0, 0, 0]),
        "enter-namespace" => {
            use std::os::fd::AsRawFd as _;
            File::open(first).and_then(|file| call(libc::SYS_setns, [file.as_raw_fd() as usize, 0, 0, 0, 0]))
        }
        "open-by-handle" => open_by_handle(),
        "packet-socket" => {
            call(libc::SYS_socket, [libc::AF_PACKET as usize, libc::SOCK_RAW as usize, 0, 0, 0])
        }
        "raw-socket" => call(libc::SYS_socket, [libc::AF_INET as usize, libc::SOCK_RAW as usize, 1, 0, 0]),
        "keyring" => call(libc::SYS_keyctl, [0, (-3isize) as usize, 0, 0, 0]),
        "userfaultfd" => call(libc::SYS_userfaultfd, [1, 0, 0, 0, 0]),
        "io-uring" => {
            let mut parameters = [0u8; 120];
            call(libc::SYS_io_uring_setup, [8, parameters.as_mut_ptr() as usize, 0, 0, 0])
        }
        "bpf" => {
            // An array of one word: what any program would begin with.
            let mut attributes = [0u32; 32];
            attributes[..4].copy_from_slice(&[2, 4, 4, 1]);
            call(libc::SYS_bpf, [0, attributes.as_mut_ptr() as usize, size_of_val(&attributes), 0, 0])
        }
        "terminal-input" => terminal_input(),
        "become-user" => call(libc::SYS_setuid, [pid, 0, 0, 0, 0]),
        "unfiltered" => unfiltered(),
        "gain-rights" => gain_rights(),
        "read" => read_some(first),
        "list" => fs::read_dir(first).map(|entries| entries.flatten().count() as i64),
        _ => bail!("no such probe: {name}"),
    };
    match done {
        Ok(_) => say(POSSIBLE),
        Err(error) => say(&format!("{name}: {error}")),
    }
    Ok(())
}

fn steal(pid: usize) -> io::Result<i64> {
    let handle = call(libc::SYS_pidfd_open, [pid, 0, 0, 0, 0])?;
    call(libc::SYS_pidfd_getfd, [handle as usize, 0, 0, 0, 0])
}

fn clone_user() -> io::Result<i64> {
    match call(libc::SYS_clone, [(libc::CLONE_NEWUSER | libc::SIGCHLD) as usize, 0, 0, 0, 0])? {
        // SAFETY: the child has nothing to do.
        0 => unsafe { libc::_exit(0) },
        child => Ok(child),
    }
}

/// Reads a few bytes of a process's first mapping.
fn read_memory(pid: usize) -> io::Result<i64> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
    let start = maps.split('-').next().and_then(|start| usize::from_str_radix(start, 16).ok());
    let mut bytes = [0u8; 8];
    let ours = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let theirs = libc::iovec { iov_base: start.unwrap_or_default() as *mut _, iov_len: bytes.len() };
    let words = [pid, (&raw const ours) as usize, 1, (&raw const theirs) as usize, 1];
    // SAFETY: both lists live until the call returns; what is read is written into `bytes`.
    let read = unsafe {
        libc::syscall(libc::SYS_process_vm_readv, words[0], words[1], words[2], words[3], words[4], 0)
    };
    if read < 0 { Err(io::Error::last_os_error()) } else { Ok(read) }
}

/// Opens the root of the file system by the number of its inode.
fn open_by_handle() -> io::Result<i64> {
    #[repr(C)]
    struct Handle {
        bytes: u32,
        kind: i32,
        content: [u32; 2],
    }
    let root = File::open("/")?;
    use std::os::fd::AsRawFd as _;
    let handle = Handle { bytes: 8, kind: 1, content: [2, 0] };
    call(libc::SYS_open_by_handle_at, [root.as_raw_fd() as usize, (&raw const handle) as usize, 0, 0, 0])
}

/// Pushes a character into a terminal of its own, which the kernel or a filter may forbid.
fn terminal_input() -> io::Result<i64> {
    use std::os::fd::AsRawFd as _;
    let master = File::options().read(true).write(true).open("/dev/ptmx")?;
    let zero = 0;
    call(
        libc::SYS_ioctl,
        [master.as_raw_fd() as usize, libc::TIOCSPTLCK as usize, (&raw const zero) as usize, 0, 0],
    )?;
    let peer = call(
        libc::SYS_ioctl,
        [master.as_raw_fd() as usize, libc::TIOCGPTPEER as usize, libc::O_RDWR as usize, 0, 0],
    )?;
    call(libc::SYS_ioctl, [peer as usize, libc::TIOCSTI as usize, word(c"x"), 0, 0])
}

fn unfiltered() -> io::Result<i64> {
    // SAFETY: asks for the mode only.
    match unsafe { libc::prctl(libc::PR_GET_SECCOMP, 0, 0, 0, 0) } {
        0 => Ok(0),
        _ => Err(io::Error::other("filtered")),
    }
}

fn gain_rights() -> io::Result<i64> {
    // SAFETY: asks for a flag only.
    match unsafe { libc::prctl(libc::PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) } {
        0 => Ok(0),
        _ => Err(io::Error::other("no new rights")),
    }
}

fn read_some(path: &str) -> io::Result<i64> {
    let mut byte = [0; 16];
    match File::open(path)?.read(&mut byte)? {
        0 => Err(io::Error::other("nothing in it")),
        count => Ok(count as i64),
    }
}

/// Searches a process's writable memory for a text that begins like this, and prints what follows.
pub(super) fn memory_of(pid: i32, start: &str) -> Result<()> {
    const MAPPING_MAX: u64 = 64 * 1024 * 1024;
    let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
    let mut memory = File::open(format!("/proc/{pid}/mem"))?;
    for line in maps.lines().filter(|line| line.contains(" rw")) {
        let ends = line.split(' ').next().and_then(|range| range.split_once('-'));
        let ends = ends
            .and_then(|(a, b)| Some((u64::from_str_radix(a, 16).ok()?, u64::from_str_radix(b, 16).ok()?)));
        let Some((from, to)) = ends else { continue };
        let mut bytes = Vec::new();
        memory.seek(SeekFrom::Start(from))?;
        // Some mappings cannot be read by anybody.
        let _ = (&mut memory).take((to - from).min(MAPPING_MAX)).read_to_end(&mut bytes);
        for (at, _) in
            bytes.windows(start.len()).enumerate().filter(|(_, window)| *window == start.as_bytes())
        {
            let end = (at + start.len() + 64).min(bytes.len());
            say(&String::from_utf8_lossy(&bytes[at..end]));
        }
    }
    Ok(())
}
