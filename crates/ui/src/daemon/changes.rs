//! What a session's tree changed, against its base.

use config::failure::Failure;
use tonic::transport::Channel;
use wire::obey::v1 as pb;
use wire::obey::v1::worktree_service_client::WorktreeServiceClient;

use super::DaemonSettings;
use crate::data::{ChangedFile, ReviewLine, Update};
use crate::limits;

fn client(settings: &DaemonSettings) -> WorktreeServiceClient<Channel> {
    WorktreeServiceClient::new(settings.client.channel()).max_decoding_message_size(limits::MESSAGE_MAX_BYTES)
}

fn tree(session: &str) -> Option<pb::WorktreeName> {
    Some(pb::WorktreeName { session_id: session.to_owned(), ..pb::WorktreeName::default() })
}

/// The files that were changed.
pub(super) async fn files(settings: &DaemonSettings, session: String) -> Update {
    let request = pb::WorktreeDiffRequest { tree: tree(&session), ..pb::WorktreeDiffRequest::default() };
    match client(settings).diff(request).await {
        Ok(response) => {
            let diff = response.into_inner();
            let listed = diff.files.len() as u64;
            Update::Diff {
                session,
                against: diff.against,
                more: diff.files_total.saturating_sub(listed),
                files: diff.files.into_iter().map(changed_file).collect(),
            }
        }
        Err(status) => Update::ReviewFailed { session, why: Failure::from(status).for_people() },
    }
}

/// The lines of one file.
pub(super) async fn file(settings: &DaemonSettings, session: String, path: String) -> Update {
    let request = pb::WorktreeDiffFileRequest {
        tree: tree(&session),
        path: path.clone(),
        ..pb::WorktreeDiffFileRequest::default()
    };
    match client(settings).diff_file(request).await {
        Ok(response) => Update::DiffFile { session, path, lines: review_lines(response.into_inner()) },
        Err(status) => Update::ReviewFailed { session, why: Failure::from(status).for_people() },
    }
}

fn changed_file(file: pb::WorktreeFileChange) -> ChangedFile {
    let status = match file.status() {
        pb::WorktreeFileStatus::Added => "new".to_owned(),
        pb::WorktreeFileStatus::Deleted => "deleted".to_owned(),
        pb::WorktreeFileStatus::Renamed => format!("was {}", file.old_path),
        pb::WorktreeFileStatus::TypeChanged => "other type".to_owned(),
        pb::WorktreeFileStatus::Conflicted => "conflict".to_owned(),
        pb::WorktreeFileStatus::Modified | pb::WorktreeFileStatus::Unspecified => String::new(),
    };
    let marks = [(file.binary, "binary"), (file.submodule, "submodule")];
    let marks = marks.iter().filter(|(is, _)| *is).map(|(_, word)| (*word).to_owned());
    let notes: Vec<String> = marks.chain(Some(status).filter(|status| !status.is_empty())).collect();
    ChangedFile { path: file.path, added: file.added, removed: file.removed, note: notes.join(" ") }
}

fn review_lines(file: pb::WorktreeDiffFileResponse) -> Vec<ReviewLine> {
    let mut lines = Vec::new();
    for hunk in file.hunks {
        let (mut old, mut new) = (hunk.old_start, hunk.new_start);
        lines.push(ReviewLine { mark: '@', number: new, text: format!("line {new} {}", hunk.section) });
        for line in hunk.lines {
            let (mark, number) = match line.kind() {
                pb::WorktreeDiffLineKind::Added => ('+', new),
                pb::WorktreeDiffLineKind::Removed => ('-', old),
                _ => (' ', new),
            };
            old += u64::from(mark != '+');
            new += u64::from(mark != '-');
            lines.push(ReviewLine { mark, number, text: line.text });
        }
    }
    if file.truncated {
        let text = "the rest of the change is too long to show; see it with: obey diff".to_owned();
        lines.push(ReviewLine { mark: '@', number: 0, text });
    }
    lines
}
