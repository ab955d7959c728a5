//! Rules ready to search with. Automata of our own rules are built when a keyword of theirs is first seen: most
//! texts need a handful of them, and start-up stays short. Must not know where texts come from.

use std::sync::{Arc, OnceLock};

use regex_automata::Input;
use regex_automata::meta::Regex;
use regex_automata::nfa::thompson::NFA;

use super::allow::Allow;
use super::config::{Merged, RuleEntry};
use super::judge;
use super::syntax::Parsed;
use crate::limits;

/// The rule that private keys in armour are redacted by. They span lines, so that a state machine follows them.
pub(crate) const PRIVATE_KEY: &str = "private-key";

/// How much a rule's word counts where two of them start at the same byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    Judged,
    Generic,
    Specific,
    Known,
}

/// One rule.
#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) id: Arc<str>,
    pub(crate) rank: Rank,
    pub(crate) keywords: Vec<String>,
    pub(crate) secret_group: usize,
    pub(crate) entropy: f64,
    pub(crate) allow: Vec<Allow>,
    /// How far before and behind the end of a keyword the rule looks.
    pub(crate) before: u64,
    pub(crate) after: u64,
    /// Matches may go on behind what the rule looks at.
    pub(crate) unbounded: bool,
    /// What calls the rule stands before its secrets, not in them.
    pub(crate) announced_before: bool,
    /// Nothing says that a secret begins before more than its first bytes have come.
    pub(crate) unannounced: bool,
    /// A keyword stands in every match or right before it.
    pub(crate) keyword_inside: bool,
    /// The judge decides instead of an expression.
    pub(crate) judged: bool,
    path: Option<Regex>,
    /// The expression as it is written; its automata are built from it when they are needed.
    expression: Box<str>,
    regex: OnceLock<Option<Regex>>,
    begun: OnceLock<Option<Regex>>,
}

impl Rule {
    fn new(entry: &RuleEntry) -> Result<Self, String> {
        let parsed = Parsed::new(&entry.regex)?;
        let secret_group = entry.secret_group.unwrap_or(0);
        if secret_group > parsed.groups() {
            return Err(format!("secretGroup {secret_group} of {} groups", parsed.groups()));
        }
        let longest = parsed.longest().filter(|&longest| longest <= limits::SCRUB_MATCH_MAX);
        // A foreign rule's keyword may stand beside its match: gitleaks asks only that it is somewhere in the text.
        let beside = if entry.foreign { limits::SCRUB_WINDOW_AFTER } else { 0 };
        let path = (!entry.path.is_empty()).then(|| Parsed::new(&entry.path)?.build()).transpose()?;
        let rank = if entry.judge {
            Rank::Judged
        } else if entry.id.starts_with("generic") {
            Rank::Generic
        } else {
            Rank::Specific
        };
        let longest = if entry.judge { Some(judge::REACH) } else { longest };
        let announced_before = entry.judge || parsed.is_announced_before(secret_group);
        let rule = Self {
            id: entry.id.as_str().into(),
            rank,
            keywords: entry.keywords.iter().filter(|word| !word.is_empty()).cloned().collect(),
            secret_group,
            entropy: entry.entropy.unwrap_or(0.0),
            allow: entry
                .allowlists
                .iter()
                .map(|list| Allow::new(list, entry.foreign))
                .collect::<Result<_, _>>()?,
            before: if entry.judge {
                judge::REACH_BACK as u64
            } else {
                longest.unwrap_or(limits::SCRUB_WINDOW_BEFORE).max(beside) as u64
            },
            after: longest.unwrap_or(limits::SCRUB_WINDOW_AFTER).max(beside) as u64,
            unbounded: longest.is_none(),
            announced_before,
            unannounced: !announced_before && !parsed.begins_with(secret_group, &entry.keywords),
            keyword_inside: !entry.foreign,
            judged: entry.judge,
            path,
            expression: entry.regex.as_str().into(),
            regex: OnceLock::new(),
            begun: OnceLock::new(),
        };
        if entry.foreign {
            let _ = rule.regex.set(Some(parsed.build()?));
        }
        Ok(rule)
    }

    fn parsed(&self) -> Result<Parsed, String> {
        Parsed::new(&self.expression)
    }

    /// Returns the automaton; none if it cannot be built, which the tests rule out for our own rules.
    pub(crate) fn regex(&self) -> Option<&Regex> {
        self.regex
            .get_or_init(|| {
                let built = self.parsed().and_then(|parsed| parsed.build());
                if let Err(error) = &built {
                    tracing::error!(rule = %self.id, error, "cannot use a rule");
                }
                built.ok()
            })
            .as_ref()
    }

    /// Returns the states of the expression.
    pub(crate) fn nfa(&self) -> Option<NFA> {
        self.parsed().ok()?.nfa()
    }

    /// Whether an automaton says what may become a secret.
    #[cfg(test)]
    pub(crate) fn is_waited_for(&self) -> bool {
        self.judged || self.begun.get().is_some_and(Option::is_some)
    }

