//! `obey usage`: tokens and money by time, campaign, provider, model and session.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use wire::obey::v1 as pb;

use crate::commands::budget;
use crate::commands::session::print_table;
use cli_args::overview::{UsageArgs, UsageGroupArg, UsageStepArg};
use client::format::{self, rfc3339};
use client::resolve;
use config::exit::Exit;
use config::failure::Result;
use terminal::console::Console;
use terminal::output::TextStyle;
use terminal::table::Table;

pub(in crate::commands) async fn run(console: &mut Console, args: &UsageArgs) -> Result<Exit> {
    let client = console.connect().await?;
    let session_id = match &args.session {
        Some(typed) => resolve::session(&client, typed).await?,
        None => String::new(),
    };
    let now = Timestamp::now();
    let by = if args.by.is_empty() {
        vec![UsageGroupArg::Campaign, UsageGroupArg::Model]
    } else {
        args.by.clone()
    };
    let offset = console.zone.to_offset(now).seconds();
    let request = pb::UsageSeriesRequest {
        from: args.since.and_then(|age| before(now, age)),
        to: None,
        step_seconds: args.per.map_or(0, step_seconds),
        by: by.iter().map(|group| wire_group(*group).into()).collect(),
        campaign: args.campaign.clone().unwrap_or_default(),
        session_id,
        offset_seconds: offset,
    };
    let series = client.usage().series(request).await?.into_inner();
    if !series.complete {
        console
            .out
            .note(TextStyle::Warn, "The index is still being built: older sessions may be missing.")?;
    }
    if console.out.json {
        series.rows.iter().try_for_each(|row| console.out.json(&row_json(row, args.per, &by)))?;
        return Ok(Exit::OK);
    }
    if series.rows.is_empty() {
        console.out.note(TextStyle::Dim, "No agent has reported any usage.")?;
        return Ok(Exit::OK);
    }
    print(console, &series.rows, args.per, &by)?;
    let budgets = budget::lines(&budget::all(&client).await);
    budgets.iter().try_for_each(|line| console.out.note(TextStyle::Dim, line))?;
    Ok(Exit::OK)
}

/// Returns the time that lies this long before another.
pub(super) fn before(now: Timestamp, age: Duration) -> Option<prost_types::Timestamp> {
    let at = now.checked_sub(age).ok()?;
    Some(prost_types::Timestamp { seconds: at.as_second(), nanos: at.subsec_nanosecond() })
}

fn step_seconds(step: UsageStepArg) -> u64 {
    match step {
        UsageStepArg::Hour => 3_600,
        UsageStepArg::Day => 86_400,
        UsageStepArg::Week => 7 * 86_400,
    }
}

fn wire_group(group: UsageGroupArg) -> pb::UsageGroup {
    match group {
        UsageGroupArg::Campaign => pb::UsageGroup::Campaign,
        UsageGroupArg::Provider => pb::UsageGroup::Provider,
        UsageGroupArg::Model => pb::UsageGroup::Model,
        UsageGroupArg::Session => pb::UsageGroup::Session,
    }
}

fn group_value(group: UsageGroupArg, row: &pb::UsageRow) -> String {
    let text = match group {
        UsageGroupArg::Campaign => &row.campaign,
        UsageGroupArg::Provider => &row.provider,
        UsageGroupArg::Model => &row.model,
        UsageGroupArg::Session if row.session_name.is_empty() => &row.session_id,
        UsageGroupArg::Session => &row.session_name,
    };
    if text.is_empty() { "-".to_owned() } else { text.clone() }
}

/// Returns the money of a row: `-` where no report named any, and a plus where some did not.
fn money(row: &pb::UsageRow) -> String {
    match row.cost_micro_usd {
        None => "-".to_owned(),
        Some(cost) if row.reports_without_cost > 0 => format!("{}+", format::cost(cost)),
        Some(cost) => format::cost(cost),
    }
}

fn print(
    console: &mut Console,
    rows: &[pb::UsageRow],
    per: Option<UsageStepArg>,
    by: &[UsageGroupArg],
) -> Result<()> {
    let mut heading = Vec::new();
    if per.is_some() {
        heading.push("FROM");
    }
    heading.extend(by.iter().map(|group| match group {
        UsageGroupArg::Campaign => "CAMPAIGN",
        UsageGroupArg::Provider => "PROVIDER",
        UsageGroupArg::Model => "MODEL",
        UsageGroupArg::Session => "SESSION",
    }));
    heading.extend(["IN", "OUT", "CACHED", "COST"]);
    let mut table = Table::new(&heading);
    for row in rows {
        let mut cells = Vec::new();
        if let Some(step) = per {
            let date = format::date(row.at.as_ref(), &console.zone);
            let length = if step == UsageStepArg::Hour { 16 } else { 10 };
            cells.push(date.chars().take(length).collect());
        }
        cells.extend(by.iter().map(|group| format::shorten(&group_value(*group, row), 24)));
        cells.extend([row.input_tokens, row.output_tokens, row.cache_read_tokens].map(format::count));
        cells.push(money(row));
        table.row(cells);
    }
    print_table(console, &table)
}

/// Returns a row as scripts read it. A cost that was not reported is null, not 0.
fn row_json(row: &pb::UsageRow, per: Option<UsageStepArg>, by: &[UsageGroupArg]) -> Value {
    let mut value = json!({
        "input_tokens": row.input_tokens,
        "output_tokens": row.output_tokens,
        "cache_read_tokens": row.cache_read_tokens,
        "cache_write_tokens": row.cache_write_tokens,
        "cost_usd": row.cost_micro_usd.map(|micro| micro as f64 / 1_000_000.0),
        "reports": row.reports,
        "reports_without_cost": row.reports_without_cost,
    });
    if per.is_some() {
        value["at"] = json!(rfc3339(row.at.as_ref()));
    }
    for group in by {
        match group {
            UsageGroupArg::Campaign => value["campaign"] = json!(row.campaign),
            UsageGroupArg::Provider => value["provider"] = json!(row.provider),
            UsageGroupArg::Model => value["model"] = json!(row.model),
            UsageGroupArg::Session => {
                value["session_id"] = json!(row.session_id);
                value["session_name"] = json!(row.session_name);
            }
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_that_was_not_reported_is_not_shown_as_none() {
        let row = |cost_micro_usd, reports_without_cost| pb::UsageRow {
            cost_micro_usd,
            reports: 3,
            reports_without_cost,
            ..Default::default()
        };
        assert_eq!(money(&row(None, 3)), "-");
        assert_eq!(money(&row(Some(1_500_000), 0)), "$1.50");
        assert_eq!(money(&row(Some(1_500_000), 1)), "$1.50+");
        assert_eq!(row_json(&row(None, 3), None, &[])["cost_usd"], Value::Null);
    }
}
