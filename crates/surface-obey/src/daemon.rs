//! `DaemonService`: maintenance of the daemon itself.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use domain::{Error, ErrorCode};
use surface::peer::{Peer, Via};
use tonic::{Request, Response, Status};
use wire::obey::v1 as pb;
use wire::obey::v1::daemon_service_server::DaemonService;

use super::Obey;
use super::local::answer;

/// What the next daemon needs to be started like this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpgradePreparation {
    pub environment: Vec<(OsString, OsString)>,
    /// The file of the running program.
    pub program: PathBuf,
    /// It is a copy, because another file is at the program's path.
    pub is_copy: bool,
}

/// Prepares an upgrade; may copy the program.
pub type PrepareUpgrade = dyn Fn() -> Result<UpgradePreparation, Error> + Send + Sync;

#[tonic::async_trait]
impl DaemonService for Obey {
    async fn collect_garbage(
        &self,
        _request: Request<pb::CollectGarbageRequest>,
    ) -> Result<Response<pb::CollectGarbageResponse>, Status> {
        answer(self.clear_away().await)
    }

    async fn prepare_upgrade(
        &self,
        request: Request<pb::PrepareUpgradeRequest>,
    ) -> Result<Response<pb::PrepareUpgradeResponse>, Status> {
        let is_local = request.extensions().get::<Peer>().is_some_and(|peer| peer.via == Via::Unix);
        answer(self.prepare_upgrade(is_local).await)
    }
}

impl Obey {
    async fn prepare_upgrade(&self, is_local: bool) -> Result<pb::PrepareUpgradeResponse, Error> {
        if !is_local {
            // A device may manage the daemon; what is in its environment is for this machine only.
            return Err(Error::new(
                ErrorCode::WrongState,
                "the daemon's environment is told over its Unix socket only; run `obey upgrade` on its machine",
            ));
        }
        let prepare = std::sync::Arc::clone(&self.about.prepare_upgrade);
        let prepared = tokio::task::spawn_blocking(move || prepare()).await.map_err(|error| {
            Error::new(ErrorCode::CommandFailed, "an internal error").with_detail(error.to_string())
        })??;
        let variable = |(name, value): (OsString, OsString)| pb::StartVariable {
            name: name.into_vec(),
            value: value.into_vec(),
        };
        Ok(pb::PrepareUpgradeResponse {
            environment: prepared.environment.into_iter().map(variable).collect(),
            program: prepared.program.to_string_lossy().into_owned(),
            is_copy: prepared.is_copy,
        })
    }

    /// Removes data that the retention settings no longer keep, and returns how much was removed.
    async fn clear_away(&self) -> Result<pb::CollectGarbageResponse, Error> {
        let removed = self.supervisor.collect_garbage(self.about.retention).await?;
        Ok(pb::CollectGarbageResponse {
            sessions: removed.sessions,
            activities: removed.activities,
            events: removed.events,
            folders: removed.folders,
        })
    }
}