    /// Returns where a secret begins that the text ends in before it is known to be one; only `from` and what follows is looked at.
    pub(crate) fn begun(&self, view: &[u8], from: usize) -> Option<usize> {
        if self.judged {
            return judge::begun(view);
        }
        let begun = self.begun.get_or_init(|| {
            let built = self.parsed().and_then(|parsed| parsed.build_begun(self.secret_group));
            if let Err(error) = &built {
                tracing::error!(rule = %self.id, error, "cannot wait for the secrets of a rule");
            }
            built.ok().flatten()
        });
        let regex = begun.as_ref()?;
        let mut input = Input::new(view).span(from.min(view.len())..view.len());
        let whole = regex.search(&input)?;
        let mut captures = regex.create_captures();
        input.set_start(whole.start());
        regex.search_captures(&input, &mut captures);
        captures.get_group(1).map(|secret| secret.start)
    }

    /// Tells whether the rule looks at a file. Text whose file is not known is looked at by every rule.
    pub(crate) fn looks_at(&self, path: Option<&str>) -> bool {
        match (&self.path, path) {
            (Some(regex), Some(path)) => regex.is_match(path.as_bytes()),
            _ => true,
        }
    }
}

/// All rules of a scrubber.
#[derive(Debug)]
pub(crate) struct RuleSet {
    pub(crate) rules: Vec<Rule>,
    pub(crate) allow: Vec<Allow>,
    /// Private keys are followed, under this name.
    pub(crate) private_key: Option<Arc<str>>,
    /// Some allow-list wants to see whole lines.
    pub(crate) needs_line: bool,
    /// The farthest any rule looks back.
    pub(crate) before_max: u64,
    /// Rules that nothing calls: they look everywhere.
    pub(crate) uncalled: Vec<u32>,
    /// Rules whose secrets are not known by their first bytes.
    pub(crate) unannounced: Vec<u32>,
    /// The rule that the judge decides for.
    pub(crate) judged: Option<u32>,
}

impl RuleSet {
    /// Makes rules of entries; the error names the rule.
    pub(crate) fn new(merged: &Merged) -> Result<Self, String> {
        let mut rules = Vec::new();
        let mut private_key = None;
        for entry in merged.rules.values() {
            if entry.id == PRIVATE_KEY {
                private_key = Some(PRIVATE_KEY.into());
                if !entry.foreign {
                    continue;
                }
            }
            // A rule that only names files finds nothing in a text.
            if entry.regex.is_empty() && !entry.judge {
                continue;
            }
            rules.push(Rule::new(entry).map_err(|error| format!("rule {}: {error}", entry.id))?);
        }
        let allow = merged.allowlists.iter().map(|list| Allow::new(list, list.foreign));
        let allow = allow.collect::<Result<Vec<_>, _>>();
        let allow = allow.map_err(|error| format!("allowlist: {error}"))?;
        let judged = (0..).zip(&rules).find(|(_, rule)| rule.judged).map(|(at, _)| at);
        // The judge sees what stands around a value as well.
        let needs_line = judged.is_some()
            || rules.iter().flat_map(|rule| &rule.allow).chain(&allow).any(Allow::needs_line);
        let before_max = rules.iter().map(|rule| rule.before).max().unwrap_or(0);
        let all = |is: &dyn Fn(&Rule) -> bool| {
            (0..).zip(&rules).filter(|(_, rule)| is(rule)).map(|(at, _)| at).collect()
        };
        let uncalled = all(&|rule| rule.keywords.is_empty());
        let unannounced = all(&|rule| rule.unannounced && !rule.keywords.is_empty());
        Ok(Self { rules, allow, private_key, needs_line, before_max, uncalled, unannounced, judged })
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::File;
    use super::*;

    fn rules(toml: &str, foreign: bool) -> Result<RuleSet, String> {
        let mut merged = Merged::default();
        merged.lay(File::parse(toml).unwrap(), foreign);
        RuleSet::new(&merged)
    }

    #[test]
    fn a_bad_rule_is_named() {
        assert!(rules("[[rules]]\nid='bad'\nregex='('", true).unwrap_err().contains("rule bad"));
        assert!(
            rules("[[rules]]\nid='g'\nregex='x'\nsecretGroup=1", true).unwrap_err().contains("secretGroup")
        );
        let huge = "[[rules]]\nid='huge'\nregex='(?:[a-z]{1000}){1000}'";
        assert!(rules(huge, true).unwrap_err().contains("rule huge"));
        assert!(rules("[[rules]]\nid='p'\npath='x'", true).unwrap().rules.is_empty());
    }

    #[test]
    fn windows_follow_the_longest_match() {
        let set = rules("[[rules]]\nid='a'\nregex='ab{3}'\n[[rules]]\nid='b'\nregex='ab+'", false).unwrap();
        assert_eq!((set.rules[0].before, set.rules[0].after, set.rules[0].unbounded), (4, 4, false));
        assert!(set.rules[1].unbounded);
    }
}
