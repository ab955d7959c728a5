//! What the daemon tells others: the hook, the webhook, the collector of traces, the relay. Connects, and sends nothing.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use tonic::transport::Uri;

use super::{Finding, clock};
use crate::limits;
use config::file::Config;

const EDIT: &str = "obey config edit";

/// Times of events are in microseconds.
const MICROS_PER_SECOND: i64 = 1_000_000;

/// Looks at everything that is configured; nothing where nothing is.
pub(super) async fn examine(config: &Config, data_dir: &Path) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(config.notices.hook.as_deref().map(hook));
    let (webhook, collector) = (&config.notices.webhook, &config.telemetry.endpoint);
    if !webhook.is_empty() {
        let repair = format!("start what listens there, or correct notices.webhook: {EDIT}");
        findings.push(address("webhook", webhook, &repair).await);
    }
    if !collector.is_empty() {
        let repair = format!(
            "start the collector (it must take OTLP over HTTP), or correct telemetry.endpoint or \
             OTEL_EXPORTER_OTLP_ENDPOINT: {EDIT}"
        );
        findings.push(address("telemetry", collector, &repair).await);
    }
    findings.extend(relay(data_dir).await);
    findings
}

/// Finds a hook that cannot be run.
fn hook(program: &Path) -> Finding {
    const CHECK: &str = "hook";
    let shown = program.display();
    match std::fs::metadata(program) {
        Err(error) => {
            let repair = format!("put the program there, or correct notices.hook: {EDIT}");
            Finding::broken(CHECK, format!("{shown}: {error}"), repair)
        }
        Ok(meta) if !meta.is_file() || meta.permissions().mode() & 0o111 == 0 => {
            Finding::broken(CHECK, format!("{shown} cannot be run"), format!("chmod u+x {shown}"))
        }
        Ok(_) => Finding::ok(CHECK, shown.to_string()),
    }
}

/// Tries whether somebody listens at the host and port of a URL. The rest of it may be secret and is not shown.
async fn address(check: &'static str, url: &str, repair: &str) -> Finding {
    let Some((host, port)) = host_and_port(url) else {
        return Finding::broken(check, "the address has no host", repair);
    };
    match connect(&host, port).await {
        Ok(()) => Finding::ok(check, format!("{host}:{port} answers")),
        Err(problem) => {
            Finding::warning(check, format!("{host}:{port} cannot be reached: {problem}"), repair)
        }
    }
}

fn host_and_port(url: &str) -> Option<(String, u16)> {
    let uri: Uri = url.parse().ok()?;
    let usual = if uri.scheme_str() == Some("http") { 80 } else { 443 };
    Some((uri.host()?.trim_matches(['[', ']']).to_owned(), uri.port_u16().unwrap_or(usual)))
}

async fn connect(host: &str, port: u16) -> Result<(), String> {
    let connecting = tokio::net::TcpStream::connect((host, port));
    match tokio::time::timeout(limits::REACH_WAIT, connecting).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no answer within {} s", limits::REACH_WAIT.as_secs())),
    }
}

/// Looks at the relay that this machine has joined.
async fn relay(data_dir: &Path) -> Vec<Finding> {
    const CHECK: &str = "relay";
    let joined = match daemon::relay::joined(data_dir) {
        Ok(None) => return Vec::new(),
        Ok(Some(joined)) => joined,
        Err(error) => {
            let repair = "repair its permissions (chmod 600), or join the relay again: obey machine join";
            return vec![Finding::broken(CHECK, error.message, repair)];
        }
    };
    let again = "look whether the relay runs (obey machine doctor), or leave it: obey machine leave";
    let mut findings = vec![address(CHECK, &joined.url, again).await];
    let left = joined.expires_at.0 / MICROS_PER_SECOND - clock::now_seconds();
    if left <= 0 {
        let message = "this machine's certificate for the relay has expired; the relay refuses it";
        let repair = "join the relay again with a new code: obey machine join";
        findings.push(Finding::broken("machine certificate", message, repair));
    } else {
        findings.push(Finding::ok(
            "machine certificate",
            format!("valid for {} days; it renews itself", left / (24 * 3600)),
        ));
    }
    findings
}
