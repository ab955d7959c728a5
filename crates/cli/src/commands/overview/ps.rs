//! `obey ps`: sessions by need. Who waits for a person comes first, oldest first; every row says why.

mod machines;

use jiff::Timestamp;
use serde_json::Value;
use wire::obey::v1 as pb;

use crate::json_types::{
    OverviewBudgetJson, OverviewEvidenceJson, OverviewJson, OverviewRequestJson, OverviewTodosJson,
    SharedBudgetJson, value,
};
use cli_args::overview::PsArgs;
use client::connection::Client;
use client::format::{self, rfc3339};
use config::exit::Exit;
use config::failure::Result;
use domain::overview::SessionState;
use terminal::console::Console;
use terminal::output::TextStyle;

/// Columns of a session's name, and of the place where it works; that is shown from this width on.
const NAME_MAX: usize = 20;
const PLACE_MAX: usize = 28;
const PLACE_FROM_COLUMNS: usize = 110;
/// Below this width there is no cost, and a name has fewer columns: why a session waits matters more.
const COST_FROM_COLUMNS: usize = 60;
const NARROW_NAME_MAX: usize = 10;

pub(in crate::commands) async fn run(console: &mut Console, args: &PsArgs) -> Result<Exit> {
    let filter = pb::OverviewFilter {
        // Asking for ended ones must not require another flag.
        include_ended: args.all || args.state.contains(&SessionState::Ended),
        include_archived: args.all,
        campaign: args.campaign.clone().unwrap_or_default(),
        session_ids: Vec::new(),
    };
    let request = pb::ListOverviewRequest { filter: Some(filter) };
    let mut found = machines::list(console, args, &request).await?;
    let mut sessions = std::mem::take(&mut found.sessions);
    sessions.retain(|session| {
        args.state.is_empty() || state_of(session).is_some_and(|state| args.state.contains(&state))
    });
    if console.out.json {
        sessions.iter().try_for_each(|session| {
            console.out.json(&session_json(session, &found.shared_budgets(session)))
        })?;
        found.unreachable.iter().try_for_each(|machine| console.out.json(&machine.json()))?;
        return Ok(Exit::OK);
    }
    for machine in &found.unreachable {
        let line = format!(
            "{} is not reached: {}. What is wrong: obey machine doctor {}",
            machine.name, machine.problem, machine.name
        );
        console.out.note(TextStyle::Warn, &line)?;
    }
    if sessions.is_empty() {
        let hint = if args.all { "" } else { " Those that ended or are archived: obey ps --all" };
        let text = format!("No sessions. Start one: obey run \"…\", in the folder of a project.{hint}");
        console.out.note(TextStyle::Dim, &text)?;
        return Ok(Exit::OK);
    }
    print(console, &sessions, found.is_several)?;
    // What all sessions, and those of campaigns, have spent of what they share.
    let lines = crate::commands::budget::lines(&found.own_budgets);
    lines.iter().try_for_each(|line| console.out.note(TextStyle::Dim, line))?;
    Ok(Exit::OK)
}

/// Returns the state of a session; nothing if the daemon is newer than this command.
pub(super) fn state_of(session: &pb::SessionOverview) -> Option<SessionState> {
    Some(match session.state() {
        pb::SessionState::Unspecified => return None,
        pb::SessionState::NeedsYou => SessionState::NeedsYou,
        pb::SessionState::Failed => SessionState::Failed,
        pb::SessionState::Working => SessionState::Working,
        pb::SessionState::Quiet => SessionState::Quiet,
        pb::SessionState::Done => SessionState::Done,
        pb::SessionState::Idle => SessionState::Idle,
        pb::SessionState::Ended => SessionState::Ended,
    })
}

/// Returns what the overview says of these sessions; of all that are listed if none are given. Nothing from a daemon that has no
/// overview.
pub(in crate::commands) async fn look_up(
    client: &Client,
    ids: &[String],
) -> Result<Vec<pb::SessionOverview>> {
    let filter = pb::OverviewFilter {
        include_ended: true,
        include_archived: true,
        session_ids: ids.to_vec(),
        ..Default::default()
    };
    match client.overview().list(pb::ListOverviewRequest { filter: Some(filter) }).await {
        Ok(found) => Ok(found.into_inner().sessions),
        Err(status) if status.code() == tonic::Code::Unimplemented => Ok(Vec::new()),
        Err(status) => Err(status.into()),
    }
}

/// Returns the state of a session as a word.
pub(in crate::commands) fn state_in_words(session: &pb::SessionOverview) -> &'static str {
    look(state_of(session), &session.cause).1
}

