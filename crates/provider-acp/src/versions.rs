//! Which versions of agents were tested, by what they report in `initialize`. Agents that are not listed, and
//! those that report nothing, have no tested range. Pure.

use agent_client_protocol_schema::v1;

use crate::limits::TITLE_MAX_CHARS;
use provider_common::text::one_line;

/// An agent's own name and the tested version. Others of the same minor version are expected to work. The
/// tested goose (1.34.0) reports nothing; a goose that does is another version.
const TESTED: [(&str, &str); 6] = [
    ("codex-acp", "0.16.0"),
    ("@agentclientprotocol/codex-acp", "2.6.0"),
    ("@agentclientprotocol/claude-agent-acp", "0.99.0"),
    ("gemini-cli", "0.61.0"),
    ("opencode", "1.18.33"),
    ("goose", "1.34.0"),
];

/// Returns the warning about an agent of a version that was not tested.
pub(super) fn warning(info: &v1::Implementation) -> Option<String> {
    let name = info.name.as_str();
    let (_, tested) = TESTED.iter().find(|(known, _)| known.eq_ignore_ascii_case(name))?;
    let (line, next) = line(tested)?;
    let version = info.version.as_str();
    if version.strip_prefix(line).is_some_and(|rest| rest.starts_with('.')) {
        return None;
    }
    let version = if version.is_empty() { "of unknown version" } else { version };
    let version = one_line(version, TITLE_MAX_CHARS);
    Some(format!("this {name} is {version}; obey is tested with {line}.0 up to, but not including, {next}.0"))
}

/// Returns the minor version of a version, and the next one: `1.18` and `1.19` for `1.18.33`.
fn line(version: &str) -> Option<(&str, String)> {
    let (line, _) = version.rsplit_once('.')?;
    let (major, minor) = line.split_once('.')?;
    Some((line, format!("{major}.{}", minor.parse::<u64>().ok()? + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, version: &str) -> Option<String> {
        warning(&v1::Implementation::new(name, version))
    }

    #[test]
    fn a_version_beside_the_tested_line_is_named_with_the_range() {
        assert_eq!(
            of("gemini-cli", "0.70.1").as_deref(),
            Some("this gemini-cli is 0.70.1; obey is tested with 0.61.0 up to, but not including, 0.62.0")
        );
        assert_eq!(
            of("OpenCode", "1.2.0").as_deref(),
            Some("this OpenCode is 1.2.0; obey is tested with 1.18.0 up to, but not including, 1.19.0")
        );
        // The two agents of one name are distinguished by the name they report.
        assert!(of("codex-acp", "2.6.0").is_some_and(|said| said.contains("0.16.0 up to")));
        assert!(
            of("@agentclientprotocol/codex-acp", "0.16.0").is_some_and(|said| said.contains("2.6.0 up to"))
        );
        assert!(of("goose", "").is_some_and(|said| said.contains("is of unknown version;")));
        assert!(of("@agentclientprotocol/claude-agent-acp", "0.990.0").is_some());
    }

    #[test]
    fn tested_lines_and_agents_nobody_listed_are_not_warned_of() {
        for (name, tested) in TESTED {
            assert_eq!(of(name, tested), None, "{name}");
            let (line, _) = line(tested).unwrap();
            assert_eq!(of(name, &format!("{line}.99")), None, "{name}");
        }
        assert_eq!(of("my-agent", "0.0.1"), None);
        assert_eq!(of("", ""), None);
    }
}
