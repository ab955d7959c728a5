//! Budgets that sessions share: those of a campaign, of a campaign's day and of everybody's day. Says which of them is
//! used up and what raising one means. Knows no clock, no time zone and no store: the caller says which day it is.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::budget::{Budget, Spending};
use crate::id::{CampaignId, SessionId};
use crate::time::Timestamp;

#[cfg(test)]
mod tests;

/// What a shared budget is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SharedScope {
    /// All sessions of a campaign, from its beginning.
    Campaign,
    /// All sessions of a campaign, in one day.
    CampaignDay,
    /// All sessions, in one day.
    Day,
}

impl SharedScope {
    /// Every scope, in the order in which they are checked.
    pub const ALL: [Self; 3] = [Self::Campaign, Self::CampaignDay, Self::Day];

    pub fn name(self) -> &'static str {
        match self {
            Self::Campaign => "campaign",
            Self::CampaignDay => "campaign_day",
            Self::Day => "day",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.name() == name)
    }

    /// Returns whether the budget begins anew with every day.
    pub fn is_per_day(self) -> bool {
        self != Self::Campaign
    }
}

/// Which shared budget is meant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SharedBudgetKey {
    pub scope: SharedScope,
    /// None for the day of all sessions.
    pub campaign: Option<CampaignId>,
}

impl SharedBudgetKey {
    /// Returns the budget of a scope that a session of a campaign has a share in; none if it has none.
    pub fn of(scope: SharedScope, campaign: Option<&CampaignId>) -> Option<Self> {
        match scope {
            SharedScope::Day => Some(Self { scope, campaign: None }),
            SharedScope::Campaign | SharedScope::CampaignDay => {
                campaign.map(|campaign| Self { scope, campaign: Some(campaign.clone()) })
            }
        }
    }
}

/// A day of the user's calendar, such as `2026-11-16`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LocalDay(pub String);

/// The moment at which budgets are looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Today {
    pub day: LocalDay,
    /// The day before it, to which time before its beginning belongs.
    pub yesterday: LocalDay,
    pub began: Timestamp,
    pub now: Timestamp,
}

/// What a session spent in addition, on one day. Money can become less: an estimate is replaced by what the agent reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpendingChange {
    pub campaign: Option<CampaignId>,
    pub day: LocalDay,
    pub tokens: u64,
    pub cost_micro_usd: i64,
    pub work_ms: u64,
    pub calls: u64,
}

impl SpendingChange {
    /// Returns what was spent between two states of a session, by day. Working time before midnight belongs to the day
    /// before. Nothing if the session began to count anew.
    pub fn between(
        before: &Spending,
        after: &Spending,
        campaign: Option<&CampaignId>,
        today: &Today,
        turn_began: Option<Timestamp>,
    ) -> Vec<Self> {
        let parts = (
            after.tokens.checked_sub(before.tokens),
            after.work_ms.checked_sub(before.work_ms),
            after.calls.checked_sub(before.calls),
        );
        let (Some(tokens), Some(work_ms), Some(calls)) = parts else { return Vec::new() };
        let money = |micro_usd: u64| i64::try_from(micro_usd).unwrap_or(i64::MAX);
        let cost_micro_usd = money(after.cost_micro_usd).saturating_sub(money(before.cost_micro_usd));
        let early_ms = turn_began.map_or(0, |began| whole_ms(today.began.since(began))).min(work_ms);
        let of_day = |day: &LocalDay| Self {
            campaign: campaign.cloned(),
            day: day.clone(),
            tokens: 0,
            cost_micro_usd: 0,
            work_ms: 0,
            calls: 0,
        };
        let early = Self { work_ms: early_ms, ..of_day(&today.yesterday) };
        let late = Self { tokens, cost_micro_usd, work_ms: work_ms - early_ms, calls, ..of_day(&today.day) };
        [early, late].into_iter().filter(|change| !change.is_nothing()).collect()
    }

    fn is_nothing(&self) -> bool {
        (self.tokens, self.cost_micro_usd, self.work_ms, self.calls) == (0, 0, 0, 0)
    }

