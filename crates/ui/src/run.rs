//! The loop of the program: keys, updates and time change the state, effects are done, and the screen is drawn when
//! something changed, at most so often a second. Never waits for the daemon.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use client::connection::Client;
use config::failure::{Failure, Result};
use config::vars::Vars;
use crossterm::event::{Event, EventStream, KeyEventKind};
use tokio::process::Command;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::StreamExt as _;

use crate::app::{App, Effect, LentProgram, UiOptions};
use crate::daemon::{self, DaemonSettings, DaemonSide};
use crate::data::{Request, Update};
use crate::highlight::Highlights;
use crate::keys::KeyTable;
use crate::limits;
use crate::plain::{PlainStep, PlainView};
use crate::terminal::{self, Screen};
use crate::theme::Theme;

/// What the command line decides.
pub struct UiSettings {
    /// Starts a daemon that crashed again by itself, where that is allowed.
    pub client: Client,
    /// Other machines whose sessions are shown too, by name.
    pub machines: Vec<(String, Client)>,
    /// Who answers, for the record.
    pub person: String,
    pub folder: PathBuf,
    /// The text of the keys file; empty: none.
    pub keys: String,
    pub ascii: bool,
    pub no_color: bool,
    pub mouse: bool,
    pub notices: bool,
    /// A session to show at once, by id or name.
    pub session: Option<String>,
    /// What new sessions take over of the environment; none where the daemon is that of another machine.
    pub vars: Option<Vars>,
    /// Looks up a variable of the environment.
    pub var: fn(&str) -> Option<String>,
}

/// Returns the keys as a keys file that changes nothing, or why the given one cannot be used.
pub fn print_keys(keys: &str) -> Result<String> {
    KeyTable::from_text(keys).map(|table| table.print()).map_err(Failure::usage)
}

/// Runs the UI until the person leaves. Agents go on.
pub async fn run(settings: UiSettings) -> Result<()> {
    let keys = KeyTable::from_text(&settings.keys).map_err(Failure::usage)?;
    let theme = Theme::detect(settings.var, settings.ascii, settings.no_color);
    let options = UiOptions {
        theme,
        notices: settings.notices,
        home: (settings.var)("HOME").unwrap_or_default(),
        session: settings.session.clone(),
    };
    let (updates, received) = mpsc::channel(limits::UPDATES_AHEAD);
    let daemon = daemon_settings(&settings);
    let colored = updates.clone();
    let highlights = Highlights::start(move |colored_block| {
        colored.blocking_send(Update::Highlighted(colored_block)).is_ok()
    });
    let app = App::new(options, keys, highlights, now());
    let daemon = DaemonSide::new(daemon, settings.machines, updates);
    let screen = Screen::take(settings.mouse, settings.var).map_err(|error| no_terminal(&error))?;
    let per_second = if (settings.var)("SSH_CONNECTION").is_some() {
        limits::FRAMES_PER_SECOND_SSH
    } else {
        limits::FRAMES_PER_SECOND
    };
    let frame = Duration::from_micros(1_000_000 / per_second);
    let (editor, shell) = (editor(settings.var), shell(settings.var));
    let mut ui = RunningUi { app, daemon, screen, received, frame, editor, shell };
    ui.run().await.map_err(|error| no_terminal(&error))
}

