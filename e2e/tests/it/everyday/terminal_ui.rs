//! The terminal UI in a real terminal (tmux), with the real daemon and real agents.

use std::os::unix::fs::PermissionsExt as _;

use anyhow::{Result, ensure};
use e2e::tmux::Tmux;
use e2e::{processes, tools};
use rustix::process::Signal;
use serde_json::json;
use wire::obey::v1 as own;

use crate::stage::{Agent, Stage, process_scenarios, script, stage};

process_scenarios!(a_request_is_answered_in_the_terminal_and_the_agent_goes_on);

mod once {
    crate::stage::scenarios_of!(
        scripted,
        Scripted,
        obey_without_a_terminal_prints_help_and_ends_with_2,
        a_message_is_written_pasted_and_sent,
        a_slow_line_leaves_no_stray_answers_of_the_terminal_in_the_message,
        the_terminal_is_restored_after_a_signal_and_after_a_stop,
        a_killed_daemon_costs_no_row_and_doubles_none,
        keys_work_while_the_daemon_does_not_answer,
        resizing_keeps_the_program_alive,
        a_request_answered_elsewhere_leaves_the_card,
        queue_budget_name_search_and_usage_are_a_key_away,
        the_editor_gets_a_sessions_folder_and_the_screen_comes_back,
        a_session_is_shown_beside_the_list_and_stays_unseen
    );
    use super::*;
}

/// Opens the UI, or nothing where there is no tmux and skipping is allowed.
macro_rules! open_ui {
    ($stage:expr, $words:expr) => {
        match tools::tmux()? {
            Some(_) => Tmux::start(&$stage.world, 120, 32, $words)?,
            None => return $stage.close().await,
        }
    };
}

async fn prompt(stage: &Stage, id: &str, text: &str) -> Result<()> {
    let request = own::PromptRequest { session_id: id.into(), text: text.into(), ..Default::default() };
    stage.clients.turns.clone().prompt(request).await?;
    Ok(())
}

async fn named(stage: &Stage, name: &str) -> Result<String> {
    let mut request = stage.new_session();
    request.agent_name = name.into();
    Ok(stage.create_as(request).await?.id)
}

async fn a_request_is_answered_in_the_terminal_and_the_agent_goes_on(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let tmux = open_ui!(stage, &[]);
    tmux.wait_for("No sessions yet.").await?;
    let id = named(&stage, "fixer").await?;
    let steps = json!([agent.asking("touch made"), {"text": "it is made now"}]);
    prompt(&stage, &id, &script(agent, "make", &steps)).await?;
    // It comes without a key, with its count and its reason.
    let screen = tmux.wait_for("NEEDS YOU 1").await?;
    ensure!(screen.contains("fixer"), "{screen}");
    tmux.wait_until("the title", |_| tmux.fact("pane_title").is_ok_and(|title| title == "(1) obey")).await?;
    tmux.press(&["}"])?;
    tmux.wait_for("wants to run").await?;
    ensure!(tmux.screen()?.contains("touch made"));
    // The card ignores keys for a moment, so the key is pressed until it is heard.
    tmux.press_until("y", "the answer", |screen| !screen.contains("wants to run")).await?;
    tmux.wait_for("it is made now").await?;
    stage.wait_for(&id, "turn_ended", |_| true).await?;
    let settled = stage.requests(&id, true).await?;
    ensure!(settled.len() == 1 && settled[0].outcome.contains("allowed"), "{settled:?}");
    tmux.press(&["q"])?;
    ensure!(tmux.ended().await? == 0);
    restored(&tmux)?;
    drop(tmux);
    stage.close().await
}

/// The terminal is as it was before.
fn restored(tmux: &Tmux) -> Result<()> {
    for (fact, value) in [("alternate_on", "0"), ("mouse_any_flag", "0"), ("cursor_flag", "1")] {
        ensure!(tmux.fact(fact)? == value, "{fact} is {}", tmux.fact(fact)?);
    }
    Ok(())
}

