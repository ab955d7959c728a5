//! Which crate may depend on which: among our own crates, and on the third-party crates that mark a layer.
//! The tables implement ARCHITECTURE.md; a new edge is a decision and gets a record in `docs/decisions/`.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::Breach;

/// Our crates and which of our crates each may use, including tests. `surface-*` is every crate that begins so.
const OURS: &[(&str, &[&str])] = &[
    ("wire", &[]),
    ("domain", &[]),
    ("shim", &[]),
    // Secrets: docs/decisions/0036.
    ("scrub", &["domain"]),
    // GitLab and GitHub: docs/decisions/0064.
    ("forge", &["domain", "host", "scrub"]),
    // What people see of sessions: docs/decisions/0051.
    ("view", &["domain"]),
    // Isolation of commands and agents: docs/decisions/0034.
    ("sandbox", &["domain", "git-files"]),
    // What a repository's own files say: docs/decisions/0130.
    ("git-files", &[]),
    // What every crate needs of the machine; the process table is read as the shim reads it: docs/decisions/0043.
    ("host", &["domain", "shim"]),
    ("storage", &["domain", "host"]),
    ("agent-port", &["domain"]),
    // Parts of the runtime below it: docs/decisions/0090. The format of spool and frames is in `shim`: docs/decisions/0002.
    ("agent-process", &["domain", "host", "shim", "sandbox"]),
    ("git", &["domain", "git-files", "host", "agent-process"]),
    ("settings", &["domain", "host"]),
    ("history", &["domain", "storage"]),
    ("overview", &["domain", "git-files", "host", "storage", "agent-process"]),
    ("containment", &["domain", "agent-port", "agent-process", "git-files", "sandbox"]),
    ("campaigns", &["domain", "host", "storage", "shim", "settings"]),
    (
        "runtime",
        &[
            "domain",
            "agent-port",
            "agent-process",
            "campaigns",
            "containment",
            "git",
            "git-files",
            "history",
            "host",
            "overview",
            "settings",
            "storage",
            "shim",
            "sandbox",
            "scrub",
        ],
    ),
    // What providers share, one crate for each, and the list of them: none sees another, docs/decisions/0090.
    ("provider-common", &["domain", "agent-port"]),
    ("provider-acp", &["domain", "agent-port", "provider-common"]),
    ("provider-claude", &["domain", "agent-port", "provider-common"]),
    ("provider-codex", &["domain", "agent-port", "provider-common"]),
    ("provider-openai", &["domain", "agent-port", "host", "provider-common"]),
    ("provider-openclaw", &["domain", "agent-port", "host", "provider-common"]),
    ("provider-scripted", &["domain", "agent-port", "provider-common"]),
    ("providers", &["domain", "agent-port", "provider-common", "provider-*"]),
    ("workbench", &["domain", "host", "storage", "sandbox", "scrub"]),
    // What surfaces share, and one crate for each: none sees another, docs/decisions/0043.
    ("surface", &["wire", "domain", "host", "storage", "runtime", "http-server"]),
    ("surface-acp", &["wire", "domain", "host", "storage", "runtime", "surface"]),
    ("surface-betcode", &["wire", "domain", "host", "storage", "runtime", "surface", "forge"]),
    (
        "surface-contextd",
        &["wire", "domain", "agent-port", "host", "storage", "runtime", "surface", "sandbox", "workbench"],
    ),
    ("surface-mcp", &["wire", "domain", "host", "runtime", "surface"]),
    ("surface-obey", &["wire", "domain", "host", "storage", "runtime", "surface", "forge"]),
    ("surface-roz", &["wire", "domain", "agent-port", "host", "storage", "runtime", "surface"]),
    // The page: docs/decisions/0057.
    ("surface-web", &["wire", "domain", "host", "runtime", "surface"]),
    // Both ends of a tunnel, the daemon's end, and the relay, which runs no session: docs/decisions/0052.
    // How both HTTP servers, the daemon's and the relay's, close.
    ("http-server", &[]),
    ("tunnel", &["wire", "domain"]),
    ("surface-tunnel", &["wire", "domain", "host", "surface", "tunnel"]),
    ("relay", &["wire", "domain", "host", "tunnel", "http-server"]),
    // What daemon and clients share, the clients' connection, and the command line: docs/decisions/0061.
    ("config", &["domain"]),
    ("client", &["wire", "domain", "host", "config", "tunnel"]),
    // The terminal UI is a client like any other: docs/decisions/0051.
    ("ui", &["wire", "domain", "view", "config", "client"]),
    // What commands show and ask, and their arguments, beside the commands: docs/decisions/0090.
    ("cli-args", &["domain", "config"]),
    ("terminal", &["wire", "domain", "view", "config", "client", "cli-args"]),
    (
        "cli",
        &[
            "wire",
            "domain",
            "git-files",
            "host",
            "view",
            "config",
            "client",
            "ui",
            "tunnel",
            "cli-args",
            "terminal",
        ],
    ),
    (
        "daemon",
        &[
            "wire",
            "domain",
            "forge",
            "agent-port",
            "host",
            "storage",
            "runtime",
            "sandbox",
            "providers",
            "workbench",
            "surface",
            "surface-*",
            "config",
        ],
    ),
    // The program: both, and the commands that need both.
    (
        "obey",
        &[
            "wire",
            "domain",
            "git-files",
            "agent-port",
            "storage",
            "runtime",
            "shim",
            "sandbox",
            "providers",
            "workbench",
            "surface",
            "surface-acp",
            "surface-mcp",
            "config",
            "client",
            "cli",
            "cli-args",
            "terminal",
            "daemon",
            "relay",
            "tunnel",
        ],
    ),
    // Only the scenarios of `provider_common::suite`.
    ("e2e", &["wire", "provider-common"]),
    // Benchmarks use the parts they measure; real agents and their model come from the tests: docs/decisions/0019.
    ("bench", &["wire", "e2e", "tunnel"]),
    ("scrub-bench", &["scrub"]),
    // Every decoder of bytes that agents, clients and disks supply.
    (
        "fuzz",
        &[
            "domain",
            "workbench",
            "surface-contextd",
            "providers",
            "agent-port",
            "config",
            "surface",
            "shim",
            "wire",
            "tunnel",
        ],
    ),
    // The quick start in Rust, as others write it.
    ("example-rust", &["wire"]),
    ("xtask", &[]),
];

