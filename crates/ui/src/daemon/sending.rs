//! Makes the call of the daemon that each request of the screen needs, and reports the result to the screen.

use client::answers::{self, AnsweredRequest, PermissionDecision};
use client::once;
use config::failure::{Failure, Result};
use domain::request::{PermissionSubject, Question, QuestionOption, RequestSubject};
use view::RequestRow;
use wire::obey::local::v1 as local;
use wire::obey::v1 as pb;

use super::{DaemonSettings, attaching, changes, is_forbidden, work};
use crate::data::{AttachedFile, PermissionAnswer, PromptDelivery, Request, Update};

/// Does what the screen asks. Returns what it is told; `None`: nothing.
pub(super) async fn send(settings: &DaemonSettings, request: Request) -> Option<Update> {
    match request {
        Request::Prompt { session, text, delivery, attachments } => {
            Some(prompt(settings, session, text, delivery, attachments).await)
        }
        Request::Attach { session, path, text } => Some(attaching::read(settings, session, path, text).await),
        Request::Decide(answer) => Some(decide(settings, answer).await),
        Request::Answer { session, request, answers } => {
            let to = AnsweredRequest { session: &session, request: &request, by: &settings.person };
            let sent = answers::answer(&settings.client, to, answers).await;
            Some(answered(session.clone(), request.clone(), sent))
        }
        Request::ListRequests { session } => match answers::list(&settings.client, &session, false).await {
            Ok(requests) => {
                let requests = requests.iter().map(request_row).collect();
                Some(Update::Requests { session, requests })
            }
            Err(failure) => Some(failed(failure)),
        },
        Request::Queue { session } => told(work::queue(settings, session, None).await),
        Request::QueueChange { session, change } => told(work::queue(settings, session, Some(change)).await),
        Request::Merge { session, commit } => Some(work::merge(settings, session, commit).await),
        Request::Diff { session } => Some(changes::files(settings, session).await),
        Request::DiffFile { session, path } => Some(changes::file(settings, session, path).await),
        // That nobody could note it is no reason to disturb.
        Request::MarkSeen { session, seq } => {
            let request = pb::MarkSeenRequest { session_id: session, seq };
            let _noted = settings.client.overview().mark_seen(request).await;
            None
        }
        request => match act(settings, request).await {
            Ok(text) => Some(Update::Done { text }),
            Err(failure) => Some(failed(failure)),
        },
    }
}

/// Says that something failed, and whether it is not allowed.
pub(super) fn failed(failure: Failure) -> Update {
    Update::Failed { forbidden: is_forbidden(&failure), why: failure.for_people() }
}

fn told(result: Result<Update>) -> Option<Update> {
    Some(result.unwrap_or_else(failed))
}

async fn act(settings: &DaemonSettings, request: Request) -> Result<String> {
    let client = &settings.client;
    Ok(match request {
        Request::Cancel { session } => {
            let request = pb::CancelTurnRequest { session_id: session, ..Default::default() };
            let answer = client.turns().cancel_turn(request).await?.into_inner();
            if answer.cancelled { "the turn was told to end" } else { "no turn is running" }.to_owned()
        }
        Request::Stop { session } => {
            let request = local::StopSessionRequest { session_id: session, graceful: true };
            client.daemon().stop_session(request).await?;
            "stopped".to_owned()
        }
        Request::Restart { session } => {
            let request = local::RestartSessionRequest { session_id: session, ..Default::default() };
            client.daemon().restart_session(request).await?;
            "restarted".to_owned()
        }
        Request::SetMode { session, mode } => {
            let request = pb::SetModeRequest { session_id: session, mode };
            let answer = client.turns().set_mode(request).await?.into_inner();
            format!("the mode is {}", answer.mode)
        }
        Request::Fork { session } => {
            let request = pb::ForkSessionRequest { session_id: session, ..Default::default() };
            let fork = client.session_operations().fork(request).await?.into_inner();
            format!("forked: {}", fork.name)
        }
        Request::Archive { session } => {
            let request = pb::ArchiveSessionRequest { session_id: session, undo: false };
            client.session_operations().archive(request).await?;
            "archived; obey session archive --undo shows it again".to_owned()
        }
        Request::Remove { session } => {
            let request = pb::RemoveSessionRequest { session_id: session };
            client.session_operations().remove(request).await?;
            "removed".to_owned()
        }
        Request::SetBudget { session, change } => work::set_budget(settings, session, change).await?,
        Request::Rename { session, name } => work::rename(settings, session, name).await?,
        // The others have answers of their own.
        _ => String::new(),
    })
}

async fn prompt(
    settings: &DaemonSettings,
    session: String,
    text: String,
    delivery: PromptDelivery,
    attachments: Vec<AttachedFile>,
) -> Update {
    let request = pb::PromptRequest {
        session_id: session.clone(),
        text: text.clone(),
        steer: delivery == PromptDelivery::Steer,
        queue: delivery == PromptDelivery::Queue,
        attachments: attachments.into_iter().map(attaching::to_wire).collect(),
        // A call that is repeated after a lost connection takes effect once.
        client_key: once::key(),
    };
    let sent = once::call(|| {
        let (client, request) = (settings.client.clone(), request.clone());
        async move { client.turns().prompt(request).await }
    });
    match sent.await {
        Ok(_) => Update::PromptSent { session, text },
        Err(failure) => Update::PromptFailed { session, text, why: failure.for_people() },
    }
}

async fn decide(settings: &DaemonSettings, answer: PermissionAnswer) -> Update {
    let PermissionAnswer { session, request, decision, message, input } = answer;
    let to = AnsweredRequest { session: &session, request: &request, by: &settings.person };
    let decision = PermissionDecision { message, input, ..PermissionDecision::of(decision) };
    let sent = answers::decide(&settings.client, to, decision).await;
    answered(session.clone(), request.clone(), sent)
}

fn answered(session: String, request: String, sent: Result<pb::AnswerResponse>) -> Update {
    match sent {
        Ok(response) => Update::Answered { text: answers::outcome(&response) },
        Err(failure) => Update::AnswerFailed { session, request, why: failure.for_people() },
    }
}

/// A request that was opened before what was read.
fn request_row(request: &pb::Request) -> RequestRow {
    let questions = request.questions.iter().map(|question| Question {
        id: question.id.clone(),
        header: question.header.clone(),
        text: question.text.clone(),
        options: question
            .options
            .iter()
            .map(|option| QuestionOption {
                label: option.label.clone(),
                description: option.description.clone(),
            })
            .collect(),
        multi_select: question.multi_select,
    });
    let subject = if request.kind() == pb::RequestKind::Question {
        RequestSubject::Question { questions: questions.collect(), call: None }
    } else {
        RequestSubject::Permission(PermissionSubject {
            call: None,
            tool: request.tool_name.clone(),
            input: serde_json::from_str(&request.input_json).unwrap_or_default(),
            title: request.title.clone(),
            parent: None,
        })
    };
    let proposals = request.proposals.iter().map(|proposal| domain::permission::Proposal {
        id: proposal.id.clone(),
        text: proposal.text.clone(),
    });
    let advice = domain::permission::PermissionAdvice {
        destructive: request.destructive.clone(),
        not_covered: request.not_covered.clone(),
    };
    view::request_row(&request.id, &subject, &proposals.collect::<Vec<_>>(), &advice)
}
