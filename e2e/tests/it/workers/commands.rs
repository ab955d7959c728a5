//! `obey plan cancel` and `obey worker send|cancel|list`.

use anyhow::{Context, Result};
use e2e::deadline::within;
use serde_json::{Value, json};

use super::{scripted, spawn, spawned, waits_for, watched};
use crate::stage::{Agent, Stage, stage};

/// Starts a plan for a session and returns its id; it goes on.
pub(super) async fn detached(stage: &Stage, parent: &str, plan: &Value) -> Result<String> {
    let args = ["plan", "run", "-", "--detach", "--json", "--session", parent];
    let run = stage.cli().run_with_input(&args, &plan.to_string()).await?;
    assert_eq!(run.code, Some(0), "{run:#?}");
    Ok(run.json()?["plan_id"].as_str().context("no id")?.to_owned())
}

/// Waits until a plan has ended; returns it.
pub(super) async fn ended(stage: &Stage, id: &str) -> Result<Value> {
    within("the end of a plan", ended_sometime(stage, id)).await?
}

pub(super) async fn ended_sometime(stage: &Stage, id: &str) -> Result<Value> {
    loop {
        let plan = stage.cli().json(&["plan", "show", id]).await?;
        if plan["state"] != "running" {
            return Ok(plan);
        }
    }
}

pub(super) fn step(id: &str, on: &[&str], steps: &Value) -> Value {
    json!({"id": id, "provider": "scripted", "prompt": scripted(steps), "depends_on": on})
}

#[tokio::test]
async fn workers_are_told_listed_and_ended_from_the_command_line() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let parent = stage.create().await?;
    let told = spawned(&stage, spawn(&parent, &json!([waits_for(&stage, "go"), {"text": "went"}]))).await?;
    stage.wait_for_status(&told, "WORKING").await?;
    let sent = stage.cli().ok(&["worker", "send", &told, "and this"]).await?;
    assert_eq!(sent.stdout.trim(), format!("Sent to {told}"));
    stage.wait_for(&told, "message_added", |event| event["text"] == "and this").await?;
    let piped = stage.cli().run_with_input(&["worker", "send", &told, "-", "--json"], "and that\n").await?;
    assert_eq!(piped.json()?, json!({"id": told, "delivered": true}));
    stage.wait_for(&told, "message_added", |event| event["text"] == "and that").await?;
    let stuck = spawned(&stage, spawn(&parent, &json!([{"hang": true}]))).await?;
    stage.wait_for(&stuck, "turn_started", |_| true).await?;
    let list = stage.cli().ok(&["worker", "list", &parent]).await?.stdout;
    assert!(list.lines().filter(|line| line.contains("running")).count() == 2, "{list}");
    let cancelled = stage.cli().json(&["worker", "cancel", &stuck, "--reason", "enough", "--force"]).await?;
    assert_eq!((&cancelled["cancelled"], &cancelled["status"]), (&json!(true), &json!("cancelled")));
    stage.world.touch("go")?;
    watched(&stage, &told, 0).await?;
    let ends = within("both ends", async {
        loop {
            let listed = stage.cli().ok(&["worker", "list", "--json"]).await?.json_lines()?;
            let ends: Vec<(Value, Value)> =
                listed.iter().map(|one| (one["status"].clone(), one["result"].clone())).collect();
            if ends.iter().all(|(status, _)| status != "running") {
                return anyhow::Ok(ends);
            }
        }
    });
    let ends = ends.await??;
    assert_eq!(ends[1], (json!("cancelled"), json!("enough")), "{ends:?}");
    assert_eq!(ends[0].0, json!("completed"), "{ends:?}");
    for (args, code) in [
        (["worker", "send", &told, "late"], 5),
        (["worker", "send", "sess_nobody", "x"], 4),
        (["worker", "cancel", "sess_nobody", "--force"], 4),
        (["plan", "cancel", "orch_none", "--json"], 4),
    ] {
        let run = stage.cli().run(&args).await?;
        assert_eq!(run.code, Some(code), "{run:#?}");
    }
    stage.close().await
}

