//! `UsageService`: tokens and money by time, campaign, provider, model and session.

use std::collections::{BTreeMap, HashMap};

use domain::{Error, Timestamp};
use storage::history::{UsageQuery, UsageSum};
use storage::sessions::SessionLabel;
use tonic::{Request, Response, Status};
use wire::obey::v1 as pb;
use wire::obey::v1::usage_service_server::UsageService;

use super::Obey;
use super::local::answer;
use super::search::time;
use super::to_wire::timestamp;
use runtime::limits::USAGE_STEP_MIN_SECS;

/// Seconds that local time differs from UTC at most.
const OFFSET_MAX_SECS: i32 = 26 * 3_600;

#[tonic::async_trait]
impl UsageService for Obey {
    async fn series(
        &self,
        request: Request<pb::UsageSeriesRequest>,
    ) -> Result<Response<pb::UsageSeriesResponse>, Status> {
        answer(self.usage_series(request.into_inner()).await)
    }
}

impl Obey {
    async fn usage_series(&self, request: pb::UsageSeriesRequest) -> Result<pb::UsageSeriesResponse, Error> {
        let query = usage_query(&request)?;
        let groups: Vec<pb::UsageGroup> =
            request.by().filter(|group| *group != pb::UsageGroup::Unspecified).collect();
        let campaign_id = match request.campaign.as_str() {
            "" => None,
            campaign => Some(self.supervisor.campaigns().find(campaign).await?.id),
        };
        let session = Some(request.session_id.as_str()).filter(|id| !id.is_empty());
        let used = self.supervisor.history().usage(query, session).await?;
        let names = self.campaign_names().await?;
        let sums = used
            .sums
            .into_iter()
            .filter(|(session, _)| campaign_id.is_none() || session.campaign_id == campaign_id);
        let rows = rows(sums, &groups, &names, request.step_seconds > 0);
        Ok(pb::UsageSeriesResponse { rows, complete: used.is_complete })
    }
}

fn usage_query(request: &pb::UsageSeriesRequest) -> Result<UsageQuery, Error> {
    let step = request.step_seconds;
    if step > 0 && step < USAGE_STEP_MIN_SECS {
        return Err(Error::invalid(
            "step_seconds",
            format_args!("is at least {USAGE_STEP_MIN_SECS}, or 0 for one bucket"),
        ));
    }
    if request.offset_seconds.abs() > OFFSET_MAX_SECS {
        return Err(Error::invalid(
            "offset_seconds",
            "is more than a day; give the seconds that local time is ahead",
        ));
    }
    let (from, to) =
        (request.from.as_ref().map(time).transpose()?, request.to.as_ref().map(time).transpose()?);
    if from.zip(to).is_some_and(|(from, to)| from >= to) {
        return Err(Error::invalid("to", "must lie after from"));
    }
    let step_us = i64::try_from(step).ok().and_then(|step| step.checked_mul(1_000_000));
    let Some(step_us) = step_us else {
        return Err(Error::invalid("step_seconds", "is too long; 0 is one bucket for the whole time"));
    };
    Ok(UsageQuery {
        from,
        to,
        step_us: (step > 0).then_some(step_us),
        offset_us: i64::from(request.offset_seconds) * 1_000_000,
        session_key: None,
    })
}

/// What distinguishes a row from others.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct RowKey {
    at: Timestamp,
    campaign: String,
    provider: String,
    model: String,
    session_id: String,
}

/// Adds up sums that differ in nothing the client asked for.
fn rows(
    sums: impl Iterator<Item = (SessionLabel, UsageSum)>,
    groups: &[pb::UsageGroup],
    names: &HashMap<String, String>,
    has_buckets: bool,
) -> Vec<pb::UsageRow> {
    let has = |group| groups.contains(&group);
    let mut rows: BTreeMap<RowKey, pb::UsageRow> = BTreeMap::new();
    for (session, sum) in sums {
        let mut key = RowKey { at: sum.at, ..RowKey::default() };
        let mut name = String::new();
        if has(pb::UsageGroup::Campaign) {
            let campaign = session.campaign_id.as_ref();
            key.campaign = campaign.and_then(|id| names.get(id)).cloned().unwrap_or_default();
        }
        if has(pb::UsageGroup::Provider) {
            key.provider = session.provider;
        }
        if has(pb::UsageGroup::Model) {
            key.model.clone_from(&sum.model);
        }
        if has(pb::UsageGroup::Session) {
            (key.session_id, name) = (session.id, session.name);
        }
        let row = rows.entry(key.clone()).or_insert_with(|| pb::UsageRow {
            at: has_buckets.then(|| timestamp(sum.at)),
            campaign: key.campaign,
            provider: key.provider,
            model: key.model,
            session_id: key.session_id,
            session_name: name,
            ..pb::UsageRow::default()
        });
        add(row, &sum);
    }
    let mut rows: Vec<(Timestamp, pb::UsageRow)> = rows.into_iter().map(|(key, row)| (key.at, row)).collect();
    rows.sort_by_key(|(at, row)| {
        (*at, std::cmp::Reverse(row.input_tokens.saturating_add(row.output_tokens)))
    });
    rows.into_iter().map(|(_, row)| row).collect()
}

