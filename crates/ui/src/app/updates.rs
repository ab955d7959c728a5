//! What the daemon's side reports.

use view::{SessionSummary, SummaryState};

use super::{App, Connection, Effect, Focus, KnownState, millis};
use crate::data::{Request, Update};
use crate::transcript_pane::TranscriptPane;
use crate::{limits, sanitize};

impl App {
    /// Applies an update.
    pub(crate) fn update(&mut self, update: Update) {
        match update {
            Update::Connected => {
                if matches!(self.connection, Connection::Lost(_)) {
                    self.say("connected again; nothing was missed", false);
                }
                self.connection = Connection::Live;
            }
            Update::Lost if matches!(self.connection, Connection::Lost(_)) => {}
            Update::Lost => self.connection = Connection::Lost(self.now),
            Update::Overview { .. } | Update::MachineOverview { .. } | Update::Machine { .. } => {
                self.list_update(update);
            }
            Update::Opened { session, transcript } => self.opened(&session, *transcript),
            Update::Events { session, events } => {
                if let Some(pane) = self.pane_of(&session) {
                    for event in &events {
                        pane.transcript.apply(event.seq, event.at, &event.name, event.kind.as_ref());
                    }
                }
                self.show_wanted();
                self.update_card();
            }
            Update::OpenFailed { session, why } => {
                if let Some(open) = self.open.as_mut().filter(|open| open.id == session) {
                    open.loading = false;
                    open.failure = Some(why);
                }
            }
            Update::Requests { session, requests } => {
                if let Some(open) = self.open.as_mut().filter(|open| open.id == session) {
                    open.fetched = requests;
                }
                self.update_card();
            }
            Update::Attached { session, file } => self.attached(&session, file),
            Update::NotAttached { session, text, why } => self.not_attached(&session, &text, why),
            Update::PromptSent { session, text } => self.prompt_done(&session, &text),
            Update::PromptFailed { session, text, why } => self.prompt_failed(&session, &text, why),
            Update::AnswerFailed { session, request, why } => self.answer_failed(&session, &request, why),
            Update::Answered { text } | Update::Done { text } => self.say(text, false),
            Update::Failed { why, forbidden } => {
                self.read_only |= forbidden;
                self.say(why, true);
            }
            Update::Choices { .. } | Update::Created { .. } | Update::CreateFailed { .. } => {
                self.form_update(update);
            }
            Update::Diff { session, against, files, more } => {
                self.review_files(&session, against, files, more);
            }
            Update::DiffFile { session, path, lines } => self.review_lines(&session, path, lines),
            Update::ReviewFailed { session, why } => self.review_failed(&session, why),
            Update::Files { folder, paths } => {
                self.files.insert(folder, paths);
                self.complete();
            }
            Update::Queue { session, entries, paused } => self.queue_read(&session, entries, paused),
            Update::Found { text, found } => self.search_found(text, found),
            Update::Plan { session, plan } => self.plan_read(&session, plan),
            Update::PlansRead { session, problem } => self.plans_read(&session, problem),
            update @ Update::Usage { .. } => self.usage_read(update),
            Update::Merged { session, result } => self.merged(&session, result),
            Update::Highlighted(colored) => {
                self.highlights.insert(colored);
                if let Some(pane) = self.open.as_mut().and_then(|open| open.pane.as_mut()) {
                    pane.forget_layout();
                }
            }
        }
    }

    /// What concerns the list of sessions of all machines.
    fn list_update(&mut self, update: Update) {
        match update {
            Update::Overview { revision, snapshot, sessions, removed, machine } => {
                self.machine = machine;
                self.overview_changed(revision, snapshot, sessions, &removed);
            }
            Update::MachineOverview { machine, revision, snapshot, sessions, removed } => {
                for summary in &sessions {
                    self.note_change(summary, snapshot);
                }
                if snapshot {
                    self.overview.replace_machine(&machine, revision, sessions);
                } else {
                    self.overview.apply_machine(&machine, revision, sessions, &removed);
                }
                self.list_changed();
            }
            Update::Machine { name, problem } => {
                if !problem.is_empty() && self.machines.get(&name).is_none_or(String::is_empty) {
                    self.say(format!("{name} is not reached: {}", sanitize::clean_line(&problem)), true);
                }
                self.machines.insert(name, problem);
            }
            _ => {}
        }
    }

    fn pane_of(&mut self, session: &str) -> Option<&mut TranscriptPane> {
        self.open.as_mut().filter(|open| open.id == session)?.pane.as_mut()
    }

