//! What agents may use, by the daemon's configuration: defaults for all and by provider, which a request may lower or raise,
//! and maxima by campaign. Enforces nothing.

use std::collections::BTreeMap;

use domain::resources::show_bytes;
use domain::{Error, ErrorCode, ProviderKind, ResourceLimits};

/// What the configuration says about limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitPolicy {
    /// Of sessions that say nothing else.
    pub everywhere: ResourceLimits,
    /// Instead of those, for single providers.
    pub providers: BTreeMap<ProviderKind, ResourceLimits>,
    /// By id or name of a campaign; its sessions have these and may not have more.
    pub campaigns: BTreeMap<String, ResourceLimits>,
    /// Memory that must be available for a new agent to be started.
    pub reserve_bytes: u64,
}

impl LimitPolicy {
    /// Returns the limits of a session that asks for some, or the error that names what it may not have. Nothing that a
    /// session starts gets more than the session itself.
    pub fn decide(
        &self,
        asked: ResourceLimits,
        provider: ProviderKind,
        campaign: &[&str],
        parent: ResourceLimits,
    ) -> Result<ResourceLimits, Error> {
        let pinned = campaign.iter().find_map(|name| self.campaigns.get(*name)).copied().unwrap_or_default();
        asked.check_at_most(&pinned, "the campaign")?;
        asked.check_at_most(&parent, "the session that starts it")?;
        let usual = self.providers.get(&provider).copied().unwrap_or_default().or(self.everywhere);
        Ok(asked.or(pinned).or(usual).at_most(pinned).at_most(parent))
    }

    /// Refuses a new agent where less memory is available than the reserve.
    pub fn check_reserve(&self, available: Option<u64>) -> Result<(), Error> {
        match available {
            Some(available) if available < self.reserve_bytes => Err(Error::new(
                ErrorCode::MachineMemoryLow,
                format!(
                    "only {} of memory are available and {} are kept in reserve, so no agent is started; stop a session \
                     or another program and try again, or lower limits.reserve",
                    show_bytes(available),
                    show_bytes(self.reserve_bytes),
                ),
            )),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(bytes: u64) -> ResourceLimits {
        ResourceLimits { memory_bytes: Some(bytes), ..ResourceLimits::default() }
    }

    #[test]
    fn a_request_wins_over_defaults_and_a_campaign_over_everybody() {
        let policy = LimitPolicy {
            everywhere: ResourceLimits { processes: Some(100), ..memory(4) },
            providers: BTreeMap::from([(ProviderKind::Codex, memory(6))]),
            campaigns: BTreeMap::from([("small".to_owned(), memory(2))]),
            reserve_bytes: 0,
        };
        let none = ResourceLimits::default();
        let decide = |asked, provider, campaign: &[&str]| policy.decide(asked, provider, campaign, none);
        let usual = decide(none, ProviderKind::Acp, &[]).unwrap();
        assert_eq!((usual.memory_bytes, usual.processes), (Some(4), Some(100)));
        let codex = decide(none, ProviderKind::Codex, &["", "other"]).unwrap();
        assert_eq!((codex.memory_bytes, codex.processes), (Some(6), Some(100)));
        assert_eq!(decide(memory(9), ProviderKind::Acp, &[]).unwrap().memory_bytes, Some(9), "raised");
        assert_eq!(decide(memory(1), ProviderKind::Acp, &[]).unwrap().memory_bytes, Some(1), "lowered");
        assert_eq!(decide(none, ProviderKind::Codex, &["id", "small"]).unwrap().memory_bytes, Some(2));
        assert_eq!(decide(memory(1), ProviderKind::Codex, &["id", "small"]).unwrap().memory_bytes, Some(1));
        let refused = decide(memory(3), ProviderKind::Codex, &["id", "small"]).unwrap_err();
        assert!(refused.message.contains("limit_memory: the campaign allows at most"), "{refused}");
    }

    #[test]
    fn what_a_session_starts_has_no_more_than_it() {
        let (policy, none) = (LimitPolicy::default(), ResourceLimits::default());
        let child = policy.decide(none, ProviderKind::Acp, &[], memory(5)).unwrap();
        assert_eq!(child.memory_bytes, Some(5));
        assert!(policy.decide(memory(6), ProviderKind::Acp, &[], memory(5)).is_err());
    }

    #[test]
    fn without_the_reserve_nothing_starts_and_it_may_be_tried_again() {
        let policy = LimitPolicy { reserve_bytes: 256 << 20, ..LimitPolicy::default() };
        assert!(policy.check_reserve(Some(256 << 20)).is_ok());
        assert!(policy.check_reserve(None).is_ok(), "nobody says");
        let error = policy.check_reserve(Some(255 << 20)).unwrap_err();
        assert!(error.code.retryable(), "{error}");
        assert!(error.message.contains("255M") && error.message.contains("limits.reserve"), "{error}");
    }
}