/// Crates that may use only these.
const CLOSED: &[(&str, &[&str])] = &[
    // serde_json: tool inputs are JSON throughout, docs/decisions/0003.
    ("domain", &["serde", "serde_json", "thiserror"]),
    ("shim", &["libc", "crc32c"]),
    // Tests read times of journals and try random ones.
    ("view", &["serde", "serde_json", "jiff", "proptest"]),
    // toml: the access table next to the published protos, docs/decisions/0031. serde_json: events are messages and JSON.
    (
        "wire",
        &[
            "prost",
            "prost-types",
            "tonic",
            "tonic-prost",
            "serde",
            "serde_json",
            "protox",
            "tonic-prost-build",
            "toml",
        ],
    ),
];

/// Third-party crates that mark a layer, and who may use them. Others are unrestricted.
const GUARDED: &[(&str, &[&str])] = &[
    (
        "tokio",
        &[
            "http-server",
            "agent-port",
            "forge",
            "host",
            "storage",
            "sandbox",
            "agent-process",
            "git",
            "history",
            "overview",
            "settings",
            "runtime",
            "provider-acp",
            "provider-openai",
            "provider-openclaw",
            "provider-scripted",
            "providers",
            "workbench",
            "surface",
            "surface-*",
            "obey",
            "e2e",
            "example-rust",
            "bench",
            "client",
            "terminal",
            "cli",
            "ui",
            "daemon",
            "tunnel",
            "relay",
            "fuzz",
        ],
    ),
    (
        "tokio-stream",
        &["http-server", "surface", "surface-*", "obey", "e2e", "bench", "cli", "ui", "tunnel", "relay"],
    ),
    // The workbench has tables of its own, and the relay a file of its own: docs/decisions/0012 and 0052.
    (
        "rusqlite",
        &["storage", "campaigns", "containment", "history", "runtime", "workbench", "bench", "relay"],
    ),
    (
        "libc",
        &[
            "shim",
            "host",
            "storage",
            "sandbox",
            "agent-process",
            "runtime",
            "workbench",
            "surface",
            "obey",
            "e2e",
            "bench",
            "daemon",
        ],
    ),
    ("nix", &["runtime"]),
    // Models, endpoints that embed memories (docs/decisions/0023), webhooks (docs/decisions/0050), and forges (docs/decisions/0064).
    ("reqwest", &["provider-common", "provider-openai", "workbench", "bench", "daemon", "forge"]),
    // Traces and logs for a collector; a test decodes them: docs/decisions/0088.
    ("opentelemetry", &["daemon"]),
    ("opentelemetry_sdk", &["daemon"]),
    ("opentelemetry-otlp", &["daemon"]),
    ("opentelemetry-http", &["daemon"]),
    ("tracing-opentelemetry", &["daemon"]),
    ("opentelemetry-proto", &["e2e"]),
    // Where memories may be searched: docs/decisions/0027.
    ("qdrant-client", &["workbench"]),
    // The messages of ACP agents: docs/decisions/0028.
    ("agent-client-protocol-schema", &["provider-acp"]),
    ("regex", &["workbench", "scrub"]),
    (
        "prost",
        &[
            "wire",
            "http-server",
            "surface",
            "surface-betcode",
            "surface-contextd",
            "surface-roz",
            "obey",
            "e2e",
            "bench",
            "tunnel",
            "relay",
            "fuzz",
        ],
    ),
    (
        "prost-types",
        &[
            "wire",
            "http-server",
            "surface",
            "surface-betcode",
            "surface-contextd",
            "surface-obey",
            "surface-roz",
            "surface-web",
            "obey",
            "e2e",
            "bench",
            "client",
            "terminal",
            "cli",
            "ui",
            "tunnel",
            "surface-tunnel",
            "relay",
        ],
    ),
    (
        "tonic",
        &[
            "wire",
            "http-server",
            "surface",
            "surface-*",
            "obey",
            "e2e",
            "example-rust",
            "bench",
            "config",
            "client",
            "cli",
            "ui",
            "daemon",
            "tunnel",
            "relay",
            "fuzz",
        ],
    ),
    ("tonic-prost", &["wire", "surface", "bench"]),
    ("tonic-types", &["surface", "obey", "e2e", "cli"]),
    ("tonic-health", &["http-server", "surface", "e2e", "relay"]),
    // What the daemon and the relay answer about their own services: docs/decisions/0095.
    ("tonic-reflection", &["http-server", "surface", "e2e"]),
    ("tonic-web", &["surface"]),
    // Methods as JSON: docs/decisions/0057.
    ("prost-reflect", &["surface", "surface-web"]),
    (
        "axum",
        &[
            "surface",
            "surface-contextd",
            "surface-mcp",
            "surface-obey",
            "surface-roz",
            "surface-web",
            "e2e",
            "surface-tunnel",
            "relay",
        ],
    ),
    (
        "tower",
        &["surface", "obey", "e2e", "example-rust", "bench", "client", "tunnel", "surface-tunnel", "relay"],
    ),
    ("hyper-util", &["surface", "obey", "e2e", "example-rust", "bench", "client", "tunnel", "relay"]),
    // The bus between relays: docs/decisions/0053.
    ("async-nats", &["relay"]),
    ("agent-client-protocol", &[]),
    // A client in one place, servers in two: docs/decisions/0018 and 0024.
    ("rmcp", &["surface-mcp", "obey", "provider-openai", "cli"]),
    // What the daemon counts is in one file: docs/decisions/0070.
    ("metrics", &["host"]),
    ("metrics-exporter-prometheus", &["daemon"]),
    // Schemas of what commands print and of the configuration: docs/decisions/0071.
    ("schemars", &["config", "cli"]),
    // Drawing on a terminal: docs/decisions/0051.
    ("ratatui", &["ui"]),
    ("crossterm", &["ui"]),
    ("ratatui-textarea", &["ui"]),
    // Also the documents, as pages of the daemon.
    ("pulldown-cmark", &["ui", "terminal", "surface-web"]),
    ("syntect", &["ui", "terminal"]),
    ("two-face", &["ui", "terminal"]),
    ("clap", &["cli-args", "cli"]),
    ("clap_complete", &["cli-args", "cli"]),
    ("tracing-subscriber", &["config", "daemon", "obey"]),
    ("anyhow", &["daemon", "obey", "e2e", "example-rust", "xtask", "bench", "fuzz"]),
];

