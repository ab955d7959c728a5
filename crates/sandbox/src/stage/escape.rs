//! A short list of attempts to get out, made by the stage itself when it is locked in, at the daemon's start. Prints
//! one line for each: its name and `held` or `escaped`. A tier of which one attempt succeeds is not used.
//! The long list is in the tests; this one covers each wall once.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::namespaced;
use crate::order::{Canary, Order};
use crate::sys;

/// How long a connection may be tried; a host that answers does so at once.
const CONNECT_WAIT: Duration = Duration::from_millis(500);

/// Makes every attempt; the exit code says whether all walls held.
pub(super) fn run(order: &Order, canary: &Canary) -> i32 {
    let mut out = File::from(sys::take(1));
    let mut all = true;
    for (name, held) in attempts(order, canary) {
        all &= held;
        let _ = writeln!(out, "{name} {}", if held { "held" } else { "escaped" });
    }
    i32::from(!all)
}

fn attempts(order: &Order, canary: &Canary) -> Vec<(&'static str, bool)> {
    let root = Path::new(&order.root);
    let outside = Path::new(&canary.file);
    let environ = format!("/proc/{}/environ", canary.pid);
    let raw = |number| sys::attempt(number, [0; 5]);
    vec![
        ("reads-outside", refused(File::open(outside))),
        ("writes-outside", refused(OpenOptions::new().append(true).open(outside))),
        ("creates-outside", refused(File::create_new(outside.with_extension("new")))),
        ("lists-outside", outside.parent().is_none_or(|folder| refused(std::fs::read_dir(folder)))),
        ("writes-system", refused(File::create_new("/usr/obey-probe"))),
        ("creates-protected", protected_holds(order, root)),
        ("reads-environment", refused(File::open(environ))),
        ("signals-outside", refused(sys::attempt(libc::SYS_kill, [canary.pid.into(), 0, 0, 0, 0]))),
        (
            "connects-tcp",
            refused(TcpStream::connect_timeout(
                &SocketAddr::from(([127, 0, 0, 1], canary.port)),
                CONNECT_WAIT,
            )),
        ),
        ("connects-unix", refused(UnixStream::connect(Path::new(&canary.socket)))),
        (
            "new-user-namespace",
            refused(sys::attempt(libc::SYS_unshare, [libc::CLONE_NEWUSER.into(), 0, 0, 0, 0])),
        ),
        ("mounts", refused(raw(libc::SYS_mount))),
        ("io-uring", refused(raw(libc::SYS_io_uring_setup))),
        ("traces", refused(raw(libc::SYS_ptrace))),
        ("loads-programs-into-kernel", refused(raw(libc::SYS_bpf))),
        ("has-rights", !namespaced::has_rights().unwrap_or(true)),
        ("may-gain-rights", rustix::thread::no_new_privs().unwrap_or(false)),
        // And that it is of any use: a sandbox in which nothing runs would pass all of the above.
        (
            "runs-programs",
            Command::new("/bin/sh")
                .args(["-c", "exit 0"])
                .stdin(Stdio::null())
                .status()
                .is_ok_and(|status| status.success()),
        ),
        ("reads-project", std::fs::read_dir(root).is_ok()),
    ]
}

/// A call that is refused returns one of these; anything else would mean that it was looked at.
fn refused<T>(result: io::Result<T>) -> bool {
    use io::ErrorKind::{
        ConnectionRefused, NetworkUnreachable, NotFound, PermissionDenied, ReadOnlyFilesystem, TimedOut,
    };
    match result {
        Ok(_) => false,
        Err(error) => {
            let kinds = [
                PermissionDenied,
                NotFound,
                ReadOnlyFilesystem,
                ConnectionRefused,
                NetworkUnreachable,
                TimedOut,
            ];
            kinds.contains(&error.kind()) || matches!(error.raw_os_error(), Some(libc::ESRCH | libc::ENOSYS))
        }
    }
}

fn protected_holds(order: &Order, root: &Path) -> bool {
    order.protected.iter().all(|name: &_| {
        let path = root.join(OsStr::new(name));
        let inside = refused(File::create_new(path.join("probe")));
        let instead = refused(File::create_new(&path)) || path.symlink_metadata().is_ok();
        inside && instead
    })
}
