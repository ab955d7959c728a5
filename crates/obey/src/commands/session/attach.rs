//! `obey session attach`: a conversation. Shows the end of the log, then live events; what is typed is sent.

use domain::{EventKind, Mode, Status};
use wire::obey::local::v1::{SessionInfo, StopSessionRequest};

use super::get;
use super::send::{prompt, set_mode};
use crate::args::session::AttachArgs;
use crate::args::values;
use crate::client::Client;
use crate::console::Console;
use crate::conversation::{Conversation, Happened, Requests};
use crate::events;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::names;
use crate::output::TextStyle;
use crate::resolve;

const HELP: &[&str] = &[
    "What you type is sent to the agent; while it works, it is added to the running turn.",
    "  /cancel       interrupt the running turn (as Ctrl-C does)",
    "  /mode MODE    supervised, autonomous, plan or acceptEdits",
    "  /requests     what waits for an answer",
    "  /stop         end the agent and leave",
    "  /detach       leave; the agent goes on (as Ctrl-D does)",
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

pub(super) async fn run(console: &mut Console, args: &AttachArgs) -> Result<Exit> {
    let client = console.connect().await?;
    let id = resolve::session(&client, &args.session).await?;
    let session = get(&client, &id).await?;
    let last = show_past(console, &client, &session, args.tail).await?;
    let mut attached = Attached {
        conversation: Conversation::new(console, client, id, last, Requests::Ask),
        left_once: false,
    };
    if names::status(session.status) == Some(Status::Working) {
        attached.conversation.view.begin_turn();
    }
    attached.conversation.take_up_requests().await?;
    attached.run().await
}

/// Shows the end of the log and the session's details; returns the sequence number of the last event.
async fn show_past(
    console: &mut Console,
    client: &Client,
    session: &SessionInfo,
    tail: usize,
) -> Result<u64> {
    let id = &session.id;
    let tail = events::tail(client, id, 0, tail).await?;
    for event in &tail.events {
        super::log::print_row(console, event)?;
    }
    let (name, status) = (&session.agent_name, names::status_name(session.status));
    let head = format!(
        "{name} ({}, {status}) in {}. /help for help.",
        names::provider(session.provider),
        session.working_dir
    );
    console.out.note(TextStyle::Bold, &head)?;
    Ok(tail.last)
}

struct Attached<'a> {
    conversation: Conversation<'a>,
    /// Ctrl-C was already pressed in this turn.
    left_once: bool,
}

impl Attached<'_> {
    /// Handles events and typed lines until the user detaches or the session ends.
    async fn run(&mut self) -> Result<Exit> {
        loop {
            self.invite()?;
            match self.conversation.next().await? {
                Happened::Event(event) => {
                    if matches!(event.kind, Some(EventKind::TurnEnded { .. })) {
                        self.left_once = false;
                    }
                }
                Happened::Line(line) => {
                    if let Some(exit) = self.typed(&line).await? {
                        return Ok(exit);
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
        let now = set_mode(&self.conversation.client, &self.conversation.session, mode).await?;
        self.conversation.note(TextStyle::Dim, &format!("mode: {now}"))
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
        let text =
            format!("Detached. The session goes on: obey session attach {}", self.conversation.session);
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