/// A package of the workspace.
#[derive(Debug)]
pub struct Package {
    pub name: String,
    pub dependencies: Vec<Dependency>,
}

/// A dependency of a package.
#[derive(Debug)]
pub struct Dependency {
    pub name: String,
    /// A folder of this workspace.
    pub ours: bool,
    pub only_tests: bool,
}

/// Queries cargo for the packages of a workspace.
pub fn packages(root: &Path) -> Result<Vec<Package>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(root)
        .output()
        .context("cargo metadata")?;
    if !output.status.success() {
        bail!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    }
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"].as_array().context("no packages")?;
    packages.iter().map(package).collect()
}

fn package(value: &Value) -> Result<Package> {
    let name = value["name"].as_str().context("a package without a name")?.to_owned();
    let dependencies = value["dependencies"].as_array().context("no dependencies")?;
    let dependencies = dependencies.iter().map(|dependency| Dependency {
        name: dependency["name"].as_str().unwrap_or_default().to_owned(),
        ours: dependency["path"].is_string(),
        only_tests: dependency["kind"] == "dev",
    });
    Ok(Package { name, dependencies: dependencies.collect() })
}

/// Returns whether a list has a name, or a pattern that it matches.
fn has(list: &[&str], name: &str) -> bool {
    list.iter().any(|entry| entry.strip_suffix('*').map_or(*entry == name, |start| name.starts_with(start)))
}

