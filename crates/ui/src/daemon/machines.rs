//! Watches the sessions of other machines, and searches them. Each machine has a task of its own: one that is gone, or slow, holds up none of
//! the others.

use std::sync::Arc;

use config::failure::Failure;
use tokio::sync::mpsc;

use super::{DaemonSettings, SessionHomes, note_homes, summary, watch_request, work};
use crate::data::{SearchHit, Update};
use crate::limits;

/// Searches this machine and all others. What this one has is shown at once; the others' hits come beside them as far as they
/// answer in time.
pub(super) async fn search(
    here: Arc<DaemonSettings>,
    others: Vec<(String, Arc<DaemonSettings>)>,
    homes: SessionHomes,
    text: String,
    updates: mpsc::Sender<Update>,
) {
    let own = work::search(&here, text.clone()).await;
    let found = match &own {
        Update::Found { found: Ok(found), .. } => Some(found.clone()),
        _ => None,
    };
    if updates.send(own).await.is_err() || others.is_empty() {
        return;
    }
    // Where this machine cannot search, it has said so.
    let Some((mut hits, mut more)) = found else { return };
    let asking = others.into_iter().map(|(name, settings)| {
        let text = text.clone();
        tokio::spawn(async move {
            (name, tokio::time::timeout(limits::MACHINE_WAIT, work::search(&settings, text)).await)
        })
    });
    for asked in asking.collect::<Vec<_>>() {
        let Ok((name, Ok(Update::Found { found: Ok((elsewhere, has_more)), .. }))) = asked.await else {
            continue;
        };
        note_homes(&homes, elsewhere.iter().map(|hit| hit.session.as_str()), Some(&name));
        let known: std::collections::HashSet<String> = hits.iter().map(|hit| hit.session.clone()).collect();
        // A machine may be paired with itself.
        let new = elsewhere.into_iter().filter(|hit| !known.contains(&hit.session));
        hits.extend(new.map(|hit| SearchHit { name: format!("{name}: {}", hit.name), ..hit }));
        more |= has_more;
    }
    hits.sort_by_key(|hit| std::cmp::Reverse(hit.at));
    // A screen that is gone needs nothing.
    let _gone = updates.send(Update::Found { text, found: Ok((hits, more)) }).await;
}

/// What is needed to watch a machine.
pub(super) struct OtherMachineWatch {
    pub(super) name: String,
    pub(super) settings: Arc<DaemonSettings>,
    pub(super) updates: mpsc::Sender<Update>,
    pub(super) homes: SessionHomes,
    pub(super) include_ended: bool,
}

impl OtherMachineWatch {
    /// Watches for as long as the screen is there.
    pub(super) async fn run(self) {
        loop {
            let problem = match self.watch().await {
                Ok(()) => "the connection ended".to_owned(),
                Err(failure) => failure.message,
            };
            let update = Update::Machine { name: self.name.clone(), problem };
            if self.updates.send(update).await.is_err() {
                return;
            }
            tokio::time::sleep(limits::MACHINE_PAUSE).await;
        }
    }

    async fn watch(&self) -> Result<(), Failure> {
        let mut service = self.settings.client.overview();
        let watching = service.watch(watch_request(self.include_ended));
        // A call to a machine that is away waits for its return.
        let answered = tokio::time::timeout(limits::MACHINE_WAIT, watching).await;
        let answered = answered.map_err(|_| Failure::failed("it does not answer"))?;
        let mut stream = answered?.into_inner();
        while let Some(update) = stream.message().await? {
            let sessions = update.sessions.iter().map(|session| session.session_id.as_str());
            note_homes(&self.homes, sessions, Some(&self.name));
            if update.snapshot {
                let reached = Update::Machine { name: self.name.clone(), problem: String::new() };
                if self.updates.send(reached).await.is_err() {
                    return Ok(());
                }
            }
            let update = Update::MachineOverview {
                machine: self.name.clone(),
                revision: update.revision,
                snapshot: update.snapshot,
                sessions: update.sessions.into_iter().map(summary).collect(),
                removed: update.removed,
            };
            if self.updates.send(update).await.is_err() {
                return Ok(());
            }
        }
        Ok(())
    }
}
