//! The rules of the prompt queue: what may be queued and changed, when the next entry is sent, and when the queue pauses.

use super::Transition;
use crate::agent::AgentInput;
use crate::command::QueueCommand;
use crate::error::{Error, ErrorCode};
use crate::event::{Attachment, EventKind};
use crate::id::{QueueEntryId, TurnId};
use crate::limits;
use crate::queue::{QueueChange, QueuedPrompt, size_of_prompt};
use crate::redact;
use crate::session::{LaunchPolicy, Status};
use crate::turn::{EndReason, TurnOrigin};

impl Transition<'_> {
    pub(super) fn queue_command(&mut self, command: QueueCommand) -> Result<(), Error> {
        match command {
            QueueCommand::Add { text, attachments, by } => self.enqueue(text, attachments, by),
            QueueCommand::Edit { entry, text, by } => {
                self.check_entry(entry)?;
                self.check_prompt_text(&text)?;
                let size = self.state().queue.size();
                let before = self.state().queue.find(entry).map_or(0, |queued| queued.text.len());
                check_room(size.saturating_sub(before) + text.len())?;
                self.change_queue(QueueChange::Edited { entry, prompt: text, by });
                Ok(())
            }
            QueueCommand::Move { entry, position, by } => {
                self.check_entry(entry)?;
                let last = u32::try_from(self.state().queue.entries.len()).unwrap_or(u32::MAX);
                if !(1..=last).contains(&position) {
                    return Err(Error::invalid(
                        "position",
                        format_args!("{position} is no place in the queue; use 1 to {last}"),
                    ));
                }
                self.change_queue(QueueChange::Moved { entry, position, by });
                Ok(())
            }
            QueueCommand::Drop { entry, by } => {
                self.check_entry(entry)?;
                self.change_queue(QueueChange::Dropped { entry, by });
                Ok(())
            }
            QueueCommand::Pause { by } => {
                let by = if by.is_empty() { "a client".to_owned() } else { by };
                self.change_queue(QueueChange::Paused { reason: format!("paused by {by}"), by });
                Ok(())
            }
            QueueCommand::Resume { by } => {
                if self.state().queue.paused.is_some() {
                    self.change_queue(QueueChange::Resumed { by });
                }
                self.send_queued();
                Ok(())
            }
        }
    }

    /// Adds a prompt at the end, and sends the first one if nothing runs.
    pub(super) fn enqueue(
        &mut self,
        text: String,
        attachments: Vec<Attachment>,
        by: String,
    ) -> Result<(), Error> {
        self.check_prompt_text(&text)?;
        let status = self.state().status;
        let on_prompt = self.machine.spec.launch == LaunchPolicy::OnPrompt;
        if status.is_terminal() && !on_prompt {
            return Err(self.wrong_state("restart it before something is queued for it"));
        }
        let queue = &self.state().queue;
        if queue.entries.len() >= limits::QUEUE_ENTRIES_MAX {
            return Err(Error::new(
                ErrorCode::LimitReached,
                format!("{} prompts wait already; drop one, or wait until one is sent", queue.entries.len()),
            ));
        }
        check_room(queue.size() + size_of_prompt(&text, &attachments))?;
        let entry = queue.next_id();
        self.change_queue(QueueChange::Added { entry, prompt: text, attachments, by });
        self.send_queued();
        Ok(())
    }

    /// Sends the first entry if the session is free for it. Called whenever the session may have become free.
    pub(super) fn send_queued(&mut self) {
        let state = self.state();
        let starts = match state.status {
            Status::Running => false,
            Status::Created => true,
            Status::Stopped | Status::Failed if self.machine.spec.launch == LaunchPolicy::OnPrompt => true,
            Status::Starting | Status::Working | Status::Stopping | Status::Stopped | Status::Failed => {
                return;
            }
        };
        if state.queue.paused.is_some() || state.turn.is_some() || state.rate_limit.is_some() {
            return;
        }
        let Some(next) = state.queue.entries.first().cloned() else { return };
        if let Err(error) = self.check_prompt(&next.text) {
            return self.pause_queue(&error.message);
        }
        let Some(QueuedPrompt { id, text, attachments, by, .. }) = self.as_queued(next) else {
            return self.pause_queue(
                "a secret was taken out of the next prompt and is no longer kept; edit the prompt, or drop it",
            );
        };
        let turn = TurnId(self.state().turns + 1);
        self.change_queue(QueueChange::Sent { entry: id, turn });
        self.open_turn(TurnOrigin::Client, text.clone(), attachments.clone(), by);
        if starts {
            self.launch("starting the agent for a queued prompt");
        } else {
            self.change_status(Status::Working, "working on a queued prompt");
            let text = self.with_fork_history(text);
            self.tell(AgentInput::Prompt { text, attachments });
        }
    }

    /// Returns an entry with the secrets that were taken out of the state; none if they are lost.
    fn as_queued(&self, mut queued: QueuedPrompt) -> Option<QueuedPrompt> {
        match self.machine.originals.queued.get(&queued.id) {
            Some(original) => {
                queued.text.clone_from(&original.text);
                queued.attachments.clone_from(&original.attachments);
                Some(queued)
            }
            None => (!queued.text.contains(redact::MARK)).then_some(queued),
        }
    }

    /// Resumes what the rules paused.
    pub(super) fn resume_queue(&mut self, by: String) {
        if self.state().queue.paused.as_ref().is_some_and(|pause| pause.by.is_empty()) {
            self.change_queue(QueueChange::Resumed { by });
        }
        self.send_queued();
    }

    /// Decides what the end of a turn means for the entries that wait.
    pub(super) fn turn_ended_for_queue(&mut self, reason: EndReason) {
        let queue = &self.state().queue;
        if reason == EndReason::Completed {
            if queue.paused.as_ref().is_some_and(|pause| pause.by.is_empty()) {
                self.change_queue(QueueChange::Resumed { by: String::new() });
            }
            return;
        }
        if queue.entries.is_empty() || queue.paused.is_some() {
            return;
        }
        let why = match reason {
            EndReason::Completed => return,
            EndReason::Cancelled => "the turn before was cancelled",
            EndReason::Failed => "the turn before failed",
            EndReason::Refused => "the model refused the turn before",
            EndReason::LimitReached => "the turn before reached a limit",
            EndReason::BudgetExceeded => "the budget is used up",
            EndReason::Interrupted => "the turn before was interrupted",
        };
        self.pause_queue(why);
    }

    fn pause_queue(&mut self, reason: &str) {
        self.change_queue(QueueChange::Paused { reason: reason.to_owned(), by: String::new() });
    }

    fn change_queue(&mut self, change: QueueChange) {
        self.record(EventKind::QueueChanged { change });
    }

    fn check_entry(&self, entry: QueueEntryId) -> Result<(), Error> {
        if self.state().queue.find(entry).is_some() {
            return Ok(());
        }
        Err(Error::new(
            ErrorCode::ItemNotFound,
            format!(
                "entry: {entry} does not wait in the queue of {}; it was sent or dropped, or never there",
                self.machine.spec.id
            ),
        ))
    }
}

fn check_room(bytes: usize) -> Result<(), Error> {
    if bytes > limits::QUEUE_MAX_BYTES {
        return Err(Error::new(
            ErrorCode::LimitReached,
            format!("the queue would hold {bytes} bytes; the limit is {}", limits::QUEUE_MAX_BYTES),
        ));
    }
    Ok(())
}
