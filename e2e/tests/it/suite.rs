//! What every provider must do, and what became of it. Scenarios end by having the journal judged (`provider_common::suite`);
//! the outcome must be the one that docs/providers.md shows, whose table is made of `e2e/capabilities.txt`. Where
//! `OBEY_SUITE_DIR` names a folder, outcomes are left there instead, for `cargo xtask capabilities` to make both anew.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use provider_common::suite;
use tonic::Status;

use crate::stage::{Agent, Stage, fields};

/// The session's journal shows what the scenario must.
pub(crate) async fn judge(stage: &Stage, id: &str, scenario: &str) -> Result<()> {
    let journal: Vec<serde_json::Value> = stage.journal(id).await?.iter().map(fields).collect();
    let verdict = suite::judge_json(scenario, &journal);
    settle(stage.agent, scenario, if verdict.is_ok() { "passed" } else { "failed" })?;
    verdict.map_err(anyhow::Error::msg).with_context(|| format!("{journal:#?}"))
}

/// What was refused was refused as the scenario wants it.
pub(crate) fn judge_refusal(agent: Agent, scenario: &str, status: &Status) -> Result<()> {
    let verdict = suite::judge_refusal(scenario, status.message());
    settle(agent, scenario, if verdict.is_ok() { "passed" } else { "failed" })?;
    verdict.map_err(anyhow::Error::msg).with_context(|| format!("{status:?}"))
}

/// The agent has no such thing; the scenario ends well and shows nothing.
pub(crate) fn unsupported(agent: Agent, scenario: &str) -> Result<()> {
    settle(agent, scenario, "unsupported")
}

/// Leaves an outcome, or holds it against the one on record.
fn settle(agent: Agent, scenario: &str, word: &str) -> Result<()> {
    if let Some(folder) = std::env::var_os("OBEY_SUITE_DIR").map(PathBuf::from) {
        std::fs::create_dir_all(&folder)?;
        return Ok(std::fs::write(folder.join(format!("{agent:?}.{scenario}")), word)?);
    }
    let known = on_record()?;
    let known = known.get(&(format!("{agent:?}"), scenario.to_owned()));
    ensure!(
        known.is_some_and(|known| known == word),
        "{scenario} with {agent:?} is {word}, and {known:?} on record: see \"What every provider does\" in docs/providers.md"
    );
    Ok(())
}

/// The outcomes that the table in docs/providers.md is made of.
fn on_record() -> Result<BTreeMap<(String, String), String>> {
    let file = e2e::tools::repository().join("e2e/capabilities.txt");
    let text = std::fs::read_to_string(&file).with_context(|| format!("{}", file.display()))?;
    let entry = |line: &str| {
        let mut words = line.split_whitespace().map(str::to_owned);
        Some(((words.next()?, words.next()?), words.next()?))
    };
    Ok(text.lines().filter(|line| !line.starts_with('#')).filter_map(entry).collect())
}

#[test]
fn every_scenario_of_the_suite_has_an_outcome_with_every_agent() -> Result<()> {
    let known = on_record()?;
    for agent in Agent::ALL {
        for scenario in &suite::ALL {
            let outcome = known.get(&(format!("{agent:?}"), scenario.name.to_owned()));
            let outcome = outcome.with_context(|| format!("{agent:?} {}", scenario.name))?;
            ensure!(
                outcome == "passed" || outcome == "unsupported",
                "{agent:?} {}: {outcome}",
                scenario.name
            );
        }
    }
    ensure!(known.len() == Agent::ALL.len() * suite::ALL.len(), "outcomes of scenarios that do not exist");
    Ok(())
}
