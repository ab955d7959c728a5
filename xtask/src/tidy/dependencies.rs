//! What may come in from outside: licences, banned crates and sources, as `deny.toml` says. The same rules that `cargo deny
//! check licenses bans sources` has, from `cargo metadata`, so that they hold where cargo-deny is not installed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::Breach;

const RULE: &str = "dependencies";

/// What `deny.toml` says.
#[derive(Debug, Default)]
pub struct DenyRules {
    pub targets: Vec<String>,
    pub licences: BTreeSet<String>,
    /// Crates that may have a licence of their own.
    pub exceptions: BTreeMap<String, BTreeSet<String>>,
    /// Banned crates, and through which others they are allowed.
    pub banned: BTreeMap<String, BTreeSet<String>>,
    pub registries: BTreeSet<String>,
}

impl DenyRules {
    /// Reads `deny.toml`.
    pub fn read(text: &str) -> Result<Self> {
        let file: toml::Table = text.parse().context("deny.toml")?;
        let at = |table: &str, key: &str| {
            file.get(table)
                .and_then(|table| table.get(key))
                .and_then(toml::Value::as_array)
                .cloned()
                .unwrap_or_default()
        };
        let mut rules = Self {
            targets: texts(&at("graph", "targets")).into_iter().collect(),
            licences: texts(&at("licenses", "allow")),
            registries: texts(&at("sources", "allow-registry")),
            ..Self::default()
        };
        for exception in at("licenses", "exceptions") {
            rules.exceptions.insert(name(&exception)?, texts(&list(&exception, "allow")));
        }
        for banned in at("bans", "deny") {
            rules.banned.insert(name(&banned)?, texts(&list(&banned, "wrappers")));
        }
        if rules.targets.is_empty() || rules.licences.is_empty() || rules.registries.is_empty() {
            bail!("deny.toml: graph.targets, licenses.allow and sources.allow-registry must not be empty");
        }
        Ok(rules)
    }
}

fn list(table: &toml::Value, key: &str) -> Vec<toml::Value> {
    table.get(key).and_then(toml::Value::as_array).cloned().unwrap_or_default()
}

fn name(table: &toml::Value) -> Result<String> {
    let name = ["crate", "name"].iter().find_map(|key| table.get(key)).and_then(toml::Value::as_str);
    Ok(name.context("deny.toml: an entry without a name")?.to_owned())
}

fn texts(values: &[toml::Value]) -> BTreeSet<String> {
    values.iter().filter_map(toml::Value::as_str).map(str::to_owned).collect()
}

/// Checks everything the program is built from, on every platform it is built for.
pub fn check(root: &Path) -> Result<Vec<Breach>> {
    let rules = DenyRules::read(&std::fs::read_to_string(root.join("deny.toml"))?)?;
    let mut breaches = BTreeSet::new();
    for target in &rules.targets {
        breaches.extend(check_metadata(&rules, &metadata(root, target)?)?);
    }
    Ok(breaches.into_iter().collect())
}

/// Asks cargo for the packages of a platform. Crates that only another platform uses may have to be fetched first.
fn metadata(root: &Path, target: &str) -> Result<Value> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let ask = |more: &[&str]| {
        let mut command = Command::new(&cargo);
        command.args(["metadata", "--format-version", "1", "--filter-platform", target]).args(more);
        command.current_dir(root).output().context("cargo metadata")
    };
    let mut output = ask(&["--offline"])?;
    if !output.status.success() {
        output = ask(&["--locked"])?;
    }
    if !output.status.success() {
        bail!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Checks the packages of one platform.
pub fn check_metadata(rules: &DenyRules, metadata: &Value) -> Result<Vec<Breach>> {
    let nodes = metadata["resolve"]["nodes"].as_array().context("no graph")?;
    let used: BTreeSet<&str> = nodes.iter().filter_map(|node| node["id"].as_str()).collect();
    let packages = metadata["packages"].as_array().context("no packages")?;
    let named = |id: &str| {
        let found = packages.iter().find(|package| package["id"] == id);
        found.and_then(|package| package["name"].as_str()).unwrap_or_default().to_owned()
    };
    let mut breaches = Vec::new();
    for package in
        packages.iter().filter(|package| package["id"].as_str().is_some_and(|id| used.contains(id)))
    {
        let name = package["name"].as_str().unwrap_or_default();
        // Our own crates have no source.
        let Some(source) = package["source"].as_str() else { continue };
        breaches.extend(licence(rules, name, package["license"].as_str().unwrap_or_default()));
        if !rules.registries.iter().any(|known| source == format!("registry+{known}")) {
            breaches.push(Breach::new(
                RULE,
                name,
                format!("comes from {source}; only a registry of deny.toml may be used"),
            ));
        }
        if let Some(wrappers) = rules.banned.get(name) {
            let users = nodes.iter().filter(|node| {
                let needs = node["deps"].as_array().into_iter().flatten();
                needs.clone().any(|dependency| dependency["pkg"] == package["id"])
            });
            let direct: Vec<String> = users
                .map(|node| named(node["id"].as_str().unwrap_or_default()))
                .filter(|user| !wrappers.contains(user))
                .collect();
            if !direct.is_empty() {
                let remedy = format!("is banned by deny.toml, and {} uses it", direct.join(", "));
                breaches.push(Breach::new(RULE, name, remedy));
            }
        }
    }
    Ok(breaches)
}

fn licence(rules: &DenyRules, name: &str, expression: &str) -> Option<Breach> {
    let own = rules.exceptions.get(name);
    let allowed =
        |licence: &str| rules.licences.contains(licence) || own.is_some_and(|own| own.contains(licence));
    match satisfied(expression, &allowed) {
        Some(true) => None,
        Some(false) => Some(Breach::new(
            RULE,
            name,
            format!("has the licence {expression:?}, which deny.toml does not allow"),
        )),
        None => Some(Breach::new(RULE, name, format!("has a licence that cannot be read: {expression:?}"))),
    }
}

/// Whether an SPDX expression can be fulfilled with allowed licences; nothing if it cannot be read. `/` is an old `OR`.
pub fn satisfied(expression: &str, allowed: &dyn Fn(&str) -> bool) -> Option<bool> {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    let answer = any_of(&words, &mut at, allowed)?;
    (at == words.len()).then_some(answer)
}

fn any_of(words: &[&str], at: &mut usize, allowed: &dyn Fn(&str) -> bool) -> Option<bool> {
    let mut answer = all_of(words, at, allowed)?;
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        answer |= all_of(words, at, allowed)?;
    }
    Some(answer)
}

