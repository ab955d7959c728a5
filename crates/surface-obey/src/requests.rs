//! `RequestService`: requests that wait for a person, and their answers.

use domain::{Command, Error, ErrorCode, RequestId, SessionId};
use runtime::Snapshot;
use storage::sessions::SessionFilter;
use tonic::{Request, Response, Status};
use wire::obey::v1 as pb;
use wire::obey::v1::request_service_server::RequestService;

use super::local::answer;
use super::{Obey, from_wire, to_wire};
use surface::peer::{self, Caller, Role, Signer};

#[tonic::async_trait]
impl RequestService for Obey {
    async fn list_requests(
        &self,
        request: Request<pb::ListRequestsRequest>,
    ) -> Result<Response<pb::ListRequestsResponse>, Status> {
        answer(self.requests(request.into_inner()).await)
    }

    async fn answer_permission(
        &self,
        request: Request<pb::AnswerPermissionRequest>,
    ) -> Result<Response<pb::AnswerResponse>, Status> {
        let signer = Signer::of(request.extensions());
        if let Err(refused) = check_grant(&peer::caller(request.extensions()), request.get_ref()) {
            return answer(Err(refused));
        }
        answer(self.decide(request.into_inner(), &signer).await)
    }

    async fn answer_question(
        &self,
        request: Request<pb::AnswerQuestionRequest>,
    ) -> Result<Response<pb::AnswerResponse>, Status> {
        let signer = Signer::of(request.extensions());
        answer(self.answer_questions(request.into_inner(), &signer).await)
    }
}

/// A rule that outlives the session is the user's own, and only an owner adds one in another way too.
fn check_grant(caller: &Caller, answer: &pb::AnswerPermissionRequest) -> Result<(), Error> {
    let outlives_session = from_wire::choice(answer).is_some_and(|choice| choice.outlives_session());
    match caller {
        Caller::Device(device) if outlives_session && device.role != Role::Owner => Err(Error::new(
            ErrorCode::NotAllowed,
            format!(
                "grant: the role of {} is {}, and a rule for the project takes an owner; choose one for this session",
                device.name,
                device.role.name()
            ),
        )),
        _ => Ok(()),
    }
}

impl Obey {
    /// Lists the requests of one session, or of all.
    async fn requests(&self, request: pb::ListRequestsRequest) -> Result<pb::ListRequestsResponse, Error> {
        let requests = if request.session_id.is_empty() {
            let filter = SessionFilter { include_ended: request.include_settled, ..SessionFilter::default() };
            let sessions = self.supervisor.list(filter).await?;
            sessions.iter().flat_map(|session| of_session(session, request.include_settled)).collect()
        } else {
            let id = from_wire::session_id(&request.session_id)?;
            of_session(&*self.supervisor.snapshot(&id).await?, request.include_settled)
        };
        Ok(pb::ListRequestsResponse { requests })
    }

    async fn decide(
        &self,
        answer: pb::AnswerPermissionRequest,
        signer: &Signer,
    ) -> Result<pb::AnswerResponse, Error> {
        let id = from_wire::session_id(&answer.session_id)?;
        let request = from_wire::request_id(&answer.request_id)?;
        let grant = from_wire::choice(&answer);
        let command = Command::Decide {
            request,
            decision: from_wire::decision(answer.decision)?,
            message: answer.message,
            updated_input: from_wire::json("updated_input_json", &answer.updated_input_json)?,
            grant,
            by: signer.sign_answer(answer.answered_by)?,
        };
        self.settle(&id, request, command, &answer.client_key).await
    }

    async fn answer_questions(
        &self,
        answer: pb::AnswerQuestionRequest,
        signer: &Signer,
    ) -> Result<pb::AnswerResponse, Error> {
        let id = from_wire::session_id(&answer.session_id)?;
        let request = from_wire::request_id(&answer.request_id)?;
        if answer.answers.is_empty() {
            return Err(Error::invalid("answers", "is required"));
        }
        let command = Command::Answer {
            request,
            answers: from_wire::string_map(answer.answers),
            by: signer.sign_answer(answer.answered_by)?,
        };
        self.settle(&id, request, command, &answer.client_key).await
    }

    /// The first answer wins; a later one gets the settled request.
    async fn settle(
        &self,
        id: &SessionId,
        request: RequestId,
        command: Command,
        client_key: &str,
    ) -> Result<pb::AnswerResponse, Error> {
        let applied = self.supervisor.command_once(id, command, client_key).await?;
        let snapshot = self.supervisor.snapshot(id).await?;
        let settled = snapshot.state.settled_request(request).ok_or_else(|| {
            Error::new(ErrorCode::RequestNotFound, format!("session {id} has no request {request}"))
        })?;
        Ok(pb::AnswerResponse {
            request: Some(to_wire::settled_request(id, settled)),
            settled_by_this_answer: !applied.events.is_empty(),
        })
    }
}

/// Returns the requests of a session: the settled ones first, if wanted, then the pending ones.
fn of_session(snapshot: &Snapshot, include_settled: bool) -> Vec<pb::Request> {
    let id = &snapshot.spec.id;
    let settled = snapshot.state.settled.iter().filter(|_| include_settled);
    let mut requests: Vec<pb::Request> =
        settled.map(|settled| to_wire::settled_request(id, settled)).collect();
    requests.extend(snapshot.state.requests.values().map(|pending| to_wire::request(id, pending)));
    requests
}
