//! The names that people type, exactly as they are published: each is run once, and what it prints is what was promised.

use anyhow::{Context, Result};
use e2e::cli::Cli;
use serde_json::{Value, json};

use crate::stage::{Agent, Stage, script, stage};

async fn only(cli: &Cli, name: &str) -> Result<Value> {
    let listed = cli.ok(&["ps", "--json"]).await?.json_lines()?;
    listed
        .into_iter()
        .find(|session| session["name"] == name)
        .with_context(|| format!("{name} is not listed"))
}

#[tokio::test]
async fn the_names_of_the_command_line_are_those_that_are_published() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let cli = stage.cli();
    starting_and_listing(&stage, &cli).await?;
    sessions(&cli).await?;
    queues_and_budgets(&stage, &cli).await?;
    changes(&stage, &cli).await?;
    looking_back_and_help(&cli).await?;
    ending(&cli).await?;
    stage.close().await
}

async fn starting_and_listing(stage: &Stage, cli: &Cli) -> Result<()> {
    let image = stage.world.path("shot.png");
    std::fs::write(&image, b"\x89PNG\r\n\x1a\nnot much of a picture")?;
    let image = image.display().to_string();
    let prompt = script(Agent::Scripted, "look", &json!([{"text": "I see it."}]));
    let words =
        ["run", &prompt, "-w", "looker-tree", "-p", "scripted", "-m", "scripted-1", "--mode", "autonomous"];
    let more = ["--name", "looker", "--budget", "2.5", "--image", &image];
    let ran = cli.ok(&[&words[..], &more[..]].concat()).await?.stdout;
    for line in ["Session: sess_", "Folder:", "Branch:"] {
        assert!(ran.contains(line), "{line} is missing in:\n{ran}");
    }
    let made = cli.json(&["run", "-p", "scripted", "--name", "plain", "--detach"]).await?;
    for field in ["session_id", "folder", "branch"] {
        assert!(made[field].as_str().is_some_and(|text| !text.is_empty()), "{field} of {made}");
    }
    let looker = only(cli, "looker").await?;
    assert_eq!((&looker["budget"]["usd"], &looker["budget"]["usd_left"]), (&json!(2.5), &json!(2.5)));
    assert_eq!((&looker["branch"], &looker["mode"]), (&json!("looker-tree"), &json!("autonomous")));
    let id = looker["session_id"].as_str().context("an id")?;
    let started = stage.wait_for(id, "turn_started", |_| true).await?;
    assert_eq!(started["attachments"][0]["name"], "shot.png", "{started}");
    assert_eq!(started["attachments"][0]["media_type"], "image/png", "{started}");
    // Without a name the tree has that of the prompt, with an image too.
    let named = cli.json(&["run", &prompt, "-w", "-p", "scripted", "--image", &image, "--detach"]).await?;
    assert!(named["branch"].as_str().is_some_and(|branch| branch.contains("look")), "{named}");
    for (words, named) in [
        (&["run", "x", "--budget", "0"][..], "--budget"),
        (&["run", "x", "--budget", "much"], "--budget"),
        (&["run", "x", "--image", "/no/such/file"], "/no/such/file"),
        (&["run", "--image", "a.png"], "PROMPT"),
    ] {
        let refused = cli.run(words).await?;
        assert!(refused.code == Some(2) && refused.stderr.contains(named), "{words:?}: {refused:?}");
    }
    Ok(())
}

async fn sessions(cli: &Cli) -> Result<()> {
    let prompt = script(Agent::Scripted, "hello", &json!([{"text": "Hello there."}]));
    assert!(cli.ok(&["send", "plain", &prompt]).await?.stdout.contains("Hello there."));
    cli.ok(&["session", "send", "plain", &prompt]).await?;
    for words in [&["logs", "plain"][..], &["session", "logs", "plain"]] {
        assert!(cli.ok(words).await?.stdout.contains("Hello there."), "{words:?}");
    }
    for words in [&["wait", "plain", "--all"][..], &["session", "wait", "plain"], &["wait", "plain", "--any"]]
    {
        cli.ok(words).await?;
    }
    for words in [&["attach", "plain"][..], &["session", "attach", "plain"]] {
        // Standard input is at its end: the past is shown, and it is left.
        let shown = cli.ok(words).await?;
        assert!(shown.stdout.contains("Hello there."), "{words:?}: {shown:?}");
    }
    cli.ok(&["fork", "plain", "--name", "branch-off"]).await?;
    cli.ok(&["session", "fork", "plain", "--name", "second"]).await?;
    cli.ok(&["rename", "branch-off", "forked"]).await?;
    cli.ok(&["session", "rename", "forked", "copy"]).await?;
    let taken = cli.run(&["rename", "looker", "plain"]).await?;
    assert!(taken.code == Some(2) && taken.stderr.contains("choose another one"), "{taken:?}");
    let near = cli.run(&["attach", "plian"]).await?;
    assert!(near.code == Some(4) && near.stderr.contains("did you mean plain"), "{near:?}");
    Ok(())
}