async fn obey_without_a_terminal_prints_help_and_ends_with_2(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let output = stage.cli().run(&[]).await?;
    ensure!(output.code == Some(2) && output.stderr.contains("Usage: obey"), "{output:?}");
    let output = stage.cli().run(&["--json"]).await?;
    ensure!(output.code == Some(2), "{output:?}");
    let output = stage.cli().run(&["ui"]).await?;
    ensure!(output.code == Some(2) && output.stderr.contains("needs a terminal"), "{output:?}");
    let keys = stage.cli().ok(&["ui", "--keys"]).await?.stdout;
    ensure!(keys.contains("allow = y") && keys.contains("next_request = }"), "{keys}");
    let file = stage.world.path("home/.config/obey/keys");
    std::fs::create_dir_all(file.parent().unwrap_or(&file))?;
    std::fs::write(&file, "allow = n\n")?;
    stage.world.set_env("XDG_CONFIG_HOME", stage.world.path("home/.config"));
    let refused = stage.cli().run(&["ui", "--keys"]).await?;
    ensure!(
        refused.code == Some(2) && refused.stderr.contains("allow") && refused.stderr.contains("deny"),
        "{refused:?}"
    );
    stage.close().await
}

async fn a_message_is_written_pasted_and_sent(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let id = named(&stage, "writer").await?;
    let tmux = open_ui!(stage, &["ui", "writer"]);
    tmux.wait_for("2 writer").await?;
    tmux.press(&["i"])?;
    // A pasted line break sends nothing.
    tmux.paste("first line\nsecond line \u{1b}[31mred\n")?;
    let screen = tmux.wait_for("second line").await?;
    ensure!(screen.contains("first line"), "{screen}");
    tmux.press(&["C-c"])?;
    tmux.press(&["i"])?;
    tmux.type_text(&script(agent, "say", &json!([{"text": "**bold** answer"}])))?;
    tmux.press(&["Enter"])?;
    tmux.wait_for("bold answer").await?;
    tmux.wait_for("✓ done").await?;
    // The path of a picture, as a terminal gives it for one that is dropped on it, is the picture.
    let picture = stage.world.path("a shot.png");
    std::fs::write(&picture, b"\x89PNG\r\n\x1a\n a picture")?;
    tmux.paste(&format!("'{}'", picture.display()))?;
    tmux.wait_for("+ a shot.png (image/png").await?;
    tmux.type_text(&script(agent, "look", &json!([{"text": "seen it"}])))?;
    tmux.press(&["Enter"])?;
    tmux.wait_for("seen it").await?;
    let started =
        stage.wait_for(&id, "turn_started", |event| event["attachments"][0]["name"] == "a shot.png");
    ensure!(started.await?["attachments"][0]["media_type"] == "image/png");
    tmux.press(&["Escape"])?;
    // A key right after Escape would be one with Alt.
    tmux.wait_for("i write a message").await?;
    ensure!(tmux.press_until_ended("q").await? == 0);
    drop(tmux);
    stage.close().await
}

async fn a_slow_line_leaves_no_stray_answers_of_the_terminal_in_the_message(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let id = named(&stage, "far").await?;
    let (Some(_), Some((python, _))) = (tools::tmux()?, tools::python()?) else { return stage.close().await };
    let python = python.display().to_string();
    let line = tools::repository().join("e2e/tests/python/slow_terminal.py").display().to_string();
    // From a key to the screen and back in 200 ms; the terminal's answers to questions take as long.
    let tmux = Tmux::start_through(&stage.world, 120, 32, &[&python, &line, "200"], &["ui", "far"])?;
    tmux.wait_for("2 far").await?;
    tmux.press(&["i"])?;
    let steps = script(agent, "say", &json!([{"text": "heard from afar"}]));
    tmux.type_text(&steps)?;
    tmux.wait_for("heard from afar").await?;
    tmux.press(&["Enter"])?;
    // What arrived is what was typed, and nothing of the terminal's own.
    let started = stage.wait_for(&id, "turn_started", |_| true).await?;
    ensure!(started["prompt"] == steps.as_str(), "{started}");
    tmux.wait_for("✓ done").await?;
    tmux.press(&["Escape"])?;
    tmux.wait_for("i write a message").await?;
    ensure!(tmux.press_until_ended("q").await? == 0);
    restored(&tmux)?;
    drop(tmux);
    stage.close().await
}

