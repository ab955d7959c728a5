//! The form of a new session: where it works, who works and how. It remembers the last choices; what is wrong stands in it and nothing
//! typed is lost.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use domain::budget::Budget;

use super::dialogs::edit;
use super::{App, Dialog, Focus, MODES};
use crate::data::{Campaign, NewSession, Request, Update};

/// The fields of the form in their order. The first one is there where there are several machines.
pub(crate) const FORM_FIELDS: [&str; 9] =
    ["machine", "campaign", "agent", "model", "mode", "worktree", "name", "budget", "message"];

const MACHINE: usize = 0;
const CAMPAIGN: usize = 1;
const AGENT: usize = 2;
const MODEL: usize = 3;
const MODE: usize = 4;
const WORKTREE: usize = 5;
const NAME: usize = 6;
const BUDGET: usize = 7;
const MESSAGE: usize = 8;

/// What was chosen and typed.
#[derive(Clone, Debug, Default)]
pub(crate) struct NewSessionForm {
    pub(crate) at: usize,
    /// All machines, this one first as an empty name; nothing where there is only this one.
    pub(crate) machines: Vec<String>,
    pub(crate) machine: usize,
    pub(crate) campaigns: Vec<Campaign>,
    pub(crate) campaign: usize,
    pub(crate) agents: Vec<String>,
    pub(crate) agent: usize,
    pub(crate) model: String,
    pub(crate) mode: usize,
    /// In a new tree of the campaign's repository.
    pub(crate) worktree: bool,
    pub(crate) name: String,
    pub(crate) budget: String,
    pub(crate) message: String,
    pub(crate) error: String,
    pub(crate) sending: bool,
}

impl NewSessionForm {
    /// The text of the field that has the keys, if it is one to be written.
    fn text(&mut self) -> Option<&mut String> {
        match self.at {
            MODEL => Some(&mut self.model),
            NAME => Some(&mut self.name),
            BUDGET => Some(&mut self.budget),
            MESSAGE => Some(&mut self.message),
            _ => None,
        }
    }

    pub(super) fn insert(&mut self, text: &str) {
        if let Some(field) = self.text() {
            field.push_str(text);
        }
    }

    /// Changes what is chosen in a field. Returns whether other choices must be read for it.
    fn choose(&mut self, step: isize) -> bool {
        let cycle = |at: usize, count: usize| {
            let count = isize::try_from(count.max(1)).unwrap_or(1);
            usize::try_from((isize::try_from(at).unwrap_or(0) + step).rem_euclid(count)).unwrap_or(0)
        };
        match self.at {
            MACHINE => {
                self.machine = cycle(self.machine, self.machines.len());
                (self.campaigns, self.agents) = (Vec::new(), Vec::new());
                return true;
            }
            CAMPAIGN => self.campaign = cycle(self.campaign, self.campaigns.len()),
            AGENT => self.agent = cycle(self.agent, self.agents.len()),
            MODE => self.mode = cycle(self.mode, MODES.len() + 1),
            WORKTREE => self.worktree = !self.worktree,
            _ => {}
        }
        false
    }

    /// Moves to another field, by 1 or back.
    fn go(&mut self, step: usize) {
        self.at = (self.at + step) % FORM_FIELDS.len();
        if self.at == MACHINE && self.machines.is_empty() {
            self.at = if step == 1 { CAMPAIGN } else { MESSAGE };
        }
    }

    /// Returns the machine's name; empty for this one.
    pub(crate) fn machine_name(&self) -> &str {
        self.machines.get(self.machine).map_or("", String::as_str)
    }

    /// Returns the mode; empty for the daemon's default.
    pub(crate) fn mode_name(&self) -> &'static str {
        self.mode.checked_sub(1).and_then(|at| MODES.get(at)).copied().unwrap_or_default()
    }

    /// Returns the chosen campaign, if it is one that must be registered first.
    pub(crate) fn unregistered(&self) -> Option<&Campaign> {
        self.campaigns.get(self.campaign).filter(|campaign| campaign.id.is_empty())
    }

    /// Returns what to create, or what is wrong and in which field.
    fn checked(&self) -> Result<NewSession, (usize, String)> {
        let Some(campaign) = self.campaigns.get(self.campaign) else {
            return Err((CAMPAIGN, "there is no campaign; add one with: obey campaign add PATH".to_owned()));
        };
        let Some(agent) = self.agents.get(self.agent) else {
            return Err((AGENT, "no agent is installed; obey agents list says how to get one".to_owned()));
        };
        let budget = budget(&self.budget).map_err(|why| (BUDGET, why))?;
        Ok(NewSession {
            machine: self.machine_name().to_owned(),
            campaign: campaign.clone(),
            agent: agent.clone(),
            model: self.model.trim().to_owned(),
            mode: self.mode_name().to_owned(),
            worktree: self.worktree,
            name: self.name.trim().to_owned(),
            budget,
            message: self.message.clone(),
        })
    }
}