fn add(row: &mut pb::UsageRow, sum: &UsageSum) {
    row.input_tokens = row.input_tokens.saturating_add(sum.input_tokens);
    row.output_tokens = row.output_tokens.saturating_add(sum.output_tokens);
    row.cache_read_tokens = row.cache_read_tokens.saturating_add(sum.cache_read_tokens);
    row.cache_write_tokens = row.cache_write_tokens.saturating_add(sum.cache_write_tokens);
    row.cost_micro_usd = match (row.cost_micro_usd, sum.cost_micro_usd) {
        (Some(cost), Some(more)) => Some(cost.saturating_add(more)),
        (cost, more) => cost.or(more),
    };
    row.reports += sum.reports;
    row.reports_without_cost += sum.reports_without_cost;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(id: &str, provider: &str) -> SessionLabel {
        SessionLabel {
            key: 1,
            id: id.to_owned(),
            name: format!("name of {id}"),
            provider: provider.to_owned(),
            campaign_id: Some("camp_1".to_owned()),
        }
    }

    fn sum(at: i64, model: &str, input_tokens: u64, cost_micro_usd: Option<u64>) -> UsageSum {
        UsageSum {
            at: Timestamp(at),
            model: model.to_owned(),
            input_tokens,
            cost_micro_usd,
            reports: 1,
            reports_without_cost: u64::from(cost_micro_usd.is_none()),
            ..UsageSum::default()
        }
    }

    #[test]
    fn sums_are_added_up_by_what_was_asked_for_and_a_missing_cost_is_not_0() {
        let sums = || {
            vec![
                (label("a", "claude-code"), sum(1, "opus", 10, Some(5))),
                (label("b", "claude-code"), sum(1, "opus", 20, None)),
                (label("c", "codex"), sum(1, "gpt", 5, None)),
            ]
            .into_iter()
        };
        let names = HashMap::from([("camp_1".to_owned(), "shop".to_owned())]);
        let all = rows(sums(), &[], &names, false);
        assert_eq!(all.len(), 1);
        assert_eq!((all[0].input_tokens, all[0].cost_micro_usd), (35, Some(5)));
        assert_eq!((all[0].reports, all[0].reports_without_cost), (3, 2));
        let by = rows(sums(), &[pb::UsageGroup::Provider, pb::UsageGroup::Campaign], &names, false);
        let shown: Vec<_> =
            by.iter().map(|row| (row.provider.as_str(), row.campaign.as_str(), row.cost_micro_usd)).collect();
        assert_eq!(shown, [("claude-code", "shop", Some(5)), ("codex", "shop", None)]);
    }

    #[test]
    fn a_series_that_cannot_be_meant_is_refused_by_field() {
        let refused = |request: pb::UsageSeriesRequest| usage_query(&request).unwrap_err().message;
        assert!(
            refused(pb::UsageSeriesRequest { step_seconds: 5, ..Default::default() })
                .contains("step_seconds")
        );
        assert!(
            refused(pb::UsageSeriesRequest { offset_seconds: 100_000, ..Default::default() })
                .contains("offset_seconds")
        );
        let at = |seconds| Some(prost_types::Timestamp { seconds, nanos: 0 });
        let backwards = pb::UsageSeriesRequest { from: at(9), to: at(3), ..Default::default() };
        assert!(refused(backwards).contains("to"));
        assert!(
            refused(pb::UsageSeriesRequest { from: at(i64::MAX), ..Default::default() }).contains("time")
        );
    }
}
