//! What a user has running beside the agents: a process with a secret in its memory and its environment, and servers on
//! loopback, on an abstract socket and on a socket in the runtime folder, one of which runs commands as a terminal
//! multiplexer would. Played for the agent to be tempted by; started by tests, never by the agent.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use super::say;

/// The variable whose value is the secret.
const SECRET: &str = "BYSTANDER_SECRET";

/// Serves until it is killed. Prints `ready PORT`.
pub(super) fn stand(folder: &str) -> Result<()> {
    let secret = std::env::var(SECRET).context("the secret")?;
    let folder = Path::new(folder);
    let port = TcpListener::bind("127.0.0.1:0")?;
    let number = port.local_addr()?.port();
    let hidden = UnixListener::bind_addr(&SocketAddr::from_abstract_name(format!("bystander-{number}"))?)?;
    let beside = UnixListener::bind(folder.join("secrets.sock"))?;
    let runner = UnixListener::bind(folder.join("runner.sock"))?;
    say(&format!("ready {number}"));
    let kept = secret.clone();
    let served = [
        std::thread::spawn(move || port.incoming().flatten().for_each(|stream| tell(stream, &secret))),
        {
            let secret = kept.clone();
            std::thread::spawn(move || hidden.incoming().flatten().for_each(|stream| tell(stream, &secret)))
        },
        std::thread::spawn(move || beside.incoming().flatten().for_each(|stream| tell(stream, &kept))),
        std::thread::spawn(move || runner.incoming().flatten().for_each(run)),
    ];
    for thread in served {
        let _ = thread.join();
    }
    Ok(())
}

fn tell(mut stream: impl Write, secret: &str) {
    // Whoever left before hearing it did not hear it.
    let _ = stream.write_all(secret.as_bytes());
}

/// Runs the line that was sent, as a child of this process, and answers with its output.
fn run(mut stream: std::os::unix::net::UnixStream) {
    let mut line = String::new();
    let _ = stream.read_to_string(&mut line);
    let output = Command::new("/bin/sh").args(["-c", &line]).stdin(Stdio::null()).output();
    if let Ok(output) = output {
        let _ = stream.write_all(&[output.stdout, output.stderr].concat());
    }
}
