//! The system calls that std does not offer, each behind a safe function. The only unsafe code of the shim.
//! Must not contain policy: every function does one call (or one idiom) and returns its error.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use libc::{c_int, c_ulong, pid_t};

/// Which side of a fork this is.
pub(crate) enum Fork {
    Child,
    Parent(pid_t),
}

/// How a child ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    pub(crate) pid: pid_t,
    pub(crate) code: i32,
    pub(crate) signal: i32,
}

fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Forks. Only called while the process has one thread, so the child may do anything.
pub(crate) fn fork() -> io::Result<Fork> {
    // SAFETY: fork has no memory preconditions; the shim never starts threads.
    match check(unsafe { libc::fork() })? {
        0 => Ok(Fork::Child),
        pid => Ok(Fork::Parent(pid)),
    }
}

/// The kernel's `CLONE_INTO_CGROUP`; libc's has too few bits.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// Forks into a control group of version 2; the group is given by its folder. Fails with `ENOSYS` where the kernel cannot.
pub(crate) fn fork_into(group: BorrowedFd<'_>) -> io::Result<Fork> {
    // SAFETY: the structure is plain numbers, for all of which zero means: nothing.
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    args.flags = CLONE_INTO_CGROUP;
    args.exit_signal = libc::SIGCHLD as u64;
    args.cgroup = group.as_raw_fd() as u64;
    // SAFETY: pointer and size describe the structure. Without a stack it is a fork; the shim never starts threads.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, &raw mut args, size_of::<libc::clone_args>()) };
    match check(pid as c_int)? {
        0 => Ok(Fork::Child),
        pid => Ok(Fork::Parent(pid)),
    }
}

/// The type of a resource's number, in which C libraries differ.
#[cfg(target_env = "gnu")]
type Resource = libc::__rlimit_resource_t;
#[cfg(not(target_env = "gnu"))]
type Resource = c_int;

/// Lowers both limits of a resource for this process and its descendants.
pub(crate) fn lower_limit(resource: Resource, most: u64) -> io::Result<()> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls read or write one rlimit through the pointer.
    check(unsafe { libc::getrlimit(resource, &mut limit) })?;
    limit.rlim_max = limit.rlim_max.min(most);
    limit.rlim_cur = limit.rlim_cur.min(limit.rlim_max);
    // SAFETY: as above.
    check(unsafe { libc::setrlimit(resource, &limit) }).map(drop)
}

/// Keeps this process and its descendants on as many of its processors, chosen by `seed`.
pub(crate) fn use_cpus(count: usize, seed: usize) -> io::Result<()> {
    // SAFETY: a set is plain bits; the calls get its size and write or read no more; the macros stay within it.
    unsafe {
        let mut all: libc::cpu_set_t = std::mem::zeroed();
        check(libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut all))?;
        let usable: Vec<usize> =
            (0..libc::CPU_SETSIZE as usize).filter(|&cpu| libc::CPU_ISSET(cpu, &all)).collect();
        let mut chosen: libc::cpu_set_t = std::mem::zeroed();
        for &cpu in usable.iter().cycle().skip(seed % usable.len().max(1)).take(count.min(usable.len())) {
            libc::CPU_SET(cpu, &mut chosen);
        }
        check(libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &chosen)).map(drop)
    }
}

/// Ends the process at once, without running anything of std or of the parent's stack.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: _exit never returns and touches no memory of ours.
    unsafe { libc::_exit(code) }
}

pub(crate) fn setsid() -> io::Result<()> {
    // SAFETY: plain call without pointers.
    check(unsafe { libc::setsid() }).map(drop)
}

/// Sets the mask and returns the previous one.
pub(crate) fn set_umask(mask: libc::mode_t) -> libc::mode_t {
    // SAFETY: plain call without pointers; it cannot fail.
    unsafe { libc::umask(mask) }
}

pub(crate) fn euid() -> libc::uid_t {
    // SAFETY: plain call without pointers; it cannot fail.
    unsafe { libc::geteuid() }
}

