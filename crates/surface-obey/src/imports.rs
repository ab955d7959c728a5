//! `ImportService`: conversations that agents had without this daemon. The access table restricts it to the user.

use domain::{Error, ProviderKind};
use runtime::{ImportedSession, ListedConversation};
use tonic::{Request, Response, Status};
use wire::obey::v1 as pb;
use wire::obey::v1::import_service_server::ImportService;

use super::local::answer;
use super::{Obey, from_wire, to_wire};
use surface::peer::Signer;

#[tonic::async_trait]
impl ImportService for Obey {
    async fn list_conversations(
        &self,
        request: Request<pb::ListConversationsRequest>,
    ) -> Result<Response<pb::ListConversationsResponse>, Status> {
        let listed = match provider(&request.into_inner().provider) {
            Ok(only) => self.supervisor.conversations(only).await,
            Err(error) => Err(error),
        };
        let all = |listed: Vec<ListedConversation>| listed.into_iter().map(conversation).collect();
        answer(listed.map(|listed| pb::ListConversationsResponse { conversations: all(listed) }))
    }

    async fn import(
        &self,
        request: Request<pb::ImportRequest>,
    ) -> Result<Response<pb::ImportResponse>, Status> {
        let by = Signer::of(request.extensions()).name();
        let request = request.into_inner();
        let imported = match provider(&request.provider) {
            Ok(only) => self.supervisor.import(only, &request.conversation_id, &by).await,
            Err(error) => Err(error),
        };
        answer(imported.map(imported_session))
    }

    async fn get_conversation(
        &self,
        request: Request<pb::GetConversationRequest>,
    ) -> Result<Response<pb::GetConversationResponse>, Status> {
        let found = match from_wire::session_id(&request.into_inner().session_id) {
            Ok(id) => self.supervisor.way_back(&id).await,
            Err(error) => Err(error),
        };
        answer(found.map(|found| {
            let (conversation_id, command) = found.unwrap_or_default();
            pb::GetConversationResponse { conversation_id, command }
        }))
    }
}

/// Parses a provider's name; empty means any.
fn provider(name: &str) -> Result<Option<ProviderKind>, Error> {
    if name.is_empty() {
        return Ok(None);
    }
    let unknown =
        || Error::invalid("provider", format_args!("{name:?} is no provider; use claude-code or codex"));
    ProviderKind::parse(name).map(Some).ok_or_else(unknown)
}

fn conversation(listed: ListedConversation) -> pb::Conversation {
    let ListedConversation { provider, summary, session } = listed;
    pb::Conversation {
        id: summary.id,
        provider: provider.name().to_owned(),
        folder: summary.folder.display().to_string(),
        title: summary.title,
        started_at: Some(to_wire::timestamp(summary.started_at)),
        last_at: Some(to_wire::timestamp(summary.last_at)),
        turns: summary.turns,
        session_id: session.map(|session| session.to_string()).unwrap_or_default(),
    }
}

fn imported_session(imported: ImportedSession) -> pb::ImportResponse {
    let snapshot = imported.snapshot;
    pb::ImportResponse {
        session_id: snapshot.spec.id.to_string(),
        already_imported: imported.is_known,
        turns: snapshot.state.turns,
        events: snapshot.last_seq,
        truncated: imported.truncated,
        folder: snapshot.spec.working_dir.display().to_string(),
        name: snapshot.spec.name.clone(),
    }
}
