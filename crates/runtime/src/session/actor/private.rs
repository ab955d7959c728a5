//! The state of a session that must outlive the daemon and may contain secrets: stored sealed, in one column.

use domain::Originals;
use serde::{Deserialize, Serialize};

use super::super::carry::{self, StoredMark};
use super::super::scrubbing::SavedText;
use super::*;

/// The state that is stored sealed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Private {
    pub(super) codec: String,
    #[serde(skip_serializing_if = "Originals::is_empty")]
    pub(super) originals: Originals,
    /// Only an earlier version stored them here: they change with most pieces of a text, and are beside the mark now.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) texts: Vec<SavedText>,
}

impl ActorState {
    /// Adds the sealed state to a write. At the end of a turn a new key is used, so that everything sealed
    /// before can be made unreadable.
    pub(super) fn complete_sealed(
        &mut self,
        plan: &mut StepPlan,
        scrubbing: &Scrubbing,
        agent: &AgentHandle,
    ) -> std::io::Result<()> {
        if let Some(applied) = plan.write.applied {
            self.unapplied.retain(|(write_id, _)| *write_id > applied);
        }
        if plan.ends_turn && !plan.is_key_replaced {
            self.seal.replace_key()?;
            plan.is_key_replaced = true;
            plan.write.outbox = self.unapplied.iter().map(|(id, bytes)| (*id, bytes.to_vec())).collect();
        }
        let is_changed = self.seal_private(plan)?;
        let texts = scrubbing.save();
        // They and the spool position they correspond to belong together.
        let is_moved = texts != self.marked.texts;
        match agent {
            AgentHandle::Process(process) if is_changed || is_moved => {
                plan.write.spool.get_or_insert_with(|| process.mark(process.link.position()));
            }
            // There is no spool to read; only texts are worth a mark.
            AgentHandle::None | AgentHandle::InProcess { .. }
                if is_moved || (is_changed && !texts.is_empty()) =>
            {
                plan.write.spool.get_or_insert_with(|| self.marked.again());
            }
            _ => {}
        }
        if let Some(mark) = &mut plan.write.spool
            && !Seal::is_sealed(&mark.carry)
        {
            mark.carry = self.seal.seal(&carry::with_texts(&mark.carry, &texts))?;
            self.marked = StoredMark::of(mark, texts);
        }
        for (_, bytes) in &mut plan.write.outbox {
            *bytes = self.seal.seal(bytes)?;
        }
        Ok(())
    }

    /// Adds the sealed column to a write, if it differs from what is stored. Returns whether it does.
    fn seal_private(&mut self, plan: &mut StepPlan) -> std::io::Result<bool> {
        let (revision, codec) = self.unsaved_codec();
        let is_changed = codec.is_some()
            || *self.machine.originals() != self.saved.originals
            || !self.saved.texts.is_empty()
            || plan.is_key_replaced
            || self.is_saved_unreadable;
        if is_changed {
            let private = Private {
                codec: codec.unwrap_or_else(|| self.saved.codec.clone()),
                originals: self.machine.originals().clone(),
                texts: Vec::new(),
            };
            plan.write.codec = Some(self.seal.seal_text(&sessions::json(&private))?);
            self.saved = Arc::new(private);
            self.is_saved_unreadable = false;
        }
        self.saved_revision = revision;
        Ok(is_changed)
    }
}

impl Actor {
    /// Erases consumed agent output from the disk, once it is journalled and no turn is open.
    pub(super) fn erase_read(&mut self, after: crate::process::Position, is_marked: bool) {
        if !is_marked || self.state.machine.state().turn.is_some() {
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
        self.state.seal.remove_outdated();
        if self.state.machine.state().status.is_terminal() && matches!(self.agent, AgentHandle::None) {
            self.forget_sealed();
        }
    }

    /// Removes all keys once the agent has ended and nothing sealed is needed any more.
    pub(in crate::session) fn forget_sealed(&mut self) {
        if self.state.machine.originals().is_empty() && self.scrubbing.save().is_empty() {
            self.state.seal.remove_all();
            self.state.is_saved_unreadable = true;
        }
    }
}
