//! Probes for the kernel's own doors: namespaces, mounts, other processes' memory, keys, modules, clocks, and the side
//! entrances to system calls.
#![allow(unsafe_code)]

use std::io;

use crate::probe::{Probe, call, not_reached, tried};

fn zeroes(number: libc::c_long) -> io::Result<()> {
    tried(number, [0; 5])
}

fn word(text: &'static std::ffi::CStr) -> usize {
    text.as_ptr() as usize
}

/// Makes a process with clone(2) and flags of its own.
fn clones(flags: i32) -> io::Result<()> {
    match call(libc::SYS_clone, [(flags | libc::SIGCHLD) as usize, 0, 0, 0, 0])? {
        // SAFETY: the child has nothing to do.
        0 => unsafe { libc::_exit(0) },
        _ => Ok(()),
    }
}

#[repr(C)]
#[derive(Default)]
struct CloneArguments([u64; 8]);

/// A system call by the number it has in the machine's second or third set.
#[cfg(target_arch = "x86_64")]
fn by_interrupt(number: u32) -> i32 {
    let result: i32;
    // SAFETY: getpid of the 32-bit interface takes nothing and touches no memory.
    unsafe {
        std::arch::asm!("int 0x80", inlateout("eax") number => result, options(nostack));
    }
    result
}

