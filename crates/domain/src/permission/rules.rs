//! Rules that answer before a person is asked: which calls they cover, what they decide, and where they come
//! from.

use std::path::Path;

use super::grant::{self, Asked, Grant, GrantAction};
use super::pattern::{self, CallPattern, PatternCall};
use crate::error::Error;
use crate::request::Settler;

/// The action of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RuleAction {
    // In this order if priorities are equal: the stricter one wins.
    Deny,
    Ask,
    /// Ask; an approval then holds for the session.
    AskSession,
    Allow,
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PermissionRule {
    pub id: String,
    pub tool_pattern: String,
    /// Restricts the rule to files; empty for all. Relative to the working folder unless it is absolute.
    pub path_pattern: String,
    pub action: RuleAction,
    /// Lower ones are evaluated first.
    pub priority: i32,
    pub description: String,
    /// Where it comes from, for people.
    pub source: String,
}

/// The verdict of the rules about a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleVerdict {
    /// `by` names the rule in the journal.
    Allow { by: String },
    Deny {
        by: String,
        /// Sent to the agent.
        message: String,
    },
    /// A rule demands that a person is asked.
    Ask,
    /// Only built-in rules cover the call: a person is asked about what may do harm.
    Unsaid,
}

/// Priorities of rules that are only listed as allowed, denied or asked: a rule for part of a tool comes
/// before one for the whole tool, and within that the stricter first. Built-in rules come last.
const LISTED: [(RuleAction, i32, i32); 3] =
    [(RuleAction::Deny, 10, 40), (RuleAction::Ask, 20, 50), (RuleAction::Allow, 30, 60)];

/// The source of built-in rules.
const BUILT_IN: &str = "built-in";

const BUILT_IN_ALLOW: i32 = 100;
const BUILT_IN_ASK: i32 = 200;

impl PermissionRule {
    /// Returns the rule for a list entry such as `Bash(git *)`.
    pub fn listed(text: &str, action: RuleAction, source: &str) -> Result<Self, Error> {
        let pattern = CallPattern::parse("permissions", text)?;
        let row = LISTED.iter().find(|(listed, ..)| *listed == action);
        let priority =
            row.map_or(BUILT_IN_ASK, |(_, part, whole)| if pattern.is_general() { *whole } else { *part });
        Ok(Self {
            id: String::new(),
            tool_pattern: text.trim().to_owned(),
            path_pattern: String::new(),
            action,
            priority,
            description: String::new(),
            source: source.to_owned(),
        })
    }

    /// Returns the built-in rules: reading and searching in the working folder is allowed.
    pub fn built_in() -> Vec<Self> {
        let rule = |tool: &str, path: &str, action, priority, description: &str| Self {
            id: format!("built-in-{}", tool.to_lowercase()),
            tool_pattern: tool.to_owned(),
            path_pattern: path.to_owned(),
            action,
            priority,
            description: description.to_owned(),
            source: BUILT_IN.to_owned(),
        };
        let look = |tool| {
            rule(
                tool,
                "**",
                RuleAction::Allow,
                BUILT_IN_ALLOW,
                "looking at files in the working folder is allowed",
            )
        };
        let act = |tool| rule(tool, "", RuleAction::Ask, BUILT_IN_ASK, "changing something is asked about");
        vec![look("Read"), look("Glob"), look("Grep"), act("Bash"), act("Write"), act("Edit")]
    }

    /// Returns whether it is a built-in rule.
    pub fn is_built_in(&self) -> bool {
        self.source == BUILT_IN
    }

    fn name(&self) -> String {
        let path =
            if self.path_pattern.is_empty() { String::new() } else { format!(" in {}", self.path_pattern) };
        Settler::Rule(&format!("{}{path} ({})", self.tool_pattern, self.source)).to_string()
    }
}

/// A grant in a rule file.
#[derive(Clone, Debug, PartialEq)]
pub struct FileRule {
    pub grant: Grant,
    /// Why it exists, for people; may be empty.
    pub reason: String,
    /// The file that contains it.
    pub source: String,
}

impl FileRule {
    fn name(&self) -> String {
        Settler::Rule(&format!("{} ({})", self.grant.label(), self.source)).to_string()
    }

