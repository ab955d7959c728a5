//! `TurnService`: prompts (also during a running turn), cancellation, modes.

use domain::{Command, Error, EventKind, Mode, WhenBusy};
use tonic::{Request, Response, Status};
use wire::obey::v1 as pb;
use wire::obey::v1::turn_service_server::TurnService;

use super::local::answer;
use super::{Obey, from_wire};

/// The `by` field of this surface's prompts in the journal.
const BY: &str = "obey.v1";

#[tonic::async_trait]
impl TurnService for Obey {
    async fn prompt(
        &self,
        request: Request<pb::PromptRequest>,
    ) -> Result<Response<pb::PromptResponse>, Status> {
        answer(self.prompt_turn(request.into_inner()).await)
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
        answer(self.change_mode(request.into_inner()).await)
    }
}

impl Obey {
    /// Sends a prompt. With `steer` it is added to a running turn; without, a running turn rejects it.
    async fn prompt_turn(&self, request: pb::PromptRequest) -> Result<pb::PromptResponse, Error> {
        let id = from_wire::session_id(&request.session_id)?;
        if request.text.trim().is_empty() {
            return Err(Error::invalid("text", "is required"));
        }
        let command = Command::Prompt {
            text: request.text,
            attachments: Vec::new(),
            when_busy: if request.steer { WhenBusy::Steer } else { WhenBusy::Refuse },
            by: BY.to_owned(),
        };
        let applied = self.supervisor.command(&id, command).await?;
        let prompt = applied.events.iter().find_map(|event| match &event.kind {
            EventKind::TurnStarted { turn, .. } | EventKind::MessageAdded { turn, .. } => {
                Some(pb::PromptResponse { turn_id: turn.to_string(), seq: event.seq })
            }
            _ => None,
        });
        Ok(prompt.unwrap_or_default())
    }

    async fn cancel(&self, request: pb::CancelTurnRequest) -> Result<pb::CancelTurnResponse, Error> {
        let id = from_wire::session_id(&request.session_id)?;
        let applied = self.supervisor.command(&id, Command::CancelTurn).await?;
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