pub(crate) fn parent_pid() -> pid_t {
    // SAFETY: plain call without pointers; it cannot fail.
    unsafe { libc::getppid() }
}

pub(crate) fn change_dir_to(dir: &File) -> io::Result<()> {
    // SAFETY: the descriptor is open for the length of the call.
    check(unsafe { libc::fchdir(dir.as_raw_fd()) }).map(drop)
}

/// What to do with every inherited descriptor above stderr.
pub(crate) enum Inherited {
    Close,
    CloseOnExec,
}

/// Closes every descriptor above stderr, or marks it close-on-exec.
pub(crate) fn drop_inherited(how: Inherited) {
    let flags = match how {
        Inherited::Close => 0,
        Inherited::CloseOnExec => libc::CLOSE_RANGE_CLOEXEC,
    };
    // SAFETY: called before the shim opens anything, or to set flags only: no descriptor in use is closed.
    if unsafe { libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, flags) } == 0 {
        return;
    }
    // Before Linux 5.11. The daemon's own descriptors are close-on-exec anyway; this is for others.
    for fd in 3..1024 {
        match how {
            // SAFETY: as above.
            Inherited::Close => unsafe { libc::close(fd) },
            // SAFETY: sets a flag on a descriptor number; a closed one only yields an error.
            Inherited::CloseOnExec => unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) },
        };
    }
}

/// Puts `fd` at the number `at`, without close-on-exec.
pub(crate) fn place(fd: BorrowedFd<'_>, at: RawFd) -> io::Result<()> {
    // SAFETY: `fd` is open; `at` is one of 0, 1, 2, which nothing in this process owns as an object.
    check(unsafe { libc::dup2(fd.as_raw_fd(), at) }).map(drop)
}

pub(crate) fn set_nonblocking(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: fcntl on an open descriptor with integer arguments.
    let flags = check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) })?;
    // SAFETY: as above.
    check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK) }).map(drop)
}

/// Asks for a larger pipe. Best effort: the kernel limits the total size of one user's pipes.
pub(crate) fn grow_pipe(fd: BorrowedFd<'_>, bytes: i32) {
    // SAFETY: fcntl on an open descriptor with integer arguments.
    let _ = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETPIPE_SZ, bytes) };
}

/// Returns the number of bytes waiting in a pipe.
pub(crate) fn unread_bytes(fd: BorrowedFd<'_>) -> u64 {
    let mut waiting: c_int = 0;
    // SAFETY: FIONREAD writes one int through the pointer.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), libc::FIONREAD, &mut waiting) };
    if result < 0 { 0 } else { waiting.max(0) as u64 }
}

/// Makes orphans below this process its children, so that it can find and reap all of them.
pub(crate) fn adopt_orphans() -> io::Result<()> {
    prctl(libc::PR_SET_CHILD_SUBREAPER, 1)
}

/// Disables core dumps, ptrace by others and readable /proc entries: the environment contains secrets.
pub(crate) fn hide_memory() {
    let _ = prctl(libc::PR_SET_DUMPABLE, 0);
}

/// Makes the agent die with the shim.
pub(crate) fn die_with_parent() -> io::Result<()> {
    prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as c_ulong)
}

pub(crate) fn set_name(name: &std::ffi::CStr) {
    let _ = prctl(libc::PR_SET_NAME, name.as_ptr() as c_ulong);
}

fn prctl(option: c_int, value: c_ulong) -> io::Result<()> {
    // SAFETY: the options used take an integer, or a NUL-ended name that outlives the call.
    check(unsafe { libc::prctl(option, value, 0 as c_ulong, 0 as c_ulong, 0 as c_ulong) }).map(drop)
}

/// Sets the soft core limit and returns the previous one.
pub(crate) fn set_core_limit(soft: libc::rlim_t) -> io::Result<libc::rlim_t> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls read or write one rlimit through the pointer.
    check(unsafe { libc::getrlimit(libc::RLIMIT_CORE, &mut limit) })?;
    let before = limit.rlim_cur;
    limit.rlim_cur = soft.min(limit.rlim_max);
    // SAFETY: as above.
    check(unsafe { libc::setrlimit(libc::RLIMIT_CORE, &limit) })?;
    Ok(before)
}

