//! `/metrics`: what the daemon counts, in Prometheus' text format. What is counted as it happens is in `host::metric`;
//! what is looked up when somebody asks is looked up here. Must not know how the text is made.

use std::path::{Path, PathBuf};

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use domain::Timestamp;
use domain::overview::SessionState;
use host::{clock, metric};
use http::header;
use runtime::overview::{OverviewFilter, SessionGlance};
use surface::status;

use crate::{Obey, limits};

/// Writes the text of all metrics.
pub type RenderMetrics = dyn Fn() -> String + Send + Sync;

/// The content type of the text format that every Prometheus reads.
const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Serves `/metrics`.
pub(super) async fn serve(State(obey): State<Obey>) -> Response {
    let filter = OverviewFilter { include_ended: true, ..OverviewFilter::default() };
    let glances = match obey.supervisor.overview().list(&filter).await {
        Ok((_, glances)) => glances,
        Err(error) => return status::rest(&error),
    };
    sessions(&glances, clock::now());
    let depths = obey.supervisor.queue_depths();
    metric::set_queue_depth("prompts", depths.prompts);
    metric::set_queue_depth("session_messages", depths.messages);
    metric::set_queue_depth("store_writes", depths.writes);
    metric::set_started(u64::try_from(obey.about.started_at.0 / 1_000_000).unwrap_or_default());
    let (database, render) = (obey.supervisor.database(), obey.about.render_metrics.clone());
    let text = tokio::task::spawn_blocking(move || {
        disk(&database);
        process();
        render()
    });
    match text.await {
        Ok(text) => ([(header::CONTENT_TYPE, TEXT_FORMAT)], text).into_response(),
        Err(_) => http::StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// Counts sessions, what waits for a person, and budgets.
fn sessions(glances: &[SessionGlance], now: Timestamp) {
    for state in SessionState::ALL {
        let count = glances.iter().filter(|glance| glance.assessment.state == state).count();
        metric::set_sessions(state.name(), count);
    }
    let waiting = || glances.iter().flat_map(|glance| &glance.facts.requests);
    metric::set_permissions_waiting(waiting().count() as u64);
    let oldest = waiting().map(|request| now.since(request.asked_at).as_secs()).max();
    metric::set_oldest_permission_wait(oldest.unwrap_or_default());
    metric::set_agents_running(glances.iter().filter(|glance| glance.facts.status.has_agent()).count() as u64);
    let limited = || {
        let is_limited = |glance: &&SessionGlance| {
            glance.facts.budget.tokens.is_some() && glance.assessment.state != SessionState::Ended
        };
        glances.iter().filter(is_limited)
    };
    metric::set_budget_sessions(limited().count() as u64);
    metric::set_budget_max_tokens(limited().filter_map(|glance| glance.facts.budget.tokens).sum());
    metric::set_budget_used_tokens(limited().map(|glance| glance.facts.spent.tokens).sum());
}

/// Measures the files of the daemon.
fn disk(database: &Path) {
    let size = |path: &Path| std::fs::metadata(path).map_or(0, |meta| meta.len());
    metric::set_journal_bytes(size(database));
    let mut log = database.as_os_str().to_owned();
    log.push("-wal");
    metric::set_journal_log_bytes(size(Path::new(&log)));
    let Some(folder) = database.parent() else { return };
    metric::set_spool_bytes(size_below(folder.join("agents")));
    if let Ok(space) = rustix::fs::statvfs(folder) {
        metric::set_disk_free_bytes(space.f_bavail.saturating_mul(space.f_frsize));
        metric::set_disk_bytes(space.f_blocks.saturating_mul(space.f_frsize));
    }
}

/// Returns the size of the files below a folder; looks at no more than a limit.
fn size_below(folder: PathBuf) -> u64 {
    let (mut open, mut bytes, mut seen) = (vec![folder], 0_u64, 0_usize);
    while let Some(folder) = open.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            seen += 1;
            if seen > limits::METRIC_FILES_MAX {
                return bytes;
            }
            match entry.metadata() {
                Ok(meta) if meta.is_dir() => open.push(entry.path()),
                Ok(meta) => bytes = bytes.saturating_add(meta.len()),
                Err(_) => {}
            }
        }
    }
    bytes
}

/// Measures the daemon itself, where the system tells it.
fn process() {
    if let Ok(files) = std::fs::read_dir("/proc/self/fd") {
        metric::set_open_files(files.count() as u64);
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = resident.and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok());
    if let Some(kilobytes) = kilobytes {
        metric::set_resident_bytes(kilobytes.saturating_mul(1024));
    }
}
