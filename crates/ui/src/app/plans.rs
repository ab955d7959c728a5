//! The plans of a session: steps as a tree with their states, live. Rules only; drawing and calls are elsewhere.

use crossterm::event::{KeyCode, KeyEvent};
use view::{PlanLine, PlanSummary};

use super::dialogs::step;
use super::{App, Dialog, Focus};
use crate::data::Request;

/// The plans of a session, the newest first.
#[derive(Clone, Debug)]
pub(crate) struct PlansDialog {
    pub(crate) session: String,
    pub(crate) name: String,
    /// Whether the daemon has answered.
    pub(crate) is_read: bool,
    pub(crate) problem: String,
    pub(crate) plans: Vec<PlanSummary>,
    /// The selected one of all steps.
    pub(crate) selected: usize,
}

impl PlansDialog {
    /// Returns all steps in the order in which they are drawn, with their plan.
    pub(crate) fn steps(&self) -> Vec<(usize, PlanLine)> {
        let of = |(at, plan): (usize, &PlanSummary)| {
            plan.lines().into_iter().map(move |line| (at, line)).collect::<Vec<_>>()
        };
        self.plans.iter().enumerate().flat_map(of).collect()
    }
}

impl App {
    pub(super) fn open_plans(&mut self) {
        let Some((session, name)) = self.about_session() else { return };
        self.send(Request::Plans { session: Some(session.clone()) });
        self.dialog = Some(Dialog::Plans(PlansDialog {
            session,
            name,
            is_read: false,
            problem: String::new(),
            plans: Vec::new(),
            selected: 0,
        }));
    }

    /// Takes a plan as it is now.
    pub(super) fn plan_read(&mut self, session: &str, plan: PlanSummary) {
        let Some(Dialog::Plans(open)) = self.dialog.as_mut() else { return };
        if open.session != session {
            return;
        }
        open.is_read = true;
        match open.plans.iter_mut().find(|known| known.id == plan.id) {
            Some(known) => *known = plan,
            None => open.plans.insert(0, plan),
        }
        open.selected = open.selected.min(open.steps().len().saturating_sub(1));
    }

    /// Takes that there is nothing more to read now, or why nothing can be.
    pub(super) fn plans_read(&mut self, session: &str, problem: String) {
        if let Some(Dialog::Plans(open)) = self.dialog.as_mut()
            && open.session == session
        {
            (open.is_read, open.problem) = (true, problem);
        }
    }

    /// Handles a key of the dialog. Returns whether it stays open.
    pub(super) fn plans_key(&mut self, plans: &mut PlansDialog, event: &KeyEvent) -> bool {
        let steps = plans.steps();
        match event.code {
            KeyCode::Char('q' | 'P') => {
                self.send(Request::Plans { session: None });
                false
            }
            KeyCode::Enter => {
                let chosen = steps.get(plans.selected).and_then(|(plan, line)| {
                    plans.plans.get(*plan)?.steps.get(line.step).map(|step| step.session.clone())
                });
                let Some(session) = chosen.filter(|session| !session.is_empty()) else { return true };
                self.send(Request::Plans { session: None });
                self.select_session(&session);
                self.open_session(&session, None);
                self.focus = Focus::Transcript;
                false
            }
            _ => {
                step(&mut plans.selected, steps.len(), event);
                true
            }
        }
    }
}
