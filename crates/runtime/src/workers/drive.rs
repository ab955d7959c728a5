//! Sees one worker through: waits for its place, gives it its prompt, tells its parent what it spends and asks, and writes
//! down how it ended. After a crash the next daemon goes on from wherever it was.

use domain::request::RequestSubject;
use domain::turn::EndReason;
use domain::worker::{WorkerEnd, WorkerRecord, WorkerStatus};
use domain::{Command, Error, ErrorCode, EventKind, SessionId, Spending, Status, StopMode, WhenBusy};
use host::clock;
use storage::Durability;
use storage::workers as rows;

use super::Workers;
use crate::limits;
use crate::session::Snapshot;
use crate::supervisor::preview;

/// What the parent was told of a worker that runs.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Told {
    spent: Spending,
    /// The newest request.
    request: u64,
}

impl Told {
    fn of(snapshot: &Snapshot, counts: bool) -> Self {
        let spent = snapshot.state.spending(clock::now());
        // Time passes all the time; it is told with the rest.
        let spent = if counts { Spending { work_ms: 0, ..spent } } else { Spending::default() };
        Self { spent, request: snapshot.state.requests.keys().next_back().map_or(0, |newest| newest.0) }
    }

    fn is_news(self, before: Self) -> bool {
        self.spent != before.spent || self.request > before.request
    }
}

impl Workers {
    /// Drives a worker in a task of its own.
    pub(crate) fn drive_aside(&self, record: WorkerRecord) {
        let workers = self.clone();
        tokio::spawn(async move {
            if let Err(error) = workers.drive(&record).await {
                tracing::warn!(worker = %record.session, %error, "a worker cannot be seen through");
            }
        });
    }

    /// Sees a worker through to its end.
    pub(super) async fn drive(&self, record: &WorkerRecord) -> Result<WorkerEnd, Error> {
        let place = self.context().place(&record.parent).await;
        let refused = self.start(record).await?;
        let ended = match refused {
            Some(error) => self.end_unstarted(record, &error).await,
            None => {
                self.follow(record).await?;
                self.finish(record).await
            }
        };
        drop(place);
        ended
    }

    /// Gives a worker that has not started its prompt. Returns the error if its session refuses it.
    async fn start(&self, record: &WorkerRecord) -> Result<Option<Error>, Error> {
        let command = Command::Prompt {
            text: record.prompt.clone(),
            attachments: Vec::new(),
            when_busy: WhenBusy::Refuse,
            by: format!("parent {}", record.parent),
        };
        let mut ends = self.context().ends();
        // Only the one that is next asks again: a hundred that ask ten times a second keep a processor busy.
        let mut turn = None;
        loop {
            ends.mark_unchanged();
            let told = {
                let _pass = self.context().pass().await;
                let snapshot = self.supervisor.snapshot(&record.session).await?;
                if snapshot.state.status != Status::Created {
                    return Ok(None);
                }
                self.supervisor.command(&record.session, command.clone()).await
            };
            let is_full = told.as_ref().is_err_and(|error| error.code == ErrorCode::LimitReached);
            if !is_full || !self.is_wanted(record).await? {
                return Ok(told.err());
            }
            // As many agents run as the daemon may have; one of them will end.
            if turn.is_some() {
                // The end of a worker is told at once; that of another session, or free memory, is looked for.
                let _ = tokio::time::timeout(limits::WORKER_ROOM_WAIT, ends.changed()).await;
                continue;
            }
            let session = self.supervisor.session(&record.session).await?;
            tokio::select! {
                next = self.context().next_for_room() => turn = Some(next),
                // One that is cancelled waits no longer.
                _ = session.wait_until(|snapshot| snapshot.state.status != Status::Created) => {}
            }
        }
    }

    /// Returns whether a worker has not been cancelled.
    async fn is_wanted(&self, record: &WorkerRecord) -> Result<bool, Error> {
        Ok(self.row(&record.session).await?.is_some_and(|row| row.cancel_reason.is_none()))
    }

    /// Ends a worker whose session refused its prompt.
    async fn end_unstarted(&self, record: &WorkerRecord, error: &Error) -> Result<WorkerEnd, Error> {
        {
            let _pass = self.context().pass().await;
            // It may have been stopped meanwhile, which is why it refused.
            let _ = self.supervisor.command(&record.session, Command::Stop { how: StopMode::Now }).await;
        }
        let cancelled = self.row(&record.session).await?.is_some_and(|row| row.cancel_reason.is_some());
        if cancelled {
            return self.finish(record).await;
        }
        let end = WorkerEnd { status: WorkerStatus::Failed, summary: error.to_string() };
        let snapshot = self.supervisor.snapshot(&record.session).await?;
        self.note(record, &end, &snapshot).await?;
        Ok(end)
    }

    /// Waits until the session of a worker has ended; ends it when it is done.
    async fn follow(&self, record: &WorkerRecord) -> Result<(), Error> {
        let counts = self.has_budget(&record.parent).await;
        let mut told = Told::default();
        loop {
            let handle = {
                let _pass = self.context().pass().await;
                self.supervisor.session(&record.session).await?
            };
            let is_news = |snapshot: &Snapshot| {
                snapshot.state.status.is_terminal()
                    || is_done(record, snapshot)
                    || Told::of(snapshot, counts).is_news(told)
            };
            // An actor that is gone is found again, or this waits for ever because the daemon leaves.
            let Ok(snapshot) = handle.wait_until(is_news).await else { continue };
            if snapshot.state.status.is_terminal() {
                return Ok(());
            }
            if is_done(record, &snapshot) {
                {
                    let _pass = self.context().pass().await;
                    match self
                        .supervisor
                        .command(&record.session, Command::Stop { how: StopMode::Graceful })
                        .await
                    {
                        Err(error) if error.code != ErrorCode::AlreadyStopped => return Err(error),
                        _ => {}
                    }
                }
                // If the actor goes away, the next round finds out.
                let _ = handle.wait_until(|snapshot| snapshot.state.status.is_terminal()).await;
                continue;
            }
            self.tell_progress(record, &snapshot, told).await;
            told = Told::of(&snapshot, counts);
        }
    }

