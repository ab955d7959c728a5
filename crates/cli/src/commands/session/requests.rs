//! `obey session requests`, `approve`, `deny` and `answer`: pending requests, and their answers.

use domain::{Decision, ErrorCode, RequestId};
use wire::obey::v1 as pb;

use super::{names_by_request, print_requests};
use crate::json;
use crate::json_types::{RequestListJson, value};
use cli_args::session::{AnswerArgs, ApproveArgs, DenyArgs, RequestsArgs};
use client::answers::{self, AnsweredRequest, Granted, PermissionDecision};
use client::connection::Client;
use client::format;
use client::resolve;
use config::exit::Exit;
use config::failure::{Failure, Result};
use terminal::console::Console;
use terminal::output::TextStyle;
use terminal::request_prompts::{OpenRequest, RequestContent, read_answers};

pub(super) async fn run(console: &mut Console, args: &RequestsArgs) -> Result<Exit> {
    let client = console.connect().await?;
    let session = match &args.session {
        Some(typed) => resolve::session(&client, typed).await?,
        None => String::new(),
    };
    let requests = answers::list(&client, &session, args.all).await?;
    if console.out.json {
        let requests = requests.iter().map(json::request_typed).collect();
        console.out.json(&value(&RequestListJson { requests }))?;
        return Ok(Exit::OK);
    }
    if requests.is_empty() {
        console.out.note(TextStyle::Dim, "Nothing waits for an answer.")?;
    }
    let known = names_by_request(&client, &requests).await?;
    print_requests(console, &requests, &known)?;
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
    let all = answers::list(client, session, false).await?;
    let (mut waiting, others): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|request| request.kind == kind as i32);
    let word = client::names::request_kind(kind as i32);
    match waiting.len() {
        1 => Ok(waiting.remove(0)),
        0 => Err(none_waits(session, word, &others)),
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

/// Returns the error that nothing of a kind waits; what else waits is named with the command that answers it.
fn none_waits(session: &str, word: &str, others: &[pb::Request]) -> Failure {
    let failure = Failure::coded(
        ErrorCode::RequestNotFound,
        format!("no {word} of the session {session} waits for an answer"),
    );
    let Some(other) = others.first() else { return failure };
    let commands = OpenRequest::of_request(other).commands(session);
    let kind = client::names::request_kind(other.kind);
    failure.with_hint(format!("{} is a {kind}: {}", other.id, commands.first().map_or("", String::as_str)))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn approving_a_question_says_how_to_answer_it() {
        let question = pb::Request {
            id: "req_3".to_owned(),
            kind: pb::RequestKind::Question as i32,
            questions: vec![pb::Question::default()],
            ..pb::Request::default()
        };
        let text = none_waits("sess_1", "permission", &[question]).for_people();
        let hint = "hint: req_3 is a question: obey session answer sess_1 req_3 ANSWER";
        assert!(text.contains(hint), "{text}");
        assert!(none_waits("sess_1", "question", &[]).for_people().contains("obey session requests"));
    }
}
