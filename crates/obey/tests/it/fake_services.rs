//! The services of `obey.v1` of the small daemon.

use std::pin::Pin;

use serde_json::json;
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, Response, Status};
use wire::obey::local::v1::SessionStatus;
use wire::obey::v1 as pb;
use wire::obey::v1::campaign_service_server::CampaignService;
use wire::obey::v1::event_service_server::EventService;
use wire::obey::v1::request_service_server::RequestService;
use wire::obey::v1::turn_service_server::TurnService;

use super::fake::{Fake, refuse};

type Answer<T> = Result<Response<T>, Status>;

fn ended(status: i32) -> bool {
    status == SessionStatus::Stopped as i32 || status == SessionStatus::Failed as i32
}

#[tonic::async_trait]
impl EventService for Fake {
    type ReadEventsStream = Pin<Box<dyn Stream<Item = Result<pb::Event, Status>> + Send>>;

    async fn reveal(&self, _: Request<pb::RevealRequest>) -> Answer<pb::RevealResponse> {
        Err(Status::unimplemented("reveal"))
    }

    async fn get_scrubbing(
        &self,
        request: Request<pb::GetScrubbingRequest>,
    ) -> Answer<pb::GetScrubbingResponse> {
        self.session(&request.into_inner().session_id)?;
        Ok(Response::new(pb::GetScrubbingResponse { events: true }))
    }

    async fn read_events(&self, request: Request<pb::ReadEventsRequest>) -> Answer<Self::ReadEventsStream> {
        let request = request.into_inner();
        self.session(&request.session_id)?;
        let (tx, rx) = mpsc::channel(16);
        let fake = self.clone();
        tokio::spawn(async move {
            let mut next = request.after_seq as usize;
            let mut changes = fake.changes.subscribe();
            loop {
                let (event, over) = {
                    let state = fake.state();
                    let event =
                        state.events.get(&request.session_id).and_then(|events| events.get(next)).cloned();
                    let session = state.sessions.iter().find(|session| session.id == request.session_id);
                    (event, state.closed || session.is_none_or(|session| ended(session.status)))
                };
                let enough = request.limit > 0 && next as u64 >= request.after_seq + request.limit;
                match event {
                    Some(_) if enough => return,
                    Some(event) => {
                        next += 1;
                        if tx.send(Ok(event)).await.is_err() {
                            return;
                        }
                    }
                    None if !request.follow || over => return,
                    None => tokio::select! {
                        _ = changes.changed() => {}
                        () = tx.closed() => return,
                    },
                }
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(rx))))
    }
}

#[tonic::async_trait]
impl TurnService for Fake {
    async fn prompt(&self, request: Request<pb::PromptRequest>) -> Answer<pb::PromptResponse> {
        let request = request.into_inner();
        let session = self.session(&request.session_id)?;
        if session.status != SessionStatus::Running as i32 {
            return Err(refuse(Code::FailedPrecondition, "OBEY-2011", "the session is not RUNNING"));
        }
        self.state().seen.prompts.push(request.clone());
        let (turn_id, seq) = self.begin_turn(request.session_id, &request.text);
        Ok(Response::new(pb::PromptResponse { turn_id, seq, ..Default::default() }))
    }

    async fn cancel_turn(&self, request: Request<pb::CancelTurnRequest>) -> Answer<pb::CancelTurnResponse> {
        let session = self.session(&request.into_inner().session_id)?;
        let cancelled = session.status == SessionStatus::Working as i32;
        self.state().cancelled = cancelled;
        self.changed();
        Ok(Response::new(pb::CancelTurnResponse { cancelled }))
    }

    async fn set_mode(&self, request: Request<pb::SetModeRequest>) -> Answer<pb::SetModeResponse> {
        let request = request.into_inner();
        self.session(&request.session_id)?;
        self.state().seen.modes.push(request.clone());
        Ok(Response::new(pb::SetModeResponse { mode: request.mode }))
    }
}

