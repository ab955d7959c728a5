//! Budgets that sessions share: whoever uses one up, all stop in the middle of their turns, and one answer lets all go on.

use anyhow::{Result, ensure};
use serde_json::json;
use wire::obey::v1 as own;

use super::{kill_and_restart, prompts, session, wait_for_turns};
use crate::stage::{Agent, CAMPAIGN, Stage, script, stage};

/// Sends a prompt that uses so many tokens and then would go on for ever; returns once they are counted.
async fn spend(stage: &Stage, id: &str, tokens: u64) -> Result<()> {
    let usage = json!({"input_tokens": tokens, "output_tokens": 0});
    let text = script(Agent::Scripted, "spends", &json!([{"usage": usage}, {"hang": true}]));
    let request = own::PromptRequest { session_id: id.to_owned(), text, ..Default::default() };
    stage.clients.turns.clone().prompt(request).await?;
    stage.wait_for(id, "usage_reported", |_| true).await?;
    Ok(())
}

/// A time zone in which midnight is far away.
fn zone_in_which_it_is_noon() -> Result<String> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_secs();
    let hour = i64::try_from(now / 3_600 % 24)?;
    Ok(format!("NOON{:+}", hour - 12))
}

#[tokio::test]
async fn sessions_of_a_campaign_stop_and_go_on_together() -> Result<()> {
    let mut stage = stage!(Agent::Scripted);
    let cli = stage.cli();
    let (first, second) = (session(&stage).await?, session(&stage).await?);
    let wrong = cli.run(&["campaign", "budget", "nowhere", "--usd", "1"]).await?;
    ensure!(wrong.stderr.contains("OBEY-2001"), "{wrong:?}");
    let set = cli.json(&["campaign", "budget", CAMPAIGN, "--tokens", "100"]).await?;
    assert_eq!((&set["tokens"], &set["spent_tokens"]), (&json!(100), &json!(0)));
    spend(&stage, &second, 30).await?;
    spend(&stage, &first, 80).await?;
    for id in [&first, &second] {
        assert_eq!(wait_for_turns(&stage, id, 1).await?["reason"], "budget_exceeded");
        let request = stage.wait_for_request(id).await?;
        ensure!(request.questions[0].text.contains("has used 110 of its 100 tokens"), "{request:?}");
    }
    kill_and_restart(&mut stage).await?;
    let refused = cli.run(&["send", &second, "more"]).await?;
    ensure!(
        refused.stderr.contains("OBEY-2013") && refused.stderr.contains("obey campaign budget"),
        "{refused:?}"
    );
    let listed = cli.ok(&["ps"]).await?;
    ensure!(format!("{listed:?}").contains("110 of 100 tokens"), "{listed:?}");
    let rows = cli.ok(&["--json", "ps"]).await?.json_lines()?;
    for row in &rows {
        let shared = &row["shared_budgets"][0];
        assert_eq!((&shared["tokens"], &shared["spent_tokens"]), (&json!(100), &json!(110)), "{row}");
        ensure!(
            shared["used_up"] != "" && shared["campaign_id"] != "" && shared["per_day"] == false,
            "{row}"
        );
    }
    ensure!(rows.len() == 2, "{rows:?}");
    cli.ok(&["session", "answer", &first, "Raise it and go on"]).await?;
    for id in [&first, &second] {
        wait_for_turns(&stage, id, 2).await?;
        assert_eq!(prompts(&stage, id).await?[1], "Go on where you stopped.");
        ensure!(stage.requests(id, false).await?.is_empty(), "one answer settles the questions of all");
    }
    let raised = cli.ok(&["campaign", "budget", CAMPAIGN, "--json"]).await?.json_lines()?;
    assert_eq!(raised[0]["tokens"], 210, "{raised:?}");
    stage.close().await
}

