//! Between an editor's pipes and the daemon: lines both ways, and the end of either. A daemon that ends is waited for or
//! started again, and what the two of them were at goes on: this side keeps the lines that are not done with and the
//! notes it is given, and hands both to the next one. Knows nothing of what either says.

mod kept;

use std::collections::HashMap;
use std::ffi::OsString;
use std::hash::{BuildHasher as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

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
use crate::autostart::Launch;
use crate::client::{self, Client};
use crate::console::Console;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::limits;
use crate::running::Running;
use kept::Kept;

/// What the editor sends, piece by piece; whoever has a connection to a daemon takes them.
type Pieces = Arc<Mutex<mpsc::Receiver<Vec<u8>>>>;

/// Carries until the editor has left and the daemon has ended what was its alone.
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
            // The input is closed for the daemon, whatever the editor still sends.
            () = end => {}
        }
    });
    let mut relay = Relay {
        open: pb::AcpOpen { connection: name(), ..open },
        pieces: Arc::new(Mutex::new(receiver)),
        kept: Arc::default(),
        notes: HashMap::new(),
        output: pipes.output,
        reading,
        socket: console.socket()?,
        flags: Vec::new(),
    };
    let client = console.connect().await?;
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

/// A name that no other connection has.
fn name() -> String {
    // Every state begins with other keys.
    let random = std::collections::hash_map::RandomState::new().build_hasher().finish();
    format!("{random:016x}")
}

/// One editor, over the life of several daemons.
struct Relay {
    open: pb::AcpOpen,
    pieces: Pieces,
    kept: Arc<Kept>,
    notes: HashMap<String, String>,
    output: Box<dyn AsyncWrite + Send + Unpin>,
    reading: JoinHandle<()>,
    socket: PathBuf,
    /// What the last daemon was started with; the next one is to be like it.
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

/// Why a connection to a daemon is over.
enum Ended {
    /// The editor has left, and everything of its has ended.
    Done,
    Lost(Lost),
}

enum Lost {
    /// It said so: it is being exchanged, or somebody stopped it.
    Left,
    Broken(Status),
}

impl Relay {
    /// Opens a connection, and sends what no daemon before was done with.
    async fn connect(&mut self, client: &Client) -> std::result::Result<Stream, Status> {
        let (sender, receiver) = mpsc::channel(limits::ACP_PIECES_AHEAD);
        let open = pb::AcpOpen { notes: self.notes.clone(), ..self.open.clone() };
        // The channel is empty and has room.
        let _sent = sender.try_send(pb::AcpInput { input: Some(Input::Open(open)) });
        let connected = client.acp().connect(ReceiverStream::new(receiver)).await?;
        let pumping = tokio::spawn(pump(Arc::clone(&self.pieces), Arc::clone(&self.kept), sender));
        if let Some(flags) = flags_of_daemon(&self.socket).await {
            self.flags = flags;
        }
        Ok(Stream { outputs: connected.into_inner(), pumping })
    }

    /// Passes on what the daemon says until it says no more.
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
            self.hear(message).await;
        }
    }

    /// Writes what is for the editor; only then is true what the daemon noted with it.
    async fn hear(&mut self, message: pb::AcpOutput) {
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

    /// Finds the next daemon; nothing where nobody is left who would need one.
    async fn again(&mut self, console: &mut Console, lost: Lost) -> Result<Option<Stream>> {
        // One that cannot take the connection up says so by leaving, and may be there still.
        tokio::time::sleep(limits::EXCHANGE_PAUSE).await;
        let mut why = match lost {
            Lost::Left => {
                tracing::info!("the daemon has left; waiting for the next one");
                if !self.wait_for_next().await {
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
            // One that cannot be started now may be a moment later: another command may be at it.
            let launch = Launch { flags: self.flags.clone(), ..console.launch(&self.socket) };
            let connected = match console.connect_starting(console.autostart(), launch).await {
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
            tokio::time::sleep(limits::EXCHANGE_PAUSE).await;
        }
    }

    /// Waits for a daemon that somebody else starts. Where the editor wants something, or leaves agents behind, one is
    /// wanted at once. False: the editor has left, and nothing of its runs.
    async fn wait_for_next(&mut self) -> bool {
        let pieces = Arc::clone(&self.pieces);
        let mut pieces = pieces.lock().await;
        // One that is exchanged for the next is back before anybody notices.
        let deadline = Instant::now() + limits::EXCHANGE_WAIT;
        loop {
            if client::probe(&self.socket).await.unwrap_or(false) {
                return true;
            }
            let is_over = Instant::now() >= deadline;
            if is_over && !self.kept.is_empty() {
                return true;
            }
            let pause = if is_over { limits::ACP_LOOK_PAUSE } else { limits::EXCHANGE_PAUSE };
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

    /// Whether agents may run that are this connection's to end.
    fn has_agents(&self) -> bool {
        !self.open.keep && self.notes.keys().any(|name| name.starts_with("owns/"))
    }
}

/// The flags that make another daemon like the one that listens; nothing where it did not write them down.
async fn flags_of_daemon(socket: &Path) -> Option<Vec<OsString>> {
    let running = Running::read(socket, client::listener(socket).await?)?;
    let mut flags = running.flags_again();
    if !running.flags.iter().any(|flag| flag == "--data-dir") {
        flags.extend(["--data-dir".into(), running.data_dir.into()]);
    }
    Some(flags)
}

/// Sends what is left over from before, then whatever the editor sends; keeps all of it until it is done with.
async fn pump(pieces: Pieces, kept: Arc<Kept>, to: mpsc::Sender<pb::AcpInput>) {
    // Whoever has this is the only one to add lines: nothing comes between those of before and those of now.
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
