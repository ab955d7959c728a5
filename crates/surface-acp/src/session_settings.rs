//! Mode and model of a session as a client changes them.

use std::collections::BTreeMap;

use domain::{Command, ProviderKind, StopMode};
use runtime::Snapshot;
use serde_json::json;

use super::connection::ConnectionContext;
use super::modes;
use super::rpc::{RpcError, RpcId};
use super::session_stream::SessionStreamState;

impl ConnectionContext {
    /// Changes the mode, and the provider's settings if the mode requires that.
    pub(super) async fn set_mode(&self, shared: &SessionStreamState, mode: &str) -> Result<(), RpcError> {
        let fault = |error: domain::Error| self.fault(&error);
        self.check_may_answer().map_err(fault)?;
        let snapshot = self.supervisor.snapshot(&shared.id).await.map_err(fault)?;
        let choice = modes::choose(snapshot.spec.provider, mode)?;
        let said = |key: &String| snapshot.spec.provider_config.get(key).map_or("", String::as_str);
        let changes = choice.provider_config.iter().any(|(key, value)| said(key) != value);
        if changes {
            self.change_launch(shared, &snapshot, choice.provider_config).await?;
        }
        self.supervisor.set_mode(&shared.id, choice.mode).await.map_err(fault)?;
        if changes && choice.mode == snapshot.state.mode {
            shared.resettle.notify_one();
        }
        self.evidence.report("session_mode_changed", shared.id.as_str(), &json!({"modeId": mode}));
        Ok(())
    }

    /// Changes the agent's launch settings. A running agent is stopped; the next prompt starts it again.
    async fn change_launch(
        &self,
        shared: &SessionStreamState,
        snapshot: &Snapshot,
        provider_config: BTreeMap<String, String>,
    ) -> Result<(), RpcError> {
        let fault = |error: domain::Error| self.fault(&error);
        let turn = snapshot.state.turn.as_ref().map(|turn| turn.id);
        if let Some(turn) = turn {
            self.end_turn(shared, turn, "cancelled").await;
        }
        if snapshot.state.status.has_agent() {
            match self.supervisor.stop(&shared.id, StopMode::Now).await {
                Err(error) if error.code != domain::ErrorCode::AlreadyStopped => return Err(fault(error)),
                _ => {}
            }
        }
        let command = Command::Configure { provider_config };
        self.supervisor.command(&shared.id, command).await.map(drop).map_err(fault)
    }

    /// Changes the model after checking that the provider supports it.
    pub(super) async fn set_model(&self, shared: &SessionStreamState, model: &str) -> Result<(), RpcError> {
        let fault = |error: domain::Error| self.fault(&error);
        let snapshot = self.supervisor.snapshot(&shared.id).await.map_err(fault)?;
        let model = if model == modes::DEFAULT_MODEL && snapshot.spec.provider != ProviderKind::ClaudeCode {
            snapshot.spec.model.clone()
        } else {
            model.to_owned()
        };
        let mut spec = snapshot.spec.clone();
        spec.model.clone_from(&model);
        let provider = self.supervisor.providers().get(spec.provider).map_err(fault)?;
        provider.check(&spec).map_err(fault)?;
        if model == snapshot.state.model {
            return Ok(());
        }
        let command = Command::SetModel { model };
        self.supervisor.command(&shared.id, command).await.map(drop).map_err(fault)
    }

    /// Answers a request that changed a setting.
    pub(super) async fn answer_setting(
        &self,
        shared: &SessionStreamState,
        rpc: &RpcId,
        done: Result<(), RpcError>,
        as_option: bool,
    ) {
        let answer = match done {
            Ok(()) if as_option => match self.supervisor.snapshot(&shared.id).await {
                Ok(snapshot) => Ok(json!({"configOptions": self.settings(&snapshot)["configOptions"]})),
                Err(error) => Err(self.fault(&error)),
            },
            Ok(()) => Ok(json!({})),
            Err(fault) => Err(fault),
        };
        self.answer(rpc, answer).await;
    }
}
