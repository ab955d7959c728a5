//! `obey worktree …`: working trees of a repository, so that agents can work on it concurrently.

use std::path::{Path, PathBuf};

use wire::obey::v1 as pb;

use crate::json;
use cli_args::worktree::{
    RemoveArgs, WorktreeAllowSetupArgs, WorktreeArg, WorktreeCommand, WorktreeCreateArgs,
    WorktreeDiscardArgs, WorktreeGcArgs, WorktreeListArgs, WorktreeRebaseArgs,
};
use client::connection::Client;
use config::exit::Exit;
use config::failure::{Failure, Result};
use terminal::console::Console;
use terminal::output::TextStyle;
use terminal::table::{Table, named};

/// The prefix of worktree ids.
pub(super) const ID_PREFIX: &str = "wt_";

pub(super) async fn run(console: &mut Console, command: WorktreeCommand) -> Result<Exit> {
    match command {
        WorktreeCommand::List(args) => list(console, &args).await,
        WorktreeCommand::Create(args) => create(console, args).await,
        WorktreeCommand::Rebase(args) => rebase(console, args).await,
        WorktreeCommand::Discard(args) => discard(console, args).await,
        WorktreeCommand::AllowSetup(args) => allow_setup(console, args).await,
        WorktreeCommand::Remove(args) => remove(console, &args).await,
        WorktreeCommand::Gc(args) => collect(console, &args).await,
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
    let mut table = Table::new(&["ID", "NAME", "BRANCH", "BASE", "SESSIONS", "ACTIVE", "FOLDER"]);
    for worktree in &worktrees {
        let missing = if worktree.exists { "" } else { " (gone)" };
        table.row(vec![
            worktree.id.clone(),
            worktree.name.clone(),
            or_dash(&worktree.branch),
            or_dash(&worktree.base),
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
    let choice = if args.create_branch {
        pb::WorktreeBranchChoice::New
    } else {
        pb::WorktreeBranchChoice::Unspecified
    };
    let request = pb::WorktreeCreateRequest {
        repo_path: text(&repo)?,
        branch_choice: choice.into(),
        branch: args.branch.unwrap_or_default(),
        name: args.name.unwrap_or_default(),
        base: args.base.unwrap_or_default(),
        prompt: String::new(),
        path: args.path.map(|path| text(&console.folder.join(path))).transpose()?.unwrap_or_default(),
    };
    let client = console.connect().await?;
    let created = client.worktrees().create(request).await?.into_inner();
    show(console, &created.worktree.unwrap_or_default())?;
    let setup = created.setup.unwrap_or_default();
    if setup.state() == pb::WorktreeSetupState::NotAllowed {
        let note = format!(
            "The project's set-up hook was not run: {}\nAllow it with: obey worktree allow-setup WORKTREE",
            client::format::one_line(&setup.command)
        );
        console.out.note(TextStyle::Dim, &note)?;
    }
    Ok(Exit::OK)
}

async fn rebase(console: &mut Console, args: WorktreeRebaseArgs) -> Result<Exit> {
    let client = console.connect().await?;
    let tree = named_tree(console, &client, &args.worktree).await?;
    let request = pb::WorktreeRebaseRequest { tree: Some(tree), onto: args.onto.unwrap_or_default() };
    let rebased = client.worktrees().rebase(request).await?.into_inner();
    if console.out.json {
        let document = serde_json::json!({
            "onto": rebased.onto,
            "commit": rebased.commit,
            "commits": rebased.commits,
            "up_to_date": rebased.up_to_date,
        });
        console.out.json(&document)?;
    } else if rebased.up_to_date {
        console.out.line(&format!("It stands on {} already.", rebased.onto))?;
    } else {
        let count = usize::try_from(rebased.commits).unwrap_or(usize::MAX);
        let commits = client::format::plural(count, "commit");
        console.out.line(&format!("Rebased {commits} onto {}.", rebased.onto))?;
    }
    Ok(Exit::OK)
}

async fn discard(console: &mut Console, args: WorktreeDiscardArgs) -> Result<Exit> {
    let client = console.connect().await?;
    let tree = named_tree(console, &client, &args.worktree).await?;
    let scope =
        if args.to_base { pb::WorktreeDiscardScope::ToBase } else { pb::WorktreeDiscardScope::Uncommitted };
    let request = pb::WorktreeDiscardRequest { tree: Some(tree), scope: scope.into(), paths: args.file };
    let discarded = client.worktrees().discard(request).await?.into_inner();
    if console.out.json {
        let document = serde_json::json!({
            "kept_as": discarded.kept_as,
            "kept_commit": discarded.kept_commit,
            "commit": discarded.commit,
        });
        console.out.json(&document)?;
    } else if discarded.kept_as.is_empty() {
        console.out.line("There was nothing to discard.")?;
    } else {
        console.out.line(&format!("Discarded; kept as {}", discarded.kept_as))?;
    }
    Ok(Exit::OK)
}

async fn allow_setup(console: &mut Console, args: WorktreeAllowSetupArgs) -> Result<Exit> {
    let client = console.connect().await?;
    let tree = named_tree(console, &client, &args.worktree).await?;
    let request = pb::WorktreeGetSetupRequest { tree: Some(tree.clone()) };
    let setup = client.worktrees().get_setup(request).await?.into_inner();
    let command = client::format::one_line(&setup.command);
    if setup.state() != pb::WorktreeSetupState::NotAllowed {
        let none = setup.state() == pb::WorktreeSetupState::None;
        console.out.line(if none { "The project has no set-up hook." } else { "It is allowed already." })?;
        return Ok(Exit::OK);
    }
    let Some(hash) = args.hash else {
        let hint = format!("read .obey/worktree.toml, then give --hash {}", setup.hash);
        return Err(Failure::usage(format!("the project wants to run: {command}")).with_hint(hint));
    };
    let request = pb::WorktreeAllowSetupRequest { tree: Some(tree), hash };
    client.worktrees().allow_setup(request).await?;
    console.out.line(&format!("Allowed, and run: {command}"))?;
    Ok(Exit::OK)
}

async fn remove(console: &mut Console, args: &RemoveArgs) -> Result<Exit> {
    let client = console.connect().await?;
    let worktree_id = resolve(console, &client, &args.worktree).await?;
    let request = pb::WorktreeRemoveRequest { worktree_id: worktree_id.clone(), force: args.force };
    let removed = client.worktrees().remove(request).await?.into_inner();
    if console.out.json {
        let document = serde_json::json!({
            "id": worktree_id,
            "removed": true,
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

async fn collect(console: &mut Console, args: &WorktreeGcArgs) -> Result<Exit> {
    let repo = folder(console, args.repo.as_deref())?;
    let client = console.connect().await?;
    let request = pb::WorktreeCollectRequest { repo_path: text(&repo)?, dry_run: args.dry_run };
    let collected = client.worktrees().collect_garbage(request).await?.into_inner().worktrees;
    if console.out.json {
        let list: Vec<_> = collected
            .iter()
            .map(|one| {
                serde_json::json!({
                    "worktree": json::worktree(&one.worktree.clone().unwrap_or_default()),
                    "removed": one.removed && !args.dry_run,
                    "kept_because": one.kept_because,
                    "branch_deleted": one.branch_deleted,
                })
            })
            .collect();
        console.out.json(&serde_json::json!({"dry_run": args.dry_run, "worktrees": list}))?;
        return Ok(Exit::OK);
    }
    let mut table = Table::new(&["NAME", "BRANCH", "RESULT", "FOLDER"]);
    for one in &collected {
        let worktree = one.worktree.clone().unwrap_or_default();
        let result = match (one.removed, args.dry_run, one.branch_deleted) {
            (true, true, _) => "would be removed".to_owned(),
            (true, false, true) => "removed, with its branch".to_owned(),
            (true, false, false) => "removed; its branch stays".to_owned(),
            (false, _, _) => format!("kept: {}", one.kept_because),
        };
        table.row(vec![worktree.name, or_dash(&worktree.branch), result, worktree.path]);
    }
    super::session::print_table(console, &table)?;
    Ok(Exit::OK)
}

/// Returns the tree that is meant, as a request names it.
async fn named_tree(console: &Console, client: &Client, args: &WorktreeArg) -> Result<pb::WorktreeName> {
    let worktree_id = resolve(console, client, args).await?;
    Ok(pb::WorktreeName { worktree_id, ..Default::default() })
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
    let meant: Vec<&pb::Worktree> = worktrees
        .iter()
        .filter(|worktree| worktree.name == typed || Path::new(&worktree.path) == path)
        .collect();
    match meant.as_slice() {
        [one] => Ok(one.id.clone()),
        [] => {
            let names = worktrees.iter().map(|tree| tree.name.as_str());
            let meant = config::nearest::suggestion(typed, names);
            Err(Failure::coded(
                domain::ErrorCode::WorktreeNotFound,
                format!("{} has no worktree {typed}{meant}", repo.display()),
            ))
        }
        several => {
            let ids: Vec<&str> = several.iter().map(|worktree| worktree.id.as_str()).collect();
            Err(Failure::usage(format!("{typed} could be any of {}; use the id", ids.join(", "))))
        }
    }
}

pub(in crate::commands) async fn listed(client: &Client, repo: &Path) -> Result<Vec<pb::Worktree>> {
    let request = pb::WorktreeListRequest { repo_path: text(repo)? };
    Ok(client.worktrees().list(request).await?.into_inner().worktrees)
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

fn show(console: &mut Console, worktree: &pb::Worktree) -> Result<()> {
    if console.out.json {
        return console.out.json(&json::worktree(worktree));
    }
    let pairs = [
        ("Worktree", worktree.id.clone()),
        ("Name", worktree.name.clone()),
        ("Branch", worktree.branch.clone()),
        ("Base", worktree.base.clone()),
        ("Session", worktree.active_session_id.clone()),
        ("Folder", worktree.path.clone()),
    ];
    named(&pairs).iter().try_for_each(|line| console.out.line(line))
}