    fn add_to(&self, spent: &mut Spending) {
        spent.tokens = spent.tokens.saturating_add(self.tokens);
        spent.cost_micro_usd = spent.cost_micro_usd.saturating_add_signed(self.cost_micro_usd);
        spent.work_ms = spent.work_ms.saturating_add(self.work_ms);
        spent.calls = spent.calls.saturating_add(self.calls);
    }
}

/// A shared budget that is used up, as a session is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsedUpBudget {
    pub scope: SharedScope,
    /// A sentence without its end, such as "campaign app has used 100 of its 100 tokens".
    pub what: String,
    /// What raising it would make of it, in words.
    pub renewed: String,
    /// The command that raises it.
    pub remedy: String,
}

/// What is configured: limits by scope, and by scope and campaign (id or name).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfiguredBudgets {
    pub usual: BTreeMap<SharedScope, Budget>,
    pub named: BTreeMap<(SharedScope, String), Budget>,
}

/// A shared budget and what was spent of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedBudgetStatus {
    pub key: SharedBudgetKey,
    pub budget: Budget,
    pub spent: Spending,
}

/// An open turn, whose time is not in the sums yet.
#[derive(Clone, Debug)]
struct OpenTurn {
    campaign: Option<CampaignId>,
    since: Timestamp,
}

/// All shared budgets and what was spent of them.
#[derive(Clone, Debug, Default)]
pub struct SharedBudgets {
    configured: ConfiguredBudgets,
    /// Set by a user; they replace what is configured.
    set: BTreeMap<SharedBudgetKey, Budget>,
    /// Raised for one day only.
    raised: BTreeMap<(SharedBudgetKey, LocalDay), Budget>,
    names: BTreeMap<CampaignId, String>,
    /// By campaign (none: without one) and day.
    spent: BTreeMap<(Option<CampaignId>, LocalDay), Spending>,
    open: BTreeMap<SessionId, OpenTurn>,
}

impl SharedBudgets {
    /// Sets what is configured.
    pub fn configure(&mut self, configured: ConfiguredBudgets) {
        self.configured = configured;
    }

    /// Remembers the name of a campaign: configuration and messages use it.
    pub fn set_name(&mut self, campaign: CampaignId, name: String) {
        self.names.insert(campaign, name);
    }

    /// Returns the name of a campaign, its id where it has none.
    pub fn name_of<'a>(&'a self, campaign: &'a CampaignId) -> &'a str {
        self.names.get(campaign).map_or(campaign.as_str(), String::as_str)
    }

    /// Returns whether anything is limited; if not, no session needs to ask.
    pub fn has_limits(&self) -> bool {
        let configured = self.configured.usual.values().chain(self.configured.named.values());
        configured.chain(self.set.values()).chain(self.raised.values()).any(|budget| !budget.is_unlimited())
    }

    /// Adds what a session spent.
    pub fn note(&mut self, change: &SpendingChange) {
        let spent = self.spent.entry((change.campaign.clone(), change.day.clone())).or_default();
        change.add_to(spent);
    }

    /// Remembers since when a turn of a session is open; none: no longer.
    pub fn set_open_turn(
        &mut self,
        session: &SessionId,
        campaign: Option<&CampaignId>,
        since: Option<Timestamp>,
    ) {
        match since {
            Some(since) => {
                self.open.insert(session.clone(), OpenTurn { campaign: campaign.cloned(), since });
            }
            None => drop(self.open.remove(session)),
        }
    }

    /// Returns the limits in force.
    pub fn budget(&self, key: &SharedBudgetKey, day: &LocalDay) -> Budget {
        let raised = self.raised.get(&(key.clone(), day.clone())).copied();
        raised.or_else(|| self.set.get(key).copied()).unwrap_or_else(|| self.configured_for(key))
    }

    fn configured_for(&self, key: &SharedBudgetKey) -> Budget {
        let named = key.campaign.as_ref().and_then(|campaign| {
            let by = |name: &str| self.configured.named.get(&(key.scope, name.to_owned()));
            by(campaign.as_str()).or_else(|| by(self.names.get(campaign)?))
        });
        named.or_else(|| self.configured.usual.get(&key.scope)).copied().unwrap_or_default()
    }

