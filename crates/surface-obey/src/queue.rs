//! `QueueService`: prompts that wait for their turn.

use domain::queue::{QueueChange, QueuedPrompt};
use domain::{Command, Error, EventKind, QueueCommand, SessionId};
use tonic::{Request, Response, Status};
use wire::obey::v1 as pb;
use wire::obey::v1::queue_service_server::QueueService;

use super::local::answer;
use super::{Obey, from_wire, to_wire};
use surface::peer::Signer;

#[tonic::async_trait]
impl QueueService for Obey {
    async fn add(
        &self,
        request: Request<pb::AddQueuedRequest>,
    ) -> Result<Response<pb::AddQueuedResponse>, Status> {
        let by = by(&request);
        answer(self.add_queued(request.into_inner(), by).await)
    }

    async fn list(&self, request: Request<pb::ListQueuedRequest>) -> Result<Response<pb::Queue>, Status> {
        let id = from_wire::session_id(&request.into_inner().session_id);
        answer(match id {
            Ok(id) => self.queue(&id).await,
            Err(error) => Err(error),
        })
    }

    async fn edit(&self, request: Request<pb::EditQueuedRequest>) -> Result<Response<pb::Queue>, Status> {
        let by = by(&request);
        let request = request.into_inner();
        answer(self.edit_queued(request, by).await)
    }

    async fn r#move(&self, request: Request<pb::MoveQueuedRequest>) -> Result<Response<pb::Queue>, Status> {
        let by = by(&request);
        let request = request.into_inner();
        let entry = from_wire::queue_entry(&request.entry);
        let position = request.position;
        let change = entry.map(|entry| QueueCommand::Move { entry, position, by });
        answer(self.change_queue(&request.session_id, change).await)
    }

    async fn drop(&self, request: Request<pb::DropQueuedRequest>) -> Result<Response<pb::Queue>, Status> {
        let by = by(&request);
        let request = request.into_inner();
        let change = from_wire::queue_entry(&request.entry).map(|entry| QueueCommand::Drop { entry, by });
        answer(self.change_queue(&request.session_id, change).await)
    }

    async fn pause(&self, request: Request<pb::PauseQueueRequest>) -> Result<Response<pb::Queue>, Status> {
        let by = by(&request);
        let id = request.into_inner().session_id;
        answer(self.change_queue(&id, Ok(QueueCommand::Pause { by })).await)
    }

    async fn resume(&self, request: Request<pb::ResumeQueueRequest>) -> Result<Response<pb::Queue>, Status> {
        let by = by(&request);
        let id = request.into_inner().session_id;
        answer(self.change_queue(&id, Ok(QueueCommand::Resume { by })).await)
    }
}

impl Obey {
    async fn add_queued(
        &self,
        request: pb::AddQueuedRequest,
        by: String,
    ) -> Result<pb::AddQueuedResponse, Error> {
        let id = from_wire::session_id(&request.session_id)?;
        if request.text.trim().is_empty() {
            return Err(Error::invalid("text", "is required"));
        }
        let attachments = from_wire::attachments(request.attachments)?;
        self.check_attachments(&id, &attachments).await?;
        let command = Command::Queue(QueueCommand::Add { text: request.text, attachments, by });
        let applied = self.supervisor.command_once(&id, command, &request.client_key).await?;
        let mut told = pb::AddQueuedResponse::default();
        for event in &applied.events {
            let EventKind::QueueChanged { change } = &event.kind else { continue };
            if let QueueChange::Added { entry, .. } = change {
                told.entry = entry.to_string();
                told.seq = event.seq;
            } else if let QueueChange::Sent { entry, turn } = change
                && entry.to_string() == told.entry
            {
                told.turn_id = turn.to_string();
            }
        }
        Ok(told)
    }

    async fn edit_queued(&self, request: pb::EditQueuedRequest, by: String) -> Result<pb::Queue, Error> {
        if request.text.trim().is_empty() {
            return Err(Error::invalid("text", "is required; drop the entry to send nothing"));
        }
        let entry = from_wire::queue_entry(&request.entry)?;
        let change = QueueCommand::Edit { entry, text: request.text, by };
        self.change_queue(&request.session_id, Ok(change)).await
    }

    async fn change_queue(&self, id: &str, change: Result<QueueCommand, Error>) -> Result<pb::Queue, Error> {
        let id = from_wire::session_id(id)?;
        self.supervisor.command(&id, Command::Queue(change?)).await?;
        self.queue(&id).await
    }

    async fn queue(&self, id: &SessionId) -> Result<pb::Queue, Error> {
        let snapshot = self.supervisor.snapshot(id).await?;
        let queue = &snapshot.state.queue;
        Ok(pb::Queue {
            session_id: id.to_string(),
            entries: queue.entries.iter().map(entry).collect(),
            paused: queue.paused.as_ref().map(|pause| pause.reason.clone()).unwrap_or_default(),
        })
    }
}

fn entry(queued: &QueuedPrompt) -> pb::QueuedPrompt {
    pb::QueuedPrompt {
        id: queued.id.to_string(),
        text: queued.text.clone(),
        attachments: queued.attachments.iter().map(|file| file.name.clone()).collect(),
        added_by: queued.by.clone(),
        added_at: Some(to_wire::timestamp(queued.at)),
    }
}

fn by<T>(request: &Request<T>) -> String {
    Signer::of(request.extensions()).name()
}
