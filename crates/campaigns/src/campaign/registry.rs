//! Reads the registry file of the `camp` command, if there is one. Never writes it: campaigns are imported
//! when they are asked for. Knows the file's format and path, nothing of the store.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

use super::NewCampaign;
use host::project_file;

/// Largest file that is read. A registry of thousands of campaigns stays far below.
const FILE_MAX_BYTES: u64 = 4 * 1024 * 1024;

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    campaigns: BTreeMap<String, RegistryEntry>,
}

#[derive(Deserialize)]
struct RegistryEntry {
    #[serde(default)]
    name: String,
    path: String,
}

/// Returns the campaigns of the registry; none if it is missing or cannot be parsed.
pub(super) fn campaigns() -> Vec<NewCampaign> {
    let Some(path) = place() else { return Vec::new() };
    let text = match project_file::read_own_text(&path, FILE_MAX_BYTES) {
        Ok(Some(text)) => text,
        Ok(None) => return Vec::new(),
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "the camp registry was not read");
            return Vec::new();
        }
    };
    parse(&text).unwrap_or_else(|error| {
        tracing::warn!(path = %path.display(), %error, "the camp registry cannot be understood");
        Vec::new()
    })
}

fn place() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("CAMP_REGISTRY_PATH") {
        return Some(path.into());
    }
    Some(PathBuf::from(std::env::var_os("HOME")?).join(".obey/campaign/registry.json"))
}

fn parse(text: &str) -> serde_json::Result<Vec<NewCampaign>> {
    let file: File = serde_json::from_str(text)?;
    let campaign = |(id, entry): (String, RegistryEntry)| NewCampaign {
        id,
        name: entry.name,
        path: entry.path,
        description: String::new(),
        scrub: None,
        mode: None,
    };
    Ok(file.campaigns.into_iter().map(campaign).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registry_gives_its_campaigns() {
        let text = r#"{"version":3,"default_org":"x","orgs":[],"campaigns":{
            "6f1c":{"name":"shop","path":"/srv/shop","type":"product","status":"active","tags":[]}}}"#;
        let found = parse(text).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].id.as_str(), found[0].name.as_str(), found[0].path.as_str()),
            ("6f1c", "shop", "/srv/shop")
        );
        assert!(parse("{}").unwrap().is_empty());
        assert!(parse("not json").is_err());
    }
}
