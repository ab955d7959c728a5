//! A connection that breaks while the shim lives: the link reconnects and sends what was not accepted. The
//! shim here is a fake, because the real one never closes without a reason.

use std::fs::{self, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use shim::frame::{Assembler, Refusal, ToDaemon, ToShim, Welcome};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

use super::support::within;
use crate::{AgentLink, AgentOutput, OutputEnd, Position, Target};

struct StandIn {
    root: tempfile::TempDir,
    listener: UnixListener,
    lock: File,
}

/// What the fake shim received.
#[derive(Debug, PartialEq, Eq)]
enum Heard {
    Hello(u64),
    Input(u64, Vec<u8>),
    CloseStdin(u64),
    Signal(i32),
    Other,
}

struct Peer {
    stream: UnixStream,
    frames: Assembler,
}

impl StandIn {
    fn new() -> StandIn {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("s");
        fs::DirBuilder::new().mode(0o700).create(&dir).unwrap();
        let lock = File::create(dir.join("lock")).unwrap();
        lock.try_lock().unwrap();
        let listener = UnixListener::bind(dir.join("sock")).unwrap();
        StandIn { root, listener, lock }
    }

    fn dir(&self) -> PathBuf {
        self.root.path().join("s")
    }

    async fn accept(&self, epoch: u64, last_write_id: u64) -> Peer {
        let (stream, _) = within(self.listener.accept()).await.unwrap();
        let mut peer = Peer { stream, frames: Assembler::default() };
        assert_eq!(peer.hear().await, Heard::Hello(epoch));
        let head = Position::START;
        let welcome = Welcome { protocol: 1, shim_pid: 1, agent_pid: 1, last_write_id, head, exited: false };
        peer.say(&ToDaemon::Welcome(welcome)).await;
        peer
    }
}

impl Peer {
    async fn say(&mut self, frame: &ToDaemon) {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        self.stream.write_all(&bytes).await.unwrap();
    }

    async fn hear(&mut self) -> Heard {
        within(async {
            loop {
                if let Some((kind, payload)) = self.frames.next_frame().unwrap() {
                    return match ToShim::decode(kind, payload).unwrap().unwrap() {
                        ToShim::Hello { epoch, .. } => Heard::Hello(epoch),
                        ToShim::Input { write_id, bytes } => Heard::Input(write_id, bytes.to_vec()),
                        ToShim::CloseStdin { write_id } => Heard::CloseStdin(write_id),
                        ToShim::Signal { signo, .. } => Heard::Signal(signo),
                        _ => Heard::Other,
                    };
                }
                let mut buffer = [0; 4096];
                let got = self.stream.read(&mut buffer).await.unwrap();
                assert_ne!(got, 0, "closed");
                self.frames.push(&buffer[..got]);
            }
        })
        .await
    }
}

#[tokio::test]
async fn what_was_not_accepted_is_sent_again_and_what_was_is_not() {
    let stand_in = StandIn::new();
    let dir = stand_in.dir();
    let (link, mut peer) = tokio::join!(AgentLink::attach(&dir, Position::START, 3), stand_in.accept(3, 10));
    let mut link = link.unwrap();
    assert_eq!(link.last_write_id(), 10);
    link.write(10, b"old").unwrap();
    for id in 11..=13 {
        link.write(id, format!("input {id}").as_bytes()).unwrap();
    }
    link.close_stdin(14).unwrap();
    let input = |id: u64| Heard::Input(id, format!("input {id}").into_bytes());
    assert_eq!(peer.hear().await, input(11));
    drop(peer);
    link.signal(Target::Agent, 15).unwrap();
    let mut peer = stand_in.accept(3, 12).await;
    // The signal may have gone into the old connection: at most once.
    let mut heard = peer.hear().await;
    if heard == Heard::Signal(15) {
        heard = peer.hear().await;
    }
    assert_eq!(heard, input(13));
    assert_eq!(peer.hear().await, Heard::CloseStdin(14));

    peer.say(&ToDaemon::Refused(Refusal::Replaced)).await;
    assert!(matches!(within(link.next()).await, AgentOutput::Refused(Refusal::Replaced)));
    assert!(link.write(15, b"x").is_err());
}

#[tokio::test]
async fn a_shim_is_lost_only_when_its_lock_is_free() {
    let stand_in = StandIn::new();
    let dir = stand_in.dir();
    let (link, peer) = tokio::join!(AgentLink::attach(&dir, Position::START, 1), stand_in.accept(1, 0));
    let mut link = link.unwrap();
    drop(peer);
    let peer = stand_in.accept(1, 0).await;
    stand_in.lock.unlock().unwrap();
    drop(stand_in.listener);
    drop(peer);
    assert!(matches!(within(link.next()).await, AgentOutput::Ended(OutputEnd::ShimLost)));
}

#[tokio::test]
async fn closing_sends_what_is_urgent() {
    let stand_in = StandIn::new();
    let dir = stand_in.dir();
    let (link, mut peer) = tokio::join!(AgentLink::attach(&dir, Position::START, 1), stand_in.accept(1, 0));
    let link = link.unwrap();
    let controls = link.controls();
    controls.signal(Target::Tree, 9).unwrap();
    within(link.close()).await;
    assert_eq!(peer.hear().await, Heard::Signal(9));
    assert!(controls.signal(Target::Tree, 9).is_err());
}
