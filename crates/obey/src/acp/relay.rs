//! Relays lines between an editor's pipes and the daemon, and the end of either. If the daemon ends, it waits
//! for the next one or starts it, and resumes the connection: this side keeps the unacknowledged lines and
//! the notes, and sends both to the next daemon. Knows nothing of the content of either.

mod kept;

use std::collections::HashMap;
use std::ffi::OsString;
use std::hash::{BuildHasher as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use domain::caller_environment::CALLER_ENVIRONMENT_KEY;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};
use wire::obey::v1 as pb;
use wire::obey::v1::acp_input::Input;
use wire::obey::v1::acp_output::Output;

use super::Pipes;
use crate::limits;
use client::autostart::Launch;
use client::connection::{self, Client};
use client::machines::KnownMachine;
use config::exit::Exit;
use config::failure::{Failure, Result};
use config::running::Running;
use kept::Kept;
use terminal::console::Console;

/// The editor's input in chunks; the current connection to a daemon receives them.
type Pieces = Arc<Mutex<mpsc::Receiver<Vec<u8>>>>;

/// Relays until the editor has left and the daemon has ended what belonged to it.
pub(super) async fn run(
    console: &mut Console,
    open: pb::AcpOpen,
    pipes: Pipes,
    end: impl Future<Output = ()> + Send + 'static,
) -> Result<Exit> {
    let (sender, receiver) = mpsc::channel(limits::ACP_PIECES_AHEAD);
    let reading = tokio::spawn(async move {
        tokio::select! {
            () = read(pipes.input, sender) => {}
            // Closes the input for the daemon, whatever the editor still sends.
            () = end => {}
        }
    });
    let machine = console.machine()?;
    let mut open = open;
    if machine.is_some() {
        // Another machine's sessions have the environment of the daemon there.
        open.provider_config.remove(CALLER_ENVIRONMENT_KEY);
        open.environment.clear();
    }
    let mut relay = Relay {
        open: pb::AcpOpen { connection: name(), ..open },
        pieces: Arc::new(Mutex::new(receiver)),
        kept: Arc::default(),
        notes: HashMap::new(),
        output: pipes.output,
        reading,
        socket: console.socket()?,
        machine,
        flags: Vec::new(),
    };
    let client = match &relay.machine {
        Some(machine) => Client::through(machine)?,
        None => console.connect().await?,
    };
    let mut stream = relay.connect(&client).await?;
    loop {
        let lost = match relay.carry(stream).await {
            Ended::Done => break,
            Ended::Lost(lost) => lost,
        };
        stream = match relay.again(console, lost).await? {
            Some(stream) => stream,
            None => break,
        };
    }
    relay.reading.abort();
    Ok(Exit::OK)
}

/// Returns a unique connection name.
fn name() -> String {
    // Every `RandomState` has different keys.
    let random = std::collections::hash_map::RandomState::new().build_hasher().finish();
    format!("{random:016x}")
}

/// One editor, across several daemons.
struct Relay {
    open: pb::AcpOpen,
    pieces: Pieces,
    kept: Arc<Kept>,
    notes: HashMap<String, String>,
    output: Box<dyn AsyncWrite + Send + Unpin>,
    reading: JoinHandle<()>,
    socket: PathBuf,
    /// The machine whose daemon it is, where it is not this one.
    machine: Option<Arc<KnownMachine>>,
    /// The flags of the last daemon; the next one is started with them too.
    flags: Vec<OsString>,
}

/// A connection to one daemon.
struct Stream {
    outputs: Streaming<pb::AcpOutput>,
    pumping: JoinHandle<()>,
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.pumping.abort();
    }
}

/// Why a connection to a daemon ended.
enum Ended {
    /// The editor has left, and everything that belonged to it has ended.
    Done,
    Lost(Lost),
}

/// How the connection to the daemon ended.
enum Lost {
    /// It announced its exit: it is being replaced, or was stopped.
    Left,
    Broken(Status),
}

impl Relay {
    /// Opens a connection, and resends the lines no previous daemon has acknowledged.
    async fn connect(&mut self, client: &Client) -> std::result::Result<Stream, Status> {
        let (sender, receiver) = mpsc::channel(limits::ACP_PIECES_AHEAD);
        let open = pb::AcpOpen { notes: self.notes.clone(), ..self.open.clone() };
        // The channel is empty, so this cannot fail.
        let _sent = sender.try_send(pb::AcpInput { input: Some(Input::Open(open)) });
        let connected = client.acp().connect(ReceiverStream::new(receiver)).await?;
        let pumping = tokio::spawn(pump(Arc::clone(&self.pieces), Arc::clone(&self.kept), sender));
        // A daemon of another machine is started there.
        if self.machine.is_none()
            && let Some(flags) = flags_of_daemon(&self.socket).await
        {
            self.flags = flags;
        }
        Ok(Stream { outputs: connected.into_inner(), pumping })
    }

    /// Forwards the daemon's output until it ends.
    async fn carry(&mut self, mut stream: Stream) -> Ended {
        let mut is_leaving = false;
        loop {
            let message = match stream.outputs.message().await {
                Ok(Some(message)) => message,
                Ok(None) if is_leaving => return Ended::Lost(Lost::Left),
                Ok(None) => return Ended::Done,
                Err(_) if is_leaving => return Ended::Lost(Lost::Left),
                Err(status) => return Ended::Lost(Lost::Broken(status)),
            };
            is_leaving |= message.leaving;
            self.handle_output(message).await;
        }
    }

