//! `obey connect NAME`: listens here and forwards to another machine's daemon, sealed, so that clients which know no relay
//! reach it as if it were here.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use client::machines::{KnownMachine, KnownMachines, MachineRelay};
use config::exit::Exit;
use config::failure::{Failure, Result};
use domain::ErrorCode;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};

use cli_args::machine::ConnectArgs;
use terminal::console::Console;
use terminal::output::TextStyle;

/// Where to listen.
enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// Removes the file with the command.
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Somebody else removed it already.
        let _ = std::fs::remove_file(&self.0);
    }
}

pub(super) async fn run(console: &mut Console, args: &ConnectArgs) -> Result<Exit> {
    let machines = KnownMachines::in_folder(&console.paths);
    let machine = Arc::new(machines.find(&args.name, console.relay()?)?);
    let relay = machine.relay()?;
    let (listener, _file, address) = bind(&args.listen).await?;
    if console.out.json {
        let value = json!({"machine": machine.name, "machine_id": machine.machine_id, "listen": address});
        console.out.json(&value)?;
    } else {
        console.out.line(&format!("{} is at {address}", machine.name))?;
        console.out.note(TextStyle::Dim, "Until Ctrl-C. Whoever can connect there calls as this device.")?;
    }
    tokio::select! {
        () = forward(&listener, &machine, &relay) => {}
        _signal = host::end_signal::end_requested() => {}
    }
    Ok(Exit::OK)
}

/// Returns the listener, its file if it has one, and its address.
async fn bind(listen: &str) -> Result<(Listener, Option<SocketFile>, String)> {
    let failed = |error: io::Error| {
        Failure::coded(ErrorCode::ListenFailed, format!("cannot listen on {listen}: {error}"))
    };
    if let Some(path) = listen.strip_prefix("unix:") {
        let path = config::paths::absolute(std::path::Path::new(path))?;
        let listener = UnixListener::bind(&path).map_err(failed)?;
        let file = SocketFile(path.clone());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
        return Ok((Listener::Unix(listener), Some(file), format!("unix:{}", path.display())));
    }
    let at: SocketAddr = listen
        .parse()
        .map_err(|_| Failure::usage(format!("--listen {listen:?}: must be 127.0.0.1:PORT or unix:PATH")))?;
    if !at.ip().is_loopback() {
        return Err(Failure::usage(
            "--listen: must be a loopback address: whoever connects calls as this device",
        ));
    }
    let listener = TcpListener::bind(at).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((Listener::Tcp(listener), None, bound.to_string()))
}

async fn forward(listener: &Listener, machine: &Arc<KnownMachine>, relay: &MachineRelay) {
    loop {
        let accepted = match listener {
            Listener::Tcp(listener) => listener.accept().await.map(|(stream, _)| {
                // Small answers must not wait for acknowledgements; without it they only come later.
                let _ = stream.set_nodelay(true);
                tokio::spawn(carry(stream, Arc::clone(machine), relay.clone()));
            }),
            Listener::Unix(listener) => listener.accept().await.map(|(stream, _)| {
                tokio::spawn(carry(stream, Arc::clone(machine), relay.clone()));
            }),
        };
        if accepted.is_err() {
            tokio::time::sleep(crate::limits::CONNECT_ACCEPT_PAUSE).await;
        }
    }
}

/// Carries one connection; it ends with either side.
async fn carry(
    mut near: impl AsyncRead + AsyncWrite + Unpin,
    machine: Arc<KnownMachine>,
    relay: MachineRelay,
) {
    // A client sees that it cannot be reached: its connection ends.
    if let Ok(mut far) = machine.connect(&relay, &[]).await {
        let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
    }
}
