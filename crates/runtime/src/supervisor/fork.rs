//! Forks a session: a new one whose history is a copy of another's up to an event, and whose agent starts with its next
//! prompt. An agent that can branch off its own conversation does; the others are told the history.

use std::sync::Arc;

use domain::limits::FORK_HISTORY_MAX_BYTES;
use domain::{
    Effect, Error, ErrorCode, Event, EventKind, Fork, Input, LaunchPolicy, Machine, ProviderKind, SessionId,
    SessionSpec, State, any_event,
};

use super::Supervisor;
use super::names::WhenTaken;
use crate::session::{Snapshot, audited};
use host::{clock, ids};
use storage::Durability;
use storage::sessions::{self, SessionWrite, StateColumns, StoredEvent};

impl Supervisor {
    /// Forks a session after an event; 0: after its last one. An empty name is made from the other session's.
    pub async fn fork(
        &self,
        from: &SessionId,
        seq: u64,
        name: &str,
        by: String,
    ) -> Result<Arc<Snapshot>, Error> {
        super::create::check_short("name", name)?;
        let source = self.row(from).await?;
        let last = if seq == 0 { source.last_seq } else { seq };
        if last > source.last_seq {
            return Err(Error::invalid(
                "seq",
                format_args!(
                    "{last} is beyond the last event, {}; use 1 to {}",
                    source.last_seq, source.last_seq
                ),
            ));
        }
        let (events, rest_is_quiet) = self.history_until(from, last).await?;
        let mut spec = SessionSpec {
            id: ids::session(),
            launch: LaunchPolicy::OnPrompt,
            created_at: clock::now(),
            ..source.spec.clone()
        };
        let state = events.iter().fold(State::new(&source.spec), |mut state, event| {
            state.evolve(event.at, &event.kind);
            state
        });
        let is_native = rest_is_quiet && state.turn.is_none() && can_branch(&spec, &state);
        let history = if is_native || spec.provider == ProviderKind::OpenaiApi {
            String::new()
        } else {
            transcript(&events)
        };
        let _naming = self.inner.naming.lock().await;
        let wanted = if name.is_empty() { format!("{}-fork", source.state.name) } else { name.to_owned() };
        let when_taken = if name.is_empty() { WhenTaken::Number } else { WhenTaken::Refuse };
        spec.name = self.free_name("name", &wanted, &spec.id, when_taken).await?;
        let fork = Fork { from: from.clone(), seq: last, history, name: spec.name.clone(), by };
        self.store_fork(source.key, last, spec, state, fork).await
    }

    /// Returns the events up to a number, and whether nothing was said after it.
    async fn history_until(&self, id: &SessionId, last: u64) -> Result<(Vec<Arc<Event>>, bool), Error> {
        let mut cursor = self.events_after(id, 0).await?;
        let (mut events, mut is_quiet) = (Vec::new(), true);
        loop {
            let more = cursor.available().await?;
            if more.is_empty() {
                return Ok((events, is_quiet));
            }
            for event in more {
                if event.seq <= last {
                    events.push(event);
                } else {
                    is_quiet &= !matches!(
                        event.kind,
                        EventKind::TurnStarted { .. }
                            | EventKind::MessageAdded { .. }
                            | EventKind::Compacted { .. }
                    );
                }
            }
        }
    }

    /// Writes the record, the copied events and those of the fork itself in one transaction.
    async fn store_fork(
        &self,
        source: i64,
        last: u64,
        spec: SessionSpec,
        state: State,
        fork: Fork,
    ) -> Result<Arc<Snapshot>, Error> {
        let at = spec.created_at;
        let mut machine = Machine::restore(spec.clone(), state);
        let effects = machine.apply(at, Input::Forked(fork))?;
        // A fork has no agent and no timers yet.
        let kinds = effects
            .into_iter()
            .filter_map(|effect| if let Effect::Record(kind) = effect { Some(kind) } else { None });
        let (mut events, mut entries, mut seq) = (Vec::new(), Vec::new(), last);
        for kind in kinds {
            seq += 1;
            entries.extend(audited::entry(&spec.id, at, &kind));
            events.push(StoredEvent { seq, at, body: sessions::json(&kind) });
        }
        let (state, id) = (machine.state().clone(), spec.id.clone());
        let audit = self.audit();
        let writer = audit.clone();
        let head = self
            .store()
            .write(Durability::Synced, move |connection| {
                let key = sessions::insert(connection, &spec, &state)?;
                sessions::copy_events(connection, source, key, last)?;
                let write = SessionWrite {
                    key,
                    events: events.iter().map(StoredEvent::clone).collect(),
                    last_seq: seq,
                    last_activity_at: Some(at),
                    state: Some(Box::new(StateColumns::of(&spec, &state, 0, 1))),
                    ..SessionWrite::default()
                };
                sessions::write(connection, &write)?;
                writer.append_within(connection, &entries)
            })
            .await?;
        audit.noted(head);
        // Its actor shows it in the overview.
        Ok(self.session(&id).await?.snapshot())
    }

