//! A conversation in a terminal: what a person sees and types while an agent works.

use anyhow::Result;
use e2e::tmux::Tmux;
use e2e::tools;
use serde_json::json;

use crate::stage::{Agent, Stage, script, stage};

/// Opens a terminal with a conversation, or ends the test where tmux is absent.
macro_rules! terminal {
    ($stage:expr, $args:expr) => {
        match tools::tmux()? {
            Some(_) => Tmux::start(&$stage.world, 100, 40, $args)?,
            None => return $stage.close().await,
        }
    };
}

async fn worker(stage: &Stage) -> Result<String> {
    let made = stage.cli().json(&["run", "-p", "scripted", "--name", "worker", "--detach"]).await?;
    Ok(made["session_id"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn what_is_typed_stays_visible_while_the_agent_works_and_is_edited() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let id = worker(&stage).await?;
    let go = stage.world.path("go");
    let again = stage.world.path("again");
    let steps = json!([{"text": "First line.\n\n"}, {"wait_file": go}, {"text": "Second line.\n\n"},
        {"wait_file": again}, {"text": "Third line."}]);
    stage.cli().ok(&["send", "worker", &script(Agent::Scripted, "x", &steps), "--no-wait"]).await?;
    let terminal = terminal!(stage, &["attach", "worker"]);
    terminal.wait_for_line("First line.").await?;
    terminal.wait_for_line("working").await?;
    terminal.type_text("please use postgre")?;
    terminal.wait_for_line("> please use postgre").await?;
    terminal.press(&["Left"])?;
    terminal.press(&["Left"])?;
    terminal.type_text("T")?;
    let screen = terminal.wait_for_line("> please use postgTre").await?;
    assert!(screen.contains("working"), "the status is there beside what is typed:\n{screen}");
    terminal.press(&["End"])?;
    terminal.press(&["C-u"])?;
    stage.world.touch("go")?;
    let screen = terminal.wait_for_line("Second line.").await?;
    assert!(!screen.contains("^["), "{screen}");
    // The cursor is in the middle of a text that takes more rows than it has lines, and columns than bytes.
    let wide = "wide äöü ".repeat(16);
    terminal.paste(&format!("alpha\n{wide}\nomega"))?;
    terminal.wait_for_line("omega").await?;
    terminal.press(&["Up"])?;
    terminal.press(&["Up"])?;
    let is_first_row = |screen: &str| {
        let row = screen.lines().position(|line| line.starts_with("> alpha"));
        row.is_some_and(|row| terminal.fact("cursor_y").is_ok_and(|cursor| cursor == row.to_string()))
    };
    terminal.wait_until("the cursor in the first row", is_first_row).await?;
    stage.world.touch("again")?;
    stage.wait_for(&id, "turn_ended", |_| true).await?;
    let place = |screen: &str, line: &str| screen.lines().position(|shown| shown == line);
    let is_below = |screen: &str| {
        let ended = screen.lines().position(|line| line.starts_with('✓'));
        ended.is_some_and(|ended| place(screen, "  omega").is_some_and(|omega| omega > ended))
    };
    let screen = terminal.wait_until_lines("the text below what was printed", is_below).await?;
    let wide = format!("  {}", wide.trim_end());
    let order = ["First line.", "Second line.", "Third line.", "> alpha", &wide, "  omega"];
    let places: Vec<Option<usize>> = order.iter().map(|line| place(&screen, line)).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?} in\n{screen}");
    for line in order {
        assert_eq!(screen.lines().filter(|shown| *shown == line).count(), 1, "{line:?} in\n{screen}");
    }
    // What is typed goes where the cursor was.
    terminal.type_text("!")?;
    terminal.wait_for_line("> alpha!").await?;
    terminal.press(&["C-c"])?;
    terminal.press(&["C-d"])?;
    assert_eq!(terminal.ended().await?, 0);
    drop(terminal);
    stage.close().await
}

#[tokio::test]
async fn a_key_that_is_pressed_while_lines_are_printed_acts_on_the_text() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let id = worker(&stage).await?;
    let go = stage.world.path("go");
    let lines: String = (0..60).map(|at| format!("line {at}\n\n")).collect();
    let steps =
        json!([{"text": "First line.\n\n"}, {"wait_file": go}, {"text": lines, "chunks": 60, "gap_ms": 10}]);
    stage.cli().ok(&["send", "worker", &script(Agent::Scripted, "x", &steps), "--no-wait"]).await?;
    let terminal = terminal!(stage, &["attach", "worker"]);
    terminal.wait_for_line("First line.").await?;
    terminal.paste("alpha\nbeta\ngamma")?;
    terminal.wait_for_line("  gamma").await?;
    // In the middle of the text, where it has to leave the screen for every line that is printed.
    terminal.press(&["Up"])?;
    stage.world.touch("go")?;
    for _ in 0..20 {
        terminal.press(&["Up"])?;
        terminal.press(&["Down"])?;
    }
    stage.wait_for(&id, "turn_ended", |_| true).await?;
    terminal.wait_for_line("line 59").await?;
    terminal.type_text("!")?;
    let has_text = |screen: &str| screen.trim_end().ends_with("> alpha\n  beta!\n  gamma");
    terminal.wait_until_lines("the text as it was typed", has_text).await?;
    drop(terminal);
    stage.close().await
}

