//! The system calls neither std nor rustix offers safely, each behind a safe function. Must not hold policy: every
//! function does one call (or one idiom) and reports its error.
#![allow(unsafe_code)]

use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;

use libc::{c_int, c_long, c_ulong, pid_t};

/// Which side of a fork this is.
pub(crate) enum Fork {
    Child,
    Parent(pid_t),
}

fn check(result: c_long) -> io::Result<c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Forks. Only called by the stage, which has one thread, so that the child may do anything.
pub(crate) fn fork() -> io::Result<Fork> {
    // SAFETY: fork has no memory preconditions; the stage never starts threads.
    match check(unsafe { libc::fork() }.into())? {
        0 => Ok(Fork::Child),
        pid => Ok(Fork::Parent(pid as pid_t)),
    }
}

/// Forks into new namespaces: the child is the first process of a process namespace. Only called by the keeper, which has
/// one thread.
pub(crate) fn fork_into(namespaces: c_int) -> io::Result<Fork> {
    let flags = c_long::from(namespaces | libc::SIGCHLD);
    // SAFETY: without a stack of its own and without shared memory this is a fork; the keeper never starts threads.
    match check(unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) })? {
        0 => Ok(Fork::Child),
        pid => Ok(Fork::Parent(pid as pid_t)),
    }
}

/// Returns something to poll that can be read when a child has ended. Nothing else tells of it from then on.
pub(crate) fn child_ends() -> io::Result<OwnedFd> {
    signals(&[libc::SIGCHLD])
}

/// Returns something to poll from which the given signals are read. Nothing else tells of them from then on.
pub(crate) fn signals(numbers: &[c_int]) -> io::Result<OwnedFd> {
    // SAFETY: the set is filled before it is read; the new descriptor is owned by nobody else.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for number in numbers {
            libc::sigaddset(&raw mut set, *number);
        }
        check(libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()).into())?;
        let fd = libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        Ok(OwnedFd::from_raw_fd(check(fd.into())? as RawFd))
    }
}

/// Ends the process at once, without running anything of std or of the parent's stack.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: _exit never returns and touches no memory of ours.
    unsafe { libc::_exit(code) }
}

/// Takes a standard descriptor as an object of its own.
pub(crate) fn take(fd: RawFd) -> OwnedFd {
    // SAFETY: called once for each of 0, 1, 2 at the start of the stage, before std uses them; nobody else closes them.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// Puts `fd` at the number `at`, without close-on-exec.
pub(crate) fn place(fd: BorrowedFd<'_>, at: RawFd) -> io::Result<()> {
    // SAFETY: `fd` is open; `at` is one of 0, 1, 2, which nothing in the stage owns as an object any more.
    check(unsafe { libc::dup2(fd.as_raw_fd(), at) }.into()).map(drop)
}

/// Closes every descriptor from `first` on, or makes it close on exec.
pub(crate) fn close_from(first: u32, flags: u32) -> io::Result<()> {
    // SAFETY: called before anything is opened, or only sets flags.
    check(unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, flags) }).map(drop)
}

/// Leaves the given namespaces for new ones.
pub(crate) fn unshare(flags: c_int) -> io::Result<()> {
    // SAFETY: no flag used here lets memory be shared in new ways; the stage has one thread.
    check(unsafe { libc::unshare(flags) }.into()).map(drop)
}

/// Gives a mount, and all below it, more flags.
pub(crate) fn restrict_mount(mount: BorrowedFd<'_>, set: u64, recursive: bool) -> io::Result<()> {
    let attributes = libc::mount_attr { attr_set: set, attr_clr: 0, propagation: 0, userns_fd: 0 };
    let flags = libc::AT_EMPTY_PATH | if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the path is an empty C string, the attributes live through the call and the size is theirs.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags as c_ulong,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    check(result).map(drop)
}

/// Returns the version of Landlock the kernel speaks; 0 if none.
pub(crate) fn landlock_abi() -> i32 {
    const VERSION: c_ulong = 1;
    // SAFETY: with this flag the kernel wants a null pointer and a size of zero.
    let abi =
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0usize, VERSION) };
    i32::try_from(abi).unwrap_or(0).max(0)
}

/// Brings a network namespace's own loopback up.
pub(crate) fn loopback_up() -> io::Result<()> {
    // SAFETY: plain call without pointers; the new descriptor is owned by nobody else.
    let socket = unsafe {
        let fd = check(libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0).into())?;
        OwnedFd::from_raw_fd(fd as RawFd)
    };
    // SAFETY: ifreq is plain data for which zero is valid; the kernel reads the name and reads or writes the flags. C libraries
    // differ in the type of a request.
    unsafe {
        let mut request: libc::ifreq = std::mem::zeroed();
        request.ifr_name[0] = b'l' as libc::c_char;
        request.ifr_name[1] = b'o' as libc::c_char;
        check(libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFFLAGS as _, &raw mut request).into())?;
        request.ifr_ifru.ifru_flags |= libc::IFF_UP as i16;
        check(libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &raw mut request).into())?;
    }
    Ok(())
}