    /// Removes an ended session: its record, its journal and its files.
    pub async fn remove(&self, id: &SessionId) -> Result<(), Error> {
        let snapshot = self.snapshot(id).await?;
        let status = snapshot.state.status;
        if status.has_agent() {
            return Err(Error::new(
                ErrorCode::WrongState,
                format!("session {id} is {}, only an ended one is removed; stop it first", status.name()),
            ));
        }
        self.delete(id).await?;
        self.remove_files(id).await;
        Ok(())
    }

    /// Removes the folders of a session's runs. What is still held is left to the next clean-up.
    async fn remove_files(&self, id: &SessionId) {
        let prefix = format!("{id}.");
        let Ok(dirs) = crate::process::scan::find_all(&self.inner.services.agents_dir) else { return };
        for dir in dirs {
            let is_own =
                dir.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(&prefix));
            if is_own && let Ok(Some(claim)) = crate::process::Claim::take(&dir) {
                crate::session::clear_placeholders(&dir).await;
                if let Err(error) = claim.clear().await {
                    tracing::warn!(%error, dir = %dir.display(), "cannot remove a folder of a removed session");
                }
            }
        }
    }
}

/// Returns whether the agent can branch off its own conversation: it keeps it where the fork finds it.
fn can_branch(spec: &SessionSpec, state: &State) -> bool {
    let is_shared = spec.containment.sandbox.is_none();
    spec.provider == ProviderKind::ClaudeCode && is_shared && !state.native_session.is_empty()
}

/// Returns the conversation in words, its end if it is too long.
fn transcript(events: &[Arc<Event>]) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut said = String::new();
    for event in events {
        match &event.kind {
            EventKind::TextDelta { text, parent: None } => {
                said.push_str(text);
                continue;
            }
            EventKind::TurnEnded { text, .. } if said.trim().is_empty() => said.clone_from(text),
            any_event!(
                life TurnStarted InterruptRequested MessageAdded TurnEnded TextDelta ThinkingDelta ToolStarted
                ToolProgress ToolFinished request settings plan usage worker report
            ) => {}
        }
        let line = match &event.kind {
            EventKind::TurnStarted { prompt, .. } | EventKind::MessageAdded { text: prompt, .. } => {
                Some(format!("User: {prompt}"))
            }
            EventKind::ToolStarted { tool, input, parent: None, .. } => {
                Some(format!("You called {tool}: {}", cut(&input.to_string())))
            }
            EventKind::ToolFinished { tool, ok, output, .. } => {
                let how = if *ok { "returned" } else { "failed" };
                Some(format!("{tool} {how}: {}", cut(output)))
            }
            EventKind::Compacted { summary, .. } if !summary.is_empty() => {
                Some(format!("Summary so far: {summary}"))
            }
            EventKind::TurnEnded { .. } => None,
            any_event!(
                life InterruptRequested TextDelta ThinkingDelta ToolStarted ToolProgress request settings plan
                UsageReported Compacted worker report
            ) => continue,
        };
        let words = std::mem::take(&mut said);
        if !words.trim().is_empty() {
            parts.push(format!("You: {}", words.trim()));
        }
        parts.extend(line.filter(|line| line != "User: "));
    }
    if !said.trim().is_empty() {
        parts.push(format!("You: {}", said.trim()));
    }
    end_of(&parts)
}

/// Joins the last parts that fit.
fn end_of(parts: &[String]) -> String {
    let mut length = 0;
    let fitting = parts.iter().rev().take_while(|part| {
        length += part.len() + 2;
        length <= FORK_HISTORY_MAX_BYTES
    });
    let kept = fitting.count();
    let text = parts[parts.len() - kept..].join("\n\n");
    if kept < parts.len() { format!("(The beginning is left out.)\n\n{text}") } else { text }
}

/// Shortens what a tool got or returned.
fn cut(text: &str) -> String {
    let limit = crate::limits::FORK_TOOL_TEXT_MAX_CHARS;
    match text.char_indices().nth(limit) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}… ({} characters in all)", &text[..end], text.chars().count()),
    }
}
