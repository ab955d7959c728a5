//! The description of a running daemon, in a file next to its socket: how it was started and where it
//! listens, so that `obey upgrade` can start the next one alike. Contains no secrets: the environment is not
//! in it. Fields are only ever added, because the next version reads what the last one wrote.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::paths::PRIVATE_FILE;

/// A running daemon. Valid only while the process with this pid answers on the socket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Running {
    pub pid: i32,
    pub version: String,
    pub program: PathBuf,
    /// The flags of `obey serve` in addition to the socket, with absolute paths.
    pub flags: Vec<String>,
    /// The actual addresses: port 0 is replaced by the real one.
    pub listen: Vec<SocketAddr>,
    /// The same for those with TLS.
    pub listen_tls: Vec<SocketAddr>,
    /// Whether it was told to take whatever port is free. The next one must ask for the one it got by its number.
    pub has_free_port: bool,
    /// The default address, if another process had it; the last of `listen` replaces it.
    pub taken_default: Option<SocketAddr>,
    pub data_dir: PathBuf,
    /// Whether its output goes to the log file.
    pub background: bool,
    /// Whether another process listens on the socket and passed it on.
    pub is_given_socket: bool,
}

impl Running {
    /// Reads the description of the daemon with this pid; `None` if there is none or it belongs to another
    /// one.
    pub fn read(socket: &Path, pid: i32) -> Option<Self> {
        let text = fs::read(place(socket)).ok()?;
        serde_json::from_slice(&text).ok().filter(|running: &Self| running.pid == pid)
    }

    /// Writes it in one step: a reader sees the whole new file or the old one.
    pub fn write(&self, socket: &Path) -> io::Result<()> {
        let (place, draft) = (place(socket), place(socket).with_extension("json.new"));
        let mut file =
            fs::OpenOptions::new().write(true).create(true).truncate(true).mode(PRIVATE_FILE).open(&draft)?;
        file.write_all(&serde_json::to_vec(self)?)?;
        fs::rename(draft, place)
    }

    /// Returns every address as `--listen` takes it.
    pub fn addresses(&self) -> Vec<String> {
        let plain = self.listen.iter().map(SocketAddr::to_string);
        plain.chain(self.listen_tls.iter().map(|address| format!("tls://{address}"))).collect()
    }

    /// Says where the daemon listens instead, if another process had the default port.
    pub fn port_note(&self) -> Option<String> {
        let (taken, found) = self.taken_default.zip(self.listen.last())?;
        Some(format!("another process has {taken}; this daemon listens on {found}"))
    }

    /// Returns whether a file was changed after the daemon of this socket had started. False if either is not known.
    pub fn is_older_than(socket: &Path, file: &Path) -> bool {
        let changed = |path: &Path| fs::metadata(path).and_then(|found| found.modified()).ok();
        changed(&place(socket)).zip(changed(file)).is_some_and(|(started, changed)| started < changed)
    }

    /// Removes the file when the daemon ends.
    pub fn forget(socket: &Path) {
        // A leftover file is merely stale: no process with that pid answers on the socket.
        let _absent = fs::remove_file(place(socket));
    }

    /// Returns the flags that make the next daemon listen on the same addresses.
    pub fn flags_again(&self) -> Vec<OsString> {
        let mut flags: Vec<OsString> = Vec::new();
        let mut given = self.flags.iter();
        while let Some(flag) = given.next() {
            let value = given.next();
            if flag != "--listen" || !self.has_free_port {
                flags.push(flag.into());
                flags.extend(value.map(OsString::from));
            }
        }
        if self.has_free_port {
            // Only these addresses.
            flags.extend(["--listen".into(), "none".into()]);
            flags
                .extend(self.addresses().into_iter().flat_map(|address| ["--listen".into(), address.into()]));
        }
        flags
    }
}

fn place(socket: &Path) -> PathBuf {
    socket.with_extension("json")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn running(flags: &[&str]) -> Running {
        Running {
            pid: 7,
            flags: flags.iter().map(|flag| (*flag).to_owned()).collect(),
            listen: vec!["127.0.0.1:4711".parse().unwrap(), "[::1]:4712".parse().unwrap()],
            ..Running::default()
        }
    }

    #[test]
    fn a_file_that_was_changed_later_is_newer_than_the_daemon() {
        let temp = tempfile::tempdir().unwrap();
        let (socket, file) = (temp.path().join("daemon.sock"), temp.path().join("config.toml"));
        assert!(!Running::is_older_than(&socket, &file), "neither is there");
        Running::default().write(&socket).unwrap();
        let changed = fs::File::create(&file).unwrap();
        let started = fs::metadata(place(&socket)).unwrap().modified().unwrap();
        for (seconds, expected) in [(60, true), (0, false)] {
            changed.set_modified(started + std::time::Duration::from_secs(seconds)).unwrap();
            assert_eq!(Running::is_older_than(&socket, &file), expected, "{seconds}");
        }
    }

    #[test]
    fn what_was_written_is_read_by_whoever_knows_the_process() {
        let temp = tempfile::tempdir().unwrap();
        let socket = temp.path().join("daemon.sock");
        assert_eq!(Running::read(&socket, 7), None);
        let written = running(&["--log-level", "debug"]);
        written.write(&socket).unwrap();
        assert_eq!(Running::read(&socket, 7), Some(written));
        assert_eq!(Running::read(&socket, 8), None);
        assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 1, "no draft is left");
        Running::forget(&socket);
        assert_eq!(Running::read(&socket, 7), None);
    }

    #[test]
    fn a_newer_or_older_daemon_is_understood() {
        let temp = tempfile::tempdir().unwrap();
        let socket = temp.path().join("daemon.sock");
        fs::write(temp.path().join("daemon.json"), r#"{"pid":7,"data_dir":"/d","to_come":[1]}"#).unwrap();
        assert_eq!(Running::read(&socket, 7).unwrap().data_dir, Path::new("/d"));
    }

    #[test]
    fn the_next_daemon_gets_the_same_flags_and_the_ports_that_were_found() {
        let kept = running(&["--listen", "127.0.0.1:80", "--config", "/c"]).flags_again();
        assert_eq!(kept, ["--listen", "127.0.0.1:80", "--config", "/c"]);
        let mut found = running(&["--listen", "127.0.0.1:0", "--config", "/c", "--listen", "[::1]:0"]);
        found.has_free_port = true;
        assert_eq!(
            found.flags_again(),
            ["--config", "/c", "--listen", "none", "--listen", "127.0.0.1:4711", "--listen", "[::1]:4712"]
        );
    }
}