    fn verdict(&self) -> RuleVerdict {
        let by = self.name();
        match self.grant.action {
            GrantAction::Allow => RuleVerdict::Allow { by },
            GrantAction::Ask => RuleVerdict::Ask,
            GrantAction::Deny => RuleVerdict::deny(by, &self.reason),
        }
    }
}

/// Rules in the order of their evaluation.
#[derive(Clone, Debug, Default)]
pub struct PermissionRules {
    ordered: Vec<(PermissionRule, CallPattern)>,
    of_files: Vec<FileRule>,
}

impl PermissionRules {
    /// Sorts rules; the first that cannot be parsed is the error.
    pub fn new(rules: Vec<PermissionRule>) -> Result<Self, Error> {
        let mut ordered = rules
            .into_iter()
            .map(|rule| {
                let pattern = CallPattern::parse("tool_pattern", &rule.tool_pattern)?;
                Ok((rule, pattern))
            })
            .collect::<Result<Vec<_>, Error>>()?;
        ordered.sort_by_key(|(rule, _)| (rule.priority, rule.action));
        Ok(Self { ordered, of_files: Vec::new() })
    }

    /// Adds the rules of rule files.
    pub fn with_files(mut self, rules: Vec<FileRule>) -> Self {
        self.of_files.extend(rules);
        self
    }

    pub fn iter(&self) -> impl Iterator<Item = &PermissionRule> {
        self.ordered.iter().map(|(rule, _)| rule)
    }

    /// Returns the verdict about a call; without rules, a person is asked. A denial in a rule file always
    /// wins; within settings, the first rule that covers a call decides.
    pub fn judge(&self, asked: &Asked<'_>) -> RuleVerdict {
        let of_file = self.of_file(asked).map(FileRule::verdict);
        match (of_file, self.judge_by_settings(&asked.call)) {
            (Some(denied @ RuleVerdict::Deny { .. }), _) | (_, denied @ RuleVerdict::Deny { .. }) => denied,
            (Some(RuleVerdict::Ask), _) | (Some(_), RuleVerdict::Ask) => RuleVerdict::Ask,
            (Some(of_file), _) => of_file,
            (None, of_settings) => of_settings,
        }
    }

    /// Returns which rule asks about a call, or which one came closest and does not cover it, for the person who is asked.
    pub fn explain(&self, asked: &Asked<'_>) -> String {
        let asks =
            self.of_file(asked).filter(|rule| rule.grant.action == GrantAction::Ask).map(FileRule::name);
        let first = self.ordered.iter().find(|(rule, pattern)| is_about(rule, pattern, &asked.call));
        let is_asking = |rule: &PermissionRule| {
            matches!(rule.action, RuleAction::Ask | RuleAction::AskSession) && !rule.is_built_in()
        };
        if let Some(name) =
            asks.or_else(|| first.filter(|(rule, _)| is_asking(rule)).map(|(rule, _)| rule.name()))
        {
            return format!("{name} asks");
        }
        let of_files =
            self.of_files.iter().filter(|rule| rule.grant.is_nearly_about(&asked.call)).map(FileRule::name);
        let of_settings = self.ordered.iter().filter(|(rule, pattern)| {
            rule.action == RuleAction::Allow && !rule.is_built_in() && pattern.names_tool(&asked.call)
        });
        match of_files.chain(of_settings.map(|(rule, _)| rule.name())).next() {
            Some(name) => format!("{name} does not cover it"),
            None => "no rule covers it".to_owned(),
        }
    }

    /// Returns the rule of a file that allows a call a limited number of times, if that rule is what allows
    /// it.
    pub fn limited(&self, asked: &Asked<'_>) -> Option<&FileRule> {
        let rule = self.of_file(asked).filter(|rule| rule.grant.uses_left.is_some())?;
        (self.judge(asked) == rule.verdict()).then_some(rule)
    }

    fn of_file(&self, asked: &Asked<'_>) -> Option<&FileRule> {
        let found = grant::strictest(self.of_files.iter().map(|rule| &rule.grant), asked)?;
        self.of_files.iter().find(|rule| std::ptr::eq(&rule.grant, found))
    }

