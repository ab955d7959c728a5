//! `obey plan …`: runs and shows plans of steps.

mod file;
mod tree;

use std::io::Read as _;

use jiff::Timestamp;
use serde_json::{Value, json};
use wire::obey::v1 as pb;

use super::agent_choice;
use cli_args::plan::{PlanCancelArgs, PlanCommand, PlanListArgs, PlanRunArgs};
use client::connection::Client;
use client::{caller_environment, format, resolve};
use config::exit::Exit;
use config::failure::{Failure, Result};
use domain::ProviderKind;
use terminal::console::Console;
use terminal::output::TextStyle;
use terminal::table::Table;

pub(super) async fn run(console: &mut Console, command: PlanCommand) -> Result<Exit> {
    match command {
        PlanCommand::Run(args) => start(console, args).await,
        PlanCommand::List(args) => list(console, args).await,
        PlanCommand::Show(args) => {
            let client = console.connect().await?;
            let plan = client.plans().get(pb::GetPlanRequest { plan_id: args.plan }).await?.into_inner();
            print(console, &plan)?;
            Ok(Exit::OK)
        }
        PlanCommand::Cancel(args) => cancel(console, args).await,
    }
}

async fn list(console: &mut Console, args: PlanListArgs) -> Result<Exit> {
    let client = console.connect().await?;
    let parent_session_id = match &args.session {
        Some(session) => resolve::session(&client, session).await?,
        None => String::new(),
    };
    let plans = client.plans().list(pb::ListPlansRequest { parent_session_id }).await?.into_inner().plans;
    if console.out.json {
        let plans: Vec<Value> = plans.iter().map(summary).collect();
        console.out.json(&json!({"plans": plans}))?;
        return Ok(Exit::OK);
    }
    if plans.is_empty() {
        console.out.note(TextStyle::Dim, "No plans. Run one with: obey plan run FILE")?;
        return Ok(Exit::OK);
    }
    let now = Timestamp::now();
    let mut table = Table::new(&["PLAN", "STATE", "STEPS", "AGE", "SESSION"]);
    for plan in plans {
        let age = format::age(plan.created_at.as_ref(), now);
        let steps = plan.steps.len().to_string();
        table.row(vec![plan.id, plan.state, steps, age, plan.parent_session_id]);
    }
    super::session::print_table(console, &table)?;
    Ok(Exit::OK)
}

async fn start(console: &mut Console, args: PlanRunArgs) -> Result<Exit> {
    let plan = file::parse(&read(&args.file)?)?;
    let client = console.connect().await?;
    let mut request =
        pb::RunPlanRequest { strategy: plan.strategy.clone(), steps: plan.steps(), ..Default::default() };
    match &args.session {
        Some(session) => request.parent_session_id = resolve::session(&client, session).await?,
        None => {
            let folder = std::env::current_dir()
                .map_err(|error| Failure::failed(format!("the current folder cannot be found: {error}")))?;
            request.working_directory = folder.display().to_string();
            request.provider = provider(console, &client, &args, &request.steps).await?;
            request.caller_environment = caller_environment::sent(&console.vars).unwrap_or_default();
        }
    }
    let started = client.plans().run(request).await?.into_inner();
    let id = started.plan_id;
    if console.out.json {
        console.out.json(&json!({"plan_id": id, "parent_session_id": started.parent_session_id}))?;
    } else {
        console.out.line(&id)?;
    }
    if args.detach {
        return Ok(Exit::OK);
    }
    follow(console, &client, id).await
}

/// Returns the provider of the plan's own session: the one that was named, that of every step, or the default one.
async fn provider(
    console: &Console,
    client: &Client,
    args: &PlanRunArgs,
    steps: &[pb::PlanStep],
) -> Result<String> {
    let of_steps = steps.iter().map(|step| step.provider.as_str()).find(|provider| !provider.is_empty());
    let is_needed = args.provider.is_some() || steps.iter().any(|step| step.provider.is_empty());
    if let Some(provider) = of_steps.filter(|_| !is_needed) {
        return Ok(provider.to_owned());
    }
    let chosen = agent_choice::choose(console, client, args.provider.as_deref()).await?;
    Ok(match chosen.agent {
        Some(agent) => format!("{}/{agent}", ProviderKind::Acp.name()),
        None => chosen.provider.name().to_owned(),
    })
}

