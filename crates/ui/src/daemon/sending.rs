//! One call of the daemon for each request of the screen, and what the screen is told of it.

use client::answers::{self, AnsweredRequest, PermissionDecision};
use client::names;
use client::once;
use config::failure::{Failure, Result};
use domain::ProviderKind;
use domain::request::{PermissionSubject, Question, QuestionOption, RequestSubject};
use view::RequestRow;
use wire::obey::local::v1 as local;
use wire::obey::v1 as pb;

use super::{DaemonSettings, attaching, changes, is_forbidden, work};
use crate::data::{AttachedFile, Campaign, NewSession, PermissionAnswer, PromptDelivery, Request, Update};

/// The key of `provider_config` that holds the mode.
const MODE_KEY: &str = "permission_mode";

/// The key of `provider_config` that names the tree; empty: a new one named by the first message.
const WORKTREE_KEY: &str = "worktree";

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
            Err(failure) => failed(failure),
        },
        Request::Create(new) => Some(match create(settings, new).await {
            Ok(session) => Update::Created { session },
            Err(failure) => Update::CreateFailed { why: failure.for_people() },
        }),
        Request::Choices => told(choices(settings).await),
        Request::Queue { session } => told(work::queue(settings, session, None).await),
        Request::QueueChange { session, change } => told(work::queue(settings, session, Some(change)).await),
        Request::Usage { by, span } => told(work::usage(settings, by, span).await),
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
            Err(failure) => failed(failure),
        },
    }
}

fn failed(failure: Failure) -> Option<Update> {
    Some(Update::Failed { forbidden: is_forbidden(&failure), why: failure.for_people() })
}

fn told(result: Result<Update>) -> Option<Update> {
    result.map_or_else(failed, Some)
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

async fn create(settings: &DaemonSettings, new: NewSession) -> Result<String> {
    let provider = ProviderKind::ALL.into_iter().find(|kind| kind.name() == new.provider);
    let provider =
        provider.ok_or_else(|| Failure::failed(format!("there is no provider {}", new.provider)))?;
    let tree = new.worktree.then(|| new.name.clone());
    let mut request = local::CreateSessionRequest {
        campaign_id: new.campaign,
        provider: names::provider_number(provider).into(),
        model: new.model,
        agent_name: new.name.clone(),
        max_tokens: i64::try_from(new.max_tokens).unwrap_or(i64::MAX),
        initial_message: new.message.clone(),
        ..local::CreateSessionRequest::default()
    };
    if new.name.is_empty() && !new.message.is_empty() {
        let prompt = names::beginning(&new.message).to_owned();
        request.provider_config.insert(names::NAME_PROMPT_KEY.to_owned(), prompt);
    }
    if !new.mode.is_empty() {
        request.provider_config.insert(MODE_KEY.to_owned(), new.mode);
    }
    if let Some(tree) = tree {
        request.provider_config.insert(WORKTREE_KEY.to_owned(), tree);
    }
    let response = settings.client.daemon().create_session(request).await?.into_inner();
    let session = response.session.unwrap_or_default();
    if names::status(session.status) == Some(domain::Status::Failed) {
        return Err(Failure::failed(session.error_message));
    }
    Ok(session.id)
}

async fn choices(settings: &DaemonSettings) -> Result<Update> {
    let request = pb::ListCampaignsRequest {};
    let listed = settings.client.campaigns().list_campaigns(request).await?.into_inner().campaigns;
    let campaigns: Vec<Campaign> = listed
        .into_iter()
        .map(|campaign| Campaign { id: campaign.id, name: campaign.name, path: campaign.path })
        .collect();
    let folder = settings.folder.as_path();
    let around = campaigns.iter().filter(|campaign| folder.starts_with(&campaign.path));
    let current = around.max_by_key(|campaign| campaign.path.len()).map(|campaign| campaign.id.clone());
    // An external agent is started elsewhere.
    let run_here = ProviderKind::ALL.into_iter().filter(|kind| *kind != ProviderKind::External);
    let providers = usable(settings, run_here.map(|kind| kind.name().to_owned()).collect()).await;
    Ok(Update::Choices { campaigns, providers, current })
}

/// Returns the providers that are installed, the one that is used by default first; all where the daemon does not say.
async fn usable(settings: &DaemonSettings, all: Vec<String>) -> Vec<String> {
    let mut service = settings.client.installed_agents();
    let asked = service.list_installed_agents(pb::ListInstalledAgentsRequest::default()).await;
    let Ok(answered) = asked else { return all };
    let pb::ListInstalledAgentsResponse { agents, default_agent } = answered.into_inner();
    let is_there =
        |name: &String| agents.iter().any(|agent| agent.provider == *name && agent.state != "missing");
    let mut usable: Vec<String> = all.iter().filter(|name| is_there(name)).cloned().collect();
    usable.sort_by_key(|name| *name != default_agent);
    if usable.is_empty() { all } else { usable }
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
