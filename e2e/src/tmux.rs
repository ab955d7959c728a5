//! A program in a terminal, as a person sees it: tmux runs it, keys go in, the screen comes out. Each has a tmux server of its
//! own, which ends with it. Knows nothing of what the program does.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, bail};

use crate::deadline::{deadline, poll};
use crate::world::World;

/// Lines that scrolled away and are still looked at.
const HISTORY: &str = "-500";

/// A terminal in which one program runs.
pub struct Tmux {
    world: World,
    socket: PathBuf,
    /// Where the shell writes how the program ended; tmux itself does not always know.
    status: PathBuf,
    pid: PathBuf,
}

impl Tmux {
    /// Starts `obey` with these words in a terminal of this size.
    pub fn start(world: &World, columns: u16, lines: u16, words: &[&str]) -> Result<Tmux> {
        Self::start_through(world, columns, lines, &[], words)
    }

    /// The same below another program, which is started with `before` and what it is to start.
    pub fn start_through(
        world: &World,
        columns: u16,
        lines: u16,
        before: &[&str],
        words: &[&str],
    ) -> Result<Tmux> {
        // A server that just ended may still hold its socket.
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let path = |what: &str| world.path(&format!("tmux{number}.{what}"));
        let (socket, status, pid) = (path("sock"), path("status"), path("pid"));
        let tmux = Tmux { world: world.clone(), socket, status, pid };
        let obey = world.obey()?.display().to_string();
        let words: Vec<String> =
            before.iter().copied().chain([obey.as_str()]).chain(words.iter().copied()).map(quoted).collect();
        let file = |path: &PathBuf| quoted(&path.display().to_string());
        let (status, pid) = (file(&tmux.status), file(&tmux.pid));
        // The terminal stays when the program has ended. The file has its content before it has its name.
        let line = format!(
            "sh -c 'echo $$ >\"$0\"; exec \"$@\"' {pid} {words}; echo $? >{status}.new; mv {status}.new {status}; exec cat",
            words = words.join(" ")
        );
        let (columns, lines) = (columns.to_string(), lines.to_string());
        let args = ["new-session", "-d", "-x", &columns, "-y", &lines, &line];
        tmux.run(&[&args[..], &[";", "set", "-g", "window-size", "manual"]].concat())?;
        Ok(tmux)
    }

    fn command(&self) -> Command {
        let mut command = self.world.command("tmux");
        command.env("LC_ALL", "C.UTF-8").env("SHELL", "/bin/sh").env("TERM", "screen-256color");
        command.arg("-S").arg(&self.socket).args(["-f", "/dev/null", "-u"]);
        command
    }

    fn run(&self, args: &[&str]) -> Result<String> {
        let output = self.command().args(args).output().context("running tmux")?;
        if !output.status.success() {
            bail!("tmux {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// The screen as text.
    pub fn screen(&self) -> Result<String> {
        self.run(&["capture-pane", "-p"])
    }

    /// The screen and the lines that scrolled away, with wrapped lines joined.
    pub fn history(&self) -> Result<String> {
        let captured = self.run(&["capture-pane", "-p", "-J", "-S", HISTORY])?;
        // Joined lines keep the spaces that fill them.
        let lines: Vec<&str> = captured.lines().map(str::trim_end).collect();
        Ok(lines.join("\n").trim_end().to_owned())
    }

    /// The same with colours, and lines as they are.
    pub fn coloured(&self) -> Result<String> {
        self.run(&["capture-pane", "-p", "-e", "-S", HISTORY])
    }

    /// A fact of tmux about the terminal, such as `alternate_on`.
    pub fn fact(&self, name: &str) -> Result<String> {
        Ok(self.run(&["display-message", "-p", &format!("#{{{name}}}")])?.trim().to_owned())
    }

    /// Presses keys by tmux' names, such as `Enter`, `C-c` or `}`.
    pub fn press(&self, keys: &[&str]) -> Result<()> {
        let mut args = vec!["send-keys"];
        args.extend(keys);
        self.run(&args).map(drop)
    }

    /// Types text.
    pub fn type_text(&self, text: &str) -> Result<()> {
        self.run(&["send-keys", "-l", "--", text]).map(drop)
    }

    /// Pastes text as the terminal does, in brackets if the program asked for that.
    pub fn paste(&self, text: &str) -> Result<()> {
        let file = self.world.path("pasted");
        std::fs::write(&file, text)?;
        self.run(&["load-buffer", &file.display().to_string()])?;
        self.run(&["paste-buffer", "-p", "-r"]).map(drop)
    }

    pub fn resize(&self, columns: u16, lines: u16) -> Result<()> {
        self.run(&["resize-window", "-x", &columns.to_string(), "-y", &lines.to_string()]).map(drop)
    }

    /// Waits until the screen has a text; the error shows the screen.
    pub async fn wait_for(&self, text: &str) -> Result<String> {
        self.wait_until(&format!("{text:?} on the screen"), |screen| screen.contains(text)).await
    }

    /// Waits until something holds of the screen.
    pub async fn wait_until(&self, what: &str, holds: impl Fn(&str) -> bool) -> Result<String> {
        let found = poll(what, || self.screen().ok().filter(|screen| holds(screen))).await;
        found.with_context(|| self.last_look())
    }

    /// Waits until a text is on the screen or scrolled away.
    pub async fn wait_for_line(&self, text: &str) -> Result<String> {
        self.wait_until_lines(&format!("{text:?}"), |lines| lines.contains(text)).await
    }

    /// Waits until something holds of the screen and what scrolled away.
    pub async fn wait_until_lines(&self, what: &str, holds: impl Fn(&str) -> bool) -> Result<String> {
        let found = poll(what, || self.history().ok().filter(|lines| holds(lines))).await;
        found.with_context(|| self.last_look())
    }

    fn last_look(&self) -> String {
        format!("after {:?} the screen is:\n{}", deadline(), self.history().unwrap_or_default())
    }

    /// Presses a key again and again until something holds of the screen.
    pub async fn press_until(&self, key: &str, what: &str, holds: impl Fn(&str) -> bool) -> Result<String> {
        let found = poll(what, || {
            let screen = self.screen().ok()?;
            if holds(&screen) {
                return Some(screen);
            }
            // A key that cannot be pressed is pressed by the next look.
            let _again = self.press(&[key]);
            None
        })
        .await;
        found.with_context(|| self.last_look())
    }

    /// The exit code of the program, as a shell knows it; nothing while it runs.
    fn exit_code(&self) -> Option<i32> {
        std::fs::read_to_string(&self.status).ok()?.trim().parse().ok()
    }

    /// Presses a key until the program has ended, and returns its exit code.
    pub async fn press_until_ended(&self, key: &str) -> Result<i32> {
        let ended = poll("the end of the program", || {
            if let Some(code) = self.exit_code() {
                return Some(code);
            }
            // A key that cannot be pressed is pressed by the next look.
            let _again = self.press(&[key]);
            None
        })
        .await;
        ended.with_context(|| self.last_look())
    }

    /// Waits until the program has ended, and returns its exit code; 128 and more: a signal ended it.
    pub async fn ended(&self) -> Result<i32> {
        poll("the end of the program", || self.exit_code()).await.with_context(|| self.last_look())
    }

    /// The process of the program.
    pub fn pid(&self) -> Result<i32> {
        std::fs::read_to_string(&self.pid)?.trim().parse().context("the pid")
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        // The server is this test's own; one that has ended is as good.
        let _ended = self.command().arg("kill-server").output();
    }
}

/// Quotes a word for the shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}