#[tokio::test]
async fn a_day_is_over_at_midnight_and_its_budget_is_configured() -> Result<()> {
    let stage = Stage::open_with(Agent::Scripted, |world| {
        world.set_env("OBEY_BUDGETS_DAY", "tokens:50 minutes:100");
        world.set_env("TZ", zone_in_which_it_is_noon()?);
        Ok(())
    });
    let Some(mut stage) = stage.await? else { return Ok(()) };
    let cli = stage.cli();
    let id = session(&stage).await?;
    spend(&stage, &id, 60).await?;
    assert_eq!(wait_for_turns(&stage, &id, 1).await?["reason"], "budget_exceeded");
    let other = session(&stage).await?;
    let refused = cli.run(&["send", &other, "hello"]).await?;
    ensure!(refused.stderr.contains("today has used 60 of its 50 tokens"), "{refused:?}");
    stage.world.set_env("OBEY_TEST_CLOCK_OFFSET", (24 * 60 * 60).to_string());
    kill_and_restart(&mut stage).await?;
    let tomorrow = cli.json(&["budget"]).await?;
    ensure!(tomorrow["tokens"] == 50 && tomorrow["spent_tokens"].as_u64() < Some(50), "{tomorrow}");
    cli.ok(&["send", &other, "hello"]).await?;
    wait_for_turns(&stage, &id, 2).await?;
    assert_eq!(prompts(&stage, &id).await?[1], "Go on where you stopped.");
    ensure!(stage.requests(&id, false).await?.is_empty(), "the new day answers the question");
    stage.world.set_env("OBEY_TEST_CLOCK_OFFSET", "0");
    kill_and_restart(&mut stage).await?;
    assert_eq!(cli.json(&["budget"]).await?["spent_tokens"], 60, "a clock that is set back finds its day");
    stage.close().await
}

/// Seconds until midnight in this zone, by the daemon's own clock.
fn secs_to_midnight(zone: &str) -> Result<i64> {
    let hours_behind: i64 = zone.trim_start_matches("NOON").parse()?;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_secs();
    Ok(86_400 - (i64::try_from(now)? - hours_behind * 3_600).rem_euclid(86_400))
}

#[tokio::test]
async fn a_session_that_the_day_stopped_goes_on_at_midnight_unless_it_was_left() -> Result<()> {
    let zone = zone_in_which_it_is_noon()?;
    let stage = Stage::open_with(Agent::Scripted, |world| {
        world.set_env("OBEY_BUDGETS_DAY", "tokens:5000");
        world.set_env("OBEY_TEST_CLOCK_FILE", world.path("clock"));
        world.set_env("TZ", &zone);
        Ok(())
    });
    let Some(stage) = stage.await? else { return Ok(()) };
    let cli = stage.cli();
    let ids = [session(&stage).await?, session(&stage).await?];
    for id in &ids {
        spend(&stage, id, 2_500).await?;
    }
    for id in &ids {
        assert_eq!(wait_for_turns(&stage, id, 1).await?["reason"], "budget_exceeded");
        stage.wait_for_request(id).await?;
    }
    cli.ok(&["session", "answer", &ids[1], "Leave it"]).await?;
    cli.ok(&["queue", "add", &ids[0], "afterwards"]).await?;
    // Two seconds before midnight; setting another budget has the daemon look at its clock.
    std::fs::write(stage.world.path("clock"), (secs_to_midnight(&zone)? - 2).to_string())?;
    cli.ok(&["campaign", "budget", CAMPAIGN, "--calls", "1000000"]).await?;
    wait_for_turns(&stage, &ids[0], 3).await?;
    assert_eq!(prompts(&stage, &ids[0]).await?[1..], ["Go on where you stopped.", "afterwards"]);
    let settled = stage.wait_for(&ids[0], "request_settled", |_| true).await?;
    assert_eq!(settled["by"], "obey", "{settled}");
    assert_eq!(prompts(&stage, &ids[1]).await?.len(), 1, "what was left is left");
    stage.close().await
}

#[tokio::test]
async fn working_time_that_sessions_share_runs_out_while_they_work() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let cli = stage.cli();
    let ids = [session(&stage).await?, session(&stage).await?];
    for id in &ids {
        spend(&stage, id, 1).await?;
    }
    cli.ok(&["campaign", "budget", CAMPAIGN, "--per-day", "--minutes", "0.001"]).await?;
    for id in &ids {
        assert_eq!(wait_for_turns(&stage, id, 1).await?["reason"], "budget_exceeded");
    }
    stage.close().await
}
