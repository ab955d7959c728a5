//! What an agent in the sandbox leaves in a repository, and what the user's own git does there afterwards: it runs no program
//! of the agent's.

use std::path::Path;

use anyhow::{Result, ensure};

use super::contained::contained_session;
use super::{hostile_stage, hostile_stage_with, run_as_agent};
use crate::stage::Stage;

/// Runs the user's git and returns what it printed, whatever became of it.
fn git(stage: &Stage, folder: &Path, arguments: &[&str]) -> Result<String> {
    let output = stage.world.command("git").args(arguments).current_dir(folder).output()?;
    Ok(format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)))
}

/// Shell words that make a repository of the current folder without `.git`, whose configuration runs a program.
fn bare_repository(stage: &Stage) -> String {
    let (mark, project) = (stage.world.path("mark"), stage.world.project());
    format!(
        "git init -q --bare . 2>/dev/null; mkdir -p objects refs; echo 'ref: refs/heads/main' > HEAD; \
         printf '[core]\\n\\trepositoryformatversion = 0\\n\\tbare = false\\n\\tworktree = {}\\n\\tfsmonitor = \"touch {}; false\"\\n' \
         > config; ls",
        project.display(),
        mark.display()
    )
}

fn nothing_ran(stage: &Stage, what: &str) -> Result<()> {
    ensure!(!stage.world.path("mark").exists(), "{what}: the user's git ran the agent's program");
    Ok(())
}

/// What lies in `worktrees` says where the repository of another tree is.
#[tokio::test]
async fn trees_of_others_are_not_led_elsewhere_from_the_main_one() -> Result<()> {
    let stage = hostile_stage().await?;
    let (project, tree, later) = (stage.world.project(), stage.world.path("tree"), stage.world.path("later"));
    git(&stage, &project, &["worktree", "add", "-q", &tree.display().to_string(), "-b", "tree"])?;
    let session = contained_session(&stage, "none").await?;
    git(&stage, &project, &["worktree", "add", "-q", &later.display().to_string(), "-b", "later"])?;
    let mark = stage.world.path("mark");
    let script = format!(
        "cd {root}; mkdir evil; cp -r .git/HEAD .git/refs .git/objects evil; \
         printf '[core]\\n\\trepositoryformatversion = 0\\n\\tfsmonitor = \"touch {mark}; false\"\\n' > evil/config; \
         for own in .git/worktrees/*; do echo {root}/evil > $own/commondir; echo x > $own/config.worktree; \
         echo x > $own/gitdir; mv $own .git/moved; done; mv .git/worktrees .git/moved; mkdir .git/worktrees/new; \
         echo mine > own; git add own && git -c user.name=A -c user.email=a@e.invalid commit -qm own && echo committed",
        root = project.display(),
        mark = mark.display()
    );
    let said = run_as_agent(&stage, &session, &script).await?;
    ensure!(said.contains("committed"), "git works in the main tree: {said}");
    for (folder, branch) in [(&tree, "tree"), (&later, "later")] {
        let status = git(&stage, folder, &["status", "--branch", "--short"])?;
        ensure!(status.trim() == format!("## {branch}"), "{branch}: {status}");
    }
    nothing_ran(&stage, "status of the other trees")?;
    let names = std::fs::read_dir(project.join(".git/worktrees"))?.count();
    ensure!(names == 2, "nothing was added: {names}");
    stage.close().await
}

#[tokio::test]
async fn no_repository_is_made_of_a_project_without_one() -> Result<()> {
    let stage = hostile_stage().await?;
    let project = stage.world.project();
    std::fs::remove_dir_all(project.join(".git"))?;
    let session = contained_session(&stage, "none").await?;
    let said =
        run_as_agent(&stage, &session, &format!("cd {}; {}", project.display(), bare_repository(&stage)))
            .await?;
    ensure!(said.contains("config") && said.contains("HEAD"), "it was tried: {said}");
    git(&stage, &project, &["status"])?;
    nothing_ran(&stage, "while the agent runs")?;
    stage.stop(&session, false).await?;
    git(&stage, &project, &["status"])?;
    nothing_ran(&stage, "after its end")?;
    ensure!(
        !project.join("refs").exists() && !project.join("commondir").exists(),
        "what stood there is gone"
    );
    stage.close().await
}

/// Git looks in the folder itself where `.git` is none any more.
#[tokio::test]
async fn no_other_repository_is_put_beside_one_that_was_destroyed() -> Result<()> {
    let stage = hostile_stage().await?;
    let project = stage.world.project();
    let session = contained_session(&stage, "none").await?;
    let script = format!("cd {}; rm .git/HEAD; {}", project.display(), bare_repository(&stage));
    let said = run_as_agent(&stage, &session, &script).await?;
    ensure!(said.contains("config"), "it was tried: {said}");
    git(&stage, &project, &["status"])?;
    nothing_ran(&stage, "while the agent runs")?;
    stage.stop(&session, false).await?;
    git(&stage, &project, &["status"])?;
    nothing_ran(&stage, "after its end")?;
    stage.close().await
}

#[tokio::test]
async fn a_repository_under_another_name_is_protected() -> Result<()> {
    let stage = hostile_stage_with(|world| {
        let project = world.project();
        let status = world
            .command("git")
            .args(["init", "-q", "--separate-git-dir", "store"])
            .current_dir(&project)
            .status()?;
        ensure!(status.success(), "git init: {status}");
        Ok(())
    })
    .await?;
    let project = stage.world.project();
    ensure!(
        project.join(".git").is_file() && project.join("store/HEAD").is_file(),
        "the repository is in `store`"
    );
    let session = contained_session(&stage, "none").await?;
    let mark = stage.world.path("mark");
    let script = format!(
        "cd {}; git config core.fsmonitor 'touch {mark}; false'; mv store away; \
         printf '[core]\\n\\tfsmonitor = \"touch {mark}; false\"\\n' >> store/config; \
         printf '#!/bin/sh\\ntouch {mark}\\n' > store/hooks/post-index-change; chmod +x store/hooks/post-index-change; \
         echo mine > own; git add own && git -c user.name=A -c user.email=a@e.invalid commit -qm own && echo committed",
        project.display(),
        mark = mark.display()
    );
    let said = run_as_agent(&stage, &session, &script).await?;
    ensure!(said.contains("committed"), "git works: {said}");
    let status = git(&stage, &project, &["status", "--short"])?;
    ensure!(!status.contains("fatal"), "{status}");
    nothing_ran(&stage, "status")?;
    stage.close().await
}
