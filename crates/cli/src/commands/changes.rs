//! `obey diff` and `obey merge`: what changed in a working tree, and merging it back.

use serde_json::{Value, json};
use wire::obey::v1 as pb;

use super::worktree::ID_PREFIX;
use cli_args::changes::{DiffArgs, MergeArgs};
use client::connection::Client;
use client::format;
use client::resolve;
use config::exit::Exit;
use config::failure::{Failure, Result};
use terminal::console::Console;
use terminal::output::TextStyle;
use terminal::table::Table;

pub(super) async fn diff(console: &mut Console, args: DiffArgs) -> Result<Exit> {
    let client = console.connect().await?;
    let tree = target(console, &client, args.target.as_deref()).await?;
    let (scope, turn_id) = match &args.turn {
        Some(turn) => (pb::WorktreeDiffScope::Turn, turn.clone()),
        None if args.working => (pb::WorktreeDiffScope::WorkingTree, String::new()),
        None => (pb::WorktreeDiffScope::Base, String::new()),
    };
    let request =
        pb::WorktreeDiffRequest { tree: Some(tree.clone()), scope: scope.into(), turn_id: turn_id.clone() };
    let diff = client.worktrees().diff(request).await?.into_inner();
    let wanted: Vec<&pb::WorktreeFileChange> = match args.file.as_slice() {
        [] if args.patch => diff.files.iter().collect(),
        [] => Vec::new(),
        files => named_files(&diff, files)?,
    };
    let mut patches = Vec::new();
    for file in wanted {
        let request = pb::WorktreeDiffFileRequest {
            tree: Some(tree.clone()),
            scope: scope.into(),
            turn_id: turn_id.clone(),
            path: file.path.clone(),
            context: None,
        };
        patches.push(client.worktrees().diff_file(request).await?.into_inner());
    }
    // Who looks at the changes has looked at the session.
    mark_seen(&client, &tree.session_id).await;
    if console.out.json {
        console.out.json(&document(&diff, &patches))?;
        return Ok(Exit::OK);
    }
    if patches.is_empty() {
        list(console, &diff)?;
    } else {
        patches.iter().try_for_each(|patch| show(console, patch))?;
    }
    Ok(Exit::OK)
}

pub(super) async fn merge(console: &mut Console, args: MergeArgs) -> Result<Exit> {
    let client = console.connect().await?;
    let tree = target(console, &client, args.target.as_deref()).await?;
    if args.request {
        return open_merge_request(console, &client, tree, args).await;
    }
    let request = pb::WorktreeMergeRequest {
        tree: Some(tree),
        into: args.into.unwrap_or_default(),
        commit_message: args.commit.unwrap_or_default(),
        squash: args.squash,
        message: args.message.unwrap_or_default(),
        allow_protected: args.allow_protected,
    };
    let merged = client.worktrees().merge(request).await?.into_inner();
    if console.out.json {
        let document = json!({
            "into": merged.into,
            "commit": merged.commit,
            "committed": merged.committed,
            "up_to_date": merged.up_to_date,
            "fast_forward": merged.fast_forward,
        });
        console.out.json(&document)?;
    } else if merged.up_to_date {
        console.out.line(&format!("{} has everything already.", merged.into))?;
    } else {
        let short: String = merged.commit.chars().take(12).collect();
        console.out.line(&format!("Merged into {}: {short}", merged.into))?;
    }
    Ok(Exit::OK)
}

/// Marks a session as looked at up to now; empty: the changes are those of a folder.
async fn mark_seen(client: &Client, session_id: &str) {
    if !session_id.is_empty() {
        let request = pb::MarkSeenRequest { session_id: session_id.to_owned(), seq: 0 };
        // At worst it stays listed as not looked at.
        let _not_marked = client.overview().mark_seen(request).await;
    }
}

