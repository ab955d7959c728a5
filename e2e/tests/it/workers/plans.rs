//! Plans on the command line: run from a file or a pipe, shown as a tree, with trees of their own.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::scripted;
use crate::stage::{Agent, stage};

#[tokio::test]
async fn plans_run_from_files_and_pipes_and_are_shown_as_trees() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let step = |id: &str, on: &[&str], steps: Value| json!({"id": id, "provider": "scripted", "prompt": scripted(&steps), "depends_on": on});
    let good = json!({"strategy": "dag", "steps": [
        step("build", &[], json!([{"text": "built"}])), step("test", &["build"], json!([{"text": "tested"}])),
    ]});
    let run = stage.cli().run_with_input(&["plan", "run", "-", "--json"], &good.to_string()).await?;
    assert_eq!(run.code, Some(0), "{run:#?}");
    let lines = run.json_lines()?;
    let id = lines[0]["plan_id"].as_str().context("the first line has no id")?;
    assert!(id.starts_with("orch_"), "{id}");
    let end = lines.last().context("no end")?;
    assert_eq!((&end["state"], end["steps"].as_array().map(Vec::len)), (&json!("completed"), Some(2)));
    let parent = end["parent_session_id"].as_str().context("no parent")?;
    stage.wait_for_status(parent, "STOPPED").await?;
    let tree = stage.cli().ok(&["plan", "show", id]).await?.stdout;
    let expected = [
        format!("{id}  completed (dag)"),
        "└─ build succeeded: built".into(),
        "   └─ test succeeded: tested".into(),
    ];
    assert_eq!(tree.lines().collect::<Vec<_>>(), expected);
    let workers = stage.cli().ok(&["worker", "list", parent, "--json"]).await?.json_lines()?;
    let ends: Vec<_> =
        workers.iter().map(|worker| (worker["name"].as_str(), worker["status"].as_str())).collect();
    assert_eq!(ends, [(Some("build"), Some("completed")), (Some("test"), Some("completed"))]);

    // A step that fails; the file is TOML.
    let failing = format!(
        "strategy = 'sequential'\n[[steps]]\nid = 'a'\nprovider = 'scripted'\nprompt = '''{}'''\n[[steps]]\nid = 'b'\nprovider = 'scripted'\nprompt = 'x'\n",
        scripted(&json!([{"error": "no luck"}]))
    );
    let file = stage.world.path("plan.toml");
    std::fs::write(&file, failing)?;
    let file = file.display().to_string();
    let run = stage.cli().run(&["plan", "run", &file]).await?;
    assert_eq!(run.code, Some(7), "{run:#?}");
    let id = run.stdout.lines().next().context("no id")?;
    let tree = stage.cli().ok(&["plan", "show", id]).await?.stdout;
    assert!(tree.contains("a failed: no luck") && tree.contains("b blocked"), "{tree}");

    for (bad, what) in [
        (r#"{"strategy": "dag", "steps": [{"id": "a", "promt": "x"}]}"#, "promt"),
        (
            r#"{"strategy": "dag", "steps": [{"id": "a", "prompt": "x", "provider": "scripted", "depends_on": ["a"]}]}"#,
            "itself",
        ),
        (r#"{"strategy": "all", "steps": [{"id": "a", "prompt": "x", "provider": "scripted"}]}"#, "strategy"),
        ("strategy = 'dag'", "steps"),
    ] {
        let run = stage.cli().run_with_input(&["plan", "run", "-"], bad).await?;
        assert!(run.code == Some(2) && run.stderr.contains(what), "{what}: {run:#?}");
    }
    assert_eq!(stage.cli().run(&["plan", "show", "orch_none"]).await?.code, Some(4));
    stage.close().await
}

#[tokio::test]
async fn a_step_with_a_tree_of_its_own_is_merged_or_left_for_review() -> Result<()> {
    let stage = stage!(Agent::Claude);
    let parent = stage.create().await?;
    let writes = |name: &str| {
        let steps = json!([{"tool": "Bash", "input": {"command": format!("echo {name} > {name}.txt")}}, {"text": "written"}]);
        crate::stage::script(Agent::Claude, name, &steps)
    };
    let step = |id: &str, merge: bool| {
        json!({
            "id": id, "prompt": writes(id), "worktree": true, "merge": merge,
            "allowed_tools": ["Bash"], "auto_approve": true,
        })
    };
    let plan = json!({"strategy": "sequential", "steps": [step("merged", true), step("offered", false)]});
    let args = ["plan", "run", "-", "--json", "--session", &parent];
    let run = stage.cli().run_with_input(&args, &plan.to_string()).await?;
    assert_eq!(run.code, Some(0), "{run:#?}");
    let project = stage.world.project();
    assert!(project.join("merged.txt").exists(), "the first step's work is merged");
    assert!(!project.join("offered.txt").exists(), "the second step's work waits");
    let workers = stage.cli().ok(&["worker", "list", &parent, "--json"]).await?.json_lines()?;
    let tree = workers[1]["working_directory"].as_str().context("no folder")?;
    assert!(std::path::Path::new(tree).join("offered.txt").exists(), "{tree}");
    // A worker's tree is removed with it only by force while it has work in it.
    let id = workers[1]["id"].as_str().context("no id")?;
    let kept = stage.cli().run(&["worker", "cancel", id, "--cleanup-worktree"]).await?;
    assert_ne!(kept.code, Some(0), "{kept:#?}");
    stage.cli().ok(&["worker", "cancel", id, "--cleanup-worktree", "--force"]).await?;
    assert!(!std::path::Path::new(tree).exists());
    stage.close().await
}

/// Returns what a table of the daemon's database holds, as text.
fn rows_of(stage: &crate::stage::Stage, query: &str) -> Result<String> {
    let database = stage.world.path("data/obey/daemon.db");
    let output = std::process::Command::new("sqlite3").arg("-readonly").arg(database).arg(query).output()?;
    anyhow::ensure!(output.status.success(), "{output:?}");
    Ok(String::from_utf8(output.stdout)?)
}

#[tokio::test]
async fn a_plan_that_has_ended_keeps_no_secret_of_its_prompts() -> Result<()> {
    const SECRET: &str = "ghp_0123456789abcdefghijABCDEFGHIJ456789";
    let stage = stage!(Agent::Scripted);
    let prompt = format!("use {SECRET} {}", scripted(&json!([{"text": "done"}])));
    let plan =
        json!({"strategy": "sequential", "steps": [{"id": "a", "provider": "scripted", "prompt": prompt}]});
    let run = stage.cli().run_with_input(&["plan", "run", "-", "--json"], &plan.to_string()).await?;
    assert_eq!(run.code, Some(0), "{run:#?}");
    for query in ["SELECT record FROM workers", "SELECT body FROM orchestration_events"] {
        let rows = rows_of(&stage, query)?;
        assert!(
            rows.contains("prompt") && rows.contains("[REDACTED") && !rows.contains(SECRET),
            "{query}: {rows}"
        );
    }
    stage.close().await
}
