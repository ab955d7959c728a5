//! `EventService`: the journal's events, unprojected.

use domain::event::Level;
use domain::{Command, Error, ErrorCode, EventKind};
use tonic::{Request, Response, Status};
use wire::obey::v1 as pb;
use wire::obey::v1::event_service_server::EventService;

use super::local::answer;
use super::{Obey, from_wire, to_wire};
use surface::access;
use surface::pump::{Messages, ReadUntil, pump};

#[tonic::async_trait]
impl EventService for Obey {
    type ReadEventsStream = Messages<pb::Event>;

    async fn read_events(
        &self,
        request: Request<pb::ReadEventsRequest>,
    ) -> Result<Response<Self::ReadEventsStream>, Status> {
        answer(self.read(request.into_inner()).await)
    }

    async fn reveal(
        &self,
        request: Request<pb::RevealRequest>,
    ) -> Result<Response<pb::RevealResponse>, Status> {
        let request = request.into_inner();
        let summary = access::Summary(format!("event {}", request.seq));
        let mut response = answer(self.reveal_event(request).await)?;
        response.extensions_mut().insert(summary);
        Ok(response)
    }

    async fn get_scrubbing(
        &self,
        request: Request<pb::GetScrubbingRequest>,
    ) -> Result<Response<pb::GetScrubbingResponse>, Status> {
        answer(self.scrubbing(&request.into_inner()).await)
    }
}

impl Obey {
    async fn scrubbing(&self, request: &pb::GetScrubbingRequest) -> Result<pb::GetScrubbingResponse, Error> {
        let id = from_wire::session_id(&request.session_id)?;
        Ok(pb::GetScrubbingResponse { events: self.supervisor.scrubs_events(&id).await? })
    }

    async fn reveal_event(&self, request: pb::RevealRequest) -> Result<pb::RevealResponse, Error> {
        let id = from_wire::session_id(&request.session_id)?;
        let newest = self.supervisor.events_after(&id, 0).await?.newest();
        if request.seq == 0 || request.seq > newest {
            return Err(Error::invalid(
                "seq",
                format_args!("there is no event {}; the newest is {newest}", request.seq),
            ));
        }
        let Some(original) = self.supervisor.original(&id, request.seq) else {
            return Err(Error::invalid(
                "seq",
                format_args!(
                    "nothing was taken out of event {}, or it was journalled more than ten minutes or a restart of the daemon ago",
                    request.seq
                ),
            ));
        };
        // Recorded before the secrets are returned.
        let message = format!("event {} was shown with its secrets (reveal)", request.seq);
        let notice = EventKind::Notice { level: Level::Warning, code: None, message };
        self.supervisor.command(&id, Command::Report(notice)).await?;
        let json = serde_json::to_string(&original)
            .map_err(|error| Error::new(ErrorCode::SessionError, error.to_string()))?;
        Ok(pb::RevealResponse { seq: request.seq, r#type: original.name().to_owned(), json })
    }

    /// Streams the events after `after_seq`: up to the newest one, or, with `follow`, until the session ends.
    async fn read(&self, request: pb::ReadEventsRequest) -> Result<Messages<pb::Event>, Error> {
        let id = from_wire::session_id(&request.session_id)?;
        let newest = self.supervisor.events_after(&id, 0).await?.newest();
        if request.after_seq > newest && !request.follow {
            return Err(Error::invalid(
                "after_seq",
                format_args!("{} lies behind the newest event, {newest}", request.after_seq),
            ));
        }
        let snapshot = self.supervisor.snapshot(&id).await?;
        let cursor = self.supervisor.events_after(&id, request.after_seq).await?;
        let ended = snapshot.state.status.is_terminal() && snapshot.last_seq <= newest;
        let until = if request.follow && !ended { ReadUntil::Followed } else { ReadUntil::Event(newest) };
        let log = to_wire::EventLogProjector {
            // A restarted session has ended before; only an end after this event counts.
            live_after: newest,
            left: (request.limit > 0).then_some(request.limit),
            max_bytes: match request.max_message_bytes as usize {
                0 => surface::limits::CLIENT_MESSAGE_BYTES,
                max => max,
            },
        };
        Ok(pump(cursor, log, until))
    }
}