async fn queues_and_budgets(stage: &Stage, cli: &Cli) -> Result<()> {
    let gate = stage.world.path("queue-gate");
    cli.ok(&["send", "plain", &super::gated("first", &gate), "--no-wait"]).await?;
    for (form, text) in [(&["queue"][..], "one"), (&["session", "queue"], "two"), (&["queue"], "three")] {
        cli.ok(&[form, &["add", "plain", &script(Agent::Scripted, text, &json!([{"text": text}]))]].concat())
            .await?;
    }
    let entries = cli.ok(&["queue", "list", "plain", "--json"]).await?.json_lines()?;
    let entry = |at: usize| entries[at]["entry"].as_str().unwrap_or_default().to_owned();
    cli.ok(&[
        "queue",
        "edit",
        "plain",
        &entry(0),
        &script(Agent::Scripted, "uno", &json!([{"text": "uno"}])),
    ])
    .await?;
    cli.ok(&["queue", "move", "plain", &entry(2), "1"]).await?;
    cli.ok(&["session", "queue", "drop", "plain", &entry(1)]).await?;
    assert_eq!(only(cli, "plain").await?["queued"], 2);
    super::open_gate(&gate)?;
    let id = only(cli, "plain").await?["session_id"].as_str().context("an id")?.to_owned();
    super::wait_for_turns(stage, &id, 5).await?;
    let prompts = super::prompts(stage, &id).await?;
    let sent: Vec<&str> = prompts.iter().rev().take(2).map(|text| &text[..3]).collect();
    assert_eq!(sent, ["uno", "thr"], "{prompts:?}");
    let words = ["session", "budget", "plain", "--usd", "5", "--tokens", "1000", "--minutes", "30"];
    assert_eq!(cli.json(&words).await?["usd"], 5.0);
    let budget = only(cli, "plain").await?["budget"].clone();
    assert_eq!((&budget["max_tokens"], &budget["usd"]), (&json!(1000), &json!(5.0)), "{budget}");
    assert!(budget["minutes_left"].as_f64().is_some_and(|left| left > 0.0 && left <= 30.0), "{budget}");
    Ok(())
}

async fn changes(stage: &Stage, cli: &Cli) -> Result<()> {
    let tree =
        cli.json(&["run", "-w", "author-tree", "-p", "scripted", "--name", "author", "--detach"]).await?;
    let folder = std::path::PathBuf::from(tree["folder"].as_str().context("a folder")?);
    let prompt = script(Agent::Scripted, "words", &json!([{"text": "written"}]));
    cli.ok(&["send", "author", &prompt, "--no-wait"]).await?;
    cli.ok(&["wait", "author"]).await?;
    std::fs::write(folder.join("words.txt"), "one\ntwo\n")?;
    assert_eq!(only(cli, "author").await?["state"], "done");
    let listed = cli.json(&["diff", "author"]).await?;
    assert_eq!(
        (&listed["files"][0]["path"], &listed["files"][0]["added"], &listed["files"][0]["removed"]),
        (&json!("words.txt"), &json!(2), &json!(0)),
        "{listed}"
    );
    assert_eq!(only(cli, "author").await?["state"], "idle", "who looks at the changes has looked");
    assert!(cli.ok(&["session", "diff", "author"]).await?.stdout.contains("words.txt"));
    let refused = cli.run(&["merge", "author"]).await?;
    assert!(refused.code == Some(5) && refused.stderr.contains("not committed"), "{refused:?}");
    let merged = cli.json(&["session", "merge", "author", "--commit", "words"]).await?;
    assert_eq!(merged["into"], "main", "{merged}");
    assert_eq!(std::fs::read_to_string(stage.world.project().join("words.txt"))?, "one\ntwo\n");
    assert!(cli.ok(&["merge", "author"]).await?.stdout.contains("has everything already"));
    cli.ok(&["worktree", "create", "spare"]).await?;
    assert!(cli.ok(&["worktree", "list"]).await?.stdout.contains("spare"));
    cli.ok(&["worktree", "remove", "spare"]).await?;
    cli.ok(&["worktree", "gc", "--dry-run"]).await?;
    cli.ok(&["worktree", "gc"]).await?;
    Ok(())
}

async fn looking_back_and_help(cli: &Cli) -> Result<()> {
    assert!(cli.ok(&["search", "Hello there"]).await?.stdout.contains("plain"));
    cli.ok(&["usage"]).await?;
    cli.ok(&["import"]).await?;
    for form in
        [&["export", "plain", "--format", "md"][..], &["session", "export", "plain", "--format", "md"]]
    {
        assert!(cli.ok(form).await?.stdout.contains("# plain"));
    }
    let exported: Value =
        serde_json::from_str(&cli.ok(&["export", "plain", "--format", "json"]).await?.stdout)?;
    assert_eq!(exported["session"]["name"], "plain");
    assert!(cli.ok(&["explain", "OBEY-2001"]).await?.stdout.contains("OBEY-2001"));
    cli.ok(&["config", "show"]).await?;
    cli.ok(&["config", "check"]).await?;
    assert!(cli.ok(&["man", "run"]).await?.stdout.contains("budget"));
    let help = cli.run(&[]).await?;
    assert!(help.code == Some(2) && help.stderr.contains("Usage: obey"), "{help:?}");
    Ok(())
}

