//! Allow-lists: what looks like a secret and is none, by its text, its line, its file or a word in it.
//! Must not know known secrets: those are never allowed.

use std::sync::OnceLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind};
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

/// One allow-list. Its automata are built when something is first found that it might allow.
#[derive(Debug)]
pub(crate) struct Allow {
    all: bool,
    by_commit: bool,
    target: AllowTarget,
    entry: AllowEntry,
    automata: OnceLock<Option<Automata>>,
}

/// What an allow-list searches with.
#[derive(Debug)]
struct Automata {
    paths: Vec<Regex>,
    regexes: Vec<Regex>,
    stopwords: Option<AhoCorasick>,
}

impl Automata {
    /// Builds them; the error says which expression cannot be used.
    fn new(entry: &AllowEntry) -> Result<Self, String> {
        let compile = |list: &[String]| -> Result<Vec<Regex>, String> {
            list.iter()
                .map(|text| {
                    Parsed::new(text)
                        .and_then(|parsed| parsed.build())
                        .map_err(|error| format!("{text:?}: {error}"))
                })
                .collect()
        };
        let stopwords: Vec<&String> = entry.stopwords.iter().filter(|word| !word.is_empty()).collect();
        let stopwords = if stopwords.is_empty() {
            None
        } else {
            // Asked about single secrets: the automaton need not be the fastest, but there are many of them.
            let kind = Some(AhoCorasickKind::ContiguousNFA);
            let built = AhoCorasick::builder().ascii_case_insensitive(true).kind(kind).build(&stopwords);
            Some(built.map_err(|error| format!("stopwords: {error}"))?)
        };
        Ok(Self { paths: compile(&entry.paths)?, regexes: compile(&entry.regexes)?, stopwords })
    }
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
    /// Takes an entry; one of another's file is built at once, and the error says which of its expressions cannot be used.
    pub(crate) fn new(entry: &AllowEntry, is_foreign: bool) -> Result<Self, String> {
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
        let automata = OnceLock::new();
        if is_foreign {
            let _ = automata.set(Some(Automata::new(entry)?));
        }
        Ok(Self { all, by_commit: !entry.commits.is_empty(), target, entry: entry.clone(), automata })
    }

    /// Returns the automata; none if they cannot be built, which the tests rule out for our own lists. Such a list allows nothing.
    fn automata(&self) -> Option<&Automata> {
        let built = self.automata.get_or_init(|| {
            let built = Automata::new(&self.entry);
            if let Err(error) = &built {
                tracing::error!(error, "cannot use an allow-list");
            }
            built.ok()
        });
        built.as_ref()
    }

    /// Whether every expression can be used.
    #[cfg(test)]
    pub(crate) fn is_usable(&self) -> bool {
        self.automata().is_some()
    }

    /// Tells whether matches must be shown with their line.
    pub(crate) fn needs_line(&self) -> bool {
        self.target == AllowTarget::Line && !self.entry.regexes.is_empty()
    }

    /// Tells whether a finding is to be let through.
    pub(crate) fn allows(&self, candidate: &Candidate<'_>) -> bool {
        let rules = &self.entry.target_rules;
        if !rules.is_empty() && !rules.iter().any(|rule| rule == candidate.rule) {
            return false;
        }
        let Some(automata) = self.automata() else { return false };
        let text = match self.target {
            AllowTarget::Secret => candidate.secret,
            AllowTarget::Match => candidate.matched,
            AllowTarget::Line => candidate.line,
        };
        let checks = [
            // What runs here belongs to no commit.
            self.by_commit.then_some(false),
            (!automata.paths.is_empty()).then(|| {
                candidate
                    .path
                    .is_some_and(|path| automata.paths.iter().any(|regex| regex.is_match(path.as_bytes())))
            }),
            (!automata.regexes.is_empty()).then(|| automata.regexes.iter().any(|regex| regex.is_match(text))),
            automata.stopwords.as_ref().map(|words| words.is_match(candidate.secret)),
        ];
        let mut checks = checks.into_iter().flatten().peekable();
        if self.all { checks.peek().is_some() && checks.all(|yes| yes) } else { checks.any(|yes| yes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allow(toml: &str) -> Allow {
        Allow::new(&toml::from_str(toml).unwrap(), true).unwrap()
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
        assert!(Allow::new(&toml::from_str("regexes = ['(']").unwrap(), true).is_err());
    }
}
