//! The daemon's own process: its log and its threads.

use anyhow::Context as _;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _};

use crate::limits;
use crate::telemetry::Telemetry;

/// The number of worker threads: half the cores, because agents and their shims need the rest. An extra
/// worker costs each chunk of output an unnecessary wake-up, which on two cores is a tenth of its latency.
pub(crate) fn workers() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (cores / 2).clamp(1, limits::WORKERS_MAX)
}

/// Starts the log, which goes to stderr, and to a collector if there is one.
pub(crate) fn start_log(level: &str, telemetry: Option<&Telemetry>) -> anyhow::Result<()> {
    let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
    let Some(telemetry) = telemetry else {
        tracing_subscriber::fmt()
            .with_env_filter(log_filter(level)?)
            .with_writer(std::io::stderr)
            .with_ansi(is_terminal)
            .init();
        return Ok(());
    };
    let own = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(is_terminal);
    tracing_subscriber::registry()
        .with(own.with_filter(log_filter(level)?))
        .with(telemetry.spans_layer())
        .with(telemetry.logs_layer().with_filter(sent_filter(level)?))
        .init();
    Ok(())
}

/// Returns what is logged.
fn log_filter(level: &str) -> anyhow::Result<EnvFilter> {
    let filter = EnvFilter::try_new(level).with_context(|| format!("log_level: {level:?}"))?;
    // rmcp logs addresses that contain keys; the session reports such failures without them. Spans for a collector would
    // stand before each line.
    Ok(filter.add_directive("rmcp=off".parse()?).add_directive("obey_trace=off".parse()?))
}

/// Returns what is sent to a collector: the same, but for what sending it would log.
fn sent_filter(level: &str) -> anyhow::Result<EnvFilter> {
    let mut filter = log_filter(level)?;
    for target in ["hyper", "hyper_util", "h2", "reqwest", "rustls", "opentelemetry"] {
        filter = filter.add_directive(format!("{target}=off").parse()?);
    }
    Ok(filter)
}
