//! What sessions used, on this machine and on the others that this device is paired with. What this machine knows is shown at once; the
//! others are added as far as they answer in time, and the others are named.

use std::collections::HashSet;
use std::sync::Arc;

use config::failure::Result;
use tokio::sync::mpsc;
use wire::obey::v1 as pb;

use super::{DaemonSettings, sending, work};
use crate::data::{Update, UsageBy, UsageRow, UsageSpan};
use crate::limits;

/// The beginning and the length of the buckets, in seconds since the Unix epoch.
#[derive(Clone, Copy, Debug)]
struct Window {
    first: i64,
    step: i64,
    offset: i32,
}

impl Window {
    fn of(span: UsageSpan) -> Self {
        let now = jiff::Zoned::now();
        let offset = now.offset().seconds();
        let step = i64::try_from(span.step_seconds()).unwrap_or(i64::MAX);
        let local = now.timestamp().as_second().saturating_add(i64::from(offset));
        // The first bucket begins where the daemon begins one.
        let last = local.div_euclid(step).saturating_mul(step) - i64::from(offset);
        let first = last - step.saturating_mul(span.buckets() as i64 - 1);
        Self { first, step, offset }
    }
}

/// Tells the screen what was used on all machines.
pub(super) async fn usage(
    here: Arc<DaemonSettings>,
    others: Vec<(String, Arc<DaemonSettings>)>,
    (by, span): (UsageBy, UsageSpan),
    updates: mpsc::Sender<Update>,
) {
    let window = Window::of(span);
    // Sessions tell a machine that is reached under two names from two machines.
    let with_sessions = !others.is_empty();
    let rows = match series(&here, by, span, window, with_sessions).await {
        Ok(rows) => rows,
        Err(failure) => {
            let _gone = updates.send(sending::failed(failure)).await;
            return;
        }
    };
    let shared = work::shared_budgets(&here).await;
    let mut sums = Sums { by, span, window, rows: Vec::new(), seen: HashSet::new() };
    sums.add("", rows);
    let told = |sums: &Sums, uncounted: Vec<String>| Update::Usage {
        by,
        span,
        rows: sums.sorted(),
        shared: shared.clone(),
        uncounted,
    };
    if updates.send(told(&sums, Vec::new())).await.is_err() || others.is_empty() {
        return;
    }
    let asking = others.into_iter().map(|(name, settings)| {
        tokio::spawn(async move {
            let asked = series(&settings, by, span, window, true);
            (name, tokio::time::timeout(limits::MACHINE_WAIT, asked).await)
        })
    });
    let mut uncounted = Vec::new();
    for asked in asking.collect::<Vec<_>>() {
        match asked.await {
            Ok((name, Ok(Ok(rows)))) => sums.add(&name, rows),
            Ok((name, _)) => uncounted.push(name),
            // The task was ended with the program.
            Err(_) => return,
        }
    }
    // A screen that is gone needs nothing.
    let _gone = updates.send(told(&sums, uncounted)).await;
}

async fn series(
    settings: &DaemonSettings,
    by: UsageBy,
    span: UsageSpan,
    window: Window,
    with_sessions: bool,
) -> Result<Vec<pb::UsageRow>> {
    let group = match by {
        UsageBy::Campaign => pb::UsageGroup::Campaign,
        UsageBy::Provider => pb::UsageGroup::Provider,
        UsageBy::Model => pb::UsageGroup::Model,
        UsageBy::Session => pb::UsageGroup::Session,
    };
    let mut groups: Vec<i32> = vec![group.into()];
    if with_sessions && by != UsageBy::Session {
        groups.push(pb::UsageGroup::Session.into());
    }
    let is_always = span == UsageSpan::Always;
    let request = pb::UsageSeriesRequest {
        from: (!is_always).then_some(prost_types::Timestamp { seconds: window.first, nanos: 0 }),
        step_seconds: if is_always { 0 } else { span.step_seconds() },
        by: groups,
        offset_seconds: window.offset,
        ..Default::default()
    };
    Ok(settings.client.usage().series(request).await?.into_inner().rows)
}