    fn judge_by_settings(&self, call: &PatternCall<'_>) -> RuleVerdict {
        let found = self.ordered.iter().find(|(rule, pattern)| is_about(rule, pattern, call));
        let Some((rule, _)) = found else { return RuleVerdict::Unsaid };
        match rule.action {
            RuleAction::Allow => RuleVerdict::Allow { by: rule.name() },
            RuleAction::Deny => RuleVerdict::deny(rule.name(), &rule.description),
            RuleAction::Ask | RuleAction::AskSession if rule.source == BUILT_IN => RuleVerdict::Unsaid,
            RuleAction::Ask | RuleAction::AskSession => RuleVerdict::Ask,
        }
    }
}

impl RuleVerdict {
    fn deny(by: String, reason: &str) -> Self {
        let because = if reason.is_empty() { String::new() } else { format!(": {reason}") };
        Self::Deny { message: format!("{by} denies this{because}"), by }
    }
}

fn is_about(rule: &PermissionRule, pattern: &CallPattern, call: &PatternCall<'_>) -> bool {
    let path = rule.path_pattern.as_str();
    match rule.action {
        RuleAction::Allow => {
            pattern.surely_covers(call) && (path.is_empty() || pattern::covers_paths(path, call))
        }
        RuleAction::Deny | RuleAction::Ask | RuleAction::AskSession => {
            pattern.may_cover(call) && (path.is_empty() || pattern::may_cover_paths(path, call))
        }
    }
}

