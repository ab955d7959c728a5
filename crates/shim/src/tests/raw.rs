//! A shim driven directly: started as the daemon would, with frames over its socket.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::frame::{Assembler, ToDaemon, ToShim, Welcome};
use crate::limits::PROTOCOL;
use crate::record::{Exit, Input, Stream};
use crate::spool::{Position, Reader, Step};

/// Everything a test waits for happens within this time, or the test fails.
pub(super) const DEADLINE: Duration = Duration::from_secs(30);

/// A session's directory with a shim in it; killed with its agent when dropped.
pub(super) struct Held {
    pub(super) dir: PathBuf,
    pub(super) shim_pid: i32,
    pub(super) agent_pid: i32,
    _root: tempfile::TempDir,
}

impl Held {
    /// Holds a shell running `script`, with the directory as `$1`.
    pub(super) fn shell(script: &str) -> Held {
        Held::with(&[], script)
    }

    pub(super) fn with(options: &[&str], script: &str) -> Held {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("s");
        let command = [OsStr::new("sh"), "-c".as_ref(), script.as_ref(), "sh".as_ref(), dir.as_os_str()];
        Held::start(root, dir.clone(), options, &command)
    }

    /// Holds a program.
    pub(super) fn command(command: &[&OsStr]) -> Held {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("s");
        Held::start(root, dir, &[], command)
    }

    fn start(root: tempfile::TempDir, dir: PathBuf, options: &[&str], command: &[&OsStr]) -> Held {
        std::fs::DirBuilder::new().mode(0o700).create(&dir).unwrap();
        let answer = run_shim(&dir, options, command);
        let words: Vec<&str> = answer.trim_end().split(' ').collect();
        assert_eq!(words[0], "ready", "{answer}");
        let (shim_pid, agent_pid) = (words[1].parse().unwrap(), words[2].parse().unwrap());
        Held { dir, shim_pid, agent_pid, _root: root }
    }

    pub(super) fn connect(&self, epoch: u64) -> Wire {
        let mut wire = self.connect_silently();
        wire.send(&ToShim::Hello { protocol: PROTOCOL, epoch });
        wire
    }

    pub(super) fn connect_silently(&self) -> Wire {
        let stream = UnixStream::connect(self.dir.join("sock")).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        Wire { stream, frames: Assembler::default() }
    }

    /// Reads the spool until `done`.
    pub(super) fn spool_until(&self, done: impl Fn(&Spooled) -> bool) -> Spooled {
        let mut reader = Reader::new(&self.dir, Position::START);
        let mut spooled = Spooled::default();
        until(|| {
            while let Step::Records(batch) = reader.step().unwrap() {
                batch.records().for_each(|record| spooled.add(record.stream, record.payload));
                spooled.head = Some(batch.after);
            }
            done(&spooled)
        });
        spooled
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(shim) = crate::proc_table::find(self.shim_pid).filter(|shim| shim.name == "obey-shim") {
            crate::proc_table::signal(&shim, libc::SIGKILL);
        }
    }
}

/// Runs the first process of a shim and returns its line.
pub(super) fn run_shim(dir: &Path, options: &[&str], command: &[&OsStr]) -> String {
    let output = Command::new(std::env::current_exe().unwrap())
        .arg("shim")
        .arg("--dir")
        .arg(dir)
        .args(["--cwd", "/"])
        .args(options)
        .arg("--")
        .args(command)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let line = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(if line.starts_with("ready ") { 0 } else { 1 }));
    assert!(line.ends_with('\n') && line.lines().count() == 1, "{line:?}");
    line
}

/// Polls for a condition that has no event.
pub(super) fn until(mut happened: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !happened() {
        assert!(Instant::now() < deadline, "nothing happened in time");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// One connection to a shim.
pub(super) struct Wire {
    pub(super) stream: UnixStream,
    frames: Assembler,
}

impl Wire {
    pub(super) fn send(&mut self, frame: &ToShim<'_>) {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        self.stream.write_all(&bytes).unwrap();
    }

    /// Returns the next frame; `None` when the shim has closed.
    pub(super) fn next(&mut self) -> Option<ToDaemon> {
        let mut buffer = [0; 4096];
        loop {
            if let Some((kind, payload)) = self.frames.next_frame().unwrap() {
                return Some(ToDaemon::decode(kind, payload).unwrap().unwrap());
            }
            match self.stream.read(&mut buffer) {
                Ok(0) => return None,
                Ok(n) => self.frames.push(&buffer[..n]),
                // Closed with unread frames of ours.
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("{error}"),
            }
        }
    }

    pub(super) fn welcome(&mut self) -> Welcome {
        loop {
            match self.next() {
                Some(ToDaemon::Welcome(welcome)) => return welcome,
                Some(ToDaemon::Wake(_)) => {}
                other => panic!("not welcome: {other:?}"),
            }
        }
    }

    /// Returns the next frame that is not a wake-up.
    pub(super) fn next_answer(&mut self) -> Option<ToDaemon> {
        loop {
            match self.next() {
                Some(ToDaemon::Wake(_)) => {}
                other => return other,
            }
        }
    }
}

/// The content of a spool.
#[derive(Debug, Default)]
pub(super) struct Spooled {
    pub(super) out: Vec<u8>,
    pub(super) err: Vec<u8>,
    pub(super) inputs: Vec<Input>,
    pub(super) exit: Option<Exit>,
    /// The position after the last record read.
    pub(super) head: Option<Position>,
}

impl Spooled {
    fn add(&mut self, stream: Stream, payload: &[u8]) {
        match stream {
            Stream::Out => self.out.extend_from_slice(payload),
            Stream::Err => self.err.extend_from_slice(payload),
            Stream::Input => self.inputs.push(Input::decode(payload).unwrap()),
            Stream::Exit => self.exit = Exit::decode(payload),
            Stream::Meta | Stream::Other(_) => {}
        }
    }
}