/// Default dispositions and an empty mask, as a program expects to start.
pub(crate) fn reset_signals() {
    for signo in 1..=64 {
        // SAFETY: SIG_DFL is a valid disposition; numbers that do not exist only yield an error.
        unsafe { libc::signal(signo, libc::SIG_DFL) };
    }
    // SAFETY: sigemptyset fills the set, sigprocmask reads it.
    unsafe {
        let mut none = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}

/// Kills every process of this one's process namespace but itself.
pub(crate) fn kill_all_others() {
    signal_all_others(libc::SIGKILL);
}

/// Sends a signal to every process of this one's process namespace but itself. Does nothing, and says so, outside such a
/// namespace: there it would be everything of the user.
pub(crate) fn signal_all_others(signo: c_int) -> bool {
    if rustix::process::getpid() != rustix::process::Pid::INIT {
        return false;
    }
    // SAFETY: plain call without pointers; an error means that there was nobody.
    unsafe { libc::kill(-1, signo) };
    true
}

/// Sends a signal to one process.
pub(crate) fn signal_one(pid: pid_t, signo: c_int) {
    if pid > 1 {
        // SAFETY: plain call without pointers; an error means that it is gone.
        unsafe { libc::kill(pid, signo) };
    }
}

/// Asks for a lease for reading and gives it back: the kernel refuses (EAGAIN) while anybody has the file open for writing.
pub(crate) fn try_read_lease(file: &OwnedFd) -> io::Result<()> {
    // SAFETY: plain calls on an open descriptor, without pointers. Somebody who opens the file meanwhile makes the kernel send SIGIO,
    // which is ignored from here on.
    unsafe {
        libc::signal(libc::SIGIO, libc::SIG_IGN);
        check(libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_RDLCK).into())?;
        check(libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_UNLCK).into()).map(drop)
    }
}

/// Lets a signal pass unnoticed.
pub(crate) fn ignore_signal(signo: c_int) {
    // SAFETY: SIG_IGN is a valid disposition; no handler code runs.
    unsafe { libc::signal(signo, libc::SIG_IGN) };
}

/// Sends a signal to this process.
pub(crate) fn raise(signo: c_int) {
    // SAFETY: plain call without pointers.
    unsafe { libc::raise(signo) };
}

/// Sends a signal to every process of a group.
pub(crate) fn signal_group(leader: pid_t, signo: c_int) {
    if leader > 1 {
        // SAFETY: plain call without pointers; an error means that there was nobody.
        unsafe { libc::kill(-leader, signo) };
    }
}

/// Passes an open descriptor to the other end of a socket.
pub(crate) fn send_descriptor(socket: BorrowedFd<'_>, descriptor: BorrowedFd<'_>) -> io::Result<()> {
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors = [descriptor];
    ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    rustix::net::sendmsg(socket, &[io::IoSlice::new(&[0])], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives one descriptor; an error if the other end closed before it sent one.
pub(crate) fn receive_descriptor(socket: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut into = [io::IoSliceMut::new(&mut byte)];
    rustix::net::recvmsg(socket, &mut into, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let found = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut list) => list.next(),
        _ => None,
    });
    found.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

/// Replaces the process by a program at a path. Returns only on error.
pub(crate) fn exec(
    path: &OsStr,
    arguments: &[impl AsRef<OsStr>],
    env: &[(impl AsRef<OsStr>, impl AsRef<OsStr>)],
) -> io::Error {
    let nul = |_| io::Error::from_raw_os_error(libc::EINVAL);
    let prepared = || -> io::Result<_> {
        let path = CString::new(path.as_bytes()).map_err(nul)?;
        let words: Result<Vec<CString>, _> =
            arguments.iter().map(|word| CString::new(word.as_ref().as_bytes())).collect();
        let entry = |(name, value): &(_, _)| entry(AsRef::as_ref(name), AsRef::as_ref(value));
        let env: Result<Vec<CString>, _> = env.iter().map(entry).collect();
        Ok((path, words.map_err(nul)?, env.map_err(nul)?))
    };
    let (path, words, env) = match prepared() {
        Ok(prepared) => prepared,
        Err(error) => return error,
    };
    let list = |strings: &[CString]| {
        strings.iter().map(|string| string.as_ptr()).chain([std::ptr::null()]).collect::<Vec<_>>()
    };
    let (words, env) = (list(&words), list(&env));
    // SAFETY: both lists are NULL-ended and their strings outlive the call.
    unsafe { libc::execve(path.as_ptr(), words.as_ptr(), env.as_ptr()) };
    io::Error::last_os_error()
}

fn entry(name: &OsStr, value: &OsStr) -> Result<CString, std::ffi::NulError> {
    let mut entry = name.as_bytes().to_vec();
    entry.push(b'=');
    entry.extend(value.as_bytes());
    CString::new(entry)
}

/// Tries a system call whose arguments are numbers or null, to see whether it is allowed. A descriptor it may return
/// is left open: only a probe that is about to end calls this.
pub(crate) fn attempt(number: c_long, arguments: [c_long; 5]) -> io::Result<c_long> {
    let [a, b, c, d, e] = arguments;
    // SAFETY: the callers pass numbers and null pointers only, which the kernel checks.
    check(unsafe { libc::syscall(number, a, b, c, d, e) })
}