/// Returns large blocks to the system when they are freed, whatever was freed before.
pub(crate) fn keep_heap_small() {
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt takes two integers.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 128 << 10);
    }
}

pub(crate) fn ignore_signal(signo: c_int) {
    // SAFETY: SIG_IGN is a valid disposition; no handler code runs.
    unsafe { libc::signal(signo, libc::SIG_IGN) };
}

/// Restores default dispositions and an empty mask, as a program expects at its start.
pub(crate) fn reset_signals() {
    for signo in 1..=64 {
        // SAFETY: SIG_DFL is a valid disposition; numbers that do not exist only yield an error.
        unsafe { libc::signal(signo, libc::SIG_DFL) };
    }
    // SAFETY: sigemptyset fills the set, sigprocmask reads it.
    unsafe {
        let mut none = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
    }
}

/// Returns a descriptor that delivers `signals` instead of handlers.
pub(crate) fn signal_fd(signals: &[c_int]) -> io::Result<File> {
    // SAFETY: the set is filled before it is read; the new descriptor is owned by nobody else.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        for &signo in signals {
            libc::sigaddset(&mut set, signo);
        }
        check(libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()))?;
        let fd = check(libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK))?;
        Ok(File::from_raw_fd(fd))
    }
}

/// Size of one entry of a signal descriptor; it begins with the signal number.
pub(crate) const SIGNAL_INFO_LEN: usize = size_of::<libc::signalfd_siginfo>();

pub(crate) fn poll(fds: &mut [libc::pollfd], timeout_ms: c_int) -> io::Result<()> {
    // SAFETY: pointer and length describe the slice.
    check(unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, timeout_ms) }).map(drop)
}

/// Reaps one ended child, if there is any.
pub(crate) fn reap() -> Option<Ended> {
    let mut status = 0;
    // SAFETY: waitpid writes one int through the pointer.
    let pid = unsafe { libc::waitpid(-1, &mut status, libc::WNOHANG) };
    if pid <= 0 {
        return None;
    }
    let signalled = libc::WIFSIGNALED(status);
    Some(Ended {
        pid,
        code: if signalled { -1 } else { libc::WEXITSTATUS(status) },
        signal: if signalled { libc::WTERMSIG(status) } else { 0 },
    })
}

/// Signals a process whose pid, as the caller knows, cannot have been reused (an unreaped child), or, with a
/// negative number, its group.
pub(crate) fn kill(pid: pid_t, signo: c_int) {
    // SAFETY: plain call without pointers. A failure means that it is already gone.
    let _ = unsafe { libc::kill(pid, signo) };
}

/// Returns a handle to a process that stays valid even if its pid is reused.
pub(crate) fn open_process(pid: pid_t) -> io::Result<OwnedFd> {
    // SAFETY: plain call without pointers; the new descriptor is owned by nobody else.
    unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_open, pid, 0);
        check(fd as c_int).map(|fd| OwnedFd::from_raw_fd(fd))
    }
}

pub(crate) fn signal_process(process: BorrowedFd<'_>, signo: c_int) -> io::Result<()> {
    let no_info = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: the descriptor is open and a null siginfo is allowed.
    let sent = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, process.as_raw_fd(), signo, no_info, 0) };
    check(sent as c_int).map(drop)
}

pub(crate) fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

