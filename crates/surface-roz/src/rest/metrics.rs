//! `/metrics/tasks` and `/metrics/hosts`: how many there are, and how many of each status.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::response::Response;
use domain::Error;
use host::clock;
use http::StatusCode;
use runtime::environments::host_status;
use serde_json::{Value, json};

use super::{Roz, respond};
use crate::limits;

pub(super) async fn tasks(State(roz): State<Roz>) -> Response {
    respond(count_tasks(&roz).await.map(|counts| (StatusCode::OK, Some(shown(&counts)))))
}

pub(super) async fn hosts(State(roz): State<Roz>) -> Response {
    respond(count_hosts(&roz).await.map(|counts| (StatusCode::OK, Some(shown(&counts)))))
}

async fn count_tasks(roz: &Roz) -> Result<BTreeMap<String, u64>, Error> {
    let mut counts = BTreeMap::new();
    for page in 0.. {
        let rows =
            roz.supervisor.environments().tasks(limits::METRICS_PAGE, page * limits::METRICS_PAGE).await?;
        for row in &rows {
            *counts.entry(roz.status_of_task(row).await?.name().to_owned()).or_default() += 1;
        }
        if rows.is_empty() {
            break;
        }
    }
    Ok(counts)
}

async fn count_hosts(roz: &Roz) -> Result<BTreeMap<String, u64>, Error> {
    let mut counts = BTreeMap::new();
    for page in 0.. {
        let environments = roz.supervisor.environments();
        let rows = environments.hosts("", limits::METRICS_PAGE, page * limits::METRICS_PAGE).await?;
        for row in &rows {
            *counts.entry(host_status(row, clock::now()).to_owned()).or_default() += 1;
        }
        if rows.is_empty() {
            break;
        }
    }
    Ok(counts)
}

fn shown(counts: &BTreeMap<String, u64>) -> Value {
    json!({ "total": counts.values().sum::<u64>(), "by_status": counts })
}
