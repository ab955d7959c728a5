//! Runs `obey …` as a person would, in a test's world: once with captured output, or as a running command whose lines
//! can be awaited. Knows nothing of what the commands mean.

use std::process::Stdio;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::Signal;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};

use crate::deadline::within;
use crate::processes;
use crate::world::World;

/// Runs commands in one world.
pub struct Cli {
    world: World,
}

/// What a command left behind.
#[derive(Debug, Clone)]
pub struct Output {
    /// The command line, for messages.
    pub command: String,
    /// `None` where a signal ended it.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Cli {
    pub fn new(world: &World) -> Cli {
        Cli { world: world.clone() }
    }

    /// Runs a command to its end, with nothing on its standard input.
    pub async fn run(&self, args: &[&str]) -> Result<Output> {
        self.run_with_input(args, "").await
    }

    /// Runs a command that must succeed.
    pub async fn ok(&self, args: &[&str]) -> Result<Output> {
        let output = self.run(args).await?;
        ensure!(output.code == Some(0), "{output:#?}");
        Ok(output)
    }

    /// Runs a command with `--json` that must succeed, and reads what it printed.
    pub async fn json(&self, args: &[&str]) -> Result<Value> {
        let args: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
        self.ok(&args).await?.json()
    }

    /// Runs a command to its end with this text on its standard input.
    pub async fn run_with_input(&self, args: &[&str], input: &str) -> Result<Output> {
        let mut running = self.spawn(args).await?;
        running.write(input).await?;
        running.finish().await
    }

    /// Starts a command and returns while it runs.
    pub async fn spawn(&self, args: &[&str]) -> Result<Running> {
        let command = format!("obey {}", args.join(" "));
        let mut child = tokio::process::Command::from(self.world.command(self.world.obey()?))
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("starting {command}"))?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().context("no stdout")?;
        let mut stderr = child.stderr.take().context("no stderr")?;
        // Read beside stdout, so that a chatty command never blocks on a full pipe.
        let stderr = tokio::spawn(async move {
            let mut bytes = Vec::new();
            let _ = stderr.read_to_end(&mut bytes).await;
            String::from_utf8_lossy(&bytes).into_owned()
        });
        let lines = BufReader::new(stdout).lines();
        Ok(Running { command, child, stdin, lines, seen: String::new(), stderr })
    }
}

impl Output {
    /// Reads standard output as one JSON value.
    pub fn json(&self) -> Result<Value> {
        serde_json::from_str(&self.stdout).with_context(|| format!("no JSON: {self:#?}"))
    }

    /// Reads standard output as one JSON value per line.
    pub fn json_lines(&self) -> Result<Vec<Value>> {
        let read = |line| serde_json::from_str(line).with_context(|| format!("no JSON line: {line}"));
        self.stdout.lines().filter(|line| !line.trim().is_empty()).map(read).collect()
    }

    /// The id in the line `Session: <id>` that `session create` prints.
    pub fn session_id(&self) -> Result<String> {
        let id = self.stdout.lines().find_map(|line| line.strip_prefix("Session: "));
        Ok(id.with_context(|| format!("no session line: {self:#?}"))?.trim().to_owned())
    }
}

/// A command that still runs. Dropping it kills it.
pub struct Running {
    command: String,
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
    seen: String,
    stderr: tokio::task::JoinHandle<String>,
}

impl Running {
    /// Writes to the command's standard input. A command that no longer reads is no error.
    pub async fn write(&mut self, text: &str) -> Result<()> {
        if let Some(stdin) = &mut self.stdin {
            let _ = stdin.write_all(text.as_bytes()).await;
            let _ = stdin.flush().await;
        }
        Ok(())
    }

    /// Waits for the next line of standard output that fulfils the condition.
    pub async fn wait_for_line(
        &mut self,
        what: &str,
        mut wanted: impl FnMut(&str) -> bool,
    ) -> Result<String> {
        let command = self.command.clone();
        within(what, async {
            while let Some(line) = self.lines.next_line().await? {
                self.seen.push_str(&line);
                self.seen.push('\n');
                if wanted(&line) {
                    return Ok(line);
                }
            }
            bail!("{command} ended without printing {what}; it printed:\n{}", self.seen)
        })
        .await?
    }

    /// The command's process id; `None` after it ended.
    pub fn pid(&self) -> Option<i32> {
        self.child.id().map(|pid| pid as i32)
    }

    /// Sends a signal to the command itself.
    pub fn signal(&self, signal: Signal) {
        if let Some(pid) = self.child.id() {
            processes::signal(pid as i32, signal);
        }
    }

    /// Closes standard input and waits for the end.
    pub async fn finish(mut self) -> Result<Output> {
        self.stdin = None;
        let what = format!("the end of {}", self.command);
        within(&what, async {
            while let Some(line) = self.lines.next_line().await? {
                self.seen.push_str(&line);
                self.seen.push('\n');
            }
            let status = self.child.wait().await?;
            let stderr = self.stderr.await.unwrap_or_default();
            Ok(Output { command: self.command, code: status.code(), stdout: self.seen, stderr })
        })
        .await?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn world() -> Result<World> {
        let script = "#!/bin/sh\necho \"args: $*\"\ncat\necho oops >&2\nexit 3\n";
        crate::world::with_fake_obey(script)
    }

    #[tokio::test]
    async fn output_and_code_are_captured() -> Result<()> {
        let cli = Cli::new(&world()?);
        let output = cli.run_with_input(&["session", "list"], "{\"a\":1}\n").await?;
        assert_eq!(output.stdout, "args: session list\n{\"a\":1}\n");
        assert_eq!((output.code, output.stderr.as_str()), (Some(3), "oops\n"));
        let error = cli.ok(&["x"]).await.unwrap_err().to_string();
        assert!(error.contains("obey x") && error.contains("oops"), "{error}");
        Ok(())
    }

    #[tokio::test]
    async fn lines_of_a_running_command_can_be_awaited() -> Result<()> {
        let world = world()?;
        let mut running = Cli::new(&world).spawn(&["watch"]).await?;
        running.write("one\ntwo\n").await?;
        assert_eq!(running.wait_for_line("two", |line| line == "two").await?, "two");
        let output = running.finish().await?;
        assert_eq!((output.code, output.stdout.as_str()), (Some(3), "args: watch\none\ntwo\n"));
        Ok(())
    }
}
