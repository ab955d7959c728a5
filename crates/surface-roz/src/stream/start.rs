//! Starts a session; validates the request before anything is created.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use domain::event::Attachment;
use domain::{Command, Error, Mode, StopMode, Timeouts};
use runtime::{NewSession, Snapshot};
use storage::environments::EnvironmentRow;
use wire::roz::v1 as pb;
use wire::roz::v1::session_response::Response as Body;

use super::messages::SOURCE;
use crate::limits;
use crate::{Roz, from_wire, history, permissions, safety, to_wire};

/// A session that has started.
pub(super) struct StartedSession {
    pub(super) snapshot: Arc<Snapshot>,
    /// The answer to the start.
    pub(super) greeting: Body,
    /// The attachments of the first message.
    pub(super) past: Vec<Attachment>,
    /// Its agent takes system messages between turns.
    pub(super) takes_system_messages: bool,
    pub(super) max_context_tokens: Option<u32>,
}

impl Roz {
    /// Validates the request and creates the session, with the client's tools registered and the input held.
    /// A client's key makes a repeated start return the session that the first one created.
    pub(super) async fn open(
        &self,
        start: pb::StartSession,
        client_key: &str,
    ) -> Result<StartedSession, Error> {
        let environment = self.environment(&start.environment_id).await?;
        safety::check_running(&environment)?;
        self.check_host(start.host_id.as_ref()).await?;
        let tools = from_wire::tools(&start.tools)?;
        let max_context_tokens = start.max_context_tokens.filter(|most| *most > 0);
        let asked =
            start.model.filter(|model| !model.is_empty()).unwrap_or_else(|| environment.model.clone());
        let model = from_wire::model(&asked);
        let provider = self.provider(&environment, &model)?;
        let mut new = session_in(&environment, provider, model.of(provider));
        let can = self.supervisor.providers().get(provider)?.capabilities();
        let past = history::divide(can, &start.project_context, &start.history, &mut new.provider_config)?;
        new.timeouts.idle_wait = Some(surface::limits::IDLE_WAIT);
        new.timeouts.compact_above_tokens =
            max_context_tokens.map(|most| u64::from(most) * limits::COMPACT_AT_PERCENT / 100);
        let prepared = vec![
            Command::HoldInput { holder: Some(SOURCE.to_owned()) },
            Command::RegisterTools { source: SOURCE.to_owned(), tools },
        ];
        let snapshot = self.supervisor.create_prepared_once(new, prepared, past.turns, client_key).await?;
        // Looked at again: a stop from here on finds the session.
        if let Err(error) = safety::check_running(&self.environment(&environment.id).await?) {
            self.supervisor.stop(&snapshot.spec.id, StopMode::Now).await?;
            return Err(error);
        }
        let judge = |tool: &str| self.supervisor.judge(&snapshot.spec, tool);
        let rules = permissions::rules(snapshot.state.mode, &to_wire::offered(&snapshot), judge);
        let greeting = to_wire::started(&snapshot, rules);
        let takes_system_messages = can.system_messages;
        Ok(StartedSession { snapshot, greeting, past: past.files, takes_system_messages, max_context_tokens })
    }
}

/// Returns a session as an environment wants it.
pub(crate) fn session_in(
    environment: &EnvironmentRow,
    provider: domain::ProviderKind,
    model: String,
) -> NewSession {
    // Settings for one provider do not apply to another one that the model names.
    let meant = environment.provider.is_empty() || environment.provider == provider.name();
    let mut provider_config = if meant { environment.provider_config.clone() } else { BTreeMap::new() };
    if !environment.mode.is_empty() {
        provider_config.insert(Mode::CONFIG_KEY.to_owned(), environment.mode.clone());
    }
    let wait = match environment.answer_wait_secs {
        0 => limits::APPROVAL_WAIT,
        seconds => Duration::from_secs(u64::from(seconds)),
    };
    NewSession {
        directory: environment.directory.clone(),
        model,
        provider_config,
        timeouts: Timeouts { attended_wait: Some(wait), unattended_wait: Some(wait), ..Timeouts::default() },
        ..NewSession::new(provider, SOURCE.to_owned())
    }
}
