//! `obey run`: an agent in this folder, in one step. Registers the folder after asking once, chooses the agent, starts
//! the session, sends the prompt and follows it.

use std::path::Path;

use domain::containment::{NETWORK_KEY, SANDBOX_KEY};
use domain::{ErrorCode, Status};
use git_files::Head;
use serde_json::json;
use wire::obey::local::v1 as local;
use wire::obey::v1 as pb;

use super::agent_choice;
use super::session::{self, Plan};
use super::tree_folder::{innermost, own_tree, root_of};
use cli_args::everyday::RunArgs;
use client::attachments;
use client::connection::Client;
use client::format;
use client::names;
use client::resolve;
use config::exit::Exit;
use config::failure::{Failure, Result};
use terminal::console::Console;
use terminal::output::TextStyle;
use terminal::table::named;

/// Keys of `provider_config` that are common to all providers.
const MODE_KEY: &str = "permission_mode";
const FOLDER_KEY: &str = "workdir";
const TREE_KEY: &str = "worktree";
const TREE_PROMPT_KEY: &str = "worktree_prompt";
const BUDGET_KEY: &str = "budget_usd";

/// How much of a commit's id is shown.
const SHORT_COMMIT_CHARS: usize = 12;

/// The turn of a session's first prompt.
const FIRST_TURN: &str = "turn_1";

pub(super) async fn run(console: &mut Console, mut args: RunArgs) -> Result<Exit> {
    take_prompt_from_tree(&mut args);
    let prompt = prompt_of(console, &args)?;
    let attachments = attachments::read(&args.image)?;
    let client = console.connect().await?;
    if args.worktree.is_some() {
        check_repository(&console.folder)?;
    }
    // First, so that nothing is registered where no agent can be started.
    let agent = agent_choice::choose(console, &client, args.provider.as_deref()).await?;
    let Project { campaign, tree } = project(console, &client, args.yes).await?;
    let mut request = local::CreateSessionRequest {
        campaign_id: campaign.id,
        provider: names::provider_number(agent.provider).into(),
        model: args.model.clone().unwrap_or_default(),
        agent_name: args.name.clone().unwrap_or_default(),
        initial_message: prompt.clone().filter(|_| attachments.is_empty()).unwrap_or_default(),
        ..Default::default()
    };
    if let Some(prompt) = prompt.as_deref().filter(|_| args.name.is_none()) {
        request
            .provider_config
            .insert(names::NAME_PROMPT_KEY.to_owned(), names::beginning(prompt).to_owned());
    }
    if let Some(name) = agent.agent {
        request.provider_config.insert(agent_choice::AGENT_KEY.to_owned(), name);
    }
    if let Some(mode) = args.mode {
        request.provider_config.insert(MODE_KEY.to_owned(), mode.name().to_owned());
    }
    if let Some(usd) = args.budget {
        request.provider_config.insert(BUDGET_KEY.to_owned(), usd.to_string());
    }
    if args.sandbox {
        request.provider_config.insert(SANDBOX_KEY.to_owned(), true.to_string());
    }
    if let Some(network) = args.network {
        request.provider_config.insert(NETWORK_KEY.to_owned(), network.name().to_owned());
    }
    if let Some(tree) = args.worktree.clone().or(tree) {
        request.provider_config.insert(TREE_KEY.to_owned(), tree);
        request.provider_config.insert(
            TREE_PROMPT_KEY.to_owned(),
            names::beginning(prompt.as_deref().unwrap_or_default()).to_owned(),
        );
    } else if let Some(below) = below(&console.folder, Path::new(&campaign.path)) {
        request.provider_config.insert(FOLDER_KEY.to_owned(), below);
    }
    console.out.status("starting the agent… (Ctrl-C leaves it starting; obey ps shows it)")?;
    let started = session::create(console, &client, Plan { request, parent: None }).await?;
    console.out.hide_status()?;
    show(console, &started)?;
    if names::status(started.status) == Some(Status::Failed) {
        return Err(Failure::coded(ErrorCode::CreateFailed, started.error_message));
    }
    if !attachments.is_empty() {
        // The creation of a session takes no files, so the prompt follows it.
        let text = prompt.clone().unwrap_or_default();
        session::prompt_with(&client, &started.id, text, attachments).await?;
    }
    follow(console, client, &started, prompt.is_some(), args.detach).await
}

