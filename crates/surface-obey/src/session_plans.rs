//! The plans of one session: listed, and followed together, also those that are started later.

use domain::{Error, SessionId};
use surface::pump::Messages;
use surface::status;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;
use wire::obey::v1 as pb;

use super::{Obey, from_wire};
use crate::limits;

impl Obey {
    /// Returns the newest plans of a session, or of all if none is named, oldest first.
    pub(super) async fn session_plans(&self, parent: &str) -> Result<pb::ListPlansResponse, Error> {
        let parent = if parent.is_empty() { None } else { Some(self.plan_parent(parent).await?) };
        let mut plans = Vec::new();
        for id in self.newest_plans(parent.as_ref()).await? {
            plans.push(self.plan(&id).await?);
        }
        Ok(pb::ListPlansResponse { plans })
    }

    /// Sends every plan of a session, and again after changes, until the client leaves.
    pub(super) async fn watch_session_plans(&self, parent: &str) -> Result<Messages<pb::Plan>, Error> {
        let parent = self.plan_parent(parent).await?;
        let (sender, receiver) = mpsc::channel(1);
        let obey = self.clone();
        tokio::spawn(async move {
            if let Err(error) = obey.follow_session_plans(&parent, &sender).await {
                // A client that has left does not need the reason.
                let _ = sender.send(Err(status::grpc(&error))).await;
            }
        });
        Ok(Box::pin(ReceiverStream::new(receiver)))
    }

    async fn follow_session_plans(
        &self,
        parent: &SessionId,
        sender: &mpsc::Sender<Result<pb::Plan, Status>>,
    ) -> Result<(), Error> {
        let mut started = self.workers().orchestrations_started();
        let mut followed: Vec<String> = Vec::new();
        // Dropped with this future, which ends every follower.
        let mut followers = JoinSet::new();
        loop {
            // Marked as seen first: a plan that starts during the read below is noticed then.
            started.borrow_and_update();
            for id in self.newest_plans(Some(parent)).await? {
                if followed.contains(&id) {
                    continue;
                }
                followed.push(id.clone());
                let (obey, sender) = (self.clone(), sender.clone());
                followers.spawn(async move { obey.follow_plan(&id, &sender).await });
            }
            tokio::select! {
                changed = started.changed() => if changed.is_err() { return Ok(()) },
                () = sender.closed() => return Ok(()),
            }
            while followers.try_join_next().is_some() {}
        }
    }

    /// Returns the ids of the newest plans of a session, oldest first.
    async fn newest_plans(&self, parent: Option<&SessionId>) -> Result<Vec<String>, Error> {
        let mut ids = self.workers().orchestration_ids(parent).await?;
        ids.drain(..ids.len().saturating_sub(limits::SESSION_PLANS_MAX));
        Ok(ids)
    }

    /// Returns the session, if there is one.
    async fn plan_parent(&self, parent: &str) -> Result<SessionId, Error> {
        if parent.is_empty() {
            return Err(Error::invalid("parent_session_id", "is required"));
        }
        let parent = from_wire::session_id(parent)?;
        self.supervisor.snapshot(&parent).await?;
        Ok(parent)
    }
}
