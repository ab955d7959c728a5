//! The modes an editor may choose. Every provider has our modes. Codex has the modes of the former bridge as
//! well, which never ask and differ in what the sandbox allows:
//!
//! | mode | approvals | sandbox | network |
//! |---|---|---|---|
//! | `default`, `plan` | never | read-only | no |
//! | `acceptEdits` | never | workspace-write | no |
//! | `bypassPermissions` | never | workspace-write | yes |
//! | `yolo` | never | danger-full-access | yes |
//!
//! Pure: a choice is one of our modes plus entries of `provider_config`.

use std::collections::BTreeMap;

use domain::{Mode, ProviderKind, SessionSpec, State};
use serde_json::{Value, json};

use super::rpc::RpcError;

/// The result of choosing a mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ModeChoice {
    pub(super) id: &'static str,
    pub(super) mode: Mode,
    /// The settings Codex is started with; an empty value removes the setting.
    pub(super) provider_config: BTreeMap<String, String>,
}

/// One mode as an editor sees it, and what it means for a session.
struct ModeRow {
    id: &'static str,
    name: &'static str,
    description: &'static str,
    mode: Mode,
    codex: Option<CodexModes>,
}

/// Codex's own settings for a mode.
struct CodexModes {
    sandbox: &'static str,
    network: bool,
}

const READ_ONLY: Option<CodexModes> = Some(CodexModes { sandbox: "read-only", network: false });

/// Our modes, for every provider.
const OURS: [ModeRow; 4] = [
    row("supervised", "Ask", "Asks before it edits or runs anything", Mode::Supervised, None),
    row("acceptEdits", "Accept edits", "Edits files by itself, asks for the rest", Mode::AcceptEdits, None),
    row("plan", "Plan", "Reads and plans, changes nothing", Mode::Plan, None),
    row("autonomous", "Autonomous", "Does everything by itself, on record", Mode::Autonomous, None),
];

/// The modes of Codex.
const CODEX: [ModeRow; 7] = [
    row("supervised", "Ask", "Asks before it edits or leaves its sandbox", Mode::Supervised, None),
    row("default", "Read only", "Reads; never asks, never edits", Mode::Supervised, READ_ONLY),
    row("plan", "Plan", "Reads and plans; never asks", Mode::Plan, READ_ONLY),
    row(
        "acceptEdits",
        "Accept edits",
        "Edits and runs within its folder; never asks",
        Mode::AcceptEdits,
        Some(CodexModes { sandbox: "workspace-write", network: false }),
    ),
    row(
        "bypassPermissions",
        "Bypass permissions",
        "As accept edits, with the network",
        Mode::Autonomous,
        Some(CodexModes { sandbox: "workspace-write", network: true }),
    ),
    row(
        "yolo",
        "Full access",
        "No sandbox, no questions",
        Mode::Autonomous,
        Some(CodexModes { sandbox: "danger-full-access", network: true }),
    ),
    row(
        "autonomous",
        "Autonomous",
        "Within its sandbox; what it asks is allowed, on record",
        Mode::Autonomous,
        None,
    ),
];

const fn row(
    id: &'static str,
    name: &'static str,
    description: &'static str,
    mode: Mode,
    codex: Option<CodexModes>,
) -> ModeRow {
    ModeRow { id, name, description, mode, codex }
}

fn rows(provider: ProviderKind) -> &'static [ModeRow] {
    if provider == ProviderKind::Codex { &CODEX } else { &OURS }
}

/// Parses a mode in any of its usual spellings.
pub(super) fn choose(provider: ProviderKind, text: &str) -> Result<ModeChoice, RpcError> {
    let id = canonical(text);
    let found = rows(provider).iter().find(|row| row.id == id);
    // `default` means our default mode where the provider has no mode of that name.
    let found = found.or_else(|| {
        let mode = Mode::parse(&id)?;
        rows(provider).iter().find(|row| row.id == mode.name())
    });
    let Some(row) = found else {
        let known: Vec<&str> = rows(provider).iter().map(|row| row.id).collect();
        let shown: String = text.chars().filter(|letter| !letter.is_control()).take(64).collect();
        let message = format!("unsupported session mode {shown:?}; use one of {}", known.join(", "));
        return Err(RpcError::params(message));
    };
    Ok(ModeChoice { id: row.id, mode: row.mode, provider_config: config(provider, row) })
}

/// Normalizes the spelling of a mode.
fn canonical(text: &str) -> String {
    let plain: String = text.chars().filter(|letter| !matches!(letter, '-' | '_')).collect();
    match plain.to_ascii_lowercase().as_str() {
        "acceptedits" => "acceptEdits".to_owned(),
        "bypasspermissions" => "bypassPermissions".to_owned(),
        "yolo" | "danger" | "dangerfullaccess" => "yolo".to_owned(),
        "onrequest" => "on-request".to_owned(),
        "readonly" => "read-only".to_owned(),
        other => other.to_owned(),
    }
}