    /// Returns what was spent of a budget until now, with the time of open turns.
    pub fn spending(&self, key: &SharedBudgetKey, today: &Today) -> Spending {
        let is_meant =
            |campaign: &Option<CampaignId>| key.scope == SharedScope::Day || *campaign == key.campaign;
        let mut sum = Spending::default();
        for ((campaign, day), spent) in &self.spent {
            if is_meant(campaign) && (!key.scope.is_per_day() || *day == today.day) {
                sum.add(spent);
            }
        }
        for turn in self.open.values().filter(|turn| is_meant(&turn.campaign)) {
            let since = if key.scope.is_per_day() { turn.since.max(today.began) } else { turn.since };
            sum.work_ms = sum.work_ms.saturating_add(whole_ms(today.now.since(since)));
        }
        sum
    }

    /// Returns the first used-up budget that a session of a campaign has a share in.
    pub fn used_up(&self, campaign: Option<&CampaignId>, today: &Today) -> Option<UsedUpBudget> {
        let keys = SharedScope::ALL.into_iter().filter_map(|scope| SharedBudgetKey::of(scope, campaign));
        keys.filter(|key| !self.budget(key, &today.day).is_unlimited()).find_map(|key| {
            let (budget, spent) = (self.budget(&key, &today.day), self.spending(&key, today));
            let what = budget.exhausted_by(&spent)?;
            let name = campaign.map_or("", |campaign| self.name_of(campaign));
            let (what, remedy) = match key.scope {
                SharedScope::Campaign => {
                    (format!("campaign {name} has used {what}"), format!("obey campaign budget {name}"))
                }
                SharedScope::CampaignDay => (
                    format!("campaign {name} has used {what} for today"),
                    format!("obey campaign budget {name} --per-day"),
                ),
                SharedScope::Day => (format!("today has used {what}"), "obey budget".to_owned()),
            };
            Some(UsedUpBudget { scope: key.scope, what, renewed: budget.renewed(&spent).describe(), remedy })
        })
    }

    /// Returns every budget that is used up.
    pub fn used_up_keys(&self, today: &Today) -> Vec<SharedBudgetKey> {
        let all = self.list(today).into_iter();
        all.filter(|one| one.budget.exhausted_by(&one.spent).is_some()).map(|one| one.key).collect()
    }

    /// Returns every budget that limits something, with what was spent of it.
    pub fn list(&self, today: &Today) -> Vec<SharedBudgetStatus> {
        let campaigns = self.names.keys().map(Some);
        let day = SharedBudgetKey::of(SharedScope::Day, None);
        let of_campaigns = campaigns.flat_map(|campaign| {
            [SharedScope::Campaign, SharedScope::CampaignDay]
                .into_iter()
                .filter_map(move |scope| SharedBudgetKey::of(scope, campaign))
        });
        let with_status = |key: SharedBudgetKey| self.status(key, today);
        day.into_iter()
            .chain(of_campaigns)
            .map(with_status)
            .filter(|one| !one.budget.is_unlimited())
            .collect()
    }

    /// Returns a budget with what was spent of it.
    pub fn status(&self, key: SharedBudgetKey, today: &Today) -> SharedBudgetStatus {
        let (budget, spent) = (self.budget(&key, &today.day), self.spending(&key, today));
        SharedBudgetStatus { key, budget, spent }
    }

    /// Returns in which time the first budget of working time is used up if nothing changes.
    pub fn time_left(&self, today: &Today) -> Option<Duration> {
        let lists = self.list(today).into_iter().filter_map(|one| {
            let left = one.budget.time_left(&one.spent).filter(|left| !left.is_zero())?;
            let shares = |turn: &&OpenTurn| one.key.campaign.is_none() || turn.campaign == one.key.campaign;
            let turns = u32::try_from(self.open.values().filter(shares).count()).unwrap_or(u32::MAX);
            left.checked_div(turns)
        });
        lists.min()
    }

    /// Sets a budget until it is set again.
    pub fn set(&mut self, key: SharedBudgetKey, budget: Budget) {
        self.raised.retain(|(raised, _), _| *raised != key);
        self.set.insert(key, budget);
    }

    /// Sets a budget for one day.
    pub fn set_for_day(&mut self, key: SharedBudgetKey, day: LocalDay, budget: Budget) {
        self.raised.insert((key, day), budget);
    }
}

fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