#[tokio::test]
async fn a_request_of_a_new_session_is_shown_after_what_led_to_it() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let steps = json!([{"text": "A folder is missing.\n\n"}, Agent::Scripted.asking("mkdir made"), {"text": "Done."}]);
    let prompt = script(Agent::Scripted, "x", &steps);
    let terminal = terminal!(stage, &["run", "-p", "scripted", "--yes", &prompt]);
    let screen = terminal.wait_until_lines("the question", |screen| screen.contains("[y] once")).await?;
    let places = ["A folder is missing.", "asks for permission", "[y] once"].map(|text| screen.find(text));
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?} in\n{screen}");
    assert_eq!(screen.matches("asks for permission").count(), 1, "{screen}");
    terminal.type_text("y")?;
    terminal.press(&["Enter"])?;
    terminal.wait_for_line("Done.").await?;
    drop(terminal);
    stage.close().await
}

#[tokio::test]
async fn commands_of_the_conversation_work_while_a_request_waits() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    worker(&stage).await?;
    let steps = json!([Agent::Scripted.asking("mkdir made"), {"text": "Done."}]);
    stage.cli().ok(&["send", "worker", &script(Agent::Scripted, "x", &steps), "--no-wait"]).await?;
    let terminal = terminal!(stage, &["attach", "worker"]);
    terminal.wait_for_line("[y] once").await?;
    terminal.type_text("/help")?;
    terminal.press(&["Enter"])?;
    terminal.wait_for_line("/detach       leave").await?;
    let is_asked_again =
        |screen: &str| screen.trim_end().lines().last().is_some_and(|line| line.contains("[y] once"));
    terminal.wait_until_lines("the question again", is_asked_again).await?;
    terminal.type_text("y")?;
    terminal.press(&["Enter"])?;
    terminal.wait_for_line("Done.").await?;
    drop(terminal);
    stage.close().await
}

#[tokio::test]
async fn a_command_that_waits_says_that_an_answer_is_needed() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let id = worker(&stage).await?;
    let steps = json!([Agent::Scripted.asking("mkdir made"), {"text": "Done."}]);
    stage.cli().ok(&["send", "worker", &script(Agent::Scripted, "x", &steps), "--no-wait"]).await?;
    let terminal = terminal!(stage, &["wait", "worker"]);
    terminal.wait_for_line("worker needs you: ").await?;
    let screen = terminal.wait_for_line("answer it: obey attach ").await?;
    assert_eq!(screen.matches("needs you").count(), 1, "{screen}");
    stage.cli().ok(&["session", "approve", "worker"]).await?;
    assert_eq!(terminal.ended().await?, 0, "{id}");
    drop(terminal);
    stage.close().await
}

