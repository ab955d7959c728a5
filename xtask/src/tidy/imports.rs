//! Which crate may depend on which: among our own crates, and on the third-party crates that mark a layer.
//! The tables implement ARCHITECTURE.md; a new edge is a decision and gets a record in `docs/decisions/`.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::Breach;

/// Our crates and which of our crates each may use, including tests.
const OURS: &[(&str, &[&str])] = &[
    ("wire", &[]),
    ("domain", &[]),
    ("shim", &[]),
    // Secrets: docs/decisions/0036.
    ("scrub", &["domain"]),
    // Isolation of commands and agents: docs/decisions/0034.
    ("sandbox", &["domain"]),
    // What every crate needs of the machine; the process table is read as the shim reads it:
    // docs/decisions/0043.
    ("host", &["domain", "shim"]),
    ("storage", &["domain", "host"]),
    ("agent-port", &["domain"]),
    // The format of spool and frames is in `shim`: docs/decisions/0002.
    ("runtime", &["domain", "agent-port", "host", "storage", "shim", "sandbox", "scrub"]),
    ("providers", &["domain", "agent-port", "host"]),
    ("workbench", &["domain", "host", "storage", "sandbox", "scrub"]),
    // What surfaces share, and one crate for each: none sees another, docs/decisions/0043.
    ("surface", &["wire", "domain", "host", "storage", "runtime"]),
    ("surface-acp", &["wire", "domain", "host", "storage", "runtime", "surface"]),
    ("surface-betcode", &["wire", "domain", "host", "storage", "runtime", "surface"]),
    (
        "surface-contextd",
        &["wire", "domain", "agent-port", "host", "storage", "runtime", "surface", "sandbox", "workbench"],
    ),
    ("surface-mcp", &["wire", "domain", "host", "runtime", "surface"]),
    ("surface-obey", &["wire", "domain", "host", "storage", "runtime", "surface"]),
    ("surface-roz", &["wire", "domain", "agent-port", "host", "storage", "runtime", "surface"]),
    (
        "obey",
        &[
            "wire",
            "domain",
            "agent-port",
            "host",
            "storage",
            "runtime",
            "shim",
            "sandbox",
            "providers",
            "workbench",
            "surface",
            "surface-acp",
            "surface-betcode",
            "surface-contextd",
            "surface-mcp",
            "surface-obey",
            "surface-roz",
        ],
    ),
    // Only the scenarios of `providers::suite`.
    ("e2e", &["wire", "providers"]),
    // Benchmarks use the parts they measure; real agents and their model come from the tests:
    // docs/decisions/0019.
    ("bench", &["wire", "e2e"]),
    ("scrub-bench", &["scrub"]),
    ("fuzz", &["domain", "workbench", "surface-contextd"]),
    ("xtask", &[]),
];

/// Crates that may use only these.
const CLOSED: &[(&str, &[&str])] = &[
    // serde_json: tool inputs are JSON throughout, docs/decisions/0003.
    ("domain", &["serde", "serde_json", "thiserror"]),
    ("shim", &["libc", "crc32c"]),
    // toml: the access table next to the published protos, docs/decisions/0031.
    (
        "wire",
        &["prost", "prost-types", "tonic", "tonic-prost", "serde", "protox", "tonic-prost-build", "toml"],
    ),
];

