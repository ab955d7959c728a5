//! Commands of clients: refused without a trace, or durable before they are answered, and carried out once for a
//! client's key.

use super::decide::StepDecision;
use super::*;
use crate::client_keys::{self, ClientKey};
use domain::ErrorCode;
use storage::client_keys::KeptKey;

impl Actor {
    /// Handles a command: either it is refused and nothing changed, or its effect is durable.
    pub(super) async fn handle_command(
        &mut self,
        command: domain::Command,
        key: Option<ClientKey>,
        reply: oneshot::Sender<Result<Applied, Error>>,
    ) {
        if let Some(key) = &key {
            match self.answered_before(key).await {
                Ok(None) => {}
                Ok(Some(applied)) => return drop(reply.send(Ok(applied))),
                Err(error) => return drop(reply.send(Err(error))),
            }
        }
        let (mut copy, mut plan) = (self.state.clone(), StepPlan::default());
        let outcome = match self.decide_on(&mut copy, command, &mut plan) {
            Ok(()) => {
                plan.write.client_key = key.map(|key| self.kept_key(key, copy.seq));
                self.commit(copy, &mut plan).await
            }
            Err(error) => Err(error),
        };
        match outcome {
            Ok(()) => {
                failpoint!("command.committed");
                let events = self.publish(&mut plan);
                // A caller that disconnected had its command carried out all the same.
                let _ = reply.send(Ok(Applied { events, is_repeated: false }));
                failpoint!("command.answered");
                self.run_after_commit(plan.after).await;
            }
            // The copy is dropped, and nothing has changed.
            Err(error) => drop(reply.send(Err(error))),
        }
    }

    /// Decides what a command means, on a copy of the state.
    fn decide_on(
        &mut self,
        copy: &mut ActorState,
        command: domain::Command,
        plan: &mut StepPlan,
    ) -> Result<(), Error> {
        let mut decision = StepDecision { state: copy, ..self.decision(plan) };
        decision.decide(clock::now(), Input::Command(command))
    }

    /// Returns what a key was answered before; none if it is new.
    async fn answered_before(&mut self, key: &ClientKey) -> Result<Option<Applied>, Error> {
        let (scope, wanted) = (self.state.machine.spec().id.to_string(), key.key.clone());
        let found = self
            .services
            .store
            .read(move |connection| storage::client_keys::find(connection, &scope, &wanted))
            .await?;
        let Some((fingerprint, answer)) = found else { return Ok(None) };
        if fingerprint != key.fingerprint {
            return Err(client_keys::used_otherwise(&key.key));
        }
        let numbers =
            answer.split_once('-').and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
        let Some((first, last)) = numbers else {
            return Err(Error::new(
                ErrorCode::StorageFailed,
                format!("the answer of key {:?} is unreadable", key.key),
            ));
        };
        let mut events: Vec<Arc<domain::Event>> = Vec::new();
        let mut cursor = self.stream.read_after(first);
        while events.last().map_or(first, |event| event.seq) < last {
            let more = cursor.available().await?;
            if more.is_empty() {
                break;
            }
            events.extend(more.into_iter().filter(|event| event.seq <= last));
        }
        Ok(Some(Applied { events, is_repeated: true }))
    }

    /// Returns the key as it is kept: with the number of the event before the command's first, and of its last.
    fn kept_key(&self, key: ClientKey, last: u64) -> KeptKey {
        let scope = self.state.machine.spec().id.to_string();
        KeptKey { scope, key, answer: format!("{}-{last}", self.state.seq), at: clock::now() }
    }
}