#[tokio::test]
async fn a_paste_of_several_lines_is_one_message() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let id = worker(&stage).await?;
    let terminal = terminal!(stage, &["attach", "worker"]);
    terminal.wait_for_line("/help for help").await?;
    terminal.wait_until_lines("the prompt", |screen| screen.trim_end().ends_with('>')).await?;
    let text = "Fix this error:\n\n  File \"a.py\", line 1\nZeroDivisionError SCRIPT: [{\"text\":\"I see\"}]";
    terminal.paste(text)?;
    terminal.wait_for_line("ZeroDivisionError").await?;
    terminal.press(&["Enter"])?;
    let started = stage.wait_for(&id, "turn_started", |_| true).await?;
    assert_eq!(started["prompt"], text);
    stage.wait_for(&id, "turn_ended", |_| true).await?;
    // Up brings it back, at once: what the agent said is printed between both, and neither loses a line.
    terminal.press(&["Up"])?;
    let has_both = |screen: &str| {
        screen.matches("ZeroDivisionError").count() == 2
            && screen.split('✓').count() == 2
            && screen.split('✓').all(|part| text.lines().all(|line| part.contains(line)))
    };
    let screen = terminal.wait_until_lines("the text before and after its turn", has_both).await?;
    assert!(screen.contains("\nI see\n"), "{screen}");
    drop(terminal);
    stage.close().await
}

#[tokio::test]
async fn the_past_is_a_conversation_with_markdown_rendered() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    worker(&stage).await?;
    let answer = "# Result\n\nIt is **done**:\n\n- one\n- two\n\n```rust\nfn main() {}\n```\n";
    let steps = json!([{"text": answer, "chunks": 30}]);
    stage.cli().ok(&["send", "worker", &script(Agent::Scripted, "Do it", &steps)]).await?;
    let terminal = terminal!(stage, &["attach", "worker"]);
    let screen = terminal.wait_for_line("\n  fn main() {}").await?;
    let answer: Vec<&str> = screen.lines().map(str::trim_end).skip_while(|line| *line != "Result").collect();
    for line in ["It is done:", "• one", "• two", "  fn main() {}"] {
        assert!(answer.contains(&line), "{line:?} is missing in\n{screen}");
    }
    assert!(!answer.concat().contains("**") && !answer.concat().contains("```"), "{screen}");
    assert!(screen.contains("> Do it"), "what was asked is there:\n{screen}");
    let coloured = terminal.coloured()?;
    assert!(coloured.contains("\x1b["), "{coloured}");
    drop(terminal);
    stage.close().await
}

#[tokio::test]
async fn a_request_shows_the_diff_and_takes_an_edited_input() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let id = worker(&stage).await?;
    let editor = stage.world.path("editor.sh");
    std::fs::write(&editor, "sed -i 's/rm -rf/ls/' \"$1\"\n")?;
    stage.world.set_env("EDITOR", format!("sh {}", editor.display()));
    let edit = json!({"tool": "Edit", "ask": true, "result": "edited", "input": {"file_path": "/p/cart.py",
        "old_string": "    return sum(items) + 1", "new_string": "    return sum(items)"}});
    let command = json!({"tool": "Bash", "ask": true, "result": "ran", "input": {"command": "rm -rf build"}});
    let plan =
        json!({"tool": "ExitPlanMode", "ask": true, "result": "go", "input": {"plan": "1. Read\n2. Fix"}});
    let terminal = terminal!(stage, &["attach", "worker"]);
    terminal.wait_for_line("/help for help").await?;
    let steps = json!([edit, command, plan, {"text": "all done"}]);
    stage.cli().ok(&["send", "worker", &script(Agent::Scripted, "x", &steps), "--no-wait"]).await?;
    let screen = terminal.wait_for_line("req_1 asks for permission").await?;
    let screen =
        if screen.contains("[y] once") { screen } else { terminal.wait_for_line("[y] once").await? };
    assert!(screen.contains("-    return sum(items) + 1"), "{screen}");
    assert!(screen.contains("+    return sum(items)"), "{screen}");
    terminal.type_text("y")?;
    terminal.press(&["Enter"])?;
    terminal.wait_for_line("$ rm -rf build").await?;
    terminal.type_text("e")?;
    terminal.press(&["Enter"])?;
    let settled = stage.wait_for(&id, "request_settled", |event| event["request"] == "req_2").await?;
    assert_eq!(settled["decision"], "allow_once", "{settled}");
    let screen = terminal.wait_for_line("│ 2. Fix").await?;
    assert!(screen.contains("│ 1. Read"), "{screen}");
    terminal.type_text("y")?;
    terminal.press(&["Enter"])?;
    terminal.wait_for_line("all done").await?;
    drop(terminal);
    stage.close().await
}

