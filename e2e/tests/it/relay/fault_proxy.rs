//! Stands between a daemon, or a client, and a relay, and breaks connections as a network does: closed, reset, or silent on
//! one side or both. Knows bytes and nothing of what they mean.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What is done to connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Break {
    /// Both sides are closed in order.
    Close,
    /// Both sides are reset.
    Reset,
    /// Nothing passes any more, and nobody is told.
    Silence,
    /// The side that dialled is closed, and the relay's side is silent.
    #[cfg(feature = "nats")]
    CloseNear,
}

/// Which bytes of a connection are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sender {
    Dialler,
    Relay,
}

/// Breaks one connection after some bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Planned {
    pub(super) kind: Break,
    pub(super) sender: Sender,
    pub(super) after_bytes: usize,
}

/// A proxy in front of a relay.
pub(super) struct FaultProxy {
    pub(super) address: SocketAddr,
    orders: watch::Sender<(u64, Break)>,
    state: Arc<Mutex<State>>,
}

struct State {
    target: SocketAddr,
    /// What happens to the connection that comes next.
    planned: Option<Planned>,
    /// Whether a connection is reset in the place of an alert of TLS that the relay sends.
    resets_alerts: bool,
    /// Connections that a plan, or an alert, has broken.
    broken: usize,
    /// Bytes of the connection that was made last, by who sent them.
    passed: (usize, usize),
}

impl FaultProxy {
    pub(super) async fn start(target: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let orders = watch::Sender::new((0, Break::Close));
        let state = State { target, planned: None, resets_alerts: false, broken: 0, passed: (0, 0) };
        let state = Arc::new(Mutex::new(state));
        let (told, shared) = (orders.clone(), Arc::clone(&state));
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                tokio::spawn(carry(near, Arc::clone(&shared), told.subscribe()));
            }
        });
        Ok(Self { address, orders, state })
    }

    /// Breaks all connections that there are.
    pub(super) fn break_all(&self, kind: Break) {
        self.orders.send_modify(|(count, order)| (*count, *order) = (*count + 1, kind));
    }

    /// Breaks the connection that comes next.
    pub(super) fn plan(&self, planned: Planned) {
        with(&self.state, |state| state.planned = Some(planned));
    }

    /// Resets connections in the place of alerts of the relay from now on, as happens when a close overtakes what was sent.
    pub(super) fn reset_alerts(&self) {
        with(&self.state, |state| state.resets_alerts = true);
    }

    /// How many connections were broken as planned.
    pub(super) fn broken(&self) -> usize {
        with(&self.state, |state| state.broken)
    }

    /// How many bytes of the last connection have passed, from the side that dialled and from the relay.
    pub(super) fn passed(&self) -> (usize, usize) {
        with(&self.state, |state| state.passed)
    }

    /// Leads connections that come from now on to another relay.
    #[cfg(feature = "nats")]
    pub(super) fn retarget(&self, target: SocketAddr) {
        with(&self.state, |state| state.target = target);
    }
}

fn with<T>(state: &Mutex<State>, look: impl FnOnce(&mut State) -> T) -> T {
    look(&mut state.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Carries one connection until it ends or is broken.
async fn carry(mut near: TcpStream, state: Arc<Mutex<State>>, mut orders: watch::Receiver<(u64, Break)>) {
    let (target, planned, resets_alerts) = with(&state, |state| {
        state.passed = (0, 0);
        (state.target, state.planned.take(), state.resets_alerts)
    });
    let Ok(mut far) = TcpStream::connect(target).await else { return };
    let _ = (near.set_nodelay(true), far.set_nodelay(true));
    let kind = {
        let limit = |sender| planned.filter(|plan| plan.sender == sender).map(|plan| plan.after_bytes);
        let (near_halves, far_halves) = (near.split(), far.split());
        let dialler = copy(near_halves.0, far_halves.1, limit(Sender::Dialler), |bytes| {
            with(&state, |state| state.passed.0 += bytes.len());
            true
        });
        let relay = copy(far_halves.0, near_halves.1, limit(Sender::Relay), |bytes| {
            with(&state, |state| state.passed.1 += bytes.len());
            !(resets_alerts && is_alert(bytes))
        });
        let is_planned = tokio::select! {
            is_planned = dialler => Some(is_planned),
            is_planned = relay => Some(is_planned),
            _ = orders.changed() => None,
        };
        match (is_planned, planned) {
            (Some(true), planned) => {
                with(&state, |state| state.broken += 1);
                planned.map_or(Break::Reset, |planned| planned.kind)
            }
            (Some(_), _) => Break::Close,
            (None, _) => orders.borrow().1,
        }
    };
    match kind {
        Break::Close => {}
        // Closing resets now.
        Break::Reset => drop((near.set_zero_linger(), far.set_zero_linger())),
        Break::Silence => std::future::pending().await,
        #[cfg(feature = "nats")]
        Break::CloseNear => {
            drop(near);
            std::future::pending::<()>().await;
        }
    }
}

/// Whether this is one record of TLS 1.3 with two bytes in it, which only an alert has.
fn is_alert(bytes: &[u8]) -> bool {
    bytes.len() == 24 && bytes.starts_with(&[0x17, 3, 3, 0, 19])
}

/// Copies until the end, or until so many bytes were read, or some that may not pass; the last of them are not written. Returns whether
/// it was the bytes.
async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    limit: Option<usize>,
    may_pass: impl Fn(&[u8]) -> bool,
) -> bool {
    let mut buffer = vec![0; 16 * 1024];
    let mut total = 0;
    if limit == Some(0) {
        return true;
    }
    while let Ok(read) = from.read(&mut buffer).await
        && read > 0
    {
        total += read;
        if !may_pass(&buffer[..read]) || limit.is_some_and(|limit| total >= limit) {
            return true;
        }
        if to.write_all(&buffer[..read]).await.is_err() {
            break;
        }
    }
    false
}

/// Returns a code that leads to another address of the same relay.
pub(super) fn redirected(code: &str, to: SocketAddr) -> Result<String> {
    let (prefix, rest) = code.split_once('.').context("no code")?;
    let mut ticket: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(rest)?)?;
    ticket["url"] = json!(format!("https://{to}"));
    Ok(format!("{prefix}.{}", URL_SAFE_NO_PAD.encode(serde_json::to_vec(&ticket)?)))
}
