//! Sends commands to sessions, each at most once for a client's key, and stops all of them.

use domain::shared_budget::ConfiguredBudgets;
use domain::{Budget, Command, Error, QueueCommand, SessionId, SessionSpec, Spending, StopMode};

use super::Supervisor;
use crate::client_keys;
use crate::process::{Claim, scan};
use crate::session::{Applied, Snapshot};
use crate::shared_budgets::BudgetLedger;
use host::clock;

impl Supervisor {
    /// Sets the configured budgets that sessions share, before sessions run.
    pub fn set_shared_budgets(&self, configured: ConfiguredBudgets) {
        self.budgets().configure(configured);
    }

    /// Returns the budgets that sessions share.
    pub fn budgets(&self) -> &BudgetLedger {
        &self.inner.services.budgets
    }

    /// Tells the shared budgets how the campaign of a new session is named: they are configured by name.
    pub(super) async fn learn_campaign_name(&self, spec: &SessionSpec) -> Result<(), Error> {
        if let Some(campaign) = spec.campaign_id.clone() {
            let name = self.campaigns().find(campaign.as_str()).await?.name;
            self.budgets().set_name(campaign, name);
        }
        Ok(())
    }

    /// Returns what a session may spend, and what it has spent.
    pub fn spending(&self, snapshot: &Snapshot) -> (Budget, Spending) {
        (snapshot.state.budget_of(&snapshot.spec), snapshot.state.spending(clock::now()))
    }

    /// Sends a command to a session. An actor that ends at this very moment is replaced.
    pub async fn command(&self, id: &SessionId, command: Command) -> Result<Applied, Error> {
        self.command_once(id, command, "").await
    }

    /// The same, but at most once for a client's key; empty: no key.
    pub async fn command_once(
        &self,
        id: &SessionId,
        command: Command,
        client_key: &str,
    ) -> Result<Applied, Error> {
        let key = client_keys::key_of_command(client_key, &command)?;
        loop {
            let handle = self.session(id).await?;
            let wakes = matches!(
                command,
                Command::Prompt { .. }
                    | Command::Compact
                    | Command::Queue(QueueCommand::Add { .. } | QueueCommand::Resume { .. })
            );
            if wakes && !handle.snapshot().state.status.has_agent() {
                self.check_room()?;
            }
            let result = handle.command_once(command.clone(), key.clone()).await;
            if result.is_err() && handle.is_gone() {
                continue;
            }
            if let (Command::Decide { .. }, Ok(applied @ Applied { is_repeated: false, .. })) =
                (&command, &result)
            {
                self.grants().keep(id, applied).await;
            }
            return result;
        }
    }

    /// Stops every running session, within the timeouts of a stop. Returns how many were stopped.
    pub async fn stop_all(&self) -> usize {
        let handles = self.active();
        let stops: Vec<_> = handles
            .iter()
            .cloned()
            .map(|handle| tokio::spawn(async move { handle.stop(StopMode::Now).await.is_ok() }))
            .collect();
        let mut stopped = 0;
        for stop in stops {
            stopped += usize::from(stop.await.unwrap_or(false));
        }
        self.end_held().await;
        stopped
    }

    /// Ends whatever shims still hold: agents that were taken from this daemon, and commands.
    async fn end_held(&self) {
        let held = scan::find_held(&self.inner.services.agents_dir).unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot look for agents that are left");
            Vec::new()
        });
        for held in held.into_iter().filter(|held| held.is_held) {
            if let Err(error) = Claim::end_holder_and_tree(&held.dir).await {
                tracing::warn!(%error, dir = %held.dir.display(), "an agent that was left cannot be ended");
            }
        }
    }
}
