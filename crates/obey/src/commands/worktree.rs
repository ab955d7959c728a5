//! `obey worktree …`: working trees of a repository, so that agents can work on it concurrently.

use std::path::{Path, PathBuf};

use wire::betcode::v1 as pb;

use crate::args::worktree::{RemoveArgs, WorktreeArg, WorktreeCommand, WorktreeCreateArgs, WorktreeListArgs};
use crate::client::Client;
use crate::console::Console;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::json;
use crate::output::TextStyle;
use crate::table::{Table, named};

/// The prefix of worktree ids.
const ID_PREFIX: &str = "wt_";

pub(super) async fn run(console: &mut Console, command: WorktreeCommand) -> Result<Exit> {
    match command {
        WorktreeCommand::List(args) => list(console, &args).await,
        WorktreeCommand::Create(args) => create(console, args).await,
        WorktreeCommand::Switch(args) => switch(console, &args).await,
        WorktreeCommand::Remove(args) => remove(console, &args).await,
    }
}

async fn list(console: &mut Console, args: &WorktreeListArgs) -> Result<Exit> {
    let repo = folder(console, args.repo.as_deref())?;
    let client = console.connect().await?;
    let worktrees = listed(&client, &repo).await?;
    if console.out.json {
        let list: Vec<_> = worktrees.iter().map(json::worktree).collect();
        console.out.json(&serde_json::json!({"worktrees": list}))?;
        return Ok(Exit::OK);
    }
    let mut table = Table::new(&["ID", "NAME", "BRANCH", "SESSIONS", "ACTIVE", "FOLDER"]);
    for worktree in &worktrees {
        let missing = if worktree.exists_on_disk { "" } else { " (gone)" };
        table.row(vec![
            worktree.id.clone(),
            worktree.name.clone(),
            or_dash(&worktree.branch),
            worktree.session_count.to_string(),
            or_dash(&worktree.active_session_id),
            format!("{}{missing}", worktree.path),
        ]);
    }
    super::session::print_table(console, &table)?;
    Ok(Exit::OK)
}

async fn create(console: &mut Console, args: WorktreeCreateArgs) -> Result<Exit> {
    let repo = folder(console, args.repo.as_deref())?;
    let request = pb::CreateWorktreeRequest {
        repo_path: text(&repo)?,
        // A name alone means a new branch of that name.
        create_branch: args.create_branch || args.branch.is_none(),
        branch: args.branch.unwrap_or_default(),
        name: args.name.unwrap_or_default(),
        path: args.path.map(|path| text(&console.folder.join(path))).transpose()?.unwrap_or_default(),
    };
    let client = console.connect().await?;
    let worktree = client.worktrees().create_worktree(request).await?.into_inner();
    show(console, &worktree)?;
    Ok(Exit::OK)
}

async fn switch(console: &mut Console, args: &WorktreeArg) -> Result<Exit> {
    let client = console.connect().await?;
    let worktree_id = resolve(console, &client, args).await?;
    let request = pb::SwitchWorktreeRequest { worktree_id };
    let switched = client.worktrees().switch_worktree(request).await?.into_inner();
    let worktree = switched.worktree.unwrap_or_default();
    if console.out.json {
        let document = serde_json::json!({
            "worktree": json::worktree(&worktree),
            "previous_worktree_id": switched.previous_worktree_id,
        });
        console.out.json(&document)?;
    } else {
        show(console, &worktree)?;
    }
    Ok(Exit::OK)
}

async fn remove(console: &mut Console, args: &RemoveArgs) -> Result<Exit> {
    let client = console.connect().await?;
    let worktree_id = resolve(console, &client, &args.worktree).await?;
    let request = pb::RemoveWorktreeRequest { worktree_id: worktree_id.clone(), force: args.force };
    let removed = client.worktrees().remove_worktree(request).await?.into_inner();
    if console.out.json {
        let document = serde_json::json!({
            "id": worktree_id,
            "removed": removed.removed,
            "sessions_closed": removed.sessions_closed,
        });
        console.out.json(&document)?;
        return Ok(Exit::OK);
    }
    console.out.line(&format!("Removed: {worktree_id}"))?;
    if removed.sessions_closed > 0 {
        console.out.note(TextStyle::Dim, &format!("{} sessions were ended", removed.sessions_closed))?;
    }
    Ok(Exit::OK)
}

/// Returns the id of the given worktree.
async fn resolve(console: &Console, client: &Client, args: &WorktreeArg) -> Result<String> {
    let typed = args.worktree.as_str();
    if typed.starts_with(ID_PREFIX) {
        return Ok(typed.to_owned());
    }
    let repo = folder(console, args.repo.as_deref())?;
    let worktrees = listed(client, &repo).await?;
    let path = console.folder.join(typed);
    // A missing folder cannot be resolved, and is matched as it was listed.
    let path = path.canonicalize().unwrap_or(path);
    let meant: Vec<&pb::WorktreeInfo> = worktrees
        .iter()
        .filter(|worktree| worktree.name == typed || Path::new(&worktree.path) == path)
        .collect();
    match meant.as_slice() {
        [one] => Ok(one.id.clone()),
        [] => Err(Failure::coded(
            domain::ErrorCode::WorktreeNotFound,
            format!("{} has no worktree {typed}", repo.display()),
        )),
        several => {
            let ids: Vec<&str> = several.iter().map(|worktree| worktree.id.as_str()).collect();
            Err(Failure::usage(format!("{typed} could be any of {}; use the id", ids.join(", "))))
        }
    }
}

async fn listed(client: &Client, repo: &Path) -> Result<Vec<pb::WorktreeInfo>> {
    let request = pb::ListWorktreesRequest { repo_path: text(repo)? };
    Ok(client.worktrees().list_worktrees(request).await?.into_inner().worktrees)
}

/// Resolved here, because the daemon has another working directory.
fn folder(console: &Console, typed: Option<&Path>) -> Result<PathBuf> {
    let given = typed.map_or_else(|| console.folder.clone(), |typed| console.folder.join(typed));
    given.canonicalize().map_err(|error| Failure::usage(format!("{}: {error}", given.display())))
}

fn text(path: &Path) -> Result<String> {
    let unusable = || Failure::usage(format!("{} is not valid UTF-8", path.display()));
    path.to_str().map(str::to_owned).ok_or_else(unusable)
}

fn or_dash(value: &str) -> String {
    if value.is_empty() { "-".to_owned() } else { value.to_owned() }
}

fn show(console: &mut Console, worktree: &pb::WorktreeInfo) -> Result<()> {
    if console.out.json {
        return console.out.json(&json::worktree(worktree));
    }
    let pairs = [
        ("Worktree", worktree.id.clone()),
        ("Name", worktree.name.clone()),
        ("Branch", worktree.branch.clone()),
        ("Session", worktree.active_session_id.clone()),
        ("Folder", worktree.path.clone()),
    ];
    named(&pairs).iter().try_for_each(|line| console.out.line(line))
}
