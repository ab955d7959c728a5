//! The process outside the sandbox of an agent. The shim starts it in the agent's place: it passes signals on to the agent, ends
//! as the agent ends, and when it dies everything in the sandbox dies. It does not read or keep the agent's output.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::process::{Signal, WaitOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;

use super::{BRIDGE_NAME, READY, READY_NAME, Reach, UNPROTECTED_NAME, Walls, relay};
use crate::order::Report;
use crate::protect::Placeholders;
use crate::stage::agent::{self as stage, AgentStageInput};
use crate::sys::{self, Fork};

/// Signals that are passed on to the agent.
const PASSED_ON: [i32; 9] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGCONT,
    libc::SIGTSTP,
    libc::SIGWINCH,
];

/// What is printed instead of the agent's output if its sandbox could not be built; nothing of the agent ran.
const EXIT_UNBUILT: i32 = 125;

pub(super) fn run(arguments: &[OsString]) -> i32 {
    let (file, command) = match arguments {
        [file, dashes, command @ ..] if dashes == "--" && !command.is_empty() => {
            (PathBuf::from(file), command)
        }
        _ => return EXIT_UNBUILT,
    };
    let folder = file.parent().map_or_else(PathBuf::new, Path::to_path_buf);
    match build(&file, &folder, command) {
        Ok(built) => {
            let end = attend(built, &folder);
            end_like(end)
        }
        Err(why) => {
            announce(&folder, &why);
            EXIT_UNBUILT
        }
    }
}

/// What exists while the agent runs.
struct Built {
    init: i32,
    signals: OwnedFd,
    control: UnixStream,
    walls: Walls,
    bridge: Option<UnixListener>,
    listeners: Vec<OwnedFd>,
    /// Placeholders at protected names; removed when dropped.
    placeholders: Vec<Placeholders>,
}

fn build(file: &Path, folder: &Path, command: &[OsString]) -> Result<Built, String> {
    let text = std::fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let walls: Walls = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    let failed = |step: &'static str| move |error: io::Error| format!("{step}: {error}");
    let shares_network = walls.reach == Reach::Full;
    if shares_network && sys::landlock_abi() < crate::limits::LANDLOCK_SCOPES {
        return Err("network full: this kernel cannot keep an agent from abstract sockets of other programs (Landlock 6, \
                    Linux 6.12); use the network model or none"
            .to_owned());
    }
    // From here on signals are queued: none is lost and none ends this process.
    let signals = sys::signals(&PASSED_ON).map_err(failed("signals"))?;
    let bridge = match &walls.daemon {
        Some(_) => Some(bind(folder).map_err(failed("socket"))?),
        None => None,
    };
    let placeholders = lay(&walls)?;
    let protected = placeholders.iter().zip(&walls.protected);
    let protected = protected.map(|(laid, place)| (place.folder.clone().into_os_string(), laid.names()));
    let plan = walls.plan(bridge.as_ref().map(|_| folder.join(BRIDGE_NAME)).as_deref(), protected.collect());
    let (control, theirs) = UnixStream::pair().map_err(failed("socket"))?;
    let (mut told, tell) = io::pipe().map_err(failed("pipe"))?;
    let mut namespaces = stage::NAMESPACES;
    if !shares_network {
        namespaces |= libc::CLONE_NEWNET;
    }
    let owner = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let given = AgentStageInput {
        plan,
        command: command.to_vec(),
        working_dir: walls.working_dir.clone(),
        owner,
        listen: walls.addresses().into_iter().map(|(endpoint, address)| (address, endpoint.port)).collect(),
    };
    let init = match sys::fork_into(namespaces).map_err(failed("namespaces"))? {
        Fork::Child => {
            drop((control, told, bridge));
            // The outer process removes them.
            placeholders.into_iter().for_each(Placeholders::let_go);
            sys::exit_now(stage::run(given, theirs, OwnedFd::from(tell).into()))
        }
        Fork::Parent(init) => init,
    };
    drop((theirs, tell));
    release_streams().map_err(failed("streams"))?;
    let listeners = receive_listeners(&control, given_count(&walls)).map_err(failed("endpoints"));
    let mut why = Vec::new();
    // Read to its end, which comes when the agent's program was executed, or when every process that could do so has died.
    told.read_to_end(&mut why).map_err(failed("start"))?;
    if !why.is_empty() {
        return Err(reason(&why));
    }
    Ok(Built { init, signals, control, walls, bridge, listeners: listeners?, placeholders })
}

/// Makes a placeholder at every protected name that does not exist.
fn lay(walls: &Walls) -> Result<Vec<Placeholders>, String> {
    let laid = walls.protected.iter().map(|place| Placeholders::lay(&place.folder, &place.names()));
    laid.collect::<Result<_, domain::Error>>().map_err(|error| error.message)
}

fn given_count(walls: &Walls) -> usize {
    if walls.reach == Reach::Endpoints { walls.addresses().len() } else { 0 }
}

fn reason(line: &[u8]) -> String {
    match serde_json::from_slice::<Report>(line) {
        Ok(Report::Unbuilt { step, errno }) => format!("{step}: {}", io::Error::from_raw_os_error(errno)),
        Ok(Report::Unstarted { errno }) => {
            format!("the program cannot be run inside: {}", io::Error::from_raw_os_error(errno))
        }
        _ => "it ended without a message".to_owned(),
    }
}