/// Returns the rule that allows everything below a folder.
pub fn allow_below(folder: &Path, source: &str) -> PermissionRule {
    PermissionRule {
        id: String::new(),
        tool_pattern: "*".to_owned(),
        path_pattern: String::new(),
        action: RuleAction::Allow,
        priority: 70,
        description: format!("everything is allowed in {}", folder.display()),
        source: source.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use serde_json::{Value, json};

    use super::*;

    fn judge(rules: &[(RuleAction, &str)], tool: &str, input: &Value) -> RuleVerdict {
        let mut all = PermissionRule::built_in();
        all.extend(
            rules.iter().map(|(action, text)| PermissionRule::listed(text, *action, "global").unwrap()),
        );
        let working_dir = Path::new("/repo");
        let real: Vec<PathBuf> = pattern::paths_of(tool, input, working_dir);
        let call = PatternCall { tool, input, working_dir, real_paths: Some(&real) };
        let asked = Asked { call, parent: None, root: working_dir, now: crate::Timestamp(0) };
        PermissionRules::new(all).unwrap().judge(&asked)
    }

    fn word(verdict: &RuleVerdict) -> &'static str {
        match verdict {
            RuleVerdict::Allow { .. } => "allow",
            RuleVerdict::Deny { .. } => "deny",
            RuleVerdict::Ask => "ask",
            RuleVerdict::Unsaid => "unsaid",
        }
    }

    #[test]
    fn without_rules_looking_is_allowed_and_acting_is_asked() {
        assert_eq!(word(&judge(&[], "Read", &json!({"file_path": "a"}))), "allow");
        assert_eq!(word(&judge(&[], "Read", &json!({"file_path": "/home/u/.ssh/id"}))), "unsaid");
        assert_eq!(word(&judge(&[], "Grep", &json!({"pattern": "x"}))), "allow");
        assert_eq!(word(&judge(&[], "Bash", &json!({"command": "ls"}))), "unsaid");
        assert_eq!(word(&judge(&[], "mcp__x__y", &json!({}))), "unsaid");
    }

    #[test]
    fn a_part_of_a_tool_comes_before_the_whole_and_denying_before_allowing() {
        let rules = [(RuleAction::Deny, "Bash"), (RuleAction::Allow, "Bash(npm test)")];
        assert_eq!(word(&judge(&rules, "Bash", &json!({"command": "npm test"}))), "allow");
        assert_eq!(word(&judge(&rules, "Bash", &json!({"command": "npm test; rm x"}))), "deny");
        let rules = [(RuleAction::Allow, "Bash(git *)"), (RuleAction::Deny, "Bash(git push *)")];
        assert_eq!(word(&judge(&rules, "Bash", &json!({"command": "git push -f"}))), "deny");
        assert_eq!(word(&judge(&rules, "Bash", &json!({"command": "git log"}))), "allow");
        assert_eq!(word(&judge(&rules, "Bash", &json!({"command": "git log; git push -f"}))), "deny");
        assert_eq!(word(&judge(&rules, "Bash", &json!({"command": "git log; ls"}))), "unsaid");
        let rules = [(RuleAction::Allow, "Bash"), (RuleAction::Ask, "Bash(rm *)")];
        assert_eq!(word(&judge(&rules, "Bash", &json!({"command": "ls; rm x"}))), "ask");
    }

    #[test]
    fn a_lower_priority_is_asked_first() {
        let mut first = PermissionRule::listed("Bash(git push *)", RuleAction::Allow, "flag").unwrap();
        first.priority = 1;
        let second = PermissionRule::listed("Bash(git push *)", RuleAction::Deny, "global").unwrap();
        let rules = PermissionRules::new(vec![second, first]).unwrap();
        let input = json!({"command": "git push origin"});
        let call = PatternCall { tool: "Bash", input: &input, working_dir: Path::new("/"), real_paths: None };
        let asked = Asked { call, parent: None, root: Path::new("/"), now: crate::Timestamp(0) };
        assert_eq!(rules.judge(&asked), RuleVerdict::Allow { by: "rule Bash(git push *) (flag)".to_owned() });
    }

    #[test]
    fn a_denial_names_its_rule() {
        let verdict = judge(&[(RuleAction::Deny, "Bash(curl *)")], "Bash", &json!({"command": "curl x"}));
        let RuleVerdict::Deny { by, message } = verdict else { panic!("{verdict:?}") };
        assert_eq!(by, "rule Bash(curl *) (global)");
        assert!(message.contains("curl"), "{message}");
    }

    #[test]
    fn the_person_who_is_asked_learns_which_rule_asks_or_came_closest() {
        let explain = |rules: &[(RuleAction, &str)], command: &str| {
            let mut all = PermissionRule::built_in();
            let listed =
                |(action, text): &(_, &str)| PermissionRule::listed(text, *action, "global").unwrap();
            all.extend(rules.iter().map(listed));
            let input = json!({ "command": command });
            let call =
                PatternCall { tool: "Bash", input: &input, working_dir: Path::new("/r"), real_paths: None };
            let asked = Asked { call, parent: None, root: Path::new("/r"), now: crate::Timestamp(0) };
            PermissionRules::new(all).unwrap().explain(&asked)
        };
        assert_eq!(explain(&[], "ls"), "no rule covers it");
        let allowed = [(RuleAction::Allow, "Bash(npm *)"), (RuleAction::Allow, "Edit")];
        assert_eq!(explain(&allowed, "ls"), "rule Bash(npm *) (global) does not cover it");
        let asks = [(RuleAction::Allow, "Bash"), (RuleAction::Ask, "Bash(rm *)")];
        assert_eq!(explain(&asks, "rm x"), "rule Bash(rm *) (global) asks");
    }

    #[test]
    fn what_a_file_denies_nothing_allows() {
        use crate::permission::{Coverage, Scope};
        let input = json!({"command": "npm test"});
        let call =
            PatternCall { tool: "Bash", input: &input, working_dir: Path::new("/repo"), real_paths: None };
        let asked = Asked { call, parent: None, root: Path::new("/repo"), now: crate::Timestamp(0) };
        let rule = |action, covers| {
            let grant = Grant { action, scope: Scope::Always, ..Grant::new("Bash", covers) };
            FileRule { grant, reason: String::new(), source: "rules.toml".to_owned() }
        };
        let prefix = || Coverage::Prefix("npm test".to_owned());
        let settings = |action| {
            PermissionRules::new(vec![PermissionRule::listed("Bash(npm test)", action, "global").unwrap()])
                .unwrap()
        };
        let allowed = rule(GrantAction::Allow, prefix());
        for (rules, expected) in [
            (settings(RuleAction::Allow).with_files(vec![rule(GrantAction::Deny, Coverage::Tool)]), "deny"),
            (settings(RuleAction::Deny).with_files(vec![allowed.clone()]), "deny"),
            (settings(RuleAction::Ask).with_files(vec![allowed.clone()]), "ask"),
            (
                PermissionRules::default()
                    .with_files(vec![rule(GrantAction::Deny, Coverage::Tool), allowed.clone()]),
                "deny",
            ),
            (
                PermissionRules::default()
                    .with_files(vec![allowed.clone(), rule(GrantAction::Ask, prefix())]),
                "ask",
            ),
            (PermissionRules::default().with_files(vec![allowed.clone()]), "allow"),
        ] {
            assert_eq!(word(&rules.judge(&asked)), expected, "{rules:?}");
        }
    }
}