async fn the_terminal_is_restored_after_a_signal_and_after_a_stop(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    for signal in [Signal::TERM, Signal::HUP] {
        let tmux = open_ui!(stage, &["ui"]);
        tmux.wait_for("No sessions yet.").await?;
        // The list has no place to type, so it has no cursor.
        ensure!(tmux.fact("alternate_on")? == "1" && tmux.fact("cursor_flag")? == "0");
        if signal == Signal::TERM {
            // Stopped and continued from outside, it draws again.
            processes::signal(tmux.pid()?, Signal::STOP);
            processes::signal(tmux.pid()?, Signal::CONT);
            tmux.press(&["?"])?;
            tmux.wait_for("new session").await?;
        }
        processes::signal(tmux.pid()?, signal);
        let code = tmux.ended().await?;
        ensure!(code == 0, "it ended with {code} after {signal:?}: {}", tmux.screen()?);
        restored(&tmux)?;
    }
    stage.close().await
}

/// Rows of the transcript with a text, other than prompts. The list beside it shows a session's last line too.
fn answers(screen: &str, text: &str) -> usize {
    let rows = screen.lines().filter_map(|line| line.split_once("││").map(|(_, row)| row));
    rows.filter(|row| row.contains(text) && !row.contains("SCRIPT")).count()
}

async fn a_killed_daemon_costs_no_row_and_doubles_none(agent: Agent) -> Result<()> {
    let mut stage = stage!(agent);
    let id = named(&stage, "steady").await?;
    let tmux = open_ui!(stage, &["ui", "steady", "--no-autostart"]);
    tmux.wait_for("2 steady").await?;
    prompt(&stage, &id, &script(agent, "one", &json!([{"text": "answer number one"}]))).await?;
    tmux.wait_for("answer number one").await?;
    for round in 2..5 {
        stage.daemon.kill9().await?;
        tmux.wait_for("reconnecting").await?;
        stage.daemon.restart().await?;
        stage.clients = stage.daemon.clients().await?;
        tmux.wait_for(" live").await?;
        stage.wait_for(&id, "turn_ended", |_| true).await?;
        let text = format!("answer number {round}");
        prompt(&stage, &id, &script(agent, &format!("p{round}"), &json!([{"text": text}]))).await?;
        // The prompt has the text too.
        let shows = || tmux.screen().ok().filter(|screen| answers(screen, &text) > 0);
        e2e::deadline::poll(&text, shows).await?;
    }
    let screen = tmux.screen()?;
    for text in ["answer number one", "answer number 2", "answer number 3", "answer number 4"] {
        let shown = answers(&screen, text);
        ensure!(shown == 1, "{text} is shown {shown} times:\n{screen}");
    }
    tmux.press(&["q"])?;
    ensure!(tmux.ended().await? == 0);
    drop(tmux);
    stage.close().await
}

async fn keys_work_while_the_daemon_does_not_answer(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    named(&stage, "slow").await?;
    let tmux = open_ui!(stage, &["ui", "slow"]);
    tmux.wait_for("2 slow").await?;
    let Some(pid) = stage.daemon.pid() else { anyhow::bail!("the daemon has no pid") };
    processes::signal(pid, Signal::STOP);
    tmux.press(&["i"])?;
    tmux.type_text("hello?")?;
    tmux.press(&["Enter"])?;
    tmux.wait_for("(sending)").await?;
    tmux.press(&["Escape"])?;
    tmux.wait_for("i write a message").await?;
    tmux.press_until("?", "the keys", |screen| screen.contains("to the beginning")).await?;
    tmux.press(&["Escape"])?;
    ensure!(tmux.press_until_ended("q").await? == 0);
    processes::signal(pid, Signal::CONT);
    drop(tmux);
    stage.close().await
}

