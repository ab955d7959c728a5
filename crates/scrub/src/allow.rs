//! Allow-lists: what looks like a secret and is none, by its text, its line, its file or a word in it.
//! Must not know known secrets: those are never allowed.

use aho_corasick::AhoCorasick;
use regex_automata::meta::Regex;

use super::config::AllowEntry;
use super::syntax::Parsed;

/// What an allow-list's expressions look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AllowTarget {
    Secret,
    Match,
    Line,
}

/// One allow-list, ready to ask.
#[derive(Debug)]
pub(crate) struct Allow {
    all: bool,
    by_commit: bool,
    paths: Vec<Regex>,
    target: AllowTarget,
    regexes: Vec<Regex>,
    stopwords: Option<AhoCorasick>,
    rules: Vec<String>,
}

/// What is asked about.
pub(crate) struct Candidate<'t> {
    pub(crate) rule: &'t str,
    pub(crate) secret: &'t [u8],
    pub(crate) matched: &'t [u8],
    pub(crate) line: &'t [u8],
    pub(crate) path: Option<&'t str>,
}

impl Allow {
    /// Compiles an entry; the error says which of its expressions cannot be used.
    pub(crate) fn new(entry: &AllowEntry) -> Result<Self, String> {
        let compile = |list: &[String]| -> Result<Vec<Regex>, String> {
            list.iter()
                .map(|text| {
                    Parsed::new(text)
                        .and_then(|parsed| parsed.build())
                        .map_err(|error| format!("{text:?}: {error}"))
                })
                .collect()
        };
        let target = match entry.regex_target.as_str() {
            "" | "secret" => AllowTarget::Secret,
            "match" => AllowTarget::Match,
            "line" => AllowTarget::Line,
            other => return Err(format!("regexTarget {other:?} is not one of secret, match, line")),
        };
        let all = match entry.condition.to_ascii_uppercase().as_str() {
            "" | "OR" | "||" => false,
            "AND" | "&&" => true,
            other => return Err(format!("condition {other:?} is not one of OR, AND")),
        };
        let stopwords: Vec<&String> = entry.stopwords.iter().filter(|word| !word.is_empty()).collect();
        let stopwords = if stopwords.is_empty() {
            None
        } else {
            let built = AhoCorasick::builder().ascii_case_insensitive(true).build(&stopwords);
            Some(built.map_err(|error| format!("stopwords: {error}"))?)
        };
        Ok(Self {
            all,
            by_commit: !entry.commits.is_empty(),
            paths: compile(&entry.paths)?,
            target,
            regexes: compile(&entry.regexes)?,
            stopwords,
            rules: entry.target_rules.clone(),
        })
    }

    /// Tells whether matches must be shown with their line.
    pub(crate) fn needs_line(&self) -> bool {
        self.target == AllowTarget::Line && !self.regexes.is_empty()
    }

    /// Tells whether a finding is to be let through.
    pub(crate) fn allows(&self, candidate: &Candidate<'_>) -> bool {
        if !self.rules.is_empty() && !self.rules.iter().any(|rule| rule == candidate.rule) {
            return false;
        }
        let text = match self.target {
            AllowTarget::Secret => candidate.secret,
            AllowTarget::Match => candidate.matched,
            AllowTarget::Line => candidate.line,
        };
        let checks = [
            // What runs here belongs to no commit.
            self.by_commit.then_some(false),
            (!self.paths.is_empty()).then(|| {
                candidate
                    .path
                    .is_some_and(|path| self.paths.iter().any(|regex| regex.is_match(path.as_bytes())))
            }),
            (!self.regexes.is_empty()).then(|| self.regexes.iter().any(|regex| regex.is_match(text))),
            self.stopwords.as_ref().map(|words| words.is_match(candidate.secret)),
        ];
        let mut checks = checks.into_iter().flatten().peekable();
        if self.all { checks.peek().is_some() && checks.all(|yes| yes) } else { checks.any(|yes| yes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allow(toml: &str) -> Allow {
        Allow::new(&toml::from_str(toml).unwrap()).unwrap()
    }

    fn ask(allow: &Allow, secret: &str, line: &str, path: Option<&str>) -> bool {
        allow.allows(&Candidate {
            rule: "r",
            secret: secret.as_bytes(),
            matched: secret.as_bytes(),
            line: line.as_bytes(),
            path,
        })
    }

    #[test]
    fn any_check_is_enough_unless_all_are_asked_for() {
        let any = allow("regexes = ['^abc$']\nstopwords = ['Example']");
        assert!(ask(&any, "abc", "", None));
        assert!(ask(&any, "my-EXAMPLE-key", "", None));
        assert!(!ask(&any, "abcd", "", None));
        let all = allow("condition = 'AND'\nregexes = ['^abc']\npaths = ['\\.md$']");
        assert!(ask(&all, "abcd", "", Some("docs/a.md")));
        assert!(!ask(&all, "abcd", "", Some("a.rs")));
        assert!(!ask(&all, "abcd", "", None));
    }

    #[test]
    fn lines_rules_and_commits_are_looked_at() {
        assert!(ask(&allow("regexTarget = 'line'\nregexes = ['integrity']"), "x", "integrity: x", None));
        assert!(!ask(&allow("targetRules = ['other']\nregexes = ['x']"), "x", "", None));
        assert!(!ask(&allow("condition = 'AND'\ncommits = ['deadbeef']\nregexes = ['x']"), "x", "", None));
        assert!(!ask(&allow(""), "x", "", None));
        assert!(Allow::new(&toml::from_str("regexes = ['(']").unwrap()).is_err());
    }
}