/// Returns the word, the glyph and the style of a state: never colour alone.
fn look(state: Option<SessionState>, cause: &str) -> (&'static str, &'static str, TextStyle) {
    match state {
        Some(SessionState::NeedsYou) if cause == "question" => ("?", "needs you", TextStyle::Warn),
        Some(SessionState::NeedsYou) => ("▲", "needs you", TextStyle::Warn),
        Some(SessionState::Failed) => ("✕", "failed", TextStyle::Bad),
        Some(SessionState::Working) => ("●", "working", TextStyle::Accent),
        Some(SessionState::Quiet) => ("◌", "quiet", TextStyle::Warn),
        Some(SessionState::Done) => ("✓", "done", TextStyle::Good),
        Some(SessionState::Idle) => ("○", "idle", TextStyle::Plain),
        Some(SessionState::Ended) => ("–", "ended", TextStyle::Dim),
        None => (" ", "unknown", TextStyle::Plain),
    }
}

fn print(console: &mut Console, sessions: &[pb::SessionOverview], with_machine: bool) -> Result<()> {
    let now = Timestamp::now();
    let columns = console.out.columns();
    let with_cost = columns.is_none_or(|columns| columns >= COST_FROM_COLUMNS);
    let name_max = if with_cost { NAME_MAX } else { NARROW_NAME_MAX };
    let names: Vec<String> =
        sessions.iter().map(|session| format::shorten(&format::one_line(&session.name), name_max)).collect();
    let name_width = names.iter().map(|name| format::width(name)).max().unwrap_or(0).max("NAME".len());
    // Which machine it is matters more than how long a line gets.
    let with_place = with_machine || columns.is_some_and(|columns| columns >= PLACE_FROM_COLUMNS);
    let places: Vec<String> = sessions.iter().map(|session| place(session, with_machine)).collect();
    let place_width = if with_place {
        places.iter().map(|place| format::width(place)).max().unwrap_or(0).max("WHERE".len())
    } else {
        0
    };
    let place_cell =
        |text: &str| if with_place { format::padded(text, place_width + 2) } else { String::new() };
    let budgets: Vec<String> = sessions.iter().map(budget_left).collect();
    let budget_width = budgets.iter().map(|budget| budget.chars().count()).max().unwrap_or(0);
    let with_budget = budget_width > 0;
    let budget_width = budget_width.max("LEFT".len());
    let budget_cell =
        |text: &str| if with_budget { format!("{text:>budget_width$}  ") } else { String::new() };
    let cost_cell = |text: &str| if with_cost { format!("{text:>7}  ") } else { String::new() };
    let heading = format!(
        "  {:<9}  {:<name_width$}  {:>4}  {}{}{}WHY",
        "STATE",
        "NAME",
        "FOR",
        cost_cell("COST"),
        budget_cell("LEFT"),
        place_cell("WHERE")
    );
    console.out.styled_line(&[(TextStyle::Dim, &heading)])?;
    for (((session, name), place), budget) in sessions.iter().zip(&names).zip(&places).zip(&budgets) {
        let (glyph, word, style) = look(state_of(session), &session.cause);
        let age = format::age(session.since.as_ref(), now);
        let cost = session.cost_micro_usd.map_or_else(|| "-".to_owned(), format::cost);
        let state = format!("{glyph} {word:<9}  ");
        let name = format::padded(name, name_width);
        let (cost, left, place) = (cost_cell(&cost), budget_cell(budget), place_cell(place));
        let middle = format!("{name}  {age:>4}  {cost}{left}{place}");
        let used = format::width(&state) + format::width(&middle);
        let why = why(session);
        let why = columns.map_or_else(
            || why.clone(),
            |columns| format::shorten(&why, columns.saturating_sub(used).max(8)),
        );
        console.out.styled_line(&[(style, &state), (TextStyle::Plain, &middle), (TextStyle::Plain, &why)])?;
    }
    Ok(())
}

/// Returns what is left of the part of a budget that is used up first; empty without a budget.
fn budget_left(session: &pb::SessionOverview) -> String {
    let Some(budget) = &session.budget else { return String::new() };
    let parts = [
        (budget.cost_micro_usd, budget.cost_left_micro_usd, format::cost as fn(u64) -> String),
        (budget.max_tokens, budget.tokens_left, format::count),
        (budget.work_ms, budget.work_left_ms, |ms| format::duration(std::time::Duration::from_millis(ms))),
        (budget.calls, budget.calls_left, |calls| format::plural(calls as usize, "call")),
    ];
    let left = parts.into_iter().filter_map(|(limit, left, print)| {
        let (limit, left) = (limit?, left?);
        Some((left as f64 / limit.max(1) as f64, print(left)))
    });
    left.min_by(|a, b| a.0.total_cmp(&b.0)).map_or_else(String::new, |(_, text)| text)
}

/// Returns the reason, and what the agent wrote last where that tells more.
fn why(session: &pb::SessionOverview) -> String {
    let tells_more = matches!(session.state(), pb::SessionState::Working | pb::SessionState::Done);
    if tells_more && !session.last_line.is_empty() {
        return format::one_line(&session.last_line);
    }
    format::below_folder(&format::one_line(&session.reason), &session.folder)
}

