//! Games with ancestry: processes whose parents are gone when they speak, and chains of ancestors that vanish while
//! somebody looks at them.
#![allow(unsafe_code)]

use std::io::Read;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use anyhow::{Result, ensure};

use super::{connection, own_program, raw_http, say};

/// How deep a chain of ancestors is.
const CHAIN: usize = 40;

/// Runs a command in a session of its own whose parent and grandparent are gone, and prints what it printed.
pub(super) fn orphan(command: &[&str]) -> Result<()> {
    let mut leaving = Command::new(own_program()?);
    leaving.arg("leave").args(command).stdin(Stdio::null()).stdout(Stdio::piped());
    // SAFETY: setsid is safe to call between fork and exec.
    unsafe {
        leaving.pre_exec(|| {
            libc::setsid();
            Ok(())
        });
    }
    let mut child = leaving.spawn()?;
    let stdout = child.stdout.take();
    child.wait()?;
    let mut said = String::new();
    // Ends when the orphan does: nobody else holds the other end.
    if let Some(mut stdout) = stdout {
        stdout.read_to_string(&mut said)?;
    }
    say(&said);
    Ok(())
}

/// Starts a command that begins when this process is gone, and goes.
pub(super) fn leave(command: &[&str]) -> Result<()> {
    let line = format!("read gone; {}", command.join(" "));
    let mut child = Command::new("/bin/sh").args(["-c", &line]).stdin(Stdio::piped()).spawn()?;
    // Closed by the end of this process and not before.
    std::mem::forget(child.stdin.take());
    Ok(())
}

/// The same with orphans that become children of this process again.
pub(super) fn subreaper(command: &[&str]) -> Result<()> {
    // SAFETY: sets a flag of this process.
    let set = unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
    ensure!(set == 0, "prctl: {}", std::io::Error::last_os_error());
    orphan(command)
}

/// Posts to `path` at the end of a chain of processes that dies while whoever is asked looks at it, so often. Prints the
/// answers that were none of a refusal.
pub(super) fn vanish(address: &str, tries: usize, path: &str, body: &str) -> Result<()> {
    let mut refused = std::collections::BTreeMap::<String, usize>::new();
    for _ in 0..tries {
        let answer = once(address, path, body)?;
        if answer.contains(" 200 ") {
            say(&answer);
        } else {
            *refused.entry(answer.lines().next().unwrap_or_default().to_owned()).or_default() += 1;
        }
    }
    say(&format!("of {tries} refused: {refused:?}"));
    Ok(())
}

/// One try. Every process of the chain waits for the end of the same pipe; the last one closes it when it has sent.
fn once(address: &str, path: &str, body: &str) -> Result<String> {
    let (life, life_end) = pipe()?;
    let (answer, answer_end) = pipe()?;
    for depth in 0..CHAIN {
        // SAFETY: this program has one thread here, and the child only goes on with this loop.
        match unsafe { libc::fork() } {
            0 if depth + 1 == CHAIN => {
                drop(life);
                let said = speak(address, path, body, life_end).unwrap_or_else(|error| format!("{error:#}"));
                let _ = rustix::io::write(&answer_end, said.as_bytes());
                // SAFETY: ends this process without its destructors, which belong to the first one.
                unsafe { libc::_exit(0) }
            }
            0 => {}
            child if child > 0 => {
                drop((life_end, answer_end));
                let mut byte = [0];
                let _ = rustix::io::read(&life, &mut byte);
                if depth > 0 {
                    // SAFETY: as above; not reaped on purpose, it vanishes.
                    unsafe { libc::_exit(0) }
                }
                let mut said = String::new();
                std::fs::File::from(answer).read_to_string(&mut said)?;
                // SAFETY: reaps the own child only.
                unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
                return Ok(said);
            }
            _ => return Err(std::io::Error::last_os_error().into()),
        }
    }
    Ok(String::new())
}

fn speak(address: &str, path: &str, body: &str, life: OwnedFd) -> Result<String> {
    let mut stream = connection::connect(address)?;
    drop(life);
    let kind = "content-type: application/json\r\n";
    raw_http::send(&mut stream, address, "POST", path, kind, body.as_bytes())?;
    let mut said = Vec::new();
    let _ = stream.take(4096).read_to_end(&mut said);
    Ok(String::from_utf8_lossy(&said).into_owned())
}

fn pipe() -> Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: fills two numbers, which are owned from here on.
    let made = unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) };
    ensure!(made == 0, "pipe: {}", std::io::Error::last_os_error());
    // SAFETY: as above.
    Ok(unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) })
}
