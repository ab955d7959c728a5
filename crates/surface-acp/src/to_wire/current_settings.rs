//! Values that hold until they change: plan, mode, model, commands, usage. Sent when they change, and to a
//! client that resumes a session without its history.

use serde_json::{Value, json};

use super::{UpdateProjector, modes, plan_entry};

impl UpdateProjector {
    /// Adds everything that stands now, for a client that was not told how it came to be.
    pub(crate) fn standing(&self, out: &mut Vec<u8>) {
        if !self.commands.is_empty() {
            self.update(&self.available_commands(), out);
        }
        if !self.todos.is_empty() {
            self.update(&self.plan(), out);
        }
        if let Some(update) = self.used() {
            self.update(&update, out);
        }
    }

    /// Takes over settings that were changed where no event tells of them.
    pub(crate) fn resettle(&mut self, snapshot: &runtime::Snapshot, out: &mut Vec<u8>) {
        self.know(snapshot);
        (self.session_mode, self.state.mode) = (snapshot.state.mode, snapshot.state.mode);
        self.mode(out);
    }

    /// Takes over what the agent is started with, which decides how its mode is called.
    pub(crate) fn know(&mut self, snapshot: &runtime::Snapshot) {
        self.spec.provider_config.clone_from(&snapshot.spec.provider_config);
    }

    pub(super) fn plan(&self) -> Value {
        let entries: Vec<Value> = self.todos.iter().map(plan_entry).collect();
        json!({"sessionUpdate": "plan", "entries": entries})
    }

    pub(super) fn mode(&self, out: &mut Vec<u8>) {
        let id = modes::current(&self.spec, &self.state);
        self.update(&json!({"sessionUpdate": "current_mode_update", "currentModeId": id}), out);
        self.options(out);
    }

    pub(super) fn options(&self, out: &mut Vec<u8>) {
        let options = modes::options(&self.spec, &self.state, &self.models);
        self.update(&json!({"sessionUpdate": "config_option_update", "configOptions": options}), out);
    }

    /// Returns the update with the agent's slash commands.
    pub(super) fn available_commands(&self) -> Value {
        let commands: Vec<Value> = self
            .commands
            .iter()
            .map(|command| {
                // Editors add the slash themselves.
                let name = command.name.trim_start_matches('/');
                let mut offered = json!({"name": name, "description": command.description});
                if !command.hint.is_empty() {
                    offered["input"] = json!({"hint": command.hint});
                }
                offered
            })
            .collect();
        json!({"sessionUpdate": "available_commands_update", "availableCommands": commands})
    }

    /// Returns the usage of the context window, if the agent reports both numbers.
    pub(super) fn used(&self) -> Option<Value> {
        let (used, size) = (self.context.0?, self.context.1?);
        let mut update = json!({"sessionUpdate": "usage_update", "used": used, "size": size});
        if self.usage.cost_micro_usd > 0 {
            let amount = self.usage.cost_micro_usd as f64 / 1_000_000.0;
            update["cost"] = json!({"amount": amount, "currency": "USD"});
        }
        Some(update)
    }

    /// Reports a compaction to clients that support it, and the new usage.
    pub(super) fn compacted(&mut self, summary: &str, out: &mut Vec<u8>) {
        self.compactions += 1;
        if self.client.takes_compaction {
            let id = format!("compaction_{}", self.compactions);
            let mut update = json!({
                "sessionUpdate": "compaction_update", "compactionId": id, "status": "completed",
            });
            if !summary.is_empty() {
                update["summary"] = json!([{"type": "text", "text": summary}]);
            }
            self.update(&update, out);
        }
        if let Some(update) = self.used() {
            self.update(&update, out);
        }
    }
}