    fn opened(&mut self, session: &str, transcript: view::Transcript) {
        let reading = self.reading.remove(session).unwrap_or_default();
        let Some(open) = self.open.as_mut().filter(|open| open.id == session) else { return };
        open.loading = false;
        open.failure = None;
        let last = transcript.header().last_seq;
        match &mut open.pane {
            // One that was read further is not replaced by one that was read before.
            Some(pane) if pane.transcript.header().last_seq > last => return,
            Some(pane) => pane.replace(transcript),
            None => open.pane = Some(TranscriptPane::new(transcript, reading)),
        }
        let is_looked_at = !open.preview;
        self.show_wanted();
        self.update_card();
        if is_looked_at {
            self.send(Request::MarkSeen { session: session.to_owned(), seq: last });
        }
    }

    fn overview_changed(
        &mut self,
        revision: u64,
        snapshot: bool,
        sessions: Vec<SessionSummary>,
        removed: &[String],
    ) {
        for summary in &sessions {
            self.note_change(summary, snapshot);
        }
        if snapshot {
            self.overview.replace(revision, sessions);
        } else {
            self.overview.apply(revision, sessions, removed);
        }
        self.list_changed();
    }

    fn list_changed(&mut self) {
        let first = self.entries.is_empty();
        self.refresh_list(first);
        self.open_first();
        self.look_again();
        self.refresh_queue();
    }

    /// Opens the session that was named when starting, once it is known.
    fn open_first(&mut self) {
        let Some(wanted) = self.options.session.clone() else { return };
        let found =
            self.overview.sessions().find(|summary| summary.session == wanted || summary.name == wanted);
        if let Some(id) = found.map(|summary| summary.session.clone()) {
            self.options.session = None;
            self.open_session(&id, None);
            self.select_session(&id);
            self.focus = Focus::Transcript;
        }
    }

    /// Fetches requests that the transcript does not have, and says that the end of a turn was seen.
    fn look_again(&mut self) {
        let Some(open) = &self.open else { return };
        let Some(summary) = self.overview.get(&open.id) else { return };
        let known: Vec<String> = self.open_requests().iter().map(|request| request.request.clone()).collect();
        let missing = summary.requests.iter().any(|request| !known.contains(&request.request));
        let session = open.id.clone();
        let seen = matches!(summary.state, SummaryState::Done | SummaryState::Failed)
            && open.pane.is_some()
            && !open.preview;
        let last_seq = summary.last_seq;
        if missing {
            self.send(Request::ListRequests { session: session.clone() });
        }
        if seen {
            self.send(Request::MarkSeen { session, seq: last_seq });
        }
        self.update_card();
    }

    /// Announces what needs a person, failed or took long, once, unless the session is shown.
    fn note_change(&mut self, summary: &SessionSummary, snapshot: bool) {
        let requests: Vec<String> = summary.requests.iter().map(|request| request.request.clone()).collect();
        let new = KnownState { state: summary.state, since: summary.since, requests };
        let old = self.known.insert(summary.session.clone(), new.clone());
        let shown = self.open.as_ref().is_some_and(|open| open.id == summary.session && !open.preview);
        let Some(old) = old else { return };
        if snapshot || shown || !self.options.notices {
            return;
        }
        let name = sanitize::clean_line(&summary.name);
        let fresh = new.requests.iter().any(|request| !old.requests.contains(request));
        let took = new.since - old.since;
        let text = match summary.state {
            SummaryState::NeedsYou if fresh => format!("{name} needs you"),
            SummaryState::Failed if old.state != SummaryState::Failed => format!("{name} failed"),
            SummaryState::Done if old.state != SummaryState::Done && took >= millis(limits::LONG_TURN) => {
                format!("{name} is done")
            }
            _ => return,
        };
        self.effects.push(Effect::Notify(text));
    }

    fn answer_failed(&mut self, session: &str, request: &str, why: String) {
        let open = self.open.as_mut().filter(|open| open.id == session);
        if let Some(card) = open.and_then(|open| open.card.as_mut())
            && card.request == request
        {
            card.sent = false;
        }
        self.say(why, true);
    }

    fn prompt_done(&mut self, session: &str, text: &str) {
        if let Some(open) = self.open.as_mut().filter(|open| open.id == session)
            && let Some(at) = open.sending.iter().position(|sending| sending == text)
        {
            open.sending.remove(at);
            open.sent_attachments.retain(|(sent, _)| sent != text);
        }
    }

    /// Gives the text back: nothing that was typed is lost.
    fn prompt_failed(&mut self, session: &str, text: &str, why: String) {
        self.attach_again(session, text);
        self.prompt_done(session, text);
        if let Some(open) = self.open.as_mut().filter(|open| open.id == session) {
            let now = open.message.lines().join("\n");
            let text = if now.trim().is_empty() { text.to_owned() } else { format!("{text}\n{now}") };
            super::writing::set_text(&mut open.message, &text);
        } else {
            self.drafts.insert(session.to_owned(), text.split('\n').map(str::to_owned).collect());
        }
        self.say(why, true);
    }
}
