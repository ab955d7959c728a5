//! Where a request comes from, as its `native` id tells. The text is stored with events and states, so it stays as it is.

use std::fmt;

use crate::shared_budget::SharedScope;

/// Begins the id of a request that came through the daemon's own bridge. The agent's protocol does not know the
/// request, so its answer is not sent to the agent: the caller reads it in the journal.
const BRIDGE: &str = "bridge:";
const BUDGET: &str = "budget";
const SHARED_BUDGET: &str = "budget-";

/// Where a request comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestOrigin<'a> {
    /// The agent's own protocol, with the agent's id.
    Agent(&'a str),
    /// A call through the bridge, with the call's id.
    Bridge(&'a str),
    /// The daemon asks whether the session's budget is raised.
    Budget,
    /// The daemon asks whether a budget that sessions share is raised.
    SharedBudget(SharedScope),
}

impl<'a> RequestOrigin<'a> {
    /// Reads the `native` id of a request.
    pub fn parse(native: &'a str) -> Self {
        let Some(call) = native.strip_prefix(BRIDGE) else { return Self::Agent(native) };
        let scope = call.strip_prefix(SHARED_BUDGET).and_then(SharedScope::parse);
        match scope {
            Some(scope) => Self::SharedBudget(scope),
            None if call == BUDGET => Self::Budget,
            None => Self::Bridge(call),
        }
    }

    /// Returns whether the answer goes to the agent.
    pub fn is_agent(self) -> bool {
        matches!(self, Self::Agent(_))
    }

    /// Returns the shared budget that the request is about.
    pub fn shared_scope(self) -> Option<SharedScope> {
        if let Self::SharedBudget(scope) = self { Some(scope) } else { None }
    }

    /// Returns the id of the question that the daemon asks; empty for what others ask.
    pub fn question_id(self) -> String {
        match self {
            Self::Budget => BUDGET.to_owned(),
            Self::SharedBudget(scope) => format!("{SHARED_BUDGET}{}", scope.name()),
            Self::Agent(_) | Self::Bridge(_) => String::new(),
        }
    }
}

/// The `native` id.
impl fmt::Display for RequestOrigin<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Agent(native) => f.write_str(native),
            Self::Bridge(call) => write!(f, "{BRIDGE}{call}"),
            Self::Budget | Self::SharedBudget(_) => write!(f, "{BRIDGE}{}", self.question_id()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stored_text_is_read_and_written_unchanged() {
        for (text, origin) in [
            ("toolu_1", RequestOrigin::Agent("toolu_1")),
            ("", RequestOrigin::Agent("")),
            ("budget", RequestOrigin::Agent("budget")),
            ("bridge:7/permission", RequestOrigin::Bridge("7/permission")),
            ("bridge:budget", RequestOrigin::Budget),
            ("bridge:budget-campaign", RequestOrigin::SharedBudget(SharedScope::Campaign)),
            ("bridge:budget-campaign_day", RequestOrigin::SharedBudget(SharedScope::CampaignDay)),
            ("bridge:budget-day", RequestOrigin::SharedBudget(SharedScope::Day)),
            ("bridge:budget-week", RequestOrigin::Bridge("budget-week")),
        ] {
            assert_eq!(RequestOrigin::parse(text), origin);
            assert_eq!(origin.to_string(), text);
        }
    }
}