/// Steps run, wait, and are being created when their plan is cancelled.
#[tokio::test]
async fn a_plan_that_is_cancelled_leaves_nothing_running_whatever_its_steps_were_doing() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let parent = stage.create().await?;
    let hang = json!([{"hang": true}]);
    let mut steps: Vec<Value> = (0..24).map(|at| step(&format!("s{at}"), &[], &hang)).collect();
    steps.push(step("after", &["s0"], &hang));
    let plan = json!({"strategy": "dag", "steps": steps});
    // At once: most steps are being created.
    let id = detached(&stage, &parent, &plan).await?;
    let said = stage.cli().ok(&["plan", "cancel", &id, "--reason", "enough"]).await?;
    assert_eq!(said.stdout.trim(), format!("Cancelled: {id}"));
    let end = ended(&stage, &id).await?;
    assert_eq!((&end["state"], &end["cancelled"]), (&json!("failed"), &json!("enough")), "{end:#}");
    let states: Vec<&Value> =
        end["steps"].as_array().context("no steps")?.iter().map(|step| &step["state"]).collect();
    assert!(states.iter().all(|state| *state == "cancelled" || *state == "blocked"), "{states:?}");
    let workers = stage.cli().ok(&["worker", "list", &parent, "--json"]).await?.json_lines()?;
    assert!(workers.iter().all(|worker| worker["status"] == "cancelled"), "{workers:#?}");
    // A second time changes nothing.
    stage.cli().ok(&["plan", "cancel", &id, "--reason", "again"]).await?;
    assert_eq!(ended(&stage, &id).await?["cancelled"], "enough");
    stage.close().await
}

/// Two trees of one branch: the fast step comes second in the plan, and waits for the slow one.
#[tokio::test]
async fn trees_are_merged_in_the_order_of_the_plan() -> Result<()> {
    let stage = stage!(Agent::Claude);
    let parent = stage.create().await?;
    let gate = stage.world.path("gate").display().to_string();
    let step = |id: &str, command: String| {
        let steps = json!([{"tool": "Bash", "input": {"command": command}}, {"text": "written"}]);
        json!({
            "id": id, "prompt": crate::stage::script(Agent::Claude, id, &steps), "worktree": true, "merge": true,
            "allowed_tools": ["Bash"], "auto_approve": true,
        })
    };
    let slow = format!("until [ -e {gate} ]; do sleep 0.05; done; echo slow > order.txt");
    let plan = json!({"strategy": "parallel", "steps": [
        step("slow", slow), step("fast", "echo fast > other.txt".to_owned()),
    ]});
    let id = detached(&stage, &parent, &plan).await?;
    within("the fast step's worker", async {
        loop {
            let workers = stage.cli().ok(&["worker", "list", &parent, "--json"]).await?.json_lines()?;
            let fast = workers.iter().find(|worker| worker["name"] == "fast");
            if fast.is_some_and(|worker| worker["status"] == "completed") {
                return anyhow::Ok(());
            }
        }
    })
    .await??;
    let project = stage.world.project();
    assert!(!project.join("other.txt").exists(), "the fast step's tree waits for the slow one's");
    stage.world.touch("gate")?;
    let end = ended(&stage, &id).await?;
    assert_eq!(end["state"], "completed", "{end:#}");
    let log = stage
        .world
        .command("git")
        .args(["log", "--first-parent", "--format=%s"])
        .current_dir(&project)
        .output()?;
    let log = String::from_utf8_lossy(&log.stdout).into_owned();
    let lines: Vec<&str> = log.lines().collect();
    assert!(lines[0].contains("fast-") && lines[1].starts_with("slow: "), "the newest is first: {log}");
    stage.close().await
}
