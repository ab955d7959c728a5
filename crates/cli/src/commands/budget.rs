//! `obey budget` and `obey campaign budget`: what sessions may spend together, and what they have spent. Prints the amounts of
//! every budget.

use domain::budget::dollars;
use domain::{Budget, Spending};
use serde_json::{Value, json};
use wire::obey::v1 as pb;

use cli_args::budget::{CampaignBudgetArgs, DayBudgetArgs};
use client::connection::Client;
use config::exit::Exit;
use config::failure::Result;
use terminal::console::Console;
use terminal::output::TextStyle;

/// Shows all shared budgets, or changes that of the day.
pub(super) async fn of_day(console: &mut Console, args: &DayBudgetArgs) -> Result<Exit> {
    let client = console.connect().await?;
    let change = args.amounts.budget();
    if !change.is_unlimited() {
        return set(console, &client, String::new(), true, change).await;
    }
    let found = list(&client, String::new()).await?;
    if found.is_empty() && !console.out.json {
        let hint =
            "No budgets are shared. Set one with: obey budget --usd N, or obey campaign budget NAME --usd N";
        console.out.note(TextStyle::Dim, hint)?;
    }
    show(console, &found)
}

/// Shows the budgets of a campaign, or changes one of them.
pub(super) async fn of_campaign(console: &mut Console, args: &CampaignBudgetArgs) -> Result<Exit> {
    let client = console.connect().await?;
    let change = args.amounts.budget();
    if !change.is_unlimited() {
        return set(console, &client, args.campaign.clone(), args.per_day, change).await;
    }
    let mut found = list(&client, args.campaign.clone()).await?;
    found.retain(|budget| budget.per_day || !args.per_day);
    show(console, &found)
}

/// Returns shared budgets, one line each, for lists of sessions and sums.
pub(super) fn lines(budgets: &[pb::SharedBudget]) -> Vec<String> {
    let line = |budget: &pb::SharedBudget| {
        let (limits, spent) = amounts!(budget);
        let parts: Vec<String> = amount_texts(&limits, &spent)
            .into_iter()
            .filter(|part| part.is_limited)
            .map(|part| part.text)
            .collect();
        format!("{}: {}", title(budget), parts.join(", "))
    };
    budgets.iter().map(line).collect()
}

/// Returns all budgets that limit something; none from a daemon that knows of none.
pub(super) async fn all(client: &Client) -> Vec<pb::SharedBudget> {
    list(client, String::new()).await.unwrap_or_default()
}

async fn list(client: &Client, campaign: String) -> Result<Vec<pb::SharedBudget>> {
    let request = pb::ListSharedBudgetsRequest { campaign };
    Ok(client.budgets().list(request).await?.into_inner().budgets)
}

async fn set(
    console: &mut Console,
    client: &Client,
    campaign: String,
    per_day: bool,
    change: Budget,
) -> Result<Exit> {
    let request = pb::SetSharedBudgetRequest {
        campaign,
        per_day,
        tokens: change.tokens,
        cost_micro_usd: change.cost_micro_usd,
        work_ms: change.work_ms,
        calls: change.calls,
    };
    let budget = client.budgets().set(request).await?.into_inner();
    show(console, &[budget])
}

fn show(console: &mut Console, budgets: &[pb::SharedBudget]) -> Result<Exit> {
    for (index, budget) in budgets.iter().enumerate() {
        let (limits, spent) = amounts!(budget);
        if console.out.json {
            let mut value = amounts_json(&limits, &spent);
            value["campaign"] = json!(budget.campaign);
            value["campaign_id"] = json!(budget.campaign_id);
            value["per_day"] = json!(budget.per_day);
            value["used_up"] = json!(budget.used_up);
            console.out.json(&value)?;
            continue;
        }
        if index > 0 {
            console.out.line("")?;
        }
        console.out.line(&title(budget))?;
        print_amounts(console, &limits, &spent, &budget.used_up)?;
    }
    Ok(Exit::OK)
}

fn title(budget: &pb::SharedBudget) -> String {
    match (budget.campaign.as_str(), budget.per_day) {
        ("", _) => "All sessions today".to_owned(),
        (name, true) => format!("Campaign {name} today"),
        (name, false) => format!("Campaign {name}"),
    }
}

/// Returns what may be spent and was spent. The messages of a session's budget and of a shared one name both alike.
macro_rules! amounts {
    ($budget:expr) => {
        (
            domain::Budget {
                tokens: $budget.tokens,
                cost_micro_usd: $budget.cost_micro_usd,
                work_ms: $budget.work_ms,
                calls: $budget.calls,
            },
            domain::Spending {
                tokens: $budget.spent_tokens,
                cost_micro_usd: $budget.spent_micro_usd,
                work_ms: $budget.spent_work_ms,
                calls: $budget.spent_calls,
            },
        )
    };
}
pub(super) use amounts;

/// One part of a budget in words.
struct AmountText {
    name: &'static str,
    text: String,
    is_limited: bool,
}

fn amount_texts(limits: &Budget, spent: &Spending) -> [AmountText; 4] {
    let part = |name, spent: String, limit: Option<String>| AmountText {
        name,
        is_limited: limit.is_some(),
        text: limit.map_or_else(|| format!("{spent}, no limit"), |limit| format!("{spent} of {limit}")),
    };
    let time = |ms: u64| format!("{:.1} min", minutes(ms));
    let tokens = |tokens: u64| format!("{tokens} tokens");
    let calls = |calls: u64| format!("{calls} calls");
    [
        part("Money", dollars(spent.cost_micro_usd), limits.cost_micro_usd.map(dollars)),
        part("Tokens", spent.tokens.to_string(), limits.tokens.map(tokens)),
        part("Time", time(spent.work_ms), limits.work_ms.map(time)),
        part("Calls", spent.calls.to_string(), limits.calls.map(calls)),
    ]
}

/// Prints what may be spent and was spent.
pub(super) fn print_amounts(
    console: &mut Console,
    limits: &Budget,
    spent: &Spending,
    used_up: &str,
) -> Result<()> {
    for AmountText { name, text, .. } in amount_texts(limits, spent) {
        console.out.line(&format!("{:<8}{text}", format!("{name}:")))?;
    }
    if !used_up.is_empty() {
        console.out.note(TextStyle::Warn, &format!("Used up: {used_up}."))?;
    }
    Ok(())
}

/// Returns what may be spent and was spent as JSON.
pub(super) fn amounts_json(limits: &Budget, spent: &Spending) -> Value {
    let usd = |micro_usd: u64| micro_usd as f64 / 1_000_000.0;
    json!({
        "usd": limits.cost_micro_usd.map(usd), "tokens": limits.tokens,
        "minutes": limits.work_ms.map(minutes), "calls": limits.calls,
        "spent_usd": usd(spent.cost_micro_usd), "spent_tokens": spent.tokens,
        "spent_minutes": minutes(spent.work_ms), "spent_calls": spent.calls,
    })
}

fn minutes(ms: u64) -> f64 {
    ms as f64 / 60_000.0
}
