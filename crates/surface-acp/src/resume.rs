//! Resumes a connection of a previous daemon: reopens its sessions at the event where their output stopped,
//! and restores the requests that were pending on either side. What happened meanwhile is in the journal.

use std::sync::Arc;

use domain::{Error, ErrorCode, EventKind, SessionId, TurnId};
use runtime::Snapshot;

use super::connection::ConnectionContext;
use super::feed::{FeedStart, QuestionProgress, SentPast};
use super::resume_state::{self, ConnectionNotes, NoteWriter as _, NotedPrompt, SessionNotes};
use super::rpc::{INTERNAL_ERROR, RpcId};
use super::session_stream::{OpenPrompt, ResumedStream, SessionStream};
use super::watch::TurnWatch;

impl ConnectionContext {
    /// Restores the connection from its notes; a new connection has none. Returns false if something is
    /// unavailable now but may be available to the next daemon.
    pub(super) async fn take_up(self: &Arc<Self>, remembered: ConnectionNotes) -> bool {
        if let Some(params) = remembered.client {
            // `initialize` was answered before, or its line is replayed.
            let _answered = self.initialize(params);
        }
        self.client_requests.go_on_after(remembered.last_errand);
        for (id, session) in remembered.sessions {
            let rpcs = unanswered(&session);
            if let Err(error) = self.take_up_session(&id, session).await {
                let is_final = matches!(error.code, ErrorCode::SessionNotFound | ErrorCode::LimitReached);
                if !is_final || self.is_leaving() {
                    self.out.log("warn", format!("{id} cannot be taken up now: {error}"));
                    return false;
                }
                self.out.log("error", format!("{id} cannot be taken up again: {error}"));
                self.out.note(|notes| notes.closed(&id));
                for rpc in rpcs {
                    self.answer(&rpc, Err(self.fault(&error))).await;
                }
            }
        }
        true
    }

    /// Reopens one session of the connection.
    async fn take_up_session(self: &Arc<Self>, id: &SessionId, session: SessionNotes) -> Result<(), Error> {
        let snapshot = self.supervisor.snapshot(id).await?;
        let room = self.take_room().map_err(|fault| {
            debug_assert_eq!(fault.code, INTERNAL_ERROR);
            Error::new(ErrorCode::LimitReached, fault.message)
        })?;
        let begun =
            session.opened.asked.as_ref().and_then(|begun| Some((RpcId::read(&begun.rpc)?, begun.told)));
        let until = if begun.is_some() { session.opened.until } else { session.told };
        let beginning = match begun {
            Some((rpc, told)) => self.beginning(&snapshot, rpc, told),
            None => FeedStart::Live,
        };
        let noted = session.prompt.and_then(open);
        let sent = self.sent(&snapshot, session.told, noted.as_ref().map(|open| open.turn)).await?;
        // The journal holds a prompt without a note: the daemon ended between the two. Its line will be
        // replayed.
        let adopted = match (&noted, &sent) {
            (None, Some(JournalledPrompt { turn, rpc: Some(rpc), .. })) => {
                Some(OpenPrompt { turn: *turn, rpc: rpc.clone(), ends_as: None, notify_from: None })
            }
            _ => None,
        };
        let by_line = adopted.as_ref().map(|open| open.rpc.clone());
        let open = noted.or(adopted);
        if let Some(open) = &open {
            self.out.note(|notes| notes.prompt(id, Some(&open.noted())));
        }
        let (turn, notify_from) =
            open.as_ref().map_or((None, None), |open| (Some(open.turn), open.notify_from));
        // An agent started by a prompt without a note belongs to this connection too.
        let owns = session.owns || (by_line.is_some() && snapshot.state.status.has_agent());
        if owns && !session.owns {
            self.out.note(|notes| notes.owns(id));
        }
        // Before the first line is read, because it may be the answer.
        let again = |trail: resume_state::NotedQuestions| QuestionProgress {
            open: self.client_requests.again(trail.client_request),
            replies: trail.replies,
        };
        let trails = session.trails.into_iter().map(|(request, trail)| (request, again(trail))).collect();
        let told = SentPast { until, told: session.told, trails };
        let talk = SessionStream::open(
            self,
            &snapshot,
            room,
            beginning,
            ResumedStream { told, owns, open, adopted: by_line },
        );
        let text = sent.map(|sent| sent.text).unwrap_or_default();
        if let (Some(turn), Some(watch)) = (turn, TurnWatch::begin(&self.defaults, &text, notify_from)) {
            talk.watch_again(self, watch, turn);
        }
        self.talks().insert(id.clone(), talk);
        Ok(())
    }

    /// Finds a prompt of this connection in the journal: that of the given turn, or one started since.
    async fn sent(
        &self,
        snapshot: &Snapshot,
        told: u64,
        wanted: Option<TurnId>,
    ) -> Result<Option<JournalledPrompt>, Error> {
        let watches = self.defaults.idle_timeout.is_some() || self.defaults.notify.is_some();
        let from = match wanted {
            // The text is needed only for watching the turn.
            Some(_) if !watches => return Ok(None),
            Some(_) => 0,
            None => told,
        };
        let mut cursor = self.supervisor.events_after(&snapshot.spec.id, from).await?;
        let mut found = None;
        while cursor.seq() < snapshot.last_seq {
            for event in cursor.next().await? {
                let EventKind::TurnStarted { turn, prompt, by, .. } = &event.kind else { continue };
                let rpc = resume_state::signature(by, &self.connection);
                if wanted.map_or(rpc.is_some(), |wanted| wanted == *turn) {
                    found = Some(JournalledPrompt { turn: *turn, rpc, text: prompt.clone() });
                }
            }
        }
        Ok(found)
    }
}

/// A prompt as the journal has it.
struct JournalledPrompt {
    turn: TurnId,
    rpc: Option<RpcId>,
    text: String,
}

fn open(prompt: NotedPrompt) -> Option<OpenPrompt> {
    let ends_as = prompt.ends_as.map(|reason| if reason == "end_turn" { "end_turn" } else { "cancelled" });
    let rpc = RpcId::read(&prompt.rpc)?;
    Some(OpenPrompt { turn: prompt.turn, rpc, ends_as, notify_from: prompt.notify_from })
}

/// The client's requests that wait for this session.
fn unanswered(session: &SessionNotes) -> Vec<RpcId> {
    let begun = session.opened.asked.as_ref().map(|begun| &begun.rpc);
    let prompt = session.prompt.as_ref().map(|prompt| &prompt.rpc);
    begun.into_iter().chain(prompt).filter_map(RpcId::read).collect()
}
