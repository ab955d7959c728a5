//! How much Codex may do on its own: the session's mode as a sandbox, an approval policy and a collaboration
//! mode.
//!
//! | mode | sandbox | approvals | result |
//! |---|---|---|---|
//! | supervised | `read-only` | `on-request` | reads freely; asks for edits and commands that need more |
//! | acceptEdits | `workspace-write` | `on-request` | edits and runs in its directory; asks for the rest |
//! | plan | `read-only` | `on-request` | plans; carrying out the plan is asked |
//! | autonomous | `workspace-write` | `on-request` | as acceptEdits; the rules allow what is asked, on record |
//!
//! No mode uses `untrusted`: with it Codex asks about every `cat`. No mode uses `never` either: what is not
//! asked is not on record, and what the sandbox forbids could then never be allowed. Both can be set with
//! `provider_config`, which overrides the mode.
//!
//! In our own sandbox Codex' sandbox cannot be built, as it needs namespaces, and is not needed. There
//! `untrusted` replaces `read-only` as the reason to ask: supervised and plan ask about every command that is
//! not known to be harmless. Pure.

use domain::Mode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::settings::CodexSettings;
use provider_common::json_fields::Look;

/// The agent's settings for a mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CodexModeSettings<'a> {
    pub(super) sandbox: &'a str,
    pub(super) approval_policy: &'a str,
    pub(super) planning: bool,
}

impl<'a> CodexModeSettings<'a> {
    /// Returns the settings of a mode, with the overrides of `provider_config`.
    pub(super) fn of(mode: Mode, settings: &'a CodexSettings) -> Self {
        let sandbox = match mode {
            Mode::Supervised | Mode::Plan => "read-only",
            Mode::AcceptEdits | Mode::Autonomous => "workspace-write",
        };
        let (sandbox, approvals) = match (settings.contained, mode) {
            (false, _) => (sandbox, "on-request"),
            (true, Mode::Supervised | Mode::Plan) => ("danger-full-access", "untrusted"),
            (true, Mode::AcceptEdits | Mode::Autonomous) => ("danger-full-access", "on-request"),
        };
        if settings.contained {
            let approval_policy =
                if settings.approval_policy.is_empty() { approvals } else { &settings.approval_policy };
            return Self { sandbox, approval_policy, planning: mode == Mode::Plan };
        }
        let or = |said: &'a str, own: &'a str| if said.is_empty() { own } else { said };
        Self {
            sandbox: or(&settings.sandbox, sandbox),
            approval_policy: or(&settings.approval_policy, approvals),
            planning: mode == Mode::Plan,
        }
    }

    /// Returns the settings of a running conversation.
    pub(super) fn update(&self, settings: &CodexSettings, workspace: &Workspace, model: &str) -> Value {
        let mut update = json!({
            "approvalPolicy": self.approval_policy,
            "sandboxPolicy": self.policy(settings, workspace),
        });
        // These settings must name a model, so without one the collaboration mode stays unchanged.
        if !model.is_empty() {
            let mode = if self.planning { "plan" } else { "default" };
            let effort = Some(&settings.reasoning_effort).filter(|effort| !effort.is_empty());
            update["collaborationMode"] = json!({
                "mode": mode,
                "settings": {"model": model, "reasoning_effort": effort, "developer_instructions": null},
            });
        }
        update
    }

    /// Returns the sandbox policy, with the writable folders of the configuration and of the session.
    fn policy(&self, settings: &CodexSettings, workspace: &Workspace) -> Value {
        match self.sandbox {
            "danger-full-access" => json!({"type": "dangerFullAccess"}),
            "workspace-write" => {
                let own = settings.add_dirs.iter().map(|dir| dir.to_string_lossy().into_owned());
                let roots: Vec<String> = workspace.writable_roots.iter().cloned().chain(own).collect();
                json!({
                    "type": "workspaceWrite",
                    "writableRoots": roots,
                    "networkAccess": workspace.network_access || settings.network_access,
                    "excludeTmpdirEnvVar": workspace.exclude_tmpdir_env_var,
                    "excludeSlashTmp": workspace.exclude_slash_tmp,
                })
            }
            _ => json!({"type": "readOnly"}),
        }
    }
}

/// The `workspace-write` section of Codex's own configuration. A later change of the sandbox must be sent
/// completely, so these values must be known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Workspace {
    pub(super) writable_roots: Vec<String>,
    pub(super) network_access: bool,
    pub(super) exclude_tmpdir_env_var: bool,
    pub(super) exclude_slash_tmp: bool,
}

impl Workspace {
    /// Reads it from the configuration.
    pub(super) fn read(config: &Value) -> Self {
        let said = config.under("sandbox_workspace_write");
        Self {
            writable_roots: said
                .list("writable_roots")
                .iter()
                .filter_map(|root| root.as_str().map(str::to_owned))
                .collect(),
            network_access: said.is("network_access"),
            exclude_tmpdir_env_var: said.is("exclude_tmpdir_env_var"),
            exclude_slash_tmp: said.is("exclude_slash_tmp"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mode_has_a_sandbox_and_asks() {
        let settings = CodexSettings::default();
        let sandboxes: Vec<&str> =
            Mode::ALL.iter().map(|(mode, _)| CodexModeSettings::of(*mode, &settings).sandbox).collect();
        assert_eq!(sandboxes, ["read-only", "workspace-write", "read-only", "workspace-write"]);
        for (mode, _) in Mode::ALL {
            let stance = CodexModeSettings::of(mode, &settings);
            assert_eq!((stance.approval_policy, stance.planning), ("on-request", mode == Mode::Plan));
        }
    }

    #[test]
    fn what_the_session_was_created_with_wins() {
        let settings = CodexSettings {
            sandbox: "danger-full-access".into(),
            approval_policy: "never".into(),
            ..CodexSettings::default()
        };
        let stance = CodexModeSettings::of(Mode::Supervised, &settings);
        assert_eq!((stance.sandbox, stance.approval_policy), ("danger-full-access", "never"));
        let update = stance.update(&settings, &Workspace::default(), "");
        assert_eq!(update, json!({"approvalPolicy": "never", "sandboxPolicy": {"type": "dangerFullAccess"}}));
    }

    #[test]
    fn a_changed_sandbox_keeps_what_the_configuration_allows() {
        let config =
            json!({"sandbox_workspace_write": {"writable_roots": ["/a"], "exclude_slash_tmp": true}});
        let settings =
            CodexSettings { add_dirs: vec!["/b".into()], network_access: true, ..CodexSettings::default() };
        let update = CodexModeSettings::of(Mode::AcceptEdits, &settings).update(
            &settings,
            &Workspace::read(&config),
            "gpt-5.5",
        );
        assert_eq!(
            update["sandboxPolicy"],
            json!({"type": "workspaceWrite", "writableRoots": ["/a", "/b"], "networkAccess": true,
                "excludeTmpdirEnvVar": false, "excludeSlashTmp": true})
        );
        assert_eq!(update["collaborationMode"]["mode"], "default");
    }
}
