//! `TurnService`: prompts (also during a running turn), cancellation, modes.

use domain::queue::QueueChange;
use domain::{Command, Error, EventKind, Mode, WhenBusy, any_event};
use tonic::{Request, Response, Status};
use wire::obey::v1 as pb;
use wire::obey::v1::turn_service_server::TurnService;

use super::local::answer;
use super::{Obey, from_wire};
use runtime::Applied;
use surface::peer::Signer;

#[tonic::async_trait]
impl TurnService for Obey {
    async fn prompt(
        &self,
        request: Request<pb::PromptRequest>,
    ) -> Result<Response<pb::PromptResponse>, Status> {
        let signer = Signer::of(request.extensions());
        answer(self.prompt_turn(request.into_inner(), &signer).await)
    }

    async fn cancel_turn(
        &self,
        request: Request<pb::CancelTurnRequest>,
    ) -> Result<Response<pb::CancelTurnResponse>, Status> {
        answer(self.cancel(request.into_inner()).await)
    }

    async fn set_mode(
        &self,
        request: Request<pb::SetModeRequest>,
    ) -> Result<Response<pb::SetModeResponse>, Status> {
        // A mode decides how requests are answered.
        let allowed = Signer::of(request.extensions()).check_may_answer();
        let changing = async {
            allowed?;
            self.change_mode(request.into_inner()).await
        };
        answer(changing.await)
    }
}

impl Obey {
    /// Sends a prompt. With `steer` it is added to a running turn, with `queue` it waits for the turn's end; with
    /// neither, a running turn rejects it.
    async fn prompt_turn(
        &self,
        request: pb::PromptRequest,
        signer: &Signer,
    ) -> Result<pb::PromptResponse, Error> {
        let id = from_wire::session_id(&request.session_id)?;
        if request.text.trim().is_empty() {
            return Err(Error::invalid("text", "is required"));
        }
        let when_busy = match (request.steer, request.queue) {
            (true, true) => {
                return Err(Error::invalid("queue", "a prompt is queued or added to the turn, not both"));
            }
            (true, false) => WhenBusy::Steer,
            (false, true) => WhenBusy::Queue,
            (false, false) => WhenBusy::Refuse,
        };
        let attachments = from_wire::attachments(request.attachments)?;
        self.check_attachments(&id, &attachments).await?;
        let command = Command::Prompt { text: request.text, attachments, when_busy, by: signer.name() };
        let applied = self.supervisor.command_once(&id, command, &request.client_key).await?;
        Ok(told(&applied))
    }

    async fn cancel(&self, request: pb::CancelTurnRequest) -> Result<pb::CancelTurnResponse, Error> {
        let id = from_wire::session_id(&request.session_id)?;
        let applied = self.supervisor.command_once(&id, Command::CancelTurn, &request.client_key).await?;
        Ok(pb::CancelTurnResponse { cancelled: !applied.events.is_empty() })
    }

    /// Changes the mode of a session.
    async fn change_mode(&self, request: pb::SetModeRequest) -> Result<pb::SetModeResponse, Error> {
        let id = from_wire::session_id(&request.session_id)?;
        let mode = Mode::parse(&request.mode).ok_or_else(|| {
            Error::invalid(
                "mode",
                format_args!(
                    "{:?} is not a mode; use supervised, autonomous, plan or acceptEdits",
                    request.mode
                ),
            )
        })?;
        self.supervisor.set_mode(&id, mode).await?;
        Ok(pb::SetModeResponse { mode: mode.name().to_owned() })
    }
}

/// Returns the result of a prompt: its turn, or its position in the queue.
fn told(applied: &Applied) -> pb::PromptResponse {
    let mut told = pb::PromptResponse::default();
    for event in &applied.events {
        match &event.kind {
            EventKind::QueueChanged { change: QueueChange::Added { entry, .. } } => {
                told.queued = entry.to_string();
                told.seq = event.seq;
            }
            EventKind::TurnStarted { turn, .. } | EventKind::MessageAdded { turn, .. } => {
                told.turn_id = turn.to_string();
                told.seq = event.seq;
            }
            any_event!(
                life InterruptRequested TurnEnded output request settings QueueChanged BudgetChanged
                RateLimited RateLimitEnded ArchiveChanged SessionForked usage worker report
            ) => {}
        }
    }
    told
}
