//! Calls that no program in the sandbox needs and that lead out of it or deep into the kernel, each with arguments that do
//! nothing: a kernel that looks at them at all complains about the arguments, a wall refuses the call itself. And other
//! doors of the machine: devices and knobs that can be opened for writing, files that run as their owner, the network.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use libc::c_long;

use super::{POSSIBLE, say};

/// How long a connection may be tried; what answers does so at once.
const CONNECT_TIME: Duration = Duration::from_secs(2);

/// A pointer to nothing, and a number that is too large.
const BAD: usize = 1;
const HUGE: usize = usize::MAX;

/// Names, numbers and arguments.
const DOORS: &[(&str, c_long, [usize; 5])] = &[
    ("mount", libc::SYS_mount, [BAD; 5]),
    ("umount", libc::SYS_umount2, [BAD, 0, 0, 0, 0]),
    ("pivot-root", libc::SYS_pivot_root, [BAD, BAD, 0, 0, 0]),
    ("move-mount", libc::SYS_move_mount, [HUGE, BAD, HUGE, BAD, 0]),
    ("open-tree", libc::SYS_open_tree, [HUGE, BAD, 0, 0, 0]),
    ("fspick", libc::SYS_fspick, [HUGE, BAD, 0, 0, 0]),
    ("fsmount", libc::SYS_fsmount, [HUGE, 0, 0, 0, 0]),
    ("mount-attributes", libc::SYS_mount_setattr, [HUGE, BAD, 0, BAD, 0]),
    ("enter-namespace", libc::SYS_setns, [HUGE, 0, 0, 0, 0]),
    ("file-by-handle", libc::SYS_open_by_handle_at, [HUGE, BAD, 0, 0, 0]),
    ("handle-of-file", libc::SYS_name_to_handle_at, [HUGE, BAD, BAD, BAD, 0]),
    ("load-module", libc::SYS_init_module, [BAD, 1, BAD, 0, 0]),
    ("load-module-file", libc::SYS_finit_module, [HUGE, BAD, 0, 0, 0]),
    ("remove-module", libc::SYS_delete_module, [BAD, 0, 0, 0, 0]),
    ("load-kernel", libc::SYS_kexec_load, [0, HUGE, BAD, HUGE, 0]),
    ("load-kernel-file", libc::SYS_kexec_file_load, [HUGE, HUGE, 0, BAD, HUGE]),
    ("reboot", libc::SYS_reboot, [0, 0, 0, 0, 0]),
    ("swap-on", libc::SYS_swapon, [BAD, 0, 0, 0, 0]),
    ("swap-off", libc::SYS_swapoff, [BAD, 0, 0, 0, 0]),
    ("accounting", libc::SYS_acct, [BAD, 0, 0, 0, 0]),
    ("quotas", libc::SYS_quotactl, [HUGE, BAD, 0, BAD, 0]),
    ("set-clock", libc::SYS_clock_settime, [0, BAD, 0, 0, 0]),
    ("adjust-clock", libc::SYS_adjtimex, [BAD, 0, 0, 0, 0]),
    ("host-name", libc::SYS_sethostname, [BAD, HUGE, 0, 0, 0]),
    ("domain-name", libc::SYS_setdomainname, [BAD, HUGE, 0, 0, 0]),
    ("kernel-log", libc::SYS_syslog, [10, 0, 0, 0, 0]),
    ("watch-everything", libc::SYS_fanotify_init, [0, 0, 0, 0, 0]),
    ("performance-events", libc::SYS_perf_event_open, [BAD, 0, 0, HUGE, 0]),
    ("kernel-programs", libc::SYS_bpf, [0, BAD, 1, 0, 0]),
    ("ring", libc::SYS_io_uring_setup, [1, BAD, 0, 0, 0]),
    ("ring-enter", libc::SYS_io_uring_enter, [HUGE, 0, 0, 0, 0]),
    ("user-faults", libc::SYS_userfaultfd, [0, 0, 0, 0, 0]),
    ("key", libc::SYS_add_key, [BAD, BAD, BAD, 1, 0]),
    ("ask-for-key", libc::SYS_request_key, [BAD, BAD, BAD, 0, 0]),
    ("key-control", libc::SYS_keyctl, [0, HUGE - 2, 0, 0, 0]),
    ("trace-init", libc::SYS_ptrace, [libc::PTRACE_SEIZE as usize, 1, 0, 0, 0]),
    ("read-memory-of-init", libc::SYS_process_vm_readv, [1, BAD, 1, BAD, 1]),
    ("write-memory-of-init", libc::SYS_process_vm_writev, [1, BAD, 1, BAD, 1]),
    ("advise-init", libc::SYS_process_madvise, [HUGE, BAD, 1, 0, 0]),
    ("compare-with-init", libc::SYS_kcmp, [1, 1, 0, 0, 0]),
    ("descriptor-of-init", libc::SYS_pidfd_getfd, [HUGE, 0, 0, 0, 0]),
    ("move-pages", libc::SYS_move_pages, [1, 1, BAD, BAD, BAD]),
    ("secret-memory", libc::SYS_memfd_secret, [0, 0, 0, 0, 0]),
    ("personality", libc::SYS_personality, [0x0040_0000, 0, 0, 0, 0]),
    ("clone-namespaces", libc::SYS_clone3, [BAD, 0, 0, 0, 0]),
    ("open-with-hidden-mode", libc::SYS_openat2, [HUGE, BAD, BAD, 24, 0]),
    ("become-root", libc::SYS_setresuid, [0, 0, 0, 0, 0]),
    ("join-groups", libc::SYS_setgroups, [0, 0, 0, 0, 0]),
    ("alg-socket", libc::SYS_socket, [38, 5, 0, 0, 0]),
    ("vsock-socket", libc::SYS_socket, [40, 1, 0, 0, 0]),
    ("audit-socket", libc::SYS_socket, [16, 3, 9, 0, 0]),
    ("netfilter-socket", libc::SYS_socket, [16, 3, 12, 0, 0]),
    ("multipath-socket", libc::SYS_socket, [2, 1, 262, 0, 0]),
    ("packet-socket", libc::SYS_socket, [17, 3, 0, 0, 0]),
];

