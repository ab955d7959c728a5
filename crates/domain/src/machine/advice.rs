//! The hints that are shown with a permission request: which changes could not be undone, and why no rule or grant answered it.

use super::Transition;
use crate::permission::pattern::PatternCall;
use crate::permission::{CallEvaluation, Grant, GrantAction, Mode, PermissionAdvice, advice};
use crate::request::PermissionSubject;

impl Transition<'_> {
    /// Returns what the person who is asked should know: what would not come back, and why nothing answers it already.
    pub(super) fn advice(
        &self,
        ask: &PermissionSubject,
        findings: Option<&CallEvaluation>,
    ) -> PermissionAdvice {
        let mode = self.state().mode;
        let why = match self.grant_for(ask, findings).map(|grant| (grant.action, grant.label())) {
            Some((GrantAction::Allow, label)) if mode == Mode::Plan => {
                format!("the permission {label} to act does not hold while planning")
            }
            Some((GrantAction::Allow, label)) => format!("the permission {label} is used up for this minute"),
            Some((_, label)) => format!("the permission {label} asks"),
            None => {
                let of_rules = findings.map_or("no rule covers it", |findings| findings.explanation.as_str());
                let nearest = self.nearest_grant(ask).map(|grant| grant.label());
                match nearest {
                    Some(label) => {
                        format!("{of_rules}; the permission {label} of this session does not cover it")
                    }
                    None => of_rules.to_owned(),
                }
            }
        };
        PermissionAdvice {
            destructive: advice::destructive(&ask.input).unwrap_or_default().to_owned(),
            not_covered: format!("{why}; mode {} asks", mode.name()),
        }
    }

    /// Returns the newest grant of the session that allows something of the same tool.
    fn nearest_grant(&self, ask: &PermissionSubject) -> Option<&Grant> {
        let working_dir = &self.machine.spec.working_dir;
        let call = PatternCall { tool: &ask.tool, input: &ask.input, working_dir, real_paths: None };
        self.state().grants.iter().rev().find(|grant| grant.is_nearly_about(&call))
    }
}
