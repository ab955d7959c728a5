//! A `match` over the kinds of events, or over what the session's core sends and receives, decides about every one of them.
//! Clippy's `wildcard_enum_match_arm` would hold for all enums or for none, and does not look into `Some(EventKind::…)`.

use super::rust::has_word;
use super::{Breach, Tree};

/// The file with the groups that `any_event!` knows.
const GROUPS: &str = "crates/domain/src/event/groups.rs";

/// Enums of `domain` whose new variants must be seen by every `match` over them.
const DECIDED: &[&str] = &["EventKind", "AgentEvent", "AgentInput", "Effect", "Command"];

/// Crates in which `Command` is what was typed, not what a session is asked.
const OF_THE_COMMAND_LINE: &[&str] = &["crates/cli/", "crates/cli-args/", "crates/obey/", "crates/daemon/"];

/// An arm of a `match`: where its pattern begins, and the pattern with its guard.
type Arm<'a> = (usize, &'a str);

/// No arm stands for kinds that it does not name, and no group for kinds that the same `match` handles otherwise.
pub fn decided(tree: &Tree) -> Vec<Breach> {
    let groups = tree.get(GROUPS).map(|file| groups(file.code())).unwrap_or_default();
    let mut breaches = Vec::new();
    for file in tree.rust().filter(|file| file.path.starts_with("crates/") && !file.is_test()) {
        let code = file.code();
        let code = code.split("#[cfg(test)]\nmod ").next().unwrap_or(code);
        let mut breach = |at: usize, remedy: String| {
            breaches.push(Breach::new("events", file.at(code[..at].matches('\n').count()), remedy));
        };
        for arms in matches(code) {
            if arms.iter().any(|(_, arm)| names_decided(arm, &file.path)) {
                for (at, _) in arms.iter().filter(|(_, arm)| is_wildcard(arm)) {
                    let remedy = "name the kinds (any_event! names groups of events, any_report! of reports), or use `if let`";
                    breach(*at, remedy.to_owned());
                }
            }
            for (at, group) in half_handled(&arms, &groups) {
                breach(at, format!("other arms handle kinds of `{group}`: name the rest of it one by one"));
            }
        }
    }
    breaches
}

/// Returns whether a pattern is one of an enum that every `match` decides about.
fn names_decided(arm: &str, path: &str) -> bool {
    let typed = OF_THE_COMMAND_LINE.iter().any(|prefix| path.starts_with(prefix));
    let mut enums = DECIDED.iter().filter(|name| !(typed && **name == "Command"));
    has_word(arm, "any_event")
        || has_word(arm, "any_report")
        || enums.any(|name| has_word(arm, name) && arm.contains(&format!("{name}::")))
}

/// Returns the groups that an arm names although another arm names one of their kinds.
fn half_handled<'a>(arms: &[Arm<'a>], groups: &[(&'a str, Vec<&'a str>)]) -> Vec<(usize, &'a str)> {
    let mut found = Vec::new();
    for (at, arm) in arms.iter().filter(|(_, arm)| arm.contains("any_event!")) {
        for (group, kinds) in groups.iter().filter(|(group, _)| has_word(arm, group)) {
            let is_named = |arm: &str| kinds.iter().any(|kind| has_word(arm, kind));
            if arms.iter().any(|(_, arm)| is_named(arm)) {
                found.push((*at, *group));
            }
        }
    }
    found
}

/// Reads the groups from the macro's own rules: `(@ name) => { … any_event!(Kind …) }`.
fn groups(code: &str) -> Vec<(&str, Vec<&str>)> {
    let rule = |text| -> Option<(&str, Vec<&str>)> {
        let (name, rest): (&str, &str) = str::split_once(text, ")")?;
        let kinds = rest.split_once("any_event!(")?.1.split_once(')')?.0;
        (!name.starts_with('$')).then(|| (name, kinds.split_whitespace().collect()))
    };
    code.split("(@ ").skip(1).filter_map(rule).collect()
}

/// Returns whether a pattern takes whatever is left: `_`, a name, or a tuple of them.
fn is_wildcard(arm: &str) -> bool {
    let pattern = arm.split(" if ").next().unwrap_or(arm).trim();
    let mut parts = pattern.trim_start_matches('(').trim_end_matches(')').split(',').map(str::trim);
    parts.all(|part| {
        part.starts_with(|first: char| first == '_' || first.is_lowercase())
            && part.chars().all(|c| c.is_alphanumeric() || c == '_')
    })
}