#[cfg(target_arch = "x86_64")]
const DOORS_HERE: &[(&str, c_long, [usize; 5])] = &[
    ("ports", libc::SYS_ioperm, [0, 1, 1, 0, 0]),
    ("all-ports", libc::SYS_iopl, [3, 0, 0, 0, 0]),
    ("local-descriptors", libc::SYS_modify_ldt, [0, 0, 0, 0, 0]),
    ("second-numbers", 0x4000_0000 | libc::SYS_getpid, [0; 5]),
];
#[cfg(not(target_arch = "x86_64"))]
const DOORS_HERE: &[(&str, c_long, [usize; 5])] = &[];

/// Tries every door and prints one line for each: its name, and `POSSIBLE` or how it was refused.
pub(super) fn all() {
    for (name, number, words) in DOORS.iter().chain(DOORS_HERE) {
        // SAFETY: none of the pointers can be read or written, which the kernel finds out for itself.
        let result = unsafe { libc::syscall(*number, words[0], words[1], words[2], words[3], words[4]) };
        let error = io::Error::last_os_error();
        let refusals: &[i32] = match *number {
            // Another user than the one there is has no number inside.
            libc::SYS_setresuid => &[libc::EPERM, libc::EINVAL],
            _ => &[libc::EPERM, libc::ENOSYS],
        };
        let refused = result < 0 && error.raw_os_error().is_some_and(|number| refusals.contains(&number));
        if refused {
            say(&format!("{name}: {error}"));
        } else {
            say(&format!("{name}: returned {result}, {error}"));
            say(POSSIBLE);
        }
    }
}

/// Opens something that must not be written to; writes nothing.
pub(super) fn open_for_writing(path: &str) {
    match File::options().write(true).open(path) {
        Ok(_) => say(POSSIBLE),
        Err(error) => say(&format!("{path}: {error}")),
    }
}

/// Makes files that run as their owner, by every call that takes a mode.
pub(super) fn set_user_bit(folder: &str) -> Result<()> {
    let path = Path::new(folder).join("runs-as-its-owner");
    let name = std::ffi::CString::new(path.to_string_lossy().as_bytes()).context("a path")?;
    let (at, mode) = (libc::AT_FDCWD as usize, 0o104_755usize);
    let name = name.as_ptr() as usize;
    let how: [u64; 3] = [(libc::O_CREAT | libc::O_WRONLY) as u64, 0o4755, 0];
    let creating = (libc::O_CREAT | libc::O_WRONLY) as usize;
    let calls: [(c_long, [usize; 4]); 5] = [
        (libc::SYS_openat, [at, name, creating, 0o4755]),
        (libc::SYS_openat2, [at, name, (&raw const how) as usize, size_of_val(&how)]),
        (libc::SYS_mknodat, [at, name, mode, 0]),
        (libc::SYS_fchmodat, [at, name, 0o4755, 0]),
        (452, [at, name, 0o4755, 0]),
    ];
    for (number, words) in calls {
        if matches!(number, libc::SYS_fchmodat | 452) {
            drop(File::create(&path));
        }
        // SAFETY: the path and the description of how to open outlive the call.
        let _ = unsafe { libc::syscall(number, words[0], words[1], words[2], words[3]) };
        use std::os::unix::fs::MetadataExt as _;
        let mode = path.metadata().map_or(0, |meta| meta.mode());
        say(&format!("call {number}: mode {mode:o}"));
        if mode & 0o6000 != 0 {
            say(POSSIBLE);
        }
        let _ = std::fs::remove_file(&path);
    }
    Ok(())
}

/// Gives a file a capability, which it would have wherever it is run.
pub(super) fn capability(path: &str) {
    // Version 2, effective; the right to become any user.
    let value = [1, 0, 0, 2, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    match rustix::fs::setxattr(path, "security.capability", &value, rustix::fs::XattrFlags::empty()) {
        Ok(()) => say(POSSIBLE),
        Err(error) => say(&format!("{path}: {error}")),
    }
}

/// Connects, and says whether somebody was there.
pub(super) fn reach(address: &str) -> Result<()> {
    let address: SocketAddr = address.parse()?;
    match TcpStream::connect_timeout(&address, CONNECT_TIME) {
        Ok(_) => say(POSSIBLE),
        Err(error) => say(&format!("{address}: {error}")),
    }
    Ok(())
}

/// Sends a datagram, as a question to a name server would be.
pub(super) fn send_datagram(address: &str) -> Result<()> {
    let address: SocketAddr = address.parse()?;
    let own = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    match UdpSocket::bind(own).and_then(|socket| socket.send_to(b"secret", address)) {
        Ok(_) => say(POSSIBLE),
        Err(error) => say(&format!("{address}: {error}")),
    }
    Ok(())
}
