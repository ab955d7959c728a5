//! Who settled a request, as `by` tells. The text is stored with events and states, so it stays as it is.

use std::fmt;

const RULE: &str = "rule ";
const UNREADABLE: &str = "unreadable ";
const MODE: &str = "mode ";

/// Who settled a request. A client may give any name for its person, also one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settler<'a> {
    Person(&'a str),
    /// The agent no longer waits.
    Agent,
    /// The daemon.
    Obey,
    /// Nobody answered in time.
    Timeout,
    /// Too many requests wait.
    Limit,
    /// A grant of the session.
    Grant,
    /// A mode, by its name.
    Mode(&'a str),
    /// A rule of a file: its pattern and its source.
    Rule(&'a str),
    /// Something that cannot be read, so that nothing is allowed.
    Unreadable(&'a str),
}

impl<'a> Settler<'a> {
    pub const PLAN_MODE: Self = Self::Mode("plan");
    pub const AUTONOMOUS_MODE: Self = Self::Mode("autonomous");
    pub const UNREADABLE_RULES: Self = Self::Unreadable("rules");

    /// Reads the `by` of a settled request.
    pub fn parse(by: &'a str) -> Self {
        match by {
            "agent" => Self::Agent,
            "obey" => Self::Obey,
            "timeout" => Self::Timeout,
            "limit" => Self::Limit,
            "grant" => Self::Grant,
            _ => {
                let mode = || by.strip_prefix(MODE).map(Self::Mode);
                let unreadable = || by.strip_prefix(UNREADABLE).map(Self::Unreadable);
                let rule = by.strip_prefix(RULE).map(Self::Rule);
                rule.or_else(mode).or_else(unreadable).unwrap_or(Self::Person(by))
            }
        }
    }

    pub fn is_person(self) -> bool {
        matches!(self, Self::Person(_))
    }

    /// Returns the message to an agent whose call was denied: by whom, and why.
    pub fn denial(self, tool: &str, message: &str) -> String {
        if message.starts_with(super::DENIAL) {
            // Some clients send the complete message.
            return message.to_owned();
        }
        let who = match self {
            Self::Timeout => "request timed out for",
            Self::Mode("plan") => "denied by plan mode for",
            Self::Grant => "denied by a rule of the session for",
            Self::Limit | Self::Obey => "denied for",
            Self::Agent => "no longer wanted for",
            Self::Rule(_) | Self::Unreadable(_) => "denied by a rule for",
            Self::Person(_) | Self::Mode(_) => "denied by user for",
        };
        let reason = if message.is_empty() { String::new() } else { format!(": {message}") };
        format!("{}{who}: {tool}{reason}", super::DENIAL)
    }
}

/// The stored text.
impl fmt::Display for Settler<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Person(name) => f.write_str(name),
            Self::Agent => f.write_str("agent"),
            Self::Obey => f.write_str("obey"),
            Self::Timeout => f.write_str("timeout"),
            Self::Limit => f.write_str("limit"),
            Self::Grant => f.write_str("grant"),
            Self::Mode(name) => write!(f, "{MODE}{name}"),
            Self::Rule(rule) => write!(f, "{RULE}{rule}"),
            Self::Unreadable(what) => write!(f, "{UNREADABLE}{what}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::permission::Mode;

    #[test]
    fn the_stored_text_is_read_and_written_unchanged() {
        for (text, settler) in [
            ("anna", Settler::Person("anna")),
            ("", Settler::Person("")),
            ("device phone (agent)", Settler::Person("device phone (agent)")),
            ("agent", Settler::Agent),
            ("obey", Settler::Obey),
            ("timeout", Settler::Timeout),
            ("limit", Settler::Limit),
            ("grant", Settler::Grant),
            ("mode plan", Settler::PLAN_MODE),
            ("mode autonomous", Settler::AUTONOMOUS_MODE),
            ("rule Bash(curl *) (global)", Settler::Rule("Bash(curl *) (global)")),
            ("unreadable rules", Settler::UNREADABLE_RULES),
        ] {
            assert_eq!(Settler::parse(text), settler);
            assert_eq!(settler.to_string(), text);
        }
        assert_eq!(Settler::PLAN_MODE, Settler::Mode(Mode::Plan.name()));
        assert_eq!(Settler::AUTONOMOUS_MODE, Settler::Mode(Mode::Autonomous.name()));
    }

    #[test]
    fn a_denial_says_who_denied() {
        let anna = Settler::Person("anna");
        assert_eq!(anna.denial("move", ""), "Permission denied by user for: move");
        assert_eq!(anna.denial("move", "not now"), "Permission denied by user for: move: not now");
        for by in ["timeout", "mode plan", "grant", "limit", "rule Bash (x)", "unreadable rules"] {
            let told = Settler::parse(by).denial("move", "because");
            assert!(!told.contains("by user") && told.ends_with("for: move: because"), "{told}");
            assert!(!Settler::parse(by).is_person(), "{by}");
        }
        assert!(anna.is_person());
        let said = "Permission denied by user for: move";
        assert_eq!(Settler::Person("roz").denial("move", said), said);
    }
}
