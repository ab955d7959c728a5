//! `FileService`: files of a session's folder by parts of their paths.

use domain::Error;
use tonic::{Request, Response, Status};
use wire::obey::v1 as pb;
use wire::obey::v1::file_service_server::FileService;

use super::local::answer;
use super::{Obey, from_wire};

#[tonic::async_trait]
impl FileService for Obey {
    async fn find(
        &self,
        request: Request<pb::FindFilesRequest>,
    ) -> Result<Response<pb::FindFilesResponse>, Status> {
        answer(self.find_files(request.into_inner()).await)
    }
}

impl Obey {
    async fn find_files(&self, request: pb::FindFilesRequest) -> Result<pb::FindFilesResponse, Error> {
        let id = from_wire::session_id(&request.session_id)?;
        let found = self.supervisor.find_files(&id, &request.text, request.limit as usize).await?;
        Ok(pb::FindFilesResponse { paths: found.paths, cut: found.is_cut })
    }
}