/// Runs the UI for screen readers: lines out, lines in.
pub async fn run_plain(settings: UiSettings) -> Result<()> {
    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _};
    let (updates, mut received) = mpsc::channel(limits::UPDATES_AHEAD);
    let daemon = daemon_settings(&settings);
    let mut daemon = DaemonSide::new(daemon, settings.machines, updates);
    daemon.handle(Request::Watch { include_ended: false });
    let mut view = PlainView::default();
    let mut lines = tokio::io::BufReader::new(tokio::io::stdin()).lines();
    let mut out = tokio::io::stdout();
    loop {
        let text = tokio::select! {
            update = received.recv() => {
                view.tick(now());
                update.map(|update| view.update(update)).unwrap_or_default()
            }
            line = lines.next_line() => match line {
                Ok(Some(line)) => {
                    view.tick(now());
                    match view.line(&line) {
                        PlainStep::Say(text) => text,
                        PlainStep::Send(request) => {
                            daemon.handle(request);
                            String::new()
                        }
                        PlainStep::Quit => return Ok(()),
                    }
                }
                Ok(None) | Err(_) => return Ok(()),
            },
        };
        out.write_all(text.as_bytes()).await.map_err(|error| no_terminal(&error))?;
        out.flush().await.map_err(|error| no_terminal(&error))?;
    }
}

fn daemon_settings(settings: &UiSettings) -> DaemonSettings {
    DaemonSettings {
        client: settings.client.clone(),
        person: settings.person.clone(),
        folder: settings.folder.canonicalize().unwrap_or_else(|_| settings.folder.clone()),
        home: daemon::home(settings.var),
        vars: settings.vars.clone(),
    }
}

fn no_terminal(error: &io::Error) -> Failure {
    Failure::failed(format!("cannot use the terminal: {error}"))
}

fn editor(var: fn(&str) -> Option<String>) -> String {
    let chosen = ["VISUAL", "EDITOR"].iter().find_map(|name| var(name).filter(|value| !value.is_empty()));
    chosen.unwrap_or_else(|| "vi".to_owned())
}

fn shell(var: fn(&str) -> Option<String>) -> String {
    var("SHELL").filter(|value| !value.is_empty()).unwrap_or_else(|| "/bin/sh".to_owned())
}

/// Milliseconds since the Unix epoch.
fn now() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

/// The parts of the running program.
struct RunningUi {
    app: App,
    daemon: DaemonSide,
    screen: Screen,
    received: mpsc::Receiver<Update>,
    frame: Duration,
    editor: String,
    shell: String,
}

/// Whether the program goes on.
#[derive(PartialEq, Eq)]
enum Flow {
    On,
    /// The terminal was lent to another program: its events must be read anew.
    Reopened,
    Over,
}

impl RunningUi {
    async fn run(&mut self) -> io::Result<()> {
        let mut ends = [SignalKind::terminate(), SignalKind::hangup(), SignalKind::quit()].map(signal);
        let mut continued = signal(SignalKind::from_raw(rustix::process::Signal::CONT.as_raw()))?;
        self.daemon.handle(Request::Watch { include_ended: false });
        let mut events = EventStream::new();
        let mut drawn = Instant::now();
        let mut dirty = false;
        self.screen.draw(&mut self.app)?;
        loop {
            let next_frame = drawn + self.frame;
            let next_tick = self.next_tick();
            let [first, second, third] = &mut ends;
            tokio::select! {
                event = events.next() => match event {
                    Some(Ok(event)) => dirty |= self.event(event),
                    // The terminal is gone.
                    Some(Err(_)) | None => return Ok(()),
                },
                update = self.received.recv() => {
                    if let Some(update) = update {
                        self.app.update(update);
                        // What is there already is drawn at once.
                        while let Ok(update) = self.received.try_recv() {
                            self.app.update(update);
                        }
                        dirty = true;
                    }
                }
                () = tokio::time::sleep_until(next_frame), if dirty => {
                    self.app.tick(now());
                    self.screen.draw(&mut self.app)?;
                    drawn = Instant::now();
                    dirty = false;
                }
                () = tokio::time::sleep(next_tick) => dirty |= self.app.tick(now()),
                _ = continued.recv() => {
                    self.screen.take_again()?;
                    dirty = true;
                }
                () = received(first) => return Ok(()),
                () = received(second) => return Ok(()),
                () = received(third) => return Ok(()),
            }
            match self.effects().await? {
                Flow::On => {}
                Flow::Reopened => {
                    events = EventStream::new();
                    dirty = true;
                }
                Flow::Over => return Ok(()),
            }
        }
    }

