//! `obey session …`: dispatches to the file of each command, and prints what several of them show.

mod attach;
mod control;
mod create;
mod list;
mod log;
pub(super) mod operations;
mod requests;
mod send;
mod tree;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use wire::obey::local::v1 as local;
use wire::obey::v1 as pb;

use super::overview;
use crate::json;
use cli_args::session::SessionCommand;
use client::connection::Client;
use client::format;
use client::names;
use config::exit::Exit;
use config::failure::{Failure, Result};
use terminal::console::Console;
use terminal::output::TextStyle;
use terminal::request_prompts::OpenRequest;
use terminal::table::Table;

pub(super) use attach::{converse, run as attach};
pub(super) use control::stop_all;
pub(super) use create::{Plan, create};
pub(super) use log::print_row;
pub(super) use send::{exit_of_turn, prompt, prompt_with, run as send, until_turn_ends, watch_turn};

pub(super) async fn run(console: &mut Console, command: SessionCommand) -> Result<Exit> {
    match command {
        SessionCommand::Create(args) => create::run(console, *args).await,
        SessionCommand::List(args) => list::run(console, &args).await,
        SessionCommand::Info(args) => list::info(console, &args.session).await,
        SessionCommand::Send(args) => send::run(console, args).await,
        SessionCommand::Attach(args) => attach::run(console, &args).await,
        SessionCommand::Watch(args) => watch::run(console, &args).await,
        SessionCommand::Log(args) => log::run(console, &args).await,
        SessionCommand::Reveal(args) => log::reveal(console, &args).await,
        SessionCommand::Requests(args) => requests::run(console, &args).await,
        SessionCommand::Approve(args) => requests::approve(console, args).await,
        SessionCommand::Deny(args) => requests::deny(console, args).await,
        SessionCommand::Answer(args) => requests::answer(console, args).await,
        SessionCommand::Cancel(args) => control::cancel(console, &args.session).await,
        SessionCommand::Mode(args) => control::mode(console, &args).await,
        SessionCommand::Wait(args) => super::overview::wait(console, &args).await,
        SessionCommand::Export(args) => super::overview::export(console, &args).await,
        SessionCommand::Stop(args) => control::stop(console, &args).await,
        SessionCommand::Restart(args) => control::restart(console, args).await,
        SessionCommand::Tree(args) => tree::run(console, &args).await,
        SessionCommand::Fork(args) => operations::fork(console, args).await,
        SessionCommand::Rename(args) => operations::rename(console, &args).await,
        SessionCommand::Archive(args) => operations::archive(console, &args).await,
        SessionCommand::Remove(args) => operations::remove(console, &args).await,
        SessionCommand::Budget(args) => operations::budget(console, &args).await,
        SessionCommand::Queue(command) => super::queue::run(console, command).await,
        SessionCommand::Diff(args) => super::changes::diff(console, args).await,
        SessionCommand::Merge(args) => super::changes::merge(console, args).await,
    }
}

/// Prints a table with a dim heading.
pub fn print_table(console: &mut Console, table: &Table) -> Result<()> {
    let mut lines = table.lines(console.out.columns()).into_iter();
    if let Some(heading) = lines.next() {
        console.out.styled_line(&[(TextStyle::Dim, &heading)])?;
    }
    lines.try_for_each(|line| console.out.line(&line))
}

/// From this width on a table of sessions has whole ids.
const WHOLE_IDS_FROM_COLUMNS: usize = 120;

/// Characters of a short id: the end of a whole one.
const SHORT_ID: usize = 8;

/// Prints sessions as a table.
pub(super) fn print_sessions(
    console: &mut Console,
    sessions: &[local::SessionInfo],
    campaigns: &[pb::Campaign],
) -> Result<()> {
    let now = Timestamp::now();
    // The ends of ids differ, and name a session too.
    let is_narrow = console.out.columns().is_some_and(|columns| columns < WHOLE_IDS_FROM_COLUMNS);
    let shown_id = |id: &str| match is_narrow {
        true => id.get(id.len().saturating_sub(SHORT_ID)..).unwrap_or(id).to_owned(),
        false => id.to_owned(),
    };
    let mut table =
        Table::new(&["ID", "NAME", "PROVIDER", "MODEL", "STATUS", "TOKENS", "ACTIVE", "CAMPAIGN"]);
    for session in sessions {
        let campaign = campaigns.iter().find(|campaign| campaign.id == session.campaign_id);
        table.row(vec![
            shown_id(&session.id),
            session.agent_name.clone(),
            names::provider(session.provider),
            if session.model.is_empty() { "-".to_owned() } else { session.model.clone() },
            names::status_name(session.status),
            tokens(session),
            format::age(session.last_activity_at.as_ref().or(session.created_at.as_ref()), now),
            campaign.map_or_else(|| session.campaign_id.clone(), |campaign| campaign.name.clone()),
        ]);
    }
    print_table(console, &table)
}