/// Pushes a tree's branch and opens a merge request of it.
async fn open_merge_request(
    console: &mut Console,
    client: &Client,
    tree: pb::WorktreeName,
    args: MergeArgs,
) -> Result<Exit> {
    let request = pb::ForgeOpenRequest {
        tree: Some(tree),
        into: args.into.unwrap_or_default(),
        title: args.title.unwrap_or_default(),
        description: args.message.unwrap_or_default(),
        draft: args.draft,
        commit_message: args.commit.unwrap_or_default(),
        project: None,
    };
    console.out.status("pushing the branch…")?;
    let opened = client.forges().open_merge_request(request).await?.into_inner();
    console.out.hide_status()?;
    let found = opened.merge_request.unwrap_or_default();
    if console.out.json {
        let mut document = super::forge::merge_request_json(&found);
        document["existed"] = opened.existed.into();
        console.out.json(&document)?;
        return Ok(Exit::OK);
    }
    let what = if opened.existed { "Pushed to the merge request that was open" } else { "Opened" };
    console.out.line(&format!(
        "{what}: !{} {} {}",
        found.iid,
        format::one_line(&found.title),
        found.web_url
    ))?;
    Ok(Exit::OK)
}

/// Returns the tree that is meant: of a session, of a worktree's id, or of the current folder.
async fn target(console: &Console, client: &Client, typed: Option<&str>) -> Result<pb::WorktreeName> {
    Ok(match typed {
        None => pb::WorktreeName { folder: console.folder.display().to_string(), ..Default::default() },
        Some(id) if id.starts_with(ID_PREFIX) => {
            pb::WorktreeName { worktree_id: id.to_owned(), ..Default::default() }
        }
        Some(typed) => {
            pb::WorktreeName { session_id: resolve::session(client, typed).await?, ..Default::default() }
        }
    })
}

fn named_files<'a>(
    diff: &'a pb::WorktreeDiffResponse,
    names: &[String],
) -> Result<Vec<&'a pb::WorktreeFileChange>> {
    names
        .iter()
        .map(|name| {
            let found = diff.files.iter().find(|file| file.path == *name);
            found.ok_or_else(|| {
                let paths = diff.files.iter().map(|file| file.path.as_str());
                let meant = config::nearest::suggestion(name, paths);
                Failure::usage(format!("{name} has not changed against {}{meant}", diff.against))
            })
        })
        .collect()
}

fn list(console: &mut Console, diff: &pb::WorktreeDiffResponse) -> Result<()> {
    if diff.files.is_empty() {
        console.out.line(&format!("No changes against {}.", diff.against))?;
        return note_skipped(console, diff);
    }
    let mut table = Table::new(&["STATUS", "ADDED", "REMOVED", "FILE"]);
    for file in &diff.files {
        let path = if file.old_path.is_empty() {
            file.path.clone()
        } else {
            format!("{} (was {})", file.path, file.old_path)
        };
        let count = |number: u64| if file.binary { "binary".to_owned() } else { number.to_string() };
        table.row(vec![status(file), count(file.added), count(file.removed), path]);
    }
    super::session::print_table(console, &table)?;
    let total = usize::try_from(diff.files_total).unwrap_or(usize::MAX);
    let sum = format!(
        "{} against {}: {} added, {} removed",
        format::plural(total, "file"),
        diff.against,
        diff.added_total,
        diff.removed_total
    );
    console.out.note(TextStyle::Dim, &sum)?;
    note_skipped(console, diff)
}

/// Says what is in the tree and not in the list.
fn note_skipped(console: &mut Console, diff: &pb::WorktreeDiffResponse) -> Result<()> {
    for path in &diff.skipped {
        console.out.note(TextStyle::Warn, &format!("not compared: {}", path.remedy))?;
    }
    let total = usize::try_from(diff.skipped_total).unwrap_or(usize::MAX);
    match total.saturating_sub(diff.skipped.len()) {
        0 => Ok(()),
        more => {
            console.out.note(TextStyle::Warn, &format!("not compared: {} more", format::plural(more, "path")))
        }
    }
}

/// The printed name of a reason.
fn skip_reason(path: &pb::WorktreeSkippedPath) -> &'static str {
    match path.reason() {
        pb::WorktreeSkipReason::NestedRepository => "nested_repository",
        pb::WorktreeSkipReason::Unreadable => "unreadable",
        pb::WorktreeSkipReason::RefusedName => "refused_name",
        pb::WorktreeSkipReason::Unspecified => "",
    }
}

