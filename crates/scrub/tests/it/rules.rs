//! Every rule against its examples in `corpus/rules.toml`.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::made_up::{self, Dice};

#[derive(Deserialize)]
struct Corpus {
    rule: Vec<Examples>,
}

#[derive(Deserialize)]
pub(crate) struct Examples {
    pub(crate) id: String,
    pub(crate) positive: Vec<String>,
    negative: Vec<String>,
}

const ROUNDS: usize = 5;

pub(crate) fn examples() -> Vec<Examples> {
    toml::from_str::<Corpus>(include_str!("../../corpus/rules.toml")).unwrap().rule
}

fn rules() -> Vec<toml::Value> {
    let rules: toml::Table = toml::from_str(include_str!("../../rules/obey.toml")).unwrap();
    rules["rules"].as_array().unwrap().clone()
}

/// The words that call a rule.
pub(crate) fn keywords(id: &str) -> Vec<String> {
    let rule = rules().into_iter().find(|rule| rule["id"].as_str() == Some(id)).unwrap();
    rule["keywords"].as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned()).collect()
}

fn rule_ids() -> BTreeSet<String> {
    let rules = rules();
    let ids: Vec<String> = rules.iter().map(|rule| rule["id"].as_str().unwrap().to_owned()).collect();
    let set: BTreeSet<String> = ids.iter().cloned().collect();
    assert_eq!(ids.len(), set.len(), "two rules have the same id");
    set
}

#[test]
fn there_are_at_least_150_rules_each_with_three_examples_of_either_kind() {
    let ids = rule_ids();
    assert!(ids.len() >= 150, "{} rules", ids.len());
    let examples = examples();
    assert_eq!(examples.iter().map(|one| one.id.clone()).collect::<BTreeSet<_>>(), ids);
    for one in &examples {
        assert!(one.positive.len() >= 3 && one.negative.len() >= 3, "{} has too few examples", one.id);
    }
    println!(
        "{} rules, {} examples",
        ids.len(),
        examples.iter().map(|e| e.positive.len() + e.negative.len()).sum::<usize>()
    );
}

#[test]
fn every_rule_redacts_exactly_its_positive_examples() {
    let mut wrong = Vec::new();
    for one in examples() {
        for (index, template) in one.positive.iter().enumerate() {
            for round in 0..ROUNDS {
                let filled =
                    made_up::expand(template, &mut Dice::new(&format!("{} + {index} {round}", one.id)));
                let marked = made_up::marked(&filled);
                let mut expected = filled.clone();
                for secret in &marked.secrets {
                    expected = expected.replace(&format!("«{secret}»"), &format!("[REDACTED:{}]", one.id));
                }
                let (out, _) = super::scrub(&marked.text);
                // What stands in a secret's place must not look like one.
                let (again, _) = super::scrub(&out);
                if out != expected || again != out {
                    wrong.push(format!("{}: {filled:?}\n    became {out:?}", one.id));
                    break;
                }
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} examples are not redacted as they should be:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn no_rule_finds_anything_in_its_negative_examples() {
    let mut wrong = Vec::new();
    for one in examples() {
        for (index, template) in one.negative.iter().enumerate() {
            for round in 0..ROUNDS {
                let text =
                    made_up::expand(template, &mut Dice::new(&format!("{} - {index} {round}", one.id)));
                let (out, rules) = super::scrub(&text);
                if rules.contains(&one.id) {
                    wrong.push(format!("{}: {text:?}\n    became {out:?}", one.id));
                    break;
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} negative examples are redacted:\n{}", wrong.len(), wrong.join("\n"));
}