/// Returns the tokens a session used, with its budget if it has one.
pub(super) fn tokens(session: &local::SessionInfo) -> String {
    let used = u64::try_from(session.tokens_input.saturating_add(session.tokens_output)).unwrap_or_default();
    match u64::try_from(session.max_tokens) {
        Ok(budget) if budget > 0 => format!("{}/{}", format::count(used), format::count(budget)),
        _ => format::count(used),
    }
}

/// Returns the names and the folders of the sessions that requests are of, by id.
pub(super) async fn names_by_request(
    client: &Client,
    requests: &[pb::Request],
) -> Result<BTreeMap<String, (String, String)>> {
    let ids: BTreeSet<String> = requests.iter().map(|request| request.session_id.clone()).collect();
    let ids: Vec<String> = ids.into_iter().collect();
    let known = if ids.is_empty() { Vec::new() } else { overview::look_up(client, &ids).await? };
    Ok(names_of(known))
}

/// Returns the names and the folders of sessions by id.
pub(super) fn names_of(
    sessions: impl IntoIterator<Item = pb::SessionOverview>,
) -> BTreeMap<String, (String, String)> {
    sessions.into_iter().map(|one| (one.session_id, (one.name, one.folder))).collect()
}

/// Prints requests as a table, sessions by their names where those are known.
pub(super) fn print_requests(
    console: &mut Console,
    requests: &[pb::Request],
    known: &BTreeMap<String, (String, String)>,
) -> Result<()> {
    if requests.is_empty() {
        return Ok(());
    }
    let now = Timestamp::now();
    let mut table = Table::new(&["SESSION", "REQUEST", "KIND", "AGE", "STATE", "WHAT"]);
    for request in requests {
        let state = match (request.outcome.as_str(), request.settled_by.as_str()) {
            ("", _) => "waits".to_owned(),
            (outcome, "") => outcome.to_owned(),
            (outcome, by) => format!("{outcome} by {by}"),
        };
        let summary = OpenRequest::of_request(request).summary();
        let what = summary.split_once(": ").map_or(summary.as_str(), |(_, what)| what);
        let (name, folder) = known.get(&request.session_id).cloned().unwrap_or_default();
        let name = if name.is_empty() { request.session_id.clone() } else { format::one_line(&name) };
        table.row(vec![
            name,
            request.id.clone(),
            names::request_kind(request.kind).to_owned(),
            format::age(request.asked_at.as_ref(), now),
            state,
            format::below_folder(&format::one_line(what), &folder),
        ]);
    }
    print_table(console, &table)?;
    print_proposals(console, requests)?;
    for request in requests.iter().filter(|request| request.outcome.is_empty()) {
        let name = known.get(&request.session_id).map(|(name, _)| format::shell_word(name));
        let session = name.unwrap_or_else(|| request.session_id.clone());
        answer_lines(request, &session).into_iter().try_for_each(|line| console.out.line(&line))?;
    }
    Ok(())
}

/// Returns how a question is answered, and the answers it offers; nothing for a permission.
fn answer_lines(request: &pb::Request, session: &str) -> Vec<String> {
    if request.questions.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![String::new()];
    for command in OpenRequest::of_request(request).commands(session) {
        lines.push(format!("{} is answered with: {command}", request.id));
    }
    for (at, question) in request.questions.iter().enumerate() {
        if request.questions.len() > 1 {
            lines.push(format!("{}: {}", at + 1, format::one_line(&question.text)));
        }
        for (number, option) in question.options.iter().enumerate() {
            let about = match option.description.as_str() {
                "" => String::new(),
                text => format!(": {text}"),
            };
            lines.push(format!(
                "  {}. {}",
                number + 1,
                format::one_line(&format!("{}{about}", option.label))
            ));
        }
    }
    lines
}

