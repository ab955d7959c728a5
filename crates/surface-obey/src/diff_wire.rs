//! Converts diffs and merge checks of worktrees to messages. Pure.

use runtime::worktree::{
    DiffFile, DiffHunk, DiffLine, DiffLineKind, FileChange, FileChangeStatus, MergeCheck, MergeState,
    SkipReason, SkippedPath, WorktreeDiff,
};
use wire::obey::v1 as pb;

pub(super) fn diff(diff: WorktreeDiff) -> pb::WorktreeDiffResponse {
    pb::WorktreeDiffResponse {
        folder: diff.folder,
        branch: diff.branch,
        against: diff.against,
        files: diff.files.into_iter().map(file_change).collect(),
        files_total: diff.files_total,
        added_total: diff.added_total,
        removed_total: diff.removed_total,
        skipped: diff.skipped.into_iter().map(skipped).collect(),
        skipped_total: diff.skipped_total,
    }
}

fn skipped(path: SkippedPath) -> pb::WorktreeSkippedPath {
    let reason = match path.reason {
        SkipReason::NestedRepository => pb::WorktreeSkipReason::NestedRepository,
        SkipReason::Unreadable => pb::WorktreeSkipReason::Unreadable,
        SkipReason::RefusedName => pb::WorktreeSkipReason::RefusedName,
    };
    pb::WorktreeSkippedPath { remedy: path.remedy(), path: path.path, reason: reason.into() }
}

pub(super) fn diff_file(file: DiffFile) -> pb::WorktreeDiffFileResponse {
    pb::WorktreeDiffFileResponse {
        file: Some(file_change(file.change)),
        hunks: file.hunks.into_iter().map(hunk).collect(),
        truncated: file.truncated,
    }
}

fn file_change(change: FileChange) -> pb::WorktreeFileChange {
    let status = match change.status {
        FileChangeStatus::Added => pb::WorktreeFileStatus::Added,
        FileChangeStatus::Modified => pb::WorktreeFileStatus::Modified,
        FileChangeStatus::Deleted => pb::WorktreeFileStatus::Deleted,
        FileChangeStatus::Renamed => pb::WorktreeFileStatus::Renamed,
        FileChangeStatus::TypeChanged => pb::WorktreeFileStatus::TypeChanged,
        FileChangeStatus::Conflicted => pb::WorktreeFileStatus::Conflicted,
    };
    pb::WorktreeFileChange {
        path: change.path,
        old_path: change.old_path,
        status: status.into(),
        added: change.added,
        removed: change.removed,
        binary: change.binary,
        untracked: change.untracked,
        submodule: change.submodule,
    }
}

fn hunk(hunk: DiffHunk) -> pb::WorktreeDiffHunk {
    pb::WorktreeDiffHunk {
        old_start: hunk.old_start,
        old_lines: hunk.old_lines,
        new_start: hunk.new_start,
        new_lines: hunk.new_lines,
        section: hunk.section,
        lines: hunk.lines.into_iter().map(line).collect(),
    }
}

fn line(line: DiffLine) -> pb::WorktreeDiffLine {
    let kind = match line.kind {
        DiffLineKind::Context => pb::WorktreeDiffLineKind::Context,
        DiffLineKind::Added => pb::WorktreeDiffLineKind::Added,
        DiffLineKind::Removed => pb::WorktreeDiffLineKind::Removed,
    };
    pb::WorktreeDiffLine { kind: kind.into(), text: line.text, no_newline: line.no_newline }
}

pub(super) fn merge_check(check: MergeCheck) -> pb::WorktreeIsMergedResponse {
    let state = match check.state {
        MergeState::NotMerged => pb::WorktreeMergeState::NotMerged,
        MergeState::Empty => pb::WorktreeMergeState::Empty,
        MergeState::Merged => pb::WorktreeMergeState::Merged,
        MergeState::Squashed => pb::WorktreeMergeState::Squashed,
    };
    pb::WorktreeIsMergedResponse {
        state: state.into(),
        base: check.base,
        commits_ahead: check.commits_ahead,
        commits_behind: check.commits_behind,
        dirty: check.dirty,
    }
}