/// Prints every change of a step's state until the plan has ended, across daemons.
async fn follow(console: &mut Console, client: &Client, plan_id: String) -> Result<Exit> {
    let mut shown: Vec<(String, u32)> = Vec::new();
    let mut client = client.clone();
    let last = loop {
        match watch(console, &client, &plan_id, &mut shown).await {
            Ok(plan) if plan.state != "running" => break plan,
            Err(failure) if !failure.is_connection_lost() => return Err(failure),
            // The daemon was replaced, or died: the plan goes on with the next one.
            Ok(_) | Err(_) => {
                tokio::time::sleep(crate::limits::PLAN_RETRY_WAIT).await;
                client = console.connect().await?;
            }
        }
    };
    let count = |state: &str| last.steps.iter().filter(|step| step.state == state).count();
    let end = format!("{}: {} of {} steps succeeded", last.state, count("succeeded"), last.steps.len());
    if console.out.json {
        console.out.json(&summary(&last))?;
    } else {
        let style = if last.state == "completed" { TextStyle::Good } else { TextStyle::Bad };
        console.out.note(style, &end)?;
    }
    Ok(if last.state == "completed" { Exit::OK } else { Exit::TURN_FAILED })
}

/// Prints changes until the stream ends; returns the plan as it was last.
async fn watch(
    console: &mut Console,
    client: &Client,
    plan_id: &str,
    shown: &mut Vec<(String, u32)>,
) -> Result<pb::Plan> {
    let request = pb::WatchPlanRequest { plan_id: plan_id.to_owned(), parent_session_id: String::new() };
    let mut plans = client.plans().watch(request).await?.into_inner();
    let mut last = pb::Plan { state: "running".to_owned(), ..Default::default() };
    while let Some(plan) = plans.message().await? {
        shown.resize(plan.steps.len(), ("waiting".to_owned(), 0));
        for (step, shown) in plan.steps.iter().zip(shown.iter_mut()) {
            let now = (step.state.clone(), step.attempts);
            if *shown != now {
                *shown = now;
                print_step(console, step)?;
            }
        }
        last = plan;
    }
    Ok(last)
}

fn print_step(console: &mut Console, step: &pb::PlanStepState) -> Result<()> {
    let id = step.step.as_ref().map(|step| step.id.clone()).unwrap_or_default();
    if console.out.json {
        return console.out.json(&step_json(step));
    }
    let text = format::shorten(&format::one_line(&step.text), tree::TEXT_COLUMNS);
    let session = if step.state == "running" { &step.session_id } else { "" };
    console.out.line(format!("{:<10} {id}  {session}{text}", step.state).trim_end())
}

fn step_json(step: &pb::PlanStepState) -> Value {
    let spec = step.step.clone().unwrap_or_default();
    json!({
        "step": spec.id, "name": spec.name, "state": step.state, "session_id": step.session_id,
        "attempts": step.attempts, "depends_on": spec.depends_on, "text": step.text,
    })
}

fn summary(plan: &pb::Plan) -> Value {
    json!({
        "plan_id": plan.id, "parent_session_id": plan.parent_session_id, "strategy": plan.strategy, "state": plan.state,
        "created_at": format::rfc3339(plan.created_at.as_ref()), "ended_at": format::rfc3339(plan.ended_at.as_ref()),
        "cancelled": plan.cancelled, "steps": plan.steps.iter().map(step_json).collect::<Vec<_>>(),
    })
}

fn print(console: &mut Console, plan: &pb::Plan) -> Result<()> {
    if console.out.json {
        return console.out.json(&summary(plan));
    }
    for line in tree::lines(plan) {
        console.out.line(&line)?;
    }
    Ok(())
}

async fn cancel(console: &mut Console, args: PlanCancelArgs) -> Result<Exit> {
    let client = console.connect().await?;
    let request = pb::CancelPlanRequest { plan_id: args.plan.clone(), reason: args.reason };
    client.plans().cancel(request).await?;
    if console.out.json {
        console.out.json(&json!({"plan_id": args.plan}))?;
    } else {
        console.out.line(&format!("Cancelled: {}", args.plan))?;
    }
    Ok(Exit::OK)
}

/// Reads a plan, at most as long as one may be.
fn read(file: &str) -> Result<String> {
    let unreadable = |error: std::io::Error| Failure::usage(format!("{file}: cannot be read: {error}"));
    let most = crate::limits::PLAN_FILE_MAX_BYTES;
    let mut text = String::new();
    let read = match file {
        "-" => std::io::stdin().take(most + 1).read_to_string(&mut text),
        path => std::fs::File::open(path).map_err(unreadable)?.take(most + 1).read_to_string(&mut text),
    };
    read.map_err(unreadable)?;
    if text.len() as u64 > most {
        return Err(Failure::usage(format!("{file}: a plan has at most {most} bytes")));
    }
    Ok(text)
}