fn status(file: &pb::WorktreeFileChange) -> String {
    let word = match file.status() {
        _ if file.untracked => "new",
        pb::WorktreeFileStatus::Added => "added",
        pb::WorktreeFileStatus::Deleted => "deleted",
        pb::WorktreeFileStatus::Renamed => "renamed",
        pb::WorktreeFileStatus::TypeChanged => "type changed",
        pb::WorktreeFileStatus::Conflicted => "conflicted",
        pb::WorktreeFileStatus::Unspecified | pb::WorktreeFileStatus::Modified => "modified",
    };
    word.to_owned()
}

/// Prints one file as a patch.
fn show(console: &mut Console, patch: &pb::WorktreeDiffFileResponse) -> Result<()> {
    let file = patch.file.clone().unwrap_or_default();
    let old = if file.old_path.is_empty() { &file.path } else { &file.old_path };
    console.out.styled_line(&[(TextStyle::Bold, &format!("--- a/{old}"))])?;
    console.out.styled_line(&[(TextStyle::Bold, &format!("+++ b/{}", file.path))])?;
    if file.binary {
        console.out.line("Binary file")?;
    }
    for hunk in &patch.hunks {
        let head = format!(
            "@@ -{},{} +{},{} @@ {}",
            hunk.old_start, hunk.old_lines, hunk.new_start, hunk.new_lines, hunk.section
        );
        console.out.styled_line(&[(TextStyle::Dim, head.trim_end())])?;
        for line in &hunk.lines {
            let (style, mark) = match line.kind() {
                pb::WorktreeDiffLineKind::Added => (TextStyle::Good, '+'),
                pb::WorktreeDiffLineKind::Removed => (TextStyle::Bad, '-'),
                pb::WorktreeDiffLineKind::Context | pb::WorktreeDiffLineKind::Unspecified => {
                    (TextStyle::Plain, ' ')
                }
            };
            console.out.styled_line(&[(style, &format!("{mark}{}", line.text))])?;
        }
    }
    if patch.truncated {
        console.out.note(TextStyle::Dim, "The rest is left out: the file's changes are too long.")?;
    }
    Ok(())
}

fn document(diff: &pb::WorktreeDiffResponse, patches: &[pb::WorktreeDiffFileResponse]) -> Value {
    let files: Vec<Value> = diff
        .files
        .iter()
        .map(|file| {
            let mut value = json!({
                "path": file.path,
                "added": file.added,
                "removed": file.removed,
                "status": status(file).replace(' ', "_"),
                "binary": file.binary,
                "untracked": file.untracked,
            });
            if !file.old_path.is_empty() {
                value["old_path"] = file.old_path.clone().into();
            }
            let patch =
                patches.iter().find(|patch| patch.file.as_ref().is_some_and(|own| own.path == file.path));
            if let Some(patch) = patch {
                value["hunks"] = patch.hunks.iter().map(hunk).collect();
                value["truncated"] = patch.truncated.into();
            }
            value
        })
        .collect();
    let skipped = diff
        .skipped
        .iter()
        .map(|path| json!({"path": path.path, "reason": skip_reason(path), "remedy": path.remedy}));
    json!({
        "folder": diff.folder,
        "branch": diff.branch,
        "against": diff.against,
        "skipped": skipped.collect::<Vec<Value>>(),
        "skipped_total": diff.skipped_total,
        "files": files,
        "files_total": diff.files_total,
        "added": diff.added_total,
        "removed": diff.removed_total,
    })
}

fn hunk(hunk: &pb::WorktreeDiffHunk) -> Value {
    let lines: Vec<Value> = hunk
        .lines
        .iter()
        .map(|line| {
            let kind = match line.kind() {
                pb::WorktreeDiffLineKind::Added => "added",
                pb::WorktreeDiffLineKind::Removed => "removed",
                pb::WorktreeDiffLineKind::Context | pb::WorktreeDiffLineKind::Unspecified => "context",
            };
            json!({"kind": kind, "text": line.text})
        })
        .collect();
    json!({
        "old_start": hunk.old_start,
        "old_lines": hunk.old_lines,
        "new_start": hunk.new_start,
        "new_lines": hunk.new_lines,
        "section": hunk.section,
        "lines": lines,
    })
}