/// Returns the arms of every `match` of code without comments and strings.
fn matches(code: &str) -> Vec<Vec<Arm<'_>>> {
    let mut all = Vec::new();
    for (at, _) in code.match_indices("match ") {
        let is_word = code[..at].chars().next_back().is_none_or(|c| !c.is_alphanumeric() && c != '_');
        let open = is_word.then(|| find_outside(code, at, |rest| rest.starts_with('{'))).flatten();
        if let Some(open) = open {
            all.push(arms(code, open + 1));
        }
    }
    all
}

/// Returns the arms from a place behind the opening brace.
fn arms(code: &str, mut at: usize) -> Vec<Arm<'_>> {
    let mut arms = Vec::new();
    while let Some(arrow) = find_outside(code, at, |rest| rest.starts_with("=>")) {
        let pattern = &code[at..arrow];
        let begin = at + pattern.len() - pattern.trim_start().len();
        arms.push((begin, pattern.trim()));
        let body = arrow + 2 + code[arrow + 2..].len() - code[arrow + 2..].trim_start().len();
        if code[body..].starts_with('{') {
            let end = closing(code, body);
            let rest = &code[end..];
            at = end + if rest.trim_start().starts_with(',') { rest.find(',').unwrap_or(0) + 1 } else { 0 };
        } else if let Some(comma) = find_outside(code, body, |rest| rest.starts_with(',')) {
            at = comma + 1;
        } else {
            break;
        }
    }
    arms
}

/// Finds a place that is in no brackets but those around the start; nothing behind their end.
fn find_outside(code: &str, from: usize, is_wanted: impl Fn(&str) -> bool) -> Option<usize> {
    let mut at = from;
    while let Some(next) = code[at..].chars().next() {
        if is_wanted(&code[at..]) {
            return Some(at);
        }
        match next {
            '(' | '[' | '{' => at = closing(code, at),
            ')' | ']' | '}' => return None,
            _ => at += next.len_utf8(),
        }
    }
    None
}

/// Returns the place behind the bracket that closes the one at `open`.
fn closing(code: &str, open: usize) -> usize {
    let mut depth = 0usize;
    for (at, c) in code[open..].char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return open + at + 1;
        }
    }
    code.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "crates/view/src/fold.rs";

    fn places(code: &str) -> Vec<String> {
        let groups =
            "(@ life) => { $crate::any_event!(A B) };\n(@ $kind:ident) => { $crate::EventKind::$kind }";
        let tree = Tree::of(&[(GROUPS, groups), (FILE, code)]);
        decided(&tree).into_iter().map(|breach| breach.place.replace(FILE, "")).collect()
    }

    #[test]
    fn a_wildcard_over_kinds_is_found() {
        assert_eq!(places("match kind {\n EventKind::A { x, .. } => f(x, |y| y),\n _ => {}\n}"), [":3"]);
        assert_eq!(places("match kind {\n EventKind::A { .. } => {}\n other => f(other),\n}"), [":3"]);
        assert_eq!(
            places("match kind {\n Some(EventKind::A { .. }) => {}\n _ if x => {}\n _ => {}\n}"),
            [":3", ":4"]
        );
        assert_eq!(places("match input {\n AgentInput::A => {}\n _ => {}\n}"), [":3"]);
        assert_eq!(places("match command {\n Command::A { x } => x,\n _ => return,\n}"), [":3"]);
        assert_eq!(places("match (a, b) {\n (EventKind::A {}, true) => {}\n (_, _) => {}\n}"), [":3"]);
    }

    #[test]
    fn other_matches_are_not_meant() {
        assert!(
            places("match level {\n Level::A => EventKind::A { x: 1 },\n _ => EventKind::B,\n}").is_empty()
        );
        assert!(
            places(
                "match kind {\n EventKind::A { .. } => match x { 1 => 2, _ => 3 },\n EventKind::B => 4,\n}"
            )
            .is_empty()
        );
        assert!(places("match to {\n ToolCommand::A => 1,\n _ => 2,\n}").is_empty());
        assert!(places("match mouse {\n MouseEventKind::A => {}\n _ => {}\n}").is_empty());
        assert!(places("if let EventKind::A { .. } = kind {} // match _ => EventKind::").is_empty());
        assert!(places("#[cfg(test)]\nmod tests { match kind { EventKind::A => 1, _ => 2 } }").is_empty());
    }

    #[test]
    fn a_group_is_named_only_where_none_of_it_is_handled() {
        assert!(places("match kind {\n EventKind::C => {}\n any_event!(life D) => {}\n}").is_empty());
        assert_eq!(places("match kind {\n EventKind::B { .. } => {}\n any_event!(life D) => {}\n}"), [":3"]);
        assert!(places("match kind {\n EventKind::B { .. } => {}\n any_event!(A D) => {}\n}").is_empty());
    }
}
