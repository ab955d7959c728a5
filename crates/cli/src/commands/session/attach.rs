//! `obey session attach`: a conversation. Shows the end of the log, then live events; what is typed is sent.

use domain::{EventKind, Mode, Status};
use wire::obey::local::v1::{SessionInfo, StopSessionRequest};
use wire::obey::v1::MarkSeenRequest;

use super::get;
use super::send::{prompt, set_mode};
use cli_args::session::AttachArgs;
use cli_args::values;
use client::connection::Client;
use client::events::{self, LogEvent};
use client::format;
use client::names;
use client::resolve;
use client::seen;
use config::exit::Exit;
use config::failure::{Failure, Result};
use terminal::console::Console;
use terminal::conversation::{Conversation, Happened, Requests};
use terminal::output::TextStyle;
use terminal::view::LiveView;

/// The commands of the conversation itself.
const OWN_COMMANDS: &[&str] = &["/cancel", "/detach", "/help", "/mode", "/requests", "/stop"];

const HELP: &[&str] = &[
    "What you type is sent to the agent; while it works, it is added to the running turn.",
    "Alt-Enter or Ctrl-J begins a new line, Up brings back what you sent, Tab completes /commands and @files.",
    "  /cancel       interrupt the running turn (as Ctrl-C does)",
    "  /mode MODE    supervised, autonomous, plan or acceptEdits",
    "  /requests     what waits for an answer",
    "  /stop         end the agent and leave",
    "  /detach       leave; the agent goes on (as Ctrl-D does)",
    "  /NAME         a command of the agent, such as /compact; //NAME sends what is not known here",
    "  /help         this text",
];

/// A parsed input line.
#[derive(Debug, PartialEq, Eq)]
enum Typed<'a> {
    Nothing,
    Message(&'a str),
    Cancel,
    Mode(&'a str),
    Requests,
    Stop,
    Detach,
    Help,
    Unknown(&'a str),
}

/// Parses a typed line: a command, or a message.
fn read(line: &str) -> Typed<'_> {
    let line = line.trim();
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    match word {
        "" => Typed::Nothing,
        "/cancel" => Typed::Cancel,
        "/mode" => Typed::Mode(rest.trim()),
        "/requests" => Typed::Requests,
        "/stop" => Typed::Stop,
        "/detach" | "/quit" | "/exit" => Typed::Detach,
        "/help" | "/?" => Typed::Help,
        // Two slashes send one: agents have their own commands, such as /compact.
        _ if line.starts_with("//") => Typed::Message(&line[1..]),
        _ if word.starts_with('/') && !word[1..].contains('/') => Typed::Unknown(word),
        _ => Typed::Message(line),
    }
}

pub(in crate::commands) async fn run(console: &mut Console, args: &AttachArgs) -> Result<Exit> {
    let client = console.connect().await?;
    let id = resolve::session(&client, &args.session).await?;
    let session = get(&client, &id).await?;
    let past = show_past(console, &client, &session, args.tail).await?;
    seen::mark(&client, &id, past.last).await;
    let mut attached = Attached {
        conversation: Conversation::new(console, client, id, past.last, Requests::Ask),
        left_once: false,
        commands: past.commands,
    };
    attached.conversation.view = past.view;
    attached.begin(names::status(session.status) == Some(Status::Working)).await;
    attached.conversation.take_up_requests().await?;
    attached.run().await
}

/// Opens the conversation of a new session, whose first prompt was sent or is still to be typed.
pub(in crate::commands) async fn converse(
    console: &mut Console,
    client: Client,
    session: &SessionInfo,
    has_prompt: bool,
) -> Result<Exit> {
    console
        .out
        .note(TextStyle::Dim, "Type to talk to it; /help for help, Ctrl-D leaves and the agent goes on.")?;
    let conversation = Conversation::new(console, client, session.id.clone(), 0, Requests::Ask);
    let mut attached = Attached { conversation, left_once: false, commands: Vec::new() };
    // A request of its first turn comes with the events, after what led to it.
    attached.begin(has_prompt).await;
    attached.run().await
}

/// What the past of a session leaves for its conversation.
struct Past {
    /// The number of the last event.
    last: u64,
    view: LiveView,
    commands: Vec<String>,
}

/// Shows the last turns as the conversation they were, and the session's details.
async fn show_past(
    console: &mut Console,
    client: &Client,
    session: &SessionInfo,
    turns: usize,
) -> Result<Past> {
    let tail = events::tail(client, &session.id, 0, usize::MAX).await?;
    let is_turn = |event: &LogEvent| matches!(event.kind, Some(EventKind::TurnStarted { .. }));
    let begins: Vec<usize> =
        tail.events.iter().enumerate().filter(|(_, event)| is_turn(event)).map(|(at, _)| at).collect();
    let first =
        begins.len().checked_sub(turns).map_or(0, |at| begins.get(at).copied().unwrap_or(tail.events.len()));
    let mut view = LiveView::default();
    let mut commands = Vec::new();
    for (at, event) in tail.events.iter().enumerate() {
        if let Some(EventKind::CommandsChanged { commands: offered }) = &event.kind {
            commands = offered.iter().map(|command| command.name.clone()).collect();
        }
        if at >= first {
            view.show(&mut console.out, event)?;
        }
    }
    let earlier = begins.iter().filter(|at| **at < first).count();
    if earlier > 0 {
        let text =
            format!("({} before these: obey session log {})", format::plural(earlier, "turn"), session.id);
        console.out.note(TextStyle::Dim, &text)?;
    }
    let (name, status) = (&session.agent_name, names::status_name(session.status));
    let head = format!(
        "{name} ({}, {status}) in {}. /help for help.",
        names::provider(session.provider),
        session.working_dir
    );
    view.pause(&mut console.out)?;
    console.out.note(TextStyle::Bold, &head)?;
    Ok(Past { last: tail.last, view, commands })
}

struct Attached<'a> {
    conversation: Conversation<'a>,
    /// Ctrl-C was already pressed in this turn.
    left_once: bool,
    /// The agent's own commands, without their slash.
    commands: Vec<String>,
}

