//! The permission rules a client receives when its session starts: exactly which tools will ask. Pure apart
//! from the `judge` function it is given.

use domain::Mode;
use domain::event::ClientTool;
use domain::permission::RuleVerdict;
use wire::roz::v1 as pb;

const PHYSICAL: &str = "physical";
const PURE: &str = "pure";

/// Returns one rule per tool; without tools, the general rules.
pub(super) fn rules(
    mode: Mode,
    tools: &[&ClientTool],
    judge: impl Fn(&str) -> RuleVerdict,
) -> Vec<pb::PermissionRule> {
    if tools.is_empty() {
        let physical = policy(mode, true, &RuleVerdict::Ask);
        return vec![rule("*", physical, PHYSICAL), rule("*", ("allow", None), PURE)];
    }
    tools
        .iter()
        .map(|tool| {
            let category = if tool.asks { PHYSICAL } else { PURE };
            rule(&tool.name, policy(mode, tool.asks, &judge(&tool.name)), category)
        })
        .collect()
}

/// The order of the arms is the order in which calls are judged.
fn policy(mode: Mode, asks: bool, verdict: &RuleVerdict) -> (&'static str, Option<String>) {
    match verdict {
        _ if asks && mode == Mode::Plan => ("block", Some("plan mode: observation only".to_owned())),
        RuleVerdict::Deny { message, .. } => ("block", Some(message.clone())),
        _ if !asks => ("allow", None),
        _ if mode == Mode::Autonomous => ("allow", Some("the session is autonomous".to_owned())),
        RuleVerdict::Allow { by } => ("allow", Some(by.clone())),
        RuleVerdict::Ask | RuleVerdict::Unsaid => ("require_confirmation", None),
    }
}

fn rule(
    pattern: &str,
    (policy, reason): (&'static str, Option<String>),
    category: &str,
) -> pb::PermissionRule {
    pb::PermissionRule {
        tool_pattern: pattern.to_owned(),
        policy: policy.to_owned(),
        category: Some(category.to_owned()),
        reason,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(name: &str, asks: bool) -> ClientTool {
        ClientTool {
            name: name.to_owned(),
            description: String::new(),
            input_schema: json!({}),
            exclusive: asks,
            timeout_ms: None,
            asks,
        }
    }

    fn shown(mode: Mode, tools: &[ClientTool], judge: impl Fn(&str) -> RuleVerdict) -> Vec<String> {
        let tools: Vec<&ClientTool> = tools.iter().collect();
        rules(mode, &tools, judge)
            .into_iter()
            .map(|rule| {
                format!("{} {} {}", rule.tool_pattern, rule.policy, rule.category.unwrap_or_default())
            })
            .collect()
    }

    #[test]
    fn tools_that_ask_are_listed_by_name() {
        let tools = [tool("move", true), tool("read", false)];
        let ask = |_: &str| RuleVerdict::Ask;
        assert_eq!(
            shown(Mode::Supervised, &tools, ask),
            ["move require_confirmation physical", "read allow pure"]
        );
        assert_eq!(shown(Mode::Autonomous, &tools, ask), ["move allow physical", "read allow pure"]);
        assert_eq!(shown(Mode::Plan, &tools, ask), ["move block physical", "read allow pure"]);
        let deny = |_: &str| RuleVerdict::Deny { by: "rule".to_owned(), message: "no".to_owned() };
        assert_eq!(shown(Mode::Autonomous, &tools, deny), ["move block physical", "read block pure"]);
        let allow = |_: &str| RuleVerdict::Allow { by: "rule".to_owned() };
        assert_eq!(shown(Mode::Supervised, &tools, allow), ["move allow physical", "read allow pure"]);
    }

    #[test]
    fn without_tools_the_general_rules_are_told() {
        let ask = |_: &str| RuleVerdict::Ask;
        assert_eq!(shown(Mode::Supervised, &[], ask), ["* require_confirmation physical", "* allow pure"]);
    }
}
