//! What a session is created from.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use domain::{LaunchPolicy, Mode, ProviderKind, SessionId, Timeouts};

/// The fields of a session to create. An empty text means the default.
#[derive(Clone)]
pub struct NewSession {
    /// Id or name of the campaign. Empty: the one whose root contains `directory`, or none.
    pub campaign: String,
    /// Working folder if no campaign is named: absolute, and subject to the same checks as a campaign's root.
    pub directory: String,
    pub provider: ProviderKind,
    pub model: String,
    pub name: String,
    pub festival_id: String,
    pub task_id: String,
    pub parent: Option<SessionId>,
    /// None: what a client says in `provider_config`, or else the default of the folder.
    pub mode: Option<Mode>,
    pub provider_config: BTreeMap<String, String>,
    /// What the session takes over of its creator's own environment, chosen by `domain::caller_environment`; `environment`
    /// goes before it.
    pub caller_environment: BTreeMap<String, String>,
    pub environment: BTreeMap<String, String>,
    pub max_tokens: u64,
    pub timeout: Option<Duration>,
    pub initial_message: String,
    pub launch: LaunchPolicy,
    pub timeouts: Timeouts,
    /// The creator, for the record.
    pub by: String,
}

impl NewSession {
    /// Returns a session with nothing but defaults.
    pub fn new(provider: ProviderKind, by: String) -> Self {
        Self {
            campaign: String::new(),
            directory: String::new(),
            provider,
            model: String::new(),
            name: String::new(),
            festival_id: String::new(),
            task_id: String::new(),
            parent: None,
            mode: None,
            provider_config: BTreeMap::new(),
            caller_environment: BTreeMap::new(),
            environment: BTreeMap::new(),
            max_tokens: 0,
            timeout: None,
            initial_message: String::new(),
            launch: LaunchPolicy::Now,
            timeouts: Timeouts::default(),
            by,
        }
    }
}

/// A digest of this text is stored with a client's key and compared when the key comes again, perhaps after an upgrade:
/// the text stays as it is, so a field that is added is left out while it has its default.
impl fmt::Debug for NewSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut provider_config = self.provider_config.clone();
        provider_config.extend(self.mode.map(|mode| (Mode::CONFIG_KEY.to_owned(), mode.name().to_owned())));
        f.debug_struct("NewSession")
            .field("campaign", &self.campaign)
            .field("directory", &self.directory)
            .field("provider", &self.provider)
            .field("model", &self.model)
            .field("name", &self.name)
            .field("festival_id", &self.festival_id)
            .field("task_id", &self.task_id)
            .field("parent", &self.parent)
            .field("provider_config", &provider_config)
            .field("caller_environment", &self.caller_environment)
            .field("environment", &self.environment)
            .field("max_tokens", &self.max_tokens)
            .field("timeout", &self.timeout)
            .field("initial_message", &self.initial_message)
            .field("launch", &self.launch)
            .field("upkeep", &self.timeouts)
            .field("by", &self.by)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_behind_a_stored_fingerprint_stays_as_it_is() {
        let mut new = NewSession::new(ProviderKind::Codex, "anna".to_owned());
        let defaults = "NewSession { campaign: \"\", directory: \"\", provider: Codex, model: \"\", name: \"\", \
            festival_id: \"\", task_id: \"\", parent: None, provider_config: {}, caller_environment: \
            {}, environment: {}, max_tokens: 0, timeout: None, initial_message: \"\", launch: Now, \
            upkeep: Timeouts { attended_wait: None, unattended_wait: None, activity_extends: false, \
            compact_above_tokens: None, idle_wait: None }, by: \"anna\" }";
        assert_eq!(format!("{new:?}"), defaults);
        new.mode = Some(Mode::Plan);
        let typed = format!("{new:?}");
        new.mode = None;
        new.provider_config.insert("permission_mode".to_owned(), "plan".to_owned());
        assert_eq!(format!("{new:?}"), typed);
        assert!(typed.contains(r#"provider_config: {"permission_mode": "plan"}, "#));
    }
}