pub(crate) fn wall_ns() -> u64 {
    clock_ns(libc::CLOCK_REALTIME)
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: clock_gettime writes one timespec through the pointer; these clocks always exist.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Writes `first` then `second` at `offset` with one call; returns how much was written.
pub(crate) fn write_two_at(file: &File, first: &[u8], second: &[u8], offset: u64) -> io::Result<usize> {
    let parts = [
        libc::iovec { iov_base: first.as_ptr() as *mut _, iov_len: first.len() },
        libc::iovec { iov_base: second.as_ptr() as *mut _, iov_len: second.len() },
    ];
    loop {
        // SAFETY: both parts are live slices that the kernel only reads.
        let written = unsafe { libc::pwritev(file.as_raw_fd(), parts.as_ptr(), 2, offset as libc::off_t) };
        if written >= 0 {
            return Ok(written as usize);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Allocates the blocks of a file, so that they can be freed later.
pub(crate) fn allocate(file: &File, bytes: u64) -> io::Result<()> {
    // SAFETY: plain call on an open descriptor. It returns the error instead of setting errno.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, bytes as libc::off_t) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Returns the pid and user of the process that connected a Unix socket.
pub(crate) fn peer_credentials(socket: BorrowedFd<'_>) -> io::Result<(pid_t, libc::uid_t)> {
    let mut credentials = libc::ucred { pid: 0, uid: libc::uid_t::MAX, gid: libc::gid_t::MAX };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: pointer and length describe one ucred that the kernel fills.
    check(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut credentials).cast(),
            &mut len,
        )
    })?;
    Ok((credentials.pid, credentials.uid))
}

/// Returns a handle to the process that connected a Unix socket, taken when it connected.
pub(crate) fn peer_handle(socket: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let mut handle: c_int = -1;
    let mut len = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: pointer and length describe one int that the kernel fills with a descriptor owned by nobody else.
    unsafe {
        check(libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERPIDFD,
            (&raw mut handle).cast(),
            &mut len,
        ))?;
        check(handle).map(|handle| OwnedFd::from_raw_fd(handle))
    }
}

/// Returns whether the process of a handle has not ended.
pub(crate) fn is_running(process: BorrowedFd<'_>) -> bool {
    let mut wait = [libc::pollfd { fd: process.as_raw_fd(), events: libc::POLLIN, revents: 0 }];
    // A handle becomes readable when its process ends. If the poll fails, the process counts as ended.
    poll(&mut wait, 0).is_ok() && wait[0].revents == 0
}

/// The result of `PIDFD_GET_INFO` (Linux 6.13), in its first version.
#[repr(C)]
#[derive(Default)]
struct ProcessFacts {
    mask: u64,
    cgroup: u64,
    pid: u32,
    tgid: u32,
    parent: u32,
    ruid: u32,
    rgid: u32,
    euid: u32,
    others: [u32; 6],
}

/// Returns parent and effective user of a process, even of one that `/proc` hides.
pub(crate) fn hidden_process(pid: pid_t) -> io::Result<(pid_t, libc::uid_t)> {
    const WANTED: u64 = 0b11;
    const GET: libc::c_ulong = 3 << 30 | (size_of::<ProcessFacts>() as libc::c_ulong) << 16 | 0xff << 8 | 11;
    let handle = open_process(pid)?;
    let mut facts = ProcessFacts { mask: WANTED, ..ProcessFacts::default() };
    // SAFETY: the request carries the size of the structure that the pointer leads to.
    check(unsafe { libc::ioctl(handle.as_raw_fd(), GET as _, &raw mut facts) })?;
    if facts.mask & WANTED != WANTED || facts.tgid as pid_t != pid {
        return Err(io::Error::from_raw_os_error(libc::ESRCH));
    }
    Ok((facts.parent as pid_t, facts.euid))
}

/// Replaces the process with a program, searched in PATH, with the current environment. Returns only on
/// error.
pub(crate) fn exec(command: &[CString]) -> io::Error {
    let Some(program) = command.first() else { return io::Error::from_raw_os_error(libc::ENOENT) };
    let mut words: Vec<*const libc::c_char> = command.iter().map(|word| word.as_ptr()).collect();
    words.push(std::ptr::null());
    // SAFETY: the list is NULL-ended and its strings outlive the call.
    unsafe { libc::execvp(program.as_ptr(), words.as_ptr()) };
    io::Error::last_os_error()
}
