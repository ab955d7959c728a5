//! What one step of a session changes before it is committed. A command decides on a copy of it, and the copy replaces it once the
//! command is committed; what has happened and cannot be refused is decided on it directly. Must not do any I/O but make keys.

use agent_port::Codec;

use super::*;

/// The part of an actor that the rules change.
#[derive(Clone)]
pub(in crate::session) struct ActorState {
    pub(in crate::session) machine: Machine,
    pub(in crate::session) run: u64,
    pub(super) seq: u64,
    pub(super) next_write_id: u64,
    /// The codec of an agent that is a process.
    codec: Option<Box<dyn Codec>>,
    /// The sealed state as last stored.
    pub(super) saved: Arc<Private>,
    /// The revision of the codec that is in `saved`; none if its codec was another one.
    pub(super) saved_revision: Option<u64>,
    /// The mark of the spool as last stored.
    pub(super) marked: StoredMark,
    /// The stored state was sealed with a key that no longer exists.
    pub(super) is_saved_unreadable: bool,
    pub(super) seal: Seal,
    /// Input not yet confirmed to have reached the agent.
    pub(super) unapplied: Vec<(u64, Arc<[u8]>)>,
}

impl ActorState {
    /// Returns the state of a session without an agent.
    pub(super) fn new(machine: Machine, seal: Seal, saved: Private, marked: StoredMark) -> Self {
        Self {
            machine,
            run: 0,
            seq: 0,
            next_write_id: 0,
            codec: None,
            saved: Arc::new(saved),
            saved_revision: None,
            marked,
            is_saved_unreadable: false,
            seal,
            unapplied: Vec::new(),
        }
    }

    /// Sets the codec of the agent that begins; none: there is no process any more.
    pub(in crate::session) fn set_codec(&mut self, codec: Option<Box<dyn Codec>>) {
        self.codec = codec;
        self.saved_revision = None;
    }

    pub(super) fn codec(&mut self) -> Option<&mut (dyn Codec + 'static)> {
        self.codec.as_deref_mut()
    }

    /// Returns the revision of the codec, and what it saves if that may differ from what is stored.
    pub(super) fn unsaved_codec(&self) -> (Option<u64>, Option<String>) {
        let Some(codec) = &self.codec else { return (None, None) };
        let revision = Some(codec.revision());
        let changed = || Some(codec.save()).filter(|text| *text != self.saved.codec);
        (revision, if revision == self.saved_revision { None } else { changed() })
    }

    pub(in crate::session) fn next_write_id(&mut self) -> u64 {
        let id = self.next_write_id;
        self.next_write_id += 1;
        id
    }

    pub(super) fn open_turn(&self) -> Option<TurnId> {
        self.machine.state().turn.as_ref().map(|turn| turn.id)
    }

    /// Adds the current position and, if it changed, the state to the write.
    pub(super) fn complete(&self, plan: &mut StepPlan, key: i64, share: &SharedBudgetWatch) {
        let (spec, state) = (self.machine.spec(), self.machine.state());
        plan.write.key = key;
        plan.write.last_seq = self.seq;
        plan.write.last_activity_at = state.last_activity_at;
        if plan.state_changed {
            let columns = StateColumns::of(spec, state, self.run, self.next_write_id);
            plan.write.state = Some(Box::new(columns));
            plan.spending = share.changes(&self.machine);
            plan.write.spending.clone_from(&plan.spending);
        }
    }
}