/// Listens for the agent's connections to the daemon. Binds relative to the open folder, because its path may be longer than
/// that of a socket may be.
fn bind(folder: &Path) -> io::Result<UnixListener> {
    let handle = File::open(folder)?;
    let _ = std::fs::remove_file(folder.join(BRIDGE_NAME));
    let listener = UnixListener::bind(format!("/proc/self/fd/{}/{BRIDGE_NAME}", handle.as_raw_fd()))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Replaces this process's copies of the agent's streams by `/dev/null`, so that they end when the agent closes its own.
fn release_streams() -> io::Result<()> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    (0..=2).try_for_each(|at| sys::place(null.as_fd(), at))
}

/// Receives the listeners that the init process made in the sandbox.
fn receive_listeners(control: &UnixStream, count: usize) -> io::Result<Vec<OwnedFd>> {
    let mut listeners = Vec::with_capacity(count);
    while listeners.len() < count {
        listeners.push(sys::receive_descriptor(control.as_fd())?);
    }
    Ok(listeners)
}

/// Reports to the daemon whether the sandbox was built. A daemon that is gone learns it from the agent's end.
fn announce(folder: &Path, word: &str) {
    let said = File::open(folder).and_then(|handle| {
        let socket = UnixStream::connect(format!("/proc/self/fd/{}/{READY_NAME}", handle.as_raw_fd()))?;
        (&socket).write_all(word.as_bytes())
    });
    // The result is ignored: a daemon that does not read it learns the rest from the agent's end.
    drop(said);
}

/// How the agent ended.
#[derive(Clone, Copy)]
struct AgentEnd {
    code: i32,
    signal: i32,
}

const LOST: AgentEnd = AgentEnd { code: 128 + libc::SIGKILL, signal: libc::SIGKILL };

fn attend(built: Built, folder: &Path) -> AgentEnd {
    let Built { init, signals, control, walls, bridge, listeners, placeholders } = built;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let end = match runtime {
        Ok(runtime) => runtime.block_on(async {
            let relays = relay::start(&walls, bridge, listeners);
            match relays {
                Ok(()) => {
                    // The agent has the socket at its own place. Under this name another process of the user could
                    // speak for the agent.
                    let _ = std::fs::remove_file(folder.join(BRIDGE_NAME));
                    announce(folder, READY);
                }
                Err(error) => {
                    announce(folder, &format!("relay: {error}"));
                    return None;
                }
            }
            watch(control, signals, folder).await
        }),
        Err(error) => {
            announce(folder, &format!("relay: {error}"));
            None
        }
    };
    if end.is_none() {
        // The kernel kills what is left in the sandbox when its init process ends.
        if let Some(pid) = rustix::process::Pid::from_raw(init) {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
    }
    if let Some(pid) = rustix::process::Pid::from_raw(init) {
        let _ = rustix::process::waitpid(Some(pid), WaitOptions::empty());
    }
    let _ = std::fs::remove_file(folder.join(BRIDGE_NAME));
    drop(placeholders);
    end.unwrap_or(LOST)
}

/// Passes signals on until the init process reports how the agent ended, or has died.
async fn watch(control: UnixStream, signals: OwnedFd, folder: &Path) -> Option<AgentEnd> {
    control.set_nonblocking(true).ok()?;
    let (mut read, mut write) = tokio::net::UnixStream::from_std(control).ok()?.into_split();
    // A signalfd: reads return whole records.
    let mut signals = pipe::Receiver::from_owned_fd_unchecked(signals).ok()?;
    let mut line = Vec::new();
    loop {
        tokio::select! {
            biased;
            said = read.read_buf(&mut line) => match said {
                Ok(0) | Err(_) => break,
                Ok(_) => {}
            },
            number = next_signal(&mut signals) => {
                // An init process that has died is noticed by the read above.
                let _ = write.write_all(&[number]).await;
            }
        }
    }
    match serde_json::from_slice(&line) {
        Ok(Report::Exited { code, signal }) => Some(AgentEnd { code, signal }),
        Ok(Report::Unprotected { path, why }) => {
            note_unprotected(folder, &path, &why);
            None
        }
        _ => None,
    }
}

/// Leaves word for the daemon why the agent was ended.
fn note_unprotected(folder: &Path, path: &Path, why: &str) {
    let text = format!(
        "{} {why}; the agent was ended, since it could have written there. Look at the file before you go on",
        path.display()
    );
    // Nobody is left to be told of an error; the daemon sees that the agent was killed.
    let _ = std::fs::write(folder.join(UNPROTECTED_NAME), text);
}

async fn next_signal(signals: &mut pipe::Receiver) -> u8 {
    let mut record = [0; size_of::<libc::signalfd_siginfo>()];
    loop {
        match signals.read(&mut record).await {
            // A record begins with the signal's number, a word of 32 bits; none is larger than 64.
            Ok(len) if len == record.len() => return record[if cfg!(target_endian = "big") { 3 } else { 0 }],
            _ => tokio::time::sleep(crate::limits::CLEAR_STEP).await,
        }
    }
}

/// Ends this process the way the agent ended, so that whoever holds it sees the same.
fn end_like(end: AgentEnd) -> i32 {
    if end.signal != 0 {
        sys::reset_signals();
        sys::raise(end.signal);
    }
    end.code
}