/// The sums over machines.
struct Sums {
    by: UsageBy,
    span: UsageSpan,
    window: Window,
    rows: Vec<UsageRow>,
    /// Sessions of the machines that were added.
    seen: HashSet<String>,
}

impl Sums {
    /// Adds what a machine reports; this one has an empty name. Providers and models are the same everywhere, campaigns and sessions
    /// are not.
    fn add(&mut self, machine: &str, rows: Vec<pb::UsageRow>) {
        let mut own = HashSet::new();
        for from in rows {
            if !from.session_id.is_empty() {
                if self.seen.contains(&from.session_id) {
                    continue;
                }
                own.insert(from.session_id.clone());
            }
            let (name, is_common) = match self.by {
                UsageBy::Campaign => (&from.campaign, false),
                UsageBy::Provider => (&from.provider, true),
                UsageBy::Model => (&from.model, true),
                UsageBy::Session if from.session_name.is_empty() => (&from.session_id, false),
                UsageBy::Session => (&from.session_name, false),
            };
            let name = match machine {
                machine if machine.is_empty() || is_common => name.clone(),
                machine => format!("{machine}: {name}"),
            };
            self.add_to(name, &from);
        }
        self.seen.extend(own);
    }

    fn add_to(&mut self, name: String, from: &pb::UsageRow) {
        let at = self.rows.iter().position(|row| row.name == name).unwrap_or(self.rows.len());
        if at == self.rows.len() {
            self.rows.push(UsageRow { name, buckets: vec![0; self.span.buckets()], ..UsageRow::default() });
        }
        let Some(row) = self.rows.get_mut(at) else { return };
        let tokens = from.input_tokens + from.output_tokens;
        row.tokens += tokens;
        if let Some(cost) = from.cost_micro_usd {
            row.cost_micro_usd = Some(row.cost_micro_usd.unwrap_or(0) + cost);
        }
        let Window { first, step, .. } = self.window;
        let bucket = from.at.map(|at| (at.seconds - first).div_euclid(step));
        if let Some(bucket) = bucket.and_then(|at| row.buckets.get_mut(usize::try_from(at).ok()?)) {
            *bucket += tokens;
        }
    }

    /// Returns the sums, the largest first.
    fn sorted(&self) -> Vec<UsageRow> {
        let mut rows = self.rows.clone();
        rows.sort_by(|a, b| b.tokens.cmp(&a.tokens).then_with(|| a.name.cmp(&b.name)));
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(campaign: &str, provider: &str, session: &str, tokens: u64) -> pb::UsageRow {
        pb::UsageRow {
            campaign: campaign.to_owned(),
            provider: provider.to_owned(),
            session_id: session.to_owned(),
            input_tokens: tokens,
            ..pb::UsageRow::default()
        }
    }

    fn summed(by: UsageBy) -> Vec<(String, u64)> {
        let window = Window { first: 0, step: 3_600, offset: 0 };
        let mut sums = Sums { by, span: UsageSpan::Day, window, rows: Vec::new(), seen: HashSet::new() };
        sums.add(
            "",
            vec![row("shop", "codex", "s1", 5), row("shop", "codex", "s1", 2), row("blog", "codex", "s2", 1)],
        );
        sums.add("laptop", vec![row("shop", "codex", "s3", 10)]);
        // This machine, reached through a relay.
        sums.add("box", vec![row("shop", "codex", "s1", 7), row("blog", "codex", "s2", 1)]);
        sums.sorted().into_iter().map(|row| (row.name, row.tokens)).collect()
    }

    #[test]
    fn machines_are_added_and_none_is_counted_twice() {
        let campaigns = [("laptop: shop".to_owned(), 10), ("shop".to_owned(), 7), ("blog".to_owned(), 1)];
        assert_eq!(summed(UsageBy::Campaign), campaigns);
        assert_eq!(summed(UsageBy::Provider), [("codex".to_owned(), 18)]);
    }
}
