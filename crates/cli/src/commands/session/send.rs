//! `obey session send`: sends a message and shows the agent's work on it.

use domain::turn::EndReason;
use domain::{EventKind, Mode};
use serde_json::json;
use wire::obey::v1 as pb;

use cli_args::session::SendArgs;
use client::attachments;
use client::connection::Client;
use client::feed::{Feed, FeedItem};
use client::once;
use client::resolve;
use config::exit::Exit;
use config::failure::{Failure, Result};
use terminal::console::Console;
use terminal::conversation::{self, Conversation, Happened, Requests};
use terminal::output::TextStyle;

pub(in crate::commands) async fn run(console: &mut Console, args: SendArgs) -> Result<Exit> {
    let from_stdin = args.message.as_deref().is_none_or(|message| message == "-");
    let text = match args.message {
        Some(message) if message != "-" => message,
        None if console.input.is_terminal() => return Err(Failure::usage("the message is missing")),
        _ => console.read_message()?,
    };
    if text.trim().is_empty() {
        return Err(Failure::usage("the message is empty"));
    }
    let client = console.connect().await?;
    let session = resolve::session_in(&client, &args.session, args.campaign.as_deref()).await?;
    if let Some(mode) = args.mode {
        set_mode(&client, &session, mode).await?;
    }
    let request = pb::PromptRequest {
        session_id: session.clone(),
        text,
        steer: args.steer,
        queue: args.queue,
        attachments: attachments::read(&args.image)?,
        ..pb::PromptRequest::default()
    };
    let accepted = send_once(&client, request).await?;
    if args.no_wait || (accepted.turn_id.is_empty() && !accepted.queued.is_empty()) {
        return print_accepted(console, &session, &accepted);
    }
    // Standard input that contained the message cannot provide answers.
    let requests = if console.can_ask() && !from_stdin { Requests::Ask } else { Requests::Tell };
    let mut conversation =
        Conversation::new(console, client, session, accepted.seq.saturating_sub(1), requests);
    conversation.sent(&accepted);
    if args.steer {
        conversation.take_up_requests().await?;
    }
    until_turn_ends(&mut conversation, &accepted.turn_id).await
}

/// Shows a turn of a new session until it ends, or in JSON only waits for it: the exit code says how it ended.
pub(in crate::commands) async fn watch_turn(
    console: &mut Console,
    client: Client,
    session: String,
    turn: &str,
) -> Result<Exit> {
    if console.out.json {
        let mut feed = Feed::follow(&client, &session, 0);
        while let Some(item) = feed.next().await {
            match item {
                FeedItem::Event(event) => {
                    if let Some(EventKind::TurnEnded { turn: ended, reason, .. }) = event.kind
                        && ended.to_string() == turn
                    {
                        return Ok(exit_of_turn(reason));
                    }
                }
                FeedItem::Failed(failure) => return Err(failure),
                FeedItem::Lost | FeedItem::Back => {}
            }
        }
        return Err(conversation::ended_early(&session));
    }
    let requests = if console.can_ask() { Requests::Ask } else { Requests::Tell };
    let mut conversation = Conversation::new(console, client, session, 0, requests);
    until_turn_ends(&mut conversation, turn).await
}

/// Sends a prompt; it is stored when this returns.
pub(in crate::commands) async fn prompt(
    client: &Client,
    session: &str,
    text: &str,
    steer: bool,
) -> Result<pb::PromptResponse> {
    let request = pb::PromptRequest {
        session_id: session.to_owned(),
        text: text.to_owned(),
        steer,
        ..pb::PromptRequest::default()
    };
    send_once(client, request).await
}

/// Sends a prompt with files; it is stored when this returns.
pub(in crate::commands) async fn prompt_with(
    client: &Client,
    session: &str,
    text: String,
    attachments: Vec<pb::PromptAttachment>,
) -> Result<pb::PromptResponse> {
    let request =
        pb::PromptRequest { session_id: session.to_owned(), text, attachments, ..Default::default() };
    send_once(client, request).await
}

/// Sends a prompt so that it takes effect once, even if the connection is lost before the answer.
async fn send_once(client: &Client, mut request: pb::PromptRequest) -> Result<pb::PromptResponse> {
    request.client_key = once::key();
    once::call(|| {
        let (client, request) = (client.clone(), request.clone());
        async move { client.turns().prompt(request).await }
    })
    .await
}

/// Changes the mode of a session and returns the new one.
pub(super) async fn set_mode(client: &Client, session: &str, mode: Mode) -> Result<String> {
    let request = pb::SetModeRequest { session_id: session.to_owned(), mode: mode.name().to_owned() };
    Ok(client.turns().set_mode(request).await?.into_inner().mode)
}

/// Shows a turn until it ends. Ctrl-C cancels it; a second one detaches while the session continues.
pub(in crate::commands) async fn until_turn_ends(
    conversation: &mut Conversation<'_>,
    turn: &str,
) -> Result<Exit> {
    let mut interrupted = false;
    loop {
        match conversation.next().await? {
            Happened::Event(event) => {
                if let Some(EventKind::TurnEnded { turn: ended, reason, .. }) = event.kind
                    && ended.to_string() == turn
                {
                    let cancelled_here = interrupted && reason != EndReason::Completed;
                    return Ok(if cancelled_here { Exit::INTERRUPTED } else { exit_of_turn(reason) });
                }
            }
            Happened::Interrupt if interrupted => {
                let session = conversation.session.clone();
                let text = format!("Left. The session goes on: obey session attach {session}");
                conversation.note(TextStyle::Warn, &text)?;
                return Ok(Exit::INTERRUPTED);
            }
            Happened::Interrupt => {
                interrupted = true;
                conversation
                    .note(TextStyle::Warn, "Cancelling the turn… (Ctrl-C again to leave it running)")?;
                conversation.cancel_turn().await?;
            }
            Happened::Line(_) => {
                let hint = "Nothing is being asked. To add to a running turn: obey session send --steer";
                conversation.note(TextStyle::Dim, hint)?;
            }
            Happened::InputEnded => {}
            Happened::SessionEnded => return Err(conversation::ended_early(&conversation.session)),
        }
    }
}

/// Returns the exit code for the end of a turn.
pub(in crate::commands) fn exit_of_turn(reason: EndReason) -> Exit {
    match reason {
        EndReason::Completed => Exit::OK,
        EndReason::BudgetExceeded => Exit::DENIED,
        EndReason::Cancelled
        | EndReason::Failed
        | EndReason::Refused
        | EndReason::LimitReached
        | EndReason::Interrupted => Exit::TURN_FAILED,
    }
}

fn print_accepted(console: &mut Console, session: &str, accepted: &pb::PromptResponse) -> Result<Exit> {
    if console.out.json {
        let value = json!({
            "session_id": session, "turn_id": accepted.turn_id, "seq": accepted.seq, "queued": accepted.queued,
        });
        console.out.json(&value)?;
        return Ok(Exit::OK);
    }
    if accepted.turn_id.is_empty() && !accepted.queued.is_empty() {
        console.out.line(&format!("Queued: {} of {session}", accepted.queued))?;
        console.out.note(TextStyle::Dim, &format!("See what waits: obey queue list {session}"))?;
        return Ok(Exit::OK);
    }
    console.out.line(&format!("Accepted: {} of {session}", accepted.turn_id))?;
    console.out.note(TextStyle::Dim, &format!("Follow it: obey session watch {session}"))?;
    Ok(Exit::OK)
}