/// Returns the provider settings of a mode. Only Codex has any; empty values reset them.
fn config(provider: ProviderKind, row: &ModeRow) -> BTreeMap<String, String> {
    if provider != ProviderKind::Codex {
        return BTreeMap::new();
    }
    let (policy, sandbox, network) = match &row.codex {
        Some(codex) => ("never", codex.sandbox, if codex.network { "true" } else { "" }),
        None => ("", "", ""),
    };
    [("approval_policy", policy), ("sandbox", sandbox), ("network_access", network)]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into()
}

/// Returns the mode a session is in.
pub(super) fn current(spec: &SessionSpec, state: &State) -> &'static str {
    let said = |key: &str| spec.provider_config.get(key).map_or("", String::as_str);
    let matches = |row: &&ModeRow| {
        let wanted = config(spec.provider, row);
        row.mode == state.mode && wanted.iter().all(|(key, value)| said(key) == value)
    };
    let rows = rows(spec.provider);
    let plain = || rows.iter().find(|row| row.id == state.mode.name());
    rows.iter().find(matches).or_else(plain).map_or("supervised", |row| row.id)
}

/// Returns the available modes and the current one in the protocol's format.
pub(super) fn to_wire(spec: &SessionSpec, state: &State) -> Value {
    let available: Vec<Value> = rows(spec.provider)
        .iter()
        .map(|row| json!({"id": row.id, "name": row.name, "description": row.description}))
        .collect();
    json!({"currentModeId": current(spec, state), "availableModes": available})
}

/// Returns the mode and the model as config options.
pub(super) fn options(spec: &SessionSpec, state: &State, models: &[String]) -> Value {
    let modes: Vec<Value> = rows(spec.provider)
        .iter()
        .map(|row| json!({"value": row.id, "name": row.name, "description": row.description}))
        .collect();
    let model = if state.model.is_empty() { DEFAULT_MODEL } else { &state.model };
    let mut names: Vec<&str> = vec![DEFAULT_MODEL];
    names.extend(models.iter().map(String::as_str).filter(|name| *name != DEFAULT_MODEL));
    if !names.contains(&model) {
        names.push(model);
    }
    let names: Vec<Value> = names.iter().map(|name| json!({"value": name, "name": name})).collect();
    json!([
        {
            "id": "mode", "name": "Mode", "category": "mode", "type": "select",
            "currentValue": current(spec, state), "options": modes,
        },
        {
            "id": "model", "name": "Model", "category": "model", "type": "select",
            "currentValue": model, "options": names,
        },
    ])
}

/// The name for the provider's own choice of a model.
pub(super) const DEFAULT_MODEL: &str = "default";

#[cfg(test)]
mod tests {
    use super::*;

    fn codex(text: &str) -> (&'static str, Mode, String, String, String) {
        let choice = choose(ProviderKind::Codex, text).unwrap();
        let said = |key: &str| choice.provider_config[key].clone();
        (choice.id, choice.mode, said("approval_policy"), said("sandbox"), said("network_access"))
    }

    #[test]
    fn modes_of_the_bridge_are_codexs_arguments() {
        let is = |id, mode, policy: &str, sandbox: &str, network: &str| {
            (id, mode, policy.to_owned(), sandbox.to_owned(), network.to_owned())
        };
        assert_eq!(codex("default"), is("default", Mode::Supervised, "never", "read-only", ""));
        assert_eq!(codex("plan"), is("plan", Mode::Plan, "never", "read-only", ""));
        for spelling in ["acceptEdits", "accept-edits", "accept_edits", "ACCEPTEDITS"] {
            let edits = is("acceptEdits", Mode::AcceptEdits, "never", "workspace-write", "");
            assert_eq!(codex(spelling), edits, "{spelling}");
        }
        for spelling in ["bypassPermissions", "bypass-permissions", "bypass_permissions"] {
            let bypass = is("bypassPermissions", Mode::Autonomous, "never", "workspace-write", "true");
            assert_eq!(codex(spelling), bypass, "{spelling}");
        }
        for spelling in ["yolo", "danger", "danger-full-access", "YOLO"] {
            assert_eq!(codex(spelling), is("yolo", Mode::Autonomous, "never", "danger-full-access", "true"));
        }
        // Our modes reset what those have set.
        assert_eq!(codex("supervised"), is("supervised", Mode::Supervised, "", "", ""));
        assert_eq!(codex("autonomous"), is("autonomous", Mode::Autonomous, "", "", ""));
    }

    #[test]
    fn other_providers_have_our_modes_only() {
        let claude = |text| choose(ProviderKind::ClaudeCode, text);
        assert_eq!(claude("default").unwrap().id, "supervised");
        assert_eq!(claude("bypassPermissions").unwrap().id, "autonomous");
        assert!(claude("plan").unwrap().provider_config.is_empty());
        let fault = claude("yolo").unwrap_err();
        assert_eq!(fault.code, super::super::rpc::INVALID_PARAMS);
        assert!(fault.message.starts_with("unsupported session mode \"yolo\"; use one of supervised"));
    }
}