#[tokio::test]
async fn an_edited_command_is_what_claude_runs() -> Result<()> {
    let agent = Agent::Claude;
    let stage = stage!(agent);
    let id = stage.create().await?;
    let editor = stage.world.path("editor.sh");
    std::fs::write(&editor, "sed -i 's/wrong/right/' \"$1\"\n")?;
    stage.world.set_env("EDITOR", format!("sh {}", editor.display()));
    let terminal = terminal!(stage, &["attach", &id]);
    terminal.wait_for_line("/help for help").await?;
    let prompt = script(agent, "edit", &json!([agent.asking("touch wrong"), {"text": "made it"}]));
    stage.cli().ok(&["send", &id, &prompt, "--no-wait"]).await?;
    terminal.wait_for_line("$ touch wrong").await?;
    terminal.type_text("e")?;
    terminal.press(&["Enter"])?;
    stage.wait_for(&id, "turn_ended", |_| true).await?;
    assert!(stage.world.project().join("right").exists());
    assert!(!stage.world.project().join("wrong").exists());
    drop(terminal);
    stage.close().await
}

#[tokio::test]
async fn words_appear_while_they_are_written_and_are_completed_in_place() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let id = worker(&stage).await?;
    let [go, again] = ["go", "again"].map(|name| stage.world.path(name));
    let steps = json!([{"text": "Before.\n\n"}, {"text": "The answer is"}, {"wait_file": go},
        {"text": " forty-two."}, {"wait_file": again}, {"text": "\n\nThe end"}]);
    stage.cli().ok(&["send", "worker", &script(Agent::Scripted, "x", &steps), "--no-wait"]).await?;
    let terminal = terminal!(stage, &["attach", "worker"]);
    // The last row that begins so, and the row above it.
    let is_above = |screen: &str, line: &str, below: &str| {
        let rows: Vec<&str> = screen.lines().map(str::trim_end).collect();
        rows.iter()
            .rposition(|row| row.starts_with(below))
            .is_some_and(|row| row > 0 && rows[row - 1] == line)
    };
    let begun = |screen: &str| is_above(screen, "The answer is", ">");
    terminal.wait_until_lines("the begun line above the prompt", begun).await?;
    let begins = |screen: &str| screen.lines().filter(|row| row.starts_with("The answer is")).count();
    // It grows in place, above what is typed meanwhile.
    terminal.type_text("and then")?;
    let typed = |screen: &str| is_above(screen, "The answer is", "> and then");
    terminal.wait_until_lines("the begun line above what is typed", typed).await?;
    stage.world.touch("go")?;
    let grown = |screen: &str| is_above(screen, "The answer is forty-two.", "> and then");
    let screen = terminal.wait_until_lines("the line that has grown", grown).await?;
    assert_eq!(begins(&screen), 1, "{screen}");
    // What is sent leaves nothing of it behind.
    terminal.press(&["Enter"])?;
    let is_steered =
        |event: &serde_json::Value| event["text"].as_str().is_some_and(|text| text.contains("steered"));
    stage.wait_for(&id, "text_delta", is_steered).await?;
    terminal
        .wait_until_lines("the sent text above the begun line", |screen| {
            is_above(screen, "> and then", "The answer is forty-two.")
        })
        .await?;
    stage.world.touch("again")?;
    stage.wait_for(&id, "turn_ended", |_| true).await?;
    let ended = |screen: &str| screen.lines().any(|line| line.starts_with('✓'));
    let screen = terminal.wait_until_lines("the end of the turn", ended).await?;
    for line in ["Before.", "The answer is forty-two.steered: and then", "The end"] {
        assert_eq!(
            screen.lines().filter(|shown| shown.trim_end() == line).count(),
            1,
            "{line:?} in\n{screen}"
        );
    }
    assert_eq!(begins(&screen), 1, "{screen}");
    terminal.press(&["C-d"])?;
    assert_eq!(terminal.ended().await?, 0);
    drop(terminal);
    stage.close().await
}