/// Third-party crates that mark a layer, and who may use them. Others are unrestricted.
const GUARDED: &[(&str, &[&str])] = &[
    (
        "tokio",
        &[
            "agent-port",
            "host",
            "storage",
            "sandbox",
            "runtime",
            "providers",
            "workbench",
            "surface",
            "surface-acp",
            "surface-betcode",
            "surface-contextd",
            "surface-mcp",
            "surface-obey",
            "surface-roz",
            "obey",
            "e2e",
            "bench",
        ],
    ),
    (
        "tokio-stream",
        &[
            "surface",
            "surface-acp",
            "surface-betcode",
            "surface-contextd",
            "surface-mcp",
            "surface-obey",
            "surface-roz",
            "obey",
            "e2e",
            "bench",
        ],
    ),
    // The workbench has tables of its own: docs/decisions/0012.
    ("rusqlite", &["storage", "runtime", "workbench", "bench"]),
    (
        "libc",
        &["shim", "host", "storage", "sandbox", "runtime", "workbench", "surface", "obey", "e2e", "bench"],
    ),
    ("nix", &["runtime"]),
    // Models and endpoints that embed memories: docs/decisions/0023.
    ("reqwest", &["providers", "workbench", "bench"]),
    // Where memories may be searched: docs/decisions/0027.
    ("qdrant-client", &["workbench"]),
    // The messages of ACP agents: docs/decisions/0028.
    ("agent-client-protocol-schema", &["providers"]),
    ("regex", &["workbench", "scrub"]),
    (
        "prost",
        &["wire", "surface", "surface-betcode", "surface-contextd", "surface-roz", "obey", "e2e", "bench"],
    ),
    (
        "prost-types",
        &[
            "wire",
            "surface",
            "surface-betcode",
            "surface-contextd",
            "surface-obey",
            "surface-roz",
            "obey",
            "e2e",
            "bench",
        ],
    ),
    (
        "tonic",
        &[
            "wire",
            "surface",
            "surface-acp",
            "surface-betcode",
            "surface-contextd",
            "surface-mcp",
            "surface-obey",
            "surface-roz",
            "obey",
            "e2e",
            "bench",
        ],
    ),
    ("tonic-prost", &["wire", "surface", "bench"]),
    ("tonic-types", &["surface", "obey", "e2e"]),
    ("tonic-health", &["surface", "e2e"]),
    ("tonic-reflection", &["surface", "e2e"]),
    ("tonic-web", &["surface"]),
    ("axum", &["surface", "surface-contextd", "surface-mcp", "e2e"]),
    ("tower", &["surface", "obey", "e2e", "bench"]),
    ("hyper-util", &["surface", "obey", "e2e", "bench"]),
    ("agent-client-protocol", &[]),
    // A client in one place, servers in two: docs/decisions/0018 and 0024.
    ("rmcp", &["surface-mcp", "obey", "providers"]),
    ("clap", &["obey"]),
    ("clap_complete", &["obey"]),
    ("tracing-subscriber", &["obey"]),
    ("anyhow", &["obey", "e2e", "xtask", "bench", "fuzz"]),
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
            if !allowed.contains(&dependency.name.as_str()) {
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
                Some(closed) => closed.contains(&name),
                None => row(GUARDED, name).is_none_or(|users| users.contains(&package.name.as_str())),
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
mod tests {
    use super::*;

    fn uses(name: &str, dependencies: &[(&str, bool, bool)]) -> Vec<Package> {
        let dependencies = dependencies.iter().map(|(name, ours, only_tests)| Dependency {
            name: (*name).to_owned(),
            ours: *ours,
            only_tests: *only_tests,
        });
        vec![Package { name: name.to_owned(), dependencies: dependencies.collect() }]
    }

    #[test]
    fn an_edge_outside_of_the_table_is_found() {
        assert_eq!(edges(&uses("runtime", &[("domain", true, false), ("shim", true, false)])), []);
        let found = edges(&uses("surface", &[("providers", true, false)]));
        assert_eq!(found, [Breach::new("imports", "surface", "must not depend on providers")]);
        assert_eq!(edges(&uses("domain", &[("runtime", true, true)])).len(), 1, "in tests too");
        assert_eq!(edges(&uses("newcomer", &[])).len(), 1);
    }

    #[test]
    fn a_guarded_crate_in_the_wrong_layer_is_found() {
        assert_eq!(third_party(&uses("runtime", &[("tokio", false, false), ("ulid", false, false)])), []);
        assert_eq!(third_party(&uses("providers", &[("rusqlite", false, false)])).len(), 1);
        assert_eq!(third_party(&uses("runtime", &[("anyhow", false, false)])).len(), 1);
        assert_eq!(third_party(&uses("runtime", &[("clap", false, true)])), [], "tests are free");
    }

    #[test]
    fn a_closed_crate_takes_nothing_new() {
        assert_eq!(third_party(&uses("domain", &[("serde", false, false)])), []);
        assert_eq!(third_party(&uses("domain", &[("ulid", false, false)])).len(), 1);
        assert_eq!(third_party(&uses("shim", &[("serde", false, false)])).len(), 1);
    }

    #[test]
    fn cargo_names_the_packages_of_this_workspace() {
        let packages = packages(&crate::tidy::workspace_root()).unwrap();
        let domain = packages.iter().find(|package| package.name == "domain").unwrap();
        assert!(domain.dependencies.iter().any(|dependency| dependency.name == "serde" && !dependency.ours));
        let runtime = packages.iter().find(|package| package.name == "runtime").unwrap();
        assert!(runtime.dependencies.iter().any(|dependency| dependency.name == "domain" && dependency.ours));
    }
}
