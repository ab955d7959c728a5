//! The configuration of notices: which changes of sessions a person is notified of, and by which means.

use std::path::PathBuf;
use std::time::Duration;

use domain::notice::{NoticeKind, NoticeRules};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::invalid;
use crate::failure::Result;

/// What a person is told of sessions, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Notices {
    /// `needs_you`, `failed`, `done`.
    pub on: Vec<String>,
    /// A turn that took less is not told.
    pub done_after_secs: u64,
    /// Notifications of the desktop.
    pub desktop: bool,
    /// Commands that follow a session ring the terminal.
    pub bell: bool,
    /// A program to run, with the notice as JSON on its standard input.
    pub hook: Option<PathBuf>,
    /// An address to which the notice is posted as JSON.
    pub webhook: String,
    /// The variable that holds the address's bearer token.
    pub webhook_token_env: String,
    /// Push services that browsers may subscribe to, beside those of their makers: the beginnings of addresses.
    pub push_services: Vec<String>,
}

impl Default for Notices {
    fn default() -> Self {
        Self {
            on: NoticeKind::ALL.map(|kind| kind.name().to_owned()).to_vec(),
            done_after_secs: 60,
            desktop: true,
            bell: true,
            hook: None,
            webhook: String::new(),
            webhook_token_env: String::new(),
            push_services: Vec::new(),
        }
    }
}

impl Notices {
    /// Returns what is to be told.
    pub fn rules(&self) -> NoticeRules {
        NoticeRules {
            kinds: self.on.iter().filter_map(|name| NoticeKind::parse(name)).collect(),
            done_after: Duration::from_secs(self.done_after_secs),
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        if let Some(unknown) = self.on.iter().find(|name| NoticeKind::parse(name).is_none()) {
            let known = NoticeKind::ALL.map(NoticeKind::name).join(", ");
            return Err(invalid(format!("notices.on: {unknown:?} is none of {known}")));
        }
        if self.hook.as_ref().is_some_and(|hook| !hook.is_absolute()) {
            return Err(invalid("notices.hook: must be the absolute path of a program".to_owned()));
        }
        let is_address = ["http://", "https://"].iter().any(|scheme| self.webhook.starts_with(scheme));
        if !self.webhook.is_empty() && !is_address {
            return Err(invalid(format!(
                "notices.webhook: {:?} must begin with https:// or http://",
                self.webhook
            )));
        }
        let is_service = |one: &&String| one.starts_with("https://") || one.starts_with("http://");
        if let Some(wrong) = self.push_services.iter().find(|one| !is_service(one) || !one.ends_with('/')) {
            let message = format!(
                "notices.push_services: {wrong:?} must begin with https:// or http:// and end with /"
            );
            return Err(invalid(message));
        }
        Ok(())
    }
}
