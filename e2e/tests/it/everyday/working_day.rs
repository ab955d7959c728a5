//! A working day: five agents in five trees of one repository, the real Claude Code and Codex among them. Two ask, one fails,
//! one uses up its budget, one has three prompts in its queue; the daemon is killed twice. Once in the terminal UI, once from
//! the command line alone.

use anyhow::{Context, Result, ensure};
use e2e::deadline::poll;
use e2e::tmux::Tmux;
use e2e::tools;
use serde_json::{Value, json};

use super::{kill_and_restart, prompts, wait_for_turns};
use crate::stage::{Agent, Stage, script};

/// The sessions of the day and their ids.
struct Day {
    stage: Stage,
    ids: Vec<(&'static str, String)>,
}

/// What the queued prompts write, in their order.
const QUEUED: [&str; 3] = ["one", "two", "three"];

/// A prompt that writes a file, after asking where the mode says so.
fn writes(agent: Agent, key: &str, command: &str) -> String {
    script(agent, key, &json!([agent.asking(command), {"text": format!("{key} is done")}]))
}

fn queued_prompt(word: &str) -> String {
    writes(Agent::Codex, word, &format!("echo {word} >> order.txt"))
}

impl Day {
    /// Starts the five; `None` where an agent is absent and skipping is allowed.
    async fn begin() -> Result<Option<Day>> {
        let Some(codex) = tools::codex()? else { return Ok(None) };
        let stage = Stage::open_with(Agent::Claude, |world| {
            world.configure_codex("")?;
            world.set_env("OPENAI_API_KEY", "dummy");
            world.prepend_path(codex.parent().context("the folder of codex")?)
        });
        let Some(stage) = stage.await? else { return Ok(None) };
        let mut day = Day { stage, ids: Vec::new() };
        day.run(
            "alpha",
            Agent::Claude,
            "supervised",
            &writes(Agent::Claude, "alpha", "echo alpha > alpha.txt"),
        )
        .await?;
        day.run("beta", Agent::Codex, "supervised", &writes(Agent::Codex, "beta", "echo beta > beta.txt"))
            .await?;
        let fails = script(Agent::Claude, "broken", &json!([{"status": 400, "message": "scripted refusal"}]));
        day.run("broken", Agent::Claude, "supervised", &fails).await?;
        let waits = script(Agent::Codex, "gate", &json!([[{"wait": "gate"}, {"text": "the gate is open"}]]));
        day.run("queued", Agent::Codex, "autonomous", &waits).await?;
        let usage = json!({"input_tokens": 10, "output_tokens": 0, "cost_micro_usd": 1_500_000});
        let spends = script(Agent::Scripted, "capped", &json!([{"usage": usage}, {"hang": true}]));
        day.run("capped", Agent::Scripted, "autonomous", &spends).await?;
        for name in ["alpha", "beta", "capped"] {
            day.stage.wait_for_request(day.id(name)).await?;
        }
        let failed = wait_for_turns(&day.stage, day.id("broken"), 1).await?;
        ensure!(failed["reason"] == "failed", "{failed}");
        Ok(Some(day))
    }

    async fn run(&mut self, name: &'static str, agent: Agent, mode: &str, prompt: &str) -> Result<()> {
        let words =
            ["run", prompt, "-w", name, "--name", name, "-p", agent.name(), "--mode", mode, "--detach"];
        let mut words = words.to_vec();
        if name == "capped" {
            words.extend(["--budget", "1"]);
        }
        let made = self.stage.cli().json(&words).await?;
        ensure!(made["branch"] == name, "{made}");
        self.ids.push((name, made["session_id"].as_str().context("an id")?.to_owned()));
        Ok(())
    }

    fn id(&self, name: &str) -> &str {
        self.ids.iter().find(|(own, _)| *own == name).map_or("", |(_, id)| id)
    }