/// `-w PROMPT` without a name: a name has no spaces, so the words behind `-w` are the prompt.
fn take_prompt_from_tree(args: &mut RunArgs) {
    if let Some(tree) = &mut args.worktree
        && args.prompt.is_none()
        && tree.trim().contains(char::is_whitespace)
    {
        args.prompt = Some(std::mem::take(tree));
    }
}

/// Returns the prompt, from the command line or standard input.
fn prompt_of(console: &mut Console, args: &RunArgs) -> Result<Option<String>> {
    let text = match args.prompt.as_deref() {
        Some("-") => console.read_message()?,
        Some(text) => text.to_owned(),
        None => return Ok(None),
    };
    if text.trim().is_empty() {
        return Err(Failure::usage("the prompt is empty"));
    }
    Ok(Some(text))
}

/// Shows the work on the prompt: as a conversation on a terminal, else until the turn ends.
async fn follow(
    console: &mut Console,
    client: Client,
    started: &local::SessionInfo,
    has_prompt: bool,
    detach: bool,
) -> Result<Exit> {
    let name = format::shell_word(&started.agent_name);
    if detach || (!has_prompt && !console.can_ask()) {
        let text = format!("Talk to it: obey attach {name} · obey send {name} \"…\"");
        console.out.note(TextStyle::Dim, &text)?;
        return Ok(Exit::OK);
    }
    if console.can_ask() {
        return session::converse(console, client, started, has_prompt).await;
    }
    session::watch_turn(console, client, started.id.clone(), FIRST_TURN).await
}

fn show(console: &mut Console, started: &local::SessionInfo) -> Result<()> {
    let branch = branch_of(Path::new(&started.working_dir)).unwrap_or_default();
    if console.out.json {
        return console.out.json(&json!({
            "session_id": started.id, "name": started.agent_name, "folder": started.working_dir, "branch": branch,
            "provider": names::provider(started.provider), "model": started.model,
        }));
    }
    let pairs = [
        ("Session", started.id.clone()),
        ("Name", started.agent_name.clone()),
        ("Folder", started.working_dir.clone()),
        ("Branch", branch),
    ];
    named(&pairs).into_iter().try_for_each(|line| console.out.line(&line))
}

/// Where a session is to work.
struct Project {
    campaign: pb::Campaign,
    /// The id of the working tree in which the caller stands, if that is not the project's own folder.
    tree: Option<String>,
}

/// Returns the project of the current folder; one that is not registered is registered after asking once.
async fn project(console: &mut Console, client: &Client, yes: bool) -> Result<Project> {
    let campaigns = resolve::campaigns(client).await?;
    let folder = console.folder.canonicalize().unwrap_or_else(|_| console.folder.clone());
    if let Some(campaign) = innermost(&campaigns, &folder) {
        return Ok(Project { campaign, tree: None });
    }
    if let Some((campaign, tree)) = own_tree(client, &campaigns, &folder).await {
        return Ok(Project { campaign, tree: Some(tree) });
    }
    let root = root_of(&folder);
    check_root(console, &root)?;
    if !yes && !ask(console, &root).await? {
        return Err(Failure::coded(
            ErrorCode::CampaignNotFound,
            format!("{} is not registered as a campaign{}", root.display(), on_machine(console)?),
        )
        .with_hint("register it there: obey run --yes …, or obey campaign add PATH"));
    }
    let request = pb::AddCampaignRequest { path: root.to_string_lossy().into_owned(), ..Default::default() };
    let campaign = client.campaigns().add_campaign(request).await?.into_inner();
    let text = format!("Registered {} as the campaign {}.", campaign.path, campaign.name);
    console.out.note(TextStyle::Dim, &text)?;
    Ok(Project { campaign, tree: None })
}

