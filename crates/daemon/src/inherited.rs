//! What a service manager hands to the program it starts: a socket it listens on already, and an address to tell that
//! the daemon is ready. Taken out of the environment, so that nobody we start takes it for its own. Knows nothing of
//! what the socket is used for; `surface::server` checks that it is the right one.

use std::os::fd::{BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use config::failure::{Failure, Result};
use config::vars::Vars;

/// The number of the first passed file, by systemd's convention.
const FIRST: RawFd = 3;

/// More files than this cannot be intended.
const FILES_MAX: RawFd = 64;

const VARIABLES: [&str; 5] =
    ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PIDFDID", "NOTIFY_SOCKET"];

/// What was passed; empty if a person started the daemon.
#[derive(Debug, Default)]
pub struct Inherited {
    pub socket: Option<OwnedFd>,
    pub manager: Option<ManagerNotifier>,
}

impl Inherited {
    /// Takes what this process was given. Must be called once, before any thread exists.
    pub fn take(vars: &Vars) -> Result<Self> {
        let count = files_passed(vars, std::process::id());
        let manager = vars.get("NOTIFY_SOCKET").and_then(|name| ManagerNotifier::at(name.as_bytes()));
        VARIABLES.into_iter().for_each(forget);
        if count == 0 {
            return Ok(Self { socket: None, manager });
        }
        for file in FIRST..FIRST.saturating_add(count.min(FILES_MAX)) {
            close_on_exec(file).map_err(|error| {
                Failure::failed(format!("LISTEN_FDS={count}, but file {file} was not passed: {error}"))
            })?;
        }
        Ok(Self { socket: Some(own(FIRST)), manager })
    }
}

/// Returns how many files were passed to this process; variables meant for another one do not count.
fn files_passed(vars: &Vars, pid: u32) -> RawFd {
    let number = |name: &str| vars.get(name)?.to_str()?.parse::<u32>().ok();
    match (number("LISTEN_PID"), number("LISTEN_FDS")) {
        (Some(meant), Some(count)) if meant == pid => RawFd::try_from(count).unwrap_or(0),
        _ => 0,
    }
}

#[allow(unsafe_code)]
fn forget(variable: &str) {
    // SAFETY: called before the process has a second thread that could read the environment concurrently.
    unsafe { std::env::remove_var(variable) };
}

#[allow(unsafe_code)]
fn close_on_exec(file: RawFd) -> rustix::io::Result<()> {
    // SAFETY: borrowed for this call only; a number that is not an open file yields an error.
    let file = unsafe { BorrowedFd::borrow_raw(file) };
    rustix::io::fcntl_setfd(file, rustix::io::FdFlags::CLOEXEC)
}

#[allow(unsafe_code)]
fn own(file: RawFd) -> OwnedFd {
    // SAFETY: it is open (just checked), was passed to us as ours, and the variables that name it are
    // removed, so it cannot be taken twice.
    unsafe { OwnedFd::from_raw_fd(file) }
}

/// Sends notifications to the service manager.
#[derive(Debug)]
pub struct ManagerNotifier(SocketAddr);

impl ManagerNotifier {
    fn at(name: &[u8]) -> Option<Self> {
        match name.strip_prefix(b"@") {
            #[cfg(target_os = "linux")]
            Some(name) => {
                use std::os::linux::net::SocketAddrExt as _;
                SocketAddr::from_abstract_name(name).ok().map(Self)
            }
            #[cfg(not(target_os = "linux"))]
            Some(_) => None,
            None => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(name)).ok().map(Self),
        }
    }

    /// Reports that the daemon is serving.
    pub fn ready(&self) {
        self.tell("READY=1");
    }

    /// Reports that the daemon is about to end.
    pub fn stopping(&self) {
        self.tell("STOPPING=1");
    }

    fn tell(&self, what: &str) {
        let told = UnixDatagram::unbound().and_then(|socket| socket.send_to_addr(what.as_bytes(), &self.0));
        if let Err(error) = told {
            tracing::warn!(%error, what, "cannot tell the service manager");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_meant_for_another_process_are_not_ours() {
        let passed = |pairs: &[(&str, &str)]| files_passed(&Vars::of(pairs), 7);
        assert_eq!(passed(&[("LISTEN_PID", "7"), ("LISTEN_FDS", "2")]), 2);
        assert_eq!(passed(&[("LISTEN_PID", "8"), ("LISTEN_FDS", "2")]), 0);
        assert_eq!(passed(&[("LISTEN_FDS", "2")]), 0);
        assert_eq!(passed(&[("LISTEN_PID", "7"), ("LISTEN_FDS", "-1")]), 0);
        assert_eq!(passed(&[("LISTEN_PID", "7"), ("LISTEN_FDS", "4294967295")]), 0);
    }

    #[test]
    fn the_manager_is_told_by_path_and_by_abstract_name() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("notify");
        let heard = UnixDatagram::bind(&path).unwrap();
        let manager = ManagerNotifier::at(path.as_os_str().as_bytes()).unwrap();
        manager.ready();
        manager.stopping();
        let mut bytes = [0; 64];
        for told in [&b"READY=1"[..], b"STOPPING=1"] {
            let count = heard.recv(&mut bytes).unwrap();
            assert_eq!(&bytes[..count], told);
        }
        #[cfg(target_os = "linux")]
        {
            use std::os::linux::net::SocketAddrExt as _;
            let name = format!("obey-test-{}", std::process::id());
            let address = SocketAddr::from_abstract_name(name.as_bytes()).unwrap();
            let heard = UnixDatagram::bind_addr(&address).unwrap();
            ManagerNotifier::at(format!("@{name}").as_bytes()).unwrap().ready();
            let count = heard.recv(&mut bytes).unwrap();
            assert_eq!(&bytes[..count], b"READY=1");
        }
    }
}