/// Says what an answer to each request that waits would cover if it were remembered.
fn print_proposals(console: &mut Console, requests: &[pb::Request]) -> Result<()> {
    for request in requests.iter().filter(|request| request.outcome.is_empty()) {
        if request.proposals.is_empty() {
            continue;
        }
        console.out.line("")?;
        console
            .out
            .line(&format!("{} can be allowed for more than this once (approve --grant ID):", request.id))?;
        let mut table = Table::new(&["ID", "WOULD ALLOW"]);
        for proposal in &request.proposals {
            table.row(vec![proposal.id.clone(), format::one_line(&proposal.text)]);
        }
        print_table(console, &table)?;
    }
    Ok(())
}

/// Gets one session from the daemon.
pub(super) async fn get(client: &Client, id: &str) -> Result<local::SessionInfo> {
    let request = local::GetSessionRequest { session_id: id.to_owned() };
    Ok(client.daemon().get_session(request).await?.into_inner())
}

/// The metadata key by which the daemon reports containment, as `session=containment`.
pub(crate) const CONTAINMENT_KEY: &str = "obey-containment";

/// Returns the containment of sessions by id; uncontained ones are absent.
pub fn containments(metadata: &tonic::metadata::MetadataMap) -> BTreeMap<String, String> {
    let pairs = metadata.get_all(CONTAINMENT_KEY).iter();
    let pairs = pairs.filter_map(|value| value.to_str().ok()?.split_once('='));
    pairs.map(|(session, how)| (session.to_owned(), how.to_owned())).collect()
}

/// Metadata key by which the daemon says what a session may use and has used, as `session=JSON`.
const RESOURCES_KEY: &str = "obey-resources";

/// A session and what the daemon says beside it.
pub(super) struct DetailedSession {
    pub(super) session: local::SessionInfo,
    /// How its agent is contained; empty: not at all.
    pub(super) containment: String,
    /// What it may use and has used; null where the daemon does not say.
    pub(super) resources: serde_json::Value,
}

/// Asks the daemon for everything about one session.
pub(super) async fn get_detailed(client: &Client, id: &str) -> Result<DetailedSession> {
    let request = local::GetSessionRequest { session_id: id.to_owned() };
    let response = client.daemon().get_session(request).await?;
    let containment = containments(response.metadata()).remove(id).unwrap_or_default();
    let said = response.metadata().get(RESOURCES_KEY).and_then(|value| value.to_str().ok()?.split_once('='));
    let resources = said.and_then(|(_, json)| serde_json::from_str(json).ok()).unwrap_or_default();
    Ok(DetailedSession { session: response.into_inner(), containment, resources })
}

/// Prints the state of a session: its JSON, or its id and status.
pub(super) fn print_state(console: &mut Console, session: &local::SessionInfo) -> Result<()> {
    if console.out.json {
        return console.out.json(&json::session(session));
    }
    console.out.line(&format!("Session: {}", session.id))?;
    console.out.line(&format!("Status:  {}", names::status_name(session.status)))
}

/// Converts a duration to the protocol's.
pub(super) fn protobuf_duration(duration: Duration) -> Result<prost_types::Duration> {
    prost_types::Duration::try_from(duration).map_err(|_| Failure::usage("the duration is too long"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_that_waits_is_listed_with_its_answers() {
        let option = |label: &str, description: &str| pb::QuestionOption {
            label: label.to_owned(),
            description: description.to_owned(),
        };
        let question = pb::Question {
            text: "Raise the budget?".to_owned(),
            options: vec![option("Raise it", "to 176 tokens"), option("Leave it", "")],
            ..pb::Question::default()
        };
        let mut request = pb::Request {
            id: "req_3".to_owned(),
            session_id: "sess_1".to_owned(),
            kind: pb::RequestKind::Question as i32,
            questions: vec![question.clone()],
            ..pb::Request::default()
        };
        assert_eq!(
            answer_lines(&request, "sess_1"),
            [
                "",
                "req_3 is answered with: obey session answer sess_1 req_3 ANSWER",
                "  1. Raise it: to 176 tokens",
                "  2. Leave it",
            ]
        );
        request.questions.push(question);
        assert!(answer_lines(&request, "sess_1").contains(&"2: Raise the budget?".to_owned()));
        request.questions.clear();
        assert!(answer_lines(&request, "sess_1").is_empty());
    }
}
