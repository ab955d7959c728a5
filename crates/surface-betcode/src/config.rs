//! `ConfigService`: settings with their scopes, MCP servers of agents, permission rules and their sources.

mod claude_servers;
mod from_wire;
mod to_wire;

use std::path::{Path, PathBuf};
use std::time::Duration;

use domain::{Error, ErrorCode, ProviderKind, SessionId, Timeouts};
use runtime::settings::{SettingsLayer, SettingsScope};
use tonic::Request;
use wire::betcode::v1 as pb;
use wire::betcode::v1::config_service_server::ConfigService;

use super::{Betcode, RpcResult, answer};

#[tonic::async_trait]
impl ConfigService for Betcode {
    async fn get_settings(&self, request: Request<pb::GetSettingsRequest>) -> RpcResult<pb::Settings> {
        answer(self.settings_of(&request.get_ref().scope))
    }

    async fn update_settings(&self, request: Request<pb::UpdateSettingsRequest>) -> RpcResult<pb::Settings> {
        answer(self.change_settings(request.into_inner()))
    }

    async fn list_mcp_servers(
        &self,
        request: Request<pb::ListMcpServersRequest>,
    ) -> RpcResult<pb::ListMcpServersResponse> {
        answer(self.mcp_servers(request.into_inner()).await)
    }

    async fn get_permissions(
        &self,
        request: Request<pb::GetPermissionsRequest>,
    ) -> RpcResult<pb::PermissionRules> {
        answer(self.permissions(request.into_inner()).await)
    }
}

/// The settings for new sessions.
pub(super) struct ConfiguredSessionDefaults {
    pub(super) default_model: String,
    pub(super) timeouts: Timeouts,
}

impl Betcode {
    /// Returns the settings of one scope, or, without a scope, the effective ones and the daemon's own.
    fn settings_of(&self, scope: &str) -> Result<pb::Settings, Error> {
        match from_wire::scope(scope, self.about.default_folder.as_deref())? {
            Some(scope) => Ok(to_wire::settings(&self.supervisor.settings().layer(&scope)?)),
            None => {
                let mut settings = to_wire::settings(&self.supervisor.settings().effective(None)?);
                settings.daemon = Some(to_wire::daemon(&self.about.daemon));
                Ok(settings)
            }
        }
    }

    /// Changes the settings of a scope, by default the global one, and returns the effective settings.
    fn change_settings(&self, request: pb::UpdateSettingsRequest) -> Result<pb::Settings, Error> {
        let scope = if request.scope.is_empty() { "global" } else { &request.scope };
        let Some(scope) = from_wire::scope(scope, self.about.default_folder.as_deref())? else {
            return Err(Error::invalid("scope", "say which one to change: global or project"));
        };
        let change = from_wire::change(request.settings)?;
        self.supervisor.settings().update(&scope, &change)?;
        let project = match &scope {
            SettingsScope::Project(folder) => Some(folder.as_path()),
            _ => None,
        };
        let mut settings = to_wire::settings(&self.supervisor.settings().effective(project)?);
        settings.daemon = Some(to_wire::daemon(&self.about.daemon));
        Ok(settings)
    }

    /// Returns the permission rules; for a session, those of its folder and its grants.
    async fn permissions(&self, request: pb::GetPermissionsRequest) -> Result<pb::PermissionRules, Error> {
        if request.session_id.is_empty() {
            let rules = self.supervisor.settings().rules(None)?;
            return Ok(to_wire::rules(&[], &rules));
        }
        let snapshot = self.supervisor.snapshot(&SessionId::new(request.session_id)).await?;
        let rules = self.supervisor.settings().rules(Some(&snapshot.spec.working_dir))?;
        Ok(to_wire::rules(&snapshot.state.grants, &rules))
    }

    /// Lists the MCP servers of one session, or of all sessions that have an agent.
    async fn mcp_servers(
        &self,
        request: pb::ListMcpServersRequest,
    ) -> Result<pb::ListMcpServersResponse, Error> {
        if !request.session_id.is_empty() {
            let snapshot = self.supervisor.snapshot(&SessionId::new(request.session_id)).await?;
            let servers = to_wire::mcp_servers(&snapshot, claude_servers::configured(&snapshot.spec));
            return Ok(pb::ListMcpServersResponse { servers });
        }
        let mut servers = Vec::new();
        for snapshot in self.supervisor.list(storage::sessions::SessionFilter::default()).await? {
            if snapshot.state.status.has_agent() {
                servers.extend(to_wire::mcp_servers(&snapshot, claude_servers::configured(&snapshot.spec)));
            }
        }
        Ok(pb::ListMcpServersResponse { servers })
    }

    /// Returns the settings for a new session in a folder.
    pub(super) fn defaults(
        &self,
        directory: &str,
        provider: ProviderKind,
    ) -> Result<ConfiguredSessionDefaults, Error> {
        // Links are resolved here as they are when the session is created.
        let folder = Path::new(directory).canonicalize().unwrap_or_else(|_| PathBuf::from(directory));
        let SettingsLayer { sessions, permissions, .. } =
            self.supervisor.settings().effective(Some(&folder))?;
        let wait = |seconds: Option<u32>| {
            seconds.filter(|seconds| *seconds > 0).map(|seconds| Duration::from_secs(seconds.into()))
        };
        let compacts = self.supervisor.providers().get(provider)?.capabilities().compaction;
        let threshold = sessions.auto_compact_threshold.map(u64::from);
        Ok(ConfiguredSessionDefaults {
            // A model name of one provider means nothing to another.
            default_model: match provider {
                ProviderKind::ClaudeCode => sessions.default_model.unwrap_or_default(),
                _ => String::new(),
            },
            timeouts: Timeouts {
                attended_wait: wait(permissions.connected_timeout_secs),
                unattended_wait: wait(permissions.disconnected_timeout_secs),
                activity_extends: permissions.activity_refresh_enabled.unwrap_or(false),
                compact_above_tokens: threshold.filter(|_| compacts && sessions.auto_compact == Some(true)),
                idle_wait: Some(surface::limits::IDLE_WAIT),
            },
        })
    }

    /// Rejects a message to a session that has reached the configured number of messages.
    pub(super) async fn check_length(&self, session: &SessionId) -> Result<(), Error> {
        let snapshot = self.supervisor.snapshot(session).await?;
        let settings = self.supervisor.settings().effective(Some(&snapshot.spec.working_dir))?;
        match settings.sessions.max_messages_per_session {
            Some(most) if snapshot.state.messages >= u64::from(most) => Err(Error::new(
                ErrorCode::LimitReached,
                format!(
                    "message: session {session} has {} messages; sessions.max_messages_per_session is {most}",
                    snapshot.state.messages
                ),
            )),
            _ => Ok(()),
        }
    }

    /// Rejects a feature that is switched off in the settings.
    pub(super) fn require_feature(&self, name: &str) -> Result<(), Error> {
        let flags = self.supervisor.settings().effective(None)?.feature_flags;
        if flags.get(name).copied().unwrap_or(true) {
            return Ok(());
        }
        Err(Error::new(
            ErrorCode::NotAllowed,
            format!("{name} is switched off by the setting feature_flags.{name}"),
        ))
    }
}
