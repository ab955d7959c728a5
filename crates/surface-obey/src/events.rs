//! `EventService`: the journal's events, unprojected.

use domain::event::Level;
use domain::{Command, Error, ErrorCode, EventKind};
use tonic::{Request, Response, Status};
use wire::obey::v1 as pb;
use wire::obey::v1::event_service_server::EventService;

use super::event_log::EventLogProjector;
use super::local::answer;
use super::{Obey, from_wire};
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

    /// Streams the events that were asked for: up to the newest one, or, with `follow`, until the session ends.
    async fn read(&self, request: pb::ReadEventsRequest) -> Result<Messages<pb::Event>, Error> {
        let id = from_wire::session_id(&request.session_id)?;
        let newest = self.supervisor.events_after(&id, 0).await?.newest();
        let range = from_wire::event_range(&request, newest)?;
        let snapshot = self.supervisor.snapshot(&id).await?;
        let mut cursor = self.supervisor.events_after(&id, range.after).await?;
        if range.skips_removed {
            cursor.skip_removed().await?;
        }
        let ended = snapshot.state.status.is_terminal() && snapshot.last_seq <= newest;
        let until = match range.until {
            None if ended => ReadUntil::Event(newest),
            None => ReadUntil::Followed,
            // Where all of it was removed there is nothing to read.
            Some(last) => ReadUntil::Event(last.max(cursor.seq().min(newest))),
        };
        let log = EventLogProjector {
            // A restarted session has ended before; only an end after this event counts.
            live_after: newest,
            left: (range.limit > 0).then_some(range.limit),
            max_bytes: match request.max_message_bytes as usize {
                0 => surface::limits::CLIENT_MESSAGE_BYTES,
                max => max,
            },
            format: pb::EventFormat::try_from(request.format).map_err(|_| {
                Error::invalid("format", "use EVENT_FORMAT_JSON, EVENT_FORMAT_TYPED, or none for both")
            })?,
        };
        Ok(pump(cursor, log, until))
    }
}
