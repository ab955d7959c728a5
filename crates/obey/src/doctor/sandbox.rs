//! The sandbox tier for the workbench's commands and for agents, determined by escape attempts from each
//! tier, as the daemon does at its start; and which agents are contained.

use domain::Containment;
use sandbox::{Sandbox, Tier};

use wire::obey::local::v1 as local;

use super::Finding;
use cli::commands::session::containments;
use client::connection::Client;
use config::file::Config;
use daemon::workbench::sandbox_config;
use terminal::console::Console;

const CHECK: &str = "sandbox";

/// Reports which sessions' agents are in the sandbox and which have all rights of their user.
pub(super) async fn examine_agents(client: &Client) -> Option<Finding> {
    let response = client.daemon().list_sessions(local::ListSessionsRequest::default()).await.ok()?;
    let contained = containments(response.metadata());
    let sessions = response.into_inner().sessions;
    if sessions.is_empty() {
        return None;
    }
    let shown: Vec<String> = sessions
        .iter()
        .map(|session| {
            let how = contained.get(&session.id).map_or("not contained", String::as_str);
            format!("{} ({how})", session.agent_name)
        })
        .collect();
    let in_sandbox = contained.values().filter(|how| Containment::is_in_sandbox(how)).count();
    let message = format!("{in_sandbox} of {} agents in the sandbox: {}", sessions.len(), shown.join(", "));
    Some(Finding::ok("contained", message))
}

/// Metadata key by which the daemon says by what limits hold.
const ENFORCEMENT_KEY: &str = "obey-enforcement";

/// Says by what the daemon holds agents to their limits.
pub(super) async fn examine_limits(client: &Client) -> Option<Finding> {
    let response = client.daemon().list_sessions(local::ListSessionsRequest::default()).await.ok()?;
    let enforcement = response.metadata().get(ENFORCEMENT_KEY)?.to_str().ok()?.to_owned();
    let is_grouped = enforcement.starts_with("cgroup");
    Some(if is_grouped {
        Finding::ok("limits", format!("agents are held to their limits by {enforcement}"))
    } else {
        Finding::warning(
            "limits",
            format!(
                "agents are held to their limits by {enforcement}: each process for itself, and what hides from its parents is not found"
            ),
            "run the daemon where control groups are delegated to it: `obey service install` with systemd 254 or later",
        )
    })
}

pub(super) async fn examine(console: &Console, config: &Config) -> Finding {
    let sandbox = Sandbox::probe(sandbox_config(config, console.program.clone().into_os_string())).await;
    let findings = sandbox.findings();
    let mut message = format!("tier {} ({})", findings.tier.level(), findings.tier);
    for note in &findings.notes {
        message.push_str(&format!("; {note}"));
    }
    match findings.tier {
        Tier::Namespaces if findings.landlock_abi == 0 => Finding::warning(
            CHECK,
            format!(
                "{message}; without Landlock, links that agents put into a repository lead the daemon's git out of it"
            ),
            "use a kernel with Landlock (Linux 5.13 or newer, in the list of /sys/kernel/security/lsm)",
        ),
        Tier::Namespaces => Finding::ok(CHECK, format!("{message}; agents can be put in it")),
        Tier::Landlock => Finding::warning(
            CHECK,
            format!("{message}; agents cannot be put in it, which needs namespaces (OBEY-2005)"),
            "let users make namespaces (sysctl kernel.unprivileged_userns_clone, AppArmor) for the better tier",
        ),
        Tier::Refused => Finding::warning(
            CHECK,
            format!("{message}; commands of the workbench are refused (OBEY-2005)"),
            "use a kernel with user namespaces (unprivileged_userns_clone = 1), or Landlock (Linux 5.13 or newer)",
        ),
        Tier::None => Finding::warning(
            CHECK,
            format!("{message}; commands of the workbench run unprotected"),
            "set sandbox.required = true in the configuration",
        ),
    }
}
