//! The title of a session: the name that somebody gave it, else the beginning of its first prompt. Does not change with what
//! the agent says.

use super::State;
use crate::any_event;
use crate::event::EventKind;
use crate::limits;
use crate::overview::one_line;
use crate::session::SessionSpec;
use crate::turn::{COMPACT, TurnOrigin};

impl State {
    /// Returns the title, or the name of a session that nobody has prompted or named.
    pub fn shown_title(&self) -> &str {
        if self.title.is_empty() { &self.name } else { &self.title }
    }

    /// Applies an event to the title; returns whether it changed.
    pub fn evolve_title(&mut self, kind: &EventKind) -> bool {
        match kind {
            EventKind::Renamed { name } => self.title.clone_from(name),
            EventKind::TurnStarted { origin: TurnOrigin::Client, prompt, .. }
                if self.title.is_empty() && prompt != COMPACT =>
            {
                self.title = one_line(prompt, limits::TITLE_MAX_CHARS);
            }
            any_event!(
                life TurnStarted InterruptRequested MessageAdded TurnEnded output request TodosChanged
                ModeChanged PlanModeChanged ModelChanged CommandsChanged ServersChanged ToolsRegistered
                InputHolderChanged plan usage worker report
            ) => return false,
        }
        !self.title.is_empty()
    }
}

/// Returns the title a session is created with: its name, unless that was made of its provider and its id.
pub(super) fn given(spec: &SessionSpec) -> String {
    let made = spec.name.strip_prefix(spec.provider.name()).and_then(|rest| rest.strip_prefix('-'));
    let is_made = made.is_some_and(|end| !end.is_empty() && spec.id.as_str().to_lowercase().ends_with(end));
    if is_made { String::new() } else { spec.name.clone() }
}