impl Attached<'_> {
    /// Shows a turn that is under way, and says that somebody looks at the session.
    async fn begin(&mut self, is_working: bool) {
        if is_working && !self.conversation.view.is_working() {
            self.conversation.view.begin_turn();
        }
        self.conversation.commands = OWN_COMMANDS;
        self.offer_commands();
        self.mark_seen().await;
    }

    /// Says that somebody has looked at the session.
    async fn mark_seen(&mut self) {
        let request = MarkSeenRequest { session_id: self.conversation.session.clone(), seq: 0 };
        // The session is shown all the same; at worst it stays listed as not looked at.
        let _not_marked = self.conversation.client.overview().mark_seen(request).await;
    }

    /// Tells the prompt line what it can complete.
    fn offer_commands(&mut self) {
        let own = OWN_COMMANDS.iter().map(|name| (*name).to_owned());
        let all = own.chain(self.commands.iter().map(|name| format!("/{name}"))).collect();
        if let Some(prompt) = self.conversation.console.out.prompt() {
            prompt.set_commands(all);
        }
    }

    /// Handles events and typed lines until the user detaches or the session ends.
    async fn run(&mut self) -> Result<Exit> {
        loop {
            self.invite()?;
            match self.conversation.next().await? {
                Happened::Event(event) => {
                    if let Some(EventKind::TurnEnded { .. }) = event.kind {
                        self.left_once = false;
                        self.mark_seen().await;
                    } else if let Some(EventKind::CommandsChanged { commands }) = event.kind {
                        self.commands = commands.into_iter().map(|command| command.name).collect();
                        self.offer_commands();
                    }
                }
                Happened::Line(line) => {
                    if let Some(exit) = self.typed(&line).await? {
                        return Ok(exit);
                    }
                    // A command does not answer a request, which is asked again.
                    if self.conversation.asking.current().is_some() {
                        self.conversation.ask()?;
                    }
                }
                Happened::Interrupt if self.conversation.view.is_working() && !self.left_once => {
                    self.left_once = true;
                    self.conversation
                        .note(TextStyle::Warn, "Cancelling the turn… (Ctrl-C again to leave)")?;
                    self.conversation.cancel_turn().await?;
                }
                Happened::Interrupt | Happened::InputEnded => return self.detach(),
                Happened::SessionEnded => {
                    self.conversation.note(TextStyle::Dim, "The session has ended.")?;
                    return Ok(Exit::OK);
                }
            }
        }
    }

    /// Executes an input line. An error of the daemon is printed and the conversation continues.
    async fn typed(&mut self, line: &str) -> Result<Option<Exit>> {
        let done = match read(line) {
            Typed::Nothing => Ok(()),
            Typed::Unknown(word) if self.commands.iter().any(|name| name == &word[1..]) => {
                self.send(line.trim()).await
            }
            Typed::Message(text) => self.send(text).await,
            Typed::Cancel => self.cancel().await,
            Typed::Mode(mode) => self.mode(mode).await,
            Typed::Requests => self.list_requests(),
            Typed::Help => HELP.iter().try_for_each(|line| self.conversation.note(TextStyle::Dim, line)),
            Typed::Unknown(word) => {
                let text = format!("{word} is unknown here; /help for help, /{word} to send it to the agent");
                self.conversation.note(TextStyle::Warn, &text)
            }
            Typed::Detach => return self.detach().map(Some),
            Typed::Stop => return self.stop().await.map(Some),
        };
        match done {
            Err(failure) if !failure.is_connection_lost() && !failure.is_silent() => {
                self.conversation.console.out.say(TextStyle::Bad, &failure.for_people())?;
                Ok(None)
            }
            done => done.map(|()| None),
        }
    }

    async fn send(&mut self, text: &str) -> Result<()> {
        let steer = self.conversation.view.is_working();
        let accepted = prompt(&self.conversation.client, &self.conversation.session, text, steer).await?;
        self.conversation.sent(&accepted);
        Ok(())
    }

    /// Shows the prompt if no turn is running and no question is pending.
    fn invite(&mut self) -> Result<()> {
        if self.conversation.view.is_working() || self.conversation.asking.current().is_some() {
            return Ok(());
        }
        self.conversation.console.out.ask("> ")
    }

    async fn cancel(&mut self) -> Result<()> {
        let cancelled = self.conversation.cancel_turn().await?;
        self.conversation
            .note(TextStyle::Dim, if cancelled { "Cancelling the turn…" } else { "No turn is running." })
    }

    async fn mode(&mut self, typed: &str) -> Result<()> {
        let mode: Mode = values::mode(typed).map_err(Failure::usage)?;
        // The event of the change is shown.
        set_mode(&self.conversation.client, &self.conversation.session, mode).await.map(drop)
    }

    fn list_requests(&mut self) -> Result<()> {
        let lines: Vec<String> = self.conversation.asking.all().map(|open| open.summary()).collect();
        if lines.is_empty() {
            return self.conversation.note(TextStyle::Dim, "Nothing waits for an answer.");
        }
        lines.iter().try_for_each(|line| self.conversation.note(TextStyle::Warn, line))
    }

    async fn stop(&mut self) -> Result<Exit> {
        let request = StopSessionRequest { session_id: self.conversation.session.clone(), graceful: false };
        self.conversation.client.daemon().stop_session(request).await?;
        self.conversation.note(TextStyle::Dim, "The session was stopped.")?;
        Ok(Exit::OK)
    }

    fn detach(&mut self) -> Result<Exit> {
        // What was written so far stays on the screen.
        self.conversation.view.close(&mut self.conversation.console.out)?;
        let there = self.conversation.console.global.machine.as_ref();
        let there = there.map_or_else(String::new, |machine| format!("--machine {machine} "));
        let text = format!("Detached. The session goes on: obey {there}attach {}", self.conversation.session);
        self.conversation.note(TextStyle::Dim, &text)?;
        Ok(Exit::OK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_messages_or_commands() {
        assert_eq!(read("  fix it "), Typed::Message("fix it"));
        assert_eq!(read("/mode plan"), Typed::Mode("plan"));
        assert_eq!(read("/cancel"), Typed::Cancel);
        assert_eq!(read("/compact"), Typed::Unknown("/compact"));
        assert_eq!(read("//compact now"), Typed::Message("/compact now"));
        assert_eq!(read("/etc/hosts is wrong"), Typed::Message("/etc/hosts is wrong"));
        assert_eq!(read("   "), Typed::Nothing);
    }
}
