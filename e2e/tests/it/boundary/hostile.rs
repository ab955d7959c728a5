//! What a repository may bring: files that are no files, a configuration that runs programs, a root that is exchanged.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use anyhow::{Result, ensure};
use e2e::cli::Output;
use e2e::world::World;
use wire::obey::v1 as own;

use crate::stage::{Agent, CAMPAIGN, Stage};

async fn stage() -> Result<Stage> {
    let stage = Stage::open(Agent::Scripted).await?;
    stage.ok_or_else(|| anyhow::anyhow!("the scripted agent is part of the daemon"))
}

async fn exec(stage: &Stage, args: &[&str]) -> Result<Output> {
    let args: Vec<&str> = ["exec", "-c", CAMPAIGN, "--"].iter().chain(args).copied().collect();
    stage.cli().run(&args).await
}

fn resident_bytes(stage: &Stage) -> Result<u64> {
    let pid = stage.daemon.pid().unwrap_or(0);
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("0");
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0) * 1024)
}

#[tokio::test]
async fn an_allow_list_that_is_no_file_of_the_repository_forbids_and_nobody_waits() -> Result<()> {
    let stage = stage().await?;
    let list = stage.world.project().join(".campaign/settings/allowlist.json");
    std::fs::create_dir_all(list.parent().unwrap_or(Path::new("/")))?;
    let outside = stage.world.path("outside.json");
    std::fs::write(&outside, "{}")?;
    type Put = fn(&Path, &Path) -> Result<()>;
    let cases: [(&str, Put); 4] = [
        ("leads out", |list, _| Ok(symlink("/dev/zero", list)?)),
        ("leads out", |list, outside| Ok(symlink(outside, list)?)),
        ("larger than", |list, _| Ok(std::fs::File::create(list)?.set_len(1 << 30)?)),
        ("regular file", |list, _| {
            ensure!(std::process::Command::new("mkfifo").arg(list).status()?.success());
            Ok(())
        }),
    ];
    for (expected, put) in cases {
        put(&list, &outside)?;
        // More calls than the daemon has workers.
        let calls = (0..6).map(|_| exec(&stage, &["git", "--version"]));
        let mut calls: Vec<_> = calls.map(Box::pin).collect();
        for call in &mut calls {
            let output = call.await?;
            ensure!(output.code != Some(0) && output.stderr.contains("OBEY-1020"), "{output:#?}");
            ensure!(output.stderr.contains(expected), "{expected}: {output:#?}");
        }
        stage.cli().ok(&["ping"]).await?;
        std::fs::remove_file(&list)?;
    }
    ensure!(resident_bytes(&stage)? < 512 << 20, "{}", resident_bytes(&stage)?);
    ensure!(exec(&stage, &["git", "--version"]).await?.code == Some(0));
    stage.close().await
}

/// Has every kind of program that git lets a repository name leave a mark.
fn poison(world: &World) -> Result<()> {
    let (git, root) = (world.project().join(".git"), world.root().display().to_string());
    let evil = |what: &str| format!("sh -c 'touch {root}/mark-{what}; cat'");
    let mut config = std::fs::read_to_string(git.join("config"))?;
    for (section, key) in [
        ("filter \"evil\"", "process"),
        ("filter \"evil\"", "clean"),
        ("diff \"evil\"", "textconv"),
        ("diff", "external"),
        ("core", "sshCommand"),
        ("core", "editor"),
        ("credential", "helper"),
        ("gpg", "program"),
    ] {
        config.push_str(&format!("[{section}]\n\t{key} = \"{}\"\n", evil(key)));
    }
    config.push_str("[include]\n\tpath = more\n[commit]\n\tgpgSign = true\n");
    std::fs::write(git.join("config"), config)?;
    std::fs::write(git.join("more"), format!("[core]\n\tfsmonitor = \"{}\"\n", evil("fsmonitor")))?;
    std::fs::create_dir_all(git.join("hooks"))?;
    for hook in ["pre-commit", "post-checkout", "reference-transaction", "post-index-change"] {
        let path = git.join("hooks").join(hook);
        std::fs::write(&path, format!("#!/bin/sh\ntouch {root}/mark-{hook}\n"))?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
    }
    std::fs::write(world.project().join(".gitattributes"), "* filter=evil diff=evil\n")?;
    Ok(())
}

fn marks(world: &World) -> Result<Vec<String>> {
    let entries = std::fs::read_dir(world.root())?.flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    Ok(names.filter(|name| name.starts_with("mark-")).collect())
}