fn row<'a>(table: &'a [(&str, &[&'static str])], name: &str) -> Option<&'a [&'static str]> {
    table.iter().find(|(crate_name, _)| *crate_name == name).map(|(_, allowed)| *allowed)
}

/// Checks the edges between our own crates.
pub fn edges(packages: &[Package]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for package in packages {
        let Some(allowed) = row(OURS, &package.name) else {
            let remedy = "is not in the table of crates; say what it may import";
            breaches.push(Breach::new("imports", &package.name, remedy));
            continue;
        };
        for dependency in package.dependencies.iter().filter(|dependency| dependency.ours) {
            if !has(allowed, &dependency.name) {
                let remedy = format!("must not depend on {}", dependency.name);
                breaches.push(Breach::new("imports", &package.name, remedy));
            }
        }
    }
    breaches
}

/// Checks third-party crates that mark a layer. Tests may use any.
pub fn third_party(packages: &[Package]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for package in packages {
        let theirs = |dependency: &&Dependency| !dependency.ours && !dependency.only_tests;
        for dependency in package.dependencies.iter().filter(theirs) {
            let name = dependency.name.as_str();
            let allowed = match row(CLOSED, &package.name) {
                Some(closed) => has(closed, name),
                None => row(GUARDED, name).is_none_or(|users| has(users, &package.name)),
            };
            if !allowed {
                let remedy = format!("must not depend on {name}");
                breaches.push(Breach::new("third-party", &package.name, remedy));
            }
        }
    }
    breaches
}

#[cfg(test)]
mod tests;
