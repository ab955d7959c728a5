//! What a probe tries to reach: things outside the project, traps inside it, and the state they must still be in
//! afterwards.

use std::fs;
use std::io;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde::{Deserialize, Serialize};

/// Where everything is; told to the probes.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Ground {
    pub(crate) root: PathBuf,
    pub(crate) outside: PathBuf,
    pub(crate) tcp: u16,
    pub(crate) tcp6: u16,
    pub(crate) udp: u16,
    pub(crate) abstract_name: String,
    pub(crate) victim: i32,
    pub(crate) daemon: i32,
    pub(crate) shm_key: i32,
}

/// The things themselves, held by the one who plays the daemon.
pub(crate) struct Held {
    pub(crate) ground: Ground,
    victim: Child,
    tcp: TcpListener,
    tcp6: Option<TcpListener>,
    udp: UdpSocket,
    streams: Vec<UnixListener>,
    datagrams: UnixDatagram,
    before: Vec<String>,
    _dir: tempfile::TempDir,
}

pub(crate) const CANARY: &str = "the canary lives";

impl Held {
    pub(crate) fn prepare() -> io::Result<Self> {
        let dir = tempfile::tempdir()?;
        let base = dir.path().canonicalize()?;
        let (root, outside) = (base.join("project"), base.join("outside"));
        fs::create_dir(&root)?;
        fs::create_dir(&outside)?;
        fs::write(outside.join("canary"), CANARY)?;
        fs::write(outside.join("other"), "x")?;
        fs::set_permissions(outside.join("canary"), fs::Permissions::from_mode(0o640))?;
        make_project(&root, &outside)?;
        let tcp = TcpListener::bind(("127.0.0.1", 0))?;
        let tcp6 = TcpListener::bind(("::1", 0)).ok();
        let udp = UdpSocket::bind(("127.0.0.1", 0))?;
        let abstract_name = format!("obey-escape-{}", std::process::id());
        let streams = vec![
            UnixListener::bind(outside.join("stream"))?,
            UnixListener::bind(root.join("inside").join("stream"))?,
            UnixListener::bind_addr(&SocketAddr::from_abstract_name(&abstract_name)?)?,
        ];
        let datagrams = UnixDatagram::bind(outside.join("datagram"))?;
        for waiting in [&tcp, tcp6.as_ref().unwrap_or(&tcp)] {
            waiting.set_nonblocking(true)?;
        }
        udp.set_nonblocking(true)?;
        datagrams.set_nonblocking(true)?;
        for stream in &streams {
            stream.set_nonblocking(true)?;
        }
        let victim = Command::new("/bin/sleep").arg("600").stdin(Stdio::null()).spawn()?;
        let shm_key = 0x0b_e4_00_00 | (std::process::id() as i32 & 0xffff);
        crate::processes::make_shared_memory(shm_key)?;
        let ground = Ground {
            root,
            outside,
            tcp: tcp.local_addr()?.port(),
            tcp6: tcp6
                .as_ref()
                .map_or(0, |listener| listener.local_addr().map_or(0, |address| address.port())),
            udp: udp.local_addr()?.port(),
            abstract_name,
            victim: victim.id() as i32,
            daemon: std::process::id() as i32,
            shm_key,
        };
        let before = listing(&ground);
        Ok(Self { ground, victim, tcp, tcp6, udp, streams, datagrams, before, _dir: dir })
    }

    /// Says what of the outside is not as it was.
    pub(crate) fn changes(&mut self) -> Vec<String> {
        let mut changes = Vec::new();
        let mut check = |name: &str, fine: bool| {
            if !fine {
                changes.push(name.to_owned());
            }
        };
        let canary = fs::read_to_string(self.ground.outside.join("canary")).unwrap_or_default();
        check("the canary", canary == CANARY);
        let after = listing(&self.ground);
        check(&format!("the files: {:?} became {after:?}", self.before), self.before == after);
        check("the victim", self.victim.try_wait().is_ok_and(|ended| ended.is_none()));
        check("a TCP connection", self.tcp.accept().is_err());
        check(
            "a TCP connection over IPv6",
            self.tcp6.as_ref().is_none_or(|listener| listener.accept().is_err()),
        );
        check("a UDP packet", self.udp.recv(&mut [0; 8]).is_err());
        check("a Unix connection", self.streams.iter().all(|listener| listener.accept().is_err()));
        check("a Unix datagram", self.datagrams.recv(&mut [0; 8]).is_err());
        let root = &self.ground.root;
        check(
            "git's configuration",
            fs::read_to_string(root.join(".git/config")).is_ok_and(|text| text == "[core]\n"),
        );
        check(
            "the agents' servers",
            fs::read_to_string(root.join(".mcp.json")).is_ok_and(|text| text == "{}"),
        );
        changes
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.victim.kill();
        let _ = self.victim.wait();
        crate::processes::remove_shared_memory(self.ground.shm_key);
    }
}

/// A project with a repository, and with what a hostile one may contain.
fn make_project(root: &Path, outside: &Path) -> io::Result<()> {
    fs::create_dir_all(root.join(".git/hooks"))?;
    fs::write(root.join(".git/config"), "[core]\n")?;
    fs::write(root.join(".mcp.json"), "{}")?;
    fs::create_dir(root.join("inside"))?;
    fs::write(root.join("inside/file"), "x")?;
    symlink(outside, root.join("inside/link-to-folder"))?;
    symlink(outside.join("canary"), root.join("inside/link-to-file"))?;
    symlink("/", root.join("inside/link-to-everything"))
}

/// Names, modes and sizes outside, and the protected names inside.
fn listing(ground: &Ground) -> Vec<String> {
    let mut lines = Vec::new();
    for folder in [ground.outside.clone(), ground.root.join(".git"), ground.root.join(".git/hooks")] {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let size = entry.metadata().map_or(0, |meta| if meta.is_file() { meta.len() } else { 0 });
            lines.push(format!("{} {size}", entry.path().display()));
        }
    }
    for entry in fs::read_dir(&ground.root).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with('.') {
            lines.push(entry.path().display().to_string());
        }
    }
    lines.sort();
    lines
}