    /// Returns whether what a worker spends can end its parent's budget.
    async fn has_budget(&self, parent: &SessionId) -> bool {
        let parent = self.supervisor.snapshot(parent).await;
        parent.is_ok_and(|parent| !self.supervisor.spending(&parent).0.is_unlimited())
    }

    /// Tells the parent what a worker has spent and asks.
    async fn tell_progress(&self, record: &WorkerRecord, snapshot: &Snapshot, told: Told) {
        let _pass = self.context().pass().await;
        let newest = snapshot.state.requests.values().next_back().filter(|open| open.id.0 > told.request);
        let summary = match newest {
            Some(open) => format!("{} asks: {}", record.name, asked(&open.ask)),
            None => snapshot.state.last_line.text.clone(),
        };
        let spent = Some(snapshot.state.spending(clock::now()));
        let worker = record.session.to_string();
        let progressed = EventKind::WorkerProgressed { worker, summary, spent };
        if self.is_known(record).await
            && let Err(error) = self.report(&record.parent, progressed).await
        {
            tracing::debug!(worker = %record.session, %error, "the parent of a worker cannot be told");
        }
        self.check_parent_budget(&record.parent).await;
    }

    /// Ends the workers of a session whose budget is used up.
    async fn check_parent_budget(&self, parent: &SessionId) {
        let Ok(snapshot) = self.supervisor.snapshot(parent).await else { return };
        let (budget, spent) = self.supervisor.spending(&snapshot);
        if let Some(what) = budget.exhausted_by(&spent) {
            self.end_all_aside(parent, &format!("its parent has used {what}"));
        }
    }

    /// Returns whether the parent counts a worker among those that run.
    async fn is_known(&self, record: &WorkerRecord) -> bool {
        let parent = self.supervisor.snapshot(&record.parent).await;
        parent.is_ok_and(|parent| parent.state.workers.contains_key(record.session.as_str()))
    }

    /// Writes down how a worker whose session has ended did. Doing it again changes nothing.
    pub(super) async fn finish(&self, record: &WorkerRecord) -> Result<WorkerEnd, Error> {
        let row = self.row(&record.session).await?;
        let Some(row) = row else {
            return Ok(WorkerEnd {
                status: WorkerStatus::Cancelled,
                summary: "its session was removed".to_owned(),
            });
        };
        if let Some(status) = row.status {
            return Ok(WorkerEnd { status, summary: row.summary });
        }
        let snapshot = self.supervisor.snapshot(&record.session).await?;
        let end = self.end_of(&row, &snapshot).await?;
        self.note(record, &end, &snapshot).await?;
        Ok(end)
    }

    /// Tells the parent of a worker's end, then puts it on record: in this order a crash in between repeats the first,
    /// which is recognized, and loses nothing.
    async fn note(&self, record: &WorkerRecord, end: &WorkerEnd, snapshot: &Snapshot) -> Result<(), Error> {
        let _pass = self.context().pass().await;
        let ok = end.status == WorkerStatus::Completed;
        let summary = if ok { preview(&end.summary) } else { end.summary.clone() };
        let spent = Some(snapshot.state.spending(clock::now()));
        let finished = EventKind::WorkerFinished { worker: record.session.to_string(), ok, summary, spent };
        if self.is_known(record).await
            && let Err(error) = self.report(&record.parent, finished).await
        {
            tracing::debug!(worker = %record.session, %error, "the parent of a worker cannot be told of its end");
        }
        let (end, at) = (end.clone(), clock::now());
        // It gets its prompt no more.
        let shown =
            WorkerRecord { prompt: self.supervisor.without_secrets(&record.prompt), ..record.clone() };
        let ended = move |connection: &rusqlite::Connection| {
            rows::end(connection, &shown, end.status, &end.summary, at)
        };
        self.supervisor.store().write(Durability::Synced, ended).await?;
        self.context().note_end();
        self.check_parent_budget(&record.parent).await;
        Ok(())
    }
}

/// Returns whether a worker has done what it was started for, and does nothing else.
fn is_done(record: &WorkerRecord, snapshot: &Snapshot) -> bool {
    let state = &snapshot.state;
    let is_idle = state.status == Status::Running && state.turn.is_none() && state.turns > 0;
    let spent_all = state.last_turn.as_ref().is_some_and(|turn| turn.reason == EndReason::BudgetExceeded);
    let goes_on =
        state.is_busy_between_turns() || state.rate_limit.is_some() || !state.queue.entries.is_empty();
    !record.lingers && is_idle && (spent_all || !goes_on)
}

/// Says in a line what a request asks for.
fn asked(subject: &RequestSubject) -> String {
    match subject {
        RequestSubject::Permission(asked) if !asked.title.is_empty() => asked.title.clone(),
        RequestSubject::Permission(asked) => asked.tool.clone(),
        RequestSubject::Question { questions, .. } => {
            questions.first().map(|question| preview(&question.text)).unwrap_or_default()
        }
        RequestSubject::ClientTool { tool, .. } => tool.clone(),
    }
}
