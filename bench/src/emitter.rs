//! The agent of the benchmarks: speaks the scripted agent's protocol and emits as many chunks as its prompt
//! requests, each with its number and the time it was written. Blocking, one thread, one write per chunk.

use std::io::{BufRead, Lines, StdinLock};
use std::time::Duration;

use anyhow::Result;
use serde_json::Value;

use crate::clock::monotonic_ns;

/// The parameters in a prompt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Script {
    pub(crate) chunks: u64,
    /// The pause between two chunks; zero: as fast as the pipe accepts them.
    pub(crate) gap: Duration,
    /// A single line of this length instead of chunks.
    pub(crate) line_bytes: u64,
    /// Permissions to request one after the other instead; each chunk then contains the time its answer took.
    pub(crate) asks: u64,
}

impl Script {
    pub(crate) fn paced(chunks: u64, gap: Duration) -> Self {
        Self { chunks, gap, line_bytes: 0, asks: 0 }
    }

    pub(crate) fn burst(chunks: u64) -> Self {
        Self::paced(chunks, Duration::ZERO)
    }

    pub(crate) fn line(line_bytes: u64) -> Self {
        Self { chunks: 0, gap: Duration::ZERO, line_bytes, asks: 0 }
    }

    pub(crate) fn asking(asks: u64) -> Self {
        Self { chunks: 0, gap: Duration::ZERO, line_bytes: 0, asks }
    }

    /// Returns the prompt text of the script.
    pub(crate) fn prompt(&self) -> String {
        format!("{} {} {} {}", self.chunks, self.gap.as_micros(), self.line_bytes, self.asks)
    }

    pub(crate) fn read(prompt: &str) -> Option<Self> {
        // A step of a plan is told the results of others first.
        let script = prompt.rsplit('\n').next()?;
        let mut words = script.split(' ').map(|word| word.parse::<u64>().ok());
        let (chunks, gap_us, line_bytes) = (words.next()??, words.next()??, words.next()??);
        let asks = words.next()??;
        Some(Self { chunks, gap: Duration::from_micros(gap_us), line_bytes, asks })
    }
}

/// The text of a chunk after its number and time; forty bytes of text are a usual delta.
pub(crate) const FILLER: &str = "and so it goes";

/// Runs the agent until its input ends.
pub(crate) fn run() -> Result<()> {
    let mut lines = std::io::stdin().lock().lines();
    while let Some(line) = lines.next() {
        let told: Value = serde_json::from_str(&line?)?;
        match told["do"].as_str() {
            Some("start") => {
                let ready = serde_json::json!({"say": "ready", "session": told["session"],
                    "model": "scripted-1", "version": "bench"});
                write_all(format!("{ready}\n").as_bytes());
            }
            Some("prompt") => turn(told["text"].as_str().unwrap_or_default(), &mut lines),
            Some("leave") => break,
            _ => {}
        }
    }
    Ok(())
}

fn turn(prompt: &str, lines: &mut Lines<StdinLock<'_>>) {
    write_all(b"{\"say\":\"turn_started\"}\n");
    let error = match Script::read(prompt) {
        Some(script) => {
            play(&script);
            ask(script.asks, lines);
            ""
        }
        None => "this is no script",
    };
    let reason = if error.is_empty() { "completed" } else { "failed" };
    let end = serde_json::json!({"say": "turn_ended", "reason": reason, "text": "", "error": error});
    write_all(format!("{end}\n").as_bytes());
}

fn play(script: &Script) {
    let mut due = monotonic_ns();
    let mut line = String::with_capacity(128);
    for number in 0..script.chunks {
        if !script.gap.is_zero() {
            due += u64::try_from(script.gap.as_nanos()).unwrap_or(0);
            std::thread::sleep(Duration::from_nanos(due.saturating_sub(monotonic_ns())));
        }
        line.clear();
        let now = monotonic_ns();
        // Writing to a string cannot fail.
        let _ = std::fmt::Write::write_fmt(
            &mut line,
            format_args!("{{\"say\":\"text\",\"text\":\"{number:08} {now:016} {FILLER}\"}}\n"),
        );
        write_all(line.as_bytes());
    }
    if script.line_bytes > 0 {
        long_line(script.line_bytes);
    }
}

/// Requests permissions, waits for each answer, and emits how long it took, in place of a chunk's time.
fn ask(count: u64, lines: &mut Lines<StdinLock<'_>>) {
    for number in 0..count {
        let asked = serde_json::json!({"say": "asked", "id": format!("n{number}"),
            "ask": {"kind": "permission", "tool": "Bash", "input": {"command": "make"}, "title": "Bash: make"}});
        let line = format!("{asked}\n");
        let began = monotonic_ns();
        write_all(line.as_bytes());
        // While asking, the agent receives nothing else; without an answer there is nothing left to do.
        if lines.next().is_none() {
            std::process::exit(0);
        }
        let took = monotonic_ns() - began;
        let said = serde_json::json!({"say": "text", "text": format!("{number:08} {took:016} {FILLER}")});
        write_all(format!("{said}\n").as_bytes());
    }
}

fn long_line(mut bytes: u64) {
    let piece = [b'x'; 64 << 10];
    while bytes > 0 {
        let next = piece.len().min(usize::try_from(bytes).unwrap_or(usize::MAX));
        write_all(&piece[..next]);
        bytes -= next as u64;
    }
    write_all(b"\n");
}

/// Writes unbuffered. Without a reader there is nothing left to do.
pub(crate) fn write_all(mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match rustix::io::write(rustix::stdio::stdout(), bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => std::process::exit(0),
        }
    }
}
