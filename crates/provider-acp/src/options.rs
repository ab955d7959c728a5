//! What choosing one of an agent's permission options means. The protocol has four kinds; agents omit them or
//! use others. A kind that can be derived from an option's words is; for approvals only if they say that it
//! is for once. The meaning of any other option is unknown, so it is never chosen. Pure.

use agent_client_protocol_schema::v1::PermissionOptionKind as Kind;
use serde_json::{Value, json};

use provider_common::json_fields::Look;

const ALLOW: [&str; 10] =
    ["allow", "allowed", "approve", "approved", "accept", "yes", "proceed", "ok", "continue", "grant"];
const ONCE: [&str; 6] = ["once", "this", "time", "it", "just", "only"];
const REJECT: [&str; 10] =
    ["reject", "rejected", "deny", "denied", "decline", "refuse", "cancel", "abort", "no", "never"];
const LASTING: [&str; 8] =
    ["always", "forever", "never", "session", "remember", "permanently", "all", "again"];

/// Replaces an option's kind with one of the protocol's; returns whether there is one.
pub(super) fn mend(option: &mut Value) -> bool {
    let found = kind(option.text("kind"), option.text("optionId"), option.text("name"));
    match (option, found) {
        (Value::Object(option), Some(kind)) => {
            option.insert("kind".to_owned(), json!(kind));
            true
        }
        _ => false,
    }
}

/// Returns the kind of an option. Its name counts only if it has no kind, not if it has an unknown one.
pub(super) fn kind(kind: &str, id: &str, name: &str) -> Option<Kind> {
    let said = match kind {
        "allow_once" => return Some(Kind::AllowOnce),
        "allow_always" => return Some(Kind::AllowAlways),
        "reject_once" => return Some(Kind::RejectOnce),
        "reject_always" => return Some(Kind::RejectAlways),
        "" => vec![words(id), words(name)],
        _ => vec![words(kind)],
    };
    let lasts = said.iter().flatten().any(|word| LASTING.contains(&word.as_str()));
    let is = |word: &String, list: &[&str]| list.contains(&word.as_str());
    let begins = |words: &Vec<String>, list: &[&str]| words.first().is_some_and(|word| is(word, list));
    let first = said.iter().find(|words| begins(words, &REJECT) || begins(words, &ALLOW))?;
    if begins(first, &REJECT) {
        return Some(if lasts { Kind::RejectAlways } else { Kind::RejectOnce });
    }
    // An approval must say no more than that.
    let yes = said.iter().filter(|words| begins(words, &ALLOW));
    let is_plain = yes.flatten().all(|word| is(word, &ALLOW) || is(word, &ONCE));
    (is_plain && !lasts).then_some(Kind::AllowOnce)
}

/// Returns the words of a name, however they are joined.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_small = false;
    for letter in name.chars() {
        if !letter.is_alphanumeric() || (was_small && letter.is_uppercase()) {
            words.push(String::new());
        }
        if let (true, Some(word)) = (letter.is_alphanumeric(), words.last_mut()) {
            word.extend(letter.to_lowercase());
        }
        was_small = letter.is_lowercase();
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_told_from_the_words_of_an_option() {
        let once = Some(Kind::AllowOnce);
        for (said, name, wanted) in [
            ("allow", "", once),
            ("allowOnce", "", once),
            ("proceed_once", "Allow once", once),
            ("7", "Yes, just this once", once),
            ("allowAlways", "", None),
            ("allow", "Allow everything", None),
            ("approve", "Approve and trust this folder", None),
            ("allow", "Run it", once),
            ("yes", "Yes, for this session", None),
            ("approved_for_host", "", None),
            ("", "", None),
            ("cancel", "No", Some(Kind::RejectOnce)),
            ("reject-always", "", Some(Kind::RejectAlways)),
            ("decline", "Decline and remember", Some(Kind::RejectAlways)),
            ("2", "No, allow nothing", Some(Kind::RejectOnce)),
        ] {
            assert_eq!(kind("", said, name), wanted, "{said} {name}");
        }
        // A kind of another version counts more than the text shown to people.
        assert_eq!(kind("allow_for_the_day", "allow", "Allow"), None);
        assert_eq!(kind("reject_for_the_day", "allow", "Allow"), Some(Kind::RejectOnce));
        assert_eq!(kind("allow_always", "no", "No"), Some(Kind::AllowAlways));
    }
}