async fn resizing_keeps_the_program_alive(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let id = named(&stage, "elastic").await?;
    prompt(
        &stage,
        &id,
        &script(agent, "say", &json!([{"text": "some text that wraps in narrow terminals"}])),
    )
    .await?;
    let tmux = open_ui!(stage, &["ui", "elastic"]);
    tmux.wait_for("some text that wraps").await?;
    let mut random = 11_u32;
    for _ in 0..50 {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        tmux.resize(20 + ((random >> 8) % 180) as u16, 5 + ((random >> 20) % 45) as u16)?;
    }
    tmux.resize(120, 32)?;
    let screen = tmux.wait_for("some text that wraps in narrow terminals").await?;
    ensure!(screen.matches("some text that wraps").count() == 1 || screen.contains("SCRIPT"), "{screen}");
    tmux.press(&["q"])?;
    ensure!(tmux.ended().await? == 0);
    drop(tmux);
    stage.close().await
}

async fn a_request_answered_elsewhere_leaves_the_card(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let id = named(&stage, "asker").await?;
    let steps = json!([agent.asking("touch elsewhere"), {"text": "thank you"}]);
    prompt(&stage, &id, &script(agent, "ask", &steps)).await?;
    let tmux = open_ui!(stage, &["ui", "asker"]);
    tmux.wait_for("wants to run").await?;
    stage.decide(&id, "req_1", own::Decision::AllowOnce).await?;
    tmux.wait_until("the card is gone", |screen| !screen.contains("wants to run")).await?;
    tmux.wait_for("allowed once by").await?;
    tmux.wait_for("thank you").await?;
    tmux.press(&["q"])?;
    ensure!(tmux.ended().await? == 0);
    drop(tmux);
    stage.close().await
}

async fn queue_budget_name_search_and_usage_are_a_key_away(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let id = named(&stage, "busy").await?;
    let gate = stage.world.path("gate");
    prompt(&stage, &id, &super::gated("first", &gate)).await?;
    let tmux = open_ui!(stage, &["ui", "busy"]);
    tmux.wait_for("2 busy").await?;
    tmux.wait_for("for when the turn has ended").await?;
    tmux.press(&["i"])?;
    for (at, word) in ["tamarind", "kumquat"].iter().enumerate() {
        tmux.type_text(&script(agent, word, &json!([{"text": format!("{word} is ripe")}])))?;
        tmux.press(&["Enter"])?;
        tmux.wait_for(&format!("queue {}", at + 1)).await?;
    }
    tmux.press(&["Escape"])?;
    tmux.wait_for("i write a message").await?;
    tmux.press(&["Q"])?;
    tmux.wait_for(" 1 tamarind").await?;
    tmux.press(&["x"])?;
    tmux.wait_for(" 1 kumquat").await?;
    tmux.press(&["Escape"])?;
    tmux.wait_until("the queue closed", |screen| !screen.contains("that wait ─")).await?;
    tmux.press(&["$"])?;
    tmux.wait_for("budget of busy").await?;
    tmux.type_text("5")?;
    tmux.press(&["Enter"])?;
    tmux.wait_for("the budget is 5.00 USD").await?;
    tmux.wait_for("$0.00 of $5.00").await?;
    tmux.press(&["r"])?;
    tmux.wait_for("new name").await?;
    tmux.type_text("-bee")?;
    tmux.press(&["Enter"])?;
    tmux.wait_for("2 busy-bee").await?;
    super::open_gate(&gate)?;
    super::wait_for_turns(&stage, &id, 2).await?;
    tmux.wait_for("kumquat is ripe").await?;
    tmux.press(&["/"])?;
    tmux.wait_for("search all sessions ─").await?;
    tmux.type_text("kumquat ripe")?;
    tmux.wait_for("busy-bee · answer").await?;
    tmux.press(&["Enter"])?;
    tmux.wait_until("the search closed", |screen| !screen.contains("search all sessions ─")).await?;
    tmux.press(&["u"])?;
    tmux.wait_for("no agent reported any usage").await?;
    ensure!(tmux.screen()?.contains("budgets"));
    let info = stage.info(&id).await?;
    ensure!(info.agent_name == "busy-bee", "{info:?}");
    let sent = super::prompts(&stage, &id).await?;
    ensure!(sent.len() == 2 && sent[1].starts_with("kumquat"), "{sent:?}");
    tmux.press(&["q"])?;
    tmux.wait_until("the usage closed", |screen| !screen.contains("by campaign, 24 hours")).await?;
    ensure!(tmux.press_until_ended("q").await? == 0);
    restored(&tmux)?;
    drop(tmux);
    stage.close().await
}