pub(crate) const PROBES: &[Probe] = &[
    ("unshare-user", |_| tried(libc::SYS_unshare, [libc::CLONE_NEWUSER as usize, 0, 0, 0, 0])),
    ("unshare-mount", |_| tried(libc::SYS_unshare, [libc::CLONE_NEWNS as usize, 0, 0, 0, 0])),
    ("unshare-network", |_| tried(libc::SYS_unshare, [libc::CLONE_NEWNET as usize, 0, 0, 0, 0])),
    ("clone-user", |_| clones(libc::CLONE_NEWUSER)),
    ("clone-process", |_| clones(libc::CLONE_NEWPID)),
    ("clone-mount", |_| clones(libc::CLONE_NEWNS)),
    ("clone3-user", |_| {
        let arguments = CloneArguments([libc::CLONE_NEWUSER as u64, 0, 0, 0, libc::SIGCHLD as u64, 0, 0, 0]);
        tried(libc::SYS_clone3, [(&raw const arguments) as usize, size_of::<CloneArguments>(), 0, 0, 0])
    }),
    ("enter-namespace", |_| {
        let own = std::fs::File::open("/proc/self/ns/user").or_else(|_| std::fs::File::open("/dev/null"))?;
        use std::os::fd::AsRawFd;
        tried(libc::SYS_setns, [own.as_raw_fd() as usize, 0, 0, 0, 0])
    }),
    ("mount-tmpfs", |_| tried(libc::SYS_mount, [word(c"none"), word(c"/tmp"), word(c"tmpfs"), 0, 0])),
    ("mount-proc", |_| tried(libc::SYS_mount, [word(c"none"), word(c"/tmp"), word(c"proc"), 0, 0])),
    ("remount-writable", |_| {
        let flags = (libc::MS_REMOUNT | libc::MS_BIND) as usize;
        tried(libc::SYS_mount, [0, word(c"/usr"), 0, flags, 0])
    }),
    ("unmount", |_| tried(libc::SYS_umount2, [word(c"/proc"), libc::MNT_DETACH as usize, 0, 0, 0])),
    ("open-tree", |_| tried(libc::SYS_open_tree, [libc::AT_FDCWD as usize, word(c"/"), 1, 0, 0])),
    ("open-tree-attr", |_| tried(467, [libc::AT_FDCWD as usize, word(c"/"), 1, 0, 0])),
    ("fsopen", |_| tried(libc::SYS_fsopen, [word(c"tmpfs"), 0, 0, 0, 0])),
    ("mount-setattr", |_| zeroes(libc::SYS_mount_setattr)),
    ("pivot-root", |_| tried(libc::SYS_pivot_root, [word(c"/"), word(c"/"), 0, 0, 0])),
    ("chroot", |_| tried(libc::SYS_chroot, [word(c"/tmp"), 0, 0, 0, 0])),
    ("io-uring", |_| {
        let mut parameters = [0u8; 120];
        tried(libc::SYS_io_uring_setup, [8, parameters.as_mut_ptr() as usize, 0, 0, 0])
    }),
    ("bpf", |_| zeroes(libc::SYS_bpf)),
    ("perf", |_| {
        let mut attributes = [0u8; 128];
        tried(libc::SYS_perf_event_open, [attributes.as_mut_ptr() as usize, 0, usize::MAX, usize::MAX, 0])
    }),
    ("userfaultfd", |_| tried(libc::SYS_userfaultfd, [1, 0, 0, 0, 0])),
    ("keyring", |_| tried(libc::SYS_keyctl, [0, (-3isize) as usize, 0, 0, 0])),
    ("add-key", |_| tried(libc::SYS_add_key, [word(c"user"), word(c"k"), word(c"v"), 1, (-3isize) as usize])),
    ("secret-memory", |_| zeroes(libc::SYS_memfd_secret)),
    ("fanotify", |_| zeroes(libc::SYS_fanotify_init)),
    ("load-kernel", |_| zeroes(libc::SYS_kexec_load)),
    ("load-module", |_| zeroes(libc::SYS_init_module)),
    ("load-module-file", |_| tried(libc::SYS_finit_module, [usize::MAX, 0, 0, 0, 0])),
    // The first magic number is wrong on purpose: even where it is allowed, nothing happens.
    ("reboot", |_| tried(libc::SYS_reboot, [1, 2, 3, 0, 0])),
    ("swap", |_| tried(libc::SYS_swapon, [word(c"/nonexistent"), 0, 0, 0, 0])),
    ("accounting", |_| tried(libc::SYS_acct, [word(c"/nonexistent"), 0, 0, 0, 0])),
    ("set-time", |_| tried(libc::SYS_settimeofday, [0, 0, 0, 0, 0])),
    ("set-clock", |_| tried(libc::SYS_clock_settime, [99, 0, 0, 0, 0])),
    ("set-host-name", |_| tried(libc::SYS_sethostname, [word(c"x"), 1, 0, 0, 0])),
    ("kernel-log", |_| tried(libc::SYS_syslog, [10, 0, 0, 0, 0])),
    ("personality", |_| tried(libc::SYS_personality, [0x0040_0000, 0, 0, 0, 0])),
    ("terminal-input", |_| tried(libc::SYS_ioctl, [0, libc::TIOCSTI as usize, word(c"x"), 0, 0])),
    ("terminal-input-high-bits", |_| {
        tried(libc::SYS_ioctl, [0, libc::TIOCSTI as usize | 1 << 32, word(c"x"), 0, 0])
    }),
    ("terminal-console", |_| tried(libc::SYS_ioctl, [0, libc::TIOCLINUX as usize, word(c"x"), 0, 0])),
    #[cfg(target_arch = "x86_64")]
    ("second-call-table", |_| tried(0x4000_0000 | libc::SYS_getpid, [0; 5])),
    #[cfg(target_arch = "x86_64")]
    ("old-call-table", |_| if by_interrupt(20) > 0 { Ok(()) } else { not_reached() }),
    #[cfg(target_arch = "x86_64")]
    ("segments", |_| zeroes(libc::SYS_modify_ldt)),
    #[cfg(target_arch = "x86_64")]
    ("ports", |_| tried(libc::SYS_iopl, [3, 0, 0, 0, 0])),
    // What must work: threads and processes of the usual kind.
    ("works-thread", |_| std::thread::spawn(|| ()).join().map_or_else(|_| not_reached(), Ok)),
    ("works-process", |_| {
        let ended = std::process::Command::new("/bin/sh").args(["-c", "true"]).status()?;
        if ended.success() { Ok(()) } else { not_reached() }
    }),
];