fn all_of(words: &[&str], at: &mut usize, allowed: &dyn Fn(&str) -> bool) -> Option<bool> {
    let mut answer = one(words, at, allowed)?;
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        answer &= one(words, at, allowed)?;
    }
    Some(answer)
}

fn one(words: &[&str], at: &mut usize, allowed: &dyn Fn(&str) -> bool) -> Option<bool> {
    let word = *words.get(*at)?;
    *at += 1;
    if word == "(" {
        let answer = any_of(words, at, allowed)?;
        let closes = words.get(*at) == Some(&")");
        *at += 1;
        return closes.then_some(answer);
    }
    if ["OR", "AND", "WITH", ")"].contains(&word) {
        return None;
    }
    if words.get(*at) == Some(&"WITH") {
        let exception = words.get(*at + 1)?;
        *at += 2;
        return Some(allowed(&format!("{word} WITH {exception}")));
    }
    Some(allowed(word))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn expressions_are_read_as_spdx_says() {
        let allowed = |licence: &str| ["MIT", "ISC", "Unicode-3.0"].contains(&licence);
        for (expression, answer) in [
            ("MIT", Some(true)),
            ("GPL-3.0", Some(false)),
            ("GPL-3.0 OR MIT", Some(true)),
            ("Apache-2.0/MIT", Some(true)),
            ("MIT AND GPL-3.0", Some(false)),
            ("(GPL-3.0 OR MIT) AND Unicode-3.0", Some(true)),
            ("GPL-3.0 AND ISC OR MIT", Some(true)),
            ("MIT WITH something", Some(false)),
            ("(MIT", None),
            ("", None),
            ("MIT MIT", None),
        ] {
            assert_eq!(satisfied(expression, &allowed), answer, "{expression}");
        }
    }

    #[test]
    fn a_ban_holds_unless_a_named_crate_brings_it() -> Result<()> {
        let rules = "[graph]\ntargets = [\"t\"]\n[licenses]\nallow = [\"MIT\"]\n\
                     [bans]\ndeny = [{ name = \"bad\", wrappers = [\"big\"] }]\n[sources]\nallow-registry = [\"r\"]";
        let rules = DenyRules::read(rules)?;
        let package = |name: &str, licence: &str, source: &str| json!({"id": name, "name": name, "license": licence, "source": source});
        let graph = |user: &str| {
            json!({
                "packages": [package("bad", "MIT", "registry+r"), package("big", "MIT", "registry+r"),
                             package("other", "GPL-3.0", "git+x")],
                "resolve": {"nodes": [{"id": "bad", "deps": []}, {"id": user, "deps": [{"pkg": "bad"}]}]},
            })
        };
        assert!(check_metadata(&rules, &graph("big"))?.is_empty());
        let found = check_metadata(&rules, &graph("other"))?;
        let places: Vec<&str> = found.iter().map(|breach| breach.place.as_str()).collect();
        assert_eq!(places, ["bad", "other", "other"], "{found:?}");
        Ok(())
    }
}