async fn the_editor_gets_a_sessions_folder_and_the_screen_comes_back(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    named(&stage, "edited").await?;
    let (program, seen) = (stage.world.path("my-editor"), stage.world.path("edited"));
    let text = format!("#!/bin/sh\necho \"$PWD $1\" > {0}.new; mv {0}.new {0}\n", seen.display());
    std::fs::write(&program, text)?;
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755))?;
    stage.world.set_env("VISUAL", &program);
    // What shows lines only is told so before anything is drawn.
    if tools::tmux()?.is_some() {
        let dumb = Tmux::start_through(&stage.world, 80, 24, &["env", "TERM=dumb"], &["ui"])?;
        ensure!(dumb.ended().await? == 2);
        ensure!(dumb.screen()?.contains("obey ui --plain"), "{}", dumb.screen()?);
    }
    let tmux = open_ui!(stage, &["ui", "edited"]);
    tmux.wait_for("2 edited").await?;
    tmux.press(&["o"])?;
    let folder = e2e::deadline::poll("the editor", || std::fs::read_to_string(&seen).ok()).await?;
    ensure!(folder.trim() == format!("{} .", stage.world.project().display()), "{folder}");
    tmux.wait_for("2 edited").await?;
    tmux.press(&["?"])?;
    tmux.wait_for("find in the transcript").await?;
    tmux.press(&["q"])?;
    tmux.wait_until("the keys closed", |screen| !screen.contains("find in the transcript")).await?;
    ensure!(tmux.press_until_ended("q").await? == 0);
    restored(&tmux)?;
    drop(tmux);
    stage.close().await
}

async fn a_session_is_shown_beside_the_list_and_stays_unseen(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    for name in ["first", "second"] {
        let id = named(&stage, name).await?;
        prompt(&stage, &id, &script(agent, name, &json!([{"text": format!("said by {name}")}]))).await?;
        super::wait_for_turns(&stage, &id, 1).await?;
    }
    let tmux = open_ui!(stage, &[]);
    tmux.wait_for("DONE 2").await?;
    // Once: a key that is pressed again and again is no rest.
    tmux.press(&["j"])?;
    tmux.wait_until("the transcript beside the list", |screen| answers(screen, "said by") > 0).await?;
    let states = || async {
        let listed = stage.cli().ok(&["ps", "--json"]).await?.json_lines()?;
        anyhow::Ok(
            listed.iter().map(|one| one["state"].as_str().unwrap_or("").to_owned()).collect::<Vec<_>>(),
        )
    };
    ensure!(states().await? == ["done", "done"], "{:?}", states().await?);
    tmux.press(&["Enter"])?;
    tmux.wait_for("DONE 1").await?;
    ensure!(tmux.press_until_ended("q").await? == 0);
    drop(tmux);
    stage.close().await
}