#[tokio::test]
async fn git_runs_no_program_that_the_repository_names() -> Result<()> {
    let stage = stage().await?;
    poison(&stage.world)?;
    let tracked = stage.world.project().join("tracked");
    for (number, line) in [
        "status",
        "diff",
        "log -p -3",
        "grep -n x",
        "show HEAD",
        "commit --allow-empty -m guarded",
        "switch -c next",
        "stash push",
        "fetch ssh://host.invalid/x",
        "branch -a",
    ]
    .into_iter()
    .enumerate()
    {
        std::fs::write(&tracked, format!("{number}\n"))?;
        let args: Vec<&str> = ["git"].into_iter().chain(line.split(' ')).collect();
        let output = exec(&stage, &args).await?;
        let marks = marks(&stage.world)?;
        ensure!(marks.is_empty(), "{line}: {marks:?} {output:#?}");
    }
    // The same without the daemon: the repository does bite.
    std::process::Command::new("git").arg("status").current_dir(stage.world.project()).output()?;
    ensure!(!marks(&stage.world)?.is_empty());
    stage.close().await
}

#[tokio::test]
async fn git_arguments_that_run_programs_write_files_or_lose_work_are_refused_by_name() -> Result<()> {
    let stage = stage().await?;
    let mark = stage.world.path("mark-argument").display().to_string();
    let touch = format!("touch {mark}");
    let (pager, output) = (format!("-O{touch}"), format!("--output={mark}"));
    for (args, named) in [
        (&["grep", &pager, "x"][..], "-O"),
        (&["clone", "--upload-pack", &touch, ".", "x"], "--upload-pack"),
        (&["log", &output], "--output"),
        (&["branch", "-D", "main"], "-D"),
        (&["update-ref", "-d", "HEAD"], "update-ref"),
        (&["config", "--global", "user.name", "x"], "--global"),
        (&["-c", "alias.x=!touch", "x"], "-c"),
        (&["--exec-path=/tmp", "status"], "--exec-path"),
        (&["--config-env=alias.x=HOME", "x"], "--config-env"),
        (&["reset", "--hard"], "--hard"),
    ] {
        let args: Vec<&str> = ["git"].iter().chain(args).copied().collect();
        let refused = exec(&stage, &args).await?;
        ensure!(refused.code != Some(0) && refused.stderr.contains("OBEY-1020"), "{refused:#?}");
        ensure!(refused.stderr.contains(named), "{named}: {refused:#?}");
    }
    let with_env = ["exec", "-c", CAMPAIGN, "--env", "GIT_DIR=/tmp", "--", "git", "status"];
    let refused = stage.cli().run(&with_env).await?;
    ensure!(refused.code != Some(0) && refused.stderr.contains("GIT_DIR"), "{refused:#?}");
    ensure!(marks(&stage.world)?.is_empty());
    stage.close().await
}

#[tokio::test]
async fn a_root_that_was_exchanged_is_refused_until_it_is_registered_anew() -> Result<()> {
    let stage = stage().await?;
    let (root, kept, other) =
        (stage.world.path("pinned"), stage.world.path("kept"), stage.world.path("other"));
    for folder in [&root, &other] {
        std::fs::create_dir(folder)?;
    }
    let path = root.display().to_string();
    let add = own::AddCampaignRequest { path, name: "pinned".into(), ..Default::default() };
    stage.clients.campaigns.clone().add_campaign(add.clone()).await?;
    let exec = async || stage.cli().run(&["exec", "-c", "pinned", "--", "git", "--version"]).await;
    let create = async || {
        let mut request = stage.new_session();
        request.campaign_id = "pinned".into();
        stage.clients.local.clone().create_session(request).await
    };
    ensure!(exec().await?.code == Some(0));
    std::fs::rename(&root, &kept)?;
    for what in ["link", "folder"] {
        match what {
            "link" => symlink(&other, &root)?,
            _ => std::fs::create_dir(&root)?,
        }
        let refused = exec().await?;
        ensure!(refused.code != Some(0) && refused.stderr.contains("OBEY-2005"), "{what}: {refused:#?}");
        ensure!(refused.stderr.contains("obey campaign add"), "{what}: {refused:#?}");
        let refused = create().await.expect_err("a session in another folder");
        ensure!(refused.message().contains("not the folder that was registered"), "{what}: {refused}");
        if what == "link" {
            std::fs::remove_file(&root)?;
        }
    }
    stage.clients.campaigns.clone().add_campaign(add).await?;
    ensure!(exec().await?.code == Some(0), "registered anew");
    stage.close().await
}

#[tokio::test]
async fn a_session_does_not_start_again_in_a_root_that_was_exchanged() -> Result<()> {
    let stage = stage().await?;
    let id = stage.create().await?;
    stage.cli().ok(&["session", "stop", &id]).await?;
    std::fs::rename(stage.world.project(), stage.world.path("kept"))?;
    symlink("/etc", stage.world.project())?;
    let refused = stage.cli().run(&["session", "restart", &id]).await?;
    ensure!(refused.code != Some(0), "{refused:#?}");
    ensure!(refused.stderr.contains("not the folder that was registered"), "{refused:#?}");
    stage.close().await
}