async fn ending(cli: &Cli) -> Result<()> {
    cli.ok(&["session", "archive", "looker"]).await?;
    let names = |lines: Vec<Value>| -> Vec<String> {
        lines.iter().map(|session| session["name"].as_str().unwrap_or_default().to_owned()).collect()
    };
    let listed = names(cli.ok(&["ps", "--json"]).await?.json_lines()?);
    assert!(!listed.contains(&"looker".to_owned()), "{listed:?}");
    let all = names(cli.ok(&["ps", "--all", "--json"]).await?.json_lines()?);
    assert!(all.contains(&"looker".to_owned()), "{all:?}");
    cli.ok(&["stop", "looker", "plain", "--force"]).await?;
    cli.ok(&["rm", "copy"]).await?;
    cli.ok(&["session", "rm", "second"]).await?;
    let all = names(cli.ok(&["ps", "--all", "--json"]).await?.json_lines()?);
    assert!(!all.contains(&"copy".to_owned()) && !all.contains(&"second".to_owned()), "{all:?}");
    Ok(())
}

#[tokio::test]
async fn prompts_are_signed_by_the_person_who_wrote_them() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let cli = stage.cli();
    let person = std::process::Command::new("id").arg("-un").output()?.stdout;
    let person = String::from_utf8(person)?.trim().to_owned();
    let prompt = |text: &str| script(Agent::Scripted, text, &json!([{"text": "Done."}]));
    let made = cli.json(&["run", &prompt("first"), "-p", "scripted", "--name", "worker", "--detach"]).await?;
    let id = made["session_id"].as_str().context("an id")?;
    cli.ok(&["wait", "worker"]).await?;
    cli.ok(&["send", "worker", &prompt("second")]).await?;
    let go = stage.world.path("go");
    let waits = script(Agent::Scripted, "third", &json!([{"wait_file": go}]));
    cli.ok(&["send", "worker", &waits, "--no-wait"]).await?;
    cli.ok(&["queue", "add", "worker", &prompt("fourth")]).await?;
    stage.world.touch("go")?;
    stage.wait_for(id, "turn_started", |event| event["turn"] == "turn_4").await?;
    let log = cli.ok(&["logs", "worker"]).await?.stdout;
    for turn in 1..=4 {
        assert!(log.contains(&format!("turn_{turn} by {person}: ")), "turn {turn} by {person} in:\n{log}");
    }
    assert!(log.contains(&format!("was queued by {person}")), "{log}");
    stage.close().await
}

#[tokio::test]
async fn requests_go_by_the_name_of_their_session_and_are_answered_by_short_words() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let cli = stage.cli();
    let asks =
        |command: &str| json!({"tool": "Bash", "input": {"command": command}, "ask": true, "result": "ok"});
    let question = json!({"question": {"text": "Which colour?", "options": ["Red", "Blue"]}});
    let prompt =
        script(Agent::Scripted, "work", &json!([asks("make a"), asks("make b"), question, {"text": "done"}]));
    let made = cli.json(&["run", "-p", "scripted", "--name", "asker", "--detach", &prompt]).await?;
    let id = made["session_id"].as_str().context("an id")?;
    for (command, words) in [
        ("make a", &["approve", "asker"][..]),
        ("make b", &["deny", "asker", "--message", "no"]),
        ("Which colour?", &["answer", "asker", "Blue"]),
    ] {
        stage.wait_for(id, "request_opened", |event| event.to_string().contains(command)).await?;
        let listed = cli.ok(&["requests"]).await?.stdout;
        let row = listed.lines().find(|line| line.contains(command)).context(listed.clone())?;
        assert!(row.starts_with("asker ") && !listed.contains(id), "{listed}");
        cli.ok(words).await?;
    }
    let waited = cli.run(&["wait", "asker"]).await?.stdout;
    assert!(waited.contains("Name:    asker") && waited.contains("State:   done"), "{waited}");
    let info = cli.ok(&["session", "info", "asker"]).await?.stdout;
    let campaign = only(&cli, "asker").await?["campaign"].as_str().unwrap_or_default().to_owned();
    for line in
        ["State:     done (", "Mode:      supervised", &format!("Campaign:  {campaign}"), "Cost:      "]
    {
        assert!(info.contains(line), "{line} is missing in:\n{info}");
    }
    let refused = cli.run(&["run", "x", "--budget", "-1"]).await?;
    assert!(
        refused.code == Some(2) && refused.stderr.contains("no amount of US dollars above 0"),
        "{refused:?}"
    );
    stage.close().await
}