    /// Writes the editor's output; only then are the daemon's notes valid.
    async fn handle_output(&mut self, message: pb::AcpOutput) {
        match message.output {
            Some(Output::Lines(lines)) => {
                let written =
                    self.output.write_all(&lines).await.is_ok() && self.output.flush().await.is_ok();
                if !written {
                    // An editor that no longer reads has left.
                    self.reading.abort();
                }
            }
            Some(Output::Log(log)) => surface_acp::log(&log.level, &log.message),
            None => {}
        }
        for (name, text) in message.notes {
            if text.is_empty() {
                self.notes.remove(&name);
            } else {
                self.notes.insert(name, text);
            }
        }
        self.kept.done(&message.done);
    }

    /// Connects to the next daemon; `None` if none is needed any more.
    async fn again(&mut self, console: &mut Console, lost: Lost) -> Result<Option<Stream>> {
        // A daemon that could not resume the connection may still be there.
        tokio::time::sleep(client::limits::EXCHANGE_PAUSE).await;
        let mut why = match lost {
            Lost::Left => {
                tracing::info!("the daemon has left; waiting for the next one");
                // Another machine's daemon cannot be seen from here; it is dialled until it is back.
                if self.machine.is_none() && !self.wait_for_next().await {
                    return Ok(None);
                }
                None
            }
            Lost::Broken(status) => {
                tracing::warn!("the daemon is lost; looking for the next one: {}", status.message());
                Some(Failure::from(status))
            }
        };
        let until = Instant::now() + limits::ACP_AGAIN_WAIT;
        loop {
            // A start that fails now may succeed a moment later: another command may be starting one.
            let found = match &self.machine {
                Some(machine) => Client::through(machine),
                None => {
                    let launch = Launch { flags: self.flags.clone(), ..console.launch(&self.socket) };
                    console.connect_starting(console.autostart(), launch).await
                }
            };
            let connected = match found {
                Ok(client) => self.connect(&client).await.map_err(Failure::from),
                Err(failure) => Err(failure),
            };
            match connected {
                Ok(stream) => return Ok(Some(stream)),
                Err(failure) if Instant::now() >= until => return Err(why.unwrap_or(failure)),
                Err(failure) => {
                    tracing::info!("there is no daemon yet: {}", failure.message);
                    why = Some(failure);
                }
            }
            tokio::time::sleep(client::limits::EXCHANGE_PAUSE).await;
        }
    }

    /// Waits for a daemon that another process starts. If the editor sends something, or leaves agents
    /// behind, one is needed at once. Returns false if the editor has left and no agent of its runs.
    async fn wait_for_next(&mut self) -> bool {
        let pieces = Arc::clone(&self.pieces);
        let mut pieces = pieces.lock().await;
        // A daemon that is being replaced is back before anyone notices.
        let deadline = Instant::now() + client::limits::EXCHANGE_WAIT;
        loop {
            if connection::probe(&self.socket).await.unwrap_or(false) {
                return true;
            }
            let is_over = Instant::now() >= deadline;
            if is_over && !self.kept.is_empty() {
                return true;
            }
            let pause = if is_over { limits::ACP_LOOK_PAUSE } else { client::limits::EXCHANGE_PAUSE };
            tokio::select! {
                piece = pieces.recv(), if !pieces.is_closed() || !pieces.is_empty() => match piece {
                    Some(piece) => self.kept.add(&piece),
                    None if self.has_agents() => {}
                    None => return false,
                },
                () = tokio::time::sleep(pause) => {}
            }
            if pieces.is_closed() && pieces.is_empty() {
                if !self.has_agents() {
                    return false;
                }
                if is_over {
                    return true;
                }
            }
        }
    }

    /// Whether agents may be running that this connection must stop.
    fn has_agents(&self) -> bool {
        !self.open.keep && self.notes.keys().any(|name| name.starts_with("owns/"))
    }
}

/// The flags to start another daemon like the listening one; `None` if it did not record them.
async fn flags_of_daemon(socket: &Path) -> Option<Vec<OsString>> {
    let running = Running::read(socket, connection::listener(socket).await?)?;
    let mut flags = running.flags_again();
    if !running.flags.iter().any(|flag| flag == "--data-dir") {
        flags.extend(["--data-dir".into(), running.data_dir.into()]);
    }
    Some(flags)
}

/// Sends the lines left from before, then the editor's input; keeps everything until it is acknowledged.
async fn pump(pieces: Pieces, kept: Arc<Kept>, to: mpsc::Sender<pb::AcpInput>) {
    // The holder of this lock is the only one that adds lines, so old and new lines stay in order.
    let mut pieces = pieces.lock().await;
    let input = |lines: Vec<u8>| pb::AcpInput { input: Some(Input::Lines(lines)) };
    for piece in kept.again() {
        if to.send(input(piece)).await.is_err() {
            return;
        }
    }
    loop {
        kept.room().await;
        let Some(piece) = pieces.recv().await else { return };
        kept.add(&piece);
        if to.send(input(piece)).await.is_err() {
            return;
        }
    }
}

async fn read(mut from: Box<dyn AsyncRead + Send + Unpin>, to: mpsc::Sender<Vec<u8>>) {
    let mut buffer = vec![0; limits::ACP_READ_BYTES];
    while let Ok(count) = from.read(&mut buffer).await {
        if count == 0 || to.send(buffer[..count].to_vec()).await.is_err() {
            return;
        }
    }
}
