//! Which sandbox this machine offers to the workbench's commands: found out by trying to get out of each, as the daemon
//! does at its start.

use sandbox::{Sandbox, Tier};

use super::Finding;
use crate::config::Config;
use crate::console::Console;
use crate::daemon::bench::sandbox_config;

const CHECK: &str = "sandbox";

pub(super) async fn examine(console: &Console, config: &Config) -> Finding {
    let sandbox = Sandbox::probe(sandbox_config(config, console.program.clone().into_os_string())).await;
    let findings = sandbox.findings();
    let mut message = format!("tier {} ({})", findings.tier.level(), findings.tier);
    for note in &findings.notes {
        message.push_str(&format!("; {note}"));
    }
    match findings.tier {
        Tier::Namespaces => Finding::ok(CHECK, message),
        Tier::Landlock => Finding::warning(
            CHECK,
            message,
            "let users make namespaces (sysctl kernel.unprivileged_userns_clone, AppArmor) for the better tier",
        ),
        Tier::Refused => Finding::warning(
            CHECK,
            format!("{message}; commands of the workbench are refused (OBEY-2005)"),
            "use a kernel with user namespaces or Landlock; docs/operations.md says which",
        ),
        Tier::None => Finding::warning(
            CHECK,
            format!("{message}; commands of the workbench run unprotected"),
            "set sandbox.required = true in the configuration",
        ),
    }
}
