//! The version is said in one place, the workspace's Cargo.toml; files that must repeat it repeat it exactly.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use super::Breach;

const RULE: &str = "one version";

/// Files of JSON that repeat the version, and where.
const JSON: [(&str, &str); 2] = [
    ("clients/typescript/package.json", "/version"),
    ("examples/typescript/package.json", "/dependencies/obey-client"),
];
/// Files of TOML that repeat it, and where.
const TOML: [(&str, [&str; 2]); 1] = [("clients/python/pyproject.toml", ["project", "version"])];

/// Finds files that say another version.
pub fn repeated(root: &Path) -> Result<Vec<Breach>> {
    let read = |file: &str| std::fs::read_to_string(root.join(file)).with_context(|| file.to_owned());
    let toml_in = |file: &str| -> Result<toml::Table> { Ok(read(file)?.parse()?) };
    let workspace = toml_in("Cargo.toml")?;
    let version =
        workspace["workspace"]["package"]["version"].as_str().context("Cargo.toml has no version")?;
    let mut said: Vec<(&str, Option<String>)> = Vec::new();
    for (file, pointer) in JSON {
        let value: Value = serde_json::from_str(&read(file)?)?;
        said.push((file, value.pointer(pointer).and_then(Value::as_str).map(str::to_owned)));
    }
    for (file, [section, key]) in TOML {
        let table = toml_in(file)?;
        let value = table.get(section).and_then(|section| section.get(key));
        said.push((file, value.and_then(toml::Value::as_str).map(str::to_owned)));
    }
    let wrong = said.into_iter().filter(|(_, found)| found.as_deref() != Some(version));
    Ok(wrong.map(|(file, _)| Breach::new(RULE, file, format!("say {version}, as Cargo.toml does"))).collect())
}