/// Returns where a session works: its campaign or folder, and the branch.
fn place(session: &pb::SessionOverview, with_machine: bool) -> String {
    let folder = session.folder.rsplit('/').next().unwrap_or_default();
    let root = if session.campaign.is_empty() { folder } else { &session.campaign };
    let text = if session.branch.is_empty() { root.to_owned() } else { format!("{root} {}", session.branch) };
    let text = if with_machine { format!("{}: {text}", session.machine) } else { text };
    format::shorten(&text, PLACE_MAX)
}

/// Returns a session as scripts read it. What was not reported is null, not 0.
pub(super) fn session_json(session: &pb::SessionOverview, shared_budgets: &[&pb::SharedBudget]) -> Value {
    value(&session_typed(session, shared_budgets))
}

/// Returns the budgets of a machine in which one of its sessions has a share.
pub(super) fn with_share<'a>(
    session: &pb::SessionOverview,
    budgets: &'a [pb::SharedBudget],
) -> Vec<&'a pb::SharedBudget> {
    let has_share =
        |one: &&pb::SharedBudget| one.campaign_id.is_empty() || one.campaign_id == session.campaign_id;
    budgets.iter().filter(has_share).collect()
}

fn shared_budget_typed(budget: &pb::SharedBudget) -> SharedBudgetJson {
    SharedBudgetJson {
        campaign: budget.campaign.clone(),
        campaign_id: budget.campaign_id.clone(),
        per_day: budget.per_day,
        usd: budget.cost_micro_usd.map(dollars),
        tokens: budget.tokens,
        minutes: budget.work_ms.map(minutes),
        calls: budget.calls,
        spent_usd: dollars(budget.spent_micro_usd),
        spent_tokens: budget.spent_tokens,
        spent_minutes: minutes(budget.spent_work_ms),
        spent_calls: budget.spent_calls,
        used_up: budget.used_up.clone(),
    }
}

pub(in crate::commands) fn session_typed(
    session: &pb::SessionOverview,
    shared_budgets: &[&pb::SharedBudget],
) -> OverviewJson {
    let evidence = session.evidence.unwrap_or_default();
    let request = |request: &pb::OverviewRequest| OverviewRequestJson {
        id: request.request_id.clone(),
        kind: request.kind.clone(),
        tool: request.tool.clone(),
        text: request.text.clone(),
        asked_at: rfc3339(request.asked_at.as_ref()),
    };
    let budget = session.budget.as_ref().map(|budget| OverviewBudgetJson {
        max_tokens: budget.max_tokens,
        tokens_left: budget.tokens_left,
        ends_at: rfc3339(budget.ends_at.as_ref()),
        usd: budget.cost_micro_usd.map(dollars),
        usd_left: budget.cost_left_micro_usd.map(dollars),
        minutes: budget.work_ms.map(minutes),
        minutes_left: budget.work_left_ms.map(minutes),
        calls: budget.calls,
        calls_left: budget.calls_left,
    });
    OverviewJson {
        session_id: session.session_id.clone(),
        name: session.name.clone(),
        campaign: session.campaign.clone(),
        folder: session.folder.clone(),
        branch: session.branch.clone(),
        provider: session.provider.clone(),
        model: session.model.clone(),
        mode: session.mode.clone(),
        state: state_of(session).map_or("unknown", SessionState::name).to_owned(),
        cause: session.cause.clone(),
        reason: session.reason.clone(),
        since: rfc3339(session.since.as_ref()),
        requests: session.requests.iter().map(request).collect(),
        last_line: session.last_line.clone(),
        tokens: session.tokens,
        cost_usd: session.cost_micro_usd.map(dollars),
        budget,
        shared_budgets: shared_budgets.iter().map(|budget| shared_budget_typed(budget)).collect(),
        todos: OverviewTodosJson { done: session.todos_done, all: session.todos_all },
        evidence: OverviewEvidenceJson {
            process_alive: evidence.process_alive,
            last_event_at: rfc3339(evidence.last_event_at.as_ref()),
            cpu_ms: evidence.cpu_ms,
            cpu_ms_in_silence: evidence.cpu_ms_in_silence,
        },
        machine: session.machine.clone(),
        status: session.status.clone(),
        seen: session.seen,
        turns: session.turns,
        last_turn: session.last_turn.clone(),
        last_seq: session.last_seq,
        created_at: rfc3339(session.created_at.as_ref()),
        parent_id: session.parent_id.clone(),
        archived: session.archived,
        queued: session.queued,
    }
}

fn dollars(micro: u64) -> f64 {
    micro as f64 / 1_000_000.0
}

fn minutes(ms: u64) -> f64 {
    ms as f64 / 60_000.0
}
