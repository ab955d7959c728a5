//! The session's own grants: finding the one that answers a call, adding, revoking, and dropping expired
//! ones.

use super::Transition;
use crate::error::{Error, ErrorCode};
use crate::event::EventKind;
use crate::limits;
use crate::permission::grant::{self, Asked};
use crate::permission::pattern::PatternCall;
use crate::permission::{CallEvaluation, Grant};
use crate::request::PermissionSubject;

impl Transition<'_> {
    /// Returns the grant of the session that answers a call.
    pub(super) fn grant_for(
        &self,
        ask: &PermissionSubject,
        findings: Option<&CallEvaluation>,
    ) -> Option<&Grant> {
        let spec = &self.machine.spec;
        let call = PatternCall {
            tool: &ask.tool,
            input: &ask.input,
            working_dir: &spec.working_dir,
            real_paths: findings.map(|findings| findings.real_paths.as_slice()),
        };
        let asked = Asked { call, parent: ask.parent.as_ref(), root: spec.place().root, now: self.now };
        grant::strictest(&self.state().grants, &asked)
    }

    /// Returns a grant with its id, who gave it and when.
    pub(super) fn signed(&self, grant: Grant, by: &str) -> Grant {
        let id = format!("g{}", self.state().grants_given + 1);
        Grant { id, given_by: by.to_owned(), given_at: Some(self.now), ..grant }
    }

    /// Adds a grant, replacing one with the same label.
    pub(super) fn set_grant(&mut self, grant: Grant, by: String) -> Result<(), Error> {
        grant.check()?;
        let mut grants = self.state().grants.clone();
        // Expired grants make room.
        grants.retain(|other| {
            other.label() != grant.label() && other.expires_at.is_none_or(|end| self.now < end)
        });
        if grants.len() >= limits::GRANTS_MAX {
            return Err(Error::new(
                ErrorCode::LimitReached,
                format!("the session has {} grants, which is the limit; clear some", limits::GRANTS_MAX),
            ));
        }
        grants.push(self.signed(grant, &by));
        self.change_grants(grants, by);
        Ok(())
    }

    /// Removes the grants with this id, label or tool; all if `which` is empty.
    pub(super) fn clear_grants(&mut self, which: &str, by: String) {
        let mut grants = self.state().grants.clone();
        grants.retain(|grant| {
            !which.is_empty() && grant.id != which && grant.label() != which && grant.tool != which
        });
        self.change_grants(grants, by);
    }

    /// Removes the grants that approve calls automatically.
    pub(super) fn revoke_auto_approve(&mut self, by: String) {
        let mut grants = self.state().grants.clone();
        grants.retain(|grant| !grant.is_automatic());
        self.change_grants(grants, by);
    }

    fn change_grants(&mut self, grants: Vec<Grant>, by: String) {
        if grants != self.state().grants {
            self.record(EventKind::GrantsChanged { grants, by });
        }
    }
}
