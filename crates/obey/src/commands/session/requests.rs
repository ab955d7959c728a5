//! `obey session requests`, `approve`, `deny` and `answer`: pending requests, and their answers.

use domain::{Decision, ErrorCode, RequestId};
use wire::obey::v1 as pb;

use super::print_requests;
use crate::answers::{self, AnsweredRequest, Granted, PermissionDecision};
use crate::args::session::{AnswerArgs, ApproveArgs, DenyArgs, RequestsArgs};
use crate::client::Client;
use crate::console::Console;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::format;
use crate::json;
use crate::output::TextStyle;
use crate::request_prompts::{OpenRequest, RequestContent, read_answers};
use crate::resolve;

pub(super) async fn run(console: &mut Console, args: &RequestsArgs) -> Result<Exit> {
    let client = console.connect().await?;
    let session = match &args.session {
        Some(typed) => resolve::session(&client, typed).await?,
        None => String::new(),
    };
    let requests = answers::list(&client, &session, args.all).await?;
    if console.out.json {
        let list: Vec<_> = requests.iter().map(json::request).collect();
        console.out.json(&serde_json::json!({"requests": list}))?;
        return Ok(Exit::OK);
    }
    if requests.is_empty() {
        console.out.note(TextStyle::Dim, "Nothing waits for an answer.")?;
    }
    print_requests(console, &requests)?;
    Ok(Exit::OK)
}

pub(super) async fn approve(console: &mut Console, args: ApproveArgs) -> Result<Exit> {
    let decision = if args.whole_session { Decision::AllowSession } else { Decision::AllowOnce };
    let grant = Granted {
        proposal: args.grant.unwrap_or_default(),
        expires: args.expires,
        uses: args.uses,
        sub_agents: args.sub_agents,
    };
    let verdict = PermissionDecision {
        input: args.input.unwrap_or_default(),
        grant,
        ..PermissionDecision::of(decision)
    };
    decide(console, &args.session, args.request.as_deref(), verdict).await
}

pub(super) async fn deny(console: &mut Console, args: DenyArgs) -> Result<Exit> {
    let decision = if args.stop { Decision::DenyAndStop } else { Decision::Deny };
    let verdict =
        PermissionDecision { message: args.message.unwrap_or_default(), ..PermissionDecision::of(decision) };
    decide(console, &args.session, args.request.as_deref(), verdict).await
}

async fn decide(
    console: &mut Console,
    session: &str,
    request: Option<&str>,
    verdict: PermissionDecision,
) -> Result<Exit> {
    let client = console.connect().await?;
    let session = resolve::session(&client, session).await?;
    let request = match request {
        Some(typed) => whole_id(typed),
        None => only(&client, &session, pb::RequestKind::Permission).await?.id,
    };
    let to = AnsweredRequest { session: &session, request: &request, by: &console.person() };
    let response = answers::decide(&client, to, verdict).await?;
    print_answer(console, &response)
}

pub(super) async fn answer(console: &mut Console, args: AnswerArgs) -> Result<Exit> {
    let client = console.connect().await?;
    let session = resolve::session(&client, &args.session).await?;
    // Only the full form names a request: a bare number is an answer.
    let named =
        args.words.first().filter(|word| word.starts_with("req_") && RequestId::parse(word).is_some());
    let (request, words) = match named {
        Some(id) => (find(&client, &session, id).await?, &args.words[1..]),
        None => (only(&client, &session, pb::RequestKind::Question).await?, args.words.as_slice()),
    };
    let RequestContent::Questions(questions) = OpenRequest::of_request(&request).what else {
        let message = format!("{} asks for a permission, not for an answer", request.id);
        return Err(
            Failure::usage(message).with_hint(format!("obey session approve {session} {}", request.id))
        );
    };
    let answers = read_answers(&questions, words).map_err(Failure::usage)?;
    let to = AnsweredRequest { session: &session, request: &request.id, by: &console.person() };
    let response = answers::answer(&client, to, answers).await?;
    print_answer(console, &response)
}

/// Returns the printed form of a request's id; the prefix is optional on input.
fn whole_id(typed: &str) -> String {
    RequestId::parse(typed).map_or_else(|| typed.to_owned(), |id| id.to_string())
}

async fn find(client: &Client, session: &str, id: &str) -> Result<pb::Request> {
    let requests = answers::list(client, session, true).await?;
    requests.into_iter().find(|request| request.id == id).ok_or_else(|| {
        Failure::coded(ErrorCode::RequestNotFound, format!("the session {session} has no request {id}"))
    })
}

/// Returns the only pending request of a kind.
async fn only(client: &Client, session: &str, kind: pb::RequestKind) -> Result<pb::Request> {
    let mut waiting = answers::list(client, session, false).await?;
    waiting.retain(|request| request.kind == kind as i32);
    let word = crate::names::request_kind(kind as i32);
    match waiting.len() {
        1 => Ok(waiting.remove(0)),
        0 => Err(Failure::coded(
            ErrorCode::RequestNotFound,
            format!("no {word} of the session {session} waits for an answer"),
        )),
        several => {
            let mut message = format!("{several} {word}s wait; say which one:");
            for request in &waiting {
                message.push_str(&format!(
                    "\n  {}",
                    format::one_line(&OpenRequest::of_request(request).summary())
                ));
            }
            Err(Failure::usage(message))
        }
    }
}

fn print_answer(console: &mut Console, response: &pb::AnswerResponse) -> Result<Exit> {
    if console.out.json {
        let request = response.request.as_ref().map(json::request);
        let value = serde_json::json!({
            "settled_by_this_answer": response.settled_by_this_answer,
            "request": request,
        });
        console.out.json(&value)?;
    } else {
        console.out.line(&answers::outcome(response))?;
    }
    // Another client answered first; a script must be able to detect that.
    Ok(if response.settled_by_this_answer { Exit::OK } else { Exit::WRONG_STATE })
}