    /// Ages change with the second; a card wakes up a moment after it appeared, and a selected session is shown a moment after it was
    /// selected.
    fn next_tick(&self) -> Duration {
        if self.app.is_about_to_change() {
            Duration::from_millis(50)
        } else {
            Duration::from_millis(1_000 - (now() % 1_000).unsigned_abs())
        }
    }

    /// Handles an event of the terminal. Returns whether something may look different.
    fn event(&mut self, event: Event) -> bool {
        self.app.tick(now());
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => self.app.key(&key),
            Event::Paste(text) => self.app.paste(&text),
            Event::Mouse(mouse) => self.app.mouse(&mouse),
            Event::Resize(..) => {}
            _ => return false,
        }
        true
    }

    async fn effects(&mut self) -> io::Result<Flow> {
        let mut flow = Flow::On;
        for effect in self.app.take_effects() {
            match effect {
                Effect::Request(request) => self.daemon.handle(request),
                Effect::Quit => return Ok(Flow::Over),
                Effect::Notify(text) => self.screen.notify(&text)?,
                Effect::Copy(text) => self.screen.copy(&text)?,
                Effect::Suspend => {
                    terminal::give_back();
                    // Returns when the shell continues us; the signal of that takes the terminal again.
                    let _stopped = rustix::process::kill_process(
                        rustix::process::getpid(),
                        rustix::process::Signal::STOP,
                    );
                    flow = Flow::Reopened;
                }
                Effect::Editor(text) => {
                    terminal::give_back();
                    match edited(&self.editor, &text).await {
                        Ok(text) => self.app.set_message(&text),
                        Err(error) => self.app.say(format!("{}: {error}", self.editor), true),
                    }
                    self.screen.take_again()?;
                    flow = Flow::Reopened;
                }
                Effect::Lend { program, folder } => {
                    terminal::give_back();
                    let name = match program {
                        LentProgram::Editor => self.editor.clone(),
                        LentProgram::Shell => self.shell.clone(),
                    };
                    if let Err(problem) = lend(program, &name, &folder).await {
                        self.app.say(problem, true);
                    }
                    self.screen.take_again()?;
                    flow = Flow::Reopened;
                }
            }
        }
        Ok(flow)
    }
}

/// Waits for a signal; forever if it cannot be received.
async fn received(signal: &mut io::Result<Signal>) {
    match signal {
        Ok(signal) => {
            signal.recv().await;
        }
        Err(_) => std::future::pending().await,
    }
}

/// Runs the person's editor or shell in a folder. How a shell ends says nothing.
async fn lend(program: LentProgram, name: &str, folder: &str) -> std::result::Result<(), String> {
    // An editor may have arguments, as in `code --wait`.
    let line = match program {
        LentProgram::Editor => format!("{name} ."),
        LentProgram::Shell => "exec \"$0\"".to_owned(),
    };
    let status = Command::new("sh").args(["-c", &line, name]).current_dir(folder).status().await;
    match status {
        Ok(status) if status.success() || program == LentProgram::Shell => Ok(()),
        Ok(status) => Err(format!("{name}: {status}")),
        Err(error) => Err(format!("{folder}: {error}")),
    }
}

/// Lets the person's editor change a text.
async fn edited(editor: &str, text: &str) -> io::Result<String> {
    let file = tempfile::Builder::new().prefix("obey-message-").suffix(".md").tempfile()?;
    std::fs::write(file.path(), text)?;
    // An editor may have arguments, as in `code --wait`.
    let status = Command::new("sh")
        .arg("-c")
        .arg(format!("{editor} \"$1\""))
        .arg("sh")
        .arg(file.path())
        .status()
        .await?;
    if !status.success() {
        return Err(io::Error::other("the editor failed; the message is as it was"));
    }
    std::fs::read_to_string(file.path())
}
