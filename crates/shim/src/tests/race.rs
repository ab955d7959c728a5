//! An agent that races the shim of another session: it connects at the end of a chain of processes and ends
//! the chain while the shim follows it upwards, trying to pass as a process without a parent. Runs as `<test
//! binary> race DIR TRIES`.
#![allow(unsafe_code)]

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use super::raw::{DEADLINE, Held};
use crate::frame::{Assembler, ToDaemon, ToShim};
use crate::limits::PROTOCOL;
use crate::proc_table;
use crate::sys::{self, Fork};

const CHAIN: usize = 30;

/// A thousand tries, in rounds that each end well within a test's timeout.
const ROUNDS: usize = 10;
const TRIES: &str = "100";

#[test]
fn an_agent_never_wins_the_race_for_another_sessions_shim() {
    let victim = Held::shell("exec cat");
    let mut daemon = victim.connect(1);
    daemon.welcome();
    for _ in 0..ROUNDS {
        let attacker = Held::command(&[
            std::env::current_exe().unwrap().as_os_str(),
            OsStr::new("race"),
            victim.dir.as_os_str(),
            TRIES.as_ref(),
        ]);
        let spooled = attacker.spool_until(|spooled| spooled.exit.is_some());
        assert_eq!(String::from_utf8_lossy(&spooled.out), format!("won 0 of {TRIES}\n"));
    }
    daemon.send(&ToShim::Ping(7));
    assert_eq!(daemon.next_answer(), Some(ToDaemon::Pong(7)), "the daemon is still obeyed");
    assert!(proc_table::find(victim.agent_pid).is_some_and(|agent| !agent.is_zombie));
}

/// Runs the attacker.
pub(super) fn run(dir: &Path, tries: usize) -> io::Result<()> {
    let mut won = 0;
    for attempt in 0..tries {
        let (mut result, tell) = io::pipe()?;
        let Fork::Parent(first) = sys::fork()? else {
            drop(result);
            descend(dir, attempt, tell);
        };
        drop(tell);
        let mut answer = Vec::new();
        result.read_to_end(&mut answer)?;
        sys::kill(first, libc::SIGKILL);
        while sys::reap().is_some() {}
        won += usize::from(answer.contains(&b'W'));
    }
    println!("won {won} of {tries}");
    Ok(())
}

/// Creates the chain; its last process connects and ends the others.
fn descend(dir: &Path, attempt: usize, mut tell: io::PipeWriter) -> ! {
    let mut chain = Vec::with_capacity(CHAIN);
    while chain.len() < CHAIN {
        chain.push(std::process::id() as i32);
        match sys::fork() {
            Ok(Fork::Child) => {}
            Ok(Fork::Parent(_)) | Err(_) => {
                drop(tell);
                // Until it is killed; its descendants hold no more than it does.
                loop {
                    // SAFETY: plain call without pointers.
                    unsafe { libc::pause() };
                }
            }
        }
    }
    let answer = attack(dir, attempt, &chain).unwrap_or(b'E');
    for pid in chain {
        sys::kill(pid, libc::SIGKILL);
    }
    let _ = tell.write_all(&[answer]);
    sys::exit_now(0)
}

fn attack(dir: &Path, attempt: usize, chain: &[i32]) -> io::Result<u8> {
    let mut stream = UnixStream::connect(dir.join("sock"))?;
    stream.set_read_timeout(Some(DEADLINE))?;
    let mut hello = Vec::new();
    ToShim::Hello { protocol: PROTOCOL, epoch: 0x7000_0000_0000_0000 }.encode(&mut hello);
    // If it is already refused, the race is lost, which the read below shows.
    let _ = stream.write_all(&hello);
    for _ in 0..(attempt % 50) * 400 {
        std::hint::spin_loop();
    }
    // From the top, from the bottom, or one in the middle.
    match attempt % 3 {
        0 => chain.iter().for_each(|&pid| sys::kill(pid, libc::SIGKILL)),
        1 => chain.iter().rev().for_each(|&pid| sys::kill(pid, libc::SIGKILL)),
        _ => sys::kill(chain[CHAIN / 2], libc::SIGKILL),
    }
    let mut frames = Assembler::default();
    let mut buffer = [0; 256];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return Ok(b'R'),
            Ok(n) => frames.push(&buffer[..n]),
        }
        while let Ok(Some((kind, payload))) = frames.next_frame() {
            match ToDaemon::decode(kind, payload) {
                Ok(Some(ToDaemon::Welcome(_))) => return Ok(b'W'),
                Ok(Some(ToDaemon::Refused(_))) => return Ok(b'R'),
                _ => {}
            }
        }
    }
}