    /// Everything that was asked for happened once and is in the repository; the journals have no gap.
    async fn end(self) -> Result<()> {
        let project = self.stage.world.project();
        let read = |file: &str| std::fs::read_to_string(project.join(file));
        assert_eq!((read("alpha.txt")?, read("beta.txt")?), ("alpha\n".to_owned(), "beta\n".to_owned()));
        assert_eq!(read("order.txt")?, "one\ntwo\nthree\n");
        for (name, id) in &self.ids {
            let numbers: Vec<u64> = self.stage.journal(id).await?.iter().map(|event| event.seq).collect();
            let all: Vec<u64> = (1..=numbers.len() as u64).collect();
            assert_eq!(numbers, all, "{name}");
            ensure!(self.stage.requests(id, false).await?.is_empty(), "{name} waits");
        }
        let sent = prompts(&self.stage, self.id("queued")).await?;
        let keys: Vec<&str> = sent.iter().filter_map(|text| text.split(' ').next()).collect();
        assert_eq!(keys, ["gate", "one", "two", "three"]);
        let capped = prompts(&self.stage, self.id("capped")).await?;
        assert_eq!(capped.get(1).map(String::as_str), Some("Go on where you stopped."));
        assert_eq!(prompts(&self.stage, self.id("broken")).await?.len(), 2);
        self.stage.close().await
    }
}

/// Shows a session by its name.
async fn go_to(tmux: &Tmux, name: &str) -> Result<()> {
    tmux.press(&[":"])?;
    tmux.wait_for("all actions ─").await?;
    tmux.type_text(&format!("go to {name}"))?;
    tmux.wait_until("the session in the palette", |screen| screen.contains(&format!("│ go to {name}")))
        .await?;
    tmux.press(&["Enter"])?;
    tmux.wait_for(&format!("┌ 2 {name} ")).await?;
    Ok(())
}

/// Writes a message to the session that is shown.
async fn write(tmux: &Tmux, text: &str) -> Result<()> {
    tmux.press(&["i"])?;
    tmux.wait_for("enter send").await?;
    tmux.type_text(text)?;
    tmux.press(&["Enter"])?;
    tmux.press(&["Escape"])?;
    // A key right after Escape would be one with Alt.
    tmux.wait_for("i write a message").await?;
    Ok(())
}

/// Answers whatever is asked: permissions are allowed, a used-up budget is raised.
async fn answer_all(tmux: &Tmux) -> Result<()> {
    let answered = poll("an answer to every request", || {
        let screen = tmux.screen().ok()?;
        if !screen.contains("NEEDS YOU") {
            return Some(());
        }
        let key = if screen.contains("a number or Enter answers") {
            "Enter"
        } else if screen.contains("y once") && !screen.contains("Tab to answer") {
            "y"
        } else {
            "}"
        };
        // A card ignores keys for a moment; one that was not heard is pressed by the next look.
        let _again = tmux.press(&[key]);
        None
    });
    answered.await.with_context(|| format!("the screen is:\n{}", tmux.screen().unwrap_or_default()))
}

#[tokio::test]
async fn a_working_day_in_the_terminal_ui() -> Result<()> {
    if tools::tmux()?.is_none() {
        return Ok(());
    }
    let Some(mut day) = Day::begin().await? else { return Ok(()) };
    let tmux = Tmux::start(&day.stage.world, 140, 40, &["ui", "--no-autostart"])?;
    tmux.wait_for("NEEDS YOU 3").await?;
    tmux.wait_for("FAILED 1").await?;
    go_to(&tmux, "queued").await?;
    for (at, word) in QUEUED.iter().enumerate() {
        write(&tmux, &queued_prompt(word)).await?;
        tmux.wait_for(&format!("queue {}", at + 1)).await?;
    }
    kill_and_restart(&mut day.stage).await?;
    tmux.wait_for(" live").await?;
    answer_all(&tmux).await?;
    for (name, turns) in [("alpha", 1), ("beta", 1), ("capped", 2)] {
        let ended = wait_for_turns(&day.stage, day.id(name), turns).await?;
        ensure!(ended["reason"] == "completed", "{name}: {ended}");
    }
    day.stage.world.model().release("gate");
    wait_for_turns(&day.stage, day.id("queued"), 4).await?;
    kill_and_restart(&mut day.stage).await?;
    tmux.wait_for(" live").await?;
    go_to(&tmux, "broken").await?;
    tmux.wait_for("scripted refusal").await?;
    write(&tmux, &script(Agent::Claude, "again", &json!([{"text": "it works now"}]))).await?;
    wait_for_turns(&day.stage, day.id("broken"), 2).await?;
    tmux.wait_for("it works now").await?;
    for name in ["alpha", "beta", "queued"] {
        go_to(&tmux, name).await?;
        // What changed is looked at before it is merged.
        tmux.press(&["d"])?;
        tmux.wait_for("changes against main").await?;
        tmux.wait_for(".txt").await?;
        tmux.press(&["M"])?;
        tmux.wait_for("is merged into the branch it was made from").await?;
        tmux.press(&["Enter"])?;
        // What was said of the session before may still be on the screen, so the review itself tells.
        tmux.wait_for("Nothing was changed.").await?;
        tmux.press(&["Escape"])?;
        // A key right after Escape would be one with Alt.
        tmux.wait_until("the review closed", |screen| !screen.contains("changes against")).await?;
    }
    ensure!(tmux.press_until_ended("q").await? == 0);
    drop(tmux);
    day.end().await
}

/// The state of a session, from the command line.
async fn state(day: &Day, name: &str) -> Result<Value> {
    let listed = day.stage.cli().ok(&["ps", "--json"]).await?.json_lines()?;
    listed
        .into_iter()
        .find(|session| session["name"] == name)
        .with_context(|| format!("{name} is not listed"))
}

#[tokio::test]
async fn the_same_day_from_the_command_line_alone() -> Result<()> {
    let Some(mut day) = Day::begin().await? else { return Ok(()) };
    let cli = day.stage.cli();
    let listed = cli.ok(&["ps", "--json"]).await?.json_lines()?;
    let states: Vec<(&str, &str)> = listed
        .iter()
        .filter_map(|session| Some((session["name"].as_str()?, session["state"].as_str()?)))
        .collect();
    let needs: Vec<&str> =
        states.iter().filter(|(_, state)| *state == "needs_you").map(|(name, _)| *name).collect();
    assert_eq!(needs.len(), 3, "{states:?}");
    assert_eq!(
        &states[..3].iter().map(|(_, state)| *state).collect::<Vec<_>>(),
        &["needs_you"; 3],
        "{states:?}"
    );
    ensure!(states.contains(&("broken", "failed")), "{states:?}");
    assert_eq!(state(&day, "capped").await?["budget"]["usd_left"], 0.0);
    for word in QUEUED {
        cli.json(&["queue", "add", "queued", &queued_prompt(word)]).await?;
    }
    kill_and_restart(&mut day.stage).await?;
    assert_eq!(state(&day, "queued").await?["queued"], 3);
    for name in ["alpha", "beta"] {
        cli.ok(&["session", "approve", name, "--json"]).await?;
        assert_eq!(cli.run(&["wait", name]).await?.code, Some(0), "{name}");
    }
    cli.ok(&["session", "answer", "capped", "Raise it and go on", "--json"]).await?;
    wait_for_turns(&day.stage, day.id("capped"), 2).await?;
    day.stage.world.model().release("gate");
    wait_for_turns(&day.stage, day.id("queued"), 4).await?;
    kill_and_restart(&mut day.stage).await?;
    let again = script(Agent::Claude, "again", &json!([{"text": "it works now"}]));
    let sent = cli.ok(&["send", "broken", &again]).await?;
    ensure!(sent.stdout.contains("it works now"), "{sent:?}");
    for name in ["alpha", "beta", "queued"] {
        let files = cli.json(&["diff", name]).await?["files"].clone();
        assert_eq!(files.as_array().map(Vec::len), Some(1), "{files}");
        let merged = cli.json(&["merge", name, "--commit", name]).await?;
        assert_eq!(merged["into"], "main", "{merged}");
    }
    day.end().await
}
