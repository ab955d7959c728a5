//! The state of a session that must outlive the daemon and may contain secrets: stored sealed, in one column.

use domain::Originals;
use serde::{Deserialize, Serialize};

use super::super::scrubbing::SavedText;
use super::*;

/// The state that is stored sealed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Private {
    pub(super) codec: String,
    #[serde(skip_serializing_if = "Originals::is_empty")]
    pub(super) originals: Originals,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) texts: Vec<SavedText>,
}

impl Actor {
    /// Adds the sealed state to a write. At the end of a turn a new key is used, so that everything sealed
    /// before can be made unreadable.
    pub(super) fn complete_sealed(&mut self, plan: &mut StepPlan) -> std::io::Result<()> {
        if let Some(applied) = plan.write.applied {
            self.unapplied.retain(|(write_id, _)| *write_id > applied);
        }
        if plan.ends_turn && !plan.is_key_replaced {
            self.seal.replace_key()?;
            plan.is_key_replaced = true;
            plan.write.outbox.clone_from(&self.unapplied);
        }
        let private = Private {
            codec: self.codec_state().unwrap_or_else(|| self.saved.codec.clone()),
            originals: self.machine.originals().clone(),
            texts: self.scrubbing.save(),
        };
        if private != self.saved || plan.is_key_replaced || self.is_saved_unreadable {
            plan.write.codec = Some(self.seal.seal_text(&sessions::json(&private))?);
            self.saved = private;
            self.is_saved_unreadable = false;
            // The codec state and the spool position it corresponds to belong together.
            if let AgentHandle::Process(process) = &mut self.agent {
                let here = process.link.position();
                plan.write.spool.get_or_insert_with(|| process.mark(here));
            }
        }
        if let Some(mark) = &mut plan.write.spool {
            mark.carry = self.seal.seal(&mark.carry)?;
        }
        for (_, bytes) in &mut plan.write.outbox {
            *bytes = self.seal.seal(bytes)?;
        }
        Ok(())
    }

    /// Erases consumed agent output from the disk, once it is journalled and no turn is open.
    pub(super) fn erase_read(&mut self, after: crate::process::Position, is_marked: bool) {
        if !is_marked || self.machine.state().turn.is_some() {
            return;
        }
        if let AgentHandle::Process(process) = &mut self.agent
            && let Err(error) = process.link.erase_before(after)
        {
            tracing::warn!(%error, "cannot erase output that was read");
        }
    }

    /// Removes keys that nothing needs after a completed write.
    pub(super) fn forget_keys(&mut self) {
        self.seal.remove_outdated();
        if self.machine.state().status.is_terminal() && matches!(self.agent, AgentHandle::None) {
            self.forget_sealed();
        }
    }

    /// Removes all keys once the agent has ended and nothing sealed is needed any more.
    pub(in crate::session) fn forget_sealed(&mut self) {
        if self.machine.originals().is_empty() && self.scrubbing.save().is_empty() {
            self.seal.remove_all();
            self.is_saved_unreadable = true;
        }
    }
}