/// Reads a budget: dollars, or tokens where it says so.
fn budget(text: &str) -> Result<Budget, String> {
    let text = text.trim();
    let amount = |text: &str| text.trim().parse::<f64>().ok().filter(|one| one.is_finite() && *one > 0.0);
    let tokens = text.strip_suffix("tokens").or(text.strip_suffix("token"));
    let found = match tokens {
        _ if text.is_empty() => return Ok(Budget::default()),
        Some(tokens) => {
            amount(tokens).map(|one| Budget { tokens: Some(one.ceil() as u64), ..Budget::default() })
        }
        None => amount(text.trim_start_matches('$')).map(|one| Budget {
            cost_micro_usd: Some((one * 1_000_000.0).ceil() as u64),
            ..Budget::default()
        }),
    };
    found.ok_or_else(|| {
        format!("budget: {text:?} is no amount; write US dollars like 5 or 0.5, or 200000 tokens")
    })
}

impl App {
    /// Opens the form with the last choices.
    pub(super) fn new_session(&mut self) {
        let form = self.last_form.clone().unwrap_or_default();
        let chosen = form.machine_name().to_owned();
        let others = self.machines.keys().cloned();
        let machines: Vec<String> = match self.machines.is_empty() {
            true => Vec::new(),
            false => std::iter::once(String::new()).chain(others).collect(),
        };
        let machine = machines.iter().position(|name| *name == chosen).unwrap_or(0);
        let error = String::new();
        let form = NewSessionForm { at: MESSAGE, machines, machine, error, sending: false, ..form };
        self.send(Request::Choices { machine: form.machine_name().to_owned() });
        self.dialog = Some(Dialog::New(form));
    }

    pub(super) fn form_key(&mut self, form: &mut NewSessionForm, event: &KeyEvent) {
        if form.sending {
            return;
        }
        let control = event.modifiers.contains(KeyModifiers::CONTROL);
        match event.code {
            KeyCode::Enter if control || form.at == MESSAGE => match form.checked() {
                Ok(new) => {
                    form.error.clear();
                    form.sending = true;
                    self.send(Request::Create(Box::new(new)));
                }
                Err((field, why)) => {
                    form.at = field;
                    form.error = why;
                }
            },
            KeyCode::Enter | KeyCode::Down | KeyCode::Tab => form.go(1),
            KeyCode::Up | KeyCode::BackTab => form.go(FORM_FIELDS.len() - 1),
            KeyCode::Left => self.choose(form, -1),
            KeyCode::Right => self.choose(form, 1),
            KeyCode::Char(' ') if form.text().is_none() => self.choose(form, 1),
            _ => {
                if let Some(field) = form.text() {
                    edit(field, event);
                }
            }
        }
    }

    fn choose(&mut self, form: &mut NewSessionForm, step: isize) {
        if form.choose(step) {
            self.send(Request::Choices { machine: form.machine_name().to_owned() });
        }
    }

    /// What concerns the form of a new session.
    pub(super) fn form_update(&mut self, update: Update) {
        match update {
            Update::Choices { machine, campaigns, agents, current } => {
                self.offer(&machine, campaigns, agents, current);
            }
            Update::Created { session } => {
                if let Some(Dialog::New(mut form)) = self.dialog.take() {
                    form.sending = false;
                    form.message.clear();
                    form.name.clear();
                    self.last_form = Some(form);
                }
                self.open_session(&session, None);
                self.select_session(&session);
                self.focus = Focus::Message;
            }
            Update::CreateFailed { why } => match &mut self.dialog {
                Some(Dialog::New(form)) => {
                    form.sending = false;
                    form.error = why;
                }
                _ => self.say(why, true),
            },
            _ => {}
        }
    }

    /// Takes what can be chosen on a machine. What was chosen before stays chosen; else it is the folder of the caller, and the agent
    /// that worked last.
    fn offer(
        &mut self,
        machine: &str,
        campaigns: Vec<Campaign>,
        agents: Vec<String>,
        current: Option<Campaign>,
    ) {
        let worked_last = self.agent_that_worked_last(machine);
        let Some(Dialog::New(form)) = &mut self.dialog else { return };
        if form.machine_name() != machine {
            return;
        }
        let old = form.campaigns.get(form.campaign).cloned().or(current);
        // A folder that was chosen before it became a campaign is the same one.
        let is_old = |campaign: &Campaign| old.as_ref().is_some_and(|old| old.path == campaign.path);
        form.campaign = campaigns.iter().position(is_old).unwrap_or(0);
        let place_of = |wanted: Option<&String>| agents.iter().position(|name| Some(name) == wanted);
        let chosen = place_of(form.agents.get(form.agent));
        form.agent = chosen.or(place_of(worked_last.as_ref())).unwrap_or(0);
        form.campaigns = campaigns;
        form.agents = agents;
    }

    /// Returns the provider of the session in which something happened last on a machine.
    fn agent_that_worked_last(&self, machine: &str) -> Option<String> {
        let machine = if machine.is_empty() { self.machine.as_str() } else { machine };
        let there = self.overview.sessions().filter(|summary| summary.machine == machine);
        there.max_by_key(|summary| summary.since).map(|summary| summary.provider.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_dollars_or_tokens() {
        let dollars = |micro| Ok(Budget { cost_micro_usd: Some(micro), ..Budget::default() });
        assert_eq!(budget("$5"), dollars(5_000_000));
        assert_eq!(budget(" 0.5 "), dollars(500_000));
        assert_eq!(budget("2000 tokens"), Ok(Budget { tokens: Some(2_000), ..Budget::default() }));
        assert_eq!(budget(""), Ok(Budget::default()));
        for wrong in ["many", "-1", "0", "tokens", "5 euros"] {
            assert!(budget(wrong).unwrap_err().starts_with("budget: "), "{wrong}");
        }
    }
}
