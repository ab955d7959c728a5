//! Collects what the crates count and writes it in Prometheus' text format. What is counted is in `host::metric`.

use std::sync::{Arc, OnceLock};

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use surface_obey::RenderMetrics;

use crate::limits;

/// One per process, like the recorder itself.
static HANDLE: OnceLock<Option<PrometheusHandle>> = OnceLock::new();

/// Begins to collect. Must come before anything counts: a counter belongs to the recorder that is there when it is first used.
pub(crate) fn install(version: &'static str) {
    let _installed = HANDLE.get_or_init(|| match recorder() {
        Ok(handle) => {
            host::metric::register(version);
            Some(handle)
        }
        Err(error) => {
            tracing::warn!(%error, "metrics are not collected");
            None
        }
    });
}

/// Returns what writes the text; it is empty if another recorder was installed first.
pub(crate) fn renderer() -> Arc<RenderMetrics> {
    Arc::new(|| HANDLE.get().and_then(Option::as_ref).map(PrometheusHandle::render).unwrap_or_default())
}

fn recorder() -> Result<PrometheusHandle, metrics_exporter_prometheus::BuildError> {
    PrometheusBuilder::new().set_buckets(host::metric::SECONDS_BUCKETS)?.install_recorder()
}

/// Adds measured times to their buckets now and then; until then each takes memory.
pub(crate) async fn keep_small() {
    loop {
        tokio::time::sleep(limits::METRICS_INTERVAL).await;
        if let Some(Some(handle)) = HANDLE.get() {
            handle.run_upkeep();
        }
    }
}