#[tonic::async_trait]
impl RequestService for Fake {
    async fn list_requests(
        &self,
        request: Request<pb::ListRequestsRequest>,
    ) -> Answer<pb::ListRequestsResponse> {
        let filter = request.into_inner();
        let mut requests = self.state().requests.clone();
        requests.retain(|request| filter.session_id.is_empty() || request.session_id == filter.session_id);
        requests.retain(|request| filter.include_settled || request.outcome.is_empty());
        Ok(Response::new(pb::ListRequestsResponse { requests }))
    }

    async fn answer_permission(
        &self,
        request: Request<pb::AnswerPermissionRequest>,
    ) -> Answer<pb::AnswerResponse> {
        let request = request.into_inner();
        self.state().seen.decisions.push(request.clone());
        let (outcome, decision) = match pb::Decision::try_from(request.decision).unwrap() {
            pb::Decision::AllowOnce => ("allowed once", "allow_once"),
            pb::Decision::AllowSession => ("allowed for the session", "allow_session"),
            pb::Decision::Deny => ("denied", "deny"),
            pb::Decision::DenyAndStop => ("denied and stopped", "deny_and_stop"),
            pb::Decision::Unspecified => panic!("no decision"),
        };
        let event =
            json!({"request": request.request_id, "outcome": "decided", "decision": decision, "by": "cli"});
        self.settle(&request.request_id, outcome, &event).map(Response::new)
    }

    async fn answer_question(
        &self,
        request: Request<pb::AnswerQuestionRequest>,
    ) -> Answer<pb::AnswerResponse> {
        let request = request.into_inner();
        self.state().seen.answers.push(request.clone());
        let event = json!({"request": request.request_id, "outcome": "answered", "answers": request.answers,
                           "by": "cli"});
        self.settle(&request.request_id, "answered", &event).map(Response::new)
    }
}

#[tonic::async_trait]
impl CampaignService for Fake {
    async fn add_campaign(&self, request: Request<pb::AddCampaignRequest>) -> Answer<pb::Campaign> {
        let request = request.into_inner();
        let folder = std::path::Path::new(&request.path);
        let default = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let name = if request.name.is_empty() { default } else { request.name };
        let campaign = pb::Campaign {
            id: format!("camp_{name}"),
            name,
            path: request.path,
            description: request.description,
            ..Default::default()
        };
        self.state().campaigns.push(campaign.clone());
        Ok(Response::new(campaign))
    }

    async fn list_campaigns(
        &self,
        _: Request<pb::ListCampaignsRequest>,
    ) -> Answer<pb::ListCampaignsResponse> {
        Ok(Response::new(pb::ListCampaignsResponse { campaigns: self.state().campaigns.clone() }))
    }

    async fn remove_campaign(
        &self,
        request: Request<pb::RemoveCampaignRequest>,
    ) -> Answer<pb::RemoveCampaignResponse> {
        let wanted = request.into_inner().campaign;
        let mut state = self.state();
        let at = state.campaigns.iter().position(|campaign| campaign.id == wanted || campaign.name == wanted);
        let Some(at) = at else {
            return Err(refuse(Code::NotFound, "OBEY-2001", &format!("no campaign {wanted}")));
        };
        Ok(Response::new(pb::RemoveCampaignResponse { campaign: Some(state.campaigns.remove(at)) }))
    }

    async fn set_campaign(&self, request: Request<pb::SetCampaignRequest>) -> Answer<pb::Campaign> {
        let request = request.into_inner();
        let mut state = self.state();
        let wanted = |campaign: &&mut pb::Campaign| campaign.name == request.campaign;
        let Some(campaign) = state.campaigns.iter_mut().find(wanted) else {
            return Err(refuse(Code::NotFound, "OBEY-2001", &format!("no campaign {}", request.campaign)));
        };
        campaign.scrub = request.scrub.or(campaign.scrub);
        Ok(Response::new(campaign.clone()))
    }
}
