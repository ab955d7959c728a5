//! Runs every probe in a process of its own and prints how it ended: `reached`, the error it met, or the signal that
//! killed it.
#![allow(unsafe_code)]

use std::io;

use crate::ground::Ground;
use crate::{files, kernel, network, processes};

/// An attempt to reach something: done if it worked, the error otherwise.
pub(crate) type Probe = (&'static str, fn(&Ground) -> io::Result<()>);

/// Longest time one attempt may take.
const SECONDS_MAX: u32 = 10;

pub(crate) fn run_all(ground: &str) -> i32 {
    let ground: Ground = serde_json::from_str(ground).unwrap();
    let all = [files::PROBES, network::PROBES, kernel::PROBES, processes::PROBES];
    for (name, probe) in all.into_iter().flatten() {
        println!("{name} {}", attempt(*probe, &ground));
    }
    0
}

fn attempt(probe: fn(&Ground) -> io::Result<()>, ground: &Ground) -> String {
    // SAFETY: this program has one thread; the child ends with _exit.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // SAFETY: plain call; the default action ends the process.
        unsafe { libc::alarm(SECONDS_MAX) };
        let code = match probe(ground) {
            Ok(()) => 0,
            Err(error) => error.raw_os_error().unwrap_or(200),
        };
        // SAFETY: ends the process at once.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: waits for the child just made; writes one int.
    unsafe { libc::waitpid(pid, &raw mut status, 0) };
    if libc::WIFSIGNALED(status) {
        return format!("signal:{}", libc::WTERMSIG(status));
    }
    match libc::WEXITSTATUS(status) {
        0 => "reached".into(),
        errno => error_name(errno),
    }
}

fn error_name(errno: i32) -> String {
    let known = [
        (libc::EPERM, "EPERM"),
        (libc::ENOENT, "ENOENT"),
        (libc::ESRCH, "ESRCH"),
        (libc::EIO, "EIO"),
        (libc::EBADF, "EBADF"),
        (libc::EAGAIN, "EAGAIN"),
        (libc::EACCES, "EACCES"),
        (libc::EFAULT, "EFAULT"),
        (libc::EBUSY, "EBUSY"),
        (libc::EEXIST, "EEXIST"),
        (libc::EXDEV, "EXDEV"),
        (libc::EINVAL, "EINVAL"),
        (libc::ENOTTY, "ENOTTY"),
        (libc::EROFS, "EROFS"),
        (libc::ENOSYS, "ENOSYS"),
        (libc::ENXIO, "ENXIO"),
        (libc::ELOOP, "ELOOP"),
        (libc::EAFNOSUPPORT, "EAFNOSUPPORT"),
        (libc::ENETUNREACH, "ENETUNREACH"),
        (libc::ECONNREFUSED, "ECONNREFUSED"),
        (libc::ENOTEMPTY, "ENOTEMPTY"),
        (libc::EOPNOTSUPP, "EOPNOTSUPP"),
        (libc::ENOTDIR, "ENOTDIR"),
        (libc::EISDIR, "EISDIR"),
        (libc::EADDRNOTAVAIL, "EADDRNOTAVAIL"),
    ];
    known
        .iter()
        .find(|(number, _)| *number == errno)
        .map_or(format!("errno:{errno}"), |(_, name)| (*name).to_owned())
}

/// A system call with numbers and pointers as arguments.
pub(crate) fn call(number: libc::c_long, arguments: [usize; 5]) -> io::Result<i64> {
    let [a, b, c, d, e] = arguments;
    // SAFETY: the probes pass pointers to memory that outlives the call, or numbers.
    let result = unsafe { libc::syscall(number, a, b, c, d, e) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// As [`call`], for calls whose result does not matter.
pub(crate) fn tried(number: libc::c_long, arguments: [usize; 5]) -> io::Result<()> {
    call(number, arguments).map(drop)
}

/// An attempt that failed without an error of its own.
pub(crate) fn not_reached() -> io::Result<()> {
    Err(io::Error::from_raw_os_error(libc::EACCES))
}
