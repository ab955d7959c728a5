//! The user's files beside the configuration, and files with secrets: whether they can be read, and by whom. The daemon
//! refuses to start, or denies everything, when one of them is wrong.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use runtime::settings::{Settings, SettingsScope};

use super::Finding;
use crate::serve;
use cli_args::ServeArgs;
use daemon::workbench::WorkbenchConfig;
use terminal::console::Console;

/// Files that only the daemon's user may read: the token beside the socket, the others in the data folder.
const TOKEN_FILE: &str = "token";
const SECRET_FILES: [&str; 3] = ["relay.json", "devices.json", "daemon.db"];

/// Reads every such file.
pub(super) async fn examine(console: &Console, socket: &Path, data_dir: &Path) -> Vec<Finding> {
    let mut findings = read_as_the_daemon(console).await;
    findings.extend(readable_by_others(&socket.with_file_name(TOKEN_FILE)));
    findings.extend(SECRET_FILES.iter().filter_map(|name| readable_by_others(&data_dir.join(name))));
    findings
}

/// Reads rules, settings and policies as a daemon does at its start.
async fn read_as_the_daemon(console: &Console) -> Vec<Finding> {
    // What is wrong with the configuration itself is another finding.
    let args = ServeArgs::default();
    let Ok(options) = serve::options(&args, None, &console.vars, &console.paths) else { return Vec::new() };
    let settings = Settings::new(options.settings.clone());
    let mut findings = Vec::new();
    if let Err(error) = settings.user_rules() {
        let repair = "mend the file; until then every call of an agent is denied: obey grants list";
        findings.push(Finding::broken("rules", error.message, repair));
    }
    if let Err(error) = settings.layer(&SettingsScope::Global) {
        findings.push(Finding::broken(
            "settings",
            error.message,
            "mend the file; until then no rule allows anything",
        ));
    }
    let broken = |error: domain::Error| {
        Finding::broken(
            "policies",
            error.message,
            "mend the file, or move it away; the daemon does not start with it",
        )
    };
    match WorkbenchConfig::of(&options) {
        Ok(plan) => findings.extend(plan.scrubber().await.err().map(broken)),
        Err(error) => findings.push(broken(error)),
    }
    findings
}

/// Finds a file with secrets that others can read.
fn readable_by_others(path: &Path) -> Option<Finding> {
    let mode = fs::metadata(path).ok()?.permissions().mode() & 0o777;
    let shown = path.display();
    (mode & 0o077 != 0).then(|| {
        Finding::broken(
            "secret files",
            format!("others can read {shown} (mode {mode:o})"),
            format!("chmod 600 {shown}"),
        )
    })
}
