//! Parses transcripts, and matches messages with expectations. Pure apart from reading the file.

use std::path::Path;

use serde_json::Value;

use config::failure::{Failure, Result};

/// One line of a transcript that is not a comment.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    Send { text: String, waits: bool },
    Expect(String),
    Reply { method: String, result: Value },
}

/// A transcript with its line numbers.
#[derive(Debug)]
pub(in super::super) struct Transcript {
    pub(super) steps: Vec<(usize, Step)>,
}

impl Transcript {
    pub(in super::super) fn read(file: &Path) -> Result<Self> {
        let shown = file.display();
        let text = std::fs::read_to_string(file)
            .map_err(|error| Failure::usage(format!("{shown} cannot be read: {error}")))?;
        Self::parse(&text).map_err(|problem| Failure::usage(format!("{shown}: {problem}")))
    }

    /// Parses the steps of a transcript; errors name the line.
    pub(super) fn parse(text: &str) -> std::result::Result<Self, String> {
        let mut steps = Vec::new();
        let mut waits = true;
        for (at, line) in text.lines().enumerate() {
            let number = at + 1;
            let line = line.trim();
            if line == "#async" {
                waits = false;
            } else if let Some(pattern) = line.strip_prefix("#expect ") {
                steps.push((number, Step::Expect(pattern.trim().to_owned())));
            } else if let Some(reply) = line.strip_prefix("#reply ") {
                let (method, result) = reply.trim().split_once(' ').unwrap_or((reply, "{}"));
                let result = serde_json::from_str(result)
                    .map_err(|error| format!("line {number}: the reply is not JSON: {error}"))?;
                steps.push((number, Step::Reply { method: method.to_owned(), result }));
            } else if !line.is_empty() && !line.starts_with('#') {
                steps.push((number, Step::Send { text: line.to_owned(), waits }));
                waits = true;
            }
        }
        Ok(Self { steps })
    }
}

/// Whether a value contains everything a pattern has. Lists are compared up to the length of the pattern.
pub(super) fn contains(value: &Value, pattern: &Value) -> bool {
    match (value, pattern) {
        (Value::Object(value), Value::Object(pattern)) => {
            pattern.iter().all(|(key, wanted)| value.get(key).is_some_and(|found| contains(found, wanted)))
        }
        (Value::Array(value), Value::Array(pattern)) => {
            pattern.len() <= value.len()
                && value.iter().zip(pattern).all(|(found, wanted)| contains(found, wanted))
        }
        (value, pattern) => value == pattern,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lines_are_messages_comments_and_instructions() {
        let text = "# a comment\n\n{\"id\":1}\n#async\n{\"id\":2}\n{\"id\":3}\n#expect {\"a\":1}\n#reply m {\"b\":2}\n";
        let steps = Transcript::parse(text).unwrap().steps;
        let send = |id: u32, waits| Step::Send { text: format!("{{\"id\":{id}}}"), waits };
        assert_eq!(
            steps,
            [
                (3, send(1, true)),
                (5, send(2, false)),
                (6, send(3, true)),
                (7, Step::Expect("{\"a\":1}".into())),
                (8, Step::Reply { method: "m".into(), result: json!({"b": 2}) }),
            ]
        );
        assert!(Transcript::parse("#reply m {").is_err());
    }

    #[test]
    fn a_pattern_matches_a_value_that_contains_it() {
        let value = json!({"a": {"b": [1, {"c": 2, "d": 3}]}, "e": null});
        assert!(contains(&value, &json!({"a": {"b": [1, {"c": 2}]}})));
        assert!(contains(&value, &json!({"e": null})));
        assert!(!contains(&value, &json!({"a": {"b": [2]}})));
        assert!(!contains(&value, &json!({"f": null})));
    }
}