/// Says which machine is meant where it is not this one: folders are looked up there.
fn on_machine(console: &Console) -> Result<String> {
    let machine = console.machine()?;
    Ok(machine.map_or_else(String::new, |machine| format!(" on the machine {}", machine.name)))
}

/// A folder without a repository has no trees; said before anything is registered.
fn check_repository(folder: &Path) -> Result<()> {
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    if git_files::root_around(&folder).is_some() {
        return Ok(());
    }
    Err(Failure::usage(format!("{} is in no git repository, so it has no working trees", folder.display()))
        .with_hint("leave out -w, or begin one: git init && git commit --allow-empty -m begin"))
}

/// A home folder is no project: an agent would see everything.
fn check_root(console: &Console, root: &Path) -> Result<()> {
    let home = console.paths.home.as_ref().and_then(|home| home.canonicalize().ok());
    if root.parent().is_none() || home.is_some_and(|home| home == root) {
        return Err(Failure::usage(format!(
            "{} cannot be a campaign: agents would see all of it",
            root.display()
        ))
        .with_hint("go to the folder of a project first: cd PROJECT"));
    }
    Ok(())
}

/// Asks once; no without a terminal.
async fn ask(console: &mut Console, root: &Path) -> Result<bool> {
    if !console.can_ask() {
        return Ok(false);
    }
    console
        .out
        .ask(&format!("Let agents work in {}? It becomes a campaign of obey. [Y/n] ", root.display()))?;
    let line = console.input.single_line();
    console.out.answered();
    Ok(line.is_some_and(|line| !line.trim().to_lowercase().starts_with('n')))
}

/// Returns the path below a project's root at which the caller stands; `None` at the root.
fn below(folder: &Path, root: &Path) -> Option<String> {
    let folder = folder.canonicalize().ok()?;
    let below = folder.strip_prefix(root).ok()?;
    (!below.as_os_str().is_empty()).then(|| below.to_string_lossy().into_owned())
}

/// Returns what is checked out in the repository around a folder, as people write it. Nothing of a repository is run.
fn branch_of(folder: &Path) -> Option<String> {
    let git_folder = git_files::git_folder(git_files::root_around(folder)?)?;
    Some(match git_files::head(&git_folder)? {
        Head::Branch(name) => name,
        Head::Commit(id) => id.chars().take(SHORT_COMMIT_CHARS).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_branch_is_read_from_a_repository_and_from_a_tree_of_it() {
        let temp = tempfile::tempdir().unwrap();
        let repo = temp.path().join("repo");
        std::fs::create_dir_all(repo.join(".git/worktrees/fix")).unwrap();
        std::fs::create_dir_all(repo.join("src/deep")).unwrap();
        std::fs::write(repo.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
        std::fs::write(repo.join(".git/worktrees/fix/HEAD"), "ref: refs/heads/feature/fix\n").unwrap();
        let tree = temp.path().join("fix");
        std::fs::create_dir(&tree).unwrap();
        let git_dir = repo.join(".git/worktrees/fix");
        std::fs::write(tree.join(".git"), format!("gitdir: {}\n", git_dir.display())).unwrap();
        assert_eq!(branch_of(&repo.join("src/deep")).as_deref(), Some("main"));
        assert_eq!(branch_of(&tree).as_deref(), Some("feature/fix"));
        std::fs::write(repo.join(".git/HEAD"), "0123456789abcdef0123456789abcdef01234567\n").unwrap();
        assert_eq!(branch_of(&repo).as_deref(), Some("0123456789ab"));
        assert_eq!(root_of(&repo.join("src/deep")), repo);
        assert_eq!(below(&repo.join("src"), &repo.canonicalize().unwrap()).as_deref(), Some("src"));
    }
}
