//! Taking too much: processes, memory, disk, connections, endless lines. Every amount is given and bounded, so that the
//! machine of the tests survives where nothing holds it back.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::Write;

use anyhow::{Context, Result, bail};

use super::{connection, say};

const MEGABYTE: usize = 1024 * 1024;

/// Takes so much of one thing, says how much it got, and gives it back.
pub(super) fn load(kind: &str, rest: &[&str]) -> Result<()> {
    let amount: usize = rest.first().context("no amount")?.parse()?;
    let place = rest.get(1).copied().unwrap_or_default();
    match kind {
        "processes" => processes(amount),
        "memory" => memory(amount),
        "disk" => disk(amount, place),
        "connections" => connections(amount, place),
        "requests" => requests(amount, place),
        "line" => line(amount, place),
        _ => bail!("no such load: {kind}"),
    }
}

fn processes(amount: usize) -> Result<()> {
    let mut children = Vec::new();
    for _ in 0..amount {
        // SAFETY: one thread; the child waits to be killed.
        match unsafe { libc::fork() } {
            0 => loop {
                // SAFETY: waits for a signal.
                unsafe { libc::pause() };
            },
            child if child > 0 => children.push(child),
            _ => break,
        }
    }
    for child in &children {
        // SAFETY: own children, not yet reaped.
        unsafe {
            libc::kill(*child, libc::SIGKILL);
            libc::waitpid(*child, std::ptr::null_mut(), 0);
        }
    }
    say(&format!("made {} processes", children.len()));
    Ok(())
}

fn memory(megabytes: usize) -> Result<()> {
    let mut taken: Vec<Vec<u8>> = Vec::new();
    for _ in 0..megabytes {
        let mut piece = Vec::new();
        if piece.try_reserve_exact(MEGABYTE).is_err() {
            break;
        }
        piece.resize(MEGABYTE, 1);
        taken.push(piece);
    }
    say(&format!("took {} MB", taken.len()));
    Ok(())
}

fn disk(megabytes: usize, place: &str) -> Result<()> {
    let mut file = File::create(place)?;
    let piece = vec![1; MEGABYTE];
    let written = (0..megabytes).take_while(|_| file.write_all(&piece).is_ok()).count();
    std::fs::remove_file(place)?;
    say(&format!("wrote {written} MB"));
    Ok(())
}

/// Holds so many connections open, then one request on each of them is made.
fn connections(amount: usize, address: &str) -> Result<()> {
    let held: Vec<_> = (0..amount).map_while(|_| connection::connect(address).ok()).collect();
    say(&format!("held {} connections", held.len()));
    Ok(())
}

/// Connects, sends a request and leaves before it is answered, so often.
fn requests(amount: usize, address: &str) -> Result<()> {
    let mut sent = 0;
    for _ in 0..amount {
        if let Ok(mut stream) = connection::connect(address) {
            let host = connection::host(address);
            let head = format!("GET / HTTP/1.1\r\nhost: {host}\r\n\r\n");
            sent += usize::from(stream.write_all(head.as_bytes()).is_ok());
        }
    }
    say(&format!("sent {sent} requests"));
    Ok(())
}

/// Writes a line that never ends to a file or a descriptor of another process.
fn line(megabytes: usize, place: &str) -> Result<()> {
    let mut file = File::options().write(true).open(place)?;
    let piece = vec![b'x'; MEGABYTE];
    let written = (0..megabytes).take_while(|_| file.write_all(&piece).is_ok()).count();
    say(&format!("wrote {written} MB"));
    Ok(())
}
